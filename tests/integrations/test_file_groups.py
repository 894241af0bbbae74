"""Groups whose rows lie in any order, in files: the bits of one call, however many parts the rows are divided into."""

from __future__ import annotations

import datetime
import signal
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest

import upsweep as up
from portions import every
from table import CASES
from upsweep import files
from upsweep.files import blocks, divided, keys, work
from upsweep.files import large as large_groups
from upsweep.files.keys import Keys, parts_of

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

N = 12_000
HASH = CASES["hash-u64"]
G = up.segments.groups


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Some thirty parts, divided five times."""
    monkeypatch.setattr(divided, "PART_BYTES", 1 << 14)
    monkeypatch.setattr(divided, "BATCH_ROWS", 2500)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 1000)
    monkeypatch.setattr(files, "CHUNK_BYTES", 1 << 13)
    monkeypatch.setattr(work, "SAVE_SECONDS", 0.0)


@pytest.fixture
def table(tmp_path):
    """A table with keys that are missing, and with one group that is a third of all rows."""
    r = np.random.default_rng(3)
    zone = np.where(r.random(N) < 0.3, 7, r.integers(-500, 500, N))
    city = [
        None if c == 3 else f"a long name, {c:04}, of a city"[: 9 + c % 20]
        for c in r.integers(0, 90, N).tolist()
    ]
    heat = r.choice([0.0, -0.0, np.nan, 1.5, 2.5], N)
    made = pa.table(
        {"zone": zone, "city": city, "v": r.random(N), "heat": heat, "w": np.asarray(HASH.draw(N)[0])}
    )
    parquet.write_table(made, tmp_path / "t.parquet", row_group_size=3_333)
    csv.write_csv(made, tmp_path / "t.csv")
    return made


def same(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.view("u1"), want.view("u1"))


def keys_of(table, names):
    return G(*(table[name].to_pandas() for name in names))


@pytest.mark.parametrize("names", [["zone"], ["city"], ["heat"], ["city", "zone", "heat"]], ids="-".join)
@pytest.mark.parametrize(
    "how",
    [{}, {"reverse": True, "initial": np.uint64(9)}, {"exclusive": True, "initial": np.uint64(9)}],
    ids=str,
)
@pytest.mark.parametrize("large", [100, 1000, N], ids=["all large", "one large", "none"])
def test_the_bits_of_one_call_from_table_to_table(tmp_path, monkeypatch, table, names, how, large):
    monkeypatch.setattr(large_groups, "LARGE_ROWS", large)
    up.scan_file(
        tmp_path / "t.parquet", tmp_path / "y.parquet", HASH.op, columns=["w"], segments=G(*names), **how
    )
    got = parquet.read_table(tmp_path / "y.parquet")
    same(
        got["w"].to_numpy(),
        up.scan(table["w"].to_numpy(), HASH.op, segments=keys_of(table, names), **how, engine="numpy"),
    )
    assert got.column_names == table.column_names
    assert got.select(["zone", "city", "v"]).equals(table.select(["zone", "city", "v"]))
    assert not (tmp_path / "y.parquet.part").exists()


def test_text_of_many_words_is_not_numbered(tmp_path, monkeypatch, table):
    """Here the words are too many in a later batch than the first."""
    monkeypatch.setattr(keys, "MOST_WORDS", 60)
    ordered = table.sort_by("city")
    parquet.write_table(ordered, tmp_path / "t.parquet", row_group_size=3_333)
    started = []
    up.scan_file(
        tmp_path / "t.parquet", tmp_path / "y.npy", columns=["v"], segments=G("city", "zone"),
        progress=lambda doing, done, _: started.append(done) if doing == "reading" else None,
    )  # fmt: skip
    assert started.count(0) == 2
    assert started[1] > 0
    same(
        np.load(tmp_path / "y.npy"),
        up.scan(ordered["v"].to_numpy(), segments=keys_of(ordered, ["city", "zone"]), engine="numpy"),
    )


def test_text_and_arrays(tmp_path, table):
    x, keys = table["v"].to_numpy(), keys_of(table, ["city", "zone"])
    # In text a missing key is an empty one.
    up.scan_file(
        tmp_path / "t.csv", tmp_path / "y.csv", columns=["v"], keep=["zone"], segments=G("city", "zone")
    )
    got = csv.read_csv(tmp_path / "y.csv")
    assert got.column_names == ["zone", "v"]
    same(got["v"].to_numpy(), up.scan(x, segments=keys, engine="numpy"))
    up.scan_file(tmp_path / "t.csv", tmp_path / "y.npy", columns=["v"], segments=G("city", "zone"))
    same(np.load(tmp_path / "y.npy"), up.scan(x, segments=keys, engine="numpy"))
    (tmp_path / "u.csv").write_text("k,v\n007,1\n7,2\n,3\n007,4\n,5\n")
    up.scan_file(tmp_path / "u.csv", tmp_path / "u.npy", columns=["v"], segments=G("k"))
    assert np.load(tmp_path / "u.npy").tolist() == [1, 2, 3, 5, 8]
    # A table, with one of its columns and a file as keys.
    np.save(tmp_path / "heat.npy", table["heat"].to_numpy())
    mixed = G("zone", tmp_path / "heat.npy")
    up.scan_file(
        tmp_path / "t.parquet", tmp_path / "y.npy", "max", columns=["v"], segments=mixed, overwrite=True
    )
    same(
        np.load(tmp_path / "y.npy"),
        up.scan(x, "max", segments=keys_of(table, ["zone", "heat"]), engine="numpy"),
    )
    up.scan_file(tmp_path / "y.npy", tmp_path / "z.npy", segments=G([None, *table["city"].to_pylist()][1:]))
    same(
        np.load(tmp_path / "z.npy"),
        up.scan(np.load(tmp_path / "y.npy"), segments=keys_of(table, ["city"]), engine="numpy"),
    )
    # Records, whose results are records.
    both = np.rec.fromarrays([table["v"], table["zone"]], names="v,zone")
    np.save(tmp_path / "x.npy", both)
    up.scan_file(
        tmp_path / "x.npy",
        tmp_path / "z.npy",
        segments=G(str(tmp_path / "heat.npy"), both["zone"]),
        overwrite=True,
    )
    for name in ("v", "zone"):
        want = up.scan(
            np.ascontiguousarray(both[name]), segments=keys_of(table, ["zone", "heat"]), engine="numpy"
        )
        same(np.ascontiguousarray(np.load(tmp_path / "z.npy")[name]), want)


@pytest.mark.parametrize("large", [100, N])
def test_maps_of_several_columns(tmp_path, monkeypatch, table, large):
    monkeypatch.setattr(large_groups, "LARGE_ROWS", large)
    v, zone = table["v"].to_numpy(), table["zone"].to_numpy()

    def weighted(v, zone):
        return (v, v * zone)

    def parted(p, v, zone):
        return p[1] / zone, p[0] > 3 * v

    how = {"op": "affine", "map": weighted, "finish": parted, "reverse": True}
    up.scan_file(
        tmp_path / "t.parquet", tmp_path / "y.parquet", columns=["v", "zone"], names=["mean", "large"], segments=G("city"), **how
    )  # fmt: skip
    got = parquet.read_table(tmp_path / "y.parquet")
    assert got.column_names == [*table.column_names, "mean", "large"]
    for name, want in zip(
        ("mean", "large"), up.scan((v, zone), segments=keys_of(table, ["city"]), **how, engine="numpy")
    ):
        same(got[name].to_numpy(), want)


KILLED = """
import os, signal, sys
import upsweep as up
from upsweep import files
from upsweep.files import blocks, divided, work
divided.PART_BYTES, divided.BATCH_ROWS, blocks.BLOCK_ROWS, work.SAVE_SECONDS = 1 << 14, 2500, 1000, 0.0
folder, sign = sys.argv[1:]
signs, replace = [], os.replace
def mortal(fresh, path):
    signs.append(path.name)
    if signs.count(sign) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(fresh, path)
os.replace = mortal
up.scan_file(folder + "/t.parquet", folder + "/y.parquet", columns=["v"], segments=up.segments.groups("city", "zone"))
"""


@pytest.mark.parametrize(("doing", "sign"), [("reading", "divided.json"), ("scanning", "scanned.json")])
def test_a_killed_run_goes_on(tmp_path, table, doing, sign):
    """What was made since the last checkpoint is there, too."""
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), sign], timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "y.parquet.part" / sign).exists()
    seen = []
    up.scan_file(
        tmp_path / "t.parquet", tmp_path / "y.parquet", columns=["v"], segments=G("city", "zone"),
        progress=lambda *at: seen.append(at),
    )  # fmt: skip
    assert next(done for what, done, _ in seen if what == doing) > 0
    want = up.scan(table["v"].to_numpy(), segments=keys_of(table, ["city", "zone"]), engine="numpy")
    same(parquet.read_table(tmp_path / "y.parquet")["v"].to_numpy(), want)
    assert not (tmp_path / "y.parquet.part").exists()


def test_progress_counts_rows(tmp_path, table):
    seen = []
    up.scan_file(
        tmp_path / "t.parquet", tmp_path / "y.parquet", columns=["v"], segments=G("city"), progress=lambda *at: seen.append(at)
    )  # fmt: skip
    for doing in ("reading", "scanning", "writing"):
        done = [at for what, at, total in seen if what == doing and total == N]
        assert done == sorted(done)
        assert done[0] == 0
        assert done[-1] == N
        assert len(done) >= 5
    assert len({what for what, _, total in seen}) == 3


def test_other_keys_start_anew(tmp_path, table):
    def stop(doing, done, n):
        if doing == "scanning" and done:
            raise KeyboardInterrupt

    words = (tmp_path / "t.parquet", tmp_path / "y.parquet")
    with pytest.raises(KeyboardInterrupt):
        up.scan_file(*words, columns=["v"], segments=G("zone"), progress=stop)
    up.scan_file(*words, columns=["v"], segments=G("city"))
    want = up.scan(table["v"].to_numpy(), segments=keys_of(table, ["city"]), engine="numpy")
    same(parquet.read_table(words[1])["v"].to_numpy(), want)


@pytest.mark.parametrize("kind", ["parquet", "csv", "npy"])
def test_no_rows(tmp_path, kind):
    nothing = pa.table({"k": pa.array([], pa.string()), "v": pa.array([], pa.float64())})
    parquet.write_table(nothing, tmp_path / "t.parquet")
    csv.write_csv(nothing, tmp_path / "t.csv")
    np.save(tmp_path / "t.npy", np.empty(0))
    np.save(tmp_path / "k.npy", np.empty(0, int))
    keys = G(tmp_path / "k.npy") if kind == "npy" else G("k")
    made = up.scan_file(
        tmp_path / f"t.{kind}", tmp_path / f"y.{kind}", columns=[] if kind == "npy" else ["v"], segments=keys
    )
    got = {"parquet": parquet.read_table, "csv": csv.read_csv, "npy": np.load}[kind](made)
    assert len(got) == 0


DAY = datetime.datetime(2026, 1, 2, 3, 4, 5)
KINDS = {
    "int8": pa.array([1, 2, None, 1, 0, None], pa.int8()),
    "uint64": pa.array([2**64 - 1, 2**63, None, 2**64 - 1, 0, None], pa.uint64()),
    "bool": pa.array([True, False, None, True, False, None]),
    "float16": pa.array(np.array([1.5, 2, np.nan, 1.5, 0, np.nan], np.float16)),
    "float32": pa.array([1.5, -0.0, None, 1.5, 0.0, None], pa.float32()),
    "moment": pa.array([DAY, DAY.replace(hour=1), None, DAY, DAY.replace(day=1), None], pa.timestamp("us", "UTC")),
    "day": pa.array([DAY.date(), None, DAY.replace(day=1).date(), DAY.date(), None], pa.date32()),
    "hour": pa.array([DAY.time(), None, datetime.time(1), DAY.time(), None], pa.time32("s")),
    "span": pa.array([1, None, 3, 1, None], pa.duration("s")),
    "text": pa.array(["ada", "", None, "ada", "adam", "", None, "ada\0", "a" * 8, "a" * 9, "a" * 16, "a" * 8]),
    "category": pa.array(["ada", "bob", None, "ada", None]).dictionary_encode(),
    "bytes": pa.array([b"\xff", b"", None, b"\xff", b"\0", None]),
    "sixteen": pa.array([b"x" * 16, b"y" * 16, None, b"x" * 16], pa.binary(16)),
    "decimal": pa.array([Decimal("1.5"), Decimal("2.5"), None, Decimal("1.5"), None]),
    "nothing": pa.nulls(5),
}  # fmt: skip


@pytest.mark.parametrize("kind", every(2, KINDS))
def test_every_kind_of_key(tmp_path, kind):
    column = pa.concat_arrays([KINDS[kind]] * 40).slice(3)
    parquet.write_table(pa.table({"k": column, "one": np.ones(len(column), int)}), tmp_path / "t.parquet")
    up.scan_file(tmp_path / "t.parquet", tmp_path / "y.npy", columns=["one"], segments=G("k"))
    seen, want = {}, []
    for key in column.to_pylist():
        key = None if key != key else key
        seen[key] = seen.get(key, 0) + 1
        want.append(seen[key])
    assert np.load(tmp_path / "y.npy").tolist() == want


@pytest.mark.parametrize("key", ["whole", "far", "text", "long"])
def test_parts_are_about_equal(key):
    """Of keys that differ in few bits, whichever these are."""
    n = np.arange(4096)
    keys = {
        "whole": n, "far": n * 2**40, "text": [f"{k:04}" for k in n], "long": [f"https://name/{k:06}/{'x' * 30}" for k in n]
    }  # fmt: skip
    named = Keys(G("k")).of(0, n.size, {"k": pa.array(keys[key])})
    counts = np.bincount(parts_of(named, 4), minlength=16)
    assert 170 < counts.min() <= counts.max() < 350
    np.testing.assert_array_equal(parts_of([k.slice(100) for k in named], 4), parts_of(named, 4)[100:])


MISTAKES = {
    "column": (("zones",), {}, "there is no column 'zones'"),
    "structs": (("pair",), {}, "keys of groups cannot be of struct.*: pass the columns"),
    "index": (
        ("zone",),
        {"finish": lambda p, x, i: p / i},
        "the index in a map or a finish counts the rows of all groups",
    ),
    "length": ((np.arange(5),), {}, r"keys of groups have shape \(5,\)"),
    "plane": ((np.zeros((N, 2)),), {}, r"keys of groups have shape \(12000, 2\)"),
    "objects": ((np.array([{}] * N),), {}, "must be numbers, times, texts or objects that hash"),
    "pairs": ((np.zeros(N, complex),), {}, "are numbers, times or text, not complex128"),
    "complex": (
        ("zone",),
        {"dtype": "complex64", "map": lambda x: x * 1j},
        "a table has no columns of complex64",
    ),
    "operator": (("zone",), {"op": "affine"}, "takes a tuple of 2"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_end_before_much_is_read(tmp_path, table, mistake):
    pair = pa.array([{"a": 1}] * N)
    parquet.write_table(table.append_column("pair", pair), tmp_path / "t.parquet")
    keys, how, says = MISTAKES[mistake]
    seen = []
    with pytest.raises((ValueError, TypeError), match=says):
        up.scan_file(
            tmp_path / "t.parquet", tmp_path / "y.parquet", columns=["v"], segments=G(*keys),
            progress=lambda *at: seen.append(at), **how,
        )  # fmt: skip
    assert all(at == ("reading", 0, N) for at in seen)
    assert not list(tmp_path.glob("y*"))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_large_integers_beside_missing_ones_are_keys(tmp_path, library):
    module, keys = pytest.importorskip(library), [2**60, None, 2**60 + 1, None, 2**60]
    key = {
        "pandas": lambda: module.Series(keys, dtype="Int64"),
        "polars": lambda: module.Series(keys),
        "pyarrow": lambda: module.array(keys),
    }[library]()
    np.save(tmp_path / "x.npy", np.arange(1, 6))
    up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", segments=G(key))
    assert np.load(tmp_path / "y.npy").tolist() == [1, 2, 3, 6, 6]
    with pytest.raises(up.DTypeError, match="are no numbers"):
        up.scan_file(tmp_path / "x.npy", tmp_path / "z.npy", segments=up.segments.keys(key))


def test_an_array_of_two_axes_has_no_groups(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 3)))
    with pytest.raises(up.SegmentError, match=r"one axis.*dask.array.from_zarr"):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", axis=0, segments=G(np.zeros(2)))


def test_zarr_arrays_are_keys_of_groups(tmp_path):
    zarr = pytest.importorskip("zarr")
    rng = np.random.default_rng(3)
    x, key = rng.random(1000), rng.integers(0, 7, 1000)
    for name, values in (("x", x), ("key", key), ("sorted", np.sort(key))):
        # Zarr 2 and 3 have this in common.
        made = zarr.open_array(tmp_path / f"{name}.zarr", mode="w", shape=1000, chunks=64, dtype=values.dtype)
        made[:] = values
    made = up.scan_file(tmp_path / "x.zarr", tmp_path / "y.zarr", segments=G(tmp_path / "key.zarr"))
    np.testing.assert_array_equal(
        zarr.open_array(made, mode="r")[:], up.scan(x, segments=G(key), engine="numpy")
    )
    made = up.scan_file(
        tmp_path / "x.zarr", tmp_path / "z.npy", segments=up.segments.keys(tmp_path / "sorted.zarr")
    )
    np.testing.assert_array_equal(
        np.load(made), up.scan(x, segments=up.segments.keys(np.sort(key)), engine="numpy")
    )


def test_errors_of_arrays_say_what_to_pass(tmp_path):
    zarr = pytest.importorskip("zarr")
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(up.files.FileError, match="an array has no column zone"):
        up.scan_file(tmp_path / "x.npy", tmp_path / "y.npy", segments=G("zone"))
    zarr.open_group(tmp_path / "weather.zarr", mode="w")
    zarr.open_array(tmp_path / "weather.zarr" / "rain", mode="w", shape=3, dtype=np.int64)[:] = range(3)
    with pytest.raises(up.files.FileError, match=r"a group of them \(rain\)"):
        up.scan_file(tmp_path / "weather.zarr", tmp_path / "y.zarr")
    made = up.scan_file(tmp_path / "weather.zarr" / "rain", tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(made), [0, 1, 3])
    with pytest.raises(up.files.FileError, match="neither"):
        up.scan_file(tmp_path / "weather.zarr" / "rain", tmp_path / "weather.zarr" / "sums")


def test_groups_do_not_import_pandas(tmp_path):
    """It takes as long to import as ten million rows to scan. Keys are texts with missing ones, and whole numbers."""
    (tmp_path / "t.csv").write_text("zone,day,v\na,1,1\n,2,2\na,1,3\n,2,4\n")
    run = (
        "import sys, upsweep as up\n"
        "up.scan_file('t.csv', 't.parquet', columns=['v'], segments=up.segments.groups('zone', 'day'))\n"
        "up.scan_file('t.parquet', 'y.csv', columns=['v'], segments=up.segments.groups('zone', 'day'))\n"
        "print('pandas' in sys.modules, open('y.csv').read().split()[1:])"
    )
    got = subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert got.stdout == "False ['a,1,1', ',2,2', 'a,1,5', ',2,8']\n", got.stderr
