"""The kernel that scans groups whose items lie in any order, with a state for each group.

In order, that is one pass over the items, and a state is the last prefix. In the tree's order items are brought together by
groups, a stretch of them at a time that stays in the cache, are scanned there, and results go back. A group's state is the
binary counter of `upsweep.tree.Carry`: the sums of the aligned blocks that the items so far make up, the prefix before each of
them, and the prefix behind the last. Level 0 is a block of `BLOCK` items. The items behind a group's last block wait for the
next stretch, and are scanned in both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from upsweep.cpu import fused
from upsweep.cpu.address import peek
from upsweep.cpu.group_words import BLOCK, Form, Word
from upsweep.cpu.hole import hole
from upsweep.cpu.memory import Items, advance, gathered, inner
from upsweep.cpu.nodes import operators
from upsweep.cpu.walk import strides_of
from upsweep.plan import Plan


def grouper(plan: Plan, form: Form) -> Callable[..., None]:
    """The code for these types."""
    accumulators = plan.accumulators
    X, _, P, Y, IN, OUT = fused.access(plan)
    near, far = (Items([np.dtype(t)], [np.dtype(np.int64)], True) for t in (np.int32, np.int64))
    combine, fold, value = operators(hole(accumulators), P, P, False, False)
    operand, finished = fused.item(plan), fused.result(plan)
    ins, outs, sums_of = gathered(IN), gathered(OUT), gathered(len(accumulators))
    word = gathered(1)
    X_read, P_read, P_write, Y_write = X.read_strided, P.read, P.write, Y.write_strided
    start_read, P_at = P.read_strided, P.at
    code_read, near_read, near_write = near.read_strided, near.read, near.write
    far_read, far_write = far.read, far.write
    N, CODES, STEP, COUNTS, GROUPS, GROUPS_END, SLOTS, BEGINS, ENDS, STRETCH, LIST, ZERO, *_ = map(int, Word)
    SETS, SETS_STEP, SET, SET_END, ROW, ROW_END, STRIP, ARRAYS = map(int, [*Word][ZERO + 1 :])
    SUMS, ROOMS = len(accumulators), ARRAYS + 2 * (IN + OUT) + len(accumulators)
    INITIAL, EXCLUSIVE, IN_ORDER, ABREAST = *form[:3], bool(form.across)
    across = form.across or (None,) * (IN + OUT)
    x_across, y_across = strides_of(across[:IN]), strides_of(across[IN:])
    # In an exclusive scan a group's items lie behind the prefix before them.
    LEAD = int(EXCLUSIVE)

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
    def four(items, at, n, has, before):
        """Scan n items in place, at most 4, but for the fourth; where there are 4, the sum of all."""
        a = P_read(items, at)
        P_write(items, at, onto(has, before, a))
        if n == 1:
            return a
        pair = combine(a, P_read(items, at + 1))
        p = onto(has, before, pair)
        P_write(items, at + 1, p)
        if n == 2:
            return pair
        c = P_read(items, at + 2)
        P_write(items, at + 2, fold(c, p, c))
        return pair if n == 3 else combine(pair, combine(c, P_read(items, at + 3)))

    @inner
    def scan(rooms, start, slot, blocks, at, n):
        """Scan n items of a group in place, behind so many blocks of it."""
        sums, prefixes, _, items = rooms
        p, has = P_read(prefixes, slot) if blocks else start, INITIAL or blocks > 0
        if LEAD:
            P_write(items, at - LEAD, p)
        while n >= BLOCK:
            left = four(items, at, 4, has, p)
            half = onto(has, p, left)
            P_write(items, at + 3, half)
            right = four(items, at + 4, 4, True, half)
            s, before, first = merged(sums, prefixes, slot, blocks, p, combine(left, right))
            p, has = onto(INITIAL or not first, before, s), True
            P_write(items, at + 7, p)
            at, n, blocks = at + BLOCK, n - BLOCK, blocks + 1
        P_write(prefixes, slot, p)
        if n == 0:
            return
        left = four(items, at, min(n, 4), has, p)
        if n >= 4:
            p = onto(has, p, left)
            P_write(items, at + 3, p)
            if n > 4:
                four(items, at + 4, n - 4, True, p)

    @inner
    def bring(words, arrays, codes, step, counts, begins, ends, items, first, n):
        """Bring n items together by groups. Those of a group lie behind room for its items that wait."""
        listed, low, high = word(words, LIST, 1), peek(words, GROUPS), peek(words, GROUPS_END)
        for group in range(low, high):
            near_write(ends, group, 0)
        for k in range(first, first + n):
            i = far_read(listed, k) if peek(words, LIST) else k
            group = code_read(codes, step, i)
            near_write(ends, group, near_read(ends, group) + 1)
        at = 0
        for group in range(low, high):
            new = near_read(ends, group)
            if new:
                at += LEAD + far_read(counts, group) % BLOCK
            near_write(begins, group, at)
            near_write(ends, group, at)
            at += new
        for k in range(first, first + n):
            i = far_read(listed, k) if peek(words, LIST) else k
            group = code_read(codes, step, i)
            at = near_read(ends, group)
            P_write(items, at, operand(X_read(arrays[0], arrays[1], i), abs(arrays[4] - i)))
            near_write(ends, group, at + 1)

    @inner
    def by_tree(words, arrays, codes, step, counts, slots, begins, ends, rooms, start):
        waiting, items = rooms[2], rooms[3]
        listed, most, n = word(words, LIST, 1), peek(words, STRETCH), peek(words, N)
        for first in range(0, n, most):
            behind = min(n, first + most)
            bring(words, arrays, codes, step, counts, begins, ends, items, first, behind - first)
            for group in range(peek(words, GROUPS), peek(words, GROUPS_END)):
                at, end, seen = near_read(begins, group), near_read(ends, group), far_read(counts, group)
                if at == end:
                    continue
                wait, left = seen % BLOCK, (seen + end - at) % BLOCK
                far_write(counts, group, seen + end - at)
                for k in range(wait):
                    P_write(items, at - wait + k, P_read(waiting, group * BLOCK + k))
                if behind < n:
                    for k in range(left):
                        P_write(waiting, group * BLOCK + k, P_read(items, end - left + k))
                scan(rooms, start, far_read(slots, group), seen // BLOCK, at - wait, wait + end - at)
            for k in range(first, behind):
                i = far_read(listed, k) if peek(words, LIST) else k
                group = code_read(codes, step, i)
                at = near_read(begins, group)
                near_write(begins, group, at + 1)
                write(arrays, i, P_read(items, at - LEAD))

    @inner
    def in_turn(words, arrays, codes, step, counts, states, start):
        x, x_step = arrays[0], arrays[1]
        listed = word(words, LIST, 1)
        for k in range(peek(words, N)):
            i = far_read(listed, k) if peek(words, LIST) else k
            group = code_read(codes, step, i)
            seen = far_read(counts, group)
            before = P_read(states, group) if seen else start
            p = onto(INITIAL or seen > 0, before, operand(X_read(x, x_step, i), abs(arrays[4] - i)))
            P_write(states, group, p)
            far_write(counts, group, 1)
            write(arrays, i, before if EXCLUSIVE else p)

    @inner
    def line(fresh, xs, x_row, ys, y_row, states, starts, start_row, width, index):
        """An item of each row, of a group that is `fresh` or has states."""
        xa, ya, has = x_across(x_row), y_across(y_row), INITIAL or not fresh
        for row in range(width):
            before = start_read(starts, start_row, row) if fresh else P_read(states, row)
            item = X_read(xs, xa, row)
            p = onto(has, before, operand(item, index))
            P_write(states, row, p)
            Y_write(ys, ya, row, finished(before if EXCLUSIVE else p, item, index))

    @inner
    def abreast(words, arrays, x_row, y_row, codes, step, counts, states, starts, start_row, width):
        """The same for rows side by side: an item of each, then the next of each."""
        x, x_step, y, y_step, zero = arrays
        listed, strip = word(words, LIST, 1), peek(words, STRIP)
        for k in range(peek(words, N)):
            i = far_read(listed, k) if peek(words, LIST) else k
            group = code_read(codes, step, i)
            xs, ys, own = advance(x, x_step, i), advance(y, y_step, i), P_at(states, group * strip)
            if far_read(counts, group):
                line(False, xs, x_row, ys, y_row, own, starts, start_row, width, abs(zero - i))
            else:
                line(True, xs, x_row, ys, y_row, own, starts, start_row, width, abs(zero - i))
                far_write(counts, group, 1)

    @inner
    def strip_of(words, place, codes, step, counts, slots, begins, ends, rooms):
        """Scan the rows of a strip."""
        x, y, starts, first, width = place
        x_row, y_row = ins(words, ARRAYS + IN, 1), outs(words, ARRAYS + 2 * IN + OUT, 1)
        start_row = sums_of(words, ARRAYS + 2 * (IN + OUT), 1)
        x, y, starts = advance(x, x_row, first), advance(y, y_row, first), advance(starts, start_row, first)
        arrays = x, ins(words, ARRAYS, 1), y, outs(words, ARRAYS + 2 * IN, 1), peek(words, ZERO)
        for group in range(peek(words, GROUPS), peek(words, GROUPS_END)):
            far_write(counts, group, 0)
        if ABREAST:
            abreast(words, arrays, x_row, y_row, codes, step, counts, rooms[1], starts, start_row, width)
        elif IN_ORDER:
            in_turn(words, arrays, codes, step, counts, rooms[1], P_read(starts, 0))
        else:
            by_tree(words, arrays, codes, step, counts, slots, begins, ends, rooms, P_read(starts, 0))

    def run(words):
        rooms = (
            sums_of(words, ROOMS, 1), sums_of(words, ROOMS + SUMS, 1), sums_of(words, ROOMS + 2 * SUMS, 1),
            sums_of(words, ROOMS + 3 * SUMS, 1),
        )  # fmt: skip
        codes, step = word(words, CODES, 1), word(words, STEP, 1)
        counts, slots = word(words, COUNTS, 1), word(words, SLOTS, 1)
        begins, ends = word(words, BEGINS, 1), word(words, ENDS, 1)
        sets, sets_step, strip = peek(words, SETS), peek(words, SETS_STEP), peek(words, STRIP)
        for s in range(peek(words, SET), peek(words, SET_END)):
            x, y = ins(sets, s, sets_step), outs(sets, s + IN * sets_step, sets_step)
            starts = sums_of(sets, s + (IN + OUT) * sets_step, sets_step)
            for first in range(peek(words, ROW), peek(words, ROW_END), strip):
                place = x, y, starts, first, min(strip, peek(words, ROW_END) - first)
                strip_of(words, place, codes, step, counts, slots, begins, ends, rooms)

    return run
