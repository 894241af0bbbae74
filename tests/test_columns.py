"""Columns and short rows that the CPU engine sweeps in registers have the oracle's bits, wherever rows begin in a cache line and
however many columns or rows are left over, in place, exclusive, segmented, from starts, cut into tiles, and past the cache."""

import ctypes
import mmap
import sys

import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from portions import every
from table import CASES, P

LINE = 64


@pytest.fixture(autouse=True, params=["into the cache", "past it", "past it in stretches"])
def many_threads(request, tuned):
    """Threads, tiles and strips already for few rows; results into the cache and past it."""
    past = {} if request.param == "into the cache" else {"STREAM_BYTES": 0}
    tuned(
        PARALLEL_BYTES=0,
        OWN_CODE_BYTES=0,
        STAGED_FROM=0 if "stretches" in request.param else 1 << 62,
        **past,
    )


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
    for rows, columns in ((17, 3), (48, 16), (70, 33), (125, 64), (200, 100), (31, 230), (7, 50)):
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
    shapes = (1, 40), (2, 40), (3, 40), (13, 40), (16, 5), (17, 40), (18, 40), (100, 40), (67, 523)
    for rows, columns in shapes:
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
    every(
        3,
        [
            ("add-f32", False, False, False),
            ("affine-f32", False, False, False),
            *(
                (("hash-u64"), e, s, i)
                for e, s in ((False, False), (False, True), (True, False))
                for i in (False, True)
            ),
        ],
    ),
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
    every(
        3,
        [
            ("add-f32", False, False, False),
            ("affine-f32", False, False, False),
            ("join-i64", False, False, False),
            *((("hash-u64"), e, s, i) for e in (False, True) for s in (False, True) for i in (False, True)),
        ],
    ),
)
def test_short_rows(name, exclusive, segmented, started):
    case = CASES[name]
    for rows, items in ((9, 40), (16, 16), (33, 50), (70, 100), (130, 31), (9, 7), (35, 512), (19, 300)):
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


@pytest.mark.dear
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("name", ["hash-u64", "affine-f32"])
def test_short_rows_whose_last_items_fill_no_register(name, order, reverse):
    """In both orders, forwards and backwards, with rows that fill no group of lanes either."""
    case = CASES[name]
    for rows, items in ((16, 33), (33, 50), (70, 111), (19, 300), (35, 520)):
        xs = case.draw((rows, items), rows)
        wants = oracle(case.arrays, xs, axis=1, reverse=reverse, order=order)
        ys = tuple(np.zeros_like(x) for x in xs)
        one = len(xs) == 1
        up.scan(
            xs[0] if one else xs,
            case.op,
            out=ys[0] if one else ys,
            axis=1,
            reverse=reverse,
            order=order,
            threads=2,
        )
        for y, want in zip(ys, wants, strict=True):
            assert y.tobytes() == want.tobytes(), (rows, items)


LAYOUTS = {
    "forwards": lambda x: x,
    "backwards": lambda x: x[:, ::-1].copy()[:, ::-1],
    "upside down": lambda x: x[::-1].copy()[::-1],
    "with gaps": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "one item for a row": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "one row for all": lambda x: np.broadcast_to(x[:1], x.shape),
    "one item for all": lambda x: np.broadcast_to(x[:1, :1], x.shape),
}


@pytest.mark.dear
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["hash-u64", "affine-f32"])
def test_lines_that_cannot_be_swept_where_they_lie(name, layout):
    """Lines along the axis and across it; the first component alone lies so, with and without results, or all do."""
    case, lie = CASES[name], LAYOUTS[layout]
    for shape in ((70, 11), (40, 16), (17, 33), (100, 70), (35, 333), (70, 23), (300, 3), (530, 6)):
        for axis, reverse, alone in ((0, False, False), (1, False, True), (1, True, False), (0, True, True)):
            xs = tuple(lie(x) if c == 0 or not alone else x for c, x in enumerate(case.draw(shape, shape[1])))
            wants = oracle(case.arrays, xs, axis=axis, reverse=reverse)
            ys, memories = zip(*(placed(np.zeros_like(x), 8, -(-x[0].nbytes // 64) * 64) for x in wants))
            one = len(xs) == 1
            how = {"axis": axis, "reverse": reverse, "threads": 2}
            up.scan(xs[0] if one else xs, case.op, out=ys[0] if one else ys, **how)
            sums = up.reduce(xs[0] if one else xs, case.op, **how)
            last = 0 if reverse else -1
            for y, want, s, memory in zip(ys, wants, (sums,) if one else sums, memories, strict=True):
                assert y.tobytes() == want.tobytes(), (shape, axis, reverse)
                assert s.tobytes() == np.take(want, last, axis).tobytes(), (shape, axis, reverse)
                y.view(np.uint8)[...] = 77
                assert (memory == 77).all(), "bytes beside the lines were written"
            if not one and alone:
                got = up.linear_recurrence(*xs, axis=axis, reverse=reverse)
                assert got.tobytes() == wants[1].tobytes(), (shape, axis, reverse)


@pytest.mark.dear
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["hash-u64", "affine-f32"])
def test_few_columns_that_are_brought_side_by_side(name, layout):
    """Also in segments whose flags are one column for all."""
    case, lie = CASES[name], LAYOUTS[layout]
    for shape in ((303, 2), (530, 5), (272, 7), (40, 3)):
        xs = tuple(map(lie, case.draw(shape, shape[1])))
        heads = np.random.default_rng(5).random(len(xs[0])) < 0.05
        for segmented, exclusive, threads in ((False, False, 1), (False, True, 2), (True, False, 2)):
            starts = case.draw(shape[1:], 3)
            start = None if not exclusive else starts if len(xs) > 1 else starts[0]
            flags = np.broadcast_to(heads[:, None], shape) if segmented else None
            wants = oracle(case.arrays, xs, exclusive=exclusive, initial=start, heads=flags)
            ys, memories = zip(*(placed(np.zeros_like(x), 8, x[0].nbytes + 8) for x in wants))
            one = len(xs) == 1
            up.scan(
                xs[0] if one else xs, case.op, out=ys[0] if one else ys, axis=0, exclusive=exclusive, initial=start,
                segments=up.segments.flags(heads) if segmented else None, threads=threads,
            )  # fmt: skip
            for y, want, memory in zip(ys, wants, memories, strict=True):
                assert y.tobytes() == want.tobytes(), (shape, segmented, exclusive)
                y.view(np.uint8)[...] = 77
                assert (memory == 77).all(), "bytes beside the columns were written"


def lifted(x, weight):
    return x * weight + x


def lowered(p, x, weight):
    return p - x * P, p ^ weight


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_few_columns_through_functions(layout, seen):
    """A map and a finish, which may have `seen` the items, take many lines as one, of inputs that lie as they like."""
    case, lie = CASES["hash-u64"], LAYOUTS[layout]
    finish = lowered if seen else lambda p: (p * P, p ^ P)
    for shape in ((15, 5), (303, 2), (530, 5), (272, 7), (4353, 3), (600, 40)):
        x, weight = case.draw(shape, 1)[0], lie(case.draw(shape, 4)[0])
        heads, (start,) = np.random.default_rng(5).random(len(x)) < 0.05, case.draw(shape[1:], 3)
        for form in ({}, {"exclusive": True}, {"reverse": True}, {"heads": heads}):
            (prefixes,) = oracle(case.arrays, (lifted(x, weight),), initial=start, **form)
            wants = finish(prefixes, x, weight) if seen else finish(prefixes)
            how = {"segments": up.segments.flags(heads)} if "heads" in form else form
            for threads in (1, 3):
                y, memory = placed(np.zeros_like(x), 8, x[0].nbytes + 8)
                given = x.copy(), weight
                up.scan(
                    given, case.op, map=lifted, finish=finish, axis=0, out=(given[0], y), initial=start,
                    threads=threads, **how,
                )  # fmt: skip
                for got, want in zip((given[0], y), wants, strict=True):
                    assert got.tobytes() == want.tobytes(), (shape, form, threads)
                y.view(np.uint8)[...] = 77
                assert (memory == 77).all(), "bytes beside the columns were written"
            if not form:
                total = up.reduce((x, weight), case.op, map=lifted, axis=0, initial=start)
                assert total.tobytes() == prefixes[-1].tobytes(), shape


def test_few_columns_whose_finish_sees_a_component_without_results():
    case = CASES["affine-f32"]
    for shape in ((303, 2), (530, 5), (4353, 3), (600, 40)):
        xs = case.draw(shape, 1)
        want = oracle(case.arrays, xs)[1]
        for threads in (1, 3):
            got = up.scan(xs, case.op, finish=lambda p: p[1], axis=0, threads=threads)
            assert got.tobytes() == want.tobytes(), (shape, threads)


@pytest.mark.parametrize("stored", ["f2", "i2", "f4"])
def test_lines_that_are_converted(stored):
    for shape, axis in (((40, 100), 1), ((33, 1000), 1), ((50, 17), 0), ((100, 260), 0)):
        x = np.random.default_rng(3).integers(-50, 50, shape).astype(stored)
        wide = np.dtype("f8" if stored == "f4" else "f4")
        (want,) = oracle(np.add, (x.astype(wide),), axis=axis)
        for reverse in (False, True):
            along = np.flip(x, axis) if reverse else x
            y = up.scan(along, axis=axis, dtype=wide, reverse=reverse)
            assert (np.flip(y, axis) if reverse else y).tobytes() == want.tobytes(), (shape, reverse)
            if stored == "f2":
                narrow = up.scan(along, axis=axis, reverse=reverse)
                right = want.astype("f2").tobytes()
                assert (np.flip(narrow, axis) if reverse else narrow).tobytes() == right, (shape, reverse)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_of_items_that_must_be_brought_together(layout):
    """A tile is brought once, and swept up again as it is swept down."""
    case, n = CASES["hash-u64"], 70_001
    (x,) = case.draw((3, n))
    x = LAYOUTS[layout](x)[1]
    flags = np.random.default_rng(5).random(n) < 0.001
    for reverse in (False, True):
        for heads in (None, flags):
            (want,) = oracle(case.arrays, (x,), reverse=reverse, heads=heads)
            segments = None if heads is None else up.segments.flags(heads)
            for threads in (2, 3):
                got = up.scan(x, case.op, reverse=reverse, segments=segments, threads=threads)
                assert got.tobytes() == want.tobytes(), (reverse, threads)
    (want,) = oracle(case.arrays, (x * x,))
    got = up.scan(x, case.op, map=lambda item: item * item, threads=2)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("started", [False, True])
def test_tiles_that_wait_for_those_above_them(exclusive, segmented, started, tuned):
    """Strips as many as threads and more, whose last tile is whole or not."""
    tuned(CHAINED=2, NARROW_BYTES=LINE, CHAINED_ROWS=16)
    case = CASES["hash-u64"]
    for rows, columns in ((32, 300), (100, 411), (256, 300), (519, 260)):
        (x,) = case.draw((rows, columns))
        heads = np.random.default_rng(2).random((rows, columns)) < 0.1 if segmented else None
        flags = None if heads is None else up.segments.flags(heads)
        start = case.draw((columns,), 3)[0] if started or exclusive else None
        (want,) = oracle(case.arrays, (x,), exclusive=exclusive, initial=start, heads=heads)
        for threads in (2, 3, 7):
            y = x.copy()
            up.scan(
                y, case.op, axis=0, out=y, exclusive=exclusive, initial=start, segments=flags, threads=threads
            )
            assert y.tobytes() == want.tobytes(), (rows, columns, threads)
            if not (exclusive or segmented):
                # Past the cache, the rows behind those that are summed are fetched.
                sums = up.reduce(x, case.op, axis=0, initial=start, threads=threads)
                assert sums.tobytes() == want[-1].tobytes(), (rows, columns, threads)


@pytest.mark.parametrize(
    "form", ["", "exclusive", "reverse", "started", "all started", "flags", "flags of each"]
)
def test_two_columns_of_float32(form):
    """Sums are those of complex numbers, where both columns lie so in all arrays."""
    case = CASES["add-f32"]
    for shape in ((32, 2), (303, 2), (7, 130, 2), (5000, 2)):
        axis, n = len(shape) - 2, shape[-2]
        (x,) = case.draw((*shape[:-1], 3))
        heads = np.random.default_rng(2).random(shape) < 0.1 if "flags" in form else None
        if form == "flags":
            heads[...] = heads.reshape(-1, n, 2)[0, :, :1]
        flags = heads if form == "flags of each" else heads is not None and heads.reshape(-1, n, 2)[0, :, 0]
        start = {"started": np.float32(3), "all started": case.draw((*shape[:axis], 2), 3)[0]}.get(form)
        forms = {"exclusive": form == "exclusive", "reverse": form == "reverse"}
        how = forms | {"initial": start, "segments": None if heads is None else up.segments.flags(flags)}
        moved, order = np.moveaxis(x[..., :2], axis, 0), slice(None, None, -1 if form == "reverse" else 1)
        at = None if heads is None else np.moveaxis(heads, axis, 0)
        zero = np.float32(0) if form == "exclusive" else start
        (want,) = oracle(case.arrays, (moved[order],), exclusive=form == "exclusive", initial=zero, heads=at)
        want = np.moveaxis(want[order], 0, axis)
        for items in (x[..., :2], x[..., ::2], x[..., :2].copy()):
            items[...] = x[..., :2]
            for threads in (1, 3):
                y = up.scan(items, case.op, axis=axis, threads=threads, **how)
                assert y.tobytes() == want.tobytes(), (shape, threads)
