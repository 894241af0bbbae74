"""Pairs (value, index) scanned straight through: the largest or the smallest value stays, the first of equals or of NaNs.

Every prefix is one of the items, and it seldom changes: the k-th of items in random order is a new largest one with the chance
1 / k. So a vector of values is first compared with the prefix before it. Where no value beats this prefix, it is stored for all
of them, and their indices are not read. Otherwise the vector is scanned as in `straight`, by Hillis and Steele's scan.

A reduction looks for the best value of some lines, and then for its place among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from upsweep.cpu.memory import Items, adopted, gathered, inner
from upsweep.cpu.nodes import joiners, operators
from upsweep.cpu.pair_vectors import scans_of, searches_in, trailing_zeros
from upsweep.cpu.straight import LONG
from upsweep.cpu.words import HALF, JOIN, LINE, OPERANDS, SCAN, SUM
from upsweep.operators import Variant

BLOCK = 128
"""Lines of values whose best one is found before it is looked for among them: they stay in the nearest cache."""


def runner(variant: Variant, accumulators: Sequence[np.dtype]) -> Callable[..., None]:
    """The code of a built-in operator on pairs, asked as that of `straight`. Each component has its words of the frame."""
    value, index = accumulators
    S, values, indices = (
        Items(accumulators, accumulators, False),
        *(Items([d], [d], True) for d in accumulators),
    )
    combine, fold, _ = operators(adopted(variant.fn), S, S, False, False)
    join, fold_row = joiners(S, S, 2, 2, combine, fold)
    take, wider = gathered(OPERANDS), int(index.itemsize > value.itemsize)
    value_size, index_size, n = value.itemsize, index.itemsize, LINE // value.itemsize
    widest = max(value_size, index_size)
    best, beating, equal, no_number = searches_in(value, variant.vector[0])
    upto, before, upto_past, before_past = (
        scans_of(value, index, variant.vector[0], exclusive, past)
        for past in (False, True)
        for exclusive in (False, True)
    )
    read, write, read_value, write_value = S.read, S.write, values.read, values.write
    read_index, write_index = indices.read, indices.write

    @inner
    def place_in(x, first, top, unordered):
        """The first item from a line on that equals the best one, or is no number."""
        found = 0
        while found == 0:
            found = no_number(x + first * value_size) if unordered else equal(x + first * value_size, top)
            first += n
        return first - n + trailing_zeros(found)

    @inner
    def place_among_few(x, w, known, p):
        at = -1 if known else 0
        for k in range(w):
            item = read_value((x,), k)
            if beating(item, p):
                at, p = k, item
        return at

    @inner
    def place_of_best(x, w, known, p):
        """The first of the items that beat p and are beaten by none, or -1. Behind a NaN no item is looked at."""
        if w < n:
            return place_among_few(x, w, known, p)
        at, first = -1 if known else 0, 0
        while first < w and p == p:
            # The last line overlaps the one before it, of which no value beats p.
            first = min(first, w - n)
            lines = min(BLOCK, (w - first) // n)
            top, unordered = best(x + first * value_size, lines, p)
            if unordered or beating(top, p):
                at = place_in(x, first, top, unordered)
                p = read_value((x,), at)
            first += lines * n
        return at

    @inner
    def total(to, index_to, x, i, w, known):
        at = place_of_best(x, w, known, read_value((to if known else x,), 0))
        if at >= 0:
            write_value((to,), 0, read_value((x,), at))
            write_index((index_to,), 0, read_index((i,), at))

    @inner
    def items(xs, ys, first, last, p, exclusive):
        for k in range(first, last):
            q = combine(p, read(xs, k))
            write(ys, k, p if exclusive else q)
            p = q
        return p

    @inner
    def scan(places, xs, ys, w, known, exclusive, past):
        p, done = read(places if known else xs, 0), 0 if known else 1
        if not known:
            write(ys, 0, p)
        head = max(done, (-ys[wider] & (LINE - 1)) // widest if w > LONG else 0)
        p = items(xs, ys, done, head, p, exclusive)
        lines = (w - head) // n
        x, i = xs[0] + head * value_size, xs[1] + head * index_size
        y, j = ys[0] + head * value_size, ys[1] + head * index_size
        if past and (y | j) & (HALF - 1) == 0:
            p = before_past(x, i, y, j, lines, p) if exclusive else upto_past(x, i, y, j, lines, p)
        else:
            p = before(x, i, y, j, lines, p) if exclusive else upto(x, i, y, j, lines, p)
        write(places, 0, items(xs, ys, head + lines * n, w, p, exclusive))

    def run(which, frame, past, w, known, exclusive, rows):
        to, x, y, x_across, y_across = take(frame, 0, 1)
        index_to, i, j, i_across, j_across = take(frame, OPERANDS, 1)
        if which == SUM:
            for k in range(rows):
                total(
                    to + k * value_size,
                    index_to + k * index_size,
                    x + k * x_across,
                    i + k * i_across,
                    w,
                    known,
                )
        elif which == SCAN:
            for k in range(rows):
                places, xs = (
                    (to + k * value_size, index_to + k * index_size),
                    (x + k * x_across, i + k * i_across),
                )
                scan(places, xs, (y + k * y_across, j + k * j_across), w, known, exclusive, past)
        elif which == JOIN:
            join(frame, w)
        else:
            fold_row(frame, w, 0)

    return run
