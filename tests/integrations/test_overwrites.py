"""A file or a Zarr array that exists is replaced where the caller says so, and nothing else that is a folder or a link."""

import os

import numpy as np
import pytest

import upsweep as up

zarr = pytest.importorskip("zarr")

X = np.arange(12.0).reshape(4, 3)


def array(path, x):
    zarr.open_array(path, mode="w", shape=x.shape, chunks=(2, 3), dtype=x.dtype)[:] = x


def test_an_array_is_replaced(tmp_path):
    np.save(tmp_path / "x.npy", X)
    array(tmp_path / "y.zarr", np.zeros((50, 7), "i4"))
    with pytest.raises(up.FileError, match=r"exists already.*overwrite=True"):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.zarr", axis=0)
    up.scan_file(tmp_path / "x.npy", tmp_path / "y.zarr", axis=0, overwrite=True)
    made = zarr.open_array(tmp_path / "y.zarr", mode="r")
    assert np.array_equal(made[:], up.scan(X, axis=0))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npy", "y.zarr"]


def test_the_source_is_replaced(tmp_path):
    array(tmp_path / "x.zarr", X)
    up.scan_file(tmp_path / "x.zarr", tmp_path / "x.zarr", axis=0, overwrite=True)
    assert np.array_equal(zarr.open_array(tmp_path / "x.zarr", mode="r")[:], up.scan(X, axis=0))


@pytest.mark.skipif(os.name == "nt", reason="links need a right of their own")
def test_a_link_leads_to_the_result(tmp_path):
    np.save(tmp_path / "x.npy", X)
    array(tmp_path / "far" / "y.zarr", X)
    np.save(tmp_path / "far" / "y.npy", X)
    for name in ("y.zarr", "y.npy"):
        link, far = tmp_path / name, tmp_path / "far" / name
        link.symlink_to(far)
        assert up.scan_file(tmp_path / "x.npy", link, axis=0, overwrite=True) == link
        assert link.is_symlink()
        assert np.array_equal(
            np.load(far) if name == "y.npy" else zarr.open_array(far, mode="r")[:], up.scan(X, axis=0)
        )
    assert sorted(p.name for p in (tmp_path / "far").iterdir()) == ["y.npy", "y.zarr"]


@pytest.mark.parametrize("name", ["group.zarr", "other.zarr", "folder.npy"])
def test_other_folders_stay(tmp_path, name):
    np.save(tmp_path / "x.npy", X)
    if name == "group.zarr":
        array(tmp_path / name / "inner", X)
        zarr.open_group(tmp_path / name, mode="a")
    else:
        (tmp_path / name).mkdir()
        (tmp_path / name / "letter").write_text("kept")
    before = sorted((tmp_path / name).rglob("*"))
    with pytest.raises(up.FileError, match="exists already: delete it"):
        up.scan_file(tmp_path / "x.npy", tmp_path / name, axis=0, overwrite=True)
    assert sorted((tmp_path / name).rglob("*")) == before


def test_an_array_stays_where_the_result_cannot_be_moved(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", X)
    array(tmp_path / "y.zarr", X)
    move = os.replace

    def moved(made, target):
        if str(target).endswith("y.zarr") and "replaced" not in str(made):
            raise PermissionError(str(target))
        move(made, target)

    monkeypatch.setattr(os, "replace", moved)
    with pytest.raises(PermissionError):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.zarr", axis=0, overwrite=True)
    assert np.array_equal(zarr.open_array(tmp_path / "y.zarr", mode="r")[:], X)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npy", "y.zarr"]
