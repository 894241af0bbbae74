"""The scan of one array as a primitive of JAX: how it is run, differentiated, transposed and batched.

A scan is a recurrence, and so is its tangent: with `y[t] = f(y[t-1], x[t])`, L and R the partial derivatives of f there,
`dy[t] = L[t] dy[t-1] + R[t] dx[t]`. That is linear in dx, and its transpose is the recurrence that runs the other way. JAX
makes gradients, hessians and forward mode of these two rules.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.interpreters import ad

from upsweep.dtypes import accumulator
from upsweep.jax.neighbours import (
    first_of,
    following,
    one_at_starts,
    over_starts,
    previous,
    row_shape,
    starts_of,
)
from upsweep.jax.primitives import call, given, none_if_zero, present, primitive
from upsweep.jax.recurrence_rules import recurrence
from upsweep.operator import Operator, OperatorError, identity_of, resolve
from upsweep.operators import BUILTIN, ops, variant_of


def scan(
    op: Operator, dim: int, exclusive: bool, reverse: bool, x: Array, initial: Any, heads: Any, order: str = "tree"
) -> Array:  # fmt: skip
    """`dim` is counted from the end, where a batch in front changes nothing."""
    params = {"op": op, "dim": dim, "exclusive": exclusive, "reverse": reverse, "order": order}
    return _scan.bind(x, *present(initial, heads), started=initial is not None, **params)


def _scan_run(
    x: Any, *rest: Any, op: Operator, dim: int, exclusive: bool, reverse: bool, order: str, started: bool
) -> Array:
    initial, heads = given(rest, started)
    return call(op, dim, exclusive, reverse, (x,), None if initial is None else (initial,), heads, order)[0]


def _scan_jvp(
    primals: Any,
    tangents: Any,
    *,
    op: Operator,
    dim: int,
    exclusive: bool,
    reverse: bool,
    order: str,
    started: bool,
) -> Any:
    x, rest = primals[0], primals[1:]
    initial, heads = given(rest, started)
    y = scan(op, dim, exclusive, reverse, x, initial, heads, order)
    dx, d_initial = ad.instantiate_zeros(tangents[0]), none_if_zero(tangents[1] if started else None)
    if x.shape[dim] == 0:
        return y, jnp.zeros_like(y)
    if op == ops.ADD:
        return y, scan(op, dim, exclusive, reverse, dx, d_initial, heads, order)
    before = y if exclusive else _before(op, x, y, initial, heads, dim, reverse)
    left, right = _partials(op, before, x)
    # The first prefix is the first item itself.
    if initial is None and not exclusive:
        right = one_at_starts(right, heads, dim, reverse)
    dy = recurrence(dim, reverse, left, right * dx, d_initial, heads, order)
    if not exclusive:
        return y, dy
    first = jnp.zeros(row_shape(dy, dim), dy.dtype) if d_initial is None else d_initial.astype(dy.dtype)
    return y, previous(dy, first, heads, dim, reverse)


def _scan_transpose(
    g: Any,
    x: Any,
    *rest: Any,
    op: Operator,
    dim: int,
    exclusive: bool,
    reverse: bool,
    order: str,
    started: bool,
) -> Any:
    """The transpose for the one linear operator, add."""
    initial, heads = given(rest, started)
    if isinstance(g, ad.Zero) or g.shape[dim] == 0:
        return [None] * (1 + len(rest))
    inner = g
    if exclusive:
        inner = following(
            g if heads is None else jnp.where(starts_of(heads, dim, reverse), 0, g), dim, reverse
        )
    s = scan(op, dim, False, not reverse, inner, None, heads, order)
    into = []
    if started:
        into = [over_starts(s + g if exclusive else s, heads, dim, reverse).astype(initial.aval.dtype)]
    return [s, *into, *[None] * (len(rest) - started)]


def _before(op: Operator, x: Array, y: Array, initial: Any, heads: Any, dim: int, reverse: bool) -> Array:
    """The prefix before each item. Where there is none: the operator's identity or, for want of it, the item itself."""
    identity = identity_of(op, (accumulator(np.dtype(x.dtype)),))
    first = first_of(x, dim, reverse)
    if initial is not None:
        first = initial.astype(y.dtype)
    elif identity is not None:
        first = jnp.full_like(first, identity[0])
    return previous(y, first, heads, dim, reverse)


_MATHS = SimpleNamespace(
    where=jnp.where, ones_like=jnp.ones_like, zeros_like=jnp.zeros_like, sigmoid=jax.nn.sigmoid
)


def _partials(op: Operator, before: Array, x: Array) -> tuple[Array, Array]:
    """The partial derivatives of `before ⊕ x`. Of equal items the later one has the gradient."""
    dtype = np.dtype(x.dtype)
    known = variant_of(resolve(op, (dtype,)), (accumulator(dtype),))
    if known is not None and known[0].slopes is not None:
        return known[0].slopes(_MATHS, before, x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        _check_holomorphic(op)
    value, pull = jax.vjp(op.fn, before, x)
    return pull(jnp.ones_like(value))


@lru_cache
def _check_holomorphic(op: Operator) -> None:
    """The derivatives of complex numbers are those of holomorphic operators."""
    if op in BUILTIN.values():
        return
    with jax.ensure_compile_time_eval():
        value, pull = jax.vjp(op.fn, jnp.array(0.3 + 0.7j), jnp.array(-0.4 + 0.2j))
        one, turned = (pull(jnp.full_like(value, v)) for v in (1, 1j))
        if not all(np.allclose(1j * v, w) for v, w in zip(one, turned)):
            raise OperatorError(
                f"{op} is not holomorphic, so a scan by it has no complex derivatives: scan real and imaginary part"
            )


_scan = primitive("scan", _scan_run, _scan_jvp, _scan_transpose, 1)
