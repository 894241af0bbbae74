"""Scans of groups whose items lie in any order: a pass over the items, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from upsweep import cores
from upsweep.cpu import threads
from upsweep.cpu.codes import PARALLEL_ITEMS, codes_of, in_line, labels_of
from upsweep.cpu.group_runs import Run, depth_of
from upsweep.cpu.group_words import (
    COUNTED_BYTES,
    COUNTED_LINE,
    COUNTED_MOST,
    COUNTED_ROWS,
    COUNTED_STRIP,
    FASTER,
    MANY,
    SHARED,
    STATES,
    STRIP,
    Form,
    Way,
)
from upsweep.cpu.launch import with_map
from upsweep.cpu.sets import Sets, by_row, sets_of
from upsweep.cpu.strips import known_steps
from upsweep.host.arrays import numbers
from upsweep.operator import identity_of
from upsweep.operators import extreme, free
from upsweep.plan import Plan

__all__ = ["codes_of", "run_groups"]

LOOKED_AT = 1 << 11
"""Items that are looked at for a NaN. To ask takes 12 us of a call that takes 3, and saves 5 ns an item."""


def run_groups(
    plan: Plan,
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray | None],
    initial: Sequence[np.ndarray] | None,
    keys: tuple[Any, ...],
) -> None:
    """Run a plan for each group by itself: see `upsweep.engine_protocol.Grouping.run_groups`."""
    plan = with_map(plan)
    codes, groups = labels_of(keys, plan.n, plan.threads)
    starts = starts_of(plan, initial)
    in_order = goes_in_order(plan) or chosen(plan, xs, starts)
    ins, outs, sets = arranged(plan, xs, [y for y in ys if y is not None], starts)
    wanted = plan.threads or cores.wanted()
    most = wanted if plan.n * plan.rows >= PARALLEL_ITEMS else 1
    across = across_of(plan, sets, ins, outs, in_order, groups, most)
    several = plan.rows < wanted and plan.n >= SHARED
    asked = plan.n >= PARALLEL_ITEMS and not across and (several or not in_order)
    sorted_ = asked and bool(in_line(codes))
    # In order several threads win little of a row, but where its groups lie one behind the other.
    shared = several and (sorted_ or not in_order or wanted >= MANY)
    way = Way.SORTED if sorted_ else Way.BROUGHT if shared or not (in_order or across) else Way.IN_TURN
    across = () if shared else across
    sharing = 1 if shared else most
    strip = strip_of(plan, sets, groups, None in across, in_order, sharing) if across else 1
    form = Form(initial is not None, plan.exclusive, in_order, way, across)
    codes = codes[::-1] if plan.reverse else codes
    run = Run(plan, form, codes, groups, sets, wanted if shared else 1, strip)
    if shared:
        run.together()
    else:
        threads.each(run.rows, _shares(sets, strip, sharing), wanted)


def starts_of(plan: Plan, initial: Sequence[np.ndarray] | None) -> list[np.ndarray]:
    """What stands before the first item of each group, in the dtypes that are computed in."""
    return [np.asarray(s, d) for s, d in zip(initial or _identity(plan), plan.accumulators)]


def arranged(
    plan: Plan, xs: Sequence[np.ndarray], ys: Sequence[np.ndarray], starts: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray], Sets]:
    """Inputs and outputs by rows, and how these lie."""
    ins, outs = ([by_row(numbers(a), plan) for a in some] for some in (xs, ys))
    return ins, outs, sets_of(ins, outs, starts)


def across_of(
    plan: Plan,
    sets: Sets,
    ins: Sequence[np.ndarray],
    outs: Sequence[np.ndarray],
    in_order: bool,
    groups: int,
    threads: int,
) -> tuple[int | None, ...]:
    """Where rows are neighbours in memory and are scanned side by side, the bytes from row to row of each input and output, if
    all are known to be one item or none. By the tree they are not where one by one they keep many more threads at work."""
    if not sets.near or sets.rows == 1:
        return ()
    last = 2 * (len(ins) + len(outs))
    steps = sets.steps[len(ins) : 2 * len(ins)] + sets.steps[last - len(outs) : last]
    known = known_steps(steps, [a.dtype for a in (*ins, *outs)])
    if in_order:
        return (None,) * len(known) if None in known else known
    strips = -(-sets.rows // STRIP) * sets.places.shape[1]
    enough = sets.rows >= COUNTED_ROWS and FASTER * strips >= threads
    counted = enough and _few_states(plan, min(STRIP, sets.rows), groups)
    return known if counted and None not in known else ()


def _few_states(plan: Plan, rows: int, groups: int) -> bool:
    """Whether so many rows by the tree have few states."""
    most = COUNTED_BYTES if rows * _size(plan) < COUNTED_LINE else COUNTED_MOST
    return rows * _state(plan, groups, False) <= most


def _size(plan: Plan) -> int:
    """The bytes of a prefix."""
    return sum(d.itemsize for d in plan.accumulators)


def _state(plan: Plan, groups: int, in_order: bool) -> int:
    """The bytes of the states of all groups of a row."""
    return _size(plan) * max(1, groups) * (1 if in_order else 2 * depth_of(plan))


def strip_of(plan: Plan, sets: Sets, groups: int, apart: bool, in_order: bool, sharing: int) -> int:
    """The rows that are scanned side by side: as many as have their states in a near cache, if their items lie without a gap."""
    room = STATES if in_order else COUNTED_STRIP
    most = STRIP if apart else max(STRIP, room // _state(plan, groups, in_order) // STRIP * STRIP)
    fair = -(-sets.rows // max(1, sharing // sets.places.shape[1]))
    return min(most, sets.rows, -(-fair // STRIP) * STRIP)


def _shares(sets: Sets, strip: int, most: int) -> list[tuple[int, int, int, int]]:
    """The rows in at most so many shares: the first set and the one behind the last, and the first row of these sets and the one
    behind the last.
    """
    count, rows = sets.places.shape[1], sets.rows
    if most == 1:
        return [(0, count, 0, rows)]
    if count >= most:
        return [(a, b, 0, rows) for a, b in _cut(count, most)]
    return [(0, count, a * strip, min(b * strip, rows)) for a, b in _cut(-(-rows // strip), most)]


def _cut(count: int, most: int) -> list[tuple[int, int]]:
    return [(a, b) for a, b in pairwise([count * k // most for k in range(most + 1)]) if a < b]


@lru_cache(1024)
def _identity(plan: Plan) -> Sequence[Any]:
    return identity_of(plan.op, plan.accumulators) or [0] * len(plan.accumulators)


@lru_cache(1024)
def goes_in_order(plan: Plan) -> bool:
    """Whether items go one by one, whatever they are. The tree over at most three items is the loop over them."""
    few = plan.n <= 3 and not plan.initial
    return few or plan.order == "sequential" or free(plan.op, plan.accumulators)


def chosen(plan: Plan, xs: Sequence[np.ndarray], starts: Sequence[Any]) -> bool:
    """Whether results are items, the same in every order. To look for a NaN takes a fifteenth of the time that this saves, where
    items are many."""
    if plan.n * plan.rows < LOOKED_AT or not _picks(plan):
        return False
    return all(x.dtype == plan.accumulators[0] and not np.isnan(np.max(x, initial=0)) for x in (*xs, *starts))


@lru_cache(1024)
def _picks(plan: Plan) -> bool:
    """Whether results are items, unless one is NaN."""
    return plan.map is None and extreme(plan.op, plan.accumulators)
