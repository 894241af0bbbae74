"""Files larger than memory: the bits of one call, also after a kill."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from decimal import Decimal

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
    """pyarrow is at the end of the file while its first blocks are scanned."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 13)
    # Lines of one length: bytes are rows.
    (tmp_path / "t.csv").write_text("\n".join(["v", *(f"{i:06}" for i in range(9000))]))
    table = blocks.opened(tmp_path / "t.csv")
    done, rows = [], [0]
    for at, block, _ in table.blocks(0, ["v"], {}, []):
        done.append(at)
        rows.append(rows[-1] + block.num_rows)
    assert len(done) > 3
    assert max(done[:-1]) < done[-1] == table.total
    # Some rows of a block wait for the next.
    assert all(0 <= at / table.total - r / 9000 < 0.3 for at, r in zip(done, rows[1:]))


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
    np.testing.assert_array_equal(got, up.scan(x, axis=axis, initial=0.5, engine="numpy"))
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
        np.testing.assert_array_equal(got, up.scan(x, axis=axis, **keywords, engine="numpy"))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_fortran_order_into_zarr(tmp_path, small_chunks, axis):
    """Such a file holds the transpose, and a Zarr array came out transposed."""
    zarr = pytest.importorskip("zarr")
    x = np.asfortranarray(np.arange(24000.0).reshape(40, 30, 20))
    np.save(tmp_path / "x.npy", x)
    up.scan_file(tmp_path / "x.npy", tmp_path / "y.zarr", axis=axis, reverse=True)
    got = zarr.open_array(tmp_path / "y.zarr", mode="r")[:]
    np.testing.assert_array_equal(got, up.scan(x, axis=axis, reverse=True, engine="numpy"))


@pytest.mark.dear
@pytest.mark.parametrize("axis", [0, 1])
def test_segments_in_memory_and_records(tmp_path, small_chunks, axis):
    rng = np.random.default_rng(0)
    record = np.dtype([("a", "f4"), ("b", "f4")])
    x = rng.random((600, 40, 2), np.float32).view(record)[..., 0]
    np.save(tmp_path / "x.npy", x)
    keys = rng.integers(0, 2, x.shape[axis])
    keywords = {"axis": axis, "segments": up.segments.keys(keys), "initial": (1.0, 3.0)}
    up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", "affine", **keywords)
    got, (a, b) = np.load(tmp_path / "y.npy"), up.scan((x["a"], x["b"]), "affine", **keywords, engine="numpy")
    np.testing.assert_array_equal(got["a"], a)
    np.testing.assert_array_equal(got["b"], b)
    up.scan_file(tmp_path / "x.npy", tmp_path / "z.npy", columns=["b"], axis=axis)
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), up.scan(x["b"], axis=axis, engine="numpy"))


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


MORTAL = """
import os, signal, sys
import numpy as np, upsweep as up
from upsweep import files
files.CHUNK_BYTES, files.work.SAVE_SECONDS = 4096, 0.0
folder, last = sys.argv[1], int(sys.argv[2])
done = []
def progress(doing, at, n):
    done.append(at)
    if at > last:
        os.kill(os.getpid(), signal.SIGKILL)
up.scan_file(folder + "/x.npy", folder + "/y.npy", progress=progress)
print(done[0])
"""


def test_a_killed_run_goes_on(tmp_path):
    x = np.random.default_rng(0).normal(size=100_000)
    np.save(tmp_path / "x.npy", x)
    killed = subprocess.run([sys.executable, "-c", MORTAL, str(tmp_path), "30000"])
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "y.npy").exists()
    rest = subprocess.run(
        [sys.executable, "-c", MORTAL, str(tmp_path), "100000"], capture_output=True, text=True, check=True
    )
    # The command did not start anew.
    assert int(rest.stdout) >= 30_000
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), up.scan(x, engine="numpy"))
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
    np.testing.assert_array_equal(
        np.load(tmp_path / "y.npy"), up.scan(np.ones(2000), **other, engine="numpy")
    )


@pytest.mark.dear
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("keywords", [{}, {"reverse": True, "exclusive": True}, {"initial": 7}], ids=str)
def test_maps_and_finishes(tmp_path, small_chunks, axis, order, keywords):
    x = np.asarray(np.random.default_rng(0).integers(0, 99, (1300, 7)), order=order)
    np.save(tmp_path / "x.npy", x)
    how = {"axis": axis, "map": lambda x: x * 3, "finish": lambda p, x, i: (p - x * i, p > 50), **keywords}
    up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", names=("gap", "above"), **how)
    got, want = np.load(tmp_path / "y.npy"), up.scan(x, **how, engine="numpy")
    assert got.dtype.names == ("gap", "above")
    np.testing.assert_array_equal(got["gap"], want[0])
    np.testing.assert_array_equal(got["above"], want[1])


def test_records_and_segments_through_a_map(tmp_path, small_chunks):
    rng = np.random.default_rng(1)
    x = np.zeros(3000, [("a", "f8"), ("b", "i4"), ("c", "i8")])
    x["a"], x["b"], heads = rng.random(3000), rng.integers(0, 9, 3000), rng.random(3000) < 0.01
    np.save(tmp_path / "x.npy", x)
    how = {"map": lambda a, b: a * b, "segments": up.segments.flags(heads)}
    want = up.scan((x["a"], x["b"]), **how, engine="numpy")
    up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", columns=("a", "b"), names=("product",), **how)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), want)
    # Without a map each is scanned, and finished, by itself.
    up.scan_file(tmp_path / "x.npy", tmp_path / "z.npy", columns=("b", "c"), finish=lambda p, x: p - x)
    z = np.load(tmp_path / "z.npy")
    for name in ("b", "c"):
        np.testing.assert_array_equal(z[name], up.scan(x[name], finish=lambda p, x: p - x, engine="numpy"))


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


WORDS = {
    "columns": ("columns='v' is one text: pass a list of names, columns=\\['v'\\]", {"columns": "v"}),
    "names": ("names='sum' is one text", {"columns": ["v"], "names": "sum"}),
    "keep": ("keep='w' is one text", {"columns": ["v"], "keep": "w"}),
    "segments": ("segments= of type str may mean.*groups", {"columns": ["v"], "segments": "w"}),
}


@pytest.mark.parametrize("argument", WORDS)
def test_a_text_where_a_list_or_segments_belong(tmp_path, argument):
    """A text is no list of letters."""
    says, given = WORDS[argument]
    (tmp_path / "t.csv").write_text("w,v\na,1\n")
    with pytest.raises(ValueError, match=says):
        up.scan_file(tmp_path / "t.csv", tmp_path / "y.csv", **given)


COLUMNS = {
    "times": (np.array([1], "M8[ms]"), "float64", r"'v' of timestamp\[ms\] cannot be read as double"),
    "decimals": (
        [Decimal("1.5")],
        None,
        r"holds decimal128.*--dtype float64\) reads it as floats",
    ),
    "texts": (["1", "1,234"], None, "holds text, such as '1,234'"),
    "nothing": ([None], None, "begins with missing values, and dtype= "),
    "pairs": ([1.0], "complex128", "a table has no columns of complex128"),
    "halves": ([1.0], "bfloat16", "a table has no columns of bfloat16"),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_that_cannot_be_read_is_named(tmp_path, kind):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column, dtype, says = COLUMNS[kind]
    parquet.write_table(pa.table({"w": column, "v": column}), tmp_path / "t.parquet")
    with pytest.raises(files.FileError, match=says):
        up.scan_file(tmp_path / "t.parquet", tmp_path / "y.npy", columns=["v"], dtype=dtype)


@pytest.mark.parametrize(
    ("late", "says"),
    [
        ("1.5", r"In column 'v': .* to int64: invalid value '1.5'; dtype= \(--dtype\) names"),
        ("1,2", "Expected 2 columns, got 3: x,1,2$"),
    ],
)
def test_lines_that_cannot_be_read(tmp_path, monkeypatch, late, says):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 10)
    (tmp_path / "t.csv").write_text("\n".join(["w,v", *["x,1"] * 2000, f"x,{late}"]))
    with pytest.raises(files.FileError, match=says):
        up.scan_file(tmp_path / "t.csv", tmp_path / "y.npy", columns=["v"])


def test_cells_longer_than_the_csv_module_takes(tmp_path):
    pytest.importorskip("pyarrow")
    path, target = tmp_path / "t.csv", tmp_path / "y.csv"
    path.write_text(f"v,w\n1,{'x' * 200_000}\n2,y\n")
    up.scan_file(path, target, columns=["v"])
    assert target.read_text() == path.read_text().replace("v,w", '"v","w"').replace("2,y", "3,y")
    path.write_text(f"v,{'w' * 200_000}\n1,2\n")
    with pytest.raises(files.FileError, match=r"t\.csv is not understood: field larger"):
        up.scan_file(path, tmp_path / "z.csv", columns=["v"])


def test_text_in_a_later_block_is_no_empty_text(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "t.csv").write_text("\n".join(["v", *["1"] * 3000, "x"]))
    with pytest.raises(files.FileError, match="column 'v' holds text, which cannot be scanned"):
        up.scan_file(tmp_path / "t.csv", tmp_path / "y.npy", columns=["v"])


def test_large_whole_numbers_become_the_nearest_floats(tmp_path):
    """As in NumPy, also where Arrow would refuse."""
    x = np.array([2**63 - 1, 3, -(2**53) - 1])
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"v": x}), tmp_path / "t.parquet")
    up.scan_file(tmp_path / "t.parquet", tmp_path / "y.npy", columns=["v"], dtype="f8")
    np.testing.assert_array_equal(
        np.load(tmp_path / "y.npy"), up.scan(x, dtype="f8", engine="numpy"), strict=True
    )


@pytest.mark.parametrize("dtype", ["u1", "u4", "u8", "i2"])
@pytest.mark.parametrize("chunk", [1 << 24, 16])
def test_lengths_of_any_integers(tmp_path, monkeypatch, dtype, chunk):
    monkeypatch.setattr(files, "CHUNK_BYTES", chunk)
    x, told = np.arange(6), up.segments.lengths(np.array([2, 0, 4], dtype))
    np.save(tmp_path / "x.npy", x)
    made = np.load(up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", segments=told))
    np.testing.assert_array_equal(made, up.scan(x, segments=told, engine="numpy"))


@pytest.mark.parametrize("segments", [up.segments.flags, up.segments.ends])
@pytest.mark.parametrize("marks", [np.array(["0"] * 6), np.array([0, 0.5, 0, 0, 0, 0])], ids=str)
def test_flags_of_a_file_are_refused_as_those_in_memory_are(tmp_path, segments, marks):
    """Texts were all true."""
    np.save(tmp_path / "x.npy", np.arange(6))
    with pytest.raises(up.SegmentError, match="booleans or integers"):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", segments=segments(marks))


@pytest.mark.parametrize("segments", [up.segments.flags, up.segments.ends, up.segments.keys])
def test_a_table_without_rows_has_segments(tmp_path, segments):
    pytest.importorskip("pyarrow")
    for name in ("s", ""):
        (tmp_path / "t.csv").write_text(f"v,{name}\n")
        up.scan_file(
            tmp_path / "t.csv", tmp_path / "y.csv", columns=["v"], segments=segments(name), overwrite=True
        )
        assert (tmp_path / "y.csv").read_text() == f'"v","{name}"\n'


def test_a_csv_has_no_cell_for_lists(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"v": [1, 2], "w": [[1], [2, 3]]}), tmp_path / "t.parquet")
    with pytest.raises(files.FileError, match=r"no room for 'w' \(list<.*keep="):
        up.scan_file(tmp_path / "t.parquet", tmp_path / "y.csv", columns=["v"])


def test_a_run_whose_disk_was_full_goes_on(tmp_path, monkeypatch):
    """What was done is kept where the error says that there is no space left, as NumPy's tofile did not."""
    pytest.importorskip("pyarrow")
    resource = pytest.importorskip("resource")
    (tmp_path / "t.csv").write_text("\n".join(["v", *(f"{i}" for i in range(9000))]))
    monkeypatch.setattr(errno, "ENOSPC", errno.EFBIG)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            up.scan_file(tmp_path / "t.csv", tmp_path / "y.npy", columns=["v"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "y.npy.part" / "job.json").exists()
    up.scan_file(tmp_path / "t.csv", tmp_path / "y.npy", columns=["v"])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.cumsum(np.arange(9000)))
