"""The oracle: the definition of a scan, in NumPy, for one axis of arrays of any rank.

It is `upsweep.tree.prefixes`, in place, with the loop over blocks left to NumPy; `test_tree.py` holds it to that. It shares no
line with an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Columns = Sequence[np.ndarray]


def oracle(
    combine: Callable[[Any, Any], Any],
    xs: Columns,
    *,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Any = None,
    heads: np.ndarray | None = None,
    identity: Any = None,
    order: str = "tree",
) -> tuple[np.ndarray, ...]:
    """All prefixes. `combine` takes and returns arrays, or tuples of them where there are several components; `initial` has a
    scalar or one value a row for each component; `heads` are flags of the shape of the data, or 1-D along the axis."""
    a = [_first(x, axis, reverse).copy() for x in xs]
    n, rows = len(a[0]), a[0].shape[1:]
    flags = _flags(heads, n, rows, axis, reverse)
    start = (
        None
        if initial is None
        else [np.broadcast_to(np.asarray(s, x.dtype), rows) for s, x in zip(_tuple(initial), a)]
    )
    with np.errstate(all="ignore"):
        scan = _Scan(combine, a, flags.copy(), start)
        (scan.tree if order == "tree" else scan.loop)()
    if exclusive and n:
        first = (
            start if start is not None else [np.full(rows, e, x.dtype) for e, x in zip(_tuple(identity), a)]
        )
        flags[0] = True
        for x, e in zip(a, first):
            x[1:] = x[:-1].copy()
            x[:] = np.where(flags, e, x)
    return tuple(np.moveaxis(x[::-1] if reverse else x, 0, axis) for x in a)


class _Scan:
    """Items that become prefixes where they lie. Flags say where a segment starts in the block that an item stands for."""

    def __init__(
        self, combine: Any, items: list[np.ndarray], flags: np.ndarray, start: Columns | None
    ) -> None:
        self.combine, self.items, self.flags, self.start = combine, items, flags, start

    def tree(self) -> None:
        n, d = len(self.flags), 1
        while d < n:
            self.join(slice(d - 1, n - d, 2 * d), slice(2 * d - 1, n, 2 * d))
            d *= 2
        while d >= 1:
            # The first block of this size.
            if self.start is not None and d <= n:
                self.put(slice(d - 1, d), self.on([s[None] for s in self.start], slice(d - 1, d)))
            if 3 * d - 1 < n:
                self.fold(slice(2 * d - 1, n - d, 2 * d), slice(3 * d - 1, n, 2 * d))
            d //= 2

    def loop(self) -> None:
        for i in range(len(self.flags)):
            if i:
                self.fold(slice(i - 1, i), slice(i, i + 1))
            elif self.start is not None:
                self.put(slice(0, 1), self.on([s[None] for s in self.start], slice(0, 1)))

    def join(self, left: slice, right: slice) -> None:
        """The sums of two blocks become the sum of both: the lifted operator of a segmented scan."""
        both, anew = self.on([x[left] for x in self.items], right), self.flags[right]
        self.put(right, [np.where(anew, x[right], y) for x, y in zip(self.items, both)])
        self.flags[right] |= self.flags[left]

    def fold(self, left: slice, right: slice) -> None:
        """The sum of a block becomes the prefix behind it."""
        anew, prefix = self.flags[right], [x[left] for x in self.items]
        if self.start is None:
            both = self.on(prefix, right)
            self.put(right, [np.where(anew, x[right], y) for x, y in zip(self.items, both)])
        else:
            self.put(right, self.on([np.where(anew, s, p) for s, p in zip(self.start, prefix)], right))

    def on(self, left: Columns, right: slice) -> Columns:
        other = [x[right] for x in self.items]
        made = (
            self.combine(tuple(left), tuple(other)) if len(other) > 1 else (self.combine(left[0], other[0]),)
        )
        return [np.asarray(y).astype(x.dtype) for x, y in zip(other, made)]

    def put(self, where: slice, values: Columns) -> None:
        for x, v in zip(self.items, values):
            x[where] = v


def _first(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    x = np.moveaxis(x, axis, 0)
    return x[::-1] if reverse else x


def _flags(heads: np.ndarray | None, n: int, rows: tuple[int, ...], axis: int, reverse: bool) -> np.ndarray:
    flags = np.zeros((n, *rows), bool)
    if heads is not None:
        heads = np.asarray(heads)
        along = heads.reshape(-1, *[1] * len(rows)) if heads.ndim == 1 else np.moveaxis(heads, axis, 0)
        flags[:] = along != 0
    # A segment ends one item before the next head.
    if reverse:
        flags = np.roll(flags[::-1], 1, 0)
    if n:
        flags[0] = False
    return flags


def _tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else tuple(x) if isinstance(x, list) else (x,)
