"""The kernel that scans groups whose items lie in any order: one pass over the items, with a state for each group.

In the tree's order a group's state is the binary counter of `upsweep.tree.Carry`: the sums of the aligned blocks that the items
so far make up, the prefix before each of them, and the prefix behind the last. Level 0 is a block of `BLOCK` items.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from upsweep.cpu import fused
from upsweep.cpu.address import peek
from upsweep.cpu.group_words import BLOCK, Form, Word
from upsweep.cpu.hole import hole
from upsweep.cpu.memory import Items, gathered, inner
from upsweep.cpu.nodes import operators
from upsweep.plan import Plan


def grouper(plan: Plan, form: Form) -> Callable[..., None]:
    """The code for these types."""
    accumulators = plan.accumulators
    X, _, P, Y, IN, OUT = fused.access(plan)
    code, count, place = (
        Items([np.dtype(t)], [np.dtype(np.int64)], True) for t in (np.int32, np.int64, np.int64)
    )
    combine, fold, value = operators(hole(accumulators), P, P, False, False)
    operand, finished = fused.item(plan), fused.result(plan)
    ins, outs, sums_of = gathered(IN), gathered(OUT), gathered(len(accumulators))
    word = gathered(1)
    X_read, P_read, P_write, Y_write = X.read_strided, P.read, P.write, Y.write_strided
    code_read, count_read, count_write = code.read_strided, count.read, count.write
    place_read, place_write = place.read, place.write
    N, CODES, STEP, COUNTS, GROUPS, GROUPS_END, SLOTS, PLACES, LIST, ZERO, ARRAYS = map(int, Word)
    SUMS = len(accumulators)
    INITIAL, EXCLUSIVE, IN_ORDER = form

    @inner
    def merged(sums, prefixes, slot, count, before, s):
        """The sum of the block that `BLOCK` items complete, with the prefix before it, and whether it is the first. The blocks
        that it is made of make way for it."""
        slot += 1
        while count & 1:
            s = combine(P_read(sums, slot), s)
            before = P_read(prefixes, slot)
            slot += 1
            count >>= 1
        P_write(sums, slot, s)
        P_write(prefixes, slot, before)
        return s, before, count == 0

    @inner
    def onto(has, before, s):
        return fold(s, before, s) if has else value(s)

    @inner
    def write(arrays, i, p):
        """The results of a prefix, at place i."""
        x, x_step, y, y_step, zero = arrays
        Y_write(y, y_step, i, finished(p, X_read(x, x_step, i), abs(zero - i)))

    @inner
    def put(arrays, places, at, r, p):
        """Write a prefix to its place: at item r, or at the item behind it in an exclusive scan."""
        if EXCLUSIVE:
            r += 1
        if not EXCLUSIVE or r < BLOCK:
            write(arrays, place_read(places, at + r), p)

    @inner
    def four(arrays, places, items, group, r, n, has, before):
        """Scan items r to r + n of the waiting ones, at most 3 of them; where there are 4, the sum of all."""
        at = group * BLOCK
        a = P_read(items, at + r)
        put(arrays, places, at, r, onto(has, before, a))
        if n == 1:
            return a
        pair = combine(a, P_read(items, at + r + 1))
        p = onto(has, before, pair)
        put(arrays, places, at, r + 1, p)
        if n == 2:
            return pair
        c = P_read(items, at + r + 2)
        put(arrays, places, at, r + 2, fold(c, p, c))
        return pair if n == 3 else combine(pair, combine(c, P_read(items, at + r + 3)))

    @inner
    def close(arrays, rooms, start, places, group, slot, seen, n):
        """Scan the n items that wait in a group's room, the last of `seen`."""
        sums, prefixes, items = rooms
        at, blocks = group * BLOCK, (seen - n) // BLOCK
        has = INITIAL or blocks > 0
        before = P_read(prefixes, slot) if blocks else start
        if EXCLUSIVE:
            write(arrays, place_read(places, at), before)
            n -= n < BLOCK
            if n == 0:
                return
        left = four(arrays, places, items, group, 0, min(n, 4), has, before)
        if n < 4:
            return
        p = onto(has, before, left)
        put(arrays, places, at, 3, p)
        if n == 4:
            return
        right = four(arrays, places, items, group, 4, n - 4, True, p)
        if n < BLOCK:
            return
        s, before, first = merged(sums, prefixes, slot, blocks, before, combine(left, right))
        p = onto(INITIAL or not first, before, s)
        P_write(prefixes, slot, p)
        put(arrays, places, at, 7, p)

    @inner
    def by_tree(words, arrays, codes, step, counts, slots, rooms, places, start):
        items, x, x_step = rooms[2], arrays[0], arrays[1]
        listed = word(words, LIST, 1)
        for k in range(peek(words, N)):
            i = place_read(listed, k) if peek(words, LIST) else k
            group = code_read(codes, step, i)
            seen = count_read(counts, group)
            at = group * BLOCK + seen % BLOCK
            P_write(items, at, operand(X_read(x, x_step, i), abs(arrays[4] - i)))
            place_write(places, at, i)
            seen += 1
            count_write(counts, group, seen)
            if seen % BLOCK == 0:
                slot = count_read(slots, group)
                close(arrays, rooms, start, places, group, slot, seen, BLOCK)
        for group in range(peek(words, GROUPS), peek(words, GROUPS_END)):
            seen, slot = count_read(counts, group), count_read(slots, group)
            if seen % BLOCK:
                close(arrays, rooms, start, places, group, slot, seen, seen % BLOCK)

    @inner
    def in_turn(words, arrays, codes, step, counts, states, start):
        x, x_step = arrays[0], arrays[1]
        listed = word(words, LIST, 1)
        for k in range(peek(words, N)):
            i = place_read(listed, k) if peek(words, LIST) else k
            group = code_read(codes, step, i)
            seen = count_read(counts, group)
            before = P_read(states, group) if seen else start
            p = onto(INITIAL or seen > 0, before, operand(X_read(x, x_step, i), abs(arrays[4] - i)))
            P_write(states, group, p)
            count_write(counts, group, 1)
            write(arrays, i, before if EXCLUSIVE else p)

    def run(words):
        x, x_step = ins(words, ARRAYS, 1), ins(words, ARRAYS + IN, 1)
        at = ARRAYS + 2 * IN
        arrays = (x, x_step, outs(words, at, 1), outs(words, at + OUT, 1), peek(words, ZERO))
        at += 2 * OUT
        sums, prefixes, items, starts = (
            sums_of(words, at, 1), sums_of(words, at + SUMS, 1), sums_of(words, at + 2 * SUMS, 1),
            sums_of(words, at + 3 * SUMS, 1),
        )  # fmt: skip
        codes, step = word(words, CODES, 1), word(words, STEP, 1)
        counts, slots, places = word(words, COUNTS, 1), word(words, SLOTS, 1), word(words, PLACES, 1)
        start = P_read(starts, 0)
        if IN_ORDER:
            in_turn(words, arrays, codes, step, counts, prefixes, start)
        else:
            rooms = (sums, prefixes, items)
            by_tree(words, arrays, codes, step, counts, slots, rooms, places, start)

    return run
