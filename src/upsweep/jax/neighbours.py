"""The neighbours before and after each item, in the direction of a scan, and the starts of segments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def along(x: Array, dim: int, reverse: bool, start: int, stop: int | None) -> Array:
    """Items `[start, stop)`, counted in the direction of the scan."""
    n = x.shape[dim]
    stop = n if stop is None else stop
    first, last = (n - stop, n - start) if reverse else (start, stop)
    return jax.lax.slice_in_dim(x, first, last, axis=dim)


def join(parts: list[Array], dim: int, reverse: bool) -> Array:
    return jnp.concatenate(parts[::-1] if reverse else parts, axis=dim)


def previous(x: Array, first: Array, heads: Any, dim: int, reverse: bool) -> Array:
    """`x[t-1]` at t, `first` (one a row) where a segment starts."""
    first = jnp.expand_dims(first, dim + x.ndim)
    before = join([first, along(x, dim, reverse, 0, x.shape[dim] - 1)], dim, reverse)
    return before if heads is None else jnp.where(starts_of(heads, dim, reverse), first, before)


def following(x: Array, dim: int, reverse: bool) -> Array:
    last = jnp.zeros_like(along(x, dim, reverse, 0, 1))
    return join([along(x, dim, reverse, 1, None), last], dim, reverse)


def first_of(x: Array, dim: int, reverse: bool) -> Array:
    return jnp.squeeze(along(x, dim, reverse, 0, 1), dim)


def starts_of(heads: Array, dim: int, reverse: bool) -> Array:
    """True where a segment starts in the direction of the scan; the first item starts one whatever its flag."""
    starts = jnp.roll(heads, -1, dim) if reverse else heads
    first = jnp.ones_like(along(starts, dim, reverse, 0, 1))
    return join([first, along(starts, dim, reverse, 1, None)], dim, reverse)


def over_starts(x: Array, heads: Any, dim: int, reverse: bool) -> Array:
    """The sum of x over the items that start a segment."""
    if heads is None:
        return first_of(x, dim, reverse)
    return jnp.where(starts_of(heads, dim, reverse), x, 0).sum(dim)


def one_at_starts(x: Array, heads: Any, dim: int, reverse: bool) -> Array:
    """x, and 1 at the items that start a segment."""
    if heads is not None:
        return jnp.where(starts_of(heads, dim, reverse), 1, x)
    one = jnp.ones_like(along(x, dim, reverse, 0, 1))
    return join([one, along(x, dim, reverse, 1, None)], dim, reverse)


def row_shape(x: Any, dim: int) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(x.shape) if d != dim + x.ndim)
