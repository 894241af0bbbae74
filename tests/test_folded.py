"""Few short columns that lie one behind the other, and short rows through a map, have the oracle's bits on the CPU engine,
whatever is left over of a square that is transposed at once, in every form, layout and size of items, and no byte beside them
is written."""

import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from table import CASES
from upsweep.cpu import rows
from upsweep.operators import ops
from upsweep.planning import plan_of

SHAPES = (8, 3, 2), (9, 16, 5), (17, 20, 3), (41, 7, 16), (67, 2, 7), (200, 50, 4), (41, 1, 7)
LAYOUTS = {
    "side by side": lambda rows, items, columns: (rows, items, columns),
    "rows apart": lambda rows, items, columns: (rows, items + 2, columns),
    "columns apart": lambda rows, items, columns: (rows, items, columns + 1),
}


@pytest.fixture(autouse=True)
def many_threads(tuned):
    tuned(PARALLEL_BYTES=0, FOLDED_STRIP=1 << 13)


def placed(x, layout):
    """A copy of an array in a larger one, amid poison."""
    memory = np.full((*LAYOUTS[layout](*x.shape), x.itemsize), 77, np.uint8)
    y = memory.view(x.dtype)[..., 0][tuple(slice(size) for size in x.shape)]
    y[...] = x
    return y, memory


def hold(name, shape, layout, *, exclusive=False, segmented=False, started=False, **how):
    case = CASES[name]
    xs = case.draw((shape[0], shape[2], shape[1]), shape[0])
    xs = tuple(np.ascontiguousarray(x.transpose(0, 2, 1)) for x in xs)
    heads = np.random.default_rng(2).random(shape) < 0.1 if segmented else None
    start = case.draw((shape[0], shape[2]), 3)[0] if started else None
    wants = oracle(case.arrays, xs, axis=1, exclusive=exclusive, initial=start, heads=heads, **how)
    flags = None if heads is None else up.segments.flags(heads)
    for threads in (1, 3):
        places = [placed(x, layout) for x in xs]
        ys = tuple(y for y, _ in places)
        given = ys if len(ys) > 1 else ys[0]
        same = {"axis": 1, "initial": start, "threads": threads}
        if not (segmented or exclusive):
            last = 0 if how.get("reverse") else -1
            sums = up.reduce(given, case.op, **same, **how)
            for got, want in zip(sums if len(ys) > 1 else [sums], wants, strict=True):
                assert got.tobytes() == want[:, last].tobytes(), (shape, threads)
        up.scan(given, case.op, exclusive=exclusive, segments=flags, out=given, **same, **how)
        for (y, memory), want in zip(places, wants, strict=True):
            assert y.tobytes() == want.tobytes(), (shape, threads)
            y[...] = np.frombuffer(b"M" * y.itemsize, y.dtype)[0]
            assert (memory == 77).all(), "bytes beside the columns were written"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["hash-u64", "join-i64", "add-f32", "add-i8"])
def test_layouts(name, reverse, layout):
    for shape in SHAPES:
        hold(name, shape, layout, reverse=reverse)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["hash-u64", "join-i64", "add-i8"])
def test_results_past_the_cache(name, layout, tuned):
    tuned(STREAM_BYTES=0)
    for shape in SHAPES:
        hold(name, shape, layout, exclusive=name == "hash-u64", started=name == "hash-u64")


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_forms(order, exclusive, segmented, started):
    for shape in SHAPES:
        how = {"exclusive": exclusive, "segmented": segmented, "started": started or exclusive}
        hold("hash-u64", shape, "side by side", order=order, **how)


@pytest.mark.dear
@pytest.mark.parametrize("dtype", ["i1", "f2", "c16"])
def test_items_of_every_size_through_a_map_and_a_finish(dtype):
    """Numbers and arrays that stand for many rows come beside arrays of items."""
    rng = np.random.default_rng(4)
    for shape in (*SHAPES, (9, 3, 1), (70, 20, 1)):
        x, of_items = rng.integers(0, 3, shape).astype(dtype), rng.integers(0, 3, shape[1]).astype(dtype)
        got = up.scan(
            (x, of_items[:, None], 2),
            axis=1,
            dtype="c16",
            map=lambda x, a, b, i: x * a + b + i,
            finish=lambda p, x, a, b, i: p + x * i,
            threads=1,
        )
        places = np.arange(shape[1])[:, None]
        wide = x.astype("c16")
        want = np.cumsum(wide * of_items[:, None] + 2 + places, axis=1) + wide * places
        assert (got == want).all(), shape


def test_so_many_columns_are_folded(monkeypatch):
    seen = []
    folded_of = rows.folded_of
    monkeypatch.setattr(rows, "folded_of", lambda *given: seen.append(folded_of(*given)) or seen[-1])
    rows.rows_of.cache_clear()
    for shape in SHAPES[:4]:
        up.scan(np.zeros(shape, "f4"), axis=1, threads=1)
    up.scan(np.zeros((70, 20), "f4"), axis=1, map=lambda x: x + x, threads=1)
    assert seen == [2, 5, 3, 16, 1]


def test_columns_are_folded_along_the_longest_dimension():
    """In arrays of four dimensions, of which the next one is short and does not go on in memory."""
    x = np.random.default_rng(0).standard_normal((41, 6, 7, 2)).astype("f4")[:, :3]
    y = np.empty((41, 6, 7, 2), "f4")[:, :3]
    want = up.scan(x, axis=2, engine="numpy")
    plan = plan_of(ops.ADD, (x.dtype,), (x.shape,), 2)[0]
    assert rows.rows_of(plan, (x.strides, y.strides)).side_by_side == 2 * 41
    for threads in (1, 3):
        up.scan(x, axis=2, out=y, threads=threads)
        assert np.array_equal(y, want)
        assert np.array_equal(up.reduce(x, axis=2, threads=threads), want[:, :, -1])


@pytest.mark.parametrize("reverse", [False, True])
def test_longer_rows_are_folded(reverse, tuned, monkeypatch):
    """Rows of fewer than 512 items and up to 4096 bytes, also past the cache; sums of small integers are exact."""
    seen = []
    folded_of = rows.folded_of
    monkeypatch.setattr(rows, "folded_of", lambda *given: seen.append(folded_of(*given)) or seen[-1])
    for past in (1 << 24, 0):
        tuned(STREAM_BYTES=past)
        rows.rows_of.cache_clear()
        seen.clear()
        for items in (129, 511, 512):
            x = np.random.default_rng(items).integers(0, 3, (37, items)).astype("f8")
            got = up.scan(
                (x, x + 1),
                axis=1,
                reverse=reverse,
                threads=1,
                map=lambda a, b: a * b,
                finish=lambda p, a, b: p - a,
            )
            products = np.flip(x * (x + 1), 1) if reverse else x * (x + 1)
            sums = np.cumsum(products, axis=1)
            want = (np.flip(sums, 1) if reverse else sums) - x
            assert got.tobytes() == want.tobytes(), items
        assert seen == [1, 1, 0]
