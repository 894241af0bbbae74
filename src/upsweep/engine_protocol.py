"""The protocol of an engine: what the API asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from upsweep.plan import Plan
from upsweep.segments import Segments
from upsweep.tree import Carry


class View(Protocol):
    """An array as an engine sees it: its own type, of which the API reads no more than this."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype: ...


class Engine(Protocol):
    """The functions that the API asks of an engine; a module that has them is one."""

    def view(self, x: Any) -> View:
        """The memory of `x` without a copy, whatever library made it."""
        ...

    def writable(self, view: View) -> bool:
        """Whether results may be written there."""
        ...

    def empty(self, like: Any, shape: tuple[int, ...], dtype: np.dtype) -> View:
        """New memory on the device of `like`."""
        ...

    def give(self, like: Any, view: View) -> Any:
        """The memory of `view` as an array of the kind of `like`."""
        ...

    def cut(self, view: View, axis: int, start: int, stop: int) -> View:
        """The part `[start, stop)` of a view along an axis."""
        ...

    def start(self, value: Any, dtype: np.dtype, like: Any) -> View:
        """The values that a scan starts from, in the accumulator's dtype, on the device of `like`: 0-dimensional or one a row."""
        ...

    def broadcast(self, value: Any, shape: tuple[int, ...], dtype: np.dtype, like: Any) -> View:
        """A scalar or a smaller array as one of `shape`, without a copy for each item, on the device of `like`."""
        ...

    def heads(self, segments: Segments, shape: tuple[int, ...], axis: int, like: Any) -> View:
        """Flags (bool or uint8) that are non-zero where a segment starts; a SegmentError where they do not fit."""
        ...

    def spread(self, heads: View, shape: tuple[int, ...], axis: int) -> View:
        """The flags that `heads` gives, as uint8 of `shape`, without a copy; 1-D flags along the axis hold for all rows."""
        ...

    def apart(self, x: View, ys: Sequence[View]) -> View:
        """`x`, or a copy where writing `ys` would spoil it: they overlap other than item for item."""
        ...

    def run(
        self,
        plan: Plan,
        xs: Sequence[View],
        ys: Sequence[View | None],
        initial: Sequence[View] | None,
        heads: View | None,
    ) -> None:
        """Run a plan. `xs` and `ys` have `plan.shape` (`plan.row_shape` for the outputs of a reduction) and are read and
        written as the plan's dtypes, times as int64; an output that the plan does not store is None. `initial` holds one
        view for each component, of the accumulator's dtype, 0-dimensional or of `plan.row_shape`. `heads` (bool or uint8,
        of `plan.shape` or 1-D along the axis) is non-zero where a segment starts (where `plan.ends`, at its last item), in the
        order of the data also when the plan runs in reverse.
        """
        ...


class Grouping(Protocol):
    """Scans of groups whose items lie in any order."""

    def run_groups(
        self,
        plan: Plan,
        xs: Sequence[View],
        ys: Sequence[View | None],
        initial: Sequence[View] | None,
        keys: tuple[Any, ...],
    ) -> None:
        """Run a plan, which has no segments, for the items of each group alone: those for which all keys agree."""
        ...

    def codes_of(self, keys: tuple[Any, ...], n: int) -> tuple[np.ndarray, int]:
        """The number of each item's group, by first appearance, and how many groups there are. Of engines for this machine's
        memory."""
        ...


class Counting(Protocol):
    """Scans of a few items behind others."""

    def Behind(
        self, plan: Plan, xs: Sequence[View], ys: Sequence[View], initial: Sequence[View] | None, count: int
    ) -> Behind:  # fmt: skip
        """A way to run the plan on items that follow `count` others. `ys` are the outputs that are stored."""
        ...


class Behind(Protocol):
    """Runs a plan on arrays like those that it was made of."""

    def scan(self, xs: Sequence[View], ys: Sequence[View], carry: Carry) -> Carry | None:
        """Scan the items that follow those of a carry, and give the carry behind them; None where their count has other bits."""
        ...


class Picks(Protocol):
    """Where the segments of arrays start, and the items there, for engines whose arrays are not in this machine's memory."""

    def starts_of(self, segments: Segments, shape: tuple[int, ...], axis: int, like: Any) -> np.ndarray:
        """Where each segment starts and, last, where the data end, in this machine's memory. Segments on a device are waited
        for."""
        ...

    def ends_of(self, keys: tuple[Any, ...], n: int, first: bool, like: Any) -> np.ndarray:
        """The last item of each group, or its `first`, in the order in which groups first occur."""
        ...

    def picked(self, y: Any, axis: int, places: np.ndarray, there: np.ndarray | None, nothing: Any) -> Any:
        """The items of a view at these places along an axis, as a new view. A segment that is not `there` has `nothing`, an
        array without the axis; `there` is None where all are."""
        ...
