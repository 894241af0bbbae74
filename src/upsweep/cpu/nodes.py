"""The parts of the operator's code: block sums are combined and folded, four rows of them at once, sixteen, or one."""

from __future__ import annotations

from typing import Any

from upsweep.cpu.memory import Items, gathered, inner, same
from upsweep.cpu.registers import Rooms
from upsweep.cpu.words import ROW


def operators(user: Any, S: Items, P: Items, segmented: bool, initial: bool) -> tuple[Any, Any, Any]:
    """`combine` two block sums, `fold` a block sum onto a prefix, and the `value` of a sum without its flag.

    The results are rounded to the accumulator's dtype, also within an expression. In a segmented scan a sum ends with
    a flag: whether a segment starts in its block. Every segment starts from `start` where there is one.
    """
    cast, P_cast = S.cast, P.cast
    if not segmented:

        @inner
        def combine(a, b):
            return cast(user(a, b))

        @inner
        def fold(start, p, s):
            return P_cast(user(p, s))

        return combine, fold, same
    if P.bare:

        @inner
        def value(s):
            return s[0]

        @inner
        def flagged(v, flag):
            return (v, flag)

    else:

        @inner
        def value(s):
            return s[:-1]

        @inner
        def flagged(v, flag):
            return (*v, flag)

    @inner
    def combine(a, b):
        both = P_cast(user(value(a), value(b)))
        return cast(flagged(value(b) if b[-1] else both, a[-1] | b[-1]))

    if initial:

        @inner
        def fold(start, p, s):
            return P_cast(user(start if s[-1] else p, value(s)))

    else:

        @inner
        def fold(start, p, s):
            both = P_cast(user(p, value(s)))
            return value(s) if s[-1] else both

    return combine, fold, value


def lane_code(body: Any) -> Any:
    """No loop over lanes becomes vector code while it calls something."""
    return inner(body, forceinline=True)


def fours(S: Items, P: Items, V: int, combine: Any, fold: Any, start_at: Any) -> tuple[Any, Any]:
    """Two levels of the tree at once, up and down, for a lane of four rows in registers. `start_at` gives the start of a lane."""
    S_read, S_write, P_read, P_write = S.read, S.write, P.read, P.write

    @lane_code
    def fours_up(j, a, b, c, d):
        left, right = combine(S_read(a, j), S_read(b, j)), combine(S_read(c, j), S_read(d, j))
        S_write(b, j, left)
        S_write(d, j, combine(left, right))

    @lane_code
    def fours_down(j, starts, above, a, b, c):
        start, p = start_at(starts, j), P_read(above, j)
        q = fold(start, p, S_read(b, j))
        third = fold(start, q, S_read(c, j))
        P_write(a[:V], j, fold(start, p, S_read(a, j)))
        P_write(b[:V], j, q)
        P_write(c[:V], j, third)

    return fours_up, fours_down


def first_of_fours(S: Items, P: Items, V: int, fold: Any, value: Any) -> Any:
    """Two levels of the tree at once, up and down, where nothing stands before the four rows."""
    S_read, P_read, P_write = S.read, P.read, P.write

    @lane_code
    def fours_first(j, starts, a, b, c):
        p = value(S_read(b, j))
        third = fold(P_read(starts, j), p, S_read(c, j))
        P_write(a[:V], j, value(S_read(a, j)))
        P_write(b[:V], j, p)
        P_write(c[:V], j, third)

    return fours_first


def rising(fours_up: Any, in_room: Rooms) -> Any:
    """Brent and Kung's tree up the 16 rows of a room, two levels at a time."""
    row, each_lane = in_room.row, in_room.each_lane

    @lane_code
    def up(t):
        for k in range(0, ROW, 4):
            each_lane(fours_up, (row(t, k + 1), row(t, k + 2), row(t, k + 3), row(t, k + 4)))
        each_lane(fours_up, (row(t, 4), row(t, 8), row(t, 12), row(t, 16)))

    return up


def trees(S: Items, P: Items, V: int, combine: Any, fold: Any, value: Any, in_room: Rooms) -> tuple[Any, Any]:
    """Brent and Kung's tree up and down the 16 rows of a room, whose columns have starts of their own."""
    fours_up, fours_down = fours(S, P, V, combine, fold, P.read)
    fours_first = first_of_fours(S, P, V, fold, value)
    row, each_lane = in_room.row, in_room.each_lane

    @inner
    def down(t, starts, known):
        """`known`: the row before the others holds prefixes."""
        if known:
            each_lane(fours_down, (starts, row(t, 0)[:V], row(t, 4), row(t, 8), row(t, 12)))
            each_lane(fours_down, (starts, row(t, 0)[:V], row(t, 1), row(t, 2), row(t, 3)))
        else:
            each_lane(fours_first, (starts, row(t, 4), row(t, 8), row(t, 12)))
            each_lane(fours_first, (starts, row(t, 1), row(t, 2), row(t, 3)))
        each_lane(fours_down, (starts, row(t, 4)[:V], row(t, 5), row(t, 6), row(t, 7)))
        each_lane(fours_down, (starts, row(t, 8)[:V], row(t, 9), row(t, 10), row(t, 11)))
        each_lane(fours_down, (starts, row(t, 12)[:V], row(t, 13), row(t, 14), row(t, 15)))

    return rising(fours_up, in_room), down


def lane_joiners(S: Items, P: Items, V: int, combine: Any, fold: Any, value: Any) -> tuple[Any, Any, Any]:
    """A lane of two rows: block sums are combined, the later one is folded onto a prefix, or becomes one, in its own place."""
    S_read, S_write, P_read, P_write = S.read, S.write, P.read, P.write

    @lane_code
    def join(j, left, right):
        S_write(right, j, combine(S_read(left, j), S_read(right, j)))

    @lane_code
    def fold_onto(j, start, before, s):
        P_write(s[:V], j, fold(P_read(start, j), P_read(before, j), S_read(s, j)))

    @lane_code
    def become(j, s):
        P_write(s[:V], j, value(S_read(s, j)))

    return join, fold_onto, become


def joiners(S: Items, P: Items, C: int, V: int, combine: Any, fold: Any) -> tuple[Any, Any]:
    """JOIN and FOLD, of sums of C components and prefixes of V."""
    S_read, S_write, P_read, P_write = S.read, S.write, P.read, P.write
    S_take, P_take = gathered(C), gathered(V)

    @inner
    def join(frame, w):
        left, right = S_take(frame, 0, 1), S_take(frame, C, 1)
        for j in range(w):
            S_write(right, j, combine(S_read(left, j), S_read(right, j)))

    @inner
    def fold_row(frame, w, apart):
        start, before, block, target = (
            P_take(frame, 0, 1), P_take(frame, V, 1), S_take(frame, 2 * V, 1), P_take(frame, 2 * V + C, 1),
        )  # fmt: skip
        for j in range(w):
            P_write(target, j, fold(P_read(start, apart * j), P_read(before, j), S_read(block, j)))

    return join, fold_row
