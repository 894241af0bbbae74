"""Summed-area tables: the sum over any box from its corners."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep import api
from upsweep.apps import moving
from upsweep.apps.kinds import INTEGRAL, enter, summed
from upsweep.arguments import ShapeError
from upsweep.dtypes import kind_of
from upsweep.engine import DTypeError


class SummedAreaTable:
    """Sums and means over any boxes of an image or volume, in constant time for each.

    `S[i, j]` is the sum of `x[:i, :j]`; a box is `S[b, d] - S[a, d] - S[b, c] + S[a, c]`, and so on in more dimensions. The
    table is one scan along each axis.

    Args:
        x: array of 1 or more dimensions: booleans and integers are summed in 64 bits (modulo 2^64, so that a box that
            fits is right even where the whole does not), floats in float64, complex in complex128. A NaN or an infinity makes
            NaN of every box whose corners have it before them: fill such items first.

    Raises:
        ShapeError: x without dimensions.
        DTypeError: x of anything but numbers and booleans.

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
        table, wide, largest = x, summed(xp, x.dtype), _largest(xp, x.dtype)
        for axis, n in enumerate(x.shape):
            largest *= n
            # On the way, sums that fit are kept in half the bytes.
            dtype = xp.int32 if largest < 1 << 31 and axis < x.ndim - 1 else wide
            table = api.cumulative_sum(table, axis=axis, dtype=dtype, include_initial=True)
        self.shape = tuple(x.shape)
        self.table = give(table)

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
        return self._over(start, stop, lambda xp, sums, items: sums)

    def mean(self, start: Any, stop: Any) -> Any:
        """The means of the boxes, in float64 (complex128 for complex x); NaN where a box is empty. See `sum`."""

        def mean(xp: Any, sums: Any, items: Any) -> Any:
            items = xp.astype(items, xp.float64)
            items[items == 0] = np.nan
            return sums / items

        return self._over(start, stop, mean)

    def _over(self, start: Any, stop: Any, what: Callable[[Any, Any, Any], Any]) -> Any:
        """The answers for boxes, from their sums and how many items they have."""
        xp, (table, start, stop), give = enter(self.table, start, stop)
        if start.shape != stop.shape or start.shape[-1:] != (table.ndim,):
            raise ShapeError(
                f"start has shape {tuple(start.shape)} and stop {tuple(stop.shape)}: both need one shape, whose last "
                f"dimension is {table.ndim}, a place on each axis"
            )
        sums, items = moving.boxes(xp, table, *(_places(xp, corner, table.ndim) for corner in (start, stop)))
        if items.shape[0] and int(xp.min(items)) < 0:
            raise IndexError(
                f"a box lies outside the array: pass corners with 0 <= start <= stop <= {self.shape}"
            )
        return give(xp.reshape(what(xp, sums, items), start.shape[:-1]))


def _places(xp: Any, corners: Any, dims: int) -> Any:
    """A row for each box, a column for each dimension."""
    if math.prod(corners.shape) and kind_of(corners.dtype) not in INTEGRAL:
        raise DTypeError(f"the corners of boxes must be integers, got {corners.dtype}")
    return xp.astype(xp.reshape(corners, (-1, dims)), xp.int64, copy=False)


def _largest(xp: Any, dtype: Any) -> float:
    """How far from zero an item may be, of a dtype whose sums are int64."""
    if summed(xp, dtype) != xp.int64:
        return math.inf
    return 1 if kind_of(dtype) == "b" else max(xp.iinfo(dtype).max, -xp.iinfo(dtype).min)
