"""JAX's operations that the layers need, batches of batches, and recurrences in order of packed sequences."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.custom_batching import custom_vmap

from upsweep import layers
from upsweep.jax.operands import array
from upsweep.jax.recurrence_rules import recurrence


def _offsets(cu_seqlens: Array, steps: int, _: Array) -> Array:
    """Offsets as they are, checked. Traced ones cannot be checked: they are changed to go from 0 to the steps, and never to
    fall.
    """
    if not isinstance(cu_seqlens, Tracer):
        layers.sorted_to(np.asarray(cu_seqlens), steps)
        return cu_seqlens
    return jnp.clip(jax.lax.cummax(cu_seqlens), 0, steps).at[0].set(0).at[-1].set(steps)


JAX = layers.Library(
    dtype=np.dtype,
    # XLA has its own error for arrays on two devices.
    beside=lambda x, name, like: None,
    lines=lambda x: x,
    cast=lambda x, dtype: x.astype(dtype),
    offsets=_offsets,
    maths=SimpleNamespace(
        exp=jnp.exp, expm1=jnp.expm1, sqrt=jnp.sqrt, sigmoid=jax.nn.sigmoid, softplus=jax.nn.softplus
    ),
)


def arrays(*given: Any) -> list[Any]:
    """Operands as arrays of JAX; None for None."""
    return [None if x is None else array(x) for x in given]


def words(offsets: Any) -> Any:
    """Offsets as two words for each int64: the engines read int64, which JAX may not have."""
    if offsets is None:
        return None
    if offsets.dtype == np.int64:
        return jax.lax.bitcast_convert_type(offsets, np.int32)
    return jnp.stack([offsets, jnp.zeros_like(offsets)], -1)


def of_words(offsets: Any) -> Any:
    """The memory of such words as int64."""
    if isinstance(offsets, np.ndarray):
        return offsets.view(np.int64)[:, 0]
    return None if offsets is None else offsets.over_all(offsets.shape[:1], np.dtype(np.int64))


def over_batches(run: Callable[..., Any], alone: Callable[..., bool]) -> Callable[..., Any]:
    """`run(along, fixed)` with a rule for vmap. Along arrays have the batch in front, as the results have: a batch of batches is
    one larger batch, unless `alone(along, fixed)` says that each goes by itself, or what is fixed differs between them."""

    @custom_vmap
    def call(along: Any, fixed: Any) -> Any:
        return run(along, fixed)

    @call.def_vmap
    def _(size: int, batched: Any, along: Any, fixed: Any) -> Any:
        def spread(x: Array, has: bool) -> Array:
            return x if has else jnp.broadcast_to(x, (size, *x.shape))

        there = jax.tree.map(spread, along, batched[0])
        if not size or alone(along, fixed) or any(jax.tree.leaves(batched[1])):
            made = jax.lax.map(lambda each: call(*each), (there, jax.tree.map(spread, fixed, batched[1])))
        else:
            folded = call(jax.tree.map(lambda x: x.reshape(size * x.shape[1], *x.shape[2:]), there), fixed)
            made = jax.tree.map(lambda y: y.reshape(size, y.shape[0] // size, *y.shape[1:]), folded)
        return made, jax.tree.map(lambda _: True, made)

    return call


def in_order(a: Array, b: Array, initial: Any, offsets: Any) -> tuple[Array, Array]:
    """`h[t] = a[t] h[t-1] + b[t]` along the steps, and the last states, by functions that have all derivatives. Axes of one item
    of a hold for all of b's.
    """
    batch, steps, channels = b.shape
    sequences = batch if offsets is None else offsets.shape[0] - 1
    start = jnp.zeros((sequences, channels), b.dtype) if initial is None else initial
    if not steps:
        return b, start
    if offsets is None:
        h = _walked(a, b, initial, None)
        return h, h[:, -1]
    first, behind = offsets[:-1], offsets[1:]
    empty = first == behind
    # Items behind the end are dropped.
    there = jnp.where(empty, steps, first)
    heads = jnp.zeros(steps, bool).at[there].set(True, mode="drop").reshape(1, -1, 1)
    if initial is not None:
        at = jnp.minimum(first, steps - 1)
        ones = _walked(jnp.broadcast_to(a, b.shape)[0, at][:, None], b[0, at][:, None], initial, None)[:, 0]
        b = b.at[0, there].set(ones, mode="drop")
    h = _walked(a, b, None, heads)
    return h, jnp.where(empty[:, None], start, h[0, jnp.maximum(behind - 1, 0)])


def _walked(a: Array, b: Array, initial: Any, heads: Any) -> Array:
    return recurrence(-2, False, a, b, initial, heads, "sequential")
