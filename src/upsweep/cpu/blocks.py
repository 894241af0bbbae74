"""Narrow columns on their way from array to array: one call sweeps many blocks of 16 rows, one behind the other.

A block is swept up and down in registers, a group of columns after the other. From block to block goes the counter of block
sums, with a lane for each column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from upsweep.cpu.hole import hole
from upsweep.cpu.memory import Items, advance, gathered, inner
from upsweep.cpu.nodes import joiners, lane_code, lane_joiners, operators, trees
from upsweep.cpu.registers import keeper, rooms
from upsweep.cpu.words import BEFORE, BEHIND, JOIN, NOTHING, PASS, ROW


def sweeper(
    accumulators: Sequence[np.dtype], segmented: bool, initial: bool, lanes: int
) -> Callable[..., None]:
    """The code of an operator on items of these dtypes: JOIN and FOLD as in `sweep`, and PASS of `count` blocks of w columns,
    behind `done` others. `frame` holds the addresses of the starts, of the prefixes before the first of all blocks, and of those
    before the next one, which become those behind the last one; of the counter's sums and prefixes, with w columns a level or a
    whole group; of the arrays, and of the place for the prefixes behind the first row; then the bytes from row to row, of the
    arrays and of the results. The results are the prefixes BEHIND or BEFORE rows, or NOTHING but the counter's sums. `known`:
    there are prefixes before all blocks.

    Columns that are no whole group are the first ones of a group, the rest of which is swept again with the next group. It is
    stored as it was: in a scan in place, these columns must still be items. Where there are fewer columns than a group has
    lanes, what is stored behind a row makes way for the next row.
    """
    one = len(accumulators) == 1
    sums = [*accumulators, *[np.dtype(np.uint8)] * segmented]
    S, P = Items(sums, sums, one and not segmented), Items(accumulators, accumulators, one)
    combine, fold, value = operators(hole(accumulators), S, P, segmented, initial)
    S_at, P_at = S.at, P.at
    C, V = len(sums), len(accumulators)
    S_take, P_take = gathered(C), gathered(V)
    LANES, in_room = lanes, rooms(S.sizes, lanes)
    keep, keep_lines = keeper(P.sizes, lanes, 1), keeper(P.sizes, lanes, ROW - 1)
    room, row, lines_in, lines_out, line_in, line_out, each_lane = (
        in_room.room, in_room.row, in_room.lines_in, in_room.lines_out, in_room.line_in, in_room.line_out,
        in_room.each_lane,
    )  # fmt: skip
    tree_up, tree_down = trees(S, P, V, combine, fold, value, in_room)
    join, fold_onto, become = lane_joiners(S, P, V, combine, fold, value)

    @lane_code
    def put(prefixes, place, mine):
        """Hand over a row, of whose lanes the first ones count."""
        if mine < LANES:
            keep(prefixes, place, place, mine)
        else:
            line_out(prefixes, place)

    @inner
    def pass_blocks(frame, results, w, count, known, done):
        starts, base, behind = P_take(frame, 0, 1), P_take(frame, V, 1), P_take(frame, 2 * V, 1)
        stack, folds = S_take(frame, 3 * V, 1), P_take(frame, 3 * V + C, 1)
        x, y = S_take(frame, 4 * V + C, 1), P_take(frame, 4 * V + 2 * C, 1)
        x_step, y_step = S_take(frame, 5 * V + 2 * C, 1), P_take(frame, 5 * V + 3 * C, 1)
        pitch = max(w, LANES)
        # Operands come from memory to a room first: see `turned`.
        t, other = room(), room()
        for q in range(done, done + count):
            level = 0
            while q >> level & 1:
                level += 1
            above = level + 1
            while q >> above and not q >> above & 1:
                above += 1
            earlier = q >> above
            line = (q - done) * ROW
            here, there = advance(x, x_step, line), advance(y, y_step, line)
            i = 0
            while i < w:
                rest = w % LANES if i == 0 and w >= LANES else 0
                mine = rest or LANES
                start, before, target = row(other, 1)[:V], P_at(behind, i), P_at(there, i)
                line_in(start, P_at(starts, i))
                lines_in(row(t, 1), S_at(here, i), x_step)
                tree_up(t)
                line_in(row(t, 0)[:V], before)
                # Results go before the counter comes, or the room does not stay in registers.
                if results != NOTHING:
                    tree_down(t, start, known or q > 0)
                    if results == BEFORE:
                        put(row(t, 0)[:V], advance(target, y_step, -1), mine)
                    if rest:
                        keep_lines(row(t, 1)[:V], target, y_step, mine)
                    else:
                        lines_out(row(t, 1)[:V], target, y_step)
                for k in range(level):
                    line_in(row(other, 0), S_at(stack, k * pitch + i))
                    each_lane(join, (row(other, 0), row(t, ROW)))
                line_out(row(t, ROW), S_at(stack, level * pitch + i))
                if results != NOTHING:
                    if earlier or known:
                        line_in(
                            row(other, 0)[:V], P_at(folds, above * pitch + i) if earlier else P_at(base, i)
                        )
                        each_lane(fold_onto, (start, row(other, 0)[:V], row(t, ROW)))
                    else:
                        each_lane(become, (row(t, ROW),))
                    line_out(row(t, ROW)[:V], P_at(folds, level * pitch + i))
                    put(row(t, ROW)[:V], before, mine)
                    if results == BEHIND:
                        put(row(t, ROW)[:V], advance(target, y_step, ROW - 1), mine)
                i += mine

    join_rows, fold_row = joiners(S, P, C, V, combine, fold)

    def sweep(which, frame, results, w, count, known, done):
        if which == PASS:
            pass_blocks(frame, results, w, count, known, done)
        elif which == JOIN:
            join_rows(frame, w)
        else:
            fold_row(frame, w, done)

    return sweep
