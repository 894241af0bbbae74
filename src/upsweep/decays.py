"""How an average over time weighs its items: by a weight a step, or by the time between them."""

from __future__ import annotations

import math
from datetime import timedelta
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep.arguments import ShapeError, dtype_of
from upsweep.engine import DTypeError


def weighted(alpha: Any, halflife: Any, times: Any, initial: Any) -> None:
    """A ValueError where `ema` is not told how items are weighted, or told twice."""
    if (alpha is None) == (halflife is None):
        raise ValueError(
            "pass alpha, the weight of the newest item, or halflife, after which a weight has halved"
        )
    if isinstance(alpha, (int, float)) and not 0 <= alpha <= 1:
        raise ValueError(f"alpha={alpha!r} is no weight of the newest item: pass one from 0 to 1")
    duration = isinstance(halflife, (timedelta, np.timedelta64))
    nothing: Any = halflife - halflife if duration else 0
    if (duration or isinstance(halflife, (int, float))) and not halflife > nothing:
        raise ValueError(
            f"halflife={halflife!r} is no time after which a weight has halved: pass one above 0"
        )
    if times is not None and alpha is not None:
        raise ValueError("times go with halflife: alpha is the weight after one step of any length")
    if times is not None and initial is not None:
        raise ValueError("initial has no time: put it in front of x, and its time in front of times")


def timed(times: tuple[int, ...], shape: tuple[int, ...], axis: int) -> None:
    """A ShapeError where there is not one time an item."""
    if tuple(times) not in (tuple(shape), (shape[axis],)):
        raise ShapeError(
            f"times have shape {tuple(times)}; pass {shape[axis]} of them, or x's shape {tuple(shape)}"
        )


def check_times(dtype: Any) -> None:
    """A DTypeError where times of this dtype have no differences."""
    if dtypes.kind_of(dtype) not in ("i", "u", "f", "m", "M"):
        raise DTypeError(f"times of {dtype} have no differences: pass numbers or datetime64")


def time_dtype(times: Any, x: Any) -> np.dtype | None:
    """The dtype that times are subtracted in, where that is not their own: narrower floats than x is computed in would weigh its
    items in fewer digits.

    >>> time_dtype(np.zeros(2, "f4"), np.zeros(2)), time_dtype(np.zeros(2), np.zeros(2, "f4"))
    (dtype('float64'), None)
    """
    own, known = dtypes.row_of(times.dtype), dtypes.row_of(x.dtype)
    if own is None or own.kind != "f" or known is None:
        return None
    computed = dtypes.accumulator(dtype_of(x.dtype)).type(0).real.dtype
    return computed if computed.itemsize > times.dtype.itemsize else None


def steps_of(xp: Any, times: Any, x: Any, axis: int) -> Any:
    """The time since the item before, of times that `xp`, NumPy or JAX's, computes with; 0 for the first item."""
    timed(times.shape, x.shape, axis)
    if times.ndim < x.ndim:
        times = times.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    whole = times.dtype.kind in "iu"
    # Steps of narrow and of unsigned integers would wrap.
    wide = int if whole else time_dtype(times, x)
    times = ordered(times, times.astype(int)) if whole else times if wide is None else times.astype(wide)
    along = (slice(None),) * axis
    earlier = xp.concatenate([times[(*along, slice(0, 1))], times[(*along, slice(0, -1))]], axis=axis)
    steps = times - earlier
    return unwrapped(xp, steps.astype(float), steps, times < earlier) if whole else steps


def ordered(given: Any, times: Any) -> Any:
    """Integer times, as they are given and as signed integers, in which the largest unsigned ones are below 0: as signed integers
    of the same order, as far apart.

    >>> ordered(np.array([0, 2**64 - 1], "u8"), np.array([0, -1])).tolist()
    [-9223372036854775808, 9223372036854775807]
    """
    size = times.dtype.itemsize
    turned = dtypes.kind_of(given.dtype) == "u" and given.dtype.itemsize == size
    return times ^ -(2 ** (8 * size - 1)) if turned else times


def unwrapped(xp: Any, floats: Any, steps: Any, falls: Any) -> Any:
    """Steps of integer times as floats, given as `floats` and as the integers that they are computed in, and where times fall.
    Integers hold no step between the two ends of their range.

    >>> unwrapped(np, np.array([-2.0**63]), np.array([-2**63]), np.array([False])).tolist()
    [9.223372036854776e+18]
    """
    turn = 2.0 ** (8 * steps.dtype.itemsize)
    return xp.where(falls == (steps < 0), floats, xp.where(falls, floats - turn, floats + turn))


def half_lives(xp: Any, steps: Any, halflife: Any) -> Any:
    """Steps in time as numbers of half-lives, computed with by `xp`."""
    if isinstance(halflife, np.generic) and not isinstance(halflife, (float, np.timedelta64)):
        halflife = halflife.item()
    number, floats = isinstance(halflife, (int, float)), _are_floats(steps)
    if number and floats:
        tiny, most = _range(steps.dtype)
        halflife = max(halflife, tiny) if halflife <= most else math.inf
    try:
        halves = steps / (np.timedelta64(halflife) if type(halflife) is timedelta else halflife)
    except TypeError:
        halves = None
    if not _are_floats(halves):
        raise DTypeError(
            f"times whose steps are {steps.dtype} do not go with halflife={halflife!r}: pass numbers and a number, or datetime64 "
            "and a timedelta64"
        )
    if number or not floats:
        return halves
    # A halflife below the range of a dtype is 0 there, and a step of 0 would be NaN times as long.
    return xp.where((steps == 0) & (halflife == halflife), 0, halves)


@lru_cache(64)
def _range(dtype: Any) -> tuple[float, float]:
    """The least and the largest numbers above 0 of a dtype, the least one of all digits."""
    known = np.finfo(dtype_of(dtype))
    return float(known.tiny), float(known.max)


def _are_floats(x: Any) -> bool:
    # A DataFrame has no dtype.
    known = dtypes.row_of(getattr(x, "dtype", None))
    return known is not None and known.kind == "f"
