"""Rows that read the same items, as those of a broadcast array do, are scanned once, and results are copied to the others."""

from __future__ import annotations

from math import prod

from upsweep.gpu.brought import copied, part_of
from upsweep.gpu.marks import Marks
from upsweep.gpu.reduction import are_along
from upsweep.gpu.shapes.bringing import ALIKE, ALIKE_ALONG
from upsweep.gpu.step import Step
from upsweep.gpu.view import View


def once(step: Step) -> tuple[Step, list[Step]]:
    """The scan of one of the rows that are alike, and the copies behind it; or the scan itself, and none."""
    plan = step.plan
    d = next((d for d in range(len(plan.shape)) if d != plan.axis and _are_alike(step, d)), None)
    along = are_along(plan, step.xs)
    least = ALIKE_ALONG if along else ALIKE
    if d is None or prod(plan.shape) * max(x.dtype.itemsize for x in step.xs) < least:
        return step, []
    # The copy of the second of two rows reads and writes as much as its scan.
    if along and plan.shape[d] == 2 and not plan.reduce:
        return step, []
    at, first = d - (plan.reduce and d > plan.axis), part_of(step, d, range(1))
    copies = [_to_others(y, at) for y in step.ys if y is not None]
    scanned, before = once(first)
    return scanned, [*before, *copies]


def _are_alike(step: Step, d: int) -> bool:
    plan, heads = step.plan, step.heads
    row = d - (d > plan.axis)
    shared = heads is None or isinstance(heads, Marks) or len(heads.strides) == 1 or heads.strides[d] == 0
    starts = all(not v.strides or v.strides[row] == 0 for v in step.initial or ())
    return plan.shape[d] > 1 and shared and starts and all(x.strides[d] == 0 for x in step.xs)


def _to_others(y: View, d: int) -> Step:
    """The copy of the first of an array's parts along a dimension to all others."""
    others = y.cut(d, 1, y.shape[d])
    strides = (*y.strides[:d], 0, *y.strides[d + 1 :])
    return copied(y.over(y.ptr, others.shape, strides, y.dtype), others)
