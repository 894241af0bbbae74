"""Device memory as an array: a pointer, a shape, strides in bytes, a dtype, a device."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from upsweep.gpu.arrays import Kind


class View:
    """Device memory as an array. `owner` is the array that was seen, and keeps it alive (or `memory` does, where it is our
    own); `kind` is its library. A number that travels with a launch has a `value`, and no memory."""

    __slots__ = ("device", "dtype", "kind", "memory", "owner", "ptr", "readonly", "shape", "strides", "value")

    def __init__(
        self,
        ptr: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        device: int,
        kind: Kind | None,
        owner: Any,
        readonly: bool = False,
        memory: Any = None,
        value: Any = None,
    ) -> None:
        self.ptr = ptr
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.device = device
        self.kind = kind
        self.owner = owner
        self.readonly = readonly
        self.memory = memory
        self.value = value

    def __getitem__(self, field: str) -> View:
        """A field of structured data."""
        assert self.dtype.fields is not None
        dtype, offset = self.dtype.fields[field][:2]
        return self.over(self.ptr + offset, self.shape, self.strides, dtype)

    def over_all(self, shape: tuple[int, ...], dtype: np.dtype) -> View:
        """The memory as a contiguous array."""
        return self.over(self.ptr, shape, c_strides(shape, dtype.itemsize), dtype)

    def over(self, ptr: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> View:
        """Another look at the same memory."""
        return View(
            ptr, shape, strides, dtype, self.device, self.kind, self.owner, self.readonly, self.memory
        )

    def cut(self, axis: int, start: int, stop: int) -> View:
        """The part `[start, stop)` along an axis."""
        shape = (*self.shape[:axis], stop - start, *self.shape[axis + 1 :])
        return self.over(self.ptr + start * self.strides[axis], shape, self.strides, self.dtype)

    @property
    def on_host(self) -> bool:
        """Whether this is a number that travels with the launch."""
        return self.value is not None

    @property
    def place(self) -> tuple[tuple[int, ...], int]:
        """Strides, and the pointer's remainder by 16, or -1 where there is no pointer: a launch is chosen by these."""
        return self.strides, -1 if self.value is not None else self.ptr & 15

    @property
    def lie(self) -> tuple[int, tuple[tuple[int, int], ...], int]:
        """Where the items lie, whatever dimensions of one item stand between."""
        return (
            self.ptr,
            tuple((n, s) for n, s in zip(self.shape, self.strides) if n != 1),
            self.dtype.itemsize,
        )

    def extent(self) -> tuple[int, int]:
        """The first address and the one after the last, whatever the signs of the strides."""
        low, high = _reach(self.shape, self.strides, self.dtype.itemsize)
        return self.ptr + low, self.ptr + high


@lru_cache(4096)
def _reach(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    if 0 in shape:
        return 0, 0
    steps = [(n - 1) * s for n, s in zip(shape, strides)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + itemsize


@lru_cache(4096)
def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of a C-contiguous array."""
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))
