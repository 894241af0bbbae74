"""Scans with a second result that is summed where a kernel has it: over the runs of items that lanes hold, or over the
neighbouring columns of a warp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from upsweep.gpu import driver, launch, shapes
from upsweep.gpu.layout import Strided, arrange
from upsweep.gpu.marks import Marks
from upsweep.gpu.view import View, c_strides
from upsweep.gpu.walk import Walk
from upsweep.plan import Plan

RUNS = 128, 64, 32, 16, 8, 4
"""Items of a run, the most that fit first: their sums are read once more. The last run of a row may be short."""

LINE = 32
"""Columns that the lanes of a warp hold."""


def run(
    plan: Plan, xs: Sequence[View], heads: View | Marks | None, across: bool, empty: Any
) -> tuple[Plan, View, View] | None:
    """Run a plan of two results: the plan that sums, the array of the first, and that of the sums of the second, one for each
    run or, `across`, for each LINE neighbours along the last axis. `empty` makes an array of a shape and a dtype. None, and
    nothing is run, where no kernel sums such rows so.
    """
    places = tuple([x.place for x in xs]), heads and heads.place
    summed = _summing(plan, *places, across, driver.architecture(xs[0].device))
    if summed is None:
        return None
    ys = [empty(shape, d) for shape, d in zip(_shapes(summed), summed.stores)]
    launch.run(summed, xs, ys, None, heads)
    return summed, ys[0], ys[1]


@lru_cache(1024)
def _summing(
    plan: Plan, places: tuple[Strided, ...], heads: Strided | None, across: bool, arch: int
) -> Plan | None:
    """The plan that sums, over the longest runs. Two passes are faster for f8, whose runs are short: .72 of a copy, so .57."""
    if plan.accumulators[0].itemsize > 4:
        return None
    if across:
        tried = [replace(plan, line=LINE)] if plan.axis < len(plan.shape) - 1 else []
    else:
        tried = [replace(plan, run=items) for items in RUNS if items <= plan.n]
    some = plan.rows and plan.n
    return next((summed for summed in tried if some and _fits(summed, places, heads, arch)), None)


def _fits(plan: Plan, places: tuple[Strided, ...], heads: Strided | None, arch: int) -> bool:
    stores = [(c_strides(shape, d.itemsize), 0) for shape, d in zip(_shapes(plan), plan.stores) if d]
    _, choice = launch.choose(plan, arrange(plan, places, stores, (), heads), shapes.chip(arch))
    shape = choice.shape
    if isinstance(choice, Walk):
        return plan.line == 1 and choice.run == plan.run
    if choice.kernel in ("rows", "tiles"):
        return shape.items == plan.run
    if choice.kernel != "columns" or shape.apart or shape.flat or shape.cross:
        return False
    return shape.items % plan.run == 0 and (plan.line == 1 or shape.lanes == LINE)


def _shapes(plan: Plan) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of the results, and of the sums."""
    sums = list(plan.shape)
    sums[plan.axis] = -(-plan.n // plan.run)
    sums[-1] = -(-sums[-1] // plan.line)
    return plan.shape, tuple(sums)
