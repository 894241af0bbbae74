"""How the rows of an array lie: along memory, side by side, a few abreast, or folded; and the bytes of their items."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from upsweep.cpu import tuning
from upsweep.cpu.words import LINE, ROW
from upsweep.operators import free, variant_of
from upsweep.plan import Plan

Strides = tuple[int, ...]


class Rows(NamedTuple):
    """How the rows lie. Dimensions that lie as one count as one, the innermost of them."""

    inner: int | None
    """The dimension whose rows are scanned side by side; None where rows are scanned one by one."""
    side_by_side: int
    """The rows that are scanned side by side."""
    abreast: bool
    """Whether these rows are few columns, of which several blocks are swept at once."""
    turned: bool
    """Whether the items of such a row lie side by side, and its neighbours do not."""
    crossed: bool
    """Whether results lie the other way."""
    near: int
    """The rows with items in the same cache lines, where rows are scanned one by one."""
    folded: int
    """The neighbours along `beside` that stand beside each other where rows of `inner` do. These are few, and so are their items;
    0 where none are folded.
    """
    beside: int | None
    outer: tuple[int, ...]
    """The other dimensions, of which each has its size in `sizes`."""
    sizes: tuple[int, ...]


@lru_cache(4096)
def rows_of(plan: Plan, strides: tuple[Strides, ...]) -> Rows:
    """Rows are scanned one by one where the axis runs along memory. Otherwise they are scanned side by side along the dimension
    that runs along memory, unless this dimension is shorter than a cache line. Short rows are scanned side by side too, and so
    are all rows of a scan in order and rows whose results lie the other way. Few short columns that lie one behind the other are
    folded: they are scanned side by side with the columns behind them.
    """
    reads = strides[: len(plan.loads)]
    # Inputs whose rows are all the same do not tell which rows are neighbours.
    steps = [
        max(abs(array[d]) for array in reads) or max(abs(array[d]) for array in strides)
        for d in range(len(plan.shape))
    ]
    if plan.n == 1:
        # Rows of one item are columns, whatever stride their axis has.
        steps[plan.axis] = max(steps) + 1
    outer: list[int] = []
    sizes: list[int] = []
    others = [d for d in range(len(plan.shape)) if d != plan.axis and plan.shape[d] > 1]
    for d in sorted(others, key=lambda d: -steps[d]):
        if outer and all(a[outer[-1]] == a[d] * plan.shape[d] for a in strides):
            outer[-1], sizes[-1] = d, sizes[-1] * plan.shape[d]
        else:
            outer.append(d)
            sizes.append(plan.shape[d])
    inner, side_by_side, abreast, turned, crossed, near, beside = None, 1, False, False, False, 1, None
    folded = folded_of(plan, steps, outer, sizes)
    if folded > 1:
        beside = outer.pop()
        sizes.pop()
        _last(outer, sizes, _folded_along(sizes) or 0)
    if folded:
        inner, side_by_side = outer.pop(), folded * sizes.pop()
    elif outer:
        last, rows = outer[-1], sizes[-1]
        writes = strides[len(plan.loads) + plan.segmented :][: sum(d is not None for d in plan.stores)]
        crossed = rows >= LINE and not plan.reduce and any(abs(a[last]) < abs(a[plan.axis]) for a in writes)
        if steps[last] >= steps[plan.axis]:
            short = plan.n < shortest_along(plan, strides, rows) or plan.order == "sequential"
            if short and rows < tuning.FEW_ROWS:
                # Rows whose items lie side by side may themselves lie apart.
                _last(outer, sizes, sizes.index(max(sizes)))
            turned = (short and sizes[-1] >= 8) or crossed
        else:
            line = line_size(plan, rows)
            abreast = line < tuning.ABREAST_LINE and goes_abreast(plan, rows)
            near = rows if line <= LINE and rows * steps[last] < LINE and not abreast else 1
        if turned or (near == 1 and steps[last] < steps[plan.axis]):
            inner, side_by_side = outer.pop(), sizes.pop()
    return Rows(
        inner, side_by_side, abreast, turned, crossed, near, folded, beside, tuple(outer), tuple(sizes)
    )


def _last(outer: list[int], sizes: list[int], at: int) -> None:
    """Bring a dimension behind the others."""
    outer.append(outer.pop(at))
    sizes.append(sizes.pop(at))


def shortest_along(plan: Plan, strides: Sequence[Strides], rows: int) -> int:
    """The items of a row from which on it is scanned by itself, not side by side with its neighbours."""
    if plan.map is not None or plan.finish is not None:
        return tuning.SHORT if plan.segmented else tuning.SHORT_CALLED
    reads, writes = lines_of(plan)
    dense = as_stored(plan) and side_by_side(strides, (*reads, *writes), plan.axis, True)
    one = len(plan.accumulators) == 1 and not free(plan.op, plan.accumulators)
    return tuning.SHORT_DENSE if dense and one and rows >= tuning.FEW_ROWS else tuning.SHORT


def folded_of(plan: Plan, steps: Sequence[int], outer: Sequence[int], sizes: Sequence[int]) -> int:
    """The columns that are folded, where they are few and short, and many such stand one behind the other in memory; 1 where
    short rows do, of which a map or a finish would take one at a time; else 0.
    """
    if not outer:
        return 0
    row = plan.n * max(item_size(plan), 4)
    if steps[outer[-1]] >= steps[plan.axis]:
        called = plan.map is not None or plan.finish is not None
        short = plan.n < tuning.SHORT_CALLED and row <= tuning.FOLDED_CALLED
        return int(called and sizes[-1] >= tuning.FOLDED_ROWS and short)
    if _folded_along(sizes[:-1]) is None or row * sizes[-1] > tuning.FOLDED_BYTES:
        return 0
    few = sizes[-1] * max(d.itemsize for d in plan.accumulators) <= LINE
    shortest = plan.n < ROW and not free(plan.op, plan.accumulators)
    return sizes[-1] if few or shortest else 0


def _folded_along(sizes: Sequence[int]) -> int | None:
    """The dimension along which columns are folded, of those outside theirs: the nearest, or the longest if that is twice as long
    as need be; None where all are shorter.
    """
    if not sizes or max(sizes) < tuning.FOLDED_ROWS:
        return None
    if sizes[-1] >= tuning.FOLDED_ROWS:
        return len(sizes) - 1
    return sizes.index(max(sizes)) if max(sizes) >= 2 * tuning.FOLDED_ROWS else None


def goes_abreast(plan: Plan, columns: int) -> bool:
    """Whether few columns are swept together, where they lie or brought side by side."""
    in_tree = plan.order == "tree" or free(plan.op, plan.accumulators)
    if not in_tree or counts_index(plan) or (plan.segmented and plan.exclusive):
        return False
    pays = line_size(plan, columns) >= tuning.FLAGGED_BYTES or not plan.segmented
    filled = columns / lanes_of(plan, False) >= tuning.COSTLY_FILLED or not costly(plan)
    return pays and filled


def lanes_of(plan: Plan, along: bool) -> int:
    """Runs that are swept at once, or columns: at least four, as of complex128 two cost 1.3 times as much."""
    widest = max(d.itemsize for d in plan.accumulators)
    return max(4, (tuning.LANES if along and not costly(plan) else tuning.COSTLY_LANES) // widest)


def counts_index(plan: Plan) -> bool:
    """Whether the map or the finish takes the index of an item."""
    loads = len(plan.loads)
    mapped = plan.map is not None and plan.map.arity > loads
    return mapped or (plan.finish is not None and plan.finish.arity > 1 + loads)


def lanes_abreast(plan: Plan, columns: int) -> int:
    """The lanes of few columns: a narrow vector, if all columns fit into it."""
    narrow = max(4, tuning.ABREAST_LANES // max(d.itemsize for d in plan.accumulators))
    return narrow if columns <= narrow else lanes_of(plan, False)


def backward(plan: Plan, strides: Sequence[Strides]) -> bool:
    """Whether the items of rows stand from the last to the first in all arrays."""
    reads, writes = lines_of(plan)
    return all(array[plan.axis] < 0 for array, _ in zip(strides, (*reads, *writes)))


def side_by_side(
    strides: Sequence[Strides], dtypes: Sequence[np.dtype], dimension: int, turned: bool
) -> bool:
    """Whether neighbours in a dimension of all arrays lie without a gap; where rows lie `turned`, backward in all will do."""
    ways = {array[dimension] / d.itemsize for array, d in zip(strides, dtypes)}
    return ways == {1} or (turned and ways == {-1})


def item_size(plan: Plan) -> int:
    """Bytes of one item of block sums, over all components and the flag."""
    return sum(d.itemsize for d in plan.accumulators) + plan.segmented


def line_size(plan: Plan, columns: int) -> int:
    """Bytes of a line of so many columns, of the widest component."""
    return columns * max(d.itemsize for d in plan.accumulators)


def costly(plan: Plan) -> bool:
    """Whether the operator is known to take many instructions."""
    known = variant_of(plan.op, plan.accumulators)
    return known is not None and known[0].costly


def as_stored(plan: Plan) -> bool:
    """Whether nothing lies between arrays and operator."""
    return plan.loads == plan.accumulators and {*plan.stores} <= {*plan.loads, None} and plain(plan)


def plain(plan: Plan) -> bool:
    """Whether no more than a conversion lies between arrays and operator."""
    return plan.map is plan.finish is None and not (plan.segmented and plan.exclusive)


def lines_of(plan: Plan) -> tuple[list[np.dtype], list[np.dtype]]:
    """The dtypes of the arrays that are read and of those that are written line by line."""
    writes = [] if plan.reduce else [d for d in plan.stores if d is not None]
    return [*plan.loads, *[np.dtype(np.uint8)] * plan.segmented], writes
