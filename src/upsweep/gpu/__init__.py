"""The CUDA engine: canonical bits at the speed of a copy, on arrays of any GPU library.

arrays.py sees memory, values.py brings the small things that go with a scan (initial values, segments) to the device,
layout.py puts arrays in the order of a scan, sweeps.py and lanes.py choose a kernel for them, compile.py makes machine code of
kernels/, launch.py runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from upsweep.gpu import driver
from upsweep.gpu.arrays import view
from upsweep.gpu.marks import Marks, flags_of
from upsweep.gpu.steps import run
from upsweep.gpu.values import broadcast, heads, start
from upsweep.gpu.view import View

__all__ = [
    "apart",
    "broadcast",
    "cut",
    "empty",
    "give",
    "heads",
    "run",
    "spread",
    "start",
    "view",
    "writable",
]


def writable(view: View) -> bool:
    """Whether results may be written there."""
    return not view.readonly and not view.on_host


def empty(like: Any, shape: tuple[int, ...], dtype: np.dtype) -> View:
    """A new array of the library and on the device of `like`."""
    seen = view(like)
    assert seen.kind is not None
    made = seen.kind.empty(seen, shape, dtype)
    made.readonly = False
    return made


def give(like: Any, view: View) -> Any:
    """The array itself: it was made of the kind of `like`."""
    if view.kind is not None and view.kind.waits:
        with driver.on_device(view.device):
            driver.synchronize(view.kind.stream(view))
    return view.owner


def cut(view: View, axis: int, start: int, stop: int) -> View:
    """The part `[start, stop)` along an axis."""
    return view.cut(axis, start, stop)


def spread(heads: View | Marks, shape: tuple[int, ...], axis: int) -> View:
    """Flags as uint8 of `shape`; those that are 1-D along the axis hold for all rows."""
    heads = flags_of(heads)
    strides = heads.strides
    if len(strides) < len(shape):
        strides = tuple(strides[0] if d == axis else 0 for d in range(len(shape)))
    return heads.over(heads.ptr, shape, strides, np.dtype(np.uint8))


def apart(x: Any, ys: Sequence[View]) -> Any:
    """`x`, or a copy where an output lies over it other than item for item: tiles are read while others are written."""
    # Marks are written down before any tile is.
    if isinstance(x, Marks):
        return x
    low, high = x.extent()
    for y in ys:
        y_low, y_high = y.extent()
        if low < y_high and y_low < high and x.lie != y.lie and not x.on_host:
            return _copy(x, low, high)
    return x


def _copy(x: View, low: int, high: int) -> View:
    assert x.kind is not None
    stream = x.kind.stream(x)
    with driver.on_device(x.device):
        memory = driver.Memory(high - low + 16, x.device, stream)
        # With the same alignment, the launch that is kept serves the copy too.
        start = memory.ptr + low % 16
        driver.copy(start, low, high - low, stream)
    return View(start + x.ptr - low, x.shape, x.strides, x.dtype, x.device, x.kind, x.owner, True, memory)
