"""Columns that the CPU engine sweeps in registers have the oracle's bits, wherever rows begin in a cache line and however many
columns are left over, in place, exclusive, segmented, from starts, cut into tiles, and past
the cache."""

import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from table import CASES
from upsweep import recall
from upsweep.cpu import launch, tuning

LINE = 64


@pytest.fixture(autouse=True, params=["into the cache", "past it"])
def many_threads(request, monkeypatch):
    """Threads, tiles and strips already for few rows; results into the cache and past it."""
    monkeypatch.setattr(tuning, "PARALLEL_BYTES", 0)
    if request.param == "past it":
        monkeypatch.setattr(tuning, "STREAM_BYTES", 0)
    launch._launch.cache_clear()
    recall.known_calls.clear()
    yield
    launch._launch.cache_clear()
    recall.known_calls.clear()


def placed(x, offset, pitch):
    """A copy whose first row begins so many bytes behind a cache line, with rows `pitch` bytes apart amid poison."""
    memory = np.full(len(x) * pitch + 2 * LINE, 77, np.uint8)
    start = -memory.ctypes.data % LINE + offset
    y = np.ndarray(x.shape, x.dtype, memory, start, (pitch, x.itemsize))
    y[...] = x
    return y, memory


@pytest.mark.parametrize("pitch", ["side by side", LINE, 2048, 4096])
@pytest.mark.parametrize("name", ["hash-u64", "join-i64", "add-f32", "add-i8", "affine-f32"])
def test_wherever_rows_begin(name, pitch):
    case = CASES[name]
    rng = np.random.default_rng(1)
    for rows, columns in ((17, 3), (48, 16), (70, 33), (129, 64), (200, 100), (33, 230)):
        xs = case.draw((rows, columns), rows)
        wants = oracle(case.arrays, xs)
        for threads in (1, 2, 5):
            offset = int(rng.integers(4)) * 16
            across = max(x.itemsize * columns for x in xs)
            apart = -(-across // 8) * 8 if pitch == "side by side" else -(-across // pitch) * pitch
            ys, memories = zip(*(placed(x, offset, apart) for x in xs))
            before = [m.copy() for m in memories]
            one = len(xs) == 1
            sums = up.reduce(ys[0] if one else ys, case.op, axis=0, threads=threads)
            up.scan(ys[0] if one else ys, case.op, axis=0, threads=threads, out=ys[0] if one else ys)
            for y, right, s, m, b in zip(ys, wants, (sums,) if one else sums, memories, before, strict=True):
                assert y.tobytes() == right.tobytes(), (rows, columns, threads, offset)
                assert s.tobytes() == right[-1].tobytes(), (rows, columns, threads, offset)
                y[...] = 0
                np.ndarray(y.shape, y.dtype, b, y.ctypes.data - m.ctypes.data, y.strides)[...] = 0
                assert m.tobytes() == b.tobytes(), "bytes beside the columns were written"


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_forms(exclusive, segmented, started):
    case = CASES["hash-u64"]
    for rows, columns in ((16, 5), (100, 40), (67, 523)):
        (x,) = case.draw((rows, columns))
        heads = np.random.default_rng(2).random((rows, columns)) < 0.1 if segmented else None
        flags = None if heads is None else up.segments.flags(heads)
        start = case.draw((columns,), 3)[0] if started or exclusive else None
        (want,) = oracle(case.arrays, (x,), exclusive=exclusive, initial=start, heads=heads)
        for threads in (1, 3):
            y, _ = placed(x, 16, 8192)
            up.scan(
                y, case.op, axis=0, out=y, exclusive=exclusive, initial=start, segments=flags, threads=threads
            )
            assert y.tobytes() == want.tobytes(), (rows, columns, threads)
