"""Recurrences in time."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

from upsweep.arguments import axis_of, half_lives, held, time_dtype, timed, weighted
from upsweep.dask.graphs import heads_of, scanned
from upsweep.dask.scans import scan
from upsweep.dtypes import accumulator, fits
from upsweep.engine import DTypeError
from upsweep.operators import ops
from upsweep.segments import Segments, checked, ends


def linear_recurrence(
    a: Any, b: Any, *, initial: Any = None, axis: int | None = None, reverse: bool = False,
    segments: Segments | None = None,
) -> Any:  # fmt: skip
    """`h[t] = a[t] h[t-1] + b[t]` of Dask arrays, from `h[-1] = initial`, as `upsweep.linear_recurrence`, lazily.

    Args:
        a, b: Dask arrays, or arrays and numbers among them. `a` broadcasts to the shape of `b`, whose dtype must hold it; beside
            half precision it keeps the digits of float32.
        initial, axis, reverse, segments: as in `upsweep.dask.scan`.

    Returns:
        A Dask array with the chunks of b.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.linear_recurrence(0.5, da.ones(3, chunks=2), initial=2.0).compute().tolist()
    [2.0, 2.0, 2.0]
    """
    b = da.asarray(b)
    computed = accumulator(b.dtype)
    if not isinstance(a, da.Array):
        a = held(a, computed, "a", "b.astype({!r})")
    elif not fits(a.dtype, b.dtype):
        raise DTypeError(f"a of {a.dtype} does not fit b's {b.dtype}: pass b.astype({str(a.dtype)!r})")
    start = None if initial is None else (1, initial)
    given = da.broadcast_to(a.astype(computed), b.shape), b
    return scanned(
        ops.AFFINE, (given[0].rechunk(b.chunks), b), axis, False, reverse, start, None, segments, (1,)
    )[0]


def ema(
    x: Any, alpha: Any = None, *, halflife: Any = None, times: Any = None, axis: int | None = None, initial: Any = None,
    segments: Segments | None = None,
) -> Any:  # fmt: skip
    """Exponential moving average `y[t] = (1 - alpha) y[t-1] + alpha x[t]` of a Dask array, as `upsweep.ema`, lazily.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.ema(da.from_array([4.0, 8.0, 8.0], chunks=2), 0.5).compute().tolist()
    [4.0, 6.0, 7.0]
    """
    weighted(alpha, halflife, times, initial)
    x = _floating(da.asarray(x))
    dim, dtype = axis_of(axis, x.shape), x.dtype
    if halflife is not None:
        halves = half_lives(_steps(times, x, dim, segments), halflife)
        alpha = 1 - da.exp2(-da.where(halves < 0, np.nan, halves))
    alpha = _weight(alpha, x)
    x = x.astype(accumulator(dtype))
    b = alpha * x
    if initial is None:
        first = _is_item(0, x, dim)
        told = checked(segments)
        b = da.where(first if told is None else first | heads_of(told, x, dim), x, b)
    y = linear_recurrence(1 - alpha, b, initial=initial, axis=dim, segments=segments)
    return y.astype(dtype)


def discounted_sum(
    rewards: Any, gamma: Any, dones: Any = None, *, axis: int | None = None, initial: Any = None
) -> Any:
    """`g[t] = r[t] + gamma g[t+1]` of a Dask array, stopping where an episode is done, as `upsweep.discounted_sum`, lazily.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.discounted_sum(da.ones(4, chunks=2), 0.5, [False, True, False, False]).compute().tolist()
    [1.5, 1.0, 1.5, 1.0]
    """
    r = _floating(da.asarray(rewards))
    dim, dtype = axis_of(axis, r.shape), r.dtype
    weight, r = _weight(gamma, r), r.astype(accumulator(dtype))
    if dones is not None and initial is not None and r.shape[dim]:
        # `initial` stands behind the last item, unless that item is done.
        done = da.asarray(dones) if np.ndim(dones) > 1 else _along(da.asarray(dones), r, dim)
        last = _is_item(r.shape[dim] - 1, r, dim)
        after = np.expand_dims(held(initial, r.dtype), dim) if np.ndim(initial) else held(initial, r.dtype)
        r, initial = da.where(last, r + weight * da.where(done, r.dtype.type(0), after), r), None
    told = None if dones is None else ends(dones)
    return linear_recurrence(weight, r, initial=initial, axis=dim, reverse=True, segments=told).astype(dtype)


def _floating(x: Any) -> Any:
    # Results have this machine's order of bytes.
    return x.astype(np.float64 if x.dtype.kind in "biu" else x.dtype.newbyteorder("="))


def _weight(value: Any, x: Any) -> Any:
    """A weight in the dtype that a scan of x computes in."""
    computed = accumulator(x.dtype)
    number = isinstance(value, (int, float, complex))
    return held(value, computed, "a weight") if number else da.asarray(value).astype(computed)


def _along(values: Any, x: Any, dim: int) -> Any:
    """One value an item as an array that broadcasts to x."""
    return values.reshape([-1 if d == dim else 1 for d in range(x.ndim)])


def _is_item(i: int, x: Any, dim: int) -> Any:
    """True at one item of each row of x."""
    chunks: Any = (x.chunks[dim],)
    return _along(da.arange(x.shape[dim], chunks=chunks) == i, x, dim)


def _steps(times: Any, x: Any, dim: int, segments: Segments | None) -> Any:
    """The time since the item before, in a group since that group's; nothing stands before the first."""
    if times is None:
        return da.ones((), dtype=np.float64)
    times = da.asarray(times)
    timed(times.shape, x.shape, dim)
    times = times if times.ndim == x.ndim else _along(times, x, dim)
    wide = np.int64 if times.dtype.kind in "iu" else time_dtype(times, x)
    times = times if wide is None else times.astype(wide)
    along = (slice(None),) * dim
    if segments is not None and segments.spelling == "groups" and times.shape[dim]:
        start = times[(*along, 0)]
        return times - scan(times, ops.LAST, axis=dim, exclusive=True, initial=start, segments=segments)
    gone = da.diff(times, axis=dim, prepend=times[(*along, slice(0, 1))])
    # The time that is prepended is a chunk of its own.
    return gone.rechunk({dim: x.chunks[dim]})
