"""Horner's rule as a scan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from upsweep import api, homes
from upsweep.apps.kinds import common, enter, floating
from upsweep.arguments import ShapeError
from upsweep.dtypes import kind_of
from upsweep.engine import DTypeError, choose
from upsweep.moves import loops
from upsweep.operators import ops


@homes.apart
def polyval(p: Any, x: Any) -> Any:
    """`p[0] x^N + p[1] x^(N-1) + ... + p[N]`: Horner's recurrence `h = h x + p[k]`, a reduction of affine maps.

    Args:
        p: coefficients, highest power first as in `numpy.polyval`, of shape (N + 1,) or (N + 1, ...): many polynomials.
        x: real or complex points, of a shape that broadcasts with the rest of p's.

    Where there are at least as many values as coefficients the reduction runs in order, many values side by side, and has
    the bits of `numpy.polyval`, on a CPU in a loop of its own. Else it is the tree, which is parallel along the coefficients too
    and costs 3 operations where Horner's rule costs 2.

    Returns:
        The values, in the shape of p[0] and x broadcast; floating, or complex where p or x is.

    Raises:
        ShapeError: there is no coefficient, or the shapes do not broadcast. DTypeError: no numbers.

    >>> from upsweep import apps
    >>> apps.polyval([1.0, 0.0, -2.0], [3.0, 5.0]).tolist()
    [7.0, 23.0]

    Source: Blelloch (1990), section 1.4; Estrin, "Organization of computer systems" (1960), for the tree.
    """
    xp, (x, p), give = enter(x, p, labels=True)
    if p is None:
        raise DTypeError("p is None: pass the coefficients, highest power first")
    p, x = floating(xp, p), floating(xp, x)
    if not {kind_of(p.dtype), kind_of(x.dtype)} <= {"f", "c"}:
        raise DTypeError(
            f"coefficients of {p.dtype} and points of {x.dtype} make no polynomial: pass numbers"
        )
    if p.ndim == 0 or p.shape[0] == 0:
        raise ShapeError(f"a polynomial needs at least one coefficient, got shape {tuple(p.shape)}")
    dtype = common(xp, p, x)
    try:
        shape = np.broadcast_shapes(tuple(p.shape[1:]), tuple(x.shape))
    except ValueError as error:
        raise ShapeError(
            f"polynomials of shape {tuple(p.shape[1:])} and points of shape {tuple(x.shape)} do not broadcast"
        ) from error
    order = "sequential" if math.prod(shape) >= p.shape[0] else "tree"
    known = loops(choose((x,))) if order == "sequential" and p.ndim == 1 else None
    if known and dtype in (xp.float32, xp.float64, xp.complex64, xp.complex128):
        return give(known.horner(*[v if v.dtype == dtype else xp.astype(v, dtype) for v in (p, x)]))
    p = xp.reshape(p, (p.shape[0], *(1,) * (len(shape) - p.ndim + 1), *p.shape[1:]))
    terms = xp.broadcast_to(xp.astype(p, dtype), (p.shape[0], *shape))
    points = xp.broadcast_to(xp.astype(x, dtype), terms.shape)
    return give(api.last_prefix((points, terms), ops.AFFINE, axis=0, order=order)[1])
