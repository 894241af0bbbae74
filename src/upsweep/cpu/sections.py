"""How a panel of items goes through one section of a filter, in the order of the tree or of the loop.

A panel has a row for each step and in it the items of all lanes. A section is a recurrence with one multiplier for all its
items. So a block of the tree is multiplied by a power of the pole that depends on its level alone, and only the
second component of a scan of affine maps is left to compute, with the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from upsweep.cpu.by_rows import LANES, ROW, by_rows, wide
from upsweep.cpu.memory import inner

STEPS = 64
"""Items of a lane in a panel, a power of two. ns an item and section by 64 steps of 16, 32 lanes and 128 steps of 16, 32, AMD,
one thread: .67, .62, .68, .71."""


class Section(NamedTuple):
    """The functions for sections of one pole, or of a pair of them, whose states have imaginary parts too."""

    along: Any
    """Take a panel through a section, where a lane goes on from the lane before it."""
    beside: Any
    """Take a panel through a section, where each lane is a row of its own."""
    in_order: Any
    """Take `steps` steps of a panel through a section, in order."""


def section(pair: bool) -> Section:
    def item(x):
        return wide(x) if pair else x

    def output(x, state, now, first, second):
        return now * x + (first * state.real + second * state.imag if pair else first * state)

    def pair_of(x0, x1, state, after, by):
        return output(x0, state, *by), output(x1, after, *by)

    as_state = by_rows(lambda x: (item(x),))
    copied = by_rows(lambda state: (state,))
    up_first = by_rows(lambda x0, x1, power: (item(x0) * power + item(x1),))
    onward = by_rows(lambda state, earlier, power: (earlier * power + state,))
    first = by_rows(lambda x0, x1, state, power, *by: pair_of(x0, x1, state, item(x0), by))
    last = by_rows(lambda x0, x1, state, power, *by: pair_of(x0, x1, state, state * power + item(x0), by))
    step = by_rows(lambda x, state, power, *by: (output(x, state, *by), state * power + item(x)))

    @inner
    def row(states, k):
        at = states.ctypes.data + k * ROW
        return (at, at + (STEPS + 1) * ROW) if pair else at

    @inner
    def get(states, k, lane):
        return complex(states[0, k, lane], states[1, k, lane]) if pair else states[0, k, lane]

    @inner
    def put(states, k, lane, value):
        states[0, k, lane], states[1, k, lane] = value.real, value.imag

    @inner
    def up(panel, states, powers):
        """The sum of each block of two items or more, in the row behind its last item."""
        x, steps = panel.ctypes.data, len(panel)
        for k in range(2, steps + 1, 2):
            up_first((row(states, k),), (x + (k - 2) * ROW, x + (k - 1) * ROW, powers[0]))
        for level in range(1, _zeros(steps)):
            size = 1 << level
            for k in range(2 * size, steps + 1, 2 * size):
                onward((row(states, k),), (row(states, k), row(states, k - size), powers[level]))

    @inner
    def down(panel, states, powers, by, alone):
        """The prefix before each item, and the item's result. Nothing stands before the first `alone` lanes: none, one or all."""
        x, steps = panel.ctypes.data, len(panel)
        for level in range(_zeros(steps) - 1, 0, -1):
            size, total = 1 << level, get(states, 1 << level, 0)
            for k in range(3 * size if alone == LANES else size, steps, 2 * size):
                onward((row(states, k),), (row(states, k), row(states, k - size), powers[level]))
            if alone:
                put(states, size, 0, total)
        x0, x1 = panel[0, 0], panel[1, 0]
        for k in range(0, steps, 2):
            two = x + k * ROW, x + (k + 1) * ROW
            given = two[0], two[1], row(states, k), powers[0], by[0], by[1], by[2]
            if k == 0 and alone == LANES:
                first(two, given)
            else:
                last(two, given)
        if alone == 1:
            state = by[1] * x0
            panel[1, 0] = by[0] * x1 + (state + by[2] * 0.0 if pair else state)

    @inner
    def along(panel, states, sums, folds, powers, by, count):
        up(panel, states, powers)
        steps = len(panel)
        further = powers[_zeros(steps) :]
        for lane in range(LANES):
            before, level, total = count + lane, 0, get(states, steps, lane)
            if before:
                put(states, 0, lane, folds[_zeros(before)])
            else:
                states[0, 0, 0] = states[1, 0, 0] = 0
            while before >> level & 1:
                total = sums[level] * further[level] + total
                level += 1
            sums[level] = total
            rest = before + 1 - (1 << level)
            folds[level] = folds[_zeros(rest)] * further[level] + total if rest else total
        down(panel, states, powers, by, int(count == 0))

    @inner
    def beside(panel, states, sums, folds, powers, by, count):
        up(panel, states, powers)
        steps = len(panel)
        further, level, total = powers[_zeros(steps) :], 0, row(states, steps)
        if count:
            copied((row(states, 0),), (row(folds, _zeros(count)),))
        else:
            states[:, 0] = 0
        while count >> level & 1:
            onward((total,), (total, row(sums, level), further[level]))
            level += 1
        copied((row(sums, level),), (total,))
        rest = count + 1 - (1 << level)
        if rest:
            onward((total,), (total, row(folds, _zeros(rest)), further[level]))
        copied((row(folds, level),), (total,))
        down(panel, states, powers, by, 0 if count else LANES)

    @inner
    def in_order(panel, state, powers, by, steps, first):
        """Row 0 of `state` holds the lanes' states. Before the `first` panel they are 0; its first items are states."""
        as_state((row(state, 1),), (panel.ctypes.data,))
        for k in range(steps):
            x = panel.ctypes.data + k * ROW
            step((x, row(state, 0)), (x, row(state, 0), powers[0], by[0], by[1], by[2]))
            if first and k == 0:
                copied((row(state, 0),), (row(state, 1),))

    return Section(along, beside, in_order)


@inner
def _zeros(count):
    """How many zeros stand behind the last one of a number."""
    zeros = 0
    while not count >> zeros & 1:
        zeros += 1
    return zeros
