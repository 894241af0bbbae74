"""All that depends on the operator where runs of 16 items stand side by side in a row: Brent and Kung's tree over each run, two
levels at a time, for a few lanes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from upsweep.cpu import tuning
from upsweep.cpu.hole import hole
from upsweep.cpu.memory import Items, gathered, inner, once, same
from upsweep.cpu.nodes import fours, joiners, operators, rising
from upsweep.cpu.registers import rooms
from upsweep.cpu.words import JOIN, PASS, RISE, ROW, SCAN, SETTLE, SUM


def runner(
    accumulators: Sequence[np.dtype], segmented: bool, initial: bool, lanes: int
) -> Callable[..., None]:
    """The code of an operator on items of these dtypes. `frame` holds the addresses of operands and results; items lie side by
    side, and w counts groups of `lanes` runs:

    SUM: of the runs, of the places for their sums, and of those where the block sums within the runs are kept, if `m`: row by
        row, group by group. The runs `pitch` items further on are fetched, unless that is 0.
    SCAN: of the starts, of the block sums that were kept, or, with `first`, of the runs, which are swept up again, of the
        prefixes before each run and behind the last, and of the places for the prefixes: of the items up to each one, or, where
        `m`, of those before each one. With `pitch` they go past the cache, and the runs so many items further on are fetched,
        unless that is 1.
    RISE: of w items, which become the sums of aligned blocks.
    SETTLE: of the starts, of w such sums, `pitch` items apart, and of the places for prefixes, before which stands one that is
        folded in if it is `known` (the argument m).
    PASS: of w spans, behind `m` others. A span is ROW groups of runs, small enough for the nearest cache. The frame holds the
        addresses of the starts, of the runs, and of the places where block sums, the sums of runs, and the sums of those are
        kept; of the counter's sums and prefixes; of the prefix before all spans, if there are some before it as `apart` says,
        and of the one before the next span, which becomes the one behind the last; and of the places for the prefixes as above.
        Before the sums is room for an item.
    JOIN and FOLD: as for `sweep`.
    """
    one = len(accumulators) == 1
    sums = [*accumulators, *[np.dtype(np.uint8)] * segmented]
    S, P = Items(sums, sums, one and not segmented), Items(accumulators, accumulators, one)
    combine, fold, value = operators(hole(accumulators), S, P, segmented, initial)
    S_read, S_write, S_at, P_read, P_write, P_at = S.read, S.write, S.at, P.read, P.write, P.at
    C, V, LANES, SPAN = len(sums), len(accumulators), lanes, ROW * ROW * lanes
    S_RUN, P_RUN = tuple(ROW * d.itemsize for d in sums), tuple(ROW * d.itemsize for d in accumulators)
    S_take, P_take = gathered(C), gathered(V)
    join, fold_row = joiners(S, P, C, V, combine, fold)
    in_room = rooms([d.itemsize for d in sums], lanes)
    room, row, each_lane = in_room.room, in_room.row, in_room.each_lane
    turn_in, ask_for, claim, turn_out, turn_past, rows_in, rows_out, line_in, line_out = (
        in_room.turn_in, in_room.ask_for, in_room.claim, in_room.turn_out, in_room.turn_past, in_room.rows_in, in_room.rows_out,
        in_room.line_in, in_room.line_out,
    )  # fmt: skip

    fours_up, fours_down = fours(S, P, V, combine, fold, same)
    run_up = rising(fours_up, in_room)

    @once
    def sum_runs(x, y, kept, w, keep, later):
        t = room()
        for i in range(w):
            if later:
                ask_for(S_at(x, i * LANES * ROW + later), S_RUN)
            turn_in(row(t, 1), S_at(x, i * LANES * ROW), S_RUN)
            run_up(t)
            line_out(row(t, ROW), S_at(y, i * LANES))
            if keep:
                rows_out(row(t, 1), S_at(kept, i * LANES * ROW))

    @once
    def scan_runs(start, x, above, y, past, w, exclusive, again):
        t = room()
        for i in range(w):
            here = S_at(x, i * LANES * ROW)
            if again:
                if past > 1:
                    ask_for(S_at(here, past), S_RUN)
                turn_in(row(t, 1), here, S_RUN)
                run_up(t)
            else:
                rows_in(row(t, 1), here)
            line_in(row(t, 0)[:V], P_at(above, i * LANES))
            line_in(row(t, ROW)[:V], P_at(above, i * LANES + 1))
            each_lane(fours_down, (start, row(t, 0)[:V], row(t, 4), row(t, 8), row(t, 12)))
            for k in range(0, ROW, 4):
                each_lane(fours_down, (start, row(t, k)[:V], row(t, k + 1), row(t, k + 2), row(t, k + 3)))
            target = P_at(y, i * LANES * ROW)
            if not past:
                claim(P_at(target, tuning.CLAIMED * LANES * ROW), P_RUN)
            if exclusive:
                if past:
                    turn_past(row(t, 0)[:V], target)
                else:
                    turn_out(row(t, 0)[:V], target, P_RUN)
            elif past:
                turn_past(row(t, 1)[:V], target)
            else:
                turn_out(row(t, 1)[:V], target, P_RUN)

    @once
    def rise(x, w):
        d = 1
        while d < w:
            for k in range(2 * d - 1, w, 2 * d):
                S_write(x, k, combine(S_read(x, k - d), S_read(x, k)))
            d *= 2

    @once
    def settle(start, x, y, pitch, w, known):
        for k in range(w):
            earlier = k - ((k + 1) & -(k + 1))
            if known or earlier >= 0:
                P_write(y, k, fold(start, P_read(y, earlier), S_read(x, k * pitch)))
            else:
                P_write(y, k, value(S_read(x, k * pitch)))

    @inner
    def push(start, stack, folds, base, q, s, has):
        """Take the sum of span q into the counter; returns the prefix behind it."""
        level = 0
        while q >> level & 1:
            s = combine(S_read(stack, level), s)
            level += 1
        S_write(stack, level, s)
        above = level + 1
        while q >> above and not q >> above & 1:
            above += 1
        if q >> above:
            p = fold(start, P_read(folds, above), s)
        elif has:
            p = fold(start, P_read(base, 0), s)
        else:
            p = value(s)
        P_write(folds, level, p)
        return p

    @inner
    def pass_spans(frame, past, w, done, exclusive, has):
        start, x = P_read(P_take(frame, 0, 1), 0), S_take(frame, V, 1)
        kept, sums, tips = S_take(frame, V + C, 1), S_take(frame, V + 2 * C, 1), S_take(frame, V + 3 * C, 1)
        stack, folds = S_take(frame, V + 4 * C, 1), P_take(frame, V + 5 * C, 1)
        base, before = P_take(frame, 2 * V + 5 * C, 1), P_take(frame, 3 * V + 5 * C, 1)
        y = P_take(frame, 4 * V + 5 * C, 1)
        prefixes, top = sums[:V], tips[:V]
        for i in range(w):
            sum_runs(S_at(x, i * SPAN), sums, kept, ROW, 1, 0)
            sum_runs(sums, tips, sums, 1, 1, 0)
            rise(tips, LANES)
            p = P_read(before, 0)
            behind = push(start, stack, folds, base, done + i, S_read(tips, LANES - 1), has)
            P_write(top, -1, p)
            settle(start, tips, top, 1, LANES - 1, 1)
            P_write(top, LANES - 1, behind)
            scan_runs(start, sums, P_at(top, -1), prefixes, 0, 1, 0, 0)
            P_write(prefixes, -1, p)
            scan_runs(start, kept, P_at(prefixes, -1), P_at(y, i * SPAN), past, ROW, exclusive, 0)
            P_write(before, 0, behind)

    def run(which, frame, pitch, w, m, first, apart):
        start, x = P_take(frame, 0, 1), S_take(frame, V, 1)
        if which == PASS:
            pass_spans(frame, pitch, w, m, first, apart)
        elif which == SUM:
            sum_runs(S_take(frame, 0, 1), S_take(frame, C, 1), S_take(frame, 2 * C, 1), w, m, pitch)
        elif which == SCAN:
            above, y = P_take(frame, V + C, 1), P_take(frame, 2 * V + C, 1)
            scan_runs(P_read(start, 0), x, above, y, pitch, w, m, first)
        elif which == RISE:
            rise(S_take(frame, 0, 1), w)
        elif which == SETTLE:
            settle(P_read(start, 0), x, P_take(frame, V + C, 1), pitch, w, m)
        elif which == JOIN:
            join(frame, w)
        else:
            fold_row(frame, w, apart)

    return run
