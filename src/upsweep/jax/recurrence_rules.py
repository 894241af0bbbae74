"""Linear recurrences as primitives of JAX: how they are run, differentiated, transposed and batched.

The tangent of `h[t] = a[t] h[t-1] + b[t]` is the recurrence with a; its transpose is the one that runs the other way,
`s[t] = g[t] + a[t+1] s[t+1]`.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.interpreters import ad

import upsweep as up
from upsweep.adjoint import recurrence_gradient
from upsweep.jax.buffers import in_place, like
from upsweep.jax.neighbours import following, over_starts, previous, row_shape, starts_of
from upsweep.jax.primitives import call, for_rows, given, none_if_zero, present, primitive
from upsweep.operators import ops


def recurrence(
    dim: int, reverse: bool, a: Array, b: Array, initial: Any, heads: Any, order: str = "tree"
) -> Array:
    """`dim` is counted from the end, where a batch in front changes nothing. Axes of one item of a and heads hold for all of
    b's.
    """
    how = {"dim": dim, "reverse": reverse, "order": order, "started": initial is not None}
    return _recurrence.bind(b, a, *present(initial, heads), **how)


def _recurrence_run(b: Any, a: Any, *rest: Any, dim: int, reverse: bool, order: str, started: bool) -> Array:
    initial, heads = given(rest, started)
    start = None if initial is None else (jnp.ones_like(initial), initial)
    return call(ops.AFFINE, dim, False, reverse, (a, b), start, heads, order, keep=(1,))[1]


def _recurrence_jvp(
    primals: Any, tangents: Any, *, dim: int, reverse: bool, order: str, started: bool
) -> Any:
    b, a, *rest = primals
    initial, heads = given(rest, started)
    h = recurrence(dim, reverse, a, b, initial, heads, order)
    total, da = ad.instantiate_zeros(tangents[0]), none_if_zero(tangents[1])
    if da is not None and h.shape[dim]:
        first = jnp.zeros(row_shape(h, dim), h.dtype) if initial is None else initial.astype(h.dtype)
        total = da * previous(h, first, heads, dim, reverse) + total
    d_initial = none_if_zero(tangents[2] if started else None)
    return h, recurrence(dim, reverse, a, total, d_initial, heads, order).astype(h.dtype)


def _recurrence_transpose(
    g: Any, b: Any, a: Any, *rest: Any, dim: int, reverse: bool, order: str, started: bool
) -> Any:
    initial, heads = given(rest, started)
    if isinstance(g, ad.Zero) or g.shape[dim] == 0:
        return [None] * (2 + len(rest))
    if order == "tree" and a.shape == g.shape:
        s = _adjoint_of(dim, reverse, a, g, heads)
    else:
        # The last one is not read.
        later = a if a.shape[dim] == 1 else following(a, dim, reverse)
        s = recurrence(dim, not reverse, later, g, None, heads, order)
    into = [over_starts(a * s, heads, dim, reverse).astype(initial.aval.dtype)] if started else []
    return [s, None, *into, *[None] * (len(rest) - started)]


_recurrence = primitive("recurrence", _recurrence_run, _recurrence_jvp, _recurrence_transpose, 2)


def _adjoint_of(dim: int, reverse: bool, a: Array, g: Array, heads: Any) -> Array:
    """`s[t] = g[t] + a[t+1] s[t+1]` against the direction of a recurrence, in tree order: no copy of a begins an item later."""
    return _adjoint.bind(g, a, *present(heads), dim=dim, reverse=reverse, started=False)


def _adjoint_run(g: Any, a: Any, *rest: Any, dim: int, reverse: bool, started: bool) -> Array:
    _, heads = given(rest, started)
    return in_place(_adjoint_into, (dim, reverse), (like(g),), g, a, for_rows(heads, g.shape, dim))[0]


def _adjoint_into(dim: int, reverse: bool, outs: Any, g: Any, a: Any, heads: Any) -> None:
    segments = None if heads is None else up.segments.flags(heads)
    recurrence_gradient(g, a, axis=dim, reverse=reverse, segments=segments, out=outs[0])


def _adjoint_jvp(primals: Any, tangents: Any, *, dim: int, reverse: bool, started: bool) -> Any:
    g, a, *rest = primals
    _, heads = given(rest, started)
    s = _adjoint_of(dim, reverse, a, g, heads)
    total, da = ad.instantiate_zeros(tangents[0]), none_if_zero(tangents[1])
    if da is not None:
        within = da * s if heads is None else jnp.where(starts_of(heads, dim, reverse), 0, da * s)
        total = total + following(within, dim, reverse)
    return s, _adjoint_of(dim, reverse, a, total, heads).astype(s.dtype)


def _adjoint_transpose(g: Any, b: Any, a: Any, *rest: Any, dim: int, reverse: bool, started: bool) -> Any:
    if isinstance(g, ad.Zero):
        return [None] * (2 + len(rest))
    return [recurrence(dim, reverse, a, g, *given(rest, started)), None, *[None] * len(rest)]


_adjoint = primitive("adjoint", _adjoint_run, _adjoint_jvp, _adjoint_transpose, 0)
