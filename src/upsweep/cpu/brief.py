"""From a plan of rows of two to four items, which lie one behind the other, to the words of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from upsweep.cpu import tuning
from upsweep.cpu.code import address, callable_at
from upsweep.cpu.demands import wanted_threads, worth_code
from upsweep.cpu.launch import Launch
from upsweep.cpu.rows import Strides, costly, item_size, plain
from upsweep.cpu.units import brief
from upsweep.cpu.words import LINE, Brief
from upsweep.plan import Plan


@lru_cache(4096)
def is_brief(plan: Plan, strides: tuple[Strides, ...]) -> bool:
    """Whether rows are so short that one of them is a few lines of code, of which LLVM makes vector code over the rows."""
    if not 2 <= plan.n <= tuning.BRIEF or not plain(plan) or plan.segmented or plan.exclusive:
        return False
    outs = (*plan.shape[: plan.axis], 1, *plan.shape[plan.axis + 1 :]) if plan.reduce else plan.shape
    if costly(plan) and plan.n > 2:
        return False
    last = prod(plan.shape[plan.axis + 1 :]) == 1
    dtypes = [*plan.loads, *[d for d in plan.stores if d is not None]]
    shapes = [plan.shape] * len(plan.loads) + [outs] * (len(dtypes) - len(plan.loads))
    known = None not in _starts(plan, strides)
    return last and worth_code(plan) and known and all(map(_dense, shapes, strides, dtypes))


def _starts(plan: Plan, strides: tuple[Strides, ...]) -> tuple[int | None, ...]:
    """The bytes from the start of a row to the next one, for each component: 0, an item, or None where starts lie otherwise."""
    if not plan.initial:
        return ()
    rows = plan.row_shape

    def step(start: Strides, dtype: np.dtype) -> int | None:
        own = start[: plan.axis] + start[plan.axis + 1 :]
        if all(size == 1 or not stride for size, stride in zip(rows, own)):
            return 0
        return dtype.itemsize if _dense(rows, own, dtype) else None

    return tuple(map(step, strides[-len(plan.accumulators) :], plan.accumulators))


def _dense(shape: Sequence[int], strides: Strides, dtype: np.dtype) -> bool:
    """Whether items lie one behind the other, in C's order."""
    behind = [prod(shape[d + 1 :]) * dtype.itemsize for d in range(len(shape))]
    return all(size == 1 or step == wanted for size, step, wanted in zip(shape, strides, behind))


def launch_of(plan: Plan, arrays: Sequence[np.ndarray]) -> Launch:
    """The launch of a plan on arrays of these strides."""
    return _launch(plan, tuple([a.strides for a in arrays]))


@lru_cache(4096)
def _launch(plan: Plan, strides: tuple[Strides, ...]) -> Launch:
    code, threads = address(brief(plan, _starts(plan, strides))), wanted_threads(plan, strides)
    read = sum(d.itemsize for d in plan.loads)
    share = max(1, min(tuning.TICKET_BYTES // (plan.n * max(read, item_size(plan))), plan.rows // threads))
    words = np.zeros(len(Brief) + len(strides), np.int64)
    words[Brief.ROWS], words[Brief.SHARE] = plan.rows, share
    return Launch(
        callable_at(code, 2),
        code,
        words,
        slice(len(Brief), len(words), 1),
        min(threads, -(-plan.rows // share)),
        LINE,
        0,
    )
