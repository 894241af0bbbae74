"""Groups whose items lie in any order: each group has the bits of a scan of its items alone."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

import upsweep as up
from portions import every
from table import CASES
from upsweep.cpu import group_runs, groups
from upsweep.cpu.codes import codes_of
from upsweep.cpu.group_words import Way

N = 5000
RNG = np.random.default_rng(3)
# Some groups are large, some have one item.
SIZES = RNG.choice(40, N, p=RNG.dirichlet(np.full(40, 0.3)))


def alone(xs, op, codes, axis=0, initial=None, **keywords):
    """The definition: a scan for each group by itself."""
    wanted = [np.empty(x.shape, keywords.get("dtype") or x.dtype) for x in xs]
    for code in np.unique(codes):
        here = (slice(None),) * axis + (codes == code,)
        part = tuple(x[here] for x in xs)
        got = up.scan(part if len(part) > 1 else part[0], op, axis=axis, initial=initial, **keywords)
        for want, y in zip(wanted, got if isinstance(got, tuple) else (got,)):
            want[here] = y
    return wanted


@pytest.mark.parametrize("name", ["hash-u64", "add-f4", "affine-f8"])
@pytest.mark.parametrize(
    "keywords", [{}, {"reverse": True, "exclusive": True}, {"order": "sequential"}], ids=str
)
@pytest.mark.parametrize("with_initial", [False, True])
@pytest.mark.parametrize("engine", ["cpu", "numpy"])
def test_each_group_has_the_bits_of_its_items_alone(name, keywords, with_initial, engine):
    op, xs, start = CASES_HERE[name]()
    initial = start if with_initial else None
    if keywords.get("exclusive") and not with_initial and name == "hash-u64":
        pytest.skip("it has no identity")
    arrays = xs if len(xs) > 1 else xs[0]
    outs = tuple(np.full_like(x, 77) for x in xs)
    up.scan(
        arrays, op, segments=up.segments.groups(SIZES), initial=initial,
        out=outs if len(xs) > 1 else outs[0], engine=engine, **keywords,
    )  # fmt: skip
    for got, want in zip(outs, alone(xs, op, SIZES, initial=initial, **keywords)):
        np.testing.assert_array_equal(got, want)


CASES_HERE = {
    "hash-u64": lambda: (CASES["hash-u64"].op, CASES["hash-u64"].draw(N), np.uint64(9)),
    "add-f4": lambda: ("add", (RNG.standard_normal(N).astype("f4"),), np.float32(0.1)),
    "affine-f8": lambda: ("affine", (RNG.random(N), RNG.standard_normal(N)), (1.0, 0.3)),
}


# The most groups that are brought together at once; of more, items are divided into buckets first.
@pytest.mark.parametrize("few", [4, 64])
@pytest.mark.parametrize("keywords", [{}, {"reverse": True, "exclusive": True}], ids=str)
@pytest.mark.parametrize("name", every(2, ["hash-u64", "affine-f8"]))
def test_items_are_brought_together(name, keywords, few, monkeypatch):
    """By groups, stretch by stretch, where the items behind a group's last block wait for the next stretch; or by buckets, which
    are sorted. Several threads share rows and buckets.
    """
    made = ways_of(monkeypatch)
    monkeypatch.setattr(group_runs, "FEW", few)
    op, xs, start = CASES_HERE[name]()
    how = {"segments": up.segments.groups(SIZES), "engine": "cpu", **keywords}
    arrays, outs = xs if len(xs) > 1 else xs[0], alone(xs, op, SIZES, initial=start, **keywords)
    in_order = alone(xs, op, SIZES, initial=start, order="sequential", **keywords)
    for threads in (1, 2, 9):
        for order, want in (("tree", outs), ("sequential", in_order)):
            got = up.scan(arrays, op, initial=start, threads=threads, order=order, **how)
            np.testing.assert_array_equal(got, want if len(xs) > 1 else want[0])
    brought = [run for run in made if run.form.way == Way.BROUGHT]
    assert {run.threads for run in brought} == {1, 2, 9}
    assert {run.form.in_order for run in brought} == {False, True}
    assert {run.shift > 0 for run in brought} == {few == 4}
    assert any(run.depth for run in brought) == (few == 64)


@pytest.mark.dear
@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("keywords", [{}, {"reverse": True, "exclusive": True}], ids=str)
def test_groups_that_lie_one_behind_the_other_are_scanned_where_they_lie(keywords, step, monkeypatch):
    """Threads share them where one of them begins; large ones are scanned some items at a time."""
    made = ways_of(monkeypatch)
    keys = np.sort(SIZES)[::step]
    op, xs, start = CASES_HERE["hash-u64"]()
    for order in ("tree", "sequential"):
        (want,) = alone(xs, op, keys, initial=start, order=order, **keywords)
        for threads in (1, 2, 5):
            how = {"segments": up.segments.groups(keys), "threads": threads, "order": order, **keywords}
            np.testing.assert_array_equal(up.scan(xs[0], op, initial=start, **how), want)
    assert {run.threads for run in made if run.form.way == Way.SORTED} == {1, 2, 5}


def ways_of(monkeypatch):
    """The runs that are made from now on, as if their items were many."""
    made, begin = [], group_runs.Run.__init__

    def told(run, *given):
        begin(run, *given)
        made.append(run)

    monkeypatch.setattr(group_runs.Run, "__init__", told)
    for name, size in (("STRETCH", 97), ("SORTED_STRETCH", 24)):
        monkeypatch.setattr(group_runs, name, size)
    for name in ("PARALLEL_ITEMS", "SHARED"):
        monkeypatch.setattr(groups, name, 1)
    return made


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_that_lie_in_any_way_share_the_groups(axis, order, turned, monkeypatch):
    """In order, neighbours in memory are scanned side by side, in strips. Threads share sets of rows, or strips."""
    monkeypatch.setattr(groups, "PARALLEL_ITEMS", 1)
    shape = [2, 4, 37]
    shape[axis] = 60
    x = RNG.standard_normal(shape)
    x = x.T.copy().T if turned else x
    start = RNG.standard_normal([n for d, n in enumerate(shape) if d != axis])
    keywords = {"axis": axis, "reverse": True, "exclusive": True, "initial": start, "order": order}
    want = alone([x], "add", SIZES[:60], **keywords)[0]
    for threads in (1, 3):
        got = up.scan(x, segments=up.segments.groups(SIZES[:60]), threads=threads, **keywords)
        np.testing.assert_array_equal(got, want)


@pytest.mark.dear
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_more_threads_than_rows_share_each_row(axis, order, monkeypatch):
    made = ways_of(monkeypatch)
    x = RNG.standard_normal((2, 60) if axis else (60, 2))
    keywords = {"axis": axis, "reverse": True, "exclusive": True, "initial": 0.5, "order": order}
    got = up.scan(x, segments=up.segments.groups(SIZES[:60]), threads=9, **keywords)
    np.testing.assert_array_equal(got, alone([x], "add", SIZES[:60], **keywords)[0])
    assert [run.threads for run in made] == [9]


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("room", [1, 1 << 18])
def test_neighbours_without_gaps_have_code_for_that(gaps, room, monkeypatch):
    """Which is vector code, ten times as fast; strips are as wide as the states of all groups fit into a near cache."""
    asked, loop = [], group_runs._loop
    monkeypatch.setattr(group_runs, "_loop", lambda plan, form: asked.append(form.across) or loop(plan, form))
    monkeypatch.setattr(groups, "STATES", room)
    # No launch is kept.
    monkeypatch.setattr(groups, "PARALLEL_ITEMS", 1)
    x = RNG.standard_normal((60, 74))
    x = x[:, ::2] if gaps else x[:, :37]
    for how in ({}, {"exclusive": True, "initial": RNG.standard_normal(37)}):
        want = alone([x], "add", SIZES[:60], axis=0, order="sequential", **how)[0]
        got = up.scan(x, axis=0, order="sequential", segments=up.segments.groups(SIZES[:60]), **how)
        np.testing.assert_array_equal(got, want)
    assert asked == 2 * [(None, None) if gaps else (8, 8)]


@pytest.mark.parametrize(
    ("columns", "groups_of", "threads", "beside"),
    [
        (8, 1000, 1, True),
        (8, 30_000, 1, False),
        (16, 30_000, 2, True),
        (7, 10, 1, False),
        (16, 1000, 16, False),
    ],
)
def test_columns_by_the_tree_are_scanned_side_by_side_where_states_are_few(
    columns, groups_of, threads, beside, monkeypatch
):
    """One by one, 10^5 items in 1000 groups and 16 columns of float64 take 15 ns an item, and side by side 3."""
    asked = set()

    class Told(groups.Run):
        def rows(self, rows):
            asked.add(self.form.counted)

    monkeypatch.setattr(groups, "Run", Told)
    monkeypatch.setattr(group_runs, "_loop", lambda *_: None)
    keys = np.arange(100_000) % groups_of
    up.scan(np.zeros((len(keys), columns)), axis=0, segments=up.segments.groups(keys), threads=threads)
    assert asked == {beside}


def test_narrow_dtypes_and_results_in_place():
    x = RNG.integers(-100, 100, N).astype("i1")
    want = alone([x], "add", SIZES)[0]
    np.testing.assert_array_equal(up.scan(x, segments=up.segments.groups(SIZES), out=x), want)
    h = RNG.standard_normal(N).astype("f2")
    got = up.scan(h, segments=up.segments.groups(SIZES))
    np.testing.assert_array_equal(got, alone([h], "add", SIZES)[0])
    y = up.scan(h[::-1], "max", segments=up.segments.groups(SIZES[::-1]), reverse=True)
    np.testing.assert_array_equal(y[::-1], alone([h], "max", SIZES)[0])


KEYS = {
    "bytes": np.array([5, 3, 5, 255, 3], "u1"),
    "far apart": np.array([1 << 62, -(1 << 62), 1 << 62, 7, -(1 << 62)]),
    "floats": np.array([0.0, np.nan, -0.0, 2.5, -np.nan]),
    "text": np.array(["ab", "b", "ab", "ba", "b"]),
    "objects": np.array([(1,), None, (1,), "x", None], object),
    "list": ["u", "v", "u", "w", "v"],
    "halves": np.fromiter(np.array([0.0, np.nan, -0.0, 2.5, np.nan], "f2"), object, 5),
    "decimals": [Decimal(1), Decimal("NaN"), Decimal("1.0"), Decimal(2), Decimal("NaN")],
    "complex": np.array([1, complex(np.nan, 0), 1, 2, complex(0, np.nan)]),
    "no times": np.fromiter(np.array(["2024", "NaT", "2024", "2025", "NaT"], "M8[s]"), object, 5),
    "times": np.array(["2024-01-01", "NaT", "2024-01-01", "2025-01-01", "NaT"], "M8[D]"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_kind(kind):
    codes, groups = codes_of((KEYS[kind],), 5)
    assert codes.tolist() == [0, 1, 0, 2, 1]
    assert groups == 3


def test_keys_of_other_libraries():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    text, numbers = ["u", None, "u", "w", None], [4, None, 4, -1, None]
    for values in (text, numbers):
        series = pd.Series(values, dtype="object" if values is text else "Int64")
        for key in (
            series, pd.Index(series), series.astype("category"), pd.Categorical(series), pl.Series(values),
            pl.Series(text).cast(pl.Categorical), pa.array(values), pa.chunked_array([values[:2], values[2:]]),
            pa.array(values).dictionary_encode(), series.array,
        ):  # fmt: skip
            codes, groups = codes_of((key,), 5)
            assert codes.tolist() == [0, 1, 0, 2, 1], key
            assert groups == 3


@pytest.mark.parametrize("initial", [None, 0.5, np.nan])
@pytest.mark.parametrize("nans", [0, 9])
def test_extremes_of_floats_where_some_are_no_numbers(nans, initial):
    """Without a NaN every order gives the same bits; the bits of a NaN are mixed with those of other items, as the tree goes."""
    x = RNG.standard_normal(N)
    x[:40] = np.resize([0.0, -0.0, np.inf, -np.inf], 40)
    x[RNG.choice(N, nans, replace=False)] = np.nan
    for op in ("min", "max"):
        got = up.scan(x, op, segments=up.segments.groups(SIZES), initial=initial)
        (want,) = alone([x], op, SIZES, initial=initial)
        np.testing.assert_array_equal(got.view(np.uint64), want.view(np.uint64))


def test_keys_of_which_it_is_unknown_whether_they_are_equal():
    """Such are a group; where neighbours are compared, they are refused."""
    pd = pytest.importorskip("pandas")
    keys = ["a", pd.NA, "a", pd.NA]
    assert up.scan([1, 2, 3, 4], segments=up.segments.groups(keys)).tolist() == [1, 2, 4, 6]
    neighbours, stream = up.segments.keys(keys), up.Stream("add")
    for call in (up.scan, stream.push):
        with pytest.raises(up.SegmentError, match="boolean value of NA is ambiguous"):
            call([1, 2, 3, 4], segments=neighbours)


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("longest", [3, 8, 9, 40])
def test_texts_of_any_length_in_any_number_of_threads(threads, longest):
    """Each number is that of the first appearance, in whichever thread's stretch it lies; text that is missing is a group."""
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    rng = np.random.default_rng(longest)
    # All that differs may be the last letter, or how long a text of one letter is.
    words = [None, "", "\x00", *["a" * int(n) for n in rng.integers(0, longest + 1, 30)]]
    words += [word[:-1] + chr(98 + k) for k, word in enumerate(words[3:]) if word]
    words += ["".join(rng.choice(list("xyzä"), int(rng.integers(longest + 1)))) for _ in range(4000)]
    n = 70_000
    drawn = rng.integers(0, len(words), n)
    drawn[: n // 2] //= 2  # half of them appear in the second half alone
    texts = [words[k] for k in drawn]
    known = {}
    want = [known.setdefault(text, len(known)) for text in texts]
    whole = pa.array(["other", *texts, "more"])
    for key in (
        whole.slice(1, n), pa.chunked_array([whole[1:30_001], whole[30_001 : n + 1]]), pl.Series(texts),
        pd.Series(texts, dtype="string"), pd.Series(texts, dtype="str"), pa.array(texts, pa.large_string()),
    ):  # fmt: skip
        codes, groups = codes_of((key,), n, threads)
        assert codes.tolist() == want, type(key)
        assert groups == len(known)
    assert codes_of((whole[:0],), 0, threads)[0].tolist() == []


def test_many_keys_and_several_columns():
    n = 100_000
    many = RNG.integers(0, 1 << 60, n // 2)[RNG.integers(0, n // 2, n)]
    text = many.astype("U20")
    _, first, inverse = np.unique(many, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[inverse]
    for key in (many, text, many.astype("S20")):
        codes, groups = codes_of((key,), n)
        np.testing.assert_array_equal(codes, rank)
        assert groups == len(first)
    codes, _ = codes_of((SIZES, np.arange(N) % 3, SIZES > 20), N)
    pairs = SIZES * 3 + np.arange(N) % 3
    assert len(np.unique(codes)) == len(np.unique(pairs)) == len(np.unique(codes * 1000 + pairs))


def test_mistakes():
    with pytest.raises(up.SegmentError, match="pass 3 of them"):
        up.scan([1, 2, 3], segments=up.segments.groups([1, 2]))
    with pytest.raises(up.SegmentError, match="needs keys"):
        up.segments.groups()
    with pytest.raises(up.OperatorError, match="identity"):
        up.scan([1, 2], lambda a, b: b, exclusive=True, segments=up.segments.groups([0, 0]))
    assert up.scan(np.empty(0), segments=up.segments.groups([])).shape == (0,)
    with pytest.raises(up.SegmentError, match=r"segments\.keys"):
        up.Stream("add").push([1, 2], segments=up.segments.groups([0, 1]))
