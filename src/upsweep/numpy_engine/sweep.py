"""The two orders: Brent and Kung's sweeps, a whole level of the tree at a time, and the loop, a whole item of all rows at a
time.

The axis of the scan comes first. Level l holds the sums of the aligned blocks of 2^l items. On the way down, the prefixes at
the starts of the blocks become the prefixes at the starts of their halves (Blelloch's down-sweep).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Columns = Sequence[np.ndarray]
Combine = Callable[[Columns, Columns], Columns]


class Steps(NamedTuple):
    """The rules by which block sums are joined and folded onto prefixes. Every segment starts from `start`, if there is one."""

    combine: Combine
    start: Columns | None

    def join(self, left: _Sums, right: _Sums) -> _Sums:
        both = self.combine(left.values, right.values)
        if left.flags is None or right.flags is None:
            return _Sums(both, None)
        return _Sums(_chosen(right.flags, right.values, both), left.flags | right.flags)

    def fold(self, prefix: Columns, block: _Sums) -> Columns:
        if block.flags is None:
            return self.combine(prefix, block.values)
        if self.start is None:
            return _chosen(block.flags, block.values, self.combine(prefix, block.values))
        return self.combine(_chosen(block.flags, self.start, prefix), block.values)


class _Sums(NamedTuple):
    """Block sums of one level: each component, and whether a segment starts in the block."""

    values: Columns
    flags: np.ndarray | None

    def __len__(self) -> int:
        return len(self.values[0])

    def part(self, which: slice) -> _Sums:
        return _Sums([v[which] for v in self.values], None if self.flags is None else self.flags[which])


def prefixes(steps: Steps, items: Columns, flags: np.ndarray | None) -> list[np.ndarray]:
    """The prefixes at 0, 1, ..., n. Without a start, the first one may hold any value."""
    known = [np.zeros((1, *x.shape[1:]), x.dtype) for x in items]
    for p, s in zip(known, steps.start or ()):
        p[0] = s
    for sums in reversed(_levels(steps, _Sums(items, flags))):
        known = _halved(steps, known, sums)
    return known


def _levels(steps: Steps, sums: _Sums) -> list[_Sums]:
    levels = [sums]
    while len(levels[-1]) > 1:
        below = levels[-1]
        end = len(below) // 2 * 2
        levels.append(steps.join(below.part(slice(0, end, 2)), below.part(slice(1, end, 2))))
    return levels


def _halved(steps: Steps, above: list[np.ndarray], sums: _Sums) -> list[np.ndarray]:
    """The prefixes at every block of this level, from those at every second one."""
    n = len(sums)
    nothing_before = steps.start is None
    odd = slice(nothing_before, (n + 1) // 2)
    folded = steps.fold([p[odd] for p in above], sums.part(slice(2 * nothing_before, None, 2)))
    made = [np.empty((n + 1, *p.shape[1:]), p.dtype) for p in above]
    for y, p, f, s in zip(made, above, folded, sums.values):
        y[::2] = p
        y[1 + 2 * nothing_before :: 2] = f
        if nothing_before:
            y[1] = s[0]
    return made


def accumulated(ufunc: np.ufunc, steps: Steps, items: Columns) -> list[np.ndarray]:
    """The prefixes at 0, 1, ..., n by NumPy's own loop, for an operator whose every order gives the same bits."""
    (x,), made = items, np.zeros((len(items[0]) + 1, *items[0].shape[1:]), items[0].dtype)
    if steps.start is None:
        ufunc.accumulate(x, 0, x.dtype, made[1:])
    else:
        made[0], made[1:] = steps.start[0], x
        ufunc.accumulate(made, 0, x.dtype, made)
    return [made]


def in_order(steps: Steps, items: Columns, flags: np.ndarray | None) -> list[np.ndarray]:
    """The prefixes at 0, 1, ..., n by the loop from the first item to the last."""
    sums = _Sums(items, flags)
    known = [np.zeros((len(sums) + 1, *x.shape[1:]), x.dtype) for x in items]
    for p, s in zip(known, steps.start or ()):
        p[0] = s
    for i in range(len(sums)):
        item, nothing_before = sums.part(slice(i, i + 1)), i == 0 and steps.start is None
        made = item.values if nothing_before else steps.fold([p[i : i + 1] for p in known], item)
        for p, m in zip(known, made):
            p[i + 1] = m[0]
    return known


def last_prefix(steps: Steps, items: Columns, flags: np.ndarray | None) -> Columns:
    """The prefix at n: the sums of the blocks that n names, largest first, folded from the left."""
    n, total = len(items[0]), steps.start
    levels = _levels(steps, _Sums(items, flags))
    for level in reversed(range(len(levels))):
        if n >> level & 1:
            at = (n >> level) - 1
            block = levels[level].part(slice(at, at + 1))
            total = block.values if total is None else steps.fold([t[None] for t in total], block)
            total = [t[0] for t in total]
    assert total is not None
    return total


def _chosen(flags: np.ndarray, these: Columns, those: Columns) -> Columns:
    return [np.where(flags, a, b) for a, b in zip(these, those)]
