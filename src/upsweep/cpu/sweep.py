"""All that depends on the operator: four loops over the lanes of a panel, which the compiler makes vector code of.

A panel has 16 rows, the items of a run below each other, and a lane for each run. The tree over a run is Brent and Kung's,
in place, two levels at a time; nothing is carried from lane to lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from upsweep.cpu.hole import hole
from upsweep.cpu.memory import Items, gathered, inner
from upsweep.cpu.registers import rooms
from upsweep.cpu.words import DOWN, JOIN, PASS, ROW, UP


def sweeper(
    accumulators: Sequence[np.dtype], segmented: bool, initial: bool, lanes: int
) -> Callable[..., None]:
    """The code of an operator on items of these dtypes. `frame` holds the addresses of operands and results:

    UP: of a panel's first row; of its first `m` rows the second of two, and the fourth of four, becomes their sum.
    DOWN: of the starts, and of the first row of a panel that was swept up, of whose quadruples those from `first` on are
        swept down. The row before the first one holds the prefixes there; the last rows are left to what is above.
    JOIN: of two rows of sums, and of the row for their sums.
    PASS: of the starts, of the prefixes before 16 rows of arrays, of the row for their sums, of the arrays' first row, and of the
        place for the prefixes behind it; then the bytes from row to row, of the arrays and of the results. If `m`, the prefixes
        behind all rows but the last are handed over, past the cache if `pitch`. There are whole groups of `lanes` columns.
    FOLD: of the starts, a row of prefixes, a row of sums to fold onto them, and the row for the results.

    Rows have `w` lanes and lie `pitch` lanes apart; starts lie `apart` items apart, 0 or 1.
    """
    one = len(accumulators) == 1
    sums = [*accumulators, *[np.dtype(np.uint8)] * segmented]
    S, P = Items(sums, sums, one and not segmented), Items(accumulators, accumulators, one)
    combine, fold, _ = operators(hole(accumulators), S, P, segmented, initial)
    S_read, S_write, S_at, P_read, P_write, P_at = S.read, S.write, S.at, P.read, P.write, P.at
    C, V = len(sums), len(accumulators)
    S_take, P_take = gathered(C), gathered(V)

    @inner
    def up(frame, pitch, w, m):
        x, d = S_take(frame, 0, 1), 1
        for level in range(2 if m > 7 else 1):
            step = d * pitch
            for i in range(1 if level else (m + 3) >> 2):
                a = S_at(x, (4 * i + 1) * step - pitch)
                for j in range(w):
                    left = combine(S_read(a, j), S_read(a, step + j))
                    right = combine(S_read(a, 2 * step + j), S_read(a, 3 * step + j))
                    S_write(a, step + j, left)
                    S_write(a, 3 * step + j, combine(left, right))
            d = 4

    @inner
    def down(frame, pitch, w, m, first, apart):
        start, x, y = P_take(frame, 0, 1), S_take(frame, V, 1), P_take(frame, V, 1)
        d = 4 if m > 3 else 1
        while d > 0:
            step = d * pitch
            for i in range(first, 1 if d == 4 else (m + 3) >> 2):
                above = P_at(y, 4 * i * step - pitch)
                a, b = S_at(x, (4 * i + 1) * step - pitch), P_at(y, (4 * i + 1) * step - pitch)
                for j in range(w):
                    s, p = P_read(start, apart * j), P_read(above, j)
                    q = fold(s, p, S_read(a, step + j))
                    third = fold(s, q, S_read(a, 2 * step + j))
                    P_write(b, j, fold(s, p, S_read(a, j)))
                    P_write(b, step + j, q)
                    P_write(b, 2 * step + j, third)
            d >>= 2

    LANES, in_room = lanes, rooms([d.itemsize for d in sums], lanes)
    room, row, each_lane = in_room.room, in_room.row, in_room.each_lane
    lines_in, lines_out, lines_past, line_in, line_out = (
        in_room.lines_in, in_room.lines_out, in_room.lines_past, in_room.line_in, in_room.line_out,
    )  # fmt: skip

    fours_up, fours_down = fours(S, P, V, combine, fold, P_read)

    @inner
    def pass_rows(frame, past, w, down):
        start, before, total = P_take(frame, 0, 1), P_take(frame, V, 1), S_take(frame, 2 * V, 1)
        x, y = S_take(frame, 2 * V + C, 1), P_take(frame, 2 * V + 2 * C, 1)
        x_step, y_step = S_take(frame, 3 * V + 2 * C, 1), P_take(frame, 3 * V + 3 * C, 1)
        t = room()
        for i in range(0, w, LANES):
            lines_in(row(t, 1), S_at(x, i), x_step)
            for k in range(0, ROW, 4):
                each_lane(fours_up, (row(t, k + 1), row(t, k + 2), row(t, k + 3), row(t, k + 4)))
            each_lane(fours_up, (row(t, 4), row(t, 8), row(t, 12), row(t, 16)))
            line_out(row(t, ROW), S_at(total, i))
            if down:
                line_in(row(t, 0)[:V], P_at(before, i))
                s = P_at(start, i)
                each_lane(fours_down, (s, row(t, 0)[:V], row(t, 4), row(t, 8), row(t, 12)))
                each_lane(fours_down, (s, row(t, 0)[:V], row(t, 1), row(t, 2), row(t, 3)))
                each_lane(fours_down, (s, row(t, 4)[:V], row(t, 5), row(t, 6), row(t, 7)))
                each_lane(fours_down, (s, row(t, 8)[:V], row(t, 9), row(t, 10), row(t, 11)))
                each_lane(fours_down, (s, row(t, 12)[:V], row(t, 13), row(t, 14), row(t, 15)))
                if past:
                    lines_past(row(t, 1)[:V], P_at(y, i), y_step)
                else:
                    lines_out(row(t, 1)[:V], P_at(y, i), y_step)

    join, fold_row = joiners(S, P, C, V, combine, fold)

    def sweep(which, frame, pitch, w, m, first, apart):
        if which == UP:
            up(frame, pitch, w, m)
        elif which == DOWN:
            down(frame, pitch, w, m, first, apart)
        elif which == PASS:
            pass_rows(frame, pitch, w, m)
        elif which == JOIN:
            join(frame, w)
        else:
            fold_row(frame, w, apart)

    return sweep


def stepper(accumulators: Sequence[np.dtype], segmented: bool, initial: bool) -> Callable[..., None]:
    """The code of an operator in order. `frame` holds the addresses as for DOWN. The rows of the panel from the `first` on become
    prefixes, each from the row above it.
    """
    one = len(accumulators) == 1
    sums = [*accumulators, *[np.dtype(np.uint8)] * segmented]
    S, P = Items(sums, sums, one and not segmented), Items(accumulators, accumulators, one)
    _, fold, _ = operators(hole(accumulators), S, P, segmented, initial)
    S_read, S_at, P_read, P_write, P_at = S.read, S.at, P.read, P.write, P.at
    V = len(accumulators)
    S_take, P_take = gathered(len(sums)), gathered(V)

    def step(which, frame, pitch, w, m, first, apart):
        start, x, y = P_take(frame, 0, 1), S_take(frame, V, 1), P_take(frame, V, 1)
        for i in range(first, m):
            above, here, there = P_at(y, (i - 1) * pitch), S_at(x, i * pitch), P_at(y, i * pitch)
            for j in range(w):
                P_write(there, j, fold(P_read(start, apart * j), P_read(above, j), S_read(here, j)))

    return step


def fours(S: Items, P: Items, V: int, combine: Any, fold: Any, start_at: Any) -> tuple[Any, Any]:
    """Two levels of the tree at once, up and down, for a lane of four rows in registers. `start_at` gives the start of a lane."""
    S_read, S_write, P_read, P_write = S.read, S.write, P.read, P.write

    def lane_code(body):
        """No loop over lanes becomes vector code while it calls something."""
        return inner(body, forceinline=True)

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


def joiners(S: Items, P: Items, C: int, V: int, combine: Any, fold: Any) -> tuple[Any, Any]:
    """JOIN and FOLD, of sums of C components and prefixes of V."""
    S_read, S_write, P_read, P_write = S.read, S.write, P.read, P.write
    S_take, P_take = gathered(C), gathered(V)

    @inner
    def join(frame, w):
        left, right, target = S_take(frame, 0, 1), S_take(frame, C, 1), S_take(frame, 2 * C, 1)
        for j in range(w):
            S_write(target, j, combine(S_read(left, j), S_read(right, j)))

    @inner
    def fold_row(frame, w, apart):
        start, before, block, target = (
            P_take(frame, 0, 1), P_take(frame, V, 1), S_take(frame, 2 * V, 1), P_take(frame, 2 * V + C, 1),
        )  # fmt: skip
        for j in range(w):
            P_write(target, j, fold(P_read(start, apart * j), P_read(before, j), S_read(block, j)))

    return join, fold_row


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

        @inner
        def value(s):
            return s

        return combine, fold, value
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
