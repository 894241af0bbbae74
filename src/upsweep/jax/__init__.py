"""Scans for JAX: inside jit, vmap and grad, with the bits of `upsweep`.

A scan works in XLA's own buffers, on the CPU and on a GPU, where it is queued on XLA's stream. Gradients are linear
recurrences that run the other way, as in `upsweep.torch`, and can be differentiated again.

>>> import jax, jax.numpy as jnp, upsweep.jax as uj
>>> jax.jit(jax.grad(lambda a: uj.linear_recurrence(a, jnp.ones(3)).sum()))(jnp.full(3, 0.5)).tolist()
[0.0, 1.5, 1.5]
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from upsweep.api import Op
from upsweep.arguments import ShapeError, axis_of
from upsweep.jax import filters, rules
from upsweep.dtypes import accumulator
from upsweep.operator import Operator
from upsweep.operators import as_operator, ops

__all__ = ["cumulative_prod", "cumulative_sum", "discounted_sum", "lfilter", "linear_recurrence", "scan"]


def scan(
    xs: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Any = None,
) -> Any:
    """All prefixes under an associative operator, as `upsweep.scan`.

    Args:
        xs: an array, or a tuple of arrays of one shape (without gradients; see `linear_recurrence`).
        op, axis, exclusive, reverse, initial: as in `upsweep.scan`. One array has gradients for the built-in operators and
            for every Python function that JAX can trace.

    Returns:
        An array (a tuple of them) of the input's shape and dtype.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.scan(jnp.array([3, 1, 7, 0]), "max").tolist()
    [3, 3, 7, 7]
    """
    op = as_operator(op)
    if isinstance(xs, tuple):
        xs = tuple(map(jnp.asarray, xs))
        dim = axis_of(axis, xs[0].shape) - xs[0].ndim
        starts = None if initial is None else tuple(_rows(v, x, dim) for v, x in zip(initial, xs))
        return rules.call(op, dim, exclusive, reverse, xs, starts)
    x = jnp.asarray(xs)
    dim = axis_of(axis, x.shape) - x.ndim  # counted from the end, where batches do not reach
    start = None if initial is None else _rows(initial, x, dim)
    return rules.scan(op, dim, exclusive, reverse, x, start, None)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running totals; integers narrower than JAX's default are summed as the default. See `upsweep.cumulative_sum`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cumulative_sum(jnp.array([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    return _cumulative(x, ops.ADD, 0, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running products; see `cumulative_sum`. The gradient holds where items are zero.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cumulative_prod(jnp.array([2, 3, 4])).tolist()
    [2, 6, 24]
    """
    return _cumulative(x, ops.MUL, 1, axis, dtype, include_initial)


def _cumulative(
    x: Any, op: Operator, first: int, axis: int | None, dtype: Any, include_initial: bool
) -> Array:
    x = _promoted(jnp.asarray(x)) if dtype is None else jnp.asarray(x, dtype)
    y = scan(x, op, axis=axis)
    if not include_initial:
        return y
    dim = axis_of(axis, x.shape)
    return jnp.pad(y, [(int(d == dim), 0) for d in range(y.ndim)], constant_values=first)


def linear_recurrence(
    a: Any, b: Any, *, initial: Any = None, axis: int | None = None, reverse: bool = False
) -> Array:
    """`h[t] = a[t] h[t-1] + b[t]` from `h[-1] = initial`, differentiable in a, b and initial.

    Args:
        a: an array or number that broadcasts to the shape of b.
        b: a floating array.
        initial, axis, reverse: as in `upsweep.linear_recurrence`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.linear_recurrence(0.5, jnp.ones(3), initial=2.0).tolist()
    [2.0, 2.0, 2.0]
    """
    b = jnp.asarray(b)
    dim = axis_of(axis, b.shape) - b.ndim
    a = jnp.broadcast_to(jnp.asarray(a, b.dtype), b.shape)
    start = None if initial is None else _rows(initial, b, dim)
    return rules.recurrence(dim, reverse, a, b, start, None)


def discounted_sum(
    rewards: Any, gamma: Any, dones: Any = None, *, axis: int | None = None, initial: Any = None
) -> Array:
    """`g[t] = r[t] + gamma g[t+1]`, stopping where an episode is done, as `upsweep.discounted_sum`, differentiable in
    rewards, gamma and initial.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.discounted_sum(jnp.ones(4), 0.5, jnp.array([False, True, False, False])).tolist()
    [1.5, 1.0, 1.5, 1.0]
    """
    r = jnp.asarray(rewards)
    r = r.astype(_inexact(r.dtype))
    dim = axis_of(axis, r.shape) - r.ndim
    weights = jnp.broadcast_to(jnp.asarray(gamma, r.dtype), r.shape)
    start = None if initial is None else _rows(initial, r, dim)
    if dones is None or r.size == 0:
        return rules.recurrence(dim, True, weights, r, start, None)
    done = jnp.asarray(dones).astype(bool)
    if done.ndim == 1:
        done = done.reshape([-1 if d == dim + r.ndim else 1 for d in range(r.ndim)])
    done = jnp.broadcast_to(done, r.shape)

    def cut(v: Array, start: int | None, stop: int | None) -> Array:
        return v[(..., slice(start, stop), *[slice(None)] * (-1 - dim))]

    heads = jnp.concatenate([jnp.ones_like(cut(done, 0, 1)), cut(done, 0, -1)], dim)
    if start is not None:
        # no fused multiply-add
        after = jax.lax.optimization_barrier(cut(weights, -1, None) * jnp.expand_dims(start.astype(r.dtype), dim))
        end = cut(r, -1, None) + jnp.where(cut(done, -1, None), 0, after)
        r = jnp.concatenate([cut(r, 0, -1), end], dim)
    return rules.recurrence(dim, True, weights, r, None, heads)


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
    x = jnp.asarray(x)
    known = [v for v in (b, a, zi) if isinstance(v, Array)]
    dtype = accumulator(_inexact(jnp.result_type(x, *known)))
    b, a = (jnp.asarray(c, dtype) for c in (b, a))
    if b.ndim != 1 or a.ndim != 1 or not b.size or not a.size:
        raise ShapeError(f"coefficients must be 1-D and not empty, got shapes {b.shape} and {a.shape}")
    dim = axis_of(axis, x.shape)
    x = jnp.moveaxis(x.astype(dtype), dim, -1)
    if zi is None:
        return jnp.moveaxis(filters.lfilter(b, a, x, None)[0], -1, dim)
    state = jnp.moveaxis(jnp.asarray(zi, dtype), dim, -1)
    whole = (*x.shape[:-1], max(b.size, a.size) - 1)
    fits = [m in (1, n) for m, n in zip(state.shape[:-1], whole)]
    if state.ndim != x.ndim or state.shape[-1] != whole[-1] or not all(fits):
        raise ShapeError(
            f"zi has shape {jnp.shape(zi)}; along the axis it needs {whole[-1]} values for these coefficients"
        )
    return tuple(jnp.moveaxis(v, -1, dim) for v in filters.lfilter(b, a, x, jnp.broadcast_to(state, whole)))


def _inexact(dtype: Any) -> np.dtype:
    """Integers and booleans become JAX's default floating dtype."""
    return np.dtype(dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.result_type(float))


def _promoted(x: Array) -> Array:
    if x.dtype.kind not in "biu":
        return x
    default = np.dtype(
        f"{'u' if x.dtype.kind == 'u' else 'i'}{8 if jax.config.read('jax_enable_x64') else 4}"
    )
    return x.astype(default) if x.dtype.itemsize < default.itemsize else x


def _rows(initial: Any, x: Array, dim: int) -> Array:
    """One start for each row, in the dtype that is computed with."""
    rows = rules.row_shape(x, dim)
    start = jnp.asarray(initial, accumulator(np.dtype(x.dtype)))
    if start.shape not in ((), rows):
        raise ShapeError(f"initial has shape {start.shape}; pass a scalar or one value a row, shape {rows}")
    return jnp.broadcast_to(start, rows)
