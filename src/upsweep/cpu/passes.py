"""Sixteen rows of columns on their way from array to array, swept up and down in registers."""

from __future__ import annotations

from typing import Any

from upsweep.cpu.memory import Items, gathered, inner
from upsweep.cpu.nodes import trees
from upsweep.cpu.registers import rooms
from upsweep.cpu.words import FIRST, ROW


def passer(S: Items, P: Items, C: int, V: int, combine: Any, fold: Any, value: Any, lanes: int) -> Any:
    """The code of an operator on items of C components, with prefixes of V, for w columns. `frame` holds the addresses of the
    starts, of the prefixes before 16 rows of arrays, of the row for their sums, of the arrays' first row, and of the place for
    the prefixes behind it; then the bytes from row to row, of the arrays and of the results. If `down`, the prefixes behind all
    rows but the last are handed over, past the cache if `past`; if it is FIRST, nothing stands before the rows. There are whole
    groups of `lanes` columns.
    """
    S_at, P_at, S_take, P_take = S.at, P.at, gathered(C), gathered(V)
    LANES, in_room = lanes, rooms(S.sizes, lanes)
    room, row = in_room.room, in_room.row
    lines_in, ask_for_lines, lines_out, lines_past, line_in, line_out = (
        in_room.lines_in, in_room.ask_for_lines, in_room.lines_out, in_room.lines_past, in_room.line_in, in_room.line_out,
    )  # fmt: skip
    tree_up, tree_down = trees(S, P, V, combine, fold, value, in_room)

    @inner
    def pass_rows(frame, past, w, down, first, apart):
        start, before, total = P_take(frame, 0, 1), P_take(frame, V, 1), S_take(frame, 2 * V, 1)
        x, y = S_take(frame, 2 * V + C, 1), P_take(frame, 2 * V + 2 * C, 1)
        x_step, y_step = S_take(frame, 3 * V + 2 * C, 1), P_take(frame, 3 * V + 3 * C, 1)
        # Operands come from memory to a room first: see `turned`.
        t, own = room(), row(room(), 0)[:V]
        for i in range(0, w, LANES):
            lines_in(row(t, 1), S_at(x, i), x_step)
            tree_up(t)
            line_out(row(t, ROW), S_at(total, i))
            if down:
                line_in(row(t, 0)[:V], P_at(before, i))
                line_in(own, P_at(start, i))
                tree_down(t, own, down != FIRST)
                if past:
                    lines_past(row(t, 1)[:V], P_at(y, i), y_step)
                else:
                    lines_out(row(t, 1)[:V], P_at(y, i), y_step)

    @inner
    def sum_rows(frame, w):
        """The sums of the rows alone; the 16 rows behind them are fetched."""
        total, x, x_step = (
            S_take(frame, 2 * V, 1),
            S_take(frame, 2 * V + C, 1),
            S_take(frame, 3 * V + 2 * C, 1),
        )
        t = room()
        for i in range(0, w, LANES):
            ask_for_lines(S_at(x, i), x_step)
            lines_in(row(t, 1), S_at(x, i), x_step)
            tree_up(t)
            line_out(row(t, ROW), S_at(total, i))

    return pass_rows, sum_rows
