"""The operands of a scan beside its array: multipliers, flags, starts, dtypes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from upsweep import arguments
from upsweep.arguments import ShapeError
from upsweep.dtypes import accumulator
from upsweep.engine import DTypeError
from upsweep.jax.neighbours import row_shape


def held(value: Any, dtype: Any, what: str) -> Array:
    """A value as an array of `dtype`; a DTypeError where it would become another value."""
    if not isinstance(value, Array):
        return jnp.asarray(arguments.held(value, np.dtype(dtype), what, "convert the array first"))
    known = not isinstance(value, Tracer) and value.ndim == 0 and value.dtype.kind == "f"
    if not (
        jnp.can_cast(value.dtype, dtype, "same_kind")
        or (value.dtype.kind in "iu" and np.dtype(dtype).kind in "iu")
        or (known and float(value).is_integer())
    ):
        raise DTypeError(
            f"{what} of {value.dtype} is no value of {dtype}, in which this is computed: convert the array first"
        )
    return jnp.asarray(value, dtype)


def rows_of(initial: Any, x: Array, dim: int) -> Array:
    """One start for each row, in the dtype that is computed with."""
    rows = row_shape(x, dim)
    start = held(initial, accumulator(np.dtype(x.dtype)), "initial")
    if start.shape not in ((), rows):
        raise ShapeError(f"initial has shape {start.shape}; pass a scalar or one value a row, shape {rows}")
    return jnp.broadcast_to(start, rows)


def ranked(a: Array, b: Array) -> Array:
    """A multiplier of b's rank, whose axes of one item hold for all of b's."""
    if not _fits(a, b):
        raise ShapeError(f"a of shape {a.shape} does not broadcast to b's shape {b.shape}")
    return a.reshape((1,) * (b.ndim - a.ndim) + a.shape)


def spread(x: Array, like: Array, what: str) -> Array:
    """x in the shape of another array."""
    if not _fits(x, like):
        raise ShapeError(f"{what} of shape {x.shape} do not broadcast to {like.shape}")
    return jnp.broadcast_to(x, like.shape)


def _fits(x: Array, like: Array) -> bool:
    """Whether x broadcasts to the shape of another array."""
    return x.ndim <= like.ndim and all(m in (1, n) for m, n in zip(reversed(x.shape), reversed(like.shape)))


def flags_of(flags: Any, x: Array, dim: int) -> Array:
    """Booleans of the rank of x, from flags of its shape or 1-D along the axis; axes of one item hold for all of x's."""
    flags = jnp.asarray(flags).astype(bool)
    if flags.ndim == 1:
        flags = flags.reshape([-1 if d == dim + x.ndim else 1 for d in range(x.ndim)])
    if not _fits(flags, x):
        raise ShapeError(f"flags have shape {flags.shape}; pass one for each item, shape {x.shape}")
    return flags if flags.shape[dim] == x.shape[dim] else jnp.broadcast_to(flags, x.shape)


def single(x: Array) -> Array:
    """Half precision as float32, in which `upsweep` computes it."""
    return x.astype(jnp.float32) if x.itemsize < 4 and jnp.issubdtype(x.dtype, jnp.floating) else x


def inexact(dtype: Any) -> np.dtype:
    """Integers and booleans become JAX's default floating dtype."""
    return np.dtype(dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.result_type(float))
