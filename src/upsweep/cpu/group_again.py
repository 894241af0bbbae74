"""Launches of small runs by groups, for later runs that are alike: the keys are numbered anew, and nothing else is."""

from __future__ import annotations

import numpy as np

from upsweep.cpu import groups
from upsweep.cpu.code import address, callable_at
from upsweep.cpu.group_runs import Run, places_of
from upsweep.cpu.group_words import FEW, Entry, Form, Way, Word
from upsweep.cpu.groups import across_of, arranged, chosen, goes_in_order, starts_of, strip_of
from upsweep.cpu.launch import Launch, with_map
from upsweep.cpu.units import group_entry, grouping
from upsweep.engine import Operands
from upsweep.plan import Plan


def is_small(plan: Plan) -> bool:
    """Whether one thread runs a plan in scratch memory, however many groups there are."""
    return plan.n <= FEW and plan.n * plan.rows < groups.PARALLEL_ITEMS and not plan.reduce


def chooses(plan: Plan, views: Operands) -> bool:
    """Whether items go one by one for what they are, so that others may not."""
    return not goes_in_order(plan) and chosen(plan, views.inputs, views.starts)


def items_of_codes(n: int) -> int:
    """The int32 of n codes and of the table behind them, half of which is free."""
    return n + (1 << (2 * n - 1).bit_length())


def launch_of(plan: Plan, views: Operands, one_by_one: bool) -> tuple[Launch, list[np.ndarray]]:
    """The launch of a run with a group for each item, which has memory for every other run, and its arrays: inputs, codes of
    groups, outputs, starts."""
    plan = with_map(plan)
    starts = starts_of(plan, views.starts)
    ins, outs, sets = arranged(plan, views.inputs, views.outputs, starts)
    in_order = one_by_one or goes_in_order(plan)
    across = across_of(plan, sets, ins, outs, in_order, plan.n, 1)
    strip = strip_of(plan, sets, plan.n, None in across, in_order, 1) if across else 1
    way = Way.IN_TURN if in_order or across else Way.BROUGHT
    form = Form(plan.initial, plan.exclusive, in_order, way, across)
    codes = views.heads[0][:: -1 if plan.reverse else 1]
    run = Run(plan, form, codes, plan.n, sets, 1, strip)
    at, scratch = places_of(run.sizes())
    words = run.words((0, sets.places.shape[1], 0, sets.rows), at)
    places = sets.places.copy()
    places[:, 1:] -= places[:, :1]
    before, count = len(Entry) + places.size, places.shape[1]
    head = np.zeros(len(Entry), np.int64)
    for word, value in {
        Entry.RUN: address(grouping(plan, form)), Entry.WORDS: 8 * before, Entry.MADE: before + len(words),
        Entry.ARRAYS: len(places), Entry.SETS: count, Entry.ROOMS: len(words) - 5 * len(plan.accumulators),
        Entry.END: len(words),
    }.items():  # fmt: skip
        head[word] = value
    firsts = [len(Entry) + count * k for k in range(len(places))]
    addresses = np.array([*firsts[: len(ins)], before + Word.CODES, *firsts[len(ins) :]])
    code = address(group_entry())
    launch = Launch(
        callable_at(code, 2),
        code,
        np.concatenate([head, places.ravel(), words]),
        addresses,
        1,
        scratch + 16,
        scratch,
    )
    return launch, [*ins, codes, *outs, *starts]
