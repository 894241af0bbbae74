"""Reductions of long rows: blocks of the tree are reduced as rows of their own, then their sums, then the items behind
them.

A kernel for rows has nothing to wait for and reads faster than one that hands sums from tile to tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

from upsweep.gpu import driver, launch
from upsweep.gpu.demands import any_order, light
from upsweep.gpu.layout import Strided, arrange
from upsweep.gpu.params import stored
from upsweep.gpu.shapes import ROWS, chip, reductions
from upsweep.gpu.step import Step
from upsweep.gpu.view import View, c_strides
from upsweep.plan import Plan


class Parts(NamedTuple):
    """The reductions of all whole blocks, of their sums, and of the items behind, onto these."""

    blocks: Plan
    of_sums: Plan
    rest: Plan
    side_by_side: int = 1
    """Lines that count as one, with as many times the columns: where the bits are the same in any order."""


def parts(whole: Step, room: Callable[[int], View]) -> list[Step]:
    """The launches of a long reduction, or the scan itself. What one hands to another lies in a room of so many bytes."""
    plan, xs, ys, initial, _ = whole
    parts = divided(plan, xs)
    if parts is None:
        return [whole]
    blocks, of_sums, rest, lines = parts
    axis, behind = plan.axis, _behind(parts)
    made = _results(blocks, room)
    cut = [_cut(x, axis, behind, blocks, lines) for x in xs]
    first = Step(blocks, cut, made, None, None)
    sums = [s.over_all(of_sums.shape, s.dtype) for s in made]
    if rest.n == 0:
        return [first, Step(of_sums, sums, ys, initial, None)]
    starts = _results(of_sums, room)
    before = 0 if behind else plan.n - rest.n
    tails = [x.cut(axis, before, before + rest.n) for x in xs]
    return [first, Step(of_sums, sums, starts, initial, None), Step(rest, tails, ys, starts, None)]


def are_along(plan: Plan, xs: Sequence[View]) -> bool:
    """Whether the items of a row are neighbours in memory."""
    return all(abs(x.strides[plan.axis]) == x.dtype.itemsize for x in xs)


def divided(plan: Plan, xs: Sequence[View]) -> Parts | None:
    """The parts of a reduction of rows that are long, and lie along memory or side by side; else None."""
    if not plan.reduce or plan.order != "tree" or plan.finish is not None or plan.placed:
        return None
    if plan.n * prod(plan.row_shape) * _size(plan) < reductions.BLOCK[0]:
        return None
    if are_along(plan, xs):
        return _along(plan, all(_is_even(plan, x) for x in xs))
    if any(x.strides[-1] != x.dtype.itemsize for x in xs):
        return None
    return _across(plan, tuple(x.place for x in xs), driver.architecture(xs[0].device))


def _size(plan: Plan) -> int:
    """Bytes of an item."""
    return sum(d.itemsize for d in plan.loads)


def _is_even(plan: Plan, x: View) -> bool:
    """Whether rows, and the blocks of the tree that they are cut into, start at 16 bytes. In reverse the first block starts
    behind the last item.
    """
    rows = [stride for d, stride in enumerate(x.strides) if d != plan.axis]
    return all(place % 16 == 0 for place in (x.ptr + plan.reverse * plan.n * x.strides[plan.axis], *rows))


@lru_cache(4096)
def _along(plan: Plan, even: bool) -> Parts | None:
    """The parts of rows along memory; None for rows that are not long."""
    size = _size(plan)
    if size < reductions.WIDE and not even:
        return None
    if prod(plan.row_shape) >= ROWS and plan.n <= reductions.WHOLE_ROW:
        return None
    if not even:
        return _parts(plan, reductions.for_reduction(_words(plan), True, light(plan)))
    block = reductions.for_even_reduction(max(d.itemsize for d in plan.loads), size)
    return _parts(plan, block // 2 if block <= plan.n < 2 * block else block)


@lru_cache(4096)
def _across(plan: Plan, places: tuple[Strided, ...], arch: int) -> Parts | None:
    """The parts of rows side by side: of as many items as blocks of threads walk down, if these get the lines so, or of as many
    as a lane holds. None where blocks of threads walk down whole rows."""
    if _walking(plan, places, arch):
        return None
    lines, found = _lines(plan, places), None
    for block in reductions.WALKED:
        parts = _parts(plan, block, lines)
        walking = _walking(parts.blocks, [_place(x, plan.axis, parts) for x in places], arch) if parts else 0
        found = parts if walking else found
        if walking >= reductions.AT_ONCE:
            break
    if found:
        return found
    if (
        _size(plan) < reductions.WIDE
        or plan.shape[-1] * min(d.itemsize for d in plan.loads) < reductions.LINES
    ):
        return None
    return _parts(plan, reductions.for_reduction(_words(plan), False, light(plan)))


def _walking(plan: Plan, places: Sequence[Strided], arch: int) -> int:
    """How many blocks of threads walk down the axis of a reduction; 0 where another kernel takes it."""
    results = [(c_strides(plan.row_shape, d.itemsize), 0) for d in stored(plan)]
    starts = [((0,) * len(plan.row_shape), 0)] * (len(plan.accumulators) * plan.initial)
    _, choice = launch.choose(plan, arrange(plan, places, results, starts, None), chip(arch))
    return choice.grid(lambda: 0) if choice.kernel == "crosswise" else 0


def _lines(plan: Plan, places: Sequence[Strided]) -> int:
    """Lines that begin at 16 bytes together, and are wide enough to be walked, where items may be taken in any order."""
    columns = prod(plan.shape[plan.axis + 1 :])
    (size, *others), (strides, _) = {d.itemsize for d in plan.loads}, places[0]
    line = columns * size
    touch = c_strides(plan.shape[plan.axis :], size) == strides[plan.axis :]
    alike = not others and all(p[0] == strides for p in places)
    if not (touch and alike and any_order(plan)) or (line % 16 == 0 and line >= reductions.LINE):
        return 1
    even = 16 // gcd(16, line)
    return even * -(-reductions.LINE // (even * line))


def _words(plan: Plan) -> int:
    return sum(-(-d.itemsize // 4) for d in plan.accumulators)


def _parts(plan: Plan, block: int, lines: int = 1) -> Parts | None:
    """The parts of rows in blocks of so many items, or lines; None where there are fewer than two."""
    axis, sums = plan.axis, tuple(plan.accumulators)
    count = plan.n // (block * lines)
    if count < 2:
        return None
    before, after = plan.shape[:axis], plan.shape[axis + 1 :]
    shape = (*before, count, block, *([lines] if lines > 1 else []), *after)
    blocks = replace(plan, shape=shape, axis=axis + 1, stores=sums, initial=False)
    whole = replace(plan, loads=sums, shape=(*before, count * lines, *after), map=None)
    rest = replace(plan, shape=(*before, plan.n - count * block * lines, *after), initial=True)
    return Parts(blocks, whole if rest.n == 0 else replace(whole, stores=sums), rest, lines)


def _results(plan: Plan, room: Callable[[int], View]) -> list[View]:
    """Rooms for the results of a plan that stores its accumulators."""
    shape = plan.row_shape
    return [room(prod(shape) * d.itemsize).over_all(shape, d) for d in plan.accumulators]


def _cut(x: View, axis: int, skip: int, blocks: Plan, lines: int) -> View:
    """The blocks along an axis, as rows of an array with more axes."""
    strides = _strides(x.strides, axis, blocks, lines)
    return x.over(x.ptr + skip * x.strides[axis], blocks.shape, strides, x.dtype)


def _place(x: Strided, axis: int, parts: Parts) -> Strided:
    """Where the blocks of an array lie."""
    strides, phase = x
    return _strides(strides, axis, parts.blocks, parts.side_by_side), (
        phase + _behind(parts) * strides[axis]
    ) % 16


def _behind(parts: Parts) -> int:
    """The items before the blocks, in memory: in reverse those behind them. Where any order will do, blocks begin at 16 bytes."""
    return parts.rest.n if parts.rest.reverse and parts.side_by_side == 1 else 0


def _strides(strides: Sequence[int], axis: int, blocks: Plan, lines: int) -> tuple[int, ...]:
    along = strides[axis]
    inner = (lines * along, along) if lines > 1 else (along,)
    return (*strides[:axis], along * lines * blocks.n, *inner, *strides[axis + 1 :])
