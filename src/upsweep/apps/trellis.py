"""Prefixes of items that are larger than a number, such as matrices: the canonical tree, with each level one array operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Parts = tuple[Any, ...]


def prefixes(xp: Any, combine: Callable[[Parts, Parts], Parts], xs: Parts) -> Parts:
    """All inclusive prefixes along axis 0 of a tuple of arrays that together are one sequence, as `upsweep.tree` defines them.

    `combine` takes and returns tuples of arrays whose axis 0 are independent pairs. The depth is 2 log2(n), the work 2 n.
    """
    n = xs[0].shape[0]
    if n < 2:
        return xs
    odd = prefixes(xp, combine, combine(tuple(x[0 : n - 1 : 2] for x in xs), tuple(x[1::2] for x in xs)))
    even = combine(tuple(y[: (n - 1) // 2] for y in odd), tuple(x[2::2] for x in xs)) if n > 2 else odd
    results = []
    for x, y, z in zip(xs, odd, even):
        result = xp.empty_like(x)
        result[0], result[1::2] = x[0], y
        if n > 2:
            result[2::2] = z
        results.append(result)
    return tuple(results)


def forward_in_order(xp: Any, initial: Any, transition: Any, likelihood: Any) -> tuple[Any, Any]:
    """The vectors `v[t] = (v[t-1] transition) likelihood[t]` of shape (..., T, K), with `initial` in place of the first product,
    each divided by its largest entry where that is above zero; and these entries, of shape (..., T).
    """
    joint, sizes = xp.empty_like(likelihood), xp.empty_like(likelihood[..., 0])
    for t in range(likelihood.shape[-2]):
        vector = product(joint[..., t - 1 : t, :], transition)[..., 0, :] if t else initial
        vector = vector * likelihood[..., t, :]
        size = xp.max(vector, axis=-1)
        joint[..., t, :] = vector / xp.where(size > 0, size, xp.ones_like(size))[..., None]
        sizes[..., t] = size
    return joint, sizes


def best_path_in_order(xp: Any, initial: Any, transition: Any, likelihood: Any) -> tuple[Any, Any]:
    """The states (int64) of the best path, and the best score of each last state: `score[t] = max(score[t-1] + transition) +
    likelihood[t]`. All are logarithms of shapes (K,), (K, K) and (T, K), with at least one step.
    """
    score, choices = initial + likelihood[0], []
    for now in likelihood[1:]:
        paths = score[:, None] + transition
        choices.append(xp.argmax(paths, axis=0))
        score = xp.max(paths, axis=0) + now
    path = [xp.argmax(score, axis=0)]
    for choice in reversed(choices):
        path.append(choice[path[-1]])
    return xp.stack(path[::-1]), score


def product(a: Any, b: Any) -> Any:
    """Products of stacked matrices. Their terms are added in order, while a BLAS adds them as its machine likes."""
    total = a[..., :, :1] * b[..., :1, :]
    for k in range(1, b.shape[-2]):
        total = total + a[..., :, k : k + 1] * b[..., k : k + 1, :]
    return total


def inverse(xp: Any, a: Any) -> Any:
    """Inverses of stacked matrices by Gauss and Jordan's elimination with row exchanges, in a fixed order as well."""
    d, shape = a.shape[-1], a.shape
    a = xp.reshape(a, (-1, d, d))
    rows = xp.concat([a, xp.broadcast_to(xp.eye(d, dtype=a.dtype, device=a.device), a.shape)], axis=-1)
    many = xp.arange(a.shape[0], device=a.device)
    for k in range(d):
        best = k + xp.argmax(xp.abs(rows[:, k:, k]), axis=1)
        pivot, other = rows[many, best], xp.asarray(rows[:, k], copy=True)
        rows[many, best] = other
        pivot = pivot / pivot[:, k : k + 1]
        rows = rows - rows[:, :, k : k + 1] * pivot[:, None, :]
        rows[:, k] = pivot
    return xp.reshape(rows[..., d:], shape)


def log_determinant(xp: Any, a: Any) -> Any:
    """Logarithms of the determinants of stacked symmetric positive matrices, by elimination in a fixed order."""
    total = xp.zeros_like(a[..., 0, 0])
    for k in range(a.shape[-1]):
        pivot = a[..., k : k + 1, k : k + 1]
        total = total + xp.log(pivot[..., 0, 0])
        a = a - a[..., :, k : k + 1] * (a[..., k : k + 1, :] / pivot)
    return total
