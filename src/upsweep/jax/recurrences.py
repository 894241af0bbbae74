"""Recurrences in time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from upsweep.advantages import stops_of
from upsweep.arguments import ShapeError, axis_of, followed, number
from upsweep.decays import half_lives, steps_of, weighted
from upsweep.dtypes import accumulator
from upsweep.engine import DTypeError
from upsweep.host import view
from upsweep.jax import filters
from upsweep.jax.advantages import advantages
from upsweep.jax.operands import (
    array,
    flags_of,
    held,
    inexact,
    multiplier,
    promoted,
    ranked,
    rows_of,
    single,
    spread,
)
from upsweep.jax.recurrence_rules import recurrence
from upsweep.jax.segments import heads_of
from upsweep.segments import Segments


def linear_recurrence(
    a: Any, b: Any, *, initial: Any = None, axis: int | None = None, reverse: bool = False,
    segments: Segments | None = None, order: str = "tree",
) -> Array:  # fmt: skip
    """`h[t] = a[t] h[t-1] + b[t]` from `h[-1] = initial`, differentiable in a, b and initial.

    Args:
        a: an array or number that broadcasts to the shape of b.
        b: an array, whose dtype holds a. Half precision is computed in float32, in which numbers and arrays of another dtype keep
            their digits.
        initial, axis, reverse, segments, order: as in `upsweep.linear_recurrence`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.linear_recurrence(0.5, jnp.ones(3), initial=2.0).tolist()
    [2.0, 2.0, 2.0]
    """
    b = array(b)
    dim = axis_of(axis, b.shape) - b.ndim
    a = multiplier(a, b, "a")
    start = None if initial is None else rows_of(initial, b, dim)
    return recurrence(dim, reverse, a, b, start, heads_of(segments, b, dim), order)


def ema(
    x: Any, alpha: Any = None, *, halflife: Any = None, times: Any = None, axis: int | None = None, initial: Any = None,
    segments: Segments | None = None, order: str = "tree",
) -> Array:  # fmt: skip
    """Exponential moving average `y[t] = (1 - alpha) y[t-1] + alpha x[t]`, as `upsweep.ema`, differentiable.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.ema(jnp.array([4.0, 8.0, 8.0]), halflife=1, times=jnp.array([0, 1, 3])).tolist()
    [4.0, 6.0, 7.5]
    """
    weighted(alpha, halflife, times, initial)
    x = array(x)
    x = x.astype(inexact(x.dtype))
    dim = axis_of(axis, x.shape) - x.ndim
    if alpha is None:
        halves = half_lives(jnp, _steps(times, x, dim), halflife)
        alpha = 1 - jnp.exp2(-jnp.where(halves < 0, jnp.nan, halves))
    dtype, x = x.dtype, single(x)
    weight = alpha = ranked(held(alpha, x.dtype, "alpha"), x)
    start, heads = None if initial is None else rows_of(initial, x, dim), heads_of(segments, x, dim)
    if start is None:
        first = jnp.arange(x.shape[dim]).reshape([-1 if d == dim + x.ndim else 1 for d in range(x.ndim)]) == 0
        weight = jnp.where(first if heads is None else first | heads, 1, alpha)
    # No fused multiply-add.
    b = jax.lax.optimization_barrier(weight * x)
    return recurrence(dim, False, 1 - alpha, b, start, heads, order).astype(dtype)


def _steps(times: Any, x: Array, dim: int) -> Any:
    """The time since the item before; 0 for the first item. Times that are not JAX's are subtracted as they are: float32 holds
    the seconds of a day, and no date."""
    if times is None:
        return np.ones(())
    own = isinstance(times, Array)
    return steps_of(jnp if own else np, times if own else view(times), x, dim % x.ndim)


def discounted_sum(
    rewards: Any, gamma: Any, dones: Any = None, *, axis: int | None = None, initial: Any = None, order: str = "tree"
) -> Array:  # fmt: skip
    """`g[t] = r[t] + gamma g[t+1]`, stopping where an episode is done, as `upsweep.discounted_sum`, differentiable in
    rewards, gamma and initial.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.discounted_sum(jnp.ones(4), 0.5, jnp.array([False, True, False, False])).tolist()
    [1.5, 1.0, 1.5, 1.0]
    """
    r = array(rewards)
    r = r.astype(inexact(r.dtype))
    dim, dtype = axis_of(axis, r.shape) - r.ndim, r.dtype
    weights = multiplier(gamma, r, "gamma")
    start = None if initial is None else rows_of(initial, r, dim)
    if dones is None or r.size == 0:
        return recurrence(dim, True, weights, r, start, None, order)
    done = flags_of(dones, r, dim)

    def cut(v: Array, start: int | None, stop: int | None) -> Array:
        return v[(..., slice(start, stop), *[slice(None)] * (-1 - dim))]

    heads = jnp.concatenate([jnp.ones_like(cut(done, 0, 1)), cut(done, 0, -1)], dim)
    if start is not None:
        # The end is rounded with its sum, not before.
        r = single(r)
        # No fused multiply-add.
        over, after = cut(done, -1, None), jnp.expand_dims(start.astype(r.dtype), dim)
        # The gradient of a weight that nothing is multiplied by is 0, also where the value is NaN or infinite.
        after = jax.lax.optimization_barrier(single(cut(weights, -1, None)) * jnp.where(over, 0, after))
        end = cut(r, -1, None) + jnp.where(over, 0, after)
        r = jnp.concatenate([cut(r, 0, -1), end], dim)
    return recurrence(dim, True, weights, r, None, heads, order).astype(dtype)


def gae(
    rewards: Any, values: Any, last_value: Any = None, dones: Any = None, *, gamma: Any, lam: Any, truncated: Any = None,
    next_values: Any = None, axis: int | None = None, order: str = "tree",
) -> Array:  # fmt: skip
    """Generalised advantage estimates, as `upsweep.gae`, differentiable: each of the gradient and the tangent is one scan.

    Args:
        rewards, values, last_value, dones, truncated, next_values, axis, order: as in `upsweep.gae`.
        gamma, lam: numbers, or JAX arrays: then the steps are composed, and these have gradients too.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.gae(jnp.ones(2), jnp.zeros(2), 0.0, gamma=0.5, lam=1.0).tolist()
    [1.5, 1.0]
    """
    followed(last_value, next_values, truncated)
    r, v = (x.astype(inexact(x.dtype)) for x in map(array, (rewards, values)))
    r, dim = spread(r, v, "rewards"), axis_of(axis, v.shape) - v.ndim
    ended, cut = (None if f is None else flags_of(f, v, dim) for f in (dones, truncated))
    every = next_values is not None
    after = spread(array(next_values), v, "next_values") if every else rows_of(last_value, v, dim)
    if jnp.iscomplexobj(after) and not jnp.issubdtype(promoted(r, v), jnp.complexfloating):
        raise DTypeError(f"next_values are {after.dtype}, values {v.dtype}: convert one of them first")
    if not isinstance(gamma, Array) and not isinstance(lam, Array):
        return advantages(r, v, after, ended, cut, number(gamma, "gamma"), number(lam, "lam"), dim, order)
    wide = promoted(single(r), single(v))
    discount, decay = (ranked(held(w, wide, what), v) for w, what in ((gamma, "gamma"), (lam, "lam")))
    if not every:
        last = jnp.expand_dims(after.astype(v.dtype), dim)
        after = jax.lax.slice_in_dim(jnp.concatenate([v, last], dim), 1, None, axis=dim)
    if ended is not None:
        after = jnp.where(ended, 0, after)
    stops = stops_of(ended, cut)
    stops = None if stops is None else jnp.broadcast_to(stops, v.shape)
    delta = single(r) + discount * single(after) - single(v)
    return discounted_sum(delta, discount * decay, stops, axis=dim, order=order).astype(promoted(r, v))


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter along an axis, as `upsweep.lfilter` (SciPy's signature), differentiable in b, a, x and zi.

    A filter is computed by the host: its poles are found by arithmetic of many digits, and it runs in float64 even where
    JAX has no 64 bits.

    Args:
        b, a: coefficients, as JAX arrays or as numbers; numbers count as being of the dtype of x.
        x, axis, zi: as in `upsweep.lfilter`.

    Returns:
        y, of x's shape; with `zi` the pair `(y, zf)`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.lfilter([1.0], [1.0, -0.5], jnp.array([1.0, 0.0, 0.0, 0.0])).tolist()
    [1.0, 0.5, 0.25, 0.125]
    """
    x = array(x)
    known = [v for v in (b, a, zi) if isinstance(v, Array)]
    dtype = accumulator(inexact(promoted(x, *known)))
    if any(np.iscomplexobj(v) for v in (b, a, zi) if not isinstance(v, Array)):
        dtype = np.promote_types(dtype, np.complex64)
    b, a = (array(c, dtype) for c in (b, a))
    if b.ndim != 1 or a.ndim != 1 or not b.size or not a.size:
        raise ShapeError(f"coefficients must be 1-D and not empty, got shapes {b.shape} and {a.shape}")
    dim = axis_of(axis, x.shape)
    x = jnp.moveaxis(x.astype(dtype), dim, -1)
    if zi is None:
        return jnp.moveaxis(filters.lfilter(b, a, x, None)[0], -1, dim)
    state = array(zi, dtype)
    whole = (*x.shape[:-1], max(b.size, a.size) - 1)
    moved = jnp.moveaxis(state, dim, -1) if state.ndim == x.ndim else state
    fits = [m in (1, n) for m, n in zip(moved.shape[:-1], whole)]
    if state.ndim != x.ndim or moved.shape[-1] != whole[-1] or not all(fits):
        raise ShapeError(
            f"zi has shape {state.shape}; along the axis it needs {whole[-1]} values for these coefficients"
        )
    return tuple(jnp.moveaxis(v, -1, dim) for v in filters.lfilter(b, a, x, jnp.broadcast_to(moved, whole)))
