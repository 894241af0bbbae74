"""Files larger than memory: the bits of one call, also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import upsweep as up
from upsweep import files


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(files, "CHUNK_BYTES", 4096)


@pytest.mark.parametrize("suffixes", [("npy", "npy"), ("zarr", "zarr"), ("npy", "zarr")])
@pytest.mark.parametrize("axis", [0, 1])
def test_both_kinds_of_files(tmp_path, small_chunks, suffixes, axis):
    x = np.random.default_rng(0).normal(size=(1700, 5))
    source, target = (tmp_path / f"{name}.{suffix}" for name, suffix in zip("xy", suffixes))
    if suffixes[0] == "npy":
        np.save(source, x)
    else:
        zarr = pytest.importorskip("zarr")
        zarr.open_array(source, mode="w", shape=x.shape, chunks=(100, 5), dtype=x.dtype)[:] = x
    if "zarr" in suffixes:
        zarr = pytest.importorskip("zarr")
    seen = []
    up.scan_file(
        source, target, "add", axis=axis, initial=0.5, progress=lambda done, n: seen.append((done, n))
    )
    got = np.load(target) if target.suffix == ".npy" else zarr.open_array(target, mode="r")[:]
    np.testing.assert_array_equal(got, up.scan(x, axis=axis, initial=0.5))
    assert seen[-1] == (1700, 1700)
    assert len(seen) > 3 or suffixes == ("npy", "zarr")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([source.name, target.name])


SLOW = """
import sys, time
import numpy as np, upsweep as up
from upsweep import files
files.CHUNK_BYTES, files._SAVE_SECONDS = 4096, 0.0
folder, wait = sys.argv[1], float(sys.argv[2])
done = []
def progress(at, n):
    done.append(at)
    time.sleep(wait)
up.scan_file(folder + "/x.npy", folder + "/y.npy", progress=progress)
print(done[0])
"""


def test_a_killed_run_goes_on(tmp_path):
    x = np.random.default_rng(0).normal(size=100_000)
    np.save(tmp_path / "x.npy", x)
    slow = subprocess.Popen([sys.executable, "-c", SLOW, str(tmp_path), "0.02"])
    deadline = time.monotonic() + 60
    while not (tmp_path / "y.npy.state").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    os.kill(slow.pid, signal.SIGKILL)
    slow.wait()
    assert not (tmp_path / "y.npy").exists()
    rest = subprocess.run(
        [sys.executable, "-c", SLOW, str(tmp_path), "0"], capture_output=True, text=True, check=True
    )
    assert int(rest.stdout) > 512  # it did not start anew
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), up.scan(x))
    assert not (tmp_path / "y.npy.state").exists()


def test_a_partial_result_of_another_scan_is_refused(tmp_path, small_chunks, monkeypatch):
    monkeypatch.setattr(files, "_SAVE_SECONDS", -1.0)
    np.save(tmp_path / "x.npy", np.ones(2000))

    def stop(done, n):
        if done > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", progress=stop)
    with pytest.raises(files.FileError, match="another scan"):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", exclusive=True)
    np.testing.assert_array_equal(
        np.load(up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy")), np.arange(1.0, 2001)
    )


def test_errors(tmp_path):
    (tmp_path / "x.txt").write_text("1")
    with pytest.raises(files.FileError, match="neither"):
        up.scan_file(tmp_path / "x.txt", tmp_path / "y.npy")
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    with pytest.raises(up.ShapeError, match="axis"):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy")
    np.save(tmp_path / "f.npy", np.ones((2, 3), order="F"))
    with pytest.raises(files.FileError, match="Fortran"):
        up.scan_file(tmp_path / "f.npy", tmp_path / "y.npy", axis=0)
    with pytest.raises(files.FileError, match="neither"):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.bin", axis=0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.npy", "x.npy", "x.txt"]
