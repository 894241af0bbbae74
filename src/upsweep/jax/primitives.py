"""Scans as primitives of JAX: how one is run in XLA's buffers, and batched."""

from __future__ import annotations

from functools import partial
from inspect import signature
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
from upsweep.jax.buffers import in_place, result_of, varying_alike
from upsweep.operator import Operator
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
    made = tuple(
        None if stored is None else jax.ShapeDtypeStruct(shape, d) for stored, d in zip(plan.stores, results)
    )
    return in_place(_scan_into, (plan,), made, xs, starts, for_rows(heads, shape, dim))


def for_rows(heads: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Flags of the rank of a scan, 1-D where they hold for all rows, else of its shape."""
    if heads is None:
        return None
    return heads.reshape(-1) if heads.size == heads.shape[dim] else jnp.broadcast_to(heads, shape)


def _scan_into(plan: Plan, outs: Any, xs: Any, starts: Any, heads: Any) -> None:
    # The next scan like this one is remembered.
    if len(xs) == 1 and starts is heads is None and plan.order == "tree":
        up.scan(xs[0], plan.op, axis=plan.axis, exclusive=plan.exclusive, reverse=plan.reverse, out=outs[0])
        return
    on = engines.load(engines.choose(xs))
    views = [x if x.shape == plan.shape else on.broadcast(x, plan.shape, x.dtype, xs[-1]) for x in xs]
    on.run(plan, views, outs, starts, heads)


def none_if_zero(tangent: Any) -> Any:
    return None if tangent is None or isinstance(tangent, ad.Zero) else tangent


class _Primitive(Primitive):
    """A primitive whose operands all vary over the devices of a mesh over which any of them does, as those of JAX's own do."""

    def bind(self, *args: Any, **params: Any) -> Any:
        return super().bind(*varying_alike(args), **params)


def primitive(name: str, run: Any, jvp: Any, transpose: Any, initial: int) -> Primitive:
    """A primitive of one result, with the shape of its first operand; a batch stands in front. `initial` is the place of that
    operand, where it is given.
    """

    def like(x: Any, *_: Any, **__: Any) -> ShapedArray:
        return result_of(x)

    def batch(made: Primitive, args: Any, dims: Any, **params: Any) -> Any:
        whole = (0, initial) if params["started"] else (0,)
        return made.bind(*in_front(args, dims, whole), **params), 0

    return registered(name, run, like, jvp, transpose, batch, several=False)


def registered(
    name: str, run: Any, shapes: Any, jvp: Any, transpose: Any, batch: Any, *, several: bool
) -> Primitive:
    """A primitive that runs a function, whose keywords are constants of a compilation. `shapes` gives the types of its results,
    each by `result_of`. `batch` is given the primitive first. `several`: results come in a list.
    """
    made = _Primitive(f"upsweep_{name}")
    made.multiple_results = several
    statics = [p.name for p in signature(run).parameters.values() if p.kind is p.KEYWORD_ONLY]
    made.def_impl(jax.jit(run, static_argnames=statics))
    made.def_abstract_eval(shapes)
    mlir.register_lowering(made, mlir.lower_fun(run, multiple_results=several))
    ad.primitive_jvps[made] = jvp
    ad.primitive_transposes[made] = transpose
    batching.primitive_batchers[made] = partial(batch, made)
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


def given(rest: Any, started: bool) -> tuple[Any, Any]:
    """Initial and heads, of which either may be missing."""
    initial = rest[0] if started else None
    return initial, rest[-1] if len(rest) > started else None


def present(*values: Any) -> list[Any]:
    return [v for v in values if v is not None]
