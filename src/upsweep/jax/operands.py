"""The operands of a scan beside its array: multipliers, flags, starts, dtypes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from upsweep import arguments
from upsweep.arguments import check_broadcasts, check_flags, check_starts
from upsweep.dtypes import accumulator, kind_of
from upsweep.engine import DTypeError
from upsweep.jax.neighbours import row_shape


def array(x: Any, dtype: Any = None) -> Array:
    """An array, of JAX's numbers."""
    if isinstance(x, Array) and jnp.issubdtype(x.dtype, jax.dtypes.extended):
        raise DTypeError(f"{x.dtype} is no number to scan: pass jax.random.key_data(x), for instance")
    try:
        return jnp.asarray(x, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        # What is traced has errors of its own.
        if isinstance(error, jax.errors.JAXTypeError):
            raise
        raise DTypeError(f"JAX makes no array of this {type(x).__name__}: pass numbers ({error})") from error


def held(value: Any, dtype: Any, what: str) -> Array:
    """A value as an array of `dtype`; a DTypeError where it would become another value, as far as that is known: a GPU would be
    waited for, and a traced array has no value yet.
    """
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
    if not (known or isinstance(value, Tracer) or jnp.can_cast(value.dtype, dtype, "safe")) and _near(value):
        arguments.held(np.asarray(value), np.dtype(dtype), what, "convert the array first")
    return jnp.asarray(value, dtype)


def _near(x: Array) -> bool:
    """Whether an array lies in this machine's memory."""
    return x.is_fully_addressable and all(d.platform == "cpu" for d in x.devices())


def multiplier(a: Any, b: Array, what: str) -> Array:
    """A multiplier of b's rank, whose axes of one item hold for all of b's. Numbers and arrays of another dtype than b's are read
    in the dtype that is computed in: half precision would make 1 of 0.999.
    """
    alike = getattr(a, "dtype", None) == b.dtype
    return ranked(held(a, b.dtype if alike else accumulator(np.dtype(b.dtype)), what), b)


def rows_of(initial: Any, x: Array, dim: int) -> Array:
    """One start for each row, in the dtype that is computed with."""
    rows = row_shape(x, dim)
    start = held(initial, accumulator(np.dtype(x.dtype)), "initial")
    check_starts(start.shape, rows)
    return jnp.broadcast_to(start, rows)


def ranked(a: Array, b: Array) -> Array:
    """A multiplier of b's rank, whose axes of one item hold for all of b's."""
    check_broadcasts("a", a.shape, b.shape)
    return a.reshape((1,) * (b.ndim - a.ndim) + a.shape)


def spread(x: Array, like: Array, what: str) -> Array:
    """x in the shape of another array."""
    check_broadcasts(what, x.shape, like.shape)
    return jnp.broadcast_to(x, like.shape)


def flags_of(flags: Any, x: Array, dim: int) -> Array:
    """Booleans of the rank of x, from flags of its shape or 1-D along the axis; axes of one item hold for all of x's."""
    flags = array(flags)
    check_flags(flags, kind_of(flags.dtype), x.shape, dim)
    flags = flags.astype(bool)
    shape = [-1 if d == dim + x.ndim else 1 for d in range(x.ndim)]
    return flags if flags.ndim == x.ndim else flags.reshape(shape)


def single(x: Array) -> Array:
    """Half precision as float32, in which `upsweep` computes it."""
    return x.astype(jnp.float32) if x.itemsize < 4 and jnp.issubdtype(x.dtype, jnp.floating) else x


def promoted(*xs: Any) -> np.dtype:
    """The dtype that JAX computes in with arrays like these."""
    try:
        return jnp.result_type(*xs)
    except ValueError as error:
        # JAX 0.6 has no public name for its TypePromotionError.
        names = " and ".join(str(x.dtype) for x in xs)
        raise DTypeError(
            f"JAX has no dtype for {names} together: convert one array first, x.astype('float32') for instance"
        ) from error


def inexact(dtype: Any) -> np.dtype:
    """Integers and booleans become JAX's default floating dtype."""
    return np.dtype(dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.result_type(float))
