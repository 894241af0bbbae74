"""Summed-area tables: the sum over any box from its corners."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from itertools import compress, product
from operator import add, mul
from typing import Any

import numpy as np

from upsweep import api
from upsweep.apps.kinds import enter
from upsweep.arguments import ShapeError
from upsweep.engine import DTypeError


class SummedAreaTable:
    """Sums and means over any boxes of an image or volume, in constant time for each.

    `S[i, j]` is the sum of `x[:i, :j]`; a box is `S[b, d] - S[a, d] - S[b, c] + S[a, c]`, and so on in more dimensions. The
    table is one scan along each axis.

    Args:
        x: array of 1 or more dimensions: booleans and integers are summed in 64 bits (modulo 2^64, so that a box that
            fits is right even where the whole does not), floats in float64, complex in complex128.

    >>> from upsweep import apps
    >>> table = apps.SummedAreaTable(np.arange(12).reshape(3, 4))
    >>> int(table.sum((0, 1), (2, 3))), float(table.mean((0, 1), (2, 3)))
    (14, 3.5)

    Source: Crow, "Summed-area tables for texture mapping" (1984); KAUST CS380, lecture 24.
    """

    def __init__(self, x: Any) -> None:
        xp, (x,), give = enter(x)
        if x.ndim == 0:
            raise ShapeError("a 0-dimensional array has no boxes; pass x.reshape(1)")
        table, wide, largest = x, _wide(xp, x.dtype), _largest(xp, x.dtype)
        for axis, n in enumerate(x.shape):
            largest *= n
            # On the way, sums that fit are kept in half the bytes.
            dtype = xp.int32 if largest < 1 << 31 and axis < x.ndim - 1 else wide
            table = api.cumulative_sum(table, axis=axis, dtype=dtype, include_initial=True)
        self.shape = tuple(x.shape)
        self.table = give(table)
        self._shape = give(xp.asarray(np.array(self.shape), device=x.device))

    def sum(self, start: Any, stop: Any) -> Any:
        """The sums of the boxes `x[start[0]:stop[0], start[1]:stop[1], ...]`.

        Args:
            start, stop: integers of shape (..., dimensions of x), one box for each leading index; stop is not part of the
                box, and a box may be empty.

        Returns:
            Sums of shape (...), in the table's dtype.

        Raises:
            IndexError: a box that is not within `0 <= start <= stop <= shape`. ShapeError: not one place a dimension.
            DTypeError: corners that are no integers.
        """
        return self._over(start, stop, lambda xp, sums, sides: sums)

    def mean(self, start: Any, stop: Any) -> Any:
        """The means of the boxes, in float64 (complex128 for complex x); NaN where a box is empty. See `sum`."""

        def mean(xp: Any, sums: Any, sides: list[Any]) -> Any:
            items = xp.astype(reduce(mul, sides), xp.float64)
            items[items == 0] = np.nan
            return (
                sums if xp.isdtype(sums.dtype, "complex floating") else xp.astype(sums, xp.float64)
            ) / items

        return self._over(start, stop, mean)

    def _over(self, start: Any, stop: Any, what: Callable[[Any, Any, list[Any]], Any]) -> Any:
        """The answers for some boxes at a time, from the boxes' sums and sides."""
        xp, (table, shape, start, stop), give = enter(self.table, self._shape, start, stop)
        if start.shape != stop.shape or start.shape[-1:] != (table.ndim,):
            raise ShapeError(
                f"corners of shapes {tuple(start.shape)} and {tuple(stop.shape)} need {table.ndim} places each"
            )
        starts, stops = (_places(xp, corner, table.ndim) for corner in (start, stop))
        results, step = [], _BOXES if xp is np else _BOXES_OF_A_GPU
        for lo in range(0, max(1, starts.shape[0]), step):
            a, b = starts[lo : lo + step], stops[lo : lo + step]
            if not bool(xp.all((a >= 0) & (a <= b) & (b <= shape))):
                raise IndexError(f"boxes must lie within 0 <= start <= stop <= {self.shape}")
            corner, sides = _columns(a), _columns(b - a)
            results.append(what(xp, _sums(xp, table, corner, sides), sides))
        return give(xp.reshape(xp.concat(results) if len(results) > 1 else results[0], start.shape[:-1]))


_BOXES = 1 << 16
"""Boxes at once: the intermediate results stay in the cache. The means of 2^22 boxes: 2^13 106 ms, 2^16 81, 2^19 108."""
_BOXES_OF_A_GPU = 1 << 24
"""Boxes at once on a GPU, where each round waits for the device: 2^16 at once took 33 times as long as PyTorch took for 2^22
boxes.
"""


def _places(xp: Any, corners: Any, dims: int) -> Any:
    """A row for each box, a column for each dimension."""
    if math.prod(corners.shape) and not xp.isdtype(corners.dtype, "integral"):
        raise DTypeError(f"the corners of boxes are integers, got {corners.dtype}")
    return xp.astype(xp.reshape(corners, (-1, dims)), xp.int64, copy=False)


def _columns(x: Any) -> list[Any]:
    return [x[:, d] for d in range(x.shape[1])]


def _scaled(columns: list[Any], steps: list[int]) -> list[Any]:
    return [x if step == 1 else x * step for x, step in zip(columns, steps)]


def _sums(xp: Any, table: Any, starts: list[Any], sides: list[Any]) -> Any:
    flat, total = xp.reshape(table, (-1,)), xp.zeros(starts[0].shape, dtype=table.dtype, device=table.device)
    steps = [math.prod(table.shape[d + 1 :]) for d in range(table.ndim)]
    first, *across = reduce(add, _scaled(starts, steps)), *_scaled(sides, steps)
    for corner in product((0, 1), repeat=table.ndim):
        part = flat[reduce(add, compress(across, corner), first)]
        if (table.ndim - sum(corner)) % 2:
            total -= part
        else:
            total += part
    return total


def _largest(xp: Any, dtype: Any) -> float:
    """How far from zero an item may be, of a dtype whose sums are int64."""
    if _wide(xp, dtype) != xp.int64:
        return math.inf
    return 1 if xp.isdtype(dtype, "bool") else max(xp.iinfo(dtype).max, -xp.iinfo(dtype).min)


def _wide(xp: Any, dtype: Any) -> Any:
    for kinds, wide in (
        (("bool", "integral"), xp.uint64 if dtype == xp.uint64 else xp.int64),
        ("real floating", xp.float64),
        ("complex floating", xp.complex128),
    ):
        if xp.isdtype(dtype, kinds):
            return wide
    raise DTypeError(f"{dtype} cannot be summed over boxes; numbers and booleans can")
