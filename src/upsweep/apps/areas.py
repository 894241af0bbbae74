"""Summed-area tables: the sum over any box from its corners."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from array_api_compat import device

from upsweep import api
from upsweep.api import ShapeError
from upsweep.apps.kinds import enter
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
        table = xp.astype(x, _wide(xp, x.dtype), copy=False)
        for axis in range(x.ndim):
            table = api.cumulative_sum(table, axis=axis, include_initial=True)
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
            IndexError: a box that is not within `0 <= start <= stop <= shape`. ShapeError: not one corner a dimension.
        """
        xp, (table, start, stop), give = enter(self.table, start, stop)
        self._check(xp, start, stop)
        shape, start, stop = (
            start.shape[:-1],
            xp.reshape(start, (-1, len(self.shape))),
            xp.reshape(stop, (-1, len(self.shape))),
        )
        total = xp.zeros(stop.shape[0], dtype=table.dtype, device=device(table))
        for corner in product((0, 1), repeat=len(self.shape)):
            part = table[tuple((stop if side else start)[:, d] for d, side in enumerate(corner))]
            total = total - part if (len(corner) - sum(corner)) % 2 else total + part
        return give(xp.reshape(total, shape))

    def mean(self, start: Any, stop: Any) -> Any:
        """The means of the boxes, in float64 (complex128 for complex x); NaN where a box is empty. See `sum`."""
        xp, (sums, start, stop), give = enter(self.sum(start, stop), start, stop)
        items = xp.astype(xp.prod(stop - start, axis=-1), xp.float64)
        items = xp.where(items == 0, xp.asarray(np.nan, dtype=xp.float64, device=device(items)), items)
        return give(
            (sums if xp.isdtype(sums.dtype, "complex floating") else xp.astype(sums, xp.float64)) / items
        )

    def _check(self, xp: Any, start: Any, stop: Any) -> None:
        if start.shape != stop.shape or start.shape[-1:] != (len(self.shape),):
            raise ShapeError(
                f"corners of shapes {tuple(start.shape)} and {tuple(stop.shape)} need {len(self.shape)} places each"
            )
        shape = xp.asarray(self.shape, device=device(start))
        if not bool(xp.all((start >= 0) & (start <= stop) & (stop <= shape))):
            raise IndexError(f"boxes must lie within 0 <= start <= stop <= {self.shape}")


def _wide(xp: Any, dtype: Any) -> Any:
    for kinds, wide in (
        (("bool", "integral"), xp.uint64 if dtype == xp.uint64 else xp.int64),
        ("real floating", xp.float64),
        ("complex floating", xp.complex128),
    ):
        if xp.isdtype(dtype, kinds):
            return wide
    raise DTypeError(f"{dtype} cannot be summed over boxes; numbers and booleans can")
