"""Recurrences in time."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask.base import compute

from upsweep.arguments import axis_of, check_broadcasts, check_flags, held
from upsweep.dask.chunks import filled, known
from upsweep.dask.graphs import heads_of, scanned
from upsweep.dask.scans import scan
from upsweep.decays import check_times, half_lives, ordered, time_dtype, timed, unwrapped, weighted
from upsweep.dtypes import accumulator, fits, kind_of
from upsweep.engine import DTypeError
from upsweep.host import view
from upsweep.operators import ops
from upsweep.segmented_chunks import starts_of
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
    b = known(da.asarray(b))
    computed = accumulator(b.dtype)
    if not isinstance(a, da.Array):
        a = held(a, computed, "a", "b.astype({!r})")
    elif not fits(a.dtype, b.dtype):
        raise DTypeError(f"a of {a.dtype} does not fit b's {b.dtype}: pass b.astype({str(a.dtype)!r})")
    start = None if initial is None else (1, initial)
    check_broadcasts("a", a.shape, b.shape)
    a = da.broadcast_to(filled(da.asarray(a)).astype(computed), b.shape).rechunk(b.chunks)
    return scanned(ops.AFFINE, (a, b), axis, False, reverse, start, None, segments, (1,))[0]


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
    x = _floating(known(da.asarray(x)))
    dim, dtype, chunks, x = axis_of(axis, x.shape), x.dtype, x.chunks, filled(x)
    if halflife is not None:
        halflife = filled(halflife) if isinstance(halflife, da.Array) else halflife
        halves = half_lives(da, _steps(times, x, dim, segments), halflife)
        alpha = 1 - da.exp2(-da.where(halves < 0, np.nan, halves))
    alpha = _weight(alpha, x)
    x = x.astype(accumulator(dtype))
    b = alpha * x
    if initial is None:
        first = _is_item(0, x, dim)
        told = checked(segments)
        b = da.where(first if told is None else first | heads_of(told, x, dim), x, b)
    # Weights and segments may have chunks of their own.
    y = linear_recurrence(1 - alpha, b.rechunk(chunks), initial=initial, axis=dim, segments=segments)
    return y.astype(dtype)


def discounted_sum(
    rewards: Any, gamma: Any, dones: Any = None, *, axis: int | None = None, initial: Any = None
) -> Any:
    """`g[t] = r[t] + gamma g[t+1]` of a Dask array, stopping where an episode is done, as `upsweep.discounted_sum`, lazily.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.discounted_sum(da.ones(4, chunks=2), 0.5, [False, True, False, False]).compute().tolist()
    [1.5, 1.0, 1.5, 1.0]
    """
    r = _floating(known(da.asarray(rewards)))
    dim, dtype, chunks, r = axis_of(axis, r.shape), r.dtype, r.chunks, filled(r)
    weight, r = _weight(gamma, r), r.astype(accumulator(dtype))
    done = None if dones is None else _flags(dones, r, dim)
    if done is not None and initial is not None and r.shape[dim]:
        # `initial` stands behind the last item, unless that item is done.
        (after,) = starts_of(compute(initial)[0], (r.dtype,), r.shape[:dim] + r.shape[dim + 1 :])
        after = np.expand_dims(after, dim) if after.ndim else after
        last, over = _is_item(r.shape[dim] - 1, r, dim), done if done.ndim == r.ndim else _along(done, r, dim)
        r, initial = da.where(last, r + weight * da.where(over, r.dtype.type(0), after), r), None
    told = None if done is None else ends(done)
    # Weights and flags may have chunks of their own.
    r = r.rechunk(chunks)
    return linear_recurrence(weight, r, initial=initial, axis=dim, reverse=True, segments=told).astype(dtype)


def _floating(x: Any) -> Any:
    # Results have this machine's order of bytes.
    return x.astype(np.float64 if x.dtype.kind in "biu" else x.dtype.newbyteorder("="))


def _weight(value: Any, x: Any) -> Any:
    """A weight in the dtype that a scan of x computes in."""
    computed = accumulator(x.dtype)
    if isinstance(value, (int, float, complex)):
        return held(value, computed, "a weight")
    weights = filled(da.asarray(value))
    if not fits(weights.dtype, computed):
        raise DTypeError(
            f"weights of {weights.dtype} do not go with items of {x.dtype}: convert the weights first"
        )
    check_broadcasts("weights", weights.shape, x.shape)
    return weights.astype(computed)


def _flags(flags: Any, x: Any, dim: int) -> Any:
    """Booleans of x's shape or 1-D along the axis, where they lie."""
    flags = filled(flags) if isinstance(flags, da.Array) else view(flags)
    check_flags(flags, kind_of(flags.dtype), x.shape, dim)
    return flags != 0


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
    times = filled(da.asarray(times))
    check_times(times.dtype)
    timed(times.shape, x.shape, dim)
    times = times if times.ndim == x.ndim else _along(times, x, dim)
    whole = times.dtype.kind in "iu"
    wide = np.int64 if whole else time_dtype(times, x)
    given, times = times, times if wide is None else times.astype(wide)
    times = ordered(given, times) if whole else times
    along = (slice(None),) * dim
    if segments is not None and segments.spelling == "groups" and times.shape[dim]:
        start = times[(*along, 0)]
        earlier = scan(times, ops.LAST, axis=dim, exclusive=True, initial=start, segments=segments)
    else:
        first = times[(*along, slice(0, 1))]
        # The time in front is a chunk of its own.
        earlier = da.concatenate([first, times[(*along, slice(0, -1))]], axis=dim).rechunk(times.chunks)
    steps = times - earlier
    steps = unwrapped(da, steps.astype(float), steps, times < earlier) if whole else steps
    return steps.rechunk({dim: x.chunks[dim]})
