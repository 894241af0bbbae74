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
from upsweep.cpu.memory import Items, advance, gathered, inner, placed, same
from upsweep.cpu.nodes import operators
from upsweep.cpu.words import Form, Steps, regions
from upsweep.plan import Plan


def walker(plan: Plan, identity: Sequence[Any] | None, form: Form, most: int) -> Callable[..., None]:
    """The code for these types, of strips of at most `most` rows."""
    accumulators = plan.accumulators
    X, S, P, Y, IN, OUT = fused.access(plan)
    at, _ = regions(accumulators, most)
    states_at, starts_at = placed(at[: len(accumulators)]), placed(at[len(accumulators) :])
    _, fold, value = operators(hole(accumulators), S, P, form.segmented, form.initial)
    operand, finished = fused.item(plan), fused.result(plan)
    x_place, y_place, start_place = (_placer(count) for count in (IN, OUT, len(accumulators)))
    X_read, P_read, P_write, P_read_strided, Y_write = (
        X.read_strided, P.read, P.write, P.read_strided, Y.write_strided,
    )  # fmt: skip
    x_across = strides_of(form.across[:IN])
    y_across = strides_of(form.across[IN:])
    start_across = strides_of(form.starts)
    INITIAL, EXCLUSIVE, REDUCE = form.initial, form.exclusive, form.reduce
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

        @inner
        def first(start, s):
            return fold(start, start, s)

    else:

        @inner
        def first(start, s):
            return value(s)

    index_of = _from_the_end if form.reverse else same

    @inner
    def walk_rows(x, along, across, y, y_along, y_across_, states, starts, n, w):
        """One step after the other, each for all rows of the strip."""
        xa, ya = x_across(across), y_across(y_across_)
        for j in range(w):
            start, item = P_read(starts, j), X_read(x, xa, j)
            p = first(start, operand(item, index_of(0, n)))
            P_write(states, j, p)
            if EXCLUSIVE:
                Y_write(y, ya, j, finished(nothing_yet(start), item, index_of(0, n)))
            elif not REDUCE or n == 1:
                Y_write(y, ya, j, finished(p, item, index_of(0, n)))
        for i in range(1, n):
            here, there = advance(x, along, i), advance(y, y_along, i)
            if REDUCE or EXCLUSIVE:
                for j in range(w):
                    p, item, start = P_read(states, j), X_read(here, xa, j), P_read(starts, j)
                    s = operand(item, index_of(i, n))
                    P_write(states, j, fold(start, p, s))
                    if EXCLUSIVE:
                        Y_write(there, ya, j, finished(before(start, p, s), item, index_of(i, n)))
            else:
                for j in range(w):
                    item = X_read(here, xa, j)
                    p = fold(P_read(starts, j), P_read(states, j), operand(item, index_of(i, n)))
                    P_write(states, j, p)
                    Y_write(there, ya, j, finished(p, item, index_of(i, n)))
        if REDUCE and n > 1:
            for j in range(w):
                Y_write(y, ya, j, finished(P_read(states, j), X_read(x, xa, j), 0))

    @inner
    def walk_row(x, along, y, y_along, starts, n):
        """One row alone."""
        start = P_read(starts, 0)
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
        states, starts = states_at(scratch), starts_at(scratch)
        while True:
            group = fetch_add(words + 8 * TICKET, 1)
            if group >= peek(words, GROUPS):
                break
            outer, row = group // peek(words, STRIPS), group % peek(words, STRIPS) * peek(words, STRIP)
            w = min(peek(words, STRIP), peek(words, ROWS) - row)
            x, along, across = x_place(words, xs, outer, row, ARRAYS)
            y, y_along, y_across_ = y_place(words, ys, outer, row, ARRAYS)
            if INITIAL:
                s, _, told = start_place(words, beyond, outer, row, ARRAYS)
                s_across = start_across(told)
                for j in range(w):
                    P_write(starts, j, P_read_strided(s, s_across, j))
            if w == 1:
                walk_row(x, along, y, y_along, starts, n)
            else:
                walk_rows(x, along, across, y, y_along, y_across_, states, starts, n, w)

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
