"""Recurrences in time: exponential averages and discounted sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep import api, homes
from upsweep.apps.kinds import (
    INTEGRAL,
    check_labels,
    floating,
    parameter,
)
from upsweep.apps.repeated import Planned, called
from upsweep.arguments import axis_of
from upsweep.decays import check_times, half_lives, ordered, time_dtype, timed, unwrapped, weighted
from upsweep.dtypes import kind_of
from upsweep.operators import ops
from upsweep.segments import Segments


@homes.first
def ema(
    x: Any, alpha: Any = None, *, halflife: Any = None, times: Any = None, axis: int | None = None, initial: Any = None,
    segments: Segments | None = None, order: str = "tree",
) -> Any:  # fmt: skip
    """Exponential moving average `y[t] = (1 - alpha) y[t-1] + alpha x[t]`.

    Args:
        x: real or complex array; integers are averaged as float64.
        alpha: the weight of the newest item, from 0 to 1: a scalar or an array that broadcasts to x. Beside half precision it
            keeps the digits of float32, in which `1 - alpha` is computed, too.
        halflife: instead of alpha, the time after which a weight has halved: `1 - alpha[t]` is
            `2 ** -((times[t] - times[t-1]) / halflife)`.
        times: with halflife, the time of each item, of x's shape or 1-D along the axis: numbers, or datetime64 with a halflife
            of timedelta64. Times that fall within a segment are a ValueError. On a GPU, which Python would have to wait for, and
            in `upsweep.torch`, `.jax` and `.dask`, averages are NaN from there on instead. Without times, items are one apart.
        axis: the axis of time; it may be left out for 1-D input only.
        initial: y before the first item, a scalar or one value a row. Without it `y[0] = x[0]`, as in pandas'
            `ewm(alpha=alpha, adjust=False).mean()`.
        segments: see `upsweep.segments`; each starts as if nothing stood before it.
        order: as in `upsweep.scan`.

    Returns:
        An array of x's shape, kind and device. Errors are those of `upsweep.scan`. The weights of times are the array
        library's powers of two, which need not have the same bits on every machine.

    >>> import upsweep as up
    >>> up.ema([4.0, 8.0, 8.0], 0.5).tolist()
    [4.0, 6.0, 7.0]
    >>> up.ema([4.0, 8.0, 8.0], halflife=1, times=[0, 1, 3]).tolist()
    [4.0, 6.0, 7.5]

    Source: Blelloch, "Prefix sums and their applications" (1990), section 1.4; Eckner, "Algorithms for unevenly spaced time
    series: moving averages" (2019), for times.
    """
    weighted(alpha, halflife, times, initial)
    return called(_averages, (x, times), (alpha, halflife, initial), segments, axis, order)


def _averages(call: Planned, axis: int | None, order: str) -> Callable[..., Any]:
    """The function that averages operands like these."""
    xp, given, (x, times, *_), told = call
    scan, marked = call.scan(), call.scan()
    dim = axis_of(axis, tuple(x.shape))
    check_labels((given[0], given[2]), x.shape, dim, {"times": given[1]}, {"initial": given[4]}, told)
    if times is not None:
        timed(times.shape, x.shape, dim)
        check_times(times.dtype)

    def run(x: Any, times: Any, alpha: Any, halflife: Any, initial: Any, segments: Segments | None) -> Any:
        x = floating(xp, x)
        starts = (
            False if segments is None or initial is not None else _starts_of(xp, marked, segments, x, dim)
        )
        if halflife is not None:
            halves = half_lives(xp, _steps(xp, times, x, dim, segments), halflife)
            alpha = 1 - xp.exp2(-_rising(xp, halves, starts))
        given, fn = (x, parameter(xp, alpha, x)), _averaged
        if initial is None:
            given, fn = (*given, starts), _averaged_from_first
        return scan(
            given, ops.AFFINE, map=fn, finish=state_alone, axis=dim, dtype=x.dtype,
            initial=None if initial is None else (1, initial), segments=segments, order=order, out=xp.empty_like(x),
        )  # fmt: skip

    return run


def _averaged(x, alpha):
    """The map from the average before an item to the average behind it."""
    return 1 - alpha, alpha * x


def _averaged_from_first(x, alpha, starts, index):
    """The map from the average before an item to the average behind it. An item that nothing stands before is the average."""
    return 1 - alpha, x if index == 0 or starts else alpha * x


def state_alone(prefix):
    """The state of a recurrence, from a map that leads there."""
    return prefix[1]


def _rising(xp: Any, halves: Any, starts: Any) -> Any:
    """Steps that do not fall but where a segment starts, at which NaN stands: nothing reads a weight there. An array on a GPU is
    not waited for, and what falls becomes NaN."""
    falls = halves < 0
    if xp is np:
        # `any` takes a microsecond of nothing else.
        if not np.count_nonzero(falls):
            return halves
        if (falls & np.logical_not(starts)).any():
            raise ValueError(
                "times fall, or a halflife is below 0: sort the items by time, or pass segments= where times start anew"
            )
        # They lie in memory as steps do of which none falls. NumPy gives a number where steps have no axis.
        halves = np.asarray(halves)
        np.copyto(halves, np.nan, where=falls)
        return halves
    return xp.where(falls, xp.nan, halves)


def _steps(xp: Any, times: Any, x: Any, dim: int, segments: Segments | None) -> Any:
    """The time since the item before, in a group since that group's; nothing stands before the first."""
    if times is None:
        return xp.ones((), dtype=xp.float64)
    if times.ndim < x.ndim:
        times = xp.reshape(times, tuple(-1 if d == dim else 1 for d in range(x.ndim)))
    whole, wide = kind_of(times.dtype) in INTEGRAL, time_dtype(times, x)
    if whole:
        # Steps of narrow and of unsigned integers would wrap.
        times = ordered(times, xp.astype(times, xp.int64, copy=False))
    elif wide is not None:
        times = xp.astype(times, getattr(xp, wide.name), copy=False)
    along = (slice(None),) * dim
    if segments is not None and segments.spelling == "groups" and times.shape[dim]:
        start = xp.squeeze(times[(*along, slice(0, 1))], axis=dim)
        earlier = api.scan(times, ops.LAST, axis=dim, exclusive=True, initial=start, segments=segments)
        steps = times - earlier
        return unwrapped(xp, xp.astype(steps, xp.float64), steps, times < earlier) if whole else steps
    later, earlier = times[(*along, slice(1, None))], times[(*along, slice(0, -1))]
    since = later - earlier
    if whole:
        # PyTorch's quotients of integers have few digits.
        since = unwrapped(xp, xp.astype(since, xp.float64), since, later < earlier)
    steps = xp.zeros(times.shape, dtype=since.dtype, device=times.device)
    steps[(*along, slice(1, None))] = since
    return steps


def _starts_of(xp: Any, scan: Callable[..., Any], given: Segments, x: Any, dim: int) -> Any:
    """True where a segment starts: an exclusive product of zeros, from 1, is 1 there and 0 elsewhere."""
    zeros = xp.zeros(x.shape, dtype=xp.uint8, device=x.device)
    return xp.astype(scan(zeros, ops.MUL, axis=dim, exclusive=True, initial=1, segments=given), xp.bool)
