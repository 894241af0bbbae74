"""Integers under operators that give the same bits in any order: the bits are a loop's, whatever the width, place and stride."""

import numpy as np
import pytest

import upsweep as up
from upsweep import recall
from upsweep.cpu import launch, tuning


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
    info = np.iinfo(dtype)
    return np.random.default_rng(n).integers(info.min, info.max, n, dtype, endpoint=True)


def data(name, dtype, n):
    """Products of odd numbers alone do not end as zeros."""
    x = drawn(dtype, n)
    return x | 1 if name == "mul" else x


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("dtype", ["i1", "u4", "i8"])
def test_every_form(name, dtype):
    base, start = data(name, dtype, 3_010), np.dtype(dtype).type(5)
    for n in LENGTHS:
        for where, place in PLACES.items():
            x = place(base, n)
            for reverse in (False, True):
                items = x[::-1] if reverse else x
                want = UFUNCS[name](start, UFUNCS[name].accumulate(items, dtype=dtype))
                shown = np.concatenate([[start], want[:-1]])
                y = place(np.full(3_010, 77, dtype), n)
                for exclusive, right in ((False, want), (True, shown)):
                    up.scan(x, name, out=y, exclusive=exclusive, reverse=reverse, initial=start)
                    given = y[::-1] if reverse else y
                    assert given.tobytes() == right.astype(dtype).tobytes(), (n, where, reverse, exclusive)
                assert up.reduce(items, name, initial=start) == want[-1]


@pytest.mark.parametrize("name", ["add", "max"])
def test_on_itself(name):
    x = drawn("i4", 1_000)
    want = UFUNCS[name].accumulate(x, dtype="i4")
    exclusive = up.scan(x, name, exclusive=True)
    assert exclusive[1:].tolist() == want[:-1].tolist()
    for given, right in ((up.scan(x, name, out=x.copy()), want), (up.scan(x, name, out=x), want)):
        assert given.tobytes() == right.tobytes()


@pytest.fixture
def tuned(monkeypatch):
    """Sets numbers of `tuning`. Launches are planned anew with them, and again after the test."""

    def tune(**numbers):
        for name, value in numbers.items():
            monkeypatch.setattr(tuning, name, value)
        launch._launch.cache_clear()
        recall.known_calls.clear()

    yield tune
    launch._launch.cache_clear()
    recall.known_calls.clear()


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
