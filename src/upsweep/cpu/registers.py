"""Runs of 16 items in registers: a room holds the runs of a few lanes, item below item, and a loop over the lanes works on it.

A room is memory on the stack. Once the loop is vector code (`lane_loop`), a room is known to be whole vectors, and LLVM keeps
these in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from upsweep.cpu.address import I8, I32, I64, fetch, pointer
from upsweep.cpu.lane_loop import each_lane_of
from upsweep.cpu.shuffles import rows_of, runs_of, shuffle, vector, whole_runs_of
from upsweep.cpu.words import HALF, LINE, ROW, WHOLE


class Rooms(NamedTuple):
    """The functions for rooms of items of these sizes, one size a component."""

    room: Callable[..., Any]
    """A room: the addresses of its first row, one a component. It has a row before the 16 of the runs."""
    row: Callable[..., Any]
    """The addresses of a row. Row 0 stands before the runs."""
    turn_in: Callable[..., None]
    """Bring in runs, which lie so many bytes apart."""
    ask_for: Callable[..., None]
    """Have the cache fetch such runs, which will be read. A component that lies NOWHERE is left out."""
    claim: Callable[..., None]
    """Have the nearest cache fetch such runs, which will be written."""
    turn_out: Callable[..., None]
    """Hand over 16 rows, from a given row on, as runs so many bytes apart. A component that goes NOWHERE is left out."""
    turn_past: Callable[..., None]
    """Hand over 16 rows, from a given row on, as runs side by side, past the cache, to an address that is a multiple of 16."""
    rows_in: Callable[..., None]
    """Set 16 rows to the rows that lie one behind the other at these addresses."""
    rows_out: Callable[..., None]
    lines_in: Callable[..., None]
    """Set 16 rows to rows of arrays, which lie so many bytes apart."""
    ask_for_lines: Callable[..., None]
    """Have the cache fetch the 16 rows of arrays behind those."""
    lines_out: Callable[..., None]
    """Hand over 15 rows to rows of arrays. A component that goes NOWHERE is left out."""
    lines_past: Callable[..., None]
    """Hand over 15 rows past the cache, to rows of arrays that begin at multiples of their size."""
    line_in: Callable[..., None]
    """Set a row to the items at these addresses."""
    line_out: Callable[..., None]
    """Hand over a row. A component that goes NOWHERE is left out."""
    line_past: Callable[..., None]
    """Hand over a row past the cache, to an address that is a multiple of the row's size."""
    each_lane: Callable[..., None]
    """Call a function for each lane with the lane's number, which must be the index of all that it reads and writes in rooms."""


def rooms(sizes: Sequence[int], lanes: int, backward: bool = False) -> Rooms:
    """Rooms of `lanes` lanes. `backward`: in memory the items of runs stand from the last to the first."""
    widths = [lanes * size for size in sizes]

    @intrinsic
    def room(typing):
        def code(context, builder, signature, arguments):
            starts = []
            for width in widths:
                memory = cgutils.alloca_once(builder, ir.ArrayType(I8, (ROW + 1) * width))
                memory.align = WHOLE
                starts.append(builder.bitcast(memory, I8.as_pointer()))
            return context.make_tuple(builder, signature.return_type, starts)

        return types.UniTuple(types.voidptr, len(widths))(), code

    @intrinsic
    def row(typing, start, number):
        def code(context, builder, signature, arguments):
            places = zip(cgutils.unpack_tuple(builder, arguments[0]), widths)
            rows = [builder.gep(place, [builder.mul(arguments[1], I64(width))]) for place, width in places]
            return context.make_tuple(builder, signature.return_type, rows)

        return start(start, types.int64), code

    def mover(move: Callable[..., None]) -> Any:
        """A function of addresses in a room and of addresses in memory, or of the latter and of strides."""

        @intrinsic
        def moved(typing, first, second):
            def code(context, builder, signature, arguments):
                pairs = zip(*(cgutils.unpack_tuple(builder, part) for part in arguments))
                for (a, b), size in zip(pairs, sizes):
                    move(builder, a, b, size, lanes)
                return context.get_dummy_value()

            return types.void(first, second), code

        return moved

    def liner(move: Callable[..., None]) -> Any:
        """A function of addresses in a room, of addresses in memory and of strides."""

        @intrinsic
        def moved(typing, inside, outside, strides):
            def code(context, builder, signature, arguments):
                triples = zip(*(cgutils.unpack_tuple(builder, part) for part in arguments))
                for (a, b, stride), size in zip(triples, sizes):
                    move(builder, a, b, stride, size, lanes)
                return context.get_dummy_value()

            return types.void(inside, outside, strides), code

        return moved

    turns = partial(_turn_in, backward=backward), partial(_turn_out, backward=backward)
    come_lines, *go_lines = map(liner, (_lines_in, _lines_out, _lines_past))
    ask_for_lines = mover(_ask_for_lines)
    rows, ends = (_turn_past, _rows_in, _rows_out), (_line_in, _line_out, _line_past)
    come, go = map(liner, turns)
    asks = [mover(partial(_ask_for, to_write=to_write)) for to_write in (False, True)]
    return Rooms(
        room, row, come, *asks, go, *map(mover, rows), come_lines, ask_for_lines, *go_lines, *map(mover, ends),
        each_lane_of(lanes),
    )  # fmt: skip


def keeper(sizes: Sequence[int], lanes: int, rows: int) -> Any:
    """A function that hands over so many rows, of which the first lanes alone count. It leaves the other items of the places as
    they are, and leaves out a component that goes NOWHERE.
    """

    @intrinsic
    def keep(typing, inside, outside, strides, count):
        def code(context, builder, signature, arguments):
            numbers = ir.VectorType(I8, lanes)
            first = builder.insert_element(numbers(None), builder.trunc(arguments[3], I8), I32(0))
            counts = shuffle(builder, first, first, [0] * lanes)
            mine = builder.icmp_unsigned("<", numbers(list(range(lanes))), counts)
            for start, place, step, size in zip(
                *(cgutils.unpack_tuple(builder, a) for a in arguments[:3]), sizes
            ):
                with _wanted(builder, place):
                    for k in range(rows):
                        there = pointer(
                            builder, builder.add(place, builder.mul(step, I64(k))), vector(size, size * lanes)
                        )
                        items = builder.load(_row(builder, start, size, k * lanes, lanes), align=size)
                        kept = builder.load(there, align=1)
                        builder.store(builder.select(mine, items, kept), there, align=1)
            return context.get_dummy_value()

        return types.void(inside, outside, strides, types.int64), code

    return keep


def _row(builder: Any, start: Any, size: int, place: int, lanes: int) -> Any:
    """The address of `lanes` items of a room as a vector."""
    return builder.bitcast(builder.gep(start, [I64(place * size)]), vector(size, size * lanes).as_pointer())


def _blocks(size: int, lanes: int, backward: bool, width: int) -> Iterator[tuple[int, int, int, list[int]]]:
    """The blocks that are transposed at once, so many bytes of each run: the bytes of a run before it, the first lane, the lanes,
    and the rows that its items belong to.
    """
    together, n = min(lanes, WHOLE // size), width // size
    for lane in range(0, lanes, together):
        for first in range(0, ROW, n):
            rows = [ROW - 1 - first - k if backward else first + k for k in range(n)]
            yield first * size, lane, together, rows


def _turn_in(
    builder: Any, inside: Any, outside: Any, stride: Any, size: int, lanes: int, backward: bool
) -> None:
    for before, start, count, rows in _blocks(size, lanes, backward, HALF):
        places = [_item_of(builder, outside, stride, lane, before) for lane in range(start, start + count)]
        runs = [builder.load(pointer(builder, place, vector(size, HALF)), align=1) for place in places]
        for row, items in zip(rows, rows_of(builder, runs, len(rows), count)):
            builder.store(items, _row(builder, inside, size, row * lanes + start, count), align=size)


def _ask_for(builder: Any, outside: Any, stride: Any, size: int, lanes: int, to_write: bool) -> None:
    with _wanted(builder, outside):
        for lane in range(lanes):
            for before in range(0, ROW * size, LINE):
                place = pointer(builder, _item_of(builder, outside, stride, lane, before), I8)
                fetch(builder, place, written=to_write, near=to_write)


def _ask_for_lines(builder: Any, outside: Any, stride: Any, size: int, lanes: int) -> None:
    for k in range(ROW, 2 * ROW):
        fetch(builder, pointer(builder, _item_of(builder, outside, stride, k, 0), I8))


def _item_of(builder: Any, runs: Any, stride: Any, lane: int, before: int) -> Any:
    """The place behind so many bytes of a lane's run."""
    return builder.add(runs, builder.add(builder.mul(stride, I64(lane)), I64(before)))


def _wanted(builder: Any, outside: Any) -> Any:
    return builder.if_then(builder.icmp_signed(">=", outside, I64(0)))


def _turned(
    builder: Any, inside: Any, size: int, lanes: int, backward: bool, width: int
) -> Iterator[tuple[int, int, Any]]:
    """The items of runs, so many bytes at once, each time with the lane and the number of bytes of its run before them."""
    for before, start, count, rows in _blocks(size, lanes, backward, width):
        places = [_row(builder, inside, size, row * lanes + start, count) for row in rows]
        items = [builder.load(p, align=size) for p in places]
        runs = runs_of(builder, items, len(rows), count) if width == HALF else whole_runs_of(builder, items)
        for lane, run in enumerate(runs, start):
            yield lane, before, run


def _turn_out(
    builder: Any, inside: Any, outside: Any, stride: Any, size: int, lanes: int, backward: bool
) -> None:
    # Two stores of halves take two extractions, one store of a whole vector takes one shuffle. Lanes of two vectors need so many
    # registers that rows of 1000 float32 took 1.3 of their time so.
    width = WHOLE if lanes == WHOLE // size and ROW * size > HALF else HALF
    with _wanted(builder, outside):
        for lane, before, items in _turned(builder, inside, size, lanes, backward, width):
            place = _item_of(builder, outside, stride, lane, before)
            builder.store(items, pointer(builder, place, items.type), align=1)


def _turn_past(builder: Any, inside: Any, outside: Any, size: int, lanes: int) -> None:
    with _wanted(builder, outside):
        # The stores to a cache line come one behind the other: a processor joins them, and has room for few lines.
        for lane, before, items in sorted(
            _turned(builder, inside, size, lanes, False, HALF), key=itemgetter(0, 1)
        ):
            place = builder.add(outside, I64(lane * ROW * size + before))
            _store_past(builder, items, pointer(builder, place, items.type), HALF)


def _rows_in(builder: Any, inside: Any, outside: Any, size: int, lanes: int) -> None:
    _lines_in(builder, inside, outside, I64(size * lanes), size, lanes)


def _rows_out(builder: Any, inside: Any, outside: Any, size: int, lanes: int) -> None:
    _lines_out(builder, inside, outside, I64(size * lanes), size, lanes, ROW)


def _line_in(builder: Any, inside: Any, outside: Any, size: int, lanes: int) -> None:
    _lines_in(builder, inside, outside, I64(0), size, lanes, 1)


def _line_out(builder: Any, inside: Any, outside: Any, size: int, lanes: int) -> None:
    _lines_out(builder, inside, outside, I64(0), size, lanes, 1)


def _line_past(builder: Any, inside: Any, outside: Any, size: int, lanes: int) -> None:
    with _wanted(builder, outside):
        items = builder.load(_row(builder, inside, size, 0, lanes), align=size)
        _store_past(builder, items, pointer(builder, outside, items.type), size * lanes)


def _lines_in(
    builder: Any, inside: Any, outside: Any, stride: Any, size: int, lanes: int, count: int = ROW
) -> None:
    row = vector(size, size * lanes)
    for k in range(count):
        place = pointer(builder, builder.add(outside, builder.mul(stride, I64(k))), row)
        builder.store(builder.load(place, align=1), _row(builder, inside, size, k * lanes, lanes), align=size)


def _lines_out(
    builder: Any, inside: Any, outside: Any, stride: Any, size: int, lanes: int, count: int = ROW - 1
) -> None:
    row = vector(size, size * lanes)
    with _wanted(builder, outside):
        for k in range(count):
            place = pointer(builder, builder.add(outside, builder.mul(stride, I64(k))), row)
            items = builder.load(_row(builder, inside, size, k * lanes, lanes), align=size)
            builder.store(items, place, align=1)


def _lines_past(builder: Any, inside: Any, outside: Any, stride: Any, size: int, lanes: int) -> None:
    row = vector(size, size * lanes)
    with _wanted(builder, outside):
        for k in range(ROW - 1):
            place = pointer(builder, builder.add(outside, builder.mul(stride, I64(k))), row)
            items = builder.load(_row(builder, inside, size, k * lanes, lanes), align=size)
            _store_past(builder, items, place, size * lanes)


def _store_past(builder: Any, items: Any, place: Any, align: int) -> None:
    store = builder.store(items, place, align=align)
    store.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))
