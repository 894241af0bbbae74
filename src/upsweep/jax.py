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
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental.buffer_callback import buffer_callback

import upsweep as up
from upsweep.api import Op, plan_of
from upsweep.arguments import ShapeError, axis_of
from upsweep.dtypes import accumulator, foreign
from upsweep.engine import on_gpu
from upsweep.operator import Operator, identity_of, resolve
from upsweep.operators import as_operator, form_of, ops

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
        return _call(op, dim, exclusive, reverse, xs, starts)
    x = jnp.asarray(xs)
    dim = axis_of(axis, x.shape) - x.ndim  # counted from the end, where batches do not reach
    return _scan(op, dim, exclusive, reverse, x, None if initial is None else _rows(initial, x, dim))


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
    return _recurrence(dim, reverse, a, b, start, None)


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
        return _recurrence(dim, True, weights, r, start, None)
    done = jnp.asarray(dones).astype(bool)
    if done.ndim == 1:
        done = done.reshape([-1 if d == dim + r.ndim else 1 for d in range(r.ndim)])
    done = jnp.broadcast_to(done, r.shape)
    heads = _previous(done, jnp.ones(_row_shape(r, dim), bool), dim, False)
    if start is not None:
        after = jax.lax.optimization_barrier(
            _first(weights, dim, True) * start.astype(r.dtype)
        )  # no fused multiply-add
        end = _first(r, dim, True) + jnp.where(_first(done, dim, True), 0, after)
        r = _join([jnp.expand_dims(end, dim + r.ndim), _along(r, dim, True, 1, None)], dim, True)
    return _recurrence(dim, True, weights, r, None, heads)


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
        return jnp.moveaxis(_lfilter(b, a, x, None)[0], -1, dim)
    state = jnp.moveaxis(jnp.asarray(zi, dtype), dim, -1)
    whole = (*x.shape[:-1], max(b.size, a.size) - 1)
    fits = [m in (1, n) for m, n in zip(state.shape[:-1], whole)]
    if state.ndim != x.ndim or state.shape[-1] != whole[-1] or not all(fits):
        raise ShapeError(
            f"zi has shape {jnp.shape(zi)}; along the axis it needs {whole[-1]} values for these coefficients"
        )
    return tuple(jnp.moveaxis(v, -1, dim) for v in _lfilter(b, a, x, jnp.broadcast_to(state, whole)))


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


def _row_shape(x: Array, dim: int) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(x.shape) if d != dim + x.ndim)


def _rows(initial: Any, x: Array, dim: int) -> Array:
    """One start for each row, in the dtype that is computed with."""
    rows = _row_shape(x, dim)
    start = jnp.asarray(initial, accumulator(np.dtype(x.dtype)))
    if start.shape not in ((), rows):
        raise ShapeError(f"initial has shape {start.shape}; pass a scalar or one value a row, shape {rows}")
    return jnp.broadcast_to(start, rows)


def _call(
    op: Operator,
    dim: int,
    exclusive: bool,
    reverse: bool,
    xs: tuple[Array, ...],
    starts: Any,
    heads: Any = None,
) -> Any:
    """The scan itself. XLA's buffers offer dtypes that NumPy lacks to nobody else on a GPU: such items are widened here, and
    rounded once."""
    planned = tuple(np.dtype(x.dtype) for x in xs), tuple(x.shape for x in xs)
    plan_of(
        op, *planned, dim, exclusive, reverse, starts is not None
    )  # what is wrong is said here, not by XLA
    wide = tuple(x.astype(accumulator(d)) if foreign(d) else x for x, d in zip(xs, planned[0]))
    shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in wide)
    call = _InPlace(op, dim, exclusive, reverse)
    ys = buffer_callback(call, shapes, vmap_method="broadcast_all")(wide, starts, heads)  # type: ignore[arg-type]
    return tuple(y.astype(x.dtype) for x, y in zip(xs, ys))


@dataclass(frozen=True)
class _InPlace:
    """A scan of XLA's own buffers, where they lie and on XLA's stream. Equal scans are equal, so that XLA compiles one."""

    op: Operator
    dim: int
    exclusive: bool
    reverse: bool

    def __call__(self, context: Any, outs: Any, xs: Any, starts: Any, heads: Any) -> None:
        xs, outs, first = (
            None if part is None else tuple(_seen(buffer, context) for buffer in part)
            for part in (xs, outs, starts)
        )
        one = len(xs) == 1
        segments = None if heads is None else up.segments.flags(_seen(heads, context))
        up.scan(
            xs[0] if one else xs, self.op, axis=self.dim, exclusive=self.exclusive, reverse=self.reverse,
            initial=first[0] if first and one else first, out=outs[0] if one else outs,
            segments=segments,
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
    s: Any = _recurrence(dim, not reverse, _following(left, dim, reverse), inner, None, None)
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


_MATHS = SimpleNamespace(
    where=jnp.where, ones_like=jnp.ones_like, zeros_like=jnp.zeros_like, sigmoid=jax.nn.sigmoid
)


def _partials(op: Operator, before: Array, x: Array) -> tuple[Array, Array]:
    """The partial derivatives of `before ⊕ x`."""
    dtype = np.dtype(x.dtype)
    known = form_of(resolve(op, (dtype,)), (accumulator(dtype),))
    if known is not None and known[0].slopes is not None:
        return known[0].slopes(_MATHS, before, x)
    value, pull = jax.vjp(op.fn, before, x)
    return pull(jnp.ones_like(value))


_scan.defvjp(_scan_forward, _scan_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _recurrence(dim: int, reverse: bool, a: Array, b: Array, initial: Any, heads: Any) -> Array:
    start = None if initial is None else (jnp.ones_like(initial), initial)
    return _call(ops.AFFINE, dim, False, reverse, (a, b), start, heads)[1]


def _recurrence_forward(dim: int, reverse: bool, a: Array, b: Array, initial: Any, heads: Any) -> Any:
    h = _recurrence(dim, reverse, a, b, initial, heads)
    return h, (a, h, initial, heads)


def _recurrence_backward(dim: int, reverse: bool, kept: Any, g: Array) -> Any:
    a, h, initial, heads = kept
    if a.shape[dim] == 0:
        return (
            jnp.zeros_like(a),
            jnp.zeros_like(h),
            None if initial is None else jnp.zeros_like(initial),
            None,
        )
    s: Any = _recurrence(dim, not reverse, _following(a, dim, reverse), g, None, heads)
    first = jnp.zeros(_row_shape(h, dim), h.dtype) if initial is None else initial.astype(h.dtype)
    before = _previous(h, first, dim, reverse)
    starts = None if heads is None else _starts(heads, dim, reverse)
    if starts is not None:
        before = jnp.where(starts, jnp.expand_dims(first, dim + h.ndim), before)
    if initial is None:
        return s * before, s, None, None
    into = _first(a * s, dim, reverse) if starts is None else jnp.where(starts, a * s, 0).sum(dim)
    return s * before, s, into.astype(initial.dtype), None


def _starts(heads: Array, dim: int, reverse: bool) -> Array:
    """True where a segment starts in the direction of the scan; the first item starts one whatever its flag."""
    starts = jnp.roll(heads, -1, dim) if reverse else heads
    return _join(
        [jnp.ones_like(_along(starts, dim, reverse, 0, 1)), _along(starts, dim, reverse, 1, None)],
        dim,
        reverse,
    )


_recurrence.defvjp(_recurrence_forward, _recurrence_backward)


# --- digital filters: time is last --------------------------------------------------------------------------------------


@jax.custom_vjp
def _lfilter(b: Array, a: Array, x: Array, zi: Any) -> tuple[Array, Array]:
    state = (*x.shape[:-1], 0) if zi is None else zi.shape
    shapes = (jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(state, x.dtype))
    return jax.pure_callback(_filtered, shapes, b, a, x, zi, vmap_method="sequential")


def _filtered(b: Any, a: Any, x: Any, zi: Any) -> Any:
    b, a, x = map(np.asarray, (b, a, x))
    if zi is None:
        return up.lfilter(b, a, x), np.empty((*x.shape[:-1], 0), x.dtype)
    return up.lfilter(b, a, x, zi=np.asarray(zi))


def _lfilter_forward(b: Array, a: Array, x: Array, zi: Any) -> Any:
    made = _lfilter(b, a, x, zi)
    return made, (b, a, x, zi, made[0])


def _lfilter_backward(kept: Any, gradients: Any) -> Any:
    """As in `upsweep.torch.library`."""
    b, a, x, zi, y = kept
    g, gz = gradients
    n, order = x.shape[-1], max(b.size, a.size) - 1
    (b, a), pull = jax.vjp(
        lambda b, a: (b / a[0], jnp.concatenate([jnp.ones_like(a[:1]), a[1:] / a[0]])), b, a
    )
    dx, db, da = jnp.zeros_like(x), jnp.zeros_like(b), jnp.zeros_like(a)
    dzi: Any = None
    if zi is not None:
        last = min(order, n)

        def end(b: Array, a: Array, x: Array, y: Array, zi: Array) -> Array:
            place = np.arange(order)[:, None] + np.arange(last) + 1  # of the coefficient beside an item
            beside = [jnp.pad(c, (0, order + last + 1 - c.size))[place] for c in (b, a)]
            items = [jnp.flip(v, -1)[..., :last] for v in (x, y)]
            kept = jnp.pad(zi[..., min(n, order) :], [(0, 0)] * (zi.ndim - 1) + [(0, min(n, order))])
            return items[0] @ beside[0].T - items[1] @ beside[1].T + kept

        db, da, dx, dy, dzi = jax.vjp(end, b, a, x, y, zi)[1](gz)
        g = g + dy
    one = jnp.ones(1, b.dtype)
    backwards = _lfilter(one, a, jnp.flip(g, -1), None)[0]
    s = jnp.flip(backwards, -1)
    dx = dx + jnp.flip(_lfilter(b, one, backwards, None)[0], -1)
    db, da = db + _beside(s, x, b.size), da - _beside(s, y, a.size)
    if zi is not None:
        head = min(order, n)
        dzi = dzi + jnp.pad(s[..., :head], [(0, 0)] * (s.ndim - 1) + [(0, order - head)])
    return (*pull((db, da)), dx, dzi)


def _beside(s: Array, x: Array, count: int) -> Array:
    """The gradient of c through `c[0] x[t] + c[1] x[t-1] + ...`."""
    n = x.shape[-1]
    return jnp.stack([(s[..., k:] * x[..., : max(n - k, 0)]).sum() for k in range(count)])


_lfilter.defvjp(_lfilter_forward, _lfilter_backward)
