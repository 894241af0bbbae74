"""Tridiagonal systems by scans."""

from __future__ import annotations

from typing import Any

from upsweep import api, homes
from upsweep.apps.kinds import enter, real
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
    tree solves once more for what is left over.

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
    check_order(order)
    xp, (right, *bands), give = enter(right, lower, diagonal, upper)
    d, *bands = (real(xp, v, "a tridiagonal system") for v in (right, *bands))
    if d.ndim == 0:
        raise ShapeError("right is 0-dimensional; a system needs a last dimension of unknowns")
    try:
        a, b, c = (xp.broadcast_to(v, d.shape) for v in bands)
    except (ValueError, RuntimeError) as error:
        shapes = ", ".join(str(tuple(v.shape)) for v in bands)
        raise ShapeError(
            f"bands of shapes {shapes} do not fit a right side of shape {tuple(d.shape)}"
        ) from error
    if d.shape[-1] == 0:
        return give(d)
    zero = xp.zeros_like(d[..., :1])
    a = xp.concat([zero, a[..., 1:]], axis=-1)
    before, after = xp.concat([zero, c[..., :-1]], axis=-1), xp.concat([c[..., :-1], zero], axis=-1)
    how: dict[str, Any] = {"finish": _state, "axis": -1, "order": order}
    pivots = api.scan((a, b, before), _PROJECTIVE, map=_matrix, finish=_pivot, axis=-1, order=order)

    def solve(d: Any) -> Any:
        y = api.scan((a, d, pivots), "affine", map=_forward, **how)
        return api.scan((after, y, pivots), "affine", map=_backward, reverse=True, out=y, **how)

    x = solve(d)
    if order == "sequential":
        return give(x)
    left, right = xp.concat([zero, x[..., :-1]], axis=-1), xp.concat([x[..., 1:], zero], axis=-1)
    # Scans by the tree gather the rounding of the pivots, and the residual's solution takes it away.
    return give(x + solve(d - a * left - b * x - after * right))


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
