"""Segments as arrays of JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from upsweep.arguments import ShapeError
from upsweep.host import offsets, starts
from upsweep.segments import LISTS, Segments, check_form, checked, no_groups


def heads_of(segments: Segments | None, x: Array, dim: int) -> Array | None:
    """Booleans of the rank of x that are true where a segment starts; axes of one item hold for all of x's. Of traced segments
    the form alone can be checked.
    """
    segments = checked(segments)
    if segments is None:
        return None
    no_groups(segments)
    values, n = segments.values, x.shape[dim]
    if isinstance(values, Tracer):
        check_form(segments.spelling, values, x.shape, n)
        flags = _traced(segments.spelling, values, n, dim)
    else:
        flags = jnp.asarray(starts(_near(segments), x.shape, dim % x.ndim))
    if flags.ndim == 1:
        flags = flags.reshape([-1 if d == dim + x.ndim else 1 for d in range(x.ndim)])
    return flags


def offsets_of(segments: Segments, x: Array, dim: int) -> Array:
    """The start of each segment, and the end of the last one. Their number must be known where the call is traced."""
    values = segments.values
    if not isinstance(values, Tracer):
        return jnp.asarray(offsets(_near(segments), x.shape, dim % x.ndim))
    if segments.spelling not in LISTS:
        raise ShapeError(
            "a traced call must know the number of segments: pass offsets or lengths, whose shape tells it"
        )
    check_form(segments.spelling, values, x.shape, x.shape[dim])
    return values if segments.spelling == "offsets" else _ended(values)


def _near(segments: Segments) -> Segments:
    """The segments with JAX's arrays brought to the host; values of other kinds stay."""
    values = segments.values
    return Segments(segments.spelling, np.asarray(values) if isinstance(values, Array) else values)


def _traced(spelling: str, values: Any, n: int, dim: int) -> Array:
    if spelling == "flags":
        return values.astype(bool)
    if spelling in ("ends", "keys"):
        along = jnp.moveaxis(values, dim if values.ndim > 1 else 0, 0)
        behind = along[:-1] != 0 if spelling == "ends" else along[1:] != along[:-1]
        changed = jnp.concatenate([jnp.ones_like(along[:1], bool), behind])
        return jnp.moveaxis(changed, 0, dim if values.ndim > 1 else 0)
    begins = values if spelling == "offsets" else _ended(values)
    return jnp.zeros(n + 1, bool).at[begins].set(True)[:n]


def _ended(lengths: Array) -> Array:
    """Offsets from lengths, whose sums would wrap in the dtype of narrow ones."""
    return jnp.concatenate([jnp.zeros(1, int), jnp.cumsum(lengths, dtype=int)])
