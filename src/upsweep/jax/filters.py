"""Digital filters as a primitive of JAX: time is last."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import Primitive
from jax.interpreters import ad

import upsweep as up
from upsweep.jax.buffers import like, result_of
from upsweep.jax.primitives import in_front, registered


def lfilter(b: Array, a: Array, x: Array, zi: Any) -> tuple[Array, Array]:
    """y, and the state after the last item. The state is empty where there is none before the first item."""
    return tuple(_lfilter.bind(x, b, a, *(() if zi is None else (zi,))))  # type: ignore[return-value]


def _shapes(x: Any, b: Any, a: Any, *zi: Any) -> list[Any]:
    return [result_of(x), result_of(x, zi[0].shape if zi else (*x.shape[:-1], 0))]


def _run(x: Any, b: Any, a: Any, *zi: Any) -> Any:
    shapes = [like(v) for v in _shapes(x, b, a, *zi)]
    return jax.pure_callback(_filtered, shapes, x, b, a, *zi)


def _filtered(*given: Any) -> Any:
    x, b, a, *zi = map(np.asarray, given)
    if not zi:
        return [up.lfilter(b, a, x), np.empty((*x.shape[:-1], 0), x.dtype)]
    return list(up.lfilter(b, a, x, zi=zi[0]))


def _jvp(primals: Any, tangents: Any) -> Any:
    """`A dy = dB x + B dx - dA y + dzi`; the state after the last item by the rule of products."""
    x, b, a, *state = primals
    dx, db, da, *d_state = map(ad.instantiate_zeros, tangents)
    y, zf = lfilter(b, a, x, state[0] if state else None)
    (b, a), (db, da) = jax.jvp(_monic, (b, a), (db, da))
    r = _moved(db, x) + _moved(b, dx) - _moved(da, y)
    order = max(b.size, a.size) - 1
    if state:
        head = min(order, x.shape[-1])
        r = r + _padded(d_state[0][..., :head], 0, x.shape[-1] - head)
    dy = lfilter(jnp.ones(1, b.dtype), a, r, None)[0]
    if not state:
        return (y, zf), (dy, jnp.zeros_like(zf))
    return (y, zf), (dy, jax.jvp(_end, (b, a, x, y, *state), (db, da, dx, dy, *d_state))[1])


def _monic(b: Array, a: Array) -> tuple[Array, Array]:
    # No array without items is made on the way: XLA of JAX 0.11 crashed over one within `jax.shard_map`.
    return b / a[0], jnp.where(np.arange(a.size) == 0, 1, a / a[0])


def _moved(c: Array, x: Array) -> Array:
    """`c[0] x[t] + c[1] x[t-1] + ...`."""
    n = x.shape[-1]
    return sum(c[k] * _padded(x[..., : n - k], k, 0) for k in range(min(c.size, n))) + jnp.zeros_like(x)


def _padded(x: Array, before: int, after: int) -> Array:
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, after)])


def _end(b: Array, a: Array, x: Array, y: Array, zi: Array) -> Array:
    """The state after the last item."""
    n, order = x.shape[-1], zi.shape[-1]
    last = min(order, n)
    # The place of the coefficient beside an item.
    place = np.arange(order)[:, None] + np.arange(last) + 1
    beside = [jnp.pad(c, (0, order + last + 1 - c.size))[place] for c in (b, a)]
    items = [jnp.flip(v, -1)[..., :last] for v in (x, y)]
    return items[0] @ beside[0].T - items[1] @ beside[1].T + _padded(zi[..., last:], 0, last)


def _transpose(gradients: Any, x: Any, b: Any, a: Any) -> Any:
    """The transpose of the filter without a state: it runs backwards."""
    g = gradients[0]
    if isinstance(g, ad.Zero):
        return [None] * 3
    return [jnp.flip(lfilter(b, a, jnp.flip(g, -1), None)[0], -1), None, None]


def _batch(made: Primitive, args: Any, dims: Any) -> Any:
    x, b, a, *zi = in_front(args, dims)
    if dims[1] is None and dims[2] is None:
        return made.bind(x, b[0], a[0], *zi), (0, 0)
    return jax.lax.map(lambda each: made.bind(*each), (x, b, a, *zi)), (0, 0)


_lfilter = registered("lfilter", _run, _shapes, _jvp, _transpose, _batch, several=True)
