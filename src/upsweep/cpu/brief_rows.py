"""Rows of two to four items, one behind the other in memory: each is a few lines of code, of which LLVM makes vector code."""

from __future__ import annotations

from collections.abc import Callable

from upsweep.cpu import fused
from upsweep.cpu.address import fetch_add, peek
from upsweep.cpu.hole import hole
from upsweep.cpu.lane_loop import each_row
from upsweep.cpu.memory import gathered, inner
from upsweep.cpu.nodes import lane_code, operators
from upsweep.cpu.words import Brief
from upsweep.plan import Plan


def scanner(plan: Plan, starts: tuple[int | None, ...]) -> Callable[..., None]:
    """The code for rows of so many items of these types. `starts` are the bytes from the start of a row to that of the next."""
    X, S, P, Y, IN, OUT = fused.access(plan)
    items, in_order, reduce = plan.n, plan.order == "sequential", plan.reduce
    combine, _, _ = operators(hole(plan.accumulators), S, P, False, False)
    read, write, x_at, y_at, start_at = X.read, Y.write, X.at, Y.at, P.read_strided
    x_take, y_take, starts_take = gathered(IN), gathered(OUT), gathered(len(starts))
    ROWS, SHARE, TICKET, ARRAYS = int(Brief.ROWS), int(Brief.SHARE), int(Brief.TICKET), len(Brief)

    if plan.initial:

        @inner
        def behind(start, s):
            return combine(start_at(start[0], starts, start[1]), s)

    else:

        @inner
        def behind(start, s):
            return s

    @inner
    def put(y, k, value):
        if not reduce:
            write(y, k, value)

    @lane_code
    def scan(row, x, y, start, first_row):
        k, start = row * items, (start, first_row + row)
        first = read(x, k)
        p = behind(start, first)
        put(y, k, p)
        second = read(x, k + 1)
        two = combine(first, second)
        p = combine(p, second) if in_order else behind(start, two)
        put(y, k + 1, p)
        if items > 2:
            third = read(x, k + 2)
            p = combine(p, third)
            put(y, k + 2, p)
            if items > 3:
                fourth = read(x, k + 3)
                p = combine(p, fourth) if in_order else behind(start, combine(two, combine(third, fourth)))
                put(y, k + 3, p)
        if reduce:
            write(y, row, p)

    def run(words, scratch):
        """One thread's share: it takes tickets until there are none."""
        x, y = x_take(words, ARRAYS, 1), y_take(words, ARRAYS + IN, 1)
        start = starts_take(words, ARRAYS + IN + OUT, 1)
        rows, share = peek(words, ROWS), peek(words, SHARE)
        while True:
            first = fetch_add(words + 8 * TICKET, 1) * share
            if first >= rows:
                break
            here, there = x_at(x, first * items), y_at(y, first if reduce else first * items)
            each_row(scan, min(share, rows - first), (here, there, start, first))

    return run
