"""Transposition in registers: between runs of 16 items, one behind the other in memory, and a panel's lanes.

LLVM's vectoriser finds everything but this by itself: a strided loop becomes gathers of single items, at three to five times
the cost. So transposition is written down as shuffles, on vectors of 32 bytes on every machine. Their two halves are transposed
separately: SSE, AVX and NEON all have an instruction for that, and LLVM splits or joins the vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from upsweep.cpu.address import I64, pointer
from upsweep.cpu.memory import Items
from upsweep.cpu.shuffles import shuffle, transposed, vector
from upsweep.cpu.words import HALF, WHOLE
from upsweep.dtypes import bits_of


def turn_in(size: int) -> Callable[..., None]:
    """The code that brings `lanes` runs of m items, `run` bytes apart, into a panel's lanes, its rows `pitch` bytes apart."""
    lanes_at_once, items_at_once, square = WHOLE // size, HALF // size, _square_in(size)
    bits = Items([bits_of(size)], [bits_of(size)], True)
    read, write = bits.read_strided, bits.write

    def turn(panel, pitch, runs, run, lanes, m):
        whole = m // items_at_once * items_at_once
        # A last square that shares rows with the one before it takes less time than two rows item by item.
        shared = whole and m - whole > 1
        for lane in range(0, lanes, lanes_at_once):
            for row in range(0, whole, items_at_once):
                square(panel + row * pitch + lane * size, pitch, runs + lane * run + row * size, run)
            if shared:
                row = m - items_at_once
                square(panel + row * pitch + lane * size, pitch, runs + lane * run + row * size, run)
        for row in range(m if shared else whole, m):
            for lane in range(lanes):
                write((panel + row * pitch,), lane, read((runs + row * size,), (run,), lane))

    return turn


def turn_out(size: int) -> Callable[..., None]:
    """The code that hands `lanes` lanes of a panel over as runs of m items: the reverse of `turn_in`."""
    lanes_at_once, items_at_once, square = WHOLE // size, HALF // size, _square_out(size)
    bits = Items([bits_of(size)], [bits_of(size)], True)
    read, write = bits.read, bits.write_strided

    def turn(runs, run, panel, pitch, lanes, m):
        whole = m // items_at_once * items_at_once
        shared = whole and m - whole > 1
        for lane in range(0, lanes, lanes_at_once):
            for row in range(0, whole, items_at_once):
                square(runs + lane * run + row * size, run, panel + row * pitch + lane * size, pitch)
            if shared:
                row = m - items_at_once
                square(runs + lane * run + row * size, run, panel + row * pitch + lane * size, pitch)
        for row in range(m if shared else whole, m):
            for lane in range(lanes):
                write((runs + row * size,), (run,), lane, read((panel + row * pitch,), lane))

    return turn


def _lines(builder: Any, first: Any, step: Any, count: int, ty: Any) -> list[Any]:
    return [pointer(builder, builder.add(first, builder.mul(step, I64(i))), ty) for i in range(count)]


def even_items(size: int) -> Any:
    """A function that brings every other item together, as many as a line of lanes has; it also reads the item behind each. LLVM
    would take them one by one.
    """
    whole, n = vector(size, WHOLE), WHOLE // size

    @intrinsic
    def evens(typing, target, source):
        def code(context, builder, signature, arguments):
            target, source = arguments
            a, b = (builder.load(p, align=1) for p in _lines(builder, source, I64(WHOLE), 2, whole))
            even = shuffle(builder, a, b, list(range(0, 2 * n, 2)))
            builder.store(even, pointer(builder, target, whole), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), code

    return evens


def _square_in(size: int) -> Any:
    n, half, whole = HALF // size, vector(size, HALF), vector(size, WHOLE)

    @intrinsic
    def square(typing, panel, pitch, runs, run):
        def code(context, builder, signature, arguments):
            panel, pitch, runs, run = arguments
            halves = [builder.load(p, align=1) for p in _lines(builder, runs, run, 2 * n, half)]
            rows = [shuffle(builder, a, b, list(range(2 * n))) for a, b in zip(halves[:n], halves[n:])]
            for row, place in zip(transposed(builder, rows, n), _lines(builder, panel, pitch, n, whole)):
                builder.store(row, place, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, types.int64), code

    return square


def _square_out(size: int) -> Any:
    n, half, whole = HALF // size, vector(size, HALF), vector(size, WHOLE)

    @intrinsic
    def square(typing, runs, run, panel, pitch):
        def code(context, builder, signature, arguments):
            runs, run, panel, pitch = arguments
            rows = [builder.load(p, align=1) for p in _lines(builder, panel, pitch, n, whole)]
            rows = transposed(builder, rows, n)
            for lane, place in enumerate(_lines(builder, runs, run, 2 * n, half)):
                upper, row = divmod(lane, n)
                part = shuffle(builder, rows[row], rows[row], [upper * n + k for k in range(n)])
                builder.store(part, place, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, types.int64), code

    return square
