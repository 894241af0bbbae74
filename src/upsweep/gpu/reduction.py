"""Reductions of long rows: blocks of the tree are reduced as rows of their own, then their sums, then the items behind
them.

A kernel for rows has nothing to wait for and reads faster than one that hands sums from tile to tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

from upsweep.gpu.demands import light
from upsweep.gpu.shapes import ROWS, reductions
from upsweep.gpu.step import Step
from upsweep.gpu.view import View
from upsweep.plan import Plan


def parts(whole: Step, room: Callable[[int], View]) -> list[Step]:
    """The launches of a long reduction, or the scan itself. What one hands to another lies in a room of so many bytes."""
    plan, xs, ys, initial, _ = whole
    parts = divided(plan, xs)
    if parts is None:
        return [whole]
    blocks, of_sums, rest = parts
    block, axis = blocks.shape[blocks.axis], plan.axis
    behind = rest.n if plan.reverse else 0
    sums = _results(blocks, room)
    cut = [_cut(x, axis, behind, block, blocks.shape) for x in xs]
    first = Step(blocks, cut, sums, None, None)
    if rest.n == 0:
        return [first, Step(of_sums, sums, ys, initial, None)]
    starts = _results(of_sums, room)
    before = 0 if plan.reverse else plan.n - rest.n
    tails = [x.cut(axis, before, before + rest.n) for x in xs]
    return [first, Step(of_sums, sums, starts, initial, None), Step(rest, tails, ys, starts, None)]


def are_along(plan: Plan, xs: Sequence[View]) -> bool:
    """Whether the items of a row are neighbours in memory."""
    return all(abs(x.strides[plan.axis]) == x.dtype.itemsize for x in xs)


def divided(plan: Plan, xs: Sequence[View]) -> tuple[Plan, Plan, Plan] | None:
    """The parts of a reduction of rows that are long, and lie along memory or side by side; else None."""
    along = are_along(plan, xs)
    if not plan.reduce or not (along or _side_by_side(xs)):
        return None
    return _parts(plan, along, along and all(_is_even(plan, x) for x in xs))


def _is_even(plan: Plan, x: View) -> bool:
    """Whether rows, and the blocks of the tree that they are cut into, start at 16 bytes. In reverse the first block starts
    behind the last item.
    """
    rows = [stride for d, stride in enumerate(x.strides) if d != plan.axis]
    return all(place % 16 == 0 for place in (x.ptr + plan.reverse * plan.n * x.strides[plan.axis], *rows))


def _side_by_side(xs: Sequence[View]) -> bool:
    """Whether whole lines of memory belong to rows side by side."""
    return all(
        x.strides[-1] == x.dtype.itemsize and x.shape[-1] * x.dtype.itemsize >= reductions.LINES for x in xs
    )


@lru_cache(4096)
def _parts(plan: Plan, along: bool, even: bool) -> tuple[Plan, Plan, Plan] | None:
    """The reductions of all whole blocks, of their sums, and of the items behind, onto these; None for rows that are not long."""
    rows = prod(plan.row_shape)
    size = sum(d.itemsize for d in plan.loads)
    if plan.order != "tree" or plan.finish is not None or plan.placed:
        return None
    if size < reductions.WIDE and not even:
        return None
    if plan.n * rows * size < reductions.BLOCK[0] or (
        along and rows >= ROWS and plan.n <= reductions.WHOLE_ROW
    ):
        return None
    words = sum(-(-d.itemsize // 4) for d in plan.accumulators)
    axis, sums = plan.axis, tuple(plan.accumulators)
    if even:
        block = reductions.for_even_reduction(max(d.itemsize for d in plan.loads), size)
    else:
        block = reductions.for_reduction(words, along, light(plan))
    if even and block <= plan.n < 2 * block:
        block //= 2
    count = plan.n // block
    if count < 2:
        return None
    before, after = plan.shape[:axis], plan.shape[axis + 1 :]
    shape = (*before, count, block, *after)
    blocks = replace(plan, shape=shape, axis=axis + 1, stores=sums, initial=False)
    whole = replace(plan, loads=sums, shape=(*before, count, *after), map=None)
    rest = replace(plan, shape=(*before, plan.n - count * block, *after), initial=True)
    return blocks, whole if rest.n == 0 else replace(whole, stores=sums), rest


def _results(plan: Plan, room: Callable[[int], View]) -> list[View]:
    """Rooms for the results of a plan that stores its accumulators."""
    shape = plan.row_shape
    return [room(prod(shape) * d.itemsize).over_all(shape, d) for d in plan.accumulators]


def _cut(x: View, axis: int, skip: int, block: int, shape: tuple[int, ...]) -> View:
    """The blocks along an axis, as rows of an array with one axis more."""
    along = x.strides[axis]
    strides = (*x.strides[:axis], along * block, *x.strides[axis:])
    return x.over(x.ptr + skip * along, shape, strides, x.dtype)
