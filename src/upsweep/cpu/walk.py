"""Scans in order: `y[i] = y[i-1] ⊕ x[i]`, one item after the other, many rows side by side.

A strip of rows keeps its states in scratch memory and takes one step for all of them at a time, so that the compiler makes
vector code across rows. A row that is alone keeps its state in a register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from upsweep.cpu import fused
from upsweep.cpu.address import fetch_add, peek
from upsweep.cpu.hole import hole
from upsweep.cpu.lane_loop import each_row
from upsweep.cpu.memory import Items, advance, gathered, inner, placed, same
from upsweep.cpu.nodes import lane_code, operators
from upsweep.cpu.words import Form, Steps, regions
from upsweep.plan import Plan


def walker(plan: Plan, identity: Sequence[Any] | None, form: Form, most: int) -> Callable[..., None]:
    """The code for these types, of strips of at most `most` rows."""
    accumulators = plan.accumulators
    X, S, P, Y, IN, OUT = fused.access(plan)
    states_at = placed(regions(accumulators, most)[0])
    _, fold, value = operators(hole(accumulators), S, P, form.segmented, form.initial)
    operand, finished = fused.item(plan), fused.result(plan)
    x_place, y_place, start_place = (_placer(count) for count in (IN, OUT, len(form.starts)))
    X_read, P_read, P_write, Y_write = X.read_strided, P.read, P.write, Y.write_strided
    x_across = strides_of(form.across[:IN])
    y_across = strides_of(form.across[IN:])
    start_across = strides_of(form.starts)
    EXCLUSIVE, REDUCE = form.exclusive, form.reduce
    N, ROWS, STRIPS, GROUPS, STRIP, TICKET, DIMS, ARRAYS = map(int, Steps)

    nothing_yet = _nothing_yet(P, identity, form.initial)
    if form.segmented:

        @inner
        def before(start, p, s):
            """The result of an exclusive scan: the state, or the start where a segment starts."""
            return nothing_yet(start) if s[-1] else p

    else:

        @inner
        def before(start, p, s):
            return p

    if form.initial:
        start_at = P.read_strided

        @inner
        def first(start, s):
            return fold(start, start, s)

    else:

        @inner
        def start_at(starts, across, j):
            return 0

        @inner
        def first(start, s):
            return value(s)

    index_of = _from_the_end if form.reverse else same

    @lane_code
    def begin(j, x, xa, y, ya, states, starts, sa, n):
        start, item = start_at(starts, sa, j), X_read(x, xa, j)
        p = first(start, operand(item, index_of(0, n)))
        P_write(states, j, p)
        if EXCLUSIVE:
            Y_write(y, ya, j, finished(nothing_yet(start), item, index_of(0, n)))
        elif not REDUCE or n == 1:
            Y_write(y, ya, j, finished(p, item, index_of(0, n)))

    @lane_code
    def step(j, x, xa, y, ya, states, starts, sa, i, n):
        start, item, before_it = start_at(starts, sa, j), X_read(x, xa, j), P_read(states, j)
        s = operand(item, index_of(i, n))
        p = fold(start, before_it, s)
        P_write(states, j, p)
        if EXCLUSIVE:
            Y_write(y, ya, j, finished(before(start, before_it, s), item, index_of(i, n)))
        elif not REDUCE:
            Y_write(y, ya, j, finished(p, item, index_of(i, n)))

    @lane_code
    def end(j, x, xa, y, ya, states):
        Y_write(y, ya, j, finished(P_read(states, j), X_read(x, xa, j), 0))

    @inner
    def walk_rows(x, along, across, y, y_along, y_across_, states, starts, starts_across, n, w):
        """One step after the other, each for all rows of the strip."""
        xa, ya, sa = x_across(across), y_across(y_across_), start_across(starts_across)
        each_row(begin, w, (x, xa, y, ya, states, starts, sa, n))
        for i in range(1, n):
            here, there = advance(x, along, i), advance(y, y_along, i)
            each_row(step, w, (here, xa, there, ya, states, starts, sa, i, n))
        if REDUCE and n > 1:
            each_row(end, w, (x, xa, y, ya, states))

    @inner
    def walk_row(x, along, y, y_along, starts, starts_across, n):
        """One row alone."""
        start = start_at(starts, start_across(starts_across), 0)
        item = X_read(x, along, 0)
        p = first(start, operand(item, index_of(0, n)))
        if EXCLUSIVE:
            Y_write(y, y_along, 0, finished(nothing_yet(start), item, index_of(0, n)))
        elif not REDUCE:
            Y_write(y, y_along, 0, finished(p, item, index_of(0, n)))
        for i in range(1, n):
            item = X_read(x, along, i)
            s = operand(item, index_of(i, n))
            if EXCLUSIVE:
                Y_write(y, y_along, i, finished(before(start, p, s), item, index_of(i, n)))
            p = fold(start, p, s)
            if not EXCLUSIVE and not REDUCE:
                Y_write(y, y_along, i, finished(p, item, index_of(i, n)))
        if REDUCE:
            Y_write(y, y_along, 0, finished(p, item, 0))

    def run(words, scratch):
        """One thread's share: it takes tickets until there are none. The words of a launch and scratch memory come by address."""
        each, n = 3 + peek(words, DIMS), peek(words, N)
        xs = ARRAYS + peek(words, DIMS)
        ys = xs + IN * each
        beyond = ys + OUT * each
        states = states_at(scratch)
        while True:
            group = fetch_add(words + 8 * TICKET, 1)
            if group >= peek(words, GROUPS):
                break
            outer, row = group // peek(words, STRIPS), group % peek(words, STRIPS) * peek(words, STRIP)
            w = min(peek(words, STRIP), peek(words, ROWS) - row)
            x, along, across = x_place(words, xs, outer, row, ARRAYS)
            y, y_along, y_across_ = y_place(words, ys, outer, row, ARRAYS)
            starts, _, starts_across = start_place(words, beyond, outer, row, ARRAYS)
            if w == 1:
                walk_row(x, along, y, y_along, starts, starts_across, n)
            else:
                walk_rows(x, along, across, y, y_along, y_across_, states, starts, starts_across, n, w)

    return run


@inner
def _from_the_end(i, n):
    return n - 1 - i


@cache
def _placer(count: int) -> Any:
    """The starts of the arrays of a strip: addresses, strides along the axis, strides across rows."""
    gather, DIMS = gathered(count), int(Steps.DIMS)

    @inner
    def place(words, first, outer, row, sizes):
        dims = peek(words, DIMS)
        each = 3 + dims
        address, across = gather(words, first, each), gather(words, first + 2, each)
        for d in range(dims - 1, -1, -1):
            address = advance(address, gather(words, first + 3 + d, each), outer % peek(words, sizes + d))
            outer //= peek(words, sizes + d)
        return advance(address, across, row), gather(words, first + 1, each), across

    return place


def _nothing_yet(P: Items, identity: Sequence[Any] | None, initial: bool) -> Any:
    """The result of an exclusive scan where nothing stands before an item."""
    if initial or identity is None:
        return same
    cast, neutral = P.cast, identity[0].item() if P.bare else tuple(part.item() for part in identity)

    @inner
    def nothing_yet(start):
        return cast(neutral)

    return nothing_yet


@cache
def strides_of(across: tuple[int | None, ...]) -> Any:
    """The strides from row to row. Known strides are compiled in, so that loops over rows become vector code."""
    if all(stride is not None for stride in across):

        @inner
        def strides(told):
            return across

    else:

        @inner
        def strides(told):
            return told

    return strides
