"""Scans of groups whose items lie in any order: a pass over the items, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from upsweep import cores
from upsweep.cpu import threads
from upsweep.cpu.code import address, callable_at
from upsweep.cpu.codes import PARALLEL_ITEMS, codes_of, members
from upsweep.cpu.group_words import BLOCK, MOST, STATES, STRETCH, STRIP, Form
from upsweep.cpu.launch import with_map
from upsweep.cpu.objects import address_of
from upsweep.cpu.sets import Sets, by_row, sets_of
from upsweep.cpu.strips import known_steps
from upsweep.cpu.units import grouping
from upsweep.host.arrays import numbers
from upsweep.operator import OperatorError, identity_of
from upsweep.operators import extreme, free
from upsweep.plan import Plan


def run_groups(
    plan: Plan,
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray | None],
    initial: Sequence[np.ndarray] | None,
    keys: tuple[Any, ...],
) -> None:
    """Run a plan for each group by itself: see `upsweep.engine.Grouping.run_groups`."""
    plan = with_map(plan)
    codes, counts = codes_of(keys, plan.n, plan.threads)
    starts = initial or _identity(plan)
    in_order = _in_order(plan) or _chosen(plan, xs, starts)
    ins = [by_row(numbers(x), plan) for x in xs]
    outs = [by_row(numbers(y), plan) for y in ys if y is not None]
    starts = [np.asarray(s, d) for s, d in zip(starts, plan.accumulators)]
    sets = sets_of(ins, outs, starts)
    wanted = plan.threads or cores.wanted()
    shared = plan.rows < wanted and plan.n >= PARALLEL_ITEMS
    sharing = wanted if plan.n * plan.rows >= PARALLEL_ITEMS and not shared else 1
    across = _across(sets, ins, outs) if in_order and sets.near and sets.rows > 1 else ()
    strip = _strip(plan, sets, len(counts), None in across, sharing) if across else 1
    run = _loop(plan, Form(initial is not None, plan.exclusive, in_order, across))
    codes = codes[::-1] if plan.reverse else codes
    slots = np.arange(len(counts) + 1, dtype=np.int64) if in_order else _slots(counts)
    stretch = min(max(STRETCH, BLOCK * len(counts)), MOST)

    def share(task: tuple[tuple[int, int, int], tuple[int, int, int, int]]) -> None:
        (low, high, size), rows = task
        seen, places = np.empty(len(counts), np.int64), np.empty((2, len(counts)), np.int32)
        listed = np.empty(size if size < plan.n else 0, np.int64)
        if size < plan.n:
            members(codes, low, high, listed)
        together = 0 if in_order else min(size, stretch) + BLOCK * (high - low)
        states = slots[-1] * strip
        sizes = states, states, 0 if in_order else BLOCK * len(counts), together
        room = [np.empty(size, d) for size in sizes for d in plan.accumulators]
        words = [
            size, address_of(codes), codes.strides[0], address_of(seen), low, high, address_of(slots),
            *(address_of(each) for each in places), stretch, address_of(listed) if size < plan.n else 0,
            plan.n - 1 if plan.reverse else 0, address_of(sets.places), sets.places.shape[1], *rows, strip, *sets.steps,
            *(address_of(a) for a in room),
        ]  # fmt: skip
        told, result = np.array(words, np.int64), np.zeros(2, np.int64)
        at = address_of(result)
        if run(at, at + 8, address_of(told)):
            raise OperatorError(f"operator {plan.op} raised an exception")

    parts, rows = _parts(counts, plan.n, wanted if shared else 1), _shares(sets, strip, sharing)
    threads.each(share, [(part, some) for part in parts for some in rows], wanted)


def _across(sets: Sets, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> tuple[int | None, ...]:
    """The bytes from row to row of each input and output, if all are known to be one item or none."""
    last = 2 * (len(ins) + len(outs))
    steps = sets.steps[len(ins) : 2 * len(ins)] + sets.steps[last - len(outs) : last]
    known = known_steps(steps, [a.dtype for a in (*ins, *outs)])
    return (None,) * len(known) if None in known else known


def _strip(plan: Plan, sets: Sets, groups: int, apart: bool, sharing: int) -> int:
    """The rows that are scanned side by side: as many as have their states in a near cache, if their items lie without a gap."""
    state = sum(d.itemsize for d in plan.accumulators) * max(1, groups)
    most = STRIP if apart else max(STRIP, STATES // state // STRIP * STRIP)
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
def _in_order(plan: Plan) -> bool:
    """Whether items go one by one, whatever they are."""
    return plan.order == "sequential" or free(plan.op, plan.accumulators)


@lru_cache(1024)
def _loop(plan: Plan, form: Form) -> Callable[..., int]:
    """The compiled loop over the items of a row."""
    return callable_at(address(grouping(plan, form)), 1)


def _slots(counts: np.ndarray) -> np.ndarray:
    """Where the states of the groups lie, and where the last one ends. A state is the last prefix, and a place for each bit of
    the number of blocks."""
    slots = np.zeros(len(counts) + 1, np.int64)
    # `np.append` and `np.cumsum` take ten microseconds of nothing else.
    np.add.accumulate(np.frexp(counts // BLOCK)[1] + 1, out=slots[1:])
    return slots


def _chosen(plan: Plan, xs: Sequence[np.ndarray], starts: Sequence[Any]) -> bool:
    """Whether results are items, the same in every order. To look for a NaN takes a fifteenth of the time that this saves."""
    if not _picks(plan):
        return False
    return all(x.dtype == plan.accumulators[0] and not np.isnan(np.max(x, initial=0)) for x in (*xs, *starts))


@lru_cache(1024)
def _picks(plan: Plan) -> bool:
    """Whether results are items, unless one is NaN."""
    return plan.map is None and extreme(plan.op, plan.accumulators)


def _parts(counts: np.ndarray, n: int, most: int) -> list[tuple[int, int, int]]:
    """Groups in parts of about as many items: the first group of each part, the one behind its last, and the number of its
    items.
    """
    if most == 1:
        return [(0, len(counts), n)] if len(counts) else []
    behind = np.append(0, np.cumsum(counts))
    cuts = np.searchsorted(behind, behind[-1] * np.arange(most + 1) // most)
    return [(int(a), int(b), int(behind[b] - behind[a])) for a, b in pairwise(cuts) if a < b]
