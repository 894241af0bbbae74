"""Columns and short rows that the CPU engine sweeps in registers have the oracle's bits, wherever rows begin in a cache line and
however many columns or rows are left over, in place, exclusive, segmented, from starts, cut into tiles, and past the cache."""

import ctypes
import mmap
import sys

import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from table import CASES
from upsweep import recall
from upsweep.cpu import launch, tuning

LINE = 64


@pytest.fixture(autouse=True, params=["into the cache", "past it", "past it in stretches"])
def many_threads(request, monkeypatch):
    """Threads, tiles and strips already for few rows; results into the cache and past it."""
    monkeypatch.setattr(tuning, "PARALLEL_BYTES", 0)
    if request.param != "into the cache":
        monkeypatch.setattr(tuning, "STREAM_BYTES", 0)
    monkeypatch.setattr(tuning, "STAGED_FROM", 0 if "stretches" in request.param else 1 << 62)
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


@pytest.mark.parametrize(
    ("name", "exclusive", "segmented", "started"),
    [
        ("add-f32", False, False, False),
        ("affine-f32", False, False, False),
        *(
            (("hash-u64"), e, s, i)
            for e, s in ((False, False), (False, True), (True, False))
            for i in (False, True)
        ),
    ],
)
def test_few_columns(name, exclusive, segmented, started):
    """Also up to the last byte that may be read, and between bytes that must not be written."""
    case = CASES[name]
    for rows, columns in ((15, 5), (33, 3), (272, 7), (303, 2), (512, 4), (4353, 3), (9000, 6)):
        xs = case.draw((rows, columns), rows)
        heads = np.random.default_rng(rows).random((rows, columns)) < 0.01 if segmented else None
        start = case.draw((columns,), 3)[0] if started or exclusive else None
        wants = oracle(case.arrays, xs, exclusive=exclusive, initial=start, heads=heads)
        how = {"axis": 0, "initial": start}
        for threads in (1, 3):
            for gap in (0, 8):
                guarded = [ending_with_its_page(x, gap) for x in xs]
                given = tuple(guarded) if len(xs) > 1 else guarded[0]
                flags = None if heads is None else up.segments.flags(ending_with_its_page(heads))
                ys, memories = zip(*(placed(np.zeros_like(x), 8, columns * x.itemsize) for x in xs))
                out = ys if len(ys) > 1 else ys[0]
                if not (exclusive or segmented):
                    sums = up.reduce(given, case.op, threads=threads, **how)
                    for got, want in zip(sums if len(ys) > 1 else [sums], wants, strict=True):
                        assert got.tobytes() == want[-1].tobytes(), (rows, columns, threads, gap)
                up.scan(given, case.op, out=out, exclusive=exclusive, segments=flags, threads=threads, **how)
                for y, want, memory in zip(ys, wants, memories, strict=True):
                    assert y.tobytes() == want.tobytes(), (rows, columns, threads, gap)
                    y.view(np.uint8)[...] = 77
                    assert (memory == 77).all(), "bytes beside the columns were written"


def ending_with_its_page(x, gap=0):
    """A copy with gaps between its rows, behind whose last byte lies a page that nobody may read."""
    pitch = x.shape[1] * x.itemsize + gap
    size = (len(x) - 1) * pitch + pitch - gap
    pages = -(-size // mmap.PAGESIZE)
    memory = np.frombuffer(mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE), np.uint8)
    last = memory.ctypes.data + pages * mmap.PAGESIZE
    if sys.platform == "linux":
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(last), mmap.PAGESIZE, 0) == 0
    y = np.ndarray(x.shape, x.dtype, memory, pages * mmap.PAGESIZE - size, (pitch, x.itemsize))
    y[...] = x
    return y


@pytest.mark.parametrize(
    ("name", "exclusive", "segmented", "started"),
    [
        ("add-f32", False, False, False),
        ("affine-f32", False, False, False),
        ("join-i64", False, False, False),
        *((("hash-u64"), e, s, i) for e in (False, True) for s in (False, True) for i in (False, True)),
    ],
)
def test_short_rows(name, exclusive, segmented, started):
    case = CASES[name]
    for rows, items in ((9, 40), (16, 16), (33, 50), (70, 100), (130, 31), (9, 7)):
        xs = case.draw((items, rows), rows)
        heads = np.random.default_rng(rows).random((items, rows)) < 0.1 if segmented else None
        start = case.draw((rows,), 3)[0] if started or exclusive else None
        wants = oracle(case.arrays, xs, exclusive=exclusive, initial=start, heads=heads)
        how = {
            "axis": 1, "initial": start, "segments": None if heads is None else up.segments.flags(heads.T.copy())
        }  # fmt: skip
        for threads in (1, 3):
            ys = tuple(x.T.copy() for x in xs)
            given = ys if len(ys) > 1 else ys[0]
            if not (exclusive or segmented):
                sums = up.reduce(given, case.op, threads=threads, **how)
                for got, want in zip(sums if len(ys) > 1 else [sums], wants, strict=True):
                    assert got.tobytes() == want[-1].tobytes(), (rows, items, threads)
            up.scan(given, case.op, out=given, exclusive=exclusive, threads=threads, **how)
            for y, want in zip(ys, wants, strict=True):
                assert y.tobytes() == want.T.tobytes(), (rows, items, threads)
