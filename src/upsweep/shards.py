"""One sequence in many hands: every holder of a part tells its block sums, and knows where it stands from the others'.

A part `[start, stop)` is summed up as the sums of its aligned blocks, at most two for each binary digit of its length.
Such lists join associatively, to the very bits, so that any tree of joins gives the same carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from upsweep.api import Op, last_prefix
from upsweep.arguments import dtype_of, dtypes_of, result_dtypes
from upsweep.chunks import Standing
from upsweep.components import bare, tupled
from upsweep.dtypes import carried
from upsweep.operators import as_operator
from upsweep.tree import Carry, blocks


@dataclass(frozen=True)
class Blocks:
    """The sums of the aligned blocks of `[start, stop)`, in the order of `upsweep.tree.blocks`; each a tuple."""

    start: int
    stop: int
    sums: tuple[tuple[Any, ...], ...] = ()


def summed(op: Op, xs: tuple[Any, ...], start: int, axis: int, dtype: Any = None) -> Blocks:
    """The block sums of the part that holds `xs` and begins at item `start` of the whole."""
    n = xs[0].shape[axis]
    wanted = result_dtypes(tuple(dtype_of(x.dtype) for x in xs), dtypes_of(dtype))
    sums = []
    for first, size in blocks(start, start + n):
        part = tuple(x[(slice(None),) * axis + (slice(first - start, first - start + size),)] for x in xs)
        sums.append(_reduced(op, part, axis, None, tuple(map(carried, wanted))))
    return Blocks(start, start + n, tuple(sums))


def joined(op: Op, left: Blocks, right: Blocks) -> Blocks:
    """The block sums of two neighbours together.

    >>> import numpy as np
    >>> left = summed("add", (np.arange(3),), 0, 0)
    >>> [int(s) for (s,) in joined("add", left, summed("add", (np.arange(3, 6),), 3, 0)).sums]
    [6, 9]
    """
    if left.stop != right.start:
        raise ValueError(
            f"items [{left.start}, {left.stop}) and [{right.start}, {right.stop}) are not neighbours"
        )
    stack: list[tuple[int, int, tuple[Any, ...]]] = []
    for side in (left, right):
        for (first, size), block in zip(blocks(side.start, side.stop), side.sums):
            while stack and stack[-1][1] == size and stack[-1][0] % (2 * size) == 0:
                first, _, before = stack.pop()
                block, size = _combined(op, before, block), 2 * size
            stack.append((first, size, block))
    return Blocks(left.start, right.stop, tuple(block for _, _, block in stack))


def scanned(
    op: Op, xs: tuple[Any, ...], before: Blocks, own: Blocks, axis: int, *, exclusive: bool = False, initial: Any = None,
    dtype: Any = None, keep: tuple[int, ...] | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The part of the whole scan that belongs to `xs`, of block sums `own`; `before` has the block sums from item 0 on.
    `keep` names the components that are wanted."""
    carry = Carry(before.stop, list(before.sums))
    at = Standing(as_operator(op), axis, exclusive, initial, dtypes_of(dtype), "tree", carry)
    got = at.push_summed(xs, own.sums, keep)
    return tupled(got)


def prefix(op: Op, before: Blocks, initial: tuple[Any, ...] | None = None) -> tuple[Any, ...] | None:
    """The last prefix of `[0, stop)`."""
    return Carry(before.stop, list(before.sums)).prefix(lambda a, b: _combined(op, a, b), initial)


def _combined(op: Op, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """`left ⊕ right` as the engine computes it."""
    items = tuple(part.reshape((1, *part.shape)) for part in right)
    return _reduced(op, items, 0, left, None)


def _reduced(op: Op, xs: Any, axis: int, initial: Any, dtype: Any) -> tuple[Any, ...]:
    start = initial if initial is None or len(xs) > 1 else initial[0]
    got: Any = last_prefix(bare(xs), as_operator(op), axis=axis, initial=start, dtype=dtype)
    return tupled(got)
