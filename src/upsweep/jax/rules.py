"""Scans as primitives of JAX: how each is run, differentiated, transposed and batched.

A scan is a recurrence, and so is its tangent: with `y[t] = f(y[t-1], x[t])`, L and R the partial derivatives of f there,
`dy[t] = L[t] dy[t-1] + R[t] dx[t]`. That is linear in dx, and its transpose is the recurrence that runs the other way. JAX
makes gradients, hessians and forward mode of these two rules.
"""

from __future__ import annotations

from functools import lru_cache
from inspect import signature
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import upsweep as up
from upsweep import engine as engines
from upsweep.dtypes import accumulator
from upsweep.jax.buffers import in_place
from upsweep.jax.neighbours import (
    first_of,
    following,
    one_at_starts,
    over_starts,
    previous,
    row_shape,
    starts_of,
)
from upsweep.operator import Operator, OperatorError, identity_of, resolve
from upsweep.operators import BUILTIN, form_of, ops
from upsweep.plan import Plan
from upsweep.planning import plan_of


def call(
    op: Operator,
    dim: int,
    exclusive: bool,
    reverse: bool,
    xs: tuple[Array, ...],
    starts: Any,
    heads: Any = None,
    order: str = "tree",
    keep: tuple[int, ...] | None = None,
) -> Any:
    """The scan itself, of the components that `keep` names, or of all. The last array has the shape of the scan. In the other
    arrays and in heads, an axis of one item holds for all items.
    """
    shape = xs[-1].shape
    dtypes, shapes = tuple(np.dtype(x.dtype) for x in xs), (shape,) * len(xs)
    how = exclusive, reverse, starts is not None, None, heads is not None, None, False, keep, order
    # A mistake is named here, not by XLA.
    plan, results = plan_of(op, dtypes, shapes, dim, *how)
    if heads is not None:
        alone = heads.size == heads.shape[dim]
        heads = heads.reshape(-1) if alone else jnp.broadcast_to(heads, shape)
    made = tuple(
        None if stored is None else jax.ShapeDtypeStruct(shape, d) for stored, d in zip(plan.stores, results)
    )
    return in_place(_scan_into, (plan,), made, xs, starts, heads)


def _scan_into(plan: Plan, outs: Any, xs: Any, starts: Any, heads: Any) -> None:
    # The next scan like this one is remembered.
    if len(xs) == 1 and starts is heads is None and plan.order == "tree":
        up.scan(xs[0], plan.op, axis=plan.axis, exclusive=plan.exclusive, reverse=plan.reverse, out=outs[0])
        return
    on = engines.load(engines.choose(xs))
    views = [x if x.shape == plan.shape else on.broadcast(x, plan.shape, x.dtype, xs[-1]) for x in xs]
    on.run(plan, views, outs, starts, heads)


def _none_if_zero(tangent: Any) -> Any:
    return None if tangent is None or isinstance(tangent, ad.Zero) else tangent


def _primitive(name: str, run: Any, jvp: Any, transpose: Any, initial: int) -> Primitive:
    """A primitive of one result, with the shape of its first operand; a batch stands in front. `initial` is the place of that
    operand, where it is given.
    """
    made = Primitive(f"upsweep_{name}")
    statics = [p.name for p in signature(run).parameters.values() if p.kind is p.KEYWORD_ONLY]
    made.def_impl(jax.jit(run, static_argnames=statics))
    made.def_abstract_eval(lambda x, *_, **__: ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(made, mlir.lower_fun(run, multiple_results=False))
    ad.primitive_jvps[made] = jvp
    ad.primitive_transposes[made] = transpose

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        whole = (0, initial) if params["started"] else (0,)
        return made.bind(*in_front(args, dims, whole), **params), 0

    batching.primitive_batchers[made] = batch
    return made


def in_front(args: Any, dims: Any, whole: Any = None) -> list[Array]:
    """An array with the batch in front, whether it is batched or the same for all: of the batch's size if it is among the
    `whole` ones (by default all are), else of one item.
    """
    (size, *_) = (x.shape[d] for x, d in zip(args, dims) if d is not None)
    sizes = [size if whole is None or i in whole else 1 for i in range(len(args))]
    return [
        jnp.broadcast_to(x, (n, *x.shape)) if d is None else jnp.moveaxis(x, d, 0)
        for x, d, n in zip(args, dims, sizes)
    ]


def _given(rest: Any, started: bool) -> tuple[Any, Any]:
    """Initial and heads, of which either may be missing."""
    initial = rest[0] if started else None
    return initial, rest[-1] if len(rest) > started else None


def _present(*values: Any) -> list[Any]:
    return [v for v in values if v is not None]


# --- the scan of one array --------------------------------------------------------------------------------------------


def scan(
    op: Operator, dim: int, exclusive: bool, reverse: bool, x: Array, initial: Any, heads: Any, order: str = "tree"
) -> Array:  # fmt: skip
    """`dim` is counted from the end, where a batch in front changes nothing."""
    params = {"op": op, "dim": dim, "exclusive": exclusive, "reverse": reverse, "order": order}
    return _scan.bind(x, *_present(initial, heads), started=initial is not None, **params)


def _scan_run(
    x: Any, *rest: Any, op: Operator, dim: int, exclusive: bool, reverse: bool, order: str, started: bool
) -> Array:
    initial, heads = _given(rest, started)
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
    initial, heads = _given(rest, started)
    y = scan(op, dim, exclusive, reverse, x, initial, heads, order)
    dx, d_initial = ad.instantiate_zeros(tangents[0]), _none_if_zero(tangents[1] if started else None)
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
    initial, heads = _given(rest, started)
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
    known = form_of(resolve(op, (dtype,)), (accumulator(dtype),))
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


_scan = _primitive("scan", _scan_run, _scan_jvp, _scan_transpose, 1)


# --- linear recurrences -----------------------------------------------------------------------------------------------


def recurrence(
    dim: int, reverse: bool, a: Array, b: Array, initial: Any, heads: Any, order: str = "tree"
) -> Array:
    """`dim` is counted from the end, where a batch in front changes nothing. Axes of one item of a and heads hold for all of
    b's.
    """
    how = {"dim": dim, "reverse": reverse, "order": order, "started": initial is not None}
    return _recurrence.bind(b, a, *_present(initial, heads), **how)


def _recurrence_run(b: Any, a: Any, *rest: Any, dim: int, reverse: bool, order: str, started: bool) -> Array:
    initial, heads = _given(rest, started)
    start = None if initial is None else (jnp.ones_like(initial), initial)
    return call(ops.AFFINE, dim, False, reverse, (a, b), start, heads, order, keep=(1,))[1]


def _recurrence_jvp(
    primals: Any, tangents: Any, *, dim: int, reverse: bool, order: str, started: bool
) -> Any:
    b, a, *rest = primals
    initial, heads = _given(rest, started)
    h = recurrence(dim, reverse, a, b, initial, heads, order)
    total, da = ad.instantiate_zeros(tangents[0]), _none_if_zero(tangents[1])
    if da is not None and h.shape[dim]:
        first = jnp.zeros(row_shape(h, dim), h.dtype) if initial is None else initial.astype(h.dtype)
        total = da * previous(h, first, heads, dim, reverse) + total
    d_initial = _none_if_zero(tangents[2] if started else None)
    return h, recurrence(dim, reverse, a, total, d_initial, heads, order)


def _recurrence_transpose(
    g: Any, b: Any, a: Any, *rest: Any, dim: int, reverse: bool, order: str, started: bool
) -> Any:
    initial, heads = _given(rest, started)
    if isinstance(g, ad.Zero) or g.shape[dim] == 0:
        return [None] * (2 + len(rest))
    # The last one is not read.
    later = a if a.shape[dim] == 1 else following(a, dim, reverse)
    s = recurrence(dim, not reverse, later, g, None, heads, order)
    into = [over_starts(a * s, heads, dim, reverse).astype(initial.aval.dtype)] if started else []
    return [s, None, *into, *[None] * (len(rest) - started)]


_recurrence = _primitive("recurrence", _recurrence_run, _recurrence_jvp, _recurrence_transpose, 2)
