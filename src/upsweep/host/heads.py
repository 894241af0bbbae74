"""Segments as flags."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep.host.arrays import view
from upsweep.plan import Plan
from upsweep.segments import SegmentError, Segments, differ, no_groups


def heads(segments: Segments, shape: tuple[int, ...], axis: int, like: Any) -> np.ndarray:
    """Flags of `shape`, or 1-D along the axis, that are non-zero where a segment starts."""
    no_groups(segments)
    values, n = view(segments.values), shape[axis]
    if segments.spelling == "flags":
        return _flags(values, shape, n)
    # The flag that comes round is the first item's, which starts a segment anyway.
    if segments.spelling == "ends":
        return np.roll(_flags(values, shape, n), 1, axis if values.ndim > 1 else 0)
    if segments.spelling == "keys":
        return _changes(_fitting(values, shape, n, "keys"), axis if values.ndim > 1 else 0)
    return marked(_offsets(segments.spelling, values, n), n)


def offsets(segments: Segments, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """The start of each segment and, last, the end of the data, for segments that are the same in all rows."""
    n = shape[axis]
    if segments.spelling in ("offsets", "lengths"):
        return _offsets(segments.spelling, view(segments.values), n)
    flags = heads(segments, shape, axis, None)
    if flags.ndim > 1:
        raise SegmentError(
            "rows with segments of their own reduce to different numbers of results: pass 1-D segments"
        )
    starts = np.flatnonzero(flags)
    return np.concatenate([[0] * (n > 0 and 0 not in starts[:1]), starts, [n]]).astype(np.int64)


def flags_of(plan: Plan, heads: np.ndarray) -> np.ndarray:
    """The flags of a plan, one for each item, where a segment starts in the order of the scan: in reverse, at its last item."""
    if plan.reverse != plan.ends:
        # The flag that comes round lies at the start of the scan, where a head changes nothing.
        heads = np.roll(heads, 1 if plan.ends else -1, plan.axis if heads.ndim > 1 else 0)
    return spread(heads, plan.shape, plan.axis)


def spread(heads: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """Such flags as uint8 of `shape`; those that are 1-D along the axis hold for all rows."""
    if heads.ndim < len(shape):
        heads = heads.reshape([-1 if d == axis else 1 for d in range(len(shape))])
    return np.broadcast_to(heads.view(np.uint8), shape)


def _fitting(values: np.ndarray, shape: tuple[int, ...], n: int, what: str) -> np.ndarray:
    if values.shape not in (shape, (n,)):
        raise SegmentError(f"{what} have shape {values.shape}; pass {n} of them, or the data's shape {shape}")
    return values


def _flags(values: np.ndarray, shape: tuple[int, ...], n: int) -> np.ndarray:
    if values.dtype.kind not in "biu":
        raise SegmentError(f"flags must be booleans or integers, got {values.dtype}")
    values = _fitting(values, shape, n, "flags")
    return values if values.dtype.itemsize == 1 else values != 0


def _changes(keys: np.ndarray, axis: int) -> np.ndarray:
    changed = np.ones(keys.shape, np.bool_)
    along = (slice(None),) * axis
    later, earlier = keys[(*along, slice(1, None))], keys[(*along, slice(None, -1))]
    changed[(*along, slice(1, None))] = differ(earlier, later)
    return changed


def _offsets(spelling: str, values: np.ndarray, n: int) -> np.ndarray:
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise SegmentError(f"{spelling} must be 1-D integers, got {values.dtype} of shape {values.shape}")
    values = values.astype(np.int64, copy=False)
    if spelling == "lengths":
        if values.size and values.min() < 0:
            raise SegmentError(f"a segment has the negative length {values.min()}")
        values = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    if not values.size or values[0] != 0 or values[-1] != n:
        ends = f"{values[0]} to {values[-1]}" if values.size else "nothing"
        raise SegmentError(f"{spelling} cover {ends}; they must cover 0 to {n}, the length of the axis")
    if (values[1:] < values[:-1]).any():
        raise SegmentError(
            f"offsets must not fall, but do after segment {np.argmax(values[1:] < values[:-1])}"
        )
    return values


def marked(offsets: np.ndarray, n: int) -> np.ndarray:
    """Flags of n items that are true at offsets."""
    flags = np.zeros(n + 1, np.bool_)
    flags[offsets] = True
    return flags[:n]
