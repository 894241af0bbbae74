"""The canonical scan in NumPy, whole arrays at a time: what the CUDA engine is held against on large inputs.

It is the oracle of tree.py (the tests compare the two), with initial values, segments, axes and directions. An operator
works on tuples of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Columns = tuple[np.ndarray, ...]
Combine = Callable[[Columns, Columns], Columns]


def scan(
    op: Combine,
    xs: Sequence[np.ndarray],
    axis: int = 0,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Sequence[np.ndarray] | None = None,
    identity: Sequence[object] | None = None,
    heads: np.ndarray | None = None,
) -> Columns:
    """All prefixes along an axis. `initial` has one entry a component, 0-dimensional or one value a row."""
    a = [np.moveaxis(x, axis, 0).copy() for x in xs]
    n, rows = a[0].shape[0], a[0].shape[1:]
    start = (
        None if initial is None else [np.broadcast_to(s, rows).astype(x.dtype) for s, x in zip(initial, a)]
    )
    flags = np.zeros((n, *rows), bool)
    if heads is not None:
        h = heads if heads.ndim == 1 else np.moveaxis(heads, axis, 0)
        flags[:] = (h != 0).reshape(h.shape + (1,) * (1 + len(rows) - h.ndim))
    if reverse:
        a = [x[::-1].copy() for x in a]
        flags = np.roll(flags[::-1], 1, 0)
    if n:
        flags[0] = False
    given = flags.copy()

    def combine(left, left_flags, right, right_flags):
        made = op(tuple(left), tuple(right))
        return [np.where(right_flags, r, m) for r, m in zip(right, made)], left_flags | right_flags

    d = 1
    while d < n:
        right, left = slice(2 * d - 1, n, 2 * d), slice(d - 1, n - d, 2 * d)
        made, f = combine([x[left] for x in a], flags[left], [x[right] for x in a], flags[right])
        for x, m in zip(a, made):
            x[right] = m
        flags[right] = f
        d *= 2

    def fold(before, blocks, block_flags):
        if start is None:
            made = op(tuple(before), tuple(blocks))
            return [np.where(block_flags, b, m) for b, m in zip(blocks, made)]
        lefts = [np.where(block_flags, s, p) for s, p in zip(start, before)]
        return list(op(tuple(lefts), tuple(blocks)))

    while d >= 1:
        if d <= n and start is not None:
            for x, m in zip(a, op(tuple(start), tuple(x[d - 1] for x in a))):
                x[d - 1] = m
        right, left = slice(3 * d - 1, n, 2 * d), slice(2 * d - 1, n - d, 2 * d)
        if 3 * d - 1 < n:
            made = fold([x[left] for x in a], [x[right] for x in a], flags[right])
            for x, m in zip(a, made):
                x[right] = m
        d //= 2
    if exclusive:
        first = start if start is not None else [np.full(rows, e, x.dtype) for e, x in zip(identity or (), a)]
        if n:
            given[0] = True
            for x, f in zip(a, first):
                x[1:] = x[:-1].copy()
                x[:] = np.where(given, f, x)
    if reverse:
        a = [x[::-1] for x in a]
    return tuple(np.moveaxis(x, 0, axis) for x in a)
