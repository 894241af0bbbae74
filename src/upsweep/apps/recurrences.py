"""Recurrences in time: exponential averages and discounted sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep import api, homes
from upsweep.advantages import advantages, stops_of
from upsweep.apps.kinds import (
    INTEGRAL,
    REAL,
    check_labels,
    common,
    computed_in,
    enter,
    floating,
    kind_of,
    parameter,
)
from upsweep.arguments import (
    ShapeError,
    axis_of,
    dtype_of,
    followed,
    half_lives,
    held,
    number_of,
    time_dtype,
    timed,
    weighted,
)
from upsweep.engine import DTypeError
from upsweep.operators import ops
from upsweep.segments import Segments, ends


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
            of timedelta64. Times that fall within a segment are a ValueError. On a GPU, where somebody would have to wait for
            them, and in `upsweep.torch`, `.jax` and `.dask`, averages are NaN from there on. Without times, items are one apart.
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
    given, told = (x, alpha), {"times": times}
    xp, (x, times), give = enter(x, times, labels=True)
    x = floating(xp, x)
    dim = axis_of(axis, tuple(x.shape))
    check_labels(given, x.shape, dim, told, {"initial": initial}, segments)
    starts = False if segments is None or initial is not None else _starts_of(xp, segments, x, dim)
    if halflife is not None:
        halves = half_lives(_steps(xp, times, x, dim, segments), halflife)
        alpha = 1 - xp.exp2(-_rising(xp, halves, starts))
    given, fn = (x, parameter(xp, alpha, x)), _averaged
    if initial is None:
        given, fn = (*given, starts), _averaged_from_first
    y = api.scan(
        given, ops.AFFINE, map=fn, finish=_state_alone, axis=dim, dtype=x.dtype,
        initial=None if initial is None else (1, initial), segments=segments, order=order, out=xp.empty_like(x),
    )  # fmt: skip
    return give(y)


def _averaged(x, alpha):
    """The map from the average before an item to the average behind it."""
    return 1 - alpha, alpha * x


def _averaged_from_first(x, alpha, starts, index):
    """The same, where an item that nothing stands before is the average."""
    return 1 - alpha, x if index == 0 or starts else alpha * x


def _state_alone(prefix):
    """The state of a recurrence, from a map that leads there."""
    return prefix[1]


def _rising(xp: Any, halves: Any, starts: Any) -> Any:
    """Steps that do not fall but where a segment starts, at which NaN stands: nothing reads a weight there. An array on a GPU is
    not waited for, and what falls becomes NaN."""
    falls = halves < 0
    if xp is np:
        if not falls.any():
            return halves
        if (falls & np.logical_not(starts)).any():
            raise ValueError(
                "times fall, or a halflife is below 0: sort the items by time, or pass segments= where times start anew"
            )
    return xp.where(falls, xp.nan, halves)


def _steps(xp: Any, times: Any, x: Any, dim: int, segments: Segments | None) -> Any:
    """The time since the item before, in a group since that group's; nothing stands before the first."""
    if times is None:
        return xp.ones((), dtype=xp.float64)
    timed(times.shape, x.shape, dim)
    if times.ndim < x.ndim:
        times = xp.reshape(times, tuple(-1 if d == dim else 1 for d in range(x.ndim)))
    if kind_of(times.dtype) not in (*INTEGRAL, "f", "m", "M"):
        raise DTypeError(f"times of {times.dtype} have no differences: pass numbers or datetime64")
    whole, wide = kind_of(times.dtype) in INTEGRAL, time_dtype(times, x)
    if whole or wide is not None:
        # Steps of narrow and of unsigned integers would wrap.
        times = xp.astype(times, xp.int64 if wide is None else getattr(xp, wide.name), copy=False)
    along = (slice(None),) * dim
    if segments is not None and segments.spelling == "groups" and times.shape[dim]:
        start = xp.squeeze(times[(*along, slice(0, 1))], axis=dim)
        steps = times - api.scan(times, ops.LAST, axis=dim, exclusive=True, initial=start, segments=segments)
    else:
        since = times[(*along, slice(1, None))] - times[(*along, slice(0, -1))]
        steps = xp.zeros(times.shape, dtype=since.dtype, device=times.device)
        steps[(*along, slice(1, None))] = since
    # PyTorch's quotients of integers have few digits.
    return xp.astype(steps, xp.float64) if whole else steps


def _starts_of(xp: Any, given: Segments, x: Any, dim: int) -> Any:
    """True where a segment starts: what an exclusive product of zeros gives there, from 1."""
    zeros = xp.zeros(x.shape, dtype=xp.uint8, device=x.device)
    return xp.astype(api.scan(zeros, ops.MUL, axis=dim, exclusive=True, initial=1, segments=given), xp.bool)


@homes.first
def discounted_sum(
    rewards: Any, gamma: Any, dones: Any = None, *, axis: int | None = None, initial: Any = None, order: str = "tree"
) -> Any:  # fmt: skip
    """The rewards that are still to come, discounted: `g[t] = r[t] + gamma g[t+1]`, or `g[t] = r[t]` where an episode is done.

    Args:
        rewards: real array; integers are summed as float64.
        gamma: the discount: a scalar or an array that broadcasts to the rewards. Beside half precision it keeps the digits of
            float32.
        dones: true at the last item of an episode (the rewards' shape, or 1-D along the axis): nothing flows across,
            not even a NaN.
        axis: the axis of time; it may be left out for 1-D input only.
        initial: the value after the last item, a scalar or one value a row; it counts where the last item is not done. Beside
            half precision, which is computed in float32, it keeps its digits.
        order: as in `upsweep.scan`.

    Returns:
        An array of the rewards' shape, kind and device. Errors are those of `upsweep.scan`.

    >>> import upsweep as up
    >>> up.discounted_sum([1.0, 1.0, 1.0, 1.0], 0.5, [False, True, False, False]).tolist()
    [1.5, 1.0, 1.5, 1.0]

    Source: Blelloch (1990), section 1.5 (segmented scans); Sutton and Barto, "Reinforcement learning", section 3.3.
    """
    told = {"dones": dones}
    xp, (r, dones), give = enter(rewards, dones, labels=True)
    r = floating(xp, r)
    along = axis_of(axis, tuple(r.shape))
    check_labels((rewards, gamma), r.shape, along, told, {"initial": initial})
    weights = parameter(xp, gamma, r)
    if dones is None or 0 in r.shape:
        return give(api.linear_recurrence(weights, r, initial=initial, axis=along, reverse=True, order=order))
    done = _flags(xp, dones, r.shape, along)
    given, fn = (r, weights), _discounted
    if initial is not None:
        given, fn = (*given, *_behind(xp, initial, r, computed_in(xp, r), done, along)), _discounted_from
    return give(
        api.scan(
            given, ops.AFFINE, map=fn, finish=_state_alone, axis=along, reverse=True, dtype=r.dtype, segments=ends(done),
            order=order, out=xp.empty_like(r),
        )
    )  # fmt: skip


def _discounted(reward, weight):
    """The map from the sum behind an item to the sum from this item on."""
    return weight, reward


def _discounted_from(reward, weight, after, over, last, index):
    """The same; behind the last item stands `after`, where that is not `over`."""
    return weight, reward + weight * after if index == last and not over else reward


def _behind(xp: Any, value: Any, x: Any, dtype: Any, done: Any, dim: int) -> tuple[Any, Any, np.integer]:
    """The value behind the last item of each row, in a dtype; whether that item is done, so that there is none; its number."""
    if isinstance(value, (int, float, complex)):
        after = held(value, dtype_of(dtype), "the value behind the last item", "x.astype('float64')")[()]
    elif (after := parameter(xp, value, x, dtype)).ndim:
        if after.ndim >= x.ndim:
            raise ShapeError(
                f"values of shape {tuple(after.shape)} behind the last items: pass a scalar or one a row"
            )
        after = xp.expand_dims(after, axis=dim)
    over = False if done is None else done[(*[slice(None)] * dim, slice(-1, None))]
    return after, over, number_of(x.shape[dim] - 1)


@homes.first
def gae(
    rewards: Any, values: Any, last_value: Any = None, dones: Any = None, *, gamma: float, lam: float, truncated: Any = None,
    next_values: Any = None, axis: int | None = None, order: str = "tree",
) -> Any:  # fmt: skip
    """Generalised advantage estimates: the discounted sum, by `gamma lam`, of `r[t] + gamma v[t+1] - v[t]`.

    Args:
        rewards, values: real arrays of one shape.
        last_value: the value after the last item, a scalar or one a row, in the dtype of the values.
        dones: true at the last item of an episode that has ended: no value and no advantage flows across.
        gamma, lam: discount and decay.
        truncated: true at the last item of an episode that was cut off: no advantage flows across, but the value of the state
            that was reached does, which only `next_values` has.
        next_values: the values after every item, instead of `last_value`, where `values[t+1]` may be another episode's.
        axis: the axis of time; it may be left out for 1-D input only.
        order: as in `upsweep.scan`.

    Returns:
        An array of the rewards' shape, kind and device. Errors are those of `upsweep.discounted_sum`. With `last_value`, in tree
        order, the sum is that of what states are worth to the items before them, so that no array is written but the result;
        the last places may differ from those with `next_values`.

    >>> import upsweep as up
    >>> up.gae([1.0, 1.0], [0.0, 0.0], 0.0, gamma=0.5, lam=1.0).tolist()
    [1.5, 1.0]

    Source: Schulman et al., "High-dimensional continuous control using generalized advantage estimation" (2016), eq. 16.
    """
    followed(last_value, next_values, truncated)
    xp, (r, v, ended, cut, following), give = enter(
        rewards, values, dones, truncated, next_values, labels=True
    )
    r, v = floating(xp, r), floating(xp, v)
    dim = axis_of(axis, tuple(v.shape))
    told = {"dones": dones, "truncated": truncated}
    check_labels((rewards, values, next_values), v.shape, dim, told, {"last_value": last_value})
    ended, cut = (None if f is None else _flags(xp, f, v.shape, dim) for f in (ended, cut))
    stops = stops_of(ended, cut)
    made = xp.empty(v.shape, dtype=r.dtype if r.dtype == v.dtype else common(xp, r, v), device=v.device)
    gamma, lam = parameter(xp, gamma, made), parameter(xp, lam, made)
    if 0 in v.shape:
        return give(made)
    every = following is not None or order == "sequential"
    if every:
        after = _next(xp, v, last_value, dim) if following is None else following
        over = False if ended is None else ended
    else:
        after, over, _ = _behind(xp, last_value, v, v.dtype, ended, dim)
    stopped = None if stops is None else ends(stops)
    advantages(r, v, after, over, gamma, lam, every=every, ends=stopped, axis=dim, order=order, out=made)
    return give(made)


def _next(xp: Any, v: Any, last: Any, dim: int) -> Any:
    """`v[t+1]` at t, and `last` behind the last item."""
    after = xp.asarray(_behind(xp, last, v, v.dtype, None, dim)[0], dtype=v.dtype, device=v.device)
    rest = v[(*[slice(None)] * dim, slice(1, None))]
    rows = tuple(1 if d == dim else n for d, n in enumerate(v.shape))
    return xp.concat([rest, xp.broadcast_to(after, rows)], axis=dim)


def _flags(xp: Any, flags: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Booleans of `shape`, from flags of that shape or 1-D along the axis."""
    if kind_of(flags.dtype) not in REAL:
        raise DTypeError(f"flags must be booleans or numbers, got {flags.dtype}")
    if tuple(flags.shape) not in (tuple(shape), (shape[dim],)):
        raise ShapeError(
            f"flags have shape {tuple(flags.shape)}; pass {shape[dim]} of them, or the data's shape {tuple(shape)}"
        )
    flags = flags if flags.dtype == xp.bool else xp.astype(flags, xp.bool)
    if flags.ndim == 1 and len(shape) > 1:
        flags = xp.reshape(flags, tuple(-1 if d == dim else 1 for d in range(len(shape))))
    return flags if flags.shape == shape else xp.broadcast_to(flags, shape)
