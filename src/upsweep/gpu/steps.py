"""The launches of a run, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import prod

from upsweep.gpu import alike, brought, launch, reduction
from upsweep.gpu.arrays import scratch
from upsweep.gpu.demands import any_order
from upsweep.gpu.marks import Marks
from upsweep.gpu.shapes.walks import SWEPT, WALKED
from upsweep.gpu.step import Step
from upsweep.gpu.view import View
from upsweep.plan import Plan


def run(
    plan: Plan,
    xs: Sequence[View],
    ys: Sequence[View | None],
    initial: Sequence[View] | None,
    heads: View | Marks | None,
) -> None:
    """Run a plan: see `upsweep.engine.Engine`."""
    for step in steps(Step(plan, xs, ys, initial, heads), partial(scratch, xs[0])):
        launch.run(*step)


def steps(whole: Step, room: Callable[[int], View]) -> list[Step]:
    """What one launch hands to another lies in a room of so many bytes."""
    if whole.plan.sums:
        return [whole]
    if _sweeps(whole.plan, whole.xs):
        whole = whole._replace(plan=_swept(whole.plan))
    whole, copies = alike.once(whole)
    around = brought.around(whole, room)
    return [*(part for step in around for part in reduction.parts(step, room)), *copies]


def _sweeps(plan: Plan, xs: Sequence[View]) -> bool:
    """Whether a scan in order is swept along the tree, which has its bits: rows along memory, and columns that are few or lie in
    several batches."""
    if plan.order == "tree" or not any_order(plan):
        return False
    rows = prod(plan.row_shape)
    return rows < WALKED or _in_batches(plan, xs, rows) or reduction.are_along(plan, xs)


def _in_batches(plan: Plan, xs: Sequence[View], rows: int) -> bool:
    """Whether columns of one array lie in batches of long lines."""
    columns, (least, most) = prod(plan.shape[plan.axis + 1 :]), SWEPT
    long = least <= columns * xs[0].dtype.itemsize and columns < min(most, rows)
    return long and len(xs) == 1 and not (plan.segmented or plan.reduce)


# Launches are known by their plan, so that it must be the same one in each call.
@lru_cache(4096)
def _swept(plan: Plan) -> Plan:
    return replace(plan, order="tree")
