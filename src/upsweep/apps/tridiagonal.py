"""Tridiagonal systems by scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep import homes
from upsweep.apps.kinds import real
from upsweep.apps.repeated import Planned, called
from upsweep.arguments import ShapeError, check_order
from upsweep.operator import Operator


def _product(a, b):
    """b a of 2x2 matrices by rows, scaled to the size of 1: only the ratios within a product count."""
    m00, m01 = b[0] * a[0] + b[1] * a[2], b[0] * a[1] + b[1] * a[3]
    m10, m11 = b[2] * a[0] + b[3] * a[2], b[2] * a[1] + b[3] * a[3]
    size = max(max(abs(m00), abs(m01)), max(abs(m10), abs(m11)))
    scale = 1 / size if size > 0 else 1.0
    return (m00 * scale, m01 * scale, m10 * scale, m11 * scale)


_PROJECTIVE = Operator(_product, name="2x2 matrix product up to its size")


@homes.apart
def solve_tridiagonal(lower: Any, diagonal: Any, upper: Any, right: Any, *, order: str = "tree") -> Any:
    """Solve `lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = right[i]` for many systems at once.

    Elimination without exchanges, each of its three recurrences a scan: the pivots `d[i] = diagonal[i] - lower[i] upper[i-1] /
    d[i-1]` as quotients of products of 2x2 matrices, then the right side forward and the unknowns backward as affine maps. The
    tree solves once more for the residual.

    Args:
        lower, diagonal, upper, right: real arrays of shape (..., n), or shapes that broadcast to that of `right`; lower[..., 0]
            and upper[..., n - 1] count for nothing. It is computed in float64.
        order: as in `upsweep.scan`: "sequential" is the faster one on a CPU, and on a GPU where systems are many; the tree
            is parallel along a system too.

    Returns:
        x, float64, of `right`'s shape and kind.

    Raises:
        ShapeError: shapes that do not broadcast to that of `right`. DTypeError: complex numbers, or none.
        ValueError: another `order`.

    Accuracy: that of elimination without exchanges, good where the matrix is diagonally dominant or positive definite. A
    pivot of zero gives NaN or infinities.

    >>> from upsweep import apps
    >>> apps.solve_tridiagonal([0.0, 1.0, 1.0], [2.0, 2.0, 2.0], [1.0, 1.0, 0.0], [4.0, 8.0, 8.0]).round(12).tolist()
    [1.0, 2.0, 3.0]

    Source: Stone, "An efficient parallel algorithm for the solution of a tridiagonal linear system" (1973).
    """
    return called(_elimination, (right, lower, diagonal, upper), (), None, order, labels=False)


def _elimination(call: Planned, order: str) -> Callable[..., Any]:
    """The function that solves systems like these."""
    check_order(order)
    xp, (d, *bands) = call.xp, [real(call.xp, v, "a tridiagonal system") for v in call.views]
    if d.ndim == 0:
        raise ShapeError("right is 0-dimensional; a system needs a last dimension of unknowns")
    shape, shapes = tuple(d.shape), [tuple(v.shape) for v in bands]
    try:
        fitting = np.broadcast_shapes(shape, *shapes) == shape
    except ValueError:
        fitting = False
    if not fitting:
        told = ", ".join(map(str, shapes))
        raise ShapeError(f"bands of shapes {told} do not fit a right side of shape {shape}")
    pivoted, *scans = [call.scan() for _ in range(5)]
    how: dict[str, Any] = {"finish": _state, "axis": -1, "order": order}

    def run(*given: Any) -> Any:
        d, *bands = (real(xp, v, "a tridiagonal system") for v in given[:4])
        if not shape[-1]:
            return d
        a, b, c = (v if v.shape == d.shape else xp.broadcast_to(v, shape) for v in bands)
        a, before, after = (
            _part(xp, a, _LATER, _LATER),
            _part(xp, c, _LATER, _FORMER),
            _part(xp, c, _FORMER, _FORMER),
        )
        pivots = pivoted((a, b, before), _PROJECTIVE, map=_matrix, finish=_pivot, axis=-1, order=order)

        def solve(d: Any, forward: Any, backward: Any) -> Any:
            y = forward((a, d, pivots), "affine", map=_forward, **how)
            return backward((after, y, pivots), "affine", map=_backward, reverse=True, out=y, **how)

        x = solve(d, *scans[:2])
        if order == "sequential":
            return x
        rest = d - a * _part(xp, x, _LATER, _FORMER) - b * x - after * _part(xp, x, _FORMER, _LATER)
        # Scans by the tree gather the rounding of the pivots, and the residual's solution takes it away.
        return x + solve(rest, *scans[2:])

    return run


_LATER, _FORMER = slice(1, None), slice(None, -1)
"""All places but the first, and all but the last."""


def _part(xp: Any, x: Any, to: slice, since: slice) -> Any:
    """Some items of each row at other places; where none comes, 0."""
    y = xp.zeros(x.shape, dtype=x.dtype, device=x.device)
    y[..., to] = x[..., since]
    return y


def _matrix(a, b, before):
    """A pivot from the one before it: (b d - a c) / d."""
    return b, -a * before, 1.0, 0.0


def _pivot(p, a, b, before, index):
    return b if index == 0 else p[0] / p[2]


def _forward(a, d, pivot):
    return -a / pivot, d / pivot


def _backward(after, y, pivot):
    return -after / pivot, y


def _state(p):
    return p[1]
