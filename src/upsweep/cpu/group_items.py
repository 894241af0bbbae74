"""Scans of the items of one group, which lie one behind the other, in place.

A group's state is the binary counter of `upsweep.tree.Carry`: the sums of the aligned blocks that its items so far make up, the
prefix before each of them, and the prefix behind the last. Level 0 is a block of `BLOCK` items. In order it is that prefix alone.
"""

from __future__ import annotations

from typing import Any

from upsweep.cpu import fused
from upsweep.cpu.counter import joiner, onto_prefix
from upsweep.cpu.group_words import BLOCK, Form
from upsweep.cpu.memory import inner
from upsweep.plan import Plan


def scanner(plan: Plan, form: Form) -> Any:
    """The code that scans n items in place, behind so many blocks, or in order items, of their group."""
    P = fused.access(plan).P
    combine, onto = onto_prefix(plan)
    joined, P_read, P_write = joiner(plan, combine), P.read, P.write
    INITIAL = form.initial
    # In an exclusive scan a group's items lie behind the prefix before them.
    LEAD = int(form.exclusive)

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
        P_write(items, at + 2, onto(True, p, c))
        return pair if n == 3 else combine(pair, combine(c, P_read(items, at + 3)))

    @inner
    def by_blocks(sums, prefixes, items, start, slot, blocks, at, n):
        """Scan n items of a group in place, behind so many blocks of it."""
        p, has = P_read(prefixes, slot) if blocks else start, INITIAL or blocks > 0
        if LEAD:
            P_write(items, at - LEAD, p)
        while n >= BLOCK:
            left = four(items, at, 4, has, p)
            half = onto(has, p, left)
            P_write(items, at + 3, half)
            right = four(items, at + 4, 4, True, half)
            s, before, first = joined(sums, prefixes, slot + 1, blocks, p, combine(left, right))
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
    def one_by_one(sums, prefixes, items, start, slot, seen, at, n):
        """The same in order, behind so many items of the group."""
        p, has = P_read(prefixes, slot) if seen else start, INITIAL or seen > 0
        if LEAD:
            P_write(items, at - LEAD, p)
        for k in range(at, at + n):
            p, has = onto(has, p, P_read(items, k)), True
            P_write(items, k, p)
        P_write(prefixes, slot, p)

    return one_by_one if form.in_order else by_blocks
