"""Segments as flags."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep.host.arrays import view
from upsweep.plan import Plan
from upsweep.segments import LISTS, SegmentError, Segments, check_form, differ, no_groups, one_list


def heads(segments: Segments, shape: tuple[int, ...], axis: int, like: Any) -> np.ndarray:
    """Flags of `shape`, or 1-D along the axis, that are non-zero where a segment starts."""
    no_groups(segments)
    values, n = view(segments.values), shape[axis]
    check_form(segments.spelling, values, shape, n)
    if segments.spelling == "flags":
        return _flags(values)
    if segments.spelling == "ends":
        return _moved(_flags(values), 1, axis if values.ndim > 1 else 0)
    if segments.spelling == "keys":
        return _changes(values, axis if values.ndim > 1 else 0)
    return marked(_offsets(segments.spelling, values, n), n)


def starts(segments: Segments, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """The same as booleans in memory of their own; the first item starts a segment, whether a flag says so or not."""
    flags = heads(segments, shape, axis, None) != 0
    flags[(*[slice(None)] * (axis if flags.ndim > 1 else 0), slice(0, 1))] = True
    return flags


def offsets(segments: Segments, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """The start of each segment and, last, the end of the data, for segments that are the same in all rows."""
    n = shape[axis]
    if segments.spelling in LISTS:
        values = view(segments.values)
        check_form(segments.spelling, values, shape, n)
        return _offsets(segments.spelling, values, n)
    flags = heads(segments, shape, axis, None)
    one_list(flags.ndim)
    starts = flags.nonzero()[0]
    # The first item starts a segment, whether a flag says so or not.
    unsaid = int(n > 0 and not flags.item(0))
    made = np.zeros(unsaid + len(starts) + 1, np.int64)
    made[unsaid:-1], made[-1] = starts, n
    return made


def flags_of(plan: Plan, heads: np.ndarray) -> np.ndarray:
    """The flags of a plan, one for each item, where a segment starts in the order of the scan: in reverse, at its last item."""
    if plan.reverse != plan.ends:
        heads = _moved(heads, 1 if plan.ends else -1, plan.axis if heads.ndim > 1 else 0)
    return spread(heads, plan.shape, plan.axis)


def _moved(flags: np.ndarray, by: int, axis: int) -> np.ndarray:
    """Flags one place further on, or back; where the scan starts, at which a head changes nothing, stands none. `np.roll` takes
    microseconds."""
    moved = np.zeros(flags.shape, flags.dtype)
    along = (slice(None),) * axis
    to, since = (slice(1, None), slice(None, -1)) if by > 0 else (slice(None, -1), slice(1, None))
    moved[(*along, to)] = flags[(*along, since)]
    return moved


def spread(heads: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """Flags of segments as uint8 of `shape`; flags that are 1-D along the axis hold for all rows."""
    if heads.ndim < len(shape):
        heads = heads.reshape([-1 if d == axis else 1 for d in range(len(shape))])
    flags = heads.view(np.uint8)
    # NumPy takes two microseconds to broadcast even an array of that shape.
    return flags if flags.shape == shape else np.broadcast_to(flags, shape)


def _flags(values: np.ndarray) -> np.ndarray:
    return values if values.dtype.itemsize == 1 else values != 0


def _changes(keys: np.ndarray, axis: int) -> np.ndarray:
    changed = np.ones(keys.shape, np.bool_)
    along = (slice(None),) * axis
    later, earlier = keys[(*along, slice(1, None))], keys[(*along, slice(None, -1))]
    changed[(*along, slice(1, None))] = differ(earlier, later)
    return changed


def _offsets(spelling: str, values: np.ndarray, n: int) -> np.ndarray:
    given = values = values.astype(np.int64, copy=False)
    if spelling == "lengths":
        values = np.zeros(len(given) + 1, np.int64)
        np.add.accumulate(given, out=values[1:])
    # `any` takes a microsecond of nothing else.
    falls = values[1:] < values[:-1]
    if not len(values) or values.item(0) != 0 or values.item(-1) != n or np.count_nonzero(falls):
        raise _wrong(spelling, given, values, falls, n)
    return values


def _wrong(spelling: str, given: np.ndarray, values: np.ndarray, falls: np.ndarray, n: int) -> SegmentError:
    """The mistake in offsets, as they are given or made of lengths."""
    if spelling == "lengths" and given.size and given.min() < 0:
        return SegmentError(f"a segment has the negative length {given.min()}")
    if not values.size or values[0] != 0 or values[-1] != n:
        ends = f"{values[0]} to {values[-1]}" if values.size else "nothing"
        return SegmentError(f"{spelling} cover {ends}; they must cover 0 to {n}, the length of the axis")
    return SegmentError(f"offsets must not fall, but do after segment {np.argmax(falls)}")


def marked(offsets: np.ndarray, n: int) -> np.ndarray:
    """Flags of n items that are true at offsets."""
    flags = np.zeros(n + 1, np.bool_)
    flags[offsets] = True
    return flags[:n]
