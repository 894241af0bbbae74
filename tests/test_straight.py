"""Integers and truths under operators that give the same bits in any order: the bits are a loop's, whatever the width, place and
stride. Floats of which the largest or the smallest is wanted have the bits of a scan."""

from itertools import product

import numpy as np
import pytest

import upsweep as up
from portions import every
from upsweep import cpu
from upsweep.cpu import launch, straight, tuning


class Last:
    """NumPy has no such ufunc."""

    def __call__(self, first, x):
        return x

    def accumulate(self, x, dtype):
        return x


UFUNCS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "last": Last(),
}
LENGTHS = (1, 2, 7, 15, 16, 17, 63, 64, 65, 130, 1_000)
PLACES = {
    "together": lambda base, n: base[:n],
    "off a line": lambda base, n: base[3 : 3 + n],
    "apart": lambda base, n: base[1 : 1 + 3 * n : 3],
    "backward": lambda base, n: base[:n][::-1],
}


def drawn(dtype, n):
    if dtype == "b1":
        # Any byte but 0 is true.
        return np.random.default_rng(n).integers(0, 3, n, "u1").view("b1")
    info = np.iinfo(dtype)
    return np.random.default_rng(n).integers(info.min, info.max, n, dtype, endpoint=True)


def data(name, dtype, n):
    """Products of odd numbers alone do not end as zeros."""
    x = drawn(dtype, n)
    return x | 1 if name == "mul" else x


TRUTHS = [(name, "b1") for name in ("and", "or", "xor")]


@pytest.mark.parametrize(("name", "dtype"), every(4, [*product(UFUNCS, ["i1", "u4", "i8"]), *TRUTHS]))
def test_every_form(name, dtype):
    base, start = data(name, dtype, 3_010), np.dtype(dtype).type(5)
    for n in LENGTHS:
        for where, place in PLACES.items():
            x = place(base, n)
            for reverse in (False, True):
                items = x[::-1] if reverse else x
                plain = items.view("u1") != 0 if dtype == "b1" else items
                want = UFUNCS[name](start, UFUNCS[name].accumulate(plain, dtype=dtype))
                shown = np.concatenate([[start], want[:-1]])
                y = place(np.full(3_010, 77, dtype), n)
                for exclusive, right in ((False, want), (True, shown)):
                    up.scan(x, name, out=y, exclusive=exclusive, reverse=reverse, initial=start)
                    given = y[::-1] if reverse else y
                    assert given.tobytes() == right.astype(dtype).tobytes(), (n, where, reverse, exclusive)
                assert up.reduce(items, name, initial=start) == want[-1]


REDUCED = [(name, dtype) for name, dtype in product(UFUNCS, ["b1", "i1", "u1", "i4", "u8"]) if name != "last"]


@pytest.mark.parametrize(
    ("name", "dtype"), every(4, [pair for pair in REDUCED if pair not in (("add", "b1"), ("mul", "b1"))])
)
def test_a_reduction_goes_on_while_items_count(name, dtype):
    """It ends early at a value that no further item changes. The last item is another one than all before it."""
    low, high = (0, 1) if dtype == "b1" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = np.unique(np.array([low, high, 0, 1, low + 1, high - 1], dtype))
    n = 2 * straight.STRETCH // np.dtype(dtype).itemsize + 5
    for most, last in product(values, values):
        x = np.full(n, most)
        x[-1] = last
        assert up.reduce(x, name, threads=1) == UFUNCS[name].reduce(x, dtype=dtype), (most, last)
        assert up.reduce(x[-1:], name, initial=most) == UFUNCS[name](most, last), (most, last)


@pytest.mark.parametrize("name", ["add", "max"])
def test_on_itself(name):
    x = drawn("i4", 1_000)
    want = UFUNCS[name].accumulate(x, dtype="i4")
    exclusive = up.scan(x, name, exclusive=True)
    assert exclusive[1:].tolist() == want[:-1].tolist()
    for given, right in ((up.scan(x, name, out=x.copy()), want), (up.scan(x, name, out=x), want)):
        assert given.tobytes() == right.tobytes()


@pytest.mark.parametrize("dtype", ["i2", "i8"])
@pytest.mark.parametrize("past", [0, 1 << 40])
def test_tiles_and_stores_past_the_cache(dtype, past, tuned):
    tuned(PARALLEL_BYTES=0, STREAM_BYTES=past)
    x = drawn(dtype, 300_007)
    want = np.cumsum(x, dtype=dtype)
    for threads in (1, 2, 3):
        for items, right in (
            (x, want),
            (x[1:], want[1:] - x[0]),
            (x[::-1], np.cumsum(x[::-1], dtype=dtype)),
        ):
            y = np.full(300_008, 77, dtype)[: items.size]
            assert up.scan(items, out=y, threads=threads).tobytes() == right.tobytes()
            assert up.reduce(items, threads=threads) == right[-1]


def test_rows_side_by_side_in_tiles_of_one_chunk(tuned):
    """Items that lie apart are brought to scratch memory row by row. When all rows are summed, it holds the last one."""
    tuned(PARALLEL_BYTES=0, ROWS=tuning.ROWS._replace(chunk=256, tile=8192))
    x = drawn("i1", 25 * 513 * 3).reshape(25, 513, 3)[:, :, 0]
    for threads in (1, 2):
        got = up.scan(x, "xor", axis=1, threads=threads)
        np.testing.assert_array_equal(got, np.bitwise_xor.accumulate(x, axis=1))


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8"])
@pytest.mark.parametrize("past", [0, 1 << 40])
def test_short_rows_are_straight_from_a_line_on(dtype, past, tuned, monkeypatch):
    """Past the cache rows of a line are; in it, only longer ones of words."""
    tuned(PARALLEL_BYTES=0, STREAM_BYTES=past)
    seen, cut = [], launch.cut
    monkeypatch.setattr(launch, "cut", lambda *given: seen.append(cut(*given)) or seen[-1])
    line = 64 // np.dtype(dtype).itemsize
    for n in {line - 1, line, line + 1, 31, 32, 33, 63, 64, 65}:
        x = drawn(dtype, 41 * n).reshape(41, n)
        seen.clear()
        for items in (x, x[::-1], x[:, ::-1]):
            y, beside = np.full((2, 41, n), 77, dtype)
            up.scan(items, axis=1, out=y, threads=1)
            assert y.tobytes() == np.cumsum(items, axis=1, dtype=dtype).tobytes()
            assert (beside == 77).all()
        assert seen[0].straight == (n >= (line if past == 0 else max(line, 32))), n


def floats(kind, dtype, n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=n).astype(dtype)
    if kind == "zeros":
        return rng.choice(np.array([0.0, -0.0], dtype), n)
    if kind == "NaN":
        # Their bits are mixed, in the tree's order.
        at, size = rng.integers(0, n, 3), x.itemsize
        x.view(f"u{size}")[at] = np.array([np.nan, -np.nan, np.nan], dtype).view(f"u{size}") + np.arange(
            1, 4, dtype=f"u{size}"
        )
    return {"negative": -abs(x), "positive": abs(x)}.get(kind, x)


@pytest.mark.dear
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", ["any", "negative", "positive", "zeros", "NaN"])
def test_reductions_to_one_of_the_floats(kind, dtype, tuned):
    tuned(PARALLEL_BYTES=0)
    for name, n in product(("max", "min"), (1, 33, 5_000, 70_001)):
        x = floats(kind, dtype, n)
        start = x[-1:].copy()[0]
        for items, threads in product((x, x[::-1], x[::2]), (1, 2)):
            for keywords in ({}, {"initial": start}):
                want = up.scan(items, name, **keywords)[-1]
                assert up.reduce(items, name, threads=threads, **keywords).tobytes() == want.tobytes(), n
        # Rows side by side, of which one alone has a NaN.
        rows = np.abs(floats("any", dtype, 40 * len(x[:99]))).reshape(40, -1)
        rows[17] = x[:99]
        for items in (rows, rows[:, ::-1]):
            want = up.scan(items, name, axis=1)[:, -1]
            assert up.reduce(items, name, axis=1).tobytes() == want.tobytes(), n


@pytest.mark.parametrize("dtype", every(3, ["f4", "f2", "f8"]))
@pytest.mark.parametrize("kind", every(4, ["any", "negative", "positive", "zeros", "NaN"]))
def test_one_of_the_floats_in_order(kind, dtype, tuned):
    """Numbers go straight through, and from the chunk of the first NaN on each item takes its turn."""
    tuned(OWN_CODE_BYTES=0, STREAM_BYTES=1 << 14, ROWS=tuning.ROWS._replace(chunk=512))
    forms = {"exclusive": True}, {"reverse": True}, {"initial": np.dtype(dtype).type(0.5)}, {}
    for name, n in product(("max", "min"), (1, 2, 33, 300, 5_000)):
        x = floats(kind, dtype, n)
        for place, form in product(PLACES.values(), forms):
            given = np.full(3 * n + 9, 77, dtype)
            items = place(given, n)
            items[:] = x
            asked = {"order": "sequential", **form}
            want = up.scan(x, name, engine="numpy", **asked)
            assert up.scan(items, name, **asked).tobytes() == want.tobytes(), (n, form)
            if "exclusive" not in form:
                one = up.reduce(items, name, **asked)
                assert one.tobytes() == (want[0] if "reverse" in form else want[-1]).tobytes(), (n, form)
            # In place, what is written may not be read again.
            up.scan(items, name, out=items, **asked)
            assert items.tobytes() == want.tobytes(), (n, form)
            assert np.count_nonzero(given == 77) >= 2 * n


def test_one_of_the_floats_in_order_through_functions(tuned):
    tuned(OWN_CODE_BYTES=0)
    x = floats("NaN", "f4", 3_000)
    for form in ({"map": lambda v: -v}, {"finish": lambda p: -p}):
        asked = {"order": "sequential", **form}
        assert up.scan(x, "max", **asked).tobytes() == up.scan(x, "max", engine="numpy", **asked).tobytes()


@pytest.mark.parametrize(
    ("threads", "mib", "used"), [(2, 8, 1), (2, 16, 2), (16, 2, 1), (16, 4, 8), (16, 8, 16)]
)
def test_a_row_is_shared_where_threads_pay(threads, mib, used, monkeypatch):
    """It is summed before it is scanned, so that two threads take as long as one; from eight on 4 MiB pay."""
    asked = []
    monkeypatch.setattr(cpu, "at_work", lambda _, launch, *__: asked.append(launch.threads))
    up.scan(np.zeros(mib << 18, "i4"), threads=threads)
    assert asked == [used]
