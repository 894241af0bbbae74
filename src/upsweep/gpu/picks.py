"""One result a segment: where the segments of a device's arrays start, and the items there."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep.engine import on_gpu
from upsweep.gpu.arrays import view
from upsweep.gpu.groups import carry, ends_of
from upsweep.gpu.marks import flags_of
from upsweep.gpu.one_pass import empty, items_of
from upsweep.gpu.selecting import where
from upsweep.gpu.values import downloaded, heads, uploaded
from upsweep.gpu.view import View
from upsweep.host import offsets
from upsweep.segments import EACH, Segments, one_list

__all__ = ["ends_of", "picked", "starts_of"]


def starts_of(segments: Segments, shape: tuple[int, ...], axis: int, like: Any) -> np.ndarray:
    """See `upsweep.engine.Picks.starts_of`."""
    spelling, values = segments.spelling, segments.values
    if not on_gpu(values):
        return offsets(segments, shape, axis)
    if spelling not in EACH:
        return offsets(Segments(spelling, downloaded(items_of(values))), shape, axis)
    flags = flags_of(heads(Segments("flags", values) if spelling == "ends" else segments, shape, axis, like))
    one_list(len(flags.shape))
    places = downloaded(view(where(flags))) + (spelling == "ends")
    # The first item starts a segment, whether a flag says so or not.
    return np.unique(np.concatenate([[0], places, [shape[axis]]]))


def picked(y: View, axis: int, places: np.ndarray, there: np.ndarray | None, nothing: Any) -> View:
    """See `upsweep.engine.Picks.picked`."""
    made = empty(y, (*y.shape[:axis], len(places), *y.shape[axis + 1 :]), y.dtype)
    across = (
        min((s for d, s in enumerate(y.strides) if d != axis and s), default=y.strides[axis])
        < y.strides[axis]
    )
    index = places if there is None else np.where(there, places, -1)
    carry(y, axis, uploaded(index, y), made, axis, across)
    if there is not None:
        one = view(nothing)
        strides = (*one.strides[:axis], 0, *one.strides[axis:])
        rows = one.over(one.ptr, made.shape, strides, one.dtype)
        carry(rows, axis, uploaded(np.where(there, -1, 0), y), made, axis, across)
    return made
