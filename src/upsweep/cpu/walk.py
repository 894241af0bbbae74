"""Scans in order: `y[i] = y[i-1] ⊕ x[i]`, one item after the other, many rows side by side.

A strip of rows keeps its states in scratch memory and takes one step for all of them at a time, so that the compiler makes
vector code across rows. A row that is alone keeps its state in a register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from upsweep.cpu.chunk import operators
from upsweep.cpu.kernel import Kernel, Scratch, placer
from upsweep.cpu.memory import Items, address_of, adopted, advance, fetch_add, inner, spliced
from upsweep.operator import Operator


class Word(IntEnum):
    """The int64 words of a launch. Behind them stand the sizes of the outer dimensions and then, for each array, its
    address, its byte strides along the axis and across rows, and its byte strides along the outer dimensions."""

    N = 0  # items of a row
    ROWS = 1  # rows side by side
    STRIPS = 2  # strips that these are cut into
    GROUPS = 3  # strips over all outer dimensions
    STRIP = 4  # rows of a strip
    TICKET = 5  # the next group
    DIMS = 6  # outer dimensions
    ARRAYS = 7


class Form(NamedTuple):
    """What of a plan is compiled in, beside the operator and the dtypes."""

    finish: Operator | None

    segmented: bool
    initial: bool
    exclusive: bool
    reduce: bool
    across: tuple[int | None, ...]
    """For each input and output, the byte stride from row to row where it is known to be one item or none, else None."""


def build(
    fn: Callable[[Any, Any], Any],
    loads: Sequence[np.dtype],
    accumulators: Sequence[np.dtype],
    stores: Sequence[np.dtype | None],
    identity: Sequence[Any] | None,
    form: Form,
    most: int,
) -> Kernel:
    """The kernel for these types, of strips of at most `most` rows."""
    one = len(accumulators) == 1
    flag = [np.dtype(np.uint8)] if form.segmented else []
    in_types, sum_types = [*loads, *flag], [*accumulators, *flag]
    kept = [c for c, dtype in enumerate(stores) if dtype is not None]
    out_types = [dtype for dtype in stores if dtype is not None]

    scratch = Scratch()
    states_at = scratch.region(accumulators, most)
    starts_at = scratch.region(accumulators, most)

    X = Items(in_types, sum_types, one and not form.segmented)
    P = Items(accumulators, accumulators, one)
    Y = Items(out_types, [accumulators[c] for c in kept], one, None if one else kept)
    _, fold, value = operators(fn, X, P, form.segmented, form.initial)
    x_place, y_place, start_place = (
        placer(len(types), int(Word.DIMS)) for types in (in_types, out_types, accumulators)
    )
    X_read, P_read, P_write, P_read_strided, Y_write = (
        X.read_strided, P.read, P.write, P.read_strided, Y.write_strided,
    )  # fmt: skip
    x_across = _strides(form.across[: len(in_types)])
    y_across = _strides(form.across[len(in_types) :])
    INITIAL, EXCLUSIVE, REDUCE = form.initial, form.exclusive, form.reduce
    N, ROWS, STRIPS, GROUPS, STRIP, TICKET, DIMS, ARRAYS = map(int, Word)
    IN, OUT = len(in_types), len(out_types)

    nothing_yet = _nothing_yet(P, identity, form.initial)
    finished = _finished(form.finish)

    if form.segmented:

        @inner
        def before(start, p, s):
            """What an exclusive scan gives: the state, or nothing yet where a segment starts."""
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

    @spliced
    def walk_rows(x, along, across, y, y_along, y_across_, states, starts, n, w):
        """One step after the other, each for all rows of the strip."""
        xa, ya = x_across(across), y_across(y_across_)
        for j in range(w):
            start, s = P_read(starts, j), X_read(x, xa, j)
            p = first(start, s)
            P_write(states, j, p)
            if EXCLUSIVE:
                Y_write(y, ya, j, nothing_yet(start))
            elif not REDUCE or n == 1:
                Y_write(y, ya, j, finished(p))
        for i in range(1, n):
            here, there = advance(x, along, i), advance(y, y_along, i)
            if REDUCE or EXCLUSIVE:
                for j in range(w):
                    p, s, start = P_read(states, j), X_read(here, xa, j), P_read(starts, j)
                    P_write(states, j, fold(start, p, s))
                    if EXCLUSIVE:
                        Y_write(there, ya, j, before(start, p, s))
            else:
                for j in range(w):
                    p = fold(P_read(starts, j), P_read(states, j), X_read(here, xa, j))
                    P_write(states, j, p)
                    Y_write(there, ya, j, finished(p))
        if REDUCE and n > 1:
            for j in range(w):
                Y_write(y, ya, j, finished(P_read(states, j)))

    @spliced
    def walk_row(x, along, y, y_along, starts, n):
        """One row alone."""
        start = P_read(starts, 0)
        s = X_read(x, along, 0)
        p = first(start, s)
        if EXCLUSIVE:
            Y_write(y, y_along, 0, nothing_yet(start))
        elif not REDUCE:
            Y_write(y, y_along, 0, finished(p))
        for i in range(1, n):
            s = X_read(x, along, i)
            if EXCLUSIVE:
                Y_write(y, y_along, i, before(start, p, s))
            p = fold(start, p, s)
            if not EXCLUSIVE and not REDUCE:
                Y_write(y, y_along, i, finished(p))
        if REDUCE:
            Y_write(y, y_along, 0, finished(p))

    def run(words, scratch):
        """One thread's share: tickets until there are none."""
        each, n = 3 + words[DIMS], words[N]
        xs = ARRAYS + words[DIMS]
        ys = xs + IN * each
        beyond = ys + OUT * each
        states, starts = states_at(scratch), starts_at(scratch)
        while True:
            group = fetch_add(address_of(words, TICKET), 1)
            if group >= words[GROUPS]:
                break
            outer, row = group // words[STRIPS], group % words[STRIPS] * words[STRIP]
            w = min(words[STRIP], words[ROWS] - row)
            x, along, across = x_place(words, xs, outer, row, ARRAYS)
            y, y_along, y_across_ = y_place(words, ys, outer, row, ARRAYS)
            if INITIAL:
                s, _, s_across = start_place(words, beyond, outer, row, ARRAYS)
                for j in range(w):
                    P_write(starts, j, P_read_strided(s, s_across, j))
            if w == 1:
                walk_row(x, along, y, y_along, starts, n)
            else:
                walk_rows(x, along, across, y, y_along, y_across_, states, starts, n, w)

    return Kernel(inner(run, nogil=True, no_cpython_wrapper=False), scratch.size, 1, most)


def _nothing_yet(P: Items, identity: Sequence[Any] | None, initial: bool) -> Any:
    """What an exclusive scan gives where nothing stands before an item."""
    if initial or identity is None:

        @inner
        def nothing_yet(start):
            return start

    else:
        cast, neutral = P.cast, identity[0].item() if P.bare else tuple(part.item() for part in identity)

        @inner
        def nothing_yet(start):
            return cast(neutral)

    return nothing_yet


def _finished(finish: Operator | None) -> Any:
    """What is written for a prefix."""
    if finish is not None:
        return adopted(finish.fn)

    @inner
    def finished(p):
        return p

    return finished


def _strides(across: Sequence[int | None]) -> Any:
    """The strides from row to row: compiled in where they are known, so that loops over rows become vector code."""
    if all(stride is not None for stride in across):
        known = tuple(across)

        @inner
        def strides(told):
            return known

    else:

        @inner
        def strides(told):
            return told

    return strides
