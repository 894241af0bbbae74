"""All that depends on the operator: four loops over the lanes of a panel, which the compiler makes vector code of.

A panel has 16 rows, the items of a run below each other, and a lane for each run. The tree over a run is Brent and Kung's,
in place, two levels at a time; nothing is carried from lane to lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from upsweep.cpu.hole import hole
from upsweep.cpu.memory import Items, gathered, inner
from upsweep.cpu.nodes import joiners, operators
from upsweep.cpu.passes import passer
from upsweep.cpu.turned import turner
from upsweep.cpu.words import DOWN, JOIN, PASS, SUM, UP


def sweeper(
    accumulators: Sequence[np.dtype],
    segmented: bool,
    initial: bool,
    lanes: int,
    turned: bool,
    backward: bool,
) -> Callable[..., None]:
    """The code of an operator on items of these dtypes. `frame` holds the addresses of operands and results:

    UP: of a panel's first row; of its first `m` rows the second of two, and the fourth of four, becomes their sum.
    DOWN: of the starts, and of the first row of a panel that was swept up, of whose quadruples those from `first` on are
        swept down. The row before the first one holds the prefixes there; the last rows are left to the level above.
    JOIN: of two rows of sums, the second of which becomes their sums: with a third place, the loop would be no vector code where
        that is one of the two.
    SUM: of columns' arrays and of the row for their sums, the next rows of which are fetched: see `passes`.
    PASS: of arrays, from which and to which rows go without a panel: see `passes`, and `turned` where the rows are that.
    FOLD: of the starts, a row of prefixes, a row of sums to fold onto them, and the row for the results.

    Rows have `w` lanes and lie `pitch` lanes apart; starts lie `apart` items apart, 0 or 1.
    """
    one = len(accumulators) == 1
    sums = [*accumulators, *[np.dtype(np.uint8)] * segmented]
    S, P = Items(sums, sums, one and not segmented), Items(accumulators, accumulators, one)
    combine, fold, value = operators(hole(accumulators), S, P, segmented, initial)
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

    join, fold_row = joiners(S, P, C, V, combine, fold)
    if turned:
        pass_rows, sum_rows = turner(S, P, C, V, combine, fold, value, lanes, backward, False), _not_asked
    else:
        pass_rows, sum_rows = passer(S, P, C, V, combine, fold, value, lanes)

    def sweep(which, frame, pitch, w, m, first, apart):
        if which == UP:
            up(frame, pitch, w, m)
        elif which == DOWN:
            down(frame, pitch, w, m, first, apart)
        elif which == PASS:
            pass_rows(frame, pitch, w, m, first, apart)
        elif which == JOIN:
            join(frame, w)
        elif which == SUM:
            sum_rows(frame, w)
        else:
            fold_row(frame, w, apart)

    return sweep


@inner
def _not_asked(frame, w):
    """Rows side by side whose items lie side by side are not summed alone."""


def stepper(
    accumulators: Sequence[np.dtype], segmented: bool, initial: bool, lanes: int, backward: bool
) -> Callable[..., None]:
    """The code of an operator in order. `frame` holds the addresses as for DOWN, where the rows of the panel from the `first` on
    become prefixes, each from the row above it, or as for PASS.
    """
    one = len(accumulators) == 1
    sums = [*accumulators, *[np.dtype(np.uint8)] * segmented]
    S, P = Items(sums, sums, one and not segmented), Items(accumulators, accumulators, one)
    combine, fold, value = operators(hole(accumulators), S, P, segmented, initial)
    S_read, S_at, P_read, P_write, P_at = S.read, S.at, P.read, P.write, P.at
    C, V = len(sums), len(accumulators)
    S_take, P_take = gathered(C), gathered(V)
    pass_rows = turner(S, P, C, V, combine, fold, value, lanes, backward, True)

    @inner
    def down(frame, pitch, w, m, first, apart):
        start, x, y = P_take(frame, 0, 1), S_take(frame, V, 1), P_take(frame, V, 1)
        for i in range(first, m):
            above, here, there = P_at(y, (i - 1) * pitch), S_at(x, i * pitch), P_at(y, i * pitch)
            for j in range(w):
                P_write(there, j, fold(P_read(start, apart * j), P_read(above, j), S_read(here, j)))

    def step(which, frame, pitch, w, m, first, apart):
        if which == PASS:
            pass_rows(frame, pitch, w, m, first, apart)
        else:
            down(frame, pitch, w, m, first, apart)

    return step
