"""A scan that has been checked, as a frozen value: it prints, compares, hashes and pickles, and holds no data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from math import prod

import numpy as np

from upsweep.function import Function
from upsweep.operator import Operator

ORDERS = ("tree", "sequential")
"""The orders of evaluation: the canonical tree of `upsweep.tree`, and the loop from the first item to the last."""


@dataclass(frozen=True)
class Plan:
    """One checked scan.

    The sequence has one or more components (a tuple of arrays is one sequence of tuples). Component c is read as
    `loads[c]`, computed in `accumulators[c]` and written as `stores[c]`; where that is None it is not written.

    A `map` makes the components out of the inputs, which are read as `loads`; a `finish` makes the outputs, which are written as
    `stores`, out of a prefix. Both functions get the items in the dtype that these are computed in: narrow floats as float32.
    """

    op: Operator
    loads: tuple[np.dtype, ...]
    accumulators: tuple[np.dtype, ...]
    stores: tuple[np.dtype | None, ...]
    shape: tuple[int, ...]
    axis: int
    exclusive: bool = False
    reverse: bool = False
    initial: bool = False
    segmented: bool = False
    ends: bool = False
    """The flags of a segmented scan say where segments end, instead of where they start."""
    reduce: bool = False
    """Only the last prefix of every row is written; the outputs lack the axis."""
    threads: int | None = None
    order: str = "tree"
    """One of `ORDERS`."""
    map: Function | None = None
    """The function that makes the components of an item out of its inputs; None where the inputs are the components."""
    finish: Function | None = None
    """The function that makes the outputs out of a prefix, and the inputs and the index of its item; None where the outputs are
    the prefix's components. The finish of a reduction takes the prefix alone."""
    ahead: int | None = None
    """The component that is read ahead, in scans in order: an item reads the value of the next item, and the last item reads the
    run's initial value."""
    run: int = 1
    """If this is k > 1, each item of the last output is the sum, by the tree, of k results that are neighbours in the order of
    the scan. The last run of a row may be shorter."""
    line: int = 1
    """The same, for so many neighbours along the last axis, where these are rows."""

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    # Every call looks plans up in caches: the hash is kept.
    def __hash__(self) -> int:
        return self._hash

    @property
    def n(self) -> int:
        """Items of a row."""
        return self.shape[self.axis]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape without the axis: one entry a row."""
        return self.shape[: self.axis] + self.shape[self.axis + 1 :]

    @property
    def sums(self) -> bool:
        """Whether the last output has sums of results."""
        return self.run > 1 or self.line > 1

    @property
    def placed(self) -> bool:
        """Whether the map is given the index of its item."""
        return self.map is not None and self.map.arity > len(self.loads)

    @property
    def rows(self) -> int:
        return prod(self.row_shape)
