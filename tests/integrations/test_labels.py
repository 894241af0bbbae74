"""pandas, polars and xarray: labels come back with the results."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up
from upsweep import apps

RNG = np.random.default_rng(0)
X = RNG.standard_normal(60)
KEYS = RNG.integers(0, 5, 60)


def test_pandas_keeps_its_index():
    pd = pytest.importorskip("pandas")
    series = pd.Series(X, index=np.arange(60)[::-1] * 10, name="v")
    got = up.scan(series, "max")
    pd.testing.assert_series_equal(got, series.cummax())
    pd.testing.assert_series_equal(up.ema(series, 0.25), series.ewm(alpha=0.25, adjust=False).mean())
    table = pd.DataFrame(X.reshape(20, 3), index=list("abcdefghijklmnopqrst"), columns=["u", "v", "w"])
    pd.testing.assert_frame_equal(up.cummin(table, axis=0), table.cummin())
    with pytest.raises(up.ShapeError, match="axis"):
        up.scan(table)
    assert isinstance(up.reduce(series), np.floating)
    a, b = up.scan((series, series + 1), "affine")
    assert a.index.equals(series.index)
    assert b.name == "v"


@pytest.mark.parametrize(
    ("dtype", "summed"),
    [
        ("Int64", "Int64"),
        ("UInt8", "UInt64"),
        ("Float32", "Float32"),
        ("boolean", "Int64"),
        ("int8[pyarrow]", "int64[pyarrow]"),
        ("double[pyarrow]", "double[pyarrow]"),
    ],
)
def test_pandas_keeps_arrays_that_may_have_missing_values(dtype, summed):
    pd = pytest.importorskip("pandas")
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    x = pd.Series([1, 0, 1], index=[5, 5, 7], name="v").astype(dtype)
    assert up.scan(x, "max").dtype == x.dtype
    y = up.cumulative_sum(x)
    assert y.dtype == summed
    assert y.equals(pd.Series([1, 1, 2], index=[5, 5, 7], name="v").astype(summed))


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]", "datetime64[us, Europe/Berlin]", "int64"])
def test_pandas_keeps_the_dtype_of_all_columns_of_a_table(dtype):
    pd = pytest.importorskip("pandas")
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    columns = pd.MultiIndex.from_tuples([("a", 1), ("a", 1)])
    table = pd.DataFrame([[3, 1], [2, 2], [4, 0]], [7, 7, 8], columns).astype(dtype)
    table.attrs["unit"] = "m"
    for axis in (0, 1):
        want = pd.DataFrame(np.maximum.accumulate([[3, 1], [2, 2], [4, 0]], axis), [7, 7, 8], columns).astype(
            dtype
        )
        got = up.cummax(table, axis=axis)
        pd.testing.assert_frame_equal(got, want)
        assert got.attrs == {"unit": "m"}
    assert up.cummax(table.iloc[:, 0]).attrs == table.iloc[:, 0].attrs


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keywords", [{}, {"map": lambda v: v}, {"engine": "numpy"}])
def test_a_reduction_has_the_labels_that_are_left(axis, keywords):
    pd, pl, xr = map(pytest.importorskip, ("pandas", "polars", "xarray"))
    square = RNG.integers(0, 9, (3, 3))
    table = pd.DataFrame(square, list("xyz"), ["a", "b", "b"])
    pd.testing.assert_series_equal(up.reduce(table, axis=axis, **keywords), table.sum(axis=axis % 2))
    pd.testing.assert_series_equal(
        up.reduce((table, table), "affine", axis=axis, engine=keywords.get("engine", "auto"))[0],
        table.prod(axis=axis % 2),
    )
    array = xr.DataArray([square, square], {"t": [5, 6], "x": [1, 2, 3]}, ("t", "x", "y"), "v", {"unit": "m"})
    wanted = array.sum(array.dims[axis], keep_attrs=True)
    xr.testing.assert_identical(up.reduce(array, axis=axis, **keywords), wanted)
    columns = pl.DataFrame(square, ["a", "b", "c"], orient="row")
    got, wanted = (
        up.reduce(columns, axis=axis, **keywords),
        columns.sum() if axis == 0 else columns.sum_horizontal(),
    )
    assert got.equals(wanted)


def test_a_reduction_keeps_dtypes_and_zones():
    pd, pl = map(pytest.importorskip, ("pandas", "polars"))
    days = pd.date_range("2020", periods=3, tz="Asia/Tokyo")
    table = pd.DataFrame({"a": days, "b": days[::-1]})
    assert up.reduce(table, "max", axis=0).equals(table.max())
    assert (
        up.reduce(table["a"], "max") == pl.Series(days).max() == up.reduce(pl.Series(days), "max") == days[-1]
    )
    assert up.reduce(table[["a"]].astype("int64").astype("Int64"), axis=1).dtype == "Int64"
    assert up.reduce(table.iloc[:0], "max", axis=0, initial=np.datetime64(0, "us")).index.tolist() == [
        "a",
        "b",
    ]


def test_times_of_several_zones_have_no_dtype_in_common():
    pd = pytest.importorskip("pandas")
    times = pd.date_range("2020", periods=3, tz="UTC")
    with pytest.raises(up.DTypeError, match="no dtype in common"):
        up.cummax(pd.DataFrame({"a": times, "b": times.tz_convert("Asia/Tokyo")}), axis=0)


def test_polars_keeps_the_zones_of_a_table():
    pl = pytest.importorskip("polars")
    days = pl.Series("a", ["2020-01-02", "2020-01-01"]).str.to_datetime(time_unit="ms")
    zones = (None, "Asia/Tokyo", "Europe/Berlin")
    table = pl.DataFrame([days.dt.replace_time_zone(zone).alias(str(zone)) for zone in zones])
    assert up.cummax(table, axis=0).equals(table.select(pl.all().cum_max()))
    assert up.cummax(table, axis=0).schema == table.schema


def test_rows_without_a_group_cost_no_digits():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("upsweep.pandas")
    x = pd.Series([2**60 + 1, 5, 7], dtype="Int64")
    y = x.groupby(["a", None, "a"]).upsweep.cumulative_sum()
    assert y.dtype == "Int64"
    assert y.tolist() == [2**60 + 1, pd.NA, 2**60 + 8]


def test_bins_of_times_in_any_order():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("upsweep.pandas")
    days = pd.to_datetime(["2020-01-03", None, "2020-01-01", "2020-01-02", "2020-01-01", "2020-01-03"])
    table = pd.DataFrame({"day": days, "v": [1, 2, 4, 8, 16, 32]})
    for groups in (table.groupby(pd.Grouper(key="day", freq="D")), table.resample("2D", on="day")):
        want = groups["v"].transform("cumsum")
        pd.testing.assert_series_equal(groups["v"].upsweep.cumulative_sum().reindex_like(want), want)


def test_several_results_and_what_groups_do_not_take():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("upsweep.pandas")

    def both(prefix, x):
        return prefix, x

    table = pd.DataFrame({"i": [3, 1, 2], "f": [1.0, 2, 3]}, index=[4, 5, 6])
    groups = table.groupby(["a", None, "a"])
    peak, item = groups["i"].upsweep.scan("max", finish=both)
    assert peak.tolist()[::2] == [3, 3]
    assert item.tolist()[::2] == [3, 2]
    assert peak.isna().tolist() == item.isna().tolist() == [False, True, False]
    for call in (
        lambda: table.upsweep.scan("max", finish=both),
        lambda: groups.upsweep.scan("max", finish=both),
    ):
        with pytest.raises(ValueError, match="columns one by one"):
            call()
    for name, keywords in (
        ("segments", {"segments": up.segments.lengths([3])}),
        ("out", {"out": np.zeros(3)}),
    ):
        with pytest.raises(ValueError, match=f"call it without {name}="):
            groups["i"].upsweep.scan("max", **keywords)
    with pytest.raises(ValueError, match="groups are the episodes"):
        groups["i"].upsweep.discounted_sum(0.5, [0, 1, 0])


def test_several_columns_of_polars():
    pl = pytest.importorskip("polars")
    pytest.importorskip("upsweep.polars")
    table = pl.DataFrame({"i": [1, 2, 3], "f": [1.0, 2.0, 3.0]})
    assert table.select(pl.all().upsweep.scan()).equals(pl.DataFrame({"i": [1, 3, 6], "f": [1.0, 3.0, 6.0]}))


def test_several_results_and_foreign_dimensions_of_xarray():
    xr = pytest.importorskip("xarray")
    pytest.importorskip("upsweep.xarray")
    x = xr.DataArray([[1, 5], [3, 4]], dims=("t", "s"), coords={"t": [7, 8]})
    peak, item = x.upsweep.scan("max", dim="t", finish=lambda prefix, v: (prefix, v))
    xr.testing.assert_identical(peak, x.copy(data=[[1, 5], [3, 5]]))
    xr.testing.assert_identical(item, x)
    with pytest.raises(up.ShapeError, match="no dimension q"):
        x.upsweep.ema(xr.DataArray([0.1, 0.2], dims="q"), dim="t")


def test_the_accessor_of_pandas():
    pd = pytest.importorskip("pandas")
    import upsweep.pandas  # noqa: F401

    table = pd.DataFrame({"key": KEYS, "u": X, "n": np.arange(60)}, index=np.arange(60) + 7)
    pd.testing.assert_series_equal(
        table["u"].upsweep.scan("min", reverse=True), table["u"][::-1].cummin()[::-1]
    )
    pd.testing.assert_frame_equal(table.upsweep.cummax(), table.cummax())
    pd.testing.assert_series_equal(table.upsweep.reduce("max"), table.max())
    assert table["n"].upsweep.reduce() == 1770
    got = table.upsweep.reduce("max", segments=up.segments.lengths([20, 40]))
    pd.testing.assert_frame_equal(got, table.groupby(np.arange(60) >= 20).max().reset_index(drop=True))
    groups = table.groupby("key")
    pd.testing.assert_series_equal(groups["u"].upsweep.cummax(), groups["u"].cummax())
    pd.testing.assert_frame_equal(groups.upsweep.cumulative_sum(), groups.cumsum())
    averages = groups["u"].upsweep.ema(0.25)
    wanted = groups["u"].ewm(alpha=0.25, adjust=False).mean().droplevel(0).sort_index()
    pd.testing.assert_series_equal(averages, wanted)
    table["key"] = table["key"].where(table["key"] != 3)
    without = table.groupby("key")["n"]
    pd.testing.assert_series_equal(without.upsweep.cumulative_sum(), without.cumsum(), check_dtype=False)


def test_a_table_of_pandas_is_asked_for_its_dtypes_once(monkeypatch):
    """pandas makes a Series of them each time, and takes several times as long as a short scan."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("upsweep.pandas")
    asked, dtypes = [], pd.DataFrame.dtypes
    monkeypatch.setattr(pd.DataFrame, "dtypes", property(lambda x: asked.append(x) or dtypes.fget(x)))
    table = pd.DataFrame(np.ones((5, 3)))
    for scan, most in ((lambda: up.scan(table, axis=0), 1), (table.upsweep.scan, 2)):
        asked.clear()
        assert scan().iloc[-1].tolist() == [5, 5, 5]
        # The accessor asks as well: columns of several dtypes are scanned one by one.
        assert len(asked) <= most


@pytest.mark.parametrize("dropna", [True, False])
def test_groups_of_pandas_by_keys_of_every_kind(dropna):
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("upsweep.pandas")
    rng = np.random.default_rng(3)
    code, lost = rng.integers(0, 5, 80), rng.random(80) < 0.1
    texts = [None if gone else f"word {c}" for c, gone in zip(code, lost)]
    table = pd.DataFrame(
        {
            "float": np.where(lost, np.nan, code / 3),
            "text": texts,
            "object": pd.Series([float("nan") if text is None else text for text in texts], dtype=object),
            "category": pd.Categorical(texts, categories=[f"word {c}" for c in range(9)]),
            "time": pd.to_datetime(np.where(lost, np.datetime64("NaT"), np.datetime64("2024-01-01") + code)),
            "day": pd.date_range("2024-01-01", periods=80, freq="6h"),
            "v": rng.integers(0, 99, 80).astype(float),
        }
    )
    keys = ["float", "text", "object", "category", "time", ["category", "float"], ["object", "text"]]
    for key in (*keys, pd.Grouper(key="day", freq="D"), [pd.Grouper(key="day", freq="D"), "text"]):
        groups = table.groupby(key, dropna=dropna, observed=False)["v"]
        pd.testing.assert_series_equal(groups.upsweep.cumulative_sum(), groups.cumsum())
    levels = table.set_index(["text", "float"]).groupby(level=[0, 1], dropna=dropna)[["v"]]
    pd.testing.assert_frame_equal(levels.upsweep.cummax(), levels.cummax())


@pytest.mark.dear
@pytest.mark.parametrize("dropna", [True, False])
@pytest.mark.parametrize("dtypes", [["f8"] * 3, ["i8"] * 3, ["f8", "i4", "Int64"], ["Int64"] * 3])
def test_groups_of_a_table_are_those_of_its_columns(dropna, dtypes, monkeypatch):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("upsweep.pandas")
    from upsweep.cpu import codes

    values, keys = (
        RNG.integers(-9, 9, (3, 60)),
        pd.Series(np.array(["a", "b", None], object)[KEYS % 3], dtype="str"),
    )
    index = RNG.integers(0, 9, 60)
    columns = [pd.Series(v, index, name="same").astype(t) for v, t in zip(values, dtypes)]
    groups = pd.concat(columns, axis=1).groupby(keys.array, dropna=dropna)
    each = [column.groupby(keys.array, dropna=dropna) for column in columns]
    numbered, of_texts = [], codes._of_texts
    monkeypatch.setattr(codes, "_of_texts", lambda *given: numbered.append(given) or of_texts(*given))
    for name, given in (
        ("scan", {"op": "max", "exclusive": True, "initial": 3}),
        ("cumulative_sum", {}),
        ("ema", {"halflife": 2.0, "times": np.sort(values[0])}),
        ("discounted_sum", {"gamma": 0.5}),
    ):
        numbered.clear()
        got = getattr(groups.upsweep, name)(**given)
        assert len(numbered) == 1
        want = pd.concat([getattr(one.upsweep, name)(**given) for one in each], axis=1)
        pd.testing.assert_frame_equal(got, want)
    with pytest.raises(ValueError, match="several results"):
        groups.upsweep.scan(finish=lambda prefix: (prefix, prefix))


def test_polars_series_and_expressions():
    pl = pytest.importorskip("polars")
    import upsweep.polars  # noqa: F401

    table = pl.DataFrame({"key": KEYS, "day": KEYS % 2, "v": X})
    got = up.scan(table["v"], "max")
    assert got.name == "v"
    assert got.equals(table["v"].cum_max())
    assert table["v"].upsweep.cummin().equals(table["v"].cum_min())
    planes = up.scan(table, "max", axis=0)
    assert planes.columns == table.columns
    lazy = table.lazy().with_columns(
        m=pl.col("v").upsweep.cummax(), g=pl.col("v").upsweep.scan("max", over=["key", pl.col("day")])
    )
    got = lazy.collect()
    assert got["m"].equals(table["v"].cum_max(), check_names=False)
    wanted = table.select(pl.col("v").cum_max().over("key", "day"))["v"]
    assert got["g"].equals(wanted, check_names=False)
    with pytest.raises(up.DTypeError, match="fill_null"):
        up.scan(pl.Series([1, None, 2]))


def test_xarray_keeps_dimensions_coordinates_and_chunks():
    xr = pytest.importorskip("xarray")
    import upsweep.xarray  # noqa: F401

    coords = {"time": np.arange(20) * 3, "x": list("abc")}
    rain = xr.DataArray(X.reshape(20, 3), coords, ("time", "x"), name="rain", attrs={"units": "mm"})
    got = rain.upsweep.scan(dim="time")
    assert got.attrs == rain.attrs
    xr.testing.assert_identical(got, rain.copy(data=up.scan(rain.values, axis=0)))
    xr.testing.assert_identical(
        up.scan(rain, "max", axis=1), rain.copy(data=np.maximum.accumulate(X.reshape(20, 3), 1))
    )
    with pytest.raises(up.ShapeError, match="dim='time'"):
        rain.upsweep.scan()
    weights = xr.DataArray([0.1, 0.2, 0.3], {"x": list("abc")}, ("x",))
    averages = rain.upsweep.ema(weights, dim="time")
    np.testing.assert_array_equal(averages.sel(x="b"), up.ema(rain.sel(x="b").values, 0.2))
    pytest.importorskip("dask")
    chunked = rain.chunk({"time": 7})
    lazy = chunked.upsweep.scan(dim="time")
    assert lazy.chunks == chunked.chunks
    xr.testing.assert_identical(lazy.compute(), got)
    times = xr.DataArray(np.arange(20.0) ** 2, dims="time")
    timed = [x.upsweep.ema(halflife=3.0, times=times, dim="time") for x in (chunked, rain)]
    assert timed[0].chunks == chunked.chunks
    xr.testing.assert_identical(timed[0].compute(), timed[1])
    with pytest.raises(up.EngineError, match=r"upsweep\.xarray"):
        up.scan(chunked, axis=0)


def test_reductions_of_xarray_keep_the_other_dimensions():
    xr, _ = pytest.importorskip("xarray"), pytest.importorskip("upsweep.xarray")
    coords = {"time": np.arange(20) * 3, "x": list("abc")}
    rain = xr.DataArray(X.reshape(20, 3), coords, ("time", "x"), name="rain", attrs={"units": "mm"})
    most = rain.upsweep.reduce("max", dim="time")
    xr.testing.assert_identical(most, rain.max("time", keep_attrs=True))
    starts = xr.DataArray(np.arange(3), {"x": list("cba")}, ("x",))
    started = rain.upsweep.reduce(dim="time", initial=starts)
    np.testing.assert_array_equal(started, up.reduce(rain.values, axis=0, initial=np.arange(3)[::-1]))
    two = up.segments.lengths([5, 15])
    want = up.reduce(rain.values, axis=0, segments=two)
    got = rain.upsweep.reduce(dim="time", segments=two)
    xr.testing.assert_identical(
        got, xr.DataArray(want, {"x": list("abc")}, ("time", "x"), "rain", rain.attrs)
    )
    # As many segments as items are none the less no items.
    got = rain.upsweep.reduce(dim="time", segments=up.segments.groups(np.arange(20)))
    xr.testing.assert_identical(got, rain.drop_vars("time"))
    assert rain.upsweep.reduce("max", dim="x").dims == ("time",)
    pytest.importorskip("dask")
    lazy = rain.chunk({"time": 7}).upsweep.reduce("max", dim="time")
    assert lazy.chunks is not None
    xr.testing.assert_identical(lazy.compute(), most)


def test_recurrences_of_labelled_objects():
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("upsweep.pandas")
    x, a = np.arange(6.0), np.array([0.5, 0.25, 0.5, 2, 1, 0.5])
    want = up.linear_recurrence(a, x)
    table = pd.DataFrame({"x": x, "a": a, "key": [1, 2, 1, 2, 1, 2]}, list("abcdef"))
    pd.testing.assert_series_equal(
        table["x"].upsweep.linear_recurrence(table["a"]), pd.Series(want, table.index, name="x")
    )
    grouped = table.groupby("key")["x"].upsweep.linear_recurrence(0.5)
    np.testing.assert_array_equal(
        grouped, up.linear_recurrence(0.5, x, segments=up.segments.groups(table["key"].values))
    )
    pl, _ = pytest.importorskip("polars"), pytest.importorskip("upsweep.polars")
    rows = pl.from_pandas(table)
    got = rows.select(
        pl.col("x").upsweep.linear_recurrence(pl.col("a")),
        by=pl.col("x").upsweep.linear_recurrence(0.5, over="key"),
    )
    assert got.to_dict(as_series=False) == {"x": want.tolist(), "by": grouped.tolist()}
    xr, _ = pytest.importorskip("xarray"), pytest.importorskip("upsweep.xarray")
    decay = xr.DataArray([0.5, 0.25], {"lat": [3, 1]}, ("lat",))
    flow = xr.DataArray(x.reshape(3, 2), {"lat": [1, 3]}, ("time", "lat"))
    stored = flow.upsweep.linear_recurrence(decay, dim="time")
    np.testing.assert_array_equal(stored, up.linear_recurrence([0.25, 0.5], x.reshape(3, 2), axis=0))
    pytest.importorskip("dask")
    lazy = flow.chunk({"time": 2}).upsweep.linear_recurrence(decay, dim="time")
    assert lazy.chunks == ((2, 1), (2,))
    xr.testing.assert_identical(lazy.compute(), stored)


@pytest.mark.parametrize("how", [{}, {"closed": "right", "label": "right"}, {"offset": "3h"}], ids=str)
@pytest.mark.parametrize("shuffled", [False, True])
def test_spans_of_time_in_pandas(how, shuffled):
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("upsweep.pandas")
    times = pd.date_range("2026-01-01", periods=20, freq="5h")
    table = pd.DataFrame({"v": np.arange(20), "w": np.arange(20) * 0.5}, times)
    table = table.sample(frac=1, random_state=0) if shuffled else table
    for x in (table, table["v"]):
        spans = x.resample("D", **how)
        pd.testing.assert_frame_equal(
            *(pd.DataFrame(y) for y in (spans.upsweep.cumulative_sum(), spans.transform("cumsum")))
        )
    named = table.rename_axis("t").reset_index().resample("D", on="t", **how)
    pd.testing.assert_frame_equal(named.upsweep.scan("max"), named.transform("cummax"))
    with pytest.raises(ValueError, match=r"pass both to groupby"):
        _ = table.groupby("w").resample("D").upsweep


def test_groups_of_pandas_are_episodes():
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("upsweep.pandas")
    rewards, rng = np.random.default_rng(0).random(40), np.random.default_rng(1)
    table = pd.DataFrame({"run": rng.integers(0, 4, 40), "reward": rewards}, index=rng.permutation(40))
    got = table.groupby("run")["reward"].upsweep.discounted_sum(0.9)
    assert got.index.equals(table.index)
    for _, part in table.groupby("run"):
        want = up.discounted_sum(part["reward"].to_numpy(), 0.9)
        np.testing.assert_array_equal(got.loc[part.index].to_numpy(), want)


def test_an_index_is_not_written_to():
    """pandas finds rows by a table that it makes once of an index."""
    pd = pytest.importorskip("pandas")
    for index in (pd.Index([1.0, 2.0, 3.0]), pd.to_datetime([1, 2, 3])):
        x, before = index.to_numpy(copy=True), index.copy(deep=True)
        for _ in range(2):
            with pytest.raises(up.OutputError, match="read-only"):
                up.scan(x[::-1].copy(), "max", out=index)
        assert index.equals(before)
        assert index.get_loc(before[2]) == 2


def test_an_axis_of_xarray_is_called_by_its_name():
    xr = pytest.importorskip("xarray")
    pytest.importorskip("upsweep.xarray")
    x = xr.DataArray(np.ones((2, 3)), dims=("t", "x"))
    with pytest.raises(up.ShapeError, match="pass dim='t' for instance, not axis="):
        x.upsweep.scan(dim="t", axis=1)


def test_results_of_xarray_go_where_out_says():
    xr, _ = pytest.importorskip("xarray"), pytest.importorskip("upsweep.xarray")
    x = xr.DataArray(X.reshape(20, 3), {"time": np.arange(20), "x": list("abc")}, ("time", "x"))
    for out in (xr.full_like(x, np.nan), xr.full_like(x, np.nan).transpose().copy()):
        x.upsweep.cummax(dim="time", out=out)
        np.testing.assert_array_equal(out.transpose(*x.dims), up.cummax(x.values, axis=0))
    most = xr.full_like(x[0], np.nan)
    x.upsweep.reduce("max", dim="time", out=most)
    np.testing.assert_array_equal(most, x.max("time"))
    turned = xr.full_like(x[::-1], np.nan)
    with pytest.raises(ValueError, match="align"):
        x.upsweep.cummax(dim="time", out=turned)
    with pytest.raises(up.EngineError, match="labels of out along 'time'"):
        up.cummax(x, axis=0, out=turned)
    with pytest.raises(up.EngineError, match="labels of out along 'x'"):
        up.reduce(x, "max", axis=0, out=most[::-1])


def test_a_start_for_rows_of_xarray_without_items():
    xr = pytest.importorskip("xarray")
    pytest.importorskip("upsweep.xarray")
    start = xr.DataArray([1.0, 2, 3], {"x": list("abc")}, ("x",))
    for n in (0, 2):
        x = xr.DataArray(np.zeros((n, 3)), {"x": list("cab")}, ("t", "x"))
        want = np.tile([[3.0, 1, 2]], (n, 1))
        np.testing.assert_array_equal(x.upsweep.scan(dim="t", initial=start), want)
    # What becomes of the start must not depend on what is scanned.
    records = x.astype([("u", "f8"), ("v", "f8")])
    xr.testing.assert_identical(records.upsweep.scan("affine", dim="t"), records)


def test_expressions_of_polars_among_the_arguments():
    pl = pytest.importorskip("polars")
    pytest.importorskip("upsweep.polars")
    day, last = np.cumsum(KEYS), KEYS == 2
    table = pl.DataFrame({"v": X, "w": -X, "day": day, "last": last, "key": KEYS}).lazy()
    got = table.select(
        pl.col("v", "w").upsweep.ema(halflife=2.0, times=pl.col("day")),
        by=pl.col("v").upsweep.ema(halflife=2.0, times=pl.col("day"), over="key"),
        sum=pl.col("v").upsweep.discounted_sum(pl.col("day") / 1000, dones=pl.col("last")),
    ).collect()
    for name, sign in (("v", 1), ("w", -1)):
        np.testing.assert_array_equal(got[name], up.ema(sign * X, halflife=2.0, times=day))
    wanted = up.ema(X, halflife=2.0, times=day, segments=up.segments.groups(KEYS))
    np.testing.assert_array_equal(got["by"], wanted)
    np.testing.assert_array_equal(got["sum"], up.discounted_sum(X, day / 1000, last))
    both = table.select(pl.col("v", "w").upsweep.scan(over="key")).collect()
    for name, sign in (("v", 1), ("w", -1)):
        np.testing.assert_array_equal(both[name], up.scan(sign * X, segments=up.segments.groups(KEYS)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "bool", "Int8", "UInt8", "boolean"])
def test_sums_of_narrow_integers_by_group_are_those_of_pandas(dtype):
    """pandas chooses the dtype by the sums: by their numbers they must agree, where int8 would wrap."""
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("upsweep.pandas")
    x = pd.Series(np.resize([1, 1, 0] if "bool" in dtype else [100, 127, 120], 60)).astype(dtype)
    groups = x.groupby(KEYS)
    for ours, theirs in (
        (groups.upsweep.cumulative_sum(), groups.cumsum()),
        (x.upsweep.cumulative_sum(), x.cumsum()),
        (up.cumulative_sum(x, segments=up.segments.groups(KEYS)), groups.cumsum()),
    ):
        assert str(ours.dtype).lower() == ("uint64" if dtype.lower() == "uint8" else "int64")
        pd.testing.assert_series_equal(ours, theirs, check_dtype=False)
    if "bool" not in dtype:
        assert groups.upsweep.scan().dtype == x.dtype


def test_labels_of_what_is_broadcast_are_those_of_the_data():
    """Taken by place, each of these would go with another item than the one that has its label."""
    pd = pytest.importorskip("pandas")
    table, back = pd.DataFrame(np.ones((3, 3))), [2, 1, 0]
    row = pd.Series([0.0, 1, 0.5], index=back)
    # A row of weights goes by the names of the columns, times and dones by those of the rows.
    for call in (
        lambda: up.linear_recurrence(row, table, axis=0),
        lambda: up.scan((table, row), map=lambda a, b: a * b, axis=0),
        lambda: up.ema(table, row, axis=0),
        lambda: up.ema(table[0], row),
        lambda: up.ema(table, 0.5, initial=row, axis=0),
        lambda: up.ema(table, times=row, halflife=1.0, axis=0),
        lambda: up.ema(table[0], 0.5, segments=up.segments.groups(row)),
        lambda: up.discounted_sum(table, 0.5, row > 0, axis=0),
        lambda: up.discounted_sum(table, 0.5, initial=row, axis=0),
        lambda: up.gae(table, table, row, gamma=0.5, lam=0.5, axis=0),
        lambda: apps.compact(table[0], row > 0),
        lambda: apps.compact((table[0], table[1]), row > 0),
    ):
        with pytest.raises(up.EngineError, match=r"labels of .* differ"):
            call()
    there = row.reindex(table.columns)
    want = up.linear_recurrence(there.to_numpy(), table.to_numpy(), axis=0)
    np.testing.assert_array_equal(up.linear_recurrence(there, table, axis=0), want)
    np.testing.assert_array_equal(apps.compact(table[0], there > 0), [1, 1])
    assert apps.compact((), there > 0) == ()
    xr = pytest.importorskip("xarray")
    square = xr.DataArray(np.ones((3, 3)), dims=("t", "x"))
    with pytest.raises(up.EngineError, match=r"dimensions of times are \['x'\]"):
        up.ema(square, times=xr.DataArray([1, 2, 3], dims="x"), halflife=1.0, axis=0)


def test_equal_labels_of_other_dtypes_are_the_same():
    pd = pytest.importorskip("pandas")
    x, days = pd.Series([1.0, 2, 3]), pd.date_range("2020", periods=3, tz="UTC")
    for own, other in ((x.index, pd.Index([0, 1, 2], dtype="Int64")), (days, days.tz_convert("Asia/Tokyo"))):
        weights = pd.Series([0.0, 1, 0.5], index=other)
        assert up.linear_recurrence(weights, x.set_axis(own)).tolist() == [1, 3, 4.5]
        with pytest.raises(up.EngineError, match=r"labels of .* differ"):
            up.linear_recurrence(weights.set_axis(other[::-1]), x.set_axis(own))


def test_lengths_and_results_of_segments_have_labels_of_their_own():
    pd = pytest.importorskip("pandas")
    x = pd.Series([1.0, 2, 3], index=list("abc"))
    sizes = pd.Series(["u", "v", "v"]).value_counts(sort=False)
    assert up.scan(x, segments=up.segments.lengths(sizes)).tolist() == [1, 2, 5]
    assert up.reduce(x, segments=up.segments.lengths(sizes)).tolist() == [1, 5]
    # As many segments as items are none the less no items.
    for segments in (up.segments.lengths([2, 0, 1]), up.segments.groups([7, 8, 9])):
        assert type(up.reduce(x, segments=segments)) is np.ndarray
    table, three = pd.DataFrame({"a": x, "b": x * 2}), up.segments.lengths([1, 1, 1])
    pd.testing.assert_frame_equal(up.reduce(table, axis=0, segments=three), table.reset_index(drop=True))
    got = up.reduce(table, axis=1, segments=up.segments.lengths([2]))
    pd.testing.assert_frame_equal(got, pd.DataFrame({0: x * 3}), check_column_type=False)
    polars = pytest.importorskip("polars").DataFrame({"a": [1, 2, 3], "b": [2, 4, 6]})
    got = up.reduce(polars, axis=0, segments=up.segments.groups([7, 8, 7]))
    assert got.to_dict(as_series=False) == {"a": [4, 2], "b": [8, 4]}
    xr = pytest.importorskip("xarray")
    offsets = xr.DataArray([0, 1, 3], dims="segment")
    got = up.scan(xr.DataArray(x.to_numpy(), dims="t"), segments=up.segments.offsets(offsets))
    assert got.values.tolist() == [1, 2, 5]


def test_arguments_of_xarray_have_a_value_for_each_label():
    """Where xarray fills up with NaN, a flag would be true."""
    xr = pytest.importorskip("xarray")
    pytest.importorskip("upsweep.xarray")
    x = xr.DataArray(np.ones((3, 2)), {"t": [0, 1, 2], "x": [5, 6]}, ("t", "x"))
    dones = xr.DataArray([True, False], {"t": [1, 0]}, ("t",))
    for call in (
        lambda: x.upsweep.discounted_sum(0.5, dones, dim="t"),
        lambda: x.upsweep.ema(halflife=1.0, times=xr.DataArray([1, 2], {"t": [0, 1]}, ("t",)), dim="t"),
        lambda: x.upsweep.scan(initial=xr.DataArray([1.0], {"x": [6]}, ("x",)), dim="t"),
    ):
        with pytest.raises(up.ShapeError, match="no values for some labels"):
            call()
    # Labels that x has not are left out, and others are put in its order.
    more = xr.DataArray([True, False, True, False], {"t": [3, 2, 1, 0]}, ("t",))
    assert x.upsweep.discounted_sum(0.5, more, dim="t")[:, 0].values.tolist() == [1.5, 1, 1]


def test_several_arrays_in_one_object_are_no_array():
    pd, xr = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    table = pd.DataFrame({"k": [1, 2, 1], "v": [1.0, 2.0, 3.0]})
    for grouped in (table.groupby("k"), table.groupby("k")["v"]):
        with pytest.raises(up.EngineError, match=r"GroupBy is no array: .*x\.upsweep\.scan.*groups\(keys\)"):
            up.scan(grouped)
    with pytest.raises(up.EngineError, match=r"a Dataset holds several arrays: .*x\.map"):
        up.scan(xr.Dataset({"v": ("t", [1.0, 2.0])}))
