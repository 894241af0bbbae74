"""Rows of two to four items, one behind the other in memory: each is a few lines of code, of which LLVM makes vector code."""

from __future__ import annotations

from collections.abc import Callable

from upsweep.cpu import fused
from upsweep.cpu.address import copy_bytes, fetch_add, peek
from upsweep.cpu.hole import hole
from upsweep.cpu.memory import gathered, inner, placed
from upsweep.cpu.nodes import operators
from upsweep.cpu.tuning import TICKET_BYTES
from upsweep.cpu.words import Brief
from upsweep.plan import Plan


def scanner(plan: Plan) -> Callable[..., None]:
    """The code for rows of so many items of these types."""
    X, S, P, Y, IN, OUT = fused.access(plan)
    items, in_order, reduce = plan.n, plan.order == "sequential", plan.reduce
    combine, _, _ = operators(hole(plan.accumulators), S, P, False, False)
    read, write, x_at, y_at, sizes = X.read, Y.write, X.at, Y.at, tuple(X.sizes)
    x_take, y_take, rooms = gathered(IN), gathered(OUT), placed([c * TICKET_BYTES for c in range(IN)])
    ROWS, SHARE, TICKET, ARRAYS = int(Brief.ROWS), int(Brief.SHARE), int(Brief.TICKET), len(Brief)

    @inner
    def put(y, k, value):
        if not reduce:
            write(y, k, value)

    @inner
    def scan(x, y, rows):
        for row in range(rows):
            k = row * items
            first = read(x, k)
            total = combine(first, read(x, k + 1))
            put(y, k, first)
            put(y, k + 1, total)
            if items > 2:
                third, two = read(x, k + 2), total
                total = combine(two, third)
                put(y, k + 2, total)
                if items > 3:
                    fourth = read(x, k + 3)
                    total = combine(total, fourth) if in_order else combine(two, combine(third, fourth))
                    put(y, k + 3, total)
            if reduce:
                write(y, row, total)

    @inner
    def in_place(x, y):
        """Whether an array is read and written. LLVM makes vector code for other arrays alone."""
        for a in x:
            for b in y:
                if a == b:
                    return True
        return False

    def run(words, scratch):
        """One thread's share: it takes tickets until there are none."""
        x, y = x_take(words, ARRAYS, 1), y_take(words, ARRAYS + IN, 1)
        rows, share = peek(words, ROWS), peek(words, SHARE)
        while True:
            first = fetch_add(words + 8 * TICKET, 1) * share
            if first >= rows:
                break
            here, there = x_at(x, first * items), y_at(y, first if reduce else first * items)
            some = min(share, rows - first)
            if in_place(x, y):
                near = rooms(scratch)
                for c in range(IN):
                    copy_bytes(near[c], here[c], some * items * sizes[c])
                scan(near, there, some)
            else:
                scan(here, there, some)

    return run
