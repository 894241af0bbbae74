"""What users pass: nothing is silently wrong, and a mistake says what to pass instead."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pytest

import upsweep as up

G = up.segments.groups


def test_half_lives_count_from_the_item_before_of_the_group():
    rng = np.random.default_rng(0)
    x, times, key = rng.normal(size=(2, 50)), np.sort(rng.random(50)), rng.integers(0, 4, 50)
    seconds = (times * 1000).astype("M8[s]")
    got = up.ema(x, halflife=0.1, times=times, segments=G(key), axis=1)
    timed = up.ema(x[0], halflife=datetime.timedelta(seconds=100), times=seconds, segments=G(key))
    for k in range(4):
        own = key == k
        np.testing.assert_array_equal(got[:, own], up.ema(x[:, own], halflife=0.1, times=times[own], axis=1))
        wanted = up.ema(x[0][own], halflife=np.timedelta64(100, "s"), times=seconds[own])
        np.testing.assert_array_equal(timed[own], wanted)
    assert up.ema(x[0][:0], halflife=1.0, times=times[:0], segments=G(key[:0])).size == 0


def test_flags_of_another_length_do_not_count_for_all():
    for function in (
        lambda dones: up.discounted_sum(np.ones(4), 0.9, dones),
        lambda dones: up.gae(np.ones((2, 4)), np.ones((2, 4)), 0.0, dones, gamma=0.9, lam=0.9, axis=1),
    ):
        with pytest.raises(up.ShapeError, match=r"pass 4 of them"):
            function([True])


def test_missing_values_are_no_numbers():
    """Of integers beside them NumPy makes floats, and rounds those above 2 ** 53."""
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    big = [2**53 + 1, None]
    for x in (
        pd.Series(big, dtype="Int64"), pd.DataFrame({"a": big}, dtype="Int64"), pd.array(big, dtype="Int64"),
        pd.Series([0.5, None], dtype="double[pyarrow]"), pa.array(big), pa.chunked_array([big]), pa.table({"a": big}),
    ):  # fmt: skip
        with pytest.raises(up.engine.DTypeError, match=r"no numbers: pass .*fill"):
            up.scan(x, axis=0)
    assert up.scan(pd.Series([2**53 + 1, 1], dtype="Int64")).tolist() == [2**53 + 1, 2**53 + 2]
    assert up.scan(pd.Series([1.0, np.nan])).isna().tolist() == [False, True]


def test_columns_of_several_dtypes_are_scanned_each_by_itself():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    import upsweep.pandas  # noqa: F401

    columns = {"a": [2**53 + 1, 1], "b": [0.5, 0.5]}
    for table in (pd.DataFrame(columns), pl.DataFrame(columns)):
        with pytest.raises(up.DTypeError, match=r"(?i)float64.*int64.*each by itself"):
            up.scan(table, axis=0)
        assert np.asarray(up.scan(table[1:], axis=0)).tolist() == [[1.0, 0.5]]
    with pytest.raises(up.DTypeError, match=r"bool.*int64.*each by itself"):
        up.scan(pd.DataFrame({"a": [1], "b": [True]}), axis=0)
    table = pd.DataFrame(columns, index=["x", "y"])
    pd.testing.assert_frame_equal(table.upsweep.cumulative_sum(), table.cumsum())


def test_times_keep_their_zone():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    index = pd.date_range("2024-03-30", periods=4, freq="12h", tz="Europe/Berlin")
    series = pd.Series(index[[1, 0, 3, 2]])
    pd.testing.assert_series_equal(up.cummax(series), series.cummax())
    start = series[0] + pd.Timedelta(1, "ns")
    got = up.scan(series.dt.as_unit("ns"), "max", initial=start)
    assert got.tolist() == [max(start, t) for t in series.cummax()]
    column = pl.Series("t", index.tolist())[[1, 0, 3, 2]]
    assert up.cummax(column).equals(column.cum_max(), check_dtypes=True)
    got = up.ema(np.arange(4.0), halflife=np.timedelta64(1, "D"), times=pd.Series(index))
    np.testing.assert_array_equal(got, up.ema(np.arange(4.0), halflife=2.0))


def test_labels_that_differ_are_not_scanned_by_place():
    pd, xr = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    a, b = pd.Series([0.5, 0.25], index=[0, 1]), pd.Series([1.0, 2.0], index=[1, 0])
    with pytest.raises(up.EngineError, match="reindex"):
        up.linear_recurrence(a, b)
    assert up.linear_recurrence(a.reindex(b.index), b).tolist() == [1.0, 2.5]
    square = xr.DataArray(np.ones((2, 2)), {"s": [1, 2]}, ("s", "t"))
    with pytest.raises(up.EngineError, match="transpose"):
        up.scan((square, square.T), "affine", axis=0)
    with pytest.raises(up.EngineError, match=r"'s' differ.*reindex_like"):
        up.scan((square, square[::-1]), map=lambda v, w: v * w, axis=0)


def test_labels_beside_the_data_are_not_taken_by_place():
    pd, xr = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    sold, shop = pd.Series([1, 2, 3]), pd.Series([1, 1, 2])
    for spelling in (up.segments.keys, up.segments.groups, up.segments.flags):
        turned = spelling(shop[::-1])
        for function in (up.scan, up.reduce):
            assert (
                function(sold, segments=spelling(shop)).tolist()
                == function([1, 2, 3], segments=spelling([1, 1, 2])).tolist()
            )
            with pytest.raises(up.EngineError, match=rf"labels of {turned.spelling} differ.*reindex_like"):
                function(sold, segments=turned)
    with pytest.raises(up.EngineError, match="labels of groups"):
        up.scan(sold, segments=G(shop, pd.DataFrame({"a": [1, 1, 2]}, [5, 6, 7])))
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    first = pd.Series([10.0, 20.0], ["a", "b"])
    assert up.scan(table, axis=0, initial=first)["b"].tolist() == [23.0, 27.0]
    with pytest.raises(up.EngineError, match="labels of initial"):
        up.scan(table, axis=0, initial=first[::-1])
    with pytest.raises(up.EngineError, match="labels of an array"):
        up.linear_recurrence(table, table[["b", "a"]], axis=0)
    with pytest.raises(up.EngineError, match="labels of keys"):
        up.scan(table, axis=-1, segments=up.segments.keys(first[::-1]))
    for call in (
        lambda x: up.ema(x, times=x[::-1], halflife=1.0),
        lambda x: up.gae(x, x[::-1], 0.0, gamma=0.5, lam=0.5),
        lambda x: up.discounted_sum(x, 0.5, x[::-1] > 1),
    ):
        with pytest.raises(up.EngineError, match=r"labels of (an array|times|dones)"):
            call(pd.Series([1.0, 2.0]))
    rain = xr.DataArray(np.ones((2, 3)), dims=("t", "x"))
    with pytest.raises(up.EngineError, match="dimensions of keys"):
        up.scan(rain, axis=0, segments=up.segments.keys(xr.DataArray([1, 2], dims="s")))


def test_marks_of_xarray_are_those_of_the_items():
    xr, _ = pytest.importorskip("xarray"), pytest.importorskip("upsweep.xarray")
    rain = xr.DataArray(np.ones((3, 2)), {"t": [1, 2, 3]}, ("t", "x"))
    year = xr.DataArray([1, 1, 2], {"t": [1, 2, 3]}, ("t",))
    for spelling in (up.segments.keys, G):
        got = rain.upsweep.scan(dim="t", segments=spelling(year))
        assert got[:, 0].values.tolist() == [1.0, 2.0, 1.0]
        with pytest.raises(ValueError, match="cannot align"):
            rain.upsweep.scan(dim="t", segments=spelling(year[::-1]))
        with pytest.raises(ValueError, match="Dimensions"):
            rain.upsweep.scan(dim="t", segments=spelling(year.rename(t="s")))
    assert rain.upsweep.cumulative_sum(dim="t", include_initial=True)[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_xarrays_initial_has_one_value_a_row():
    xr = pytest.importorskip("xarray")
    import upsweep.xarray  # noqa: F401

    rain = xr.DataArray(np.arange(12.0).reshape(2, 3, 2), {"x": [1, 2, 3]}, ("t", "x", "y"))
    first = xr.DataArray([30.0, 10.0, 20.0], {"x": [3, 1, 2]}, ("x",))
    got = rain.upsweep.scan(dim="t", initial=first)
    np.testing.assert_array_equal(got, rain.cumsum("t") + np.array([10.0, 20.0, 30.0])[:, None])
    more = xr.DataArray([0.5, 0.5, 0.5, 9.0], {"x": [1, 2, 3, 4]}, ("x",))
    np.testing.assert_array_equal(rain.upsweep.ema(more, dim="t"), rain.upsweep.ema(0.5, dim="t"))
    with pytest.raises(up.ShapeError, match="dimensions"):
        xr.DataArray(1.0).upsweep.scan()


def test_groups_by_the_columns_of_a_table():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    x, columns = np.arange(6), {"a": ["p", "q", "p", "q", "p", "p"], "b": [1, 1, 2, 1, 1, 2]}
    wanted = pd.DataFrame(columns).assign(x=x).groupby(["a", "b"])["x"].cumsum().tolist()
    table = pd.DataFrame(columns)
    for key in (table, pd.MultiIndex.from_frame(table), pl.DataFrame(columns), pa.table(columns)):
        assert up.scan(x, segments=G(key)).tolist() == wanted


@pytest.mark.parametrize(
    "values",
    [
        [2**63 + 1, None, 2**63 + 1, None, 0, 2**63],
        ["b", None, "b", None, "", "c"],
        [1.5, None, 1.5, None, 0.0, 2.0],
        [2**90, None, 2**90, None, -1, 2**90 + 1],
    ],
    ids=["u8", "category", "f8", "i16"],
)
def test_groups_of_polars_with_nulls(values):
    pl = pytest.importorskip("polars")
    dtypes = {2**63 + 1: pl.UInt64, "b": pl.Categorical, 1.5: pl.Float64, 2**90: pl.Int128}
    key = pl.Series(values, dtype=dtypes[values[0]])
    assert up.scan(np.ones(6, int), segments=G(key)).tolist() == [1, 1, 2, 2, 1, 1]


def test_groups_by_decimals_by_tuples_and_by_nans_of_python():
    pl = pytest.importorskip("polars")
    assert up.scan([1, 2, 3], segments=G(pl.Series([1, 2, 1], dtype=pl.Decimal(5, 1)))).tolist() == [1, 2, 4]
    assert up.scan([1, 2, 3], segments=G([(1, "a"), (1, "b"), (1, "a")])).tolist() == [1, 2, 4]
    nans = np.array([float("nan"), "a", float("nan")], dtype=object)
    assert up.scan([1, 2, 3], segments=G(nans)).tolist() == [1, 2, 4]


def test_groups_by_floats_of_arrow():
    """Both zeros are one key, and all that is missing is one, as in NumPy, pandas and polars."""
    pa = pytest.importorskip("pyarrow")
    key = pa.chunked_array([[0.0, None, float("nan")], [-0.0, None, 1.0]])
    assert up.scan(np.ones(6, int), segments=G(key)).tolist() == [1, 1, 2, 2, 3, 1]


def test_a_dictionary_of_arrow_may_hold_a_value_twice_and_none():
    pa = pytest.importorskip("pyarrow")
    indices = pa.array([0, 1, 2, None, 3, 0])
    for words in (["a", "b", None, "a"], [1, 2, None, 1], [0.0, 1.0, float("nan"), -0.0]):
        key = pa.DictionaryArray.from_arrays(indices, pa.array(words))
        assert up.scan(np.ones(6, int), segments=G(key)).tolist() == [1, 1, 1, 2, 2, 3]


def test_accessors_of_groups_take_what_the_functions_take():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    import upsweep.pandas  # noqa: F401
    import upsweep.polars  # noqa: F401

    columns = {"k": ["a", "b", "a", "b"], "v": np.array([100, 100, 100, 100], np.int8)}
    groups = pd.DataFrame(columns).groupby("k")["v"]
    assert groups.upsweep.cumulative_sum().tolist() == [100, 100, 200, 200]
    assert groups.upsweep.ema(halflife=1).tolist() == [100.0] * 4
    times = np.array([0.0, 1.0, 2.0, 3.0])
    wanted = up.ema(columns["v"], halflife=1, times=times, segments=G(columns["k"]))
    assert groups.upsweep.ema(halflife=1, times=times).tolist() == wanted.tolist()
    lazy = (
        pl.DataFrame(columns)
        .lazy()
        .select(pl.col("v").upsweep.discounted_sum(0.5, over="k", return_dtype=pl.Float64))
    )
    assert lazy.collect()["v"].to_list() == [150.0, 150.0, 100.0, 100.0]


def test_mistakes_say_what_to_pass():
    pl = pytest.importorskip("polars")
    x, table = np.ones(2), pl.DataFrame({"a": [1]})
    for error, match, call in (
        (up.EngineError, "generator is no array.*list", lambda: up.scan(i for i in range(3))),
        (up.EngineError, "dict is no array", lambda: up.scan({"a": 1})),
        (up.EngineError, r"LazyFrame has no items yet.*collect", lambda: up.scan(table.lazy(), axis=0)),
        (up.EngineError, r"Expr has no items yet", lambda: up.scan(pl.col("a"))),
        (up.ShapeError, "list where a tuple of numbers", lambda: up.scan((1, 2, 3))),
        (
            up.ShapeError,
            r"a of shape \(3,\) cannot be broadcast",
            lambda: up.linear_recurrence(np.ones(3), x),
        ),
        (up.DTypeError, "convert it first", lambda: up.scan([datetime.timedelta(1)])),
        (up.DTypeError, "do not go with halflife", lambda: up.ema(x, halflife=1.0, times=x.astype("M8[s]"))),
        (up.DTypeError, "do not go with halflife", lambda: up.ema(x, halflife=np.timedelta64(1, "s"))),
        (up.DTypeError, "have no differences", lambda: up.ema(x, halflife=1.0, times=["1", "2"])),
        (ValueError, "halflife=0", lambda: up.ema(x, halflife=0)),
        (ValueError, "halflife=.*0", lambda: up.ema(x, halflife=datetime.timedelta())),
        (ValueError, "halflife=.*NaT", lambda: up.ema(x, halflife=np.timedelta64("NaT"))),
        (ValueError, "alpha=2 .*from 0 to 1", lambda: up.ema(x, 2)),
        (up.DTypeError, "a=None is no value", lambda: up.linear_recurrence(None, x)),
        (up.DTypeError, "initial=.*None.* is no value", lambda: up.scan([x, x], axis=1, initial=[1.0, None])),
        (up.OperatorError, "fmod cannot be compiled", lambda: up.scan(x, math.fmod, engine="cpu")),
        (up.SegmentError, "hash", lambda: up.scan(x, segments=G(np.array([[1], None], dtype=object)))),
        (up.SegmentError, "made of", lambda: up.scan(x, segments=G(pl.Series([[1], [2]])))),
    ):
        with pytest.raises(error, match=match):
            call()


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_frameworks_say_what_to_pass_too(library):
    there = pytest.importorskip(f"upsweep.{library}")
    masked = np.ma.array([1, 1, 2], mask=[False, True, False])
    x = {"torch": lambda: __import__("torch").ones(3), "jax": lambda: np.ones(3, np.float32)}[library]()
    for error, match, call in (
        (up.SegmentError, "several things", lambda: there.scan(x, segments=[1, 0, 1])),
        (
            up.SegmentError,
            "booleans or integers",
            lambda: there.scan(x, segments=up.segments.flags(["a"] * 3)),
        ),
        (up.EngineError, "lose its mask", lambda: there.scan(x, segments=up.segments.keys(masked))),
        (up.ShapeError, "empty tuple", lambda: there.scan((), "affine")),
        (ValueError, "alpha=-1", lambda: there.ema(x, -1)),
        (up.ShapeError, "flags have shape", lambda: there.discounted_sum(x, 0.5, [True, False])),
        (up.DTypeError, "flags must be", lambda: there.discounted_sum(x, 0.5, np.array([1j, 0, 0]))),
        ((up.DTypeError, TypeError), "dtype", lambda: there.scan(x, dtype=str)),
    ):
        with pytest.raises(error, match=match):
            call()
    times = np.array(["2020", "NaT", "NaT"], "M8[D]")
    for keys in (["a", "a", "b"], times, np.array(["a", "a", None], object)):
        got = there.scan(x, segments=up.segments.keys(keys))
        np.testing.assert_array_equal(got, up.scan(np.ones(3, np.float32), segments=up.segments.keys(keys)))


def test_a_tuple_in_jax_says_that_it_has_no_derivatives():
    jax, uj = pytest.importorskip("jax"), pytest.importorskip("upsweep.jax")

    def last(x):
        return uj.scan((x, x), "affine", segments=up.segments.flags([1, 0, 0]))[1][-1]

    x = jax.numpy.array([2.0, 3.0, 4.0])
    assert float(jax.jit(last)(x)) == 40.0
    assert jax.vmap(last)(jax.numpy.stack([x, x + 1])).tolist() == [40.0, 85.0]
    with pytest.raises(up.OperatorError, match="linear_recurrence"):
        jax.grad(last)(x)


def test_keys_of_records_are_compared():
    keys = np.array([(1, 2), (1, 2), (1, 3)], dtype="i4,i4")
    assert up.scan([1, 1, 1], segments=up.segments.keys(keys)).tolist() == [1, 2, 1]


def test_groups_are_refused_where_gradients_flow():
    torch = pytest.importorskip("torch")
    with pytest.raises(up.SegmentError, match="sort the data by group"):
        up.scan(torch.ones(3, requires_grad=True), segments=G([1, 2, 1]))


def test_tables_with_two_columns_of_one_name(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "twice.csv").write_text("a,a,b\n1,2,3\n")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "numbers.csv").write_text("1\n2\n")
    (tmp_path / "mac.csv").write_bytes(b"a\r1\r2\r")
    for name, match, keywords in (
        ("twice", "two columns 'a'", {"columns": ["b"]}),
        ("t", "two columns 'a'", {"columns": ["a", "a"]}),
        ("t", "two columns 'b'", {"columns": ["a"], "keep": ["b", "b"]}),
        ("t", "a column 'b' already", {"columns": ["a"], "names": ["b"]}),
        ("numbers", "say which column", {}),
        ("mac", "carriage returns", {}),
    ):
        with pytest.raises(up.FileError, match=match):
            up.scan_file(tmp_path / f"{name}.csv", tmp_path / "out.csv", **keywords)
    up.scan_file(tmp_path / "t.csv", tmp_path / "out.csv", columns=["a"], names=["b"], keep=[])
    assert (tmp_path / "out.csv").read_text() == '"b"\n1\n4\n'
    up.scan_file(tmp_path / "numbers.csv", tmp_path / "n.csv", columns=["1"])
    assert (tmp_path / "n.csv").read_text() == '"1"\n2\n'


@pytest.mark.parametrize("block", [16, 1 << 22])
def test_texts_that_other_readers_take(tmp_path, monkeypatch, block):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("upsweep.files.blocks.BLOCK_BYTES", block)
    keys, lines = up.segments.keys("k"), "".join(f"{i // 9:03},1\n" for i in range(27))
    counts = "".join(f"{i // 9:03},{i % 9 + 1}\n" for i in range(27))
    for text, wanted, keywords in (
        ("\n\na,v\n1,2\n\n3,4\n", '"a","v"\n1,2\n3,6\n', {}),
        ('"a\nb",v\n1,2\n3,4\n', '"a\nb","v"\n1,2\n3,6\n', {}),
        ('\ufeff"a\nb",v', '"a\nb","v"\n', {}),
        ("k,v\n007,1\n7,2\n7,3\n", '"k","v"\n007,1\n7,2\n7,5\n', {"segments": keys}),
        (f"k,v\n{lines}x,1\nx,1\n", f'"k","v"\n{counts}x,1\nx,2\n', {"segments": keys}),
    ):
        (tmp_path / "t.csv").write_text(text)
        made = up.scan_file(tmp_path / "t.csv", tmp_path / "y.csv", columns=["v"], overwrite=True, **keywords)
        assert made.read_text() == wanted
    (tmp_path / "t.csv").write_text("\xe9,v\n1,2\n", encoding="latin-1")
    with pytest.raises(up.FileError, match=r"names of t\.csv.*UTF-8"):
        up.scan_file(tmp_path / "t.csv", tmp_path / "z.csv", columns=["v"])
    (tmp_path / "t.csv").write_text("v,s\n1,a\n")
    with pytest.raises(up.FileError, match="'s' holds text, such as 'a'"):
        up.scan_file(tmp_path / "t.csv", tmp_path / "z.csv", columns=["s"])


def test_small_blocks_make_whole_row_groups(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("upsweep.files.blocks.BLOCK_BYTES", 64)
    monkeypatch.setattr("upsweep.files.blocks.BLOCK_ROWS", 16)
    monkeypatch.setattr("upsweep.files.written.GROUP_ROWS", 90)
    # A mark ends a row group, and on a slow machine one comes in the middle.
    monkeypatch.setattr("upsweep.files.work.SAVE_SECONDS", float("inf"))
    words = [f"word {i // 40}" for i in range(200)]
    table = pa.table({"v": np.arange(200), "s": words})
    (tmp_path / "t.csv").write_text("v,s\n" + "".join(f"{v},{s}\n" for v, s in enumerate(words)))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7)
    for name in ("t.csv", "t.parquet"):
        made = pq.ParquetFile(up.scan_file(tmp_path / name, tmp_path / f"{name}.parquet", columns=["v"]))
        rows = [made.metadata.row_group(g).num_rows for g in range(made.num_row_groups)]
        assert len(rows) == 3
        assert min(rows[:-1]) >= 90
        assert made.read().to_pydict() == {"v": np.cumsum(np.arange(200)).tolist(), "s": words}
    (tmp_path / "t.csv").write_text("v,s\n1," + "x" * 200 + "\n1,x\n")
    with pytest.raises(up.FileError, match=r"a line of t\.csv is longer than 64"):
        up.scan_file(tmp_path / "t.csv", tmp_path / "y.csv", columns=["v"])


def parquet(folder, columns, **keywords):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=keywords.pop("rows", None))
    made = up.scan_file(folder / "x.parquet", folder / "y.parquet", columns=["v"], overwrite=True, **keywords)
    return pq.read_table(made)["v"]


@pytest.mark.parametrize("rows", [None, 1])
def test_keys_of_a_file_are_those_of_an_array(tmp_path, rows):
    pa = pytest.importorskip("pyarrow")
    x, keys = [1, 2, 4, 8, 16], [0.0, -0.0, float("nan"), float("nan"), 2.0]
    wanted = up.scan(x, segments=up.segments.keys(np.array(keys))).tolist()
    segments = up.segments.keys("k")
    assert parquet(tmp_path, {"v": x, "k": keys}, segments=segments, rows=rows).to_pylist() == wanted
    texts = pa.array(["a", "a", None, None, "a"]).dictionary_encode()
    # Of these Python has no nanoseconds, and no year of so many digits.
    times, days = pa.array([8, 8, 9, 9, 8], pa.time64("ns")), pa.array([8, 8, 9, 9, 10**7], pa.int32())
    for key in (texts, times, days.cast(pa.date32())):
        got = parquet(tmp_path, {"v": x, "k": key}, segments=segments, rows=rows)
        assert got.to_pylist() == [1, 3, 4, 12, 16]


def test_flags_of_a_file_are_booleans_or_integers(tmp_path):
    for marks in ([True, None], ["x", ""], [1.0, 0.5]):
        with pytest.raises(up.FileError, match=r"booleans or integers.*'k'"):
            parquet(tmp_path, {"v": [1, 2], "k": marks}, segments=up.segments.flags("k"))
    with pytest.raises(up.FileError, match="cannot be keys"):
        parquet(tmp_path, {"v": [1, 2], "k": [{"a": 1}, {"a": 2}]}, segments=up.segments.keys("k"))


def test_a_parquet_file_keeps_its_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    times = pa.array([2, 1], pa.timestamp("us", "Europe/Berlin"))
    got = parquet(tmp_path, {"v": times}, op="max")
    assert got.type == times.type
    assert got.cast(pa.int64()).to_pylist() == [2, 2]
    assert parquet(tmp_path, {"v": pa.array([], pa.int16())}).type == pa.int16()
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(up.FileError, match=r"bad\.parquet is no"):
        up.scan_file(tmp_path / "bad.parquet", tmp_path / "z.parquet")


def test_items_that_move_leave_their_labels():
    pd, apps = pytest.importorskip("pandas"), up.apps
    x = pd.Series([3, 1, 2], index=[5, 6, 7])
    for got, wanted in (
        (apps.radix_sort(x), [1, 2, 3]),
        (apps.argsort(x), [1, 2, 0]),
        (apps.compact(x, x > 0), [3, 1, 2]),
        (apps.partition(x, x < 3)[0], [1, 2, 3]),
        (apps.unique_consecutive(x), [3, 1, 2]),
    ):
        assert isinstance(got, np.ndarray)
        assert got.tolist() == wanted
    times, flags = np.array([0.0, 1.0, 3.0]), np.array([True, False, False])
    for y in (
        up.ema(x, halflife=1.0, times=times), up.discounted_sum(x, 0.5, flags), up.lfilter([1.0], [1.0, 0.5], x),
        apps.polyval(np.array([1, 0]), x),
    ):  # fmt: skip
        assert y.index.equals(x.index)


def test_coefficients_are_finite():
    with pytest.raises(ValueError, match="infinite or NaN"):
        up.lfilter([1.0], [1.0, np.nan], [1.0, 2.0])


def test_dask_takes_what_lies_in_chunks_beside_the_data():
    da, xr = pytest.importorskip("dask.array"), pytest.importorskip("xarray")
    import upsweep.xarray  # noqa: F401

    x, start = np.arange(12).reshape(3, 4).astype(">i4"), np.array([5, 6, 7], np.int32)
    got = up.scan(da.from_array(x, chunks=2), axis=1, initial=da.from_array(start, chunks=1))
    np.testing.assert_array_equal(got.compute(), up.scan(x, axis=1, initial=start))
    table = xr.DataArray(x.astype(int), dims=("t", "x"), coords={"key": ("t", [0, 0, 1])}).chunk(t=2)
    for marks in (table.key, table.key.broadcast_like(table).T):
        got = table.upsweep.scan(dim="t", segments=up.segments.keys(marks)).compute()
        np.testing.assert_array_equal(
            got, up.scan(x.astype(int), axis=0, segments=up.segments.lengths([2, 1]))
        )


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (["a", "a\0", "a\0", "a"], [1, 2, 6, 9]),
        ([b"a", b"a\0", b"a\0", b"a"], [1, 2, 6, 9]),
        ([2**63, 2**63 + 1, 2**63 + 1, -1], [1, 2, 6, 8]),
        ([2**53, 2**53 + 1, 2**53 + 1, 0.5], [1, 2, 6, 8]),
        ([1, "1", "1", 1.0], [1, 2, 6, 9]),
        ([True, 0, False, 1], [1, 2, 6, 9]),
        ([[1], [2]], None),
    ],
    ids=["text", "bytes", "large", "floats", "types", "truths", "nested"],
)
def test_keys_in_a_list_differ_as_in_the_list(keys, wanted):
    x = np.array([1, 2, 4, 8])
    if wanted is None:
        with pytest.raises(up.SegmentError, match="shape"):
            up.scan(x, segments=G(keys))
        return
    assert up.scan(x, segments=G(keys)).tolist() == wanted
    assert up.scan(x, segments=up.segments.keys(keys)).tolist() == [1, 2, 6, 8]
    stream = up.Stream("add")
    parts = [stream.push([v], segments=up.segments.keys(keys[i : i + 1])) for i, v in enumerate(x)]
    assert np.concatenate(parts).tolist() == [1, 2, 6, 8]


def test_keys_of_polars_end_in_zeros():
    pl = pytest.importorskip("polars")
    keys = pl.Series(["a", "a\0", "a\0", "a"])
    assert up.scan([1, 2, 4, 8], segments=up.segments.keys(keys)).tolist() == [1, 2, 6, 8]


class Metres(np.ndarray):
    def __array_ufunc__(self, *_, **__):
        raise AssertionError


def test_arrays_with_units_do_not_lose_them():
    x = np.ones(3)
    for call in (lambda x: up.scan(x), lambda x: up.ema(x, 0.5), lambda x: up.scan(np.ones(3), out=x)):
        with pytest.raises(up.EngineError, match=r"a Metres computes in its own way.*np\.asarray"):
            call(x.view(Metres))
    assert up.scan(np.asarray(x.view(Metres))).tolist() == [1, 2, 3]
