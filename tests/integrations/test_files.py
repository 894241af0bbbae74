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
from upsweep.files import blocks
from upsweep.files.grid import Grid


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(files, "CHUNK_BYTES", 4096)


@pytest.mark.parametrize("first", [0, 1024, 3001])
@pytest.mark.parametrize("types", [{}, {"v": "float"}])
def test_lines_come_in_blocks_that_a_stream_takes_whole(tmp_path, monkeypatch, first, types):
    """Wherever the first line stands, and where a column is read twice: as numbers and as text."""
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 13)
    lines = [f"{i * i},{i}" for i in range(9000)]
    (tmp_path / "t.csv").write_text("\n".join(["v,w", *lines]))
    types = {name: pa.float64() for name in types}
    made = list(blocks.opened(tmp_path / "t.csv").blocks(first, ["v"], types, ["v", "w"] if types else ["w"]))
    starts = np.cumsum([first, *(block.num_rows for _, block, _ in made)])
    assert starts[-1] == 9000
    # A scan that goes on comes into the middle of its first block.
    assert all(start % 512 == 0 for start in starts[2:-1])
    assert max(np.diff(starts)) <= 2048
    assert [v for _, block, _ in made for v in block["v"].to_pylist()] == [i * i for i in range(first, 9000)]
    assert [w for _, _, kept in made for w in kept["w"].to_pylist()] == [f"{i}" for i in range(first, 9000)]


def test_not_all_is_done_before_the_last_block(tmp_path, monkeypatch):
    """Also where the reader has come to the end of the file, as it has while its first blocks are scanned."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 13)
    (tmp_path / "t.csv").write_text("\n".join(["v", *map(str, range(9000))]))
    table = blocks.opened(tmp_path / "t.csv")
    done = []
    for at, _, _ in table.blocks(0, ["v"], {}, []):
        time.sleep(0.05)
        done.append(at)
    assert len(done) > 3
    assert max(done[:-1]) < done[-1] == table.total


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
    up.scan_file(source, target, "add", axis=axis, initial=0.5, progress=lambda *at: seen.append(at))
    got = np.load(target) if target.suffix == ".npy" else zarr.open_array(target, mode="r")[:]
    np.testing.assert_array_equal(got, up.scan(x, axis=axis, initial=0.5))
    assert seen[-1] == ("scanning", 8500, 8500)
    assert len(seen) > 3 or suffixes == ("npy", "zarr")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([source.name, target.name])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(40, 30, 20), (3, 4, 2000), (2000, 1, 3)], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_shape_and_axis_is_cut_so_that_it_fits(tmp_path, small_chunks, shape, axis, order):
    rng = np.random.default_rng(0)
    x = np.asarray(rng.normal(size=shape), order=order)
    start = rng.normal(size=shape[:axis] + shape[axis + 1 :])
    np.save(tmp_path / "x.npy", x)
    for keywords in ({"initial": start}, {"reverse": True, "exclusive": True}):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", axis=axis, overwrite=True, **keywords)
        got = np.load(tmp_path / "y.npy")
        assert got.flags.f_contiguous == x.flags.f_contiguous
        np.testing.assert_array_equal(got, up.scan(x, axis=axis, **keywords))


@pytest.mark.parametrize("axis", [0, 1])
def test_segments_in_memory_and_records(tmp_path, small_chunks, axis):
    rng = np.random.default_rng(0)
    record = np.dtype([("a", "f4"), ("b", "f4")])
    x = rng.random((600, 40, 2), np.float32).view(record)[..., 0]
    np.save(tmp_path / "x.npy", x)
    keys = rng.integers(0, 2, x.shape[axis])
    keywords = {"axis": axis, "segments": up.segments.keys(keys), "initial": (1.0, 3.0)}
    up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", "affine", **keywords)
    got, (a, b) = np.load(tmp_path / "y.npy"), up.scan((x["a"], x["b"]), "affine", **keywords)
    np.testing.assert_array_equal(got["a"], a)
    np.testing.assert_array_equal(got["b"], b)
    up.scan_file(tmp_path / "x.npy", tmp_path / "z.npy", columns=["b"], axis=axis)
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), up.scan(x["b"], axis=axis))


def test_blocks_are_contiguous_cover_everything_once_and_fit():
    for shape in ((7,), (3, 5), (2, 3, 40), (1, 50), (40, 1, 2), (2, 3, 4, 5)):
        for axis in range(len(shape)):
            for room in (8, 24, 100, 10_000):
                place = np.arange(np.prod(shape)).reshape(shape)
                seen = []
                for rows, along in Grid.of(shape, axis, 8, room).blocks():
                    items = place[(*rows[:axis], along, *rows[axis + 1 :])].ravel()
                    np.testing.assert_array_equal(items, items[0] + np.arange(items.size))
                    assert items.size * 8 <= room
                    seen.append(items)
                np.testing.assert_array_equal(np.sort(np.concatenate(seen)), place.ravel())


SLOW = """
import sys, time
import numpy as np, upsweep as up
from upsweep import files
files.CHUNK_BYTES, files.work.SAVE_SECONDS = 4096, 0.0
folder, wait = sys.argv[1], float(sys.argv[2])
done = []
def progress(doing, at, n):
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
    while not (tmp_path / "y.npy.part" / "done.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    os.kill(slow.pid, signal.SIGKILL)
    slow.wait()
    assert not (tmp_path / "y.npy").exists()
    rest = subprocess.run(
        [sys.executable, "-c", SLOW, str(tmp_path), "0"], capture_output=True, text=True, check=True
    )
    # The command did not start anew.
    assert int(rest.stdout) > 512
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), up.scan(x))
    assert not (tmp_path / "y.npy.part").exists()


@pytest.mark.parametrize(
    "other", [{"exclusive": True}, {"map": lambda x: x - 1}, {"finish": lambda p: p - 1}], ids=list
)
def test_another_scan_of_the_same_name_starts_anew(tmp_path, small_chunks, monkeypatch, other):
    monkeypatch.setattr(files.work, "SAVE_SECONDS", 0.0)
    np.save(tmp_path / "x.npy", np.ones(2000))

    def stop(doing, done, n):
        if done > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", progress=stop)
    seen = []
    up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", **other, progress=lambda *at: seen.append(at))
    assert seen[0] == ("scanning", 0, 2000)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), up.scan(np.ones(2000), **other))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("keywords", [{}, {"reverse": True, "exclusive": True}, {"initial": 7}], ids=str)
def test_maps_and_finishes(tmp_path, small_chunks, axis, order, keywords):
    x = np.asarray(np.random.default_rng(0).integers(0, 99, (1300, 7)), order=order)
    np.save(tmp_path / "x.npy", x)
    how = {"axis": axis, "map": lambda x: x * 3, "finish": lambda p, x, i: (p - x * i, p > 50), **keywords}
    up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", names=("gap", "above"), **how)
    got, want = np.load(tmp_path / "y.npy"), up.scan(x, **how)
    assert got.dtype.names == ("gap", "above")
    np.testing.assert_array_equal(got["gap"], want[0])
    np.testing.assert_array_equal(got["above"], want[1])


def test_records_and_segments_through_a_map(tmp_path, small_chunks):
    rng = np.random.default_rng(1)
    x = np.zeros(3000, [("a", "f8"), ("b", "i4"), ("c", "i8")])
    x["a"], x["b"], heads = rng.random(3000), rng.integers(0, 9, 3000), rng.random(3000) < 0.01
    np.save(tmp_path / "x.npy", x)
    how = {"map": lambda a, b: a * b, "segments": up.segments.flags(heads)}
    want = up.scan((x["a"], x["b"]), **how)
    up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", columns=("a", "b"), names=("product",), **how)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), want)
    # Without a map each is scanned, and finished, by itself.
    up.scan_file(tmp_path / "x.npy", tmp_path / "z.npy", columns=("b", "c"), finish=lambda p, x: p - x)
    z = np.load(tmp_path / "z.npy")
    for name in ("b", "c"):
        np.testing.assert_array_equal(z[name], up.scan(x[name], finish=lambda p, x: p - x))


def test_errors(tmp_path):
    (tmp_path / "x.txt").write_text("1")
    with pytest.raises(files.FileError, match="neither"):
        up.scan_file(tmp_path / "x.txt", tmp_path / "y.npy")
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    with pytest.raises(up.ShapeError, match="axis"):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy")
    with pytest.raises(files.FileError, match="neither"):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.bin", axis=0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npy", "x.txt"]
