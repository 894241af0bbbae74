"""Scans for JAX: inside jit, vmap and grad, with the bits of `upsweep`.

A scan works in XLA's own buffers, on the CPU and on a GPU, where it is queued on XLA's stream. Gradients are linear
recurrences that run the other way, as in `upsweep.torch`, and can be differentiated again.

>>> import jax, jax.numpy as jnp, upsweep.jax as uj
>>> jax.jit(jax.grad(lambda a: uj.linear_recurrence(a, jnp.ones(3)).sum()))(jnp.full(3, 0.5)).tolist()
[0.0, 1.5, 1.5]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental.buffer_callback import buffer_callback

import upsweep as up
from upsweep.api import Op
from upsweep.arguments import ShapeError, axis_of
from upsweep.engine import on_gpu
from upsweep.operator import Operator, accumulator, as_operator, identity_of, ops

__all__ = ["cumulative_prod", "cumulative_sum", "linear_recurrence", "scan"]


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
        return _call(op, dim, exclusive, reverse, xs, starts)
    x = jnp.asarray(xs)
    dim = axis_of(axis, x.shape) - x.ndim  # counted from the end, where batches do not reach
    return _scan(op, dim, exclusive, reverse, x, None if initial is None else _rows(initial, x, dim))


def cumulative_sum(x: Any, /, *, axis: int | None = None) -> Array:
    """Running totals; integers narrower than JAX's default are summed as the default. See `upsweep.cumulative_sum`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cumulative_sum(jnp.array([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    return scan(_promoted(jnp.asarray(x)), ops.ADD, axis=axis)


def cumulative_prod(x: Any, /, *, axis: int | None = None) -> Array:
    """Running products; see `cumulative_sum`. The gradient holds where items are zero.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cumulative_prod(jnp.array([2, 3, 4])).tolist()
    [2, 6, 24]
    """
    return scan(_promoted(jnp.asarray(x)), ops.MUL, axis=axis)


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
    start = jnp.zeros(_row_shape(b, dim), b.dtype) if initial is None else _rows(initial, b, dim)
    return _recurrence(dim, reverse, a, b, start)


def _promoted(x: Array) -> Array:
    if x.dtype.kind not in "biu":
        return x
    default = np.dtype(
        f"{'u' if x.dtype.kind == 'u' else 'i'}{8 if jax.config.read('jax_enable_x64') else 4}"
    )
    return x.astype(default) if x.dtype.itemsize < default.itemsize else x


def _row_shape(x: Array, dim: int) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(x.shape) if d != dim + x.ndim)


def _rows(initial: Any, x: Array, dim: int) -> Array:
    """One start for each row, in the dtype that is computed with."""
    rows = _row_shape(x, dim)
    start = jnp.asarray(initial, accumulator(np.dtype(x.dtype)))
    if start.shape not in ((), rows):
        raise ShapeError(f"initial has shape {start.shape}; pass a scalar or one value a row, shape {rows}")
    return jnp.broadcast_to(start, rows)


def _call(op: Operator, dim: int, exclusive: bool, reverse: bool, xs: tuple[Array, ...], starts: Any) -> Any:
    """The scan itself. XLA's buffers offer bfloat16 to nobody else on a GPU, so it is widened here and rounded once."""
    wide = tuple(x.astype(np.float32) if x.dtype.name == "bfloat16" else x for x in xs)
    shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in wide)
    call = _InPlace(op, dim, exclusive, reverse)
    ys = buffer_callback(call, shapes, vmap_method="broadcast_all")(wide, starts)  # type: ignore[arg-type]
    return tuple(y.astype(x.dtype) for x, y in zip(xs, ys))


@dataclass(frozen=True)
class _InPlace:
    """A scan of XLA's own buffers, where they lie and on XLA's stream. Equal scans are equal, so that XLA compiles one."""

    op: Operator
    dim: int
    exclusive: bool
    reverse: bool

    def __call__(self, context: Any, outs: Any, xs: Any, starts: Any) -> None:
        xs, outs, first = (
            None if part is None else tuple(_seen(buffer, context) for buffer in part)
            for part in (xs, outs, starts)
        )
        one = len(xs) == 1
        up.scan(
            xs[0] if one else xs, self.op, axis=self.dim, exclusive=self.exclusive, reverse=self.reverse,
            initial=first[0] if first and one else first, out=outs[0] if one else outs,
        )  # fmt: skip


def _seen(buffer: Any, context: Any) -> Any:
    return _OnStream(buffer, context.stream) if on_gpu(buffer) else np.asarray(buffer)


class _OnStream:
    """A buffer on a GPU with the stream that its work is ordered on."""

    def __init__(self, buffer: Any, stream: int) -> None:
        self._buffer, self._stream = buffer, stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._buffer.__cuda_array_interface__, "version": 3, "stream": self._stream}


def _along(x: Array, dim: int, reverse: bool, start: int, stop: int | None) -> Array:
    """Items `[start, stop)`, counted in the direction of the scan."""
    n = x.shape[dim]
    stop = n if stop is None else stop
    first, last = (n - stop, n - start) if reverse else (start, stop)
    return jax.lax.slice_in_dim(x, first, last, axis=dim)


def _join(parts: list[Array], dim: int, reverse: bool) -> Array:
    return jnp.concatenate(parts[::-1] if reverse else parts, axis=dim)


def _previous(x: Array, first: Array, dim: int, reverse: bool) -> Array:
    return _join(
        [jnp.expand_dims(first, dim + x.ndim), _along(x, dim, reverse, 0, x.shape[dim] - 1)], dim, reverse
    )


def _following(x: Array, dim: int, reverse: bool) -> Array:
    return _join(
        [_along(x, dim, reverse, 1, None), jnp.zeros_like(_along(x, dim, reverse, 0, 1))], dim, reverse
    )


def _first(x: Array, dim: int, reverse: bool) -> Array:
    return jnp.squeeze(_along(x, dim, reverse, 0, 1), dim)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2, 3))
def _scan(op: Operator, dim: int, exclusive: bool, reverse: bool, x: Array, initial: Any) -> Array:
    return _call(op, dim, exclusive, reverse, (x,), None if initial is None else (initial,))[0]


def _scan_forward(op: Operator, dim: int, exclusive: bool, reverse: bool, x: Array, initial: Any) -> Any:
    y = _scan(op, dim, exclusive, reverse, x, initial)
    return y, (x, y, initial)


def _scan_backward(op: Operator, dim: int, exclusive: bool, reverse: bool, kept: Any, g: Array) -> Any:
    x, y, initial = kept
    if x.shape[dim] == 0:
        return jnp.zeros_like(x), None if initial is None else jnp.zeros_like(initial)
    before = y if exclusive else _before(op, x, y, initial, dim, reverse)
    left, right = _partials(op, before, x)
    if initial is None and not exclusive:  # the first prefix is the first item itself
        one = jnp.ones_like(_along(right, dim, reverse, 0, 1))
        right = _join([one, _along(right, dim, reverse, 1, None)], dim, reverse)
    inner = _following(g, dim, reverse) if exclusive else g
    zero = jnp.zeros(_row_shape(x, dim), x.dtype)
    s: Any = _recurrence(dim, not reverse, _following(left, dim, reverse), inner, zero)
    if initial is None:
        return right * s, None
    start = _first(left * s, dim, reverse)
    return right * s, (start + _first(g, dim, reverse) if exclusive else start).astype(initial.dtype)


def _before(op: Operator, x: Array, y: Array, initial: Any, dim: int, reverse: bool) -> Array:
    identity = identity_of(op, (accumulator(np.dtype(x.dtype)),))
    first = _first(x, dim, reverse)
    if initial is not None:
        first = initial.astype(y.dtype)
    elif identity is not None:
        first = jnp.full_like(first, identity[0])
    return _previous(y, first, dim, reverse)


def _partials(op: Operator, before: Array, x: Array) -> tuple[Array, Array]:
    """The partial derivatives of `before ⊕ x`."""
    if op in (ops.MAX, ops.MIN):
        keep = (before >= x if op == ops.MAX else before <= x).astype(x.dtype)
        return keep, 1 - keep
    if op == ops.LOGADDEXP:
        gap = jnp.where(before == x, 0, before - x)
        return jax.nn.sigmoid(gap), jax.nn.sigmoid(-gap)
    value, pull = jax.vjp(op.fn, before, x)
    return pull(jnp.ones_like(value))


_scan.defvjp(_scan_forward, _scan_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _recurrence(dim: int, reverse: bool, a: Array, b: Array, initial: Array) -> Array:
    start = (jnp.ones_like(initial), initial)
    return _call(ops.AFFINE, dim, False, reverse, (a, b), start)[1]


def _recurrence_forward(dim: int, reverse: bool, a: Array, b: Array, initial: Array) -> Any:
    h = _recurrence(dim, reverse, a, b, initial)
    return h, (a, h, initial)


def _recurrence_backward(dim: int, reverse: bool, kept: Any, g: Array) -> Any:
    a, h, initial = kept
    if a.shape[dim] == 0:
        return jnp.zeros_like(a), jnp.zeros_like(h), jnp.zeros_like(initial)
    s: Any = _recurrence(dim, not reverse, _following(a, dim, reverse), g, jnp.zeros_like(initial))
    return (
        s * _previous(h, initial.astype(h.dtype), dim, reverse),
        s,
        _first(a * s, dim, reverse).astype(initial.dtype),
    )


_recurrence.defvjp(_recurrence_forward, _recurrence_backward)
