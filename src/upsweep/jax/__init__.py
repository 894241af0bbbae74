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
from jax.core import Tracer

from upsweep.api import Op
from upsweep.arguments import ShapeError, alone, axis_of, followed, timed, weighted
from upsweep.dtypes import accumulator
from upsweep.engine import DTypeError
from upsweep.jax import filters, rules
from upsweep.jax.layers import (
    hgrn,
    hgrn_step,
    min_gru,
    min_gru_step,
    rg_lru,
    rg_lru_step,
    s5,
    s5_step,
    selective_scan,
    selective_step,
)
from upsweep.jax.segments import heads_of, offsets_of
from upsweep.operator import Operator, OperatorError, identity_of, resolve
from upsweep.operators import as_operator, ops
from upsweep.segments import Segments

__all__ = [
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumulative_prod",
    "cumulative_sum",
    "discounted_sum",
    "ema",
    "gae",
    "hgrn",
    "hgrn_step",
    "lfilter",
    "linear_recurrence",
    "min_gru",
    "min_gru_step",
    "reduce",
    "rg_lru",
    "rg_lru_step",
    "s5",
    "s5_step",
    "scan",
    "selective_scan",
    "selective_step",
]


def scan(
    xs: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Any = None,
    segments: Segments | None = None,
    order: str = "tree",
) -> Any:
    """All prefixes under an associative operator, as `upsweep.scan`.

    Args:
        xs: an array, or a tuple of arrays of one shape (without gradients; see `linear_recurrence`).
        op, axis, exclusive, reverse, initial: as in `upsweep.scan`. One array has derivatives for the built-in operators and
            for every Python function that JAX can trace (holomorphic, of complex numbers).
        segments, order: as in `upsweep.scan`; offsets that are traced are not checked.

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
        return rules.call(op, dim, exclusive, reverse, xs, starts, heads_of(segments, xs[0], dim), order)
    x = jnp.asarray(xs)
    dim = axis_of(axis, x.shape) - x.ndim  # counted from the end, where batches do not reach
    start = None if initial is None else _rows(initial, x, dim)
    return rules.scan(op, dim, exclusive, reverse, x, start, heads_of(segments, x, dim), order)


def reduce(
    x: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: Any = None,
    segments: Segments | None = None,
    order: str = "tree",
) -> Array:
    """The last prefix, or that of every segment, as `upsweep.reduce`, differentiable as `scan` is.

    Args:
        x: an array.
        op, axis, reverse, initial, order: as in `scan`.
        segments: one result a segment, along the axis. An empty one has `initial` or the operator's identity. Inside `jit`
            only offsets and lengths tell how many there are.

    Raises:
        ShapeError: the number of segments is not known where the call is traced.
        OperatorError: nothing reduces to nothing: a segment may be empty, and there is no identity.

    >>> import jax.numpy as jnp, upsweep as up, upsweep.jax as uj
    >>> uj.reduce(jnp.arange(5), segments=up.segments.lengths([2, 0, 3])).tolist()
    [1, 0, 9]
    """
    x, op = jnp.asarray(x), as_operator(op)
    dim = axis_of(axis, x.shape)
    n = x.shape[dim]
    y = scan(x, op, axis=dim, reverse=reverse, initial=initial, segments=segments, order=order)
    if segments is None:
        return jnp.take(y, 0 if reverse else n - 1, dim) if n else _nothing(op, y, initial, dim)
    ends = offsets_of(segments, x, dim)
    first, behind = ends[:-1], ends[1:]
    empty = first == behind
    made = jnp.take(y, jnp.clip(first if reverse else behind - 1, 0, max(n - 1, 0)), dim, mode="fill")
    if not isinstance(empty, Tracer) and not empty.any():
        return made
    empty = empty.reshape([-1 if d == dim else 1 for d in range(x.ndim)])
    return jnp.where(empty, jnp.expand_dims(_nothing(op, y, initial, dim), dim), made)


def _nothing(op: Operator, y: Array, initial: Any, dim: int) -> Array:
    """What nothing reduces to, for each row."""
    shape = [n for d, n in enumerate(y.shape) if d != dim]
    if initial is not None:
        return jnp.broadcast_to(jnp.asarray(initial, y.dtype), shape)
    dtypes = (np.dtype(y.dtype),)
    identity = identity_of(resolve(op, dtypes), tuple(map(accumulator, dtypes)))
    if identity is None:
        raise OperatorError(f"the reduction of nothing needs an identity, and {op} has none: pass initial=")
    return jnp.full(shape, identity[0], y.dtype)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False,
    segments: Segments | None = None, order: str = "tree",
) -> Array:  # fmt: skip
    """Running totals; integers narrower than JAX's default are summed as the default. See `upsweep.cumulative_sum`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cumulative_sum(jnp.array([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    return _cumulative(x, ops.ADD, 0, axis, dtype, include_initial, segments, order)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False,
    segments: Segments | None = None, order: str = "tree",
) -> Array:  # fmt: skip
    """Running products; see `cumulative_sum`. The gradient holds where items are zero.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cumulative_prod(jnp.array([2, 3, 4])).tolist()
    [2, 6, 24]
    """
    return _cumulative(x, ops.MUL, 1, axis, dtype, include_initial, segments, order)


def _cumulative(
    x: Any, op: Operator, first: int, axis: int | None, dtype: Any, include_initial: bool, segments: Segments | None,
    order: str,
) -> Array:  # fmt: skip
    alone(include_initial, segments)
    x = _promoted(jnp.asarray(x)) if dtype is None else jnp.asarray(x, dtype)
    y = scan(x, op, axis=axis, segments=segments, order=order)
    if not include_initial:
        return y
    dim = axis_of(axis, x.shape)
    return jnp.pad(y, [(int(d == dim), 0) for d in range(y.ndim)], constant_values=first)


def cummax(
    x: Any, *, axis: int | None = None, reverse: bool = False, segments: Segments | None = None, order: str = "tree"
) -> Array:  # fmt: skip
    """Running maxima, as `upsweep.cummax`; of equal items the later one has the gradient.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cummax(jnp.array([2, 1, 5, 3])).tolist()
    [2, 2, 5, 5]
    """
    return scan(x, ops.MAX, axis=axis, reverse=reverse, segments=segments, order=order)


def cummin(
    x: Any, *, axis: int | None = None, reverse: bool = False, segments: Segments | None = None, order: str = "tree"
) -> Array:  # fmt: skip
    """Running minima; see `cummax`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cummin(jnp.array([2, 1, 5, 3])).tolist()
    [2, 1, 1, 1]
    """
    return scan(x, ops.MIN, axis=axis, reverse=reverse, segments=segments, order=order)


def cumlogsumexp(
    x: Any, *, axis: int | None = None, reverse: bool = False, segments: Segments | None = None, order: str = "tree"
) -> Array:  # fmt: skip
    """`log(cumsum(exp(x)))` without overflow, as `upsweep.cumlogsumexp`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> jnp.exp(uj.cumlogsumexp(jnp.zeros(4))).round().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return scan(x, ops.LOGADDEXP, axis=axis, reverse=reverse, segments=segments, order=order)


def linear_recurrence(
    a: Any, b: Any, *, initial: Any = None, axis: int | None = None, reverse: bool = False,
    segments: Segments | None = None, order: str = "tree",
) -> Array:  # fmt: skip
    """`h[t] = a[t] h[t-1] + b[t]` from `h[-1] = initial`, differentiable in a, b and initial.

    Args:
        a: an array or number that broadcasts to the shape of b.
        b: an array, whose dtype holds a.
        initial, axis, reverse, segments, order: as in `upsweep.linear_recurrence`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.linear_recurrence(0.5, jnp.ones(3), initial=2.0).tolist()
    [2.0, 2.0, 2.0]
    """
    b = jnp.asarray(b)
    dim = axis_of(axis, b.shape) - b.ndim
    a = _ranked(_held(a, b.dtype, "a"), b)
    start = None if initial is None else _rows(initial, b, dim)
    return rules.recurrence(dim, reverse, a, b, start, heads_of(segments, b, dim), order)


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
    x = jnp.asarray(x)
    x = x.astype(_inexact(x.dtype))
    dim = axis_of(axis, x.shape) - x.ndim
    if alpha is None:
        alpha = 1 - jnp.exp2(-_steps(times, x, dim) / halflife)
    alpha = _ranked(jnp.asarray(alpha, x.dtype), x)
    start, heads = None if initial is None else _rows(initial, x, dim), heads_of(segments, x, dim)
    dtype, x, alpha = x.dtype, _single(x), _single(alpha)
    b = jax.lax.optimization_barrier(alpha * x)  # no fused multiply-add
    if start is None:
        first = jnp.arange(x.shape[dim]).reshape([-1 if d == dim + x.ndim else 1 for d in range(x.ndim)]) == 0
        b = jnp.where(first if heads is None else first | heads, x, b)
    return rules.recurrence(dim, False, 1 - alpha, b, start, heads, order).astype(dtype)


def _steps(times: Any, x: Array, dim: int) -> Array:
    """The time since the item before; nothing stands before the first."""
    if times is None:
        return jnp.ones(())
    times = jnp.asarray(times)
    timed(times.shape, x.shape, dim)
    if times.ndim < x.ndim:
        times = times.reshape([-1 if d == dim + x.ndim else 1 for d in range(x.ndim)])
    return jnp.diff(times, axis=dim, prepend=jax.lax.slice_in_dim(times, 0, min(1, x.shape[dim]), axis=dim))


def discounted_sum(
    rewards: Any, gamma: Any, dones: Any = None, *, axis: int | None = None, initial: Any = None, order: str = "tree"
) -> Array:  # fmt: skip
    """`g[t] = r[t] + gamma g[t+1]`, stopping where an episode is done, as `upsweep.discounted_sum`, differentiable in
    rewards, gamma and initial.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.discounted_sum(jnp.ones(4), 0.5, jnp.array([False, True, False, False])).tolist()
    [1.5, 1.0, 1.5, 1.0]
    """
    r = jnp.asarray(rewards)
    r = r.astype(_inexact(r.dtype))
    dim = axis_of(axis, r.shape) - r.ndim
    weights = _ranked(jnp.asarray(gamma, r.dtype), r)
    start = None if initial is None else _rows(initial, r, dim)
    if dones is None or r.size == 0:
        return rules.recurrence(dim, True, weights, r, start, None, order)
    done = _flags(dones, r, dim)

    def cut(v: Array, start: int | None, stop: int | None) -> Array:
        return v[(..., slice(start, stop), *[slice(None)] * (-1 - dim))]

    heads = jnp.concatenate([jnp.ones_like(cut(done, 0, 1)), cut(done, 0, -1)], dim)
    if start is not None:
        # no fused multiply-add
        after = jax.lax.optimization_barrier(
            cut(weights, -1, None) * jnp.expand_dims(start.astype(r.dtype), dim)
        )
        end = cut(r, -1, None) + jnp.where(cut(done, -1, None), 0, after)
        r = jnp.concatenate([cut(r, 0, -1), end], dim)
    return rules.recurrence(dim, True, weights, r, None, heads, order)


def gae(
    rewards: Any, values: Any, last_value: Any = None, dones: Any = None, *, gamma: float, lam: float, truncated: Any = None,
    next_values: Any = None, axis: int | None = None, order: str = "tree",
) -> Array:  # fmt: skip
    """Generalised advantage estimates, as `upsweep.gae`, differentiable.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.gae(jnp.ones(2), jnp.zeros(2), 0.0, gamma=0.5, lam=1.0).tolist()
    [1.5, 1.0]
    """
    followed(last_value, next_values, truncated)
    r, v = jnp.asarray(rewards), jnp.asarray(values)
    dim = axis_of(axis, v.shape) - v.ndim
    ahead = next_values
    if ahead is None:
        last = jnp.expand_dims(_rows(last_value, v, dim).astype(v.dtype), dim)
        ahead = jax.lax.slice_in_dim(jnp.concatenate([v, last], dim), 1, None, axis=dim)
    ended, cut = (None if f is None else _flags(f, v, dim) for f in (dones, truncated))
    if ended is not None:
        ahead = jnp.where(ended, 0, ahead)
    stops = cut if ended is None else ended if cut is None else ended | cut
    delta = _single(r) + gamma * _single(ahead) - _single(v)
    return discounted_sum(delta, gamma * lam, stops, axis=dim, order=order).astype(
        jnp.promote_types(r.dtype, v.dtype)
    )


def _single(x: Array) -> Array:
    """Half precision as float32, in which `upsweep` computes it."""
    return x.astype(jnp.float32) if x.itemsize < 4 and jnp.issubdtype(x.dtype, jnp.floating) else x


def _ranked(a: Array, b: Array) -> Array:
    """A multiplier of b's rank, whose axes of one item hold for all of b's."""
    if a.ndim > b.ndim or any(m not in (1, n) for m, n in zip(reversed(a.shape), reversed(b.shape))):
        raise ShapeError(f"a multiplier of shape {a.shape} does not broadcast to {b.shape}")
    return a.reshape((1,) * (b.ndim - a.ndim) + a.shape)


def _flags(flags: Any, x: Array, dim: int) -> Array:
    """Booleans of the rank of x, from flags of its shape or 1-D along the axis; axes of one item hold for all of x's."""
    flags = jnp.asarray(flags).astype(bool)
    if flags.ndim == 1:
        flags = flags.reshape([-1 if d == dim + x.ndim else 1 for d in range(x.ndim)])
    return flags if flags.shape[dim] == x.shape[dim] else jnp.broadcast_to(flags, x.shape)


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
    start = _held(initial, accumulator(np.dtype(x.dtype)), "initial")
    if start.shape not in ((), rows):
        raise ShapeError(f"initial has shape {start.shape}; pass a scalar or one value a row, shape {rows}")
    return jnp.broadcast_to(start, rows)


def _held(value: Any, dtype: Any, what: str) -> Array:
    """A value as an array of `dtype`; a DTypeError where it would become another value."""
    known = not isinstance(value, Tracer) and np.ndim(value) == 0
    have = np.asarray(value).dtype if known else jnp.asarray(value).dtype
    whole = known and have.kind == "f" and float(value).is_integer()
    if not (
        jnp.can_cast(have, dtype, "same_kind")
        or (have.kind in "iu" and np.dtype(dtype).kind in "iu")
        or whole
    ):
        raise DTypeError(
            f"{what} ({value}) is no value of {dtype}, in which this is computed: convert the array first"
        )
    return jnp.asarray(value, dtype)
