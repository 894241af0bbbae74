"""Rows side by side, each with its items side by side, on their way from array to array: a few rows at a time are walked along.

Sixteen items of each row are transposed, scanned, and transposed back, all in registers. In the tree's order they are swept up
and down, and from sixteen to sixteen goes the counter of block sums, with a lane for each row. In order the last prefixes go.
"""

from __future__ import annotations

from typing import Any

from upsweep.cpu.address import copy_bytes, peek
from upsweep.cpu.memory import Items, advance, gathered, inner
from upsweep.cpu.nodes import lane_code, lane_joiners, trees
from upsweep.cpu.registers import rooms
from upsweep.cpu.words import BEHIND, NOTHING, NOWHERE, ROW


def turner(
    S: Items,
    P: Items,
    C: int,
    V: int,
    combine: Any,
    fold: Any,
    value: Any,
    lanes: int,
    backward: bool,
    in_order: bool,
) -> Any:
    """The code of an operator on items of C components, with prefixes of V, for `count` sixteens of w rows. `frame` holds the
    addresses of the starts, of the prefixes before the rows, and of the place for those behind; of room for a group's counter,
    block sums and prefixes; of the arrays, and of the place for the results; then the bytes from row to row, of the arrays and
    of the results; room for results that wait; the rows that are read next, which the cache fetches meanwhile, with the bytes
    from row to row and from sixteen to sixteen; and a number. The results are the prefixes BEHIND or BEFORE items, or NOTHING
    but those behind the rows. An address of rows is the lowest one of the first 16 items, which stand from the last to the first
    where rows lie `backward`.

    There are whole groups of `lanes` rows. Where the first rows of a group are `skipped`, or the last sixteen has fewer items, as
    the number says, results wait in their room, run by run, and those that are wanted are copied to their places.
    """
    S_at, P_at = S.at, P.at
    S_take, P_take = gathered(C), gathered(V)
    LANES, RUN, in_room = lanes, -ROW if backward else ROW, rooms(S.sizes, lanes, backward)
    room, row, turn_in, ask_for, turn_out, line_in, line_out, each_lane = (
        in_room.room, in_room.row, in_room.turn_in, in_room.ask_for, in_room.turn_out, in_room.line_in,
        in_room.line_out, in_room.each_lane,
    )  # fmt: skip
    WAIT = tuple(ROW * size for size in P.sizes)
    tree_up, tree_down = trees(S, P, V, combine, fold, value, in_room)
    join, fold_onto, become = lane_joiners(S, P, V, combine, fold, value)

    @lane_code
    def steps(t, start, k):
        each_lane(fold_onto, (start, row(t, k - 1)[:V], row(t, k)))
        each_lane(fold_onto, (start, row(t, k)[:V], row(t, k + 1)))
        each_lane(fold_onto, (start, row(t, k + 1)[:V], row(t, k + 2)))

    @lane_code
    def walk(t, start, known):
        if known:
            each_lane(fold_onto, (start, row(t, 0)[:V], row(t, 1)))
        else:
            each_lane(become, (row(t, 1),))
        for k in range(2, ROW, 3):
            steps(t, start, k)

    @inner
    def pass_rows(frame, results, w, count, known, skipped):
        starts, before, behind = P_take(frame, 0, 1), P_take(frame, V, 1), P_take(frame, 2 * V, 1)
        stack, folds = S_take(frame, 3 * V, 1), P_take(frame, 3 * V + C, 1)
        x, y = S_take(frame, 4 * V + C, 1), P_take(frame, 4 * V + 2 * C, 1)
        x_step, y_step = S_take(frame, 5 * V + 2 * C, 1), P_take(frame, 5 * V + 3 * C, 1)
        wait, further = P_take(frame, 6 * V + 3 * C, 1), S_take(frame, 7 * V + 3 * C, 1)
        further_step, further_run = S_take(frame, 7 * V + 4 * C, 1), S_take(frame, 7 * V + 5 * C, 1)
        rest = peek(frame, 7 * V + 6 * C)
        # Operands come from memory to a room first: in a loop over lanes that reads both, LLVM asks whether they overlap, and
        # then keeps no room in registers.
        t, other = room(), room()
        for i in range(0, w, LANES):
            start, here, there = row(other, 1)[:V], advance(x, x_step, i), advance(y, y_step, i)
            line_in(start, P_at(starts, i))
            later = advance(further, further_step, i)
            for q in range(count):
                turn_in(row(t, 1), S_at(here, q * RUN), x_step)
                ask_for(advance(later, further_run, q), further_step)
                items = rest if q == count - 1 and rest else ROW
                if in_order:
                    line_in(row(t, 0)[:V], P_at(behind if q else before, i))
                    walk(t, start, known or q > 0)
                else:
                    tree_up(t)
                    line_in(row(t, 0)[:V], P_at(behind if q else before, i))
                    if results != NOTHING:
                        tree_down(t, start, known or q > 0)
                    level = 0
                    while q >> level & 1:
                        line_in(row(other, 0), S_at(stack, level * LANES))
                        each_lane(join, (row(other, 0), row(t, ROW)))
                        level += 1
                    line_out(row(t, ROW), S_at(stack, level * LANES))
                    above = level + 1
                    while q >> above and not q >> above & 1:
                        above += 1
                    earlier = q >> above
                    if earlier or known:
                        line_in(row(other, 0)[:V], P_at(folds, above * LANES) if earlier else P_at(before, i))
                        each_lane(fold_onto, (start, row(other, 0)[:V], row(t, ROW)))
                    else:
                        each_lane(become, (row(t, ROW),))
                    line_out(row(t, ROW)[:V], P_at(folds, level * LANES))
                line_out(row(t, ROW)[:V], P_at(behind, i))
                if results == NOTHING:
                    continue
                waits, target = skipped or items < ROW, P_at(there, q * RUN)
                if results == BEHIND:
                    turn_out(row(t, 1)[:V], wait if waits else target, WAIT if waits else y_step)
                else:
                    turn_out(row(t, 0)[:V], wait if waits else target, WAIT if waits else y_step)
                if waits:
                    for c in range(V):
                        size = WAIT[c] // ROW
                        gap = (ROW - items) * size if RUN < 0 else 0
                        for k in range(LANES if y[c] == NOWHERE else skipped, LANES):
                            copy_bytes(
                                target[c] + k * y_step[c] + gap, wait[c] + k * WAIT[c] + gap, items * size
                            )

    return pass_rows
