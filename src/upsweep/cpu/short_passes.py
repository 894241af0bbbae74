"""Fewer than sixteen rows of columns on their way from array to array: four at a time are swept up and down in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from upsweep.cpu.hole import hole
from upsweep.cpu.memory import Items, advance, gathered, inner
from upsweep.cpu.nodes import first_of_fours, fours, lane_code, operators
from upsweep.cpu.registers import rooms
from upsweep.cpu.words import FIRST


def short_passer(
    accumulators: Sequence[np.dtype], segmented: bool, initial: bool, lanes: int
) -> Callable[..., None]:
    """The code of an operator on items of these dtypes, for the last `m` rows of w columns. `frame` is that of `passes`, without
    the sums. The prefixes behind all rows are handed over, past the cache if `past`; if `known` is FIRST, nothing stands before
    the rows. There are whole groups of `lanes` columns.
    """
    one = len(accumulators) == 1
    sums = [*accumulators, *[np.dtype(np.uint8)] * segmented]
    S, P = Items(sums, sums, one and not segmented), Items(accumulators, accumulators, one)
    combine, fold, value = operators(hole(accumulators), S, P, segmented, initial)
    C, V = len(sums), len(accumulators)
    S_at, P_at, S_take, P_take = S.at, P.at, gathered(C), gathered(V)
    S_read, S_write, P_read, P_write = S.read, S.write, P.read, P.write
    LANES, in_room = lanes, rooms(S.sizes, lanes)
    room, row, line_in, line_out, line_past, each_lane = (
        in_room.room, in_room.row, in_room.line_in, in_room.line_out, in_room.line_past, in_room.each_lane,
    )  # fmt: skip
    fours_up, fours_down = fours(S, P, V, combine, fold, P_read)
    fours_first = first_of_fours(S, P, V, fold, value)

    @lane_code
    def keep(j, kept, s):
        S_write(kept, j, S_read(s, j))

    @lane_code
    def join(j, left, right):
        S_write(right, j, combine(S_read(left, j), S_read(right, j)))

    @lane_code
    def fold_onto(j, start, before, s, behind):
        P_write(behind, j, fold(P_read(start, j), P_read(before, j), S_read(s, j)))

    @lane_code
    def become(j, s, behind):
        P_write(behind, j, value(S_read(s, j)))

    @inner
    def hand(prefixes, there, step, number, past):
        if past:
            line_past(prefixes, advance(there, step, number))
        else:
            line_out(prefixes, advance(there, step, number))

    def pass_short(frame, past, w, m, known):
        starts, befores = P_take(frame, 0, 1), P_take(frame, V, 1)
        x, y = S_take(frame, 2 * V + C, 1), P_take(frame, 2 * V + 2 * C, 1)
        x_step, y_step = S_take(frame, 3 * V + 2 * C, 1), P_take(frame, 3 * V + 3 * C, 1)
        t, last = room(), m - 1
        for i in range(0, w, LANES):
            here, there, start, before = S_at(x, i), P_at(y, i), P_at(starts, i), P_at(befores, i)
            # Row 0 holds the prefixes before four rows, row 5 the sums of the first four.
            line_in(row(t, 0)[:V], before)
            for q in range(0, m, 4):
                line_in(row(t, 1), advance(here, x_step, q))
                line_in(row(t, 2), advance(here, x_step, min(q + 1, last)))
                line_in(row(t, 3), advance(here, x_step, min(q + 2, last)))
                line_in(row(t, 4), advance(here, x_step, min(q + 3, last)))
                each_lane(fours_up, (row(t, 1), row(t, 2), row(t, 3), row(t, 4)))
                if known == FIRST and q == 0:
                    each_lane(fours_first, (start, row(t, 1), row(t, 2), row(t, 3)))
                else:
                    each_lane(fours_down, (start, row(t, 0)[:V], row(t, 1), row(t, 2), row(t, 3)))
                if q == 0:
                    each_lane(keep, (row(t, 5), row(t, 4)))
                elif q == 4:
                    # These are the sums of eight rows.
                    each_lane(join, (row(t, 5), row(t, 4)))
                if q == 8:
                    each_lane(fold_onto, (start, row(t, 0)[:V], row(t, 4), row(t, 0)[:V]))
                elif known == FIRST:
                    each_lane(become, (row(t, 4), row(t, 0)[:V]))
                else:
                    each_lane(fold_onto, (start, before, row(t, 4), row(t, 0)[:V]))
                hand(row(t, 1)[:V], there, y_step, q, past)
                if q < last:
                    hand(row(t, 2)[:V], there, y_step, q + 1, past)
                if q + 1 < last:
                    hand(row(t, 3)[:V], there, y_step, q + 2, past)
                if q + 2 < last:
                    hand(row(t, 0)[:V], there, y_step, q + 3, past)

    return pass_short
