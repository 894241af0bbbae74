"""Arrays as a simulated kernel sees them, and who touched each of their words last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(eq=False, slots=True)
class Stamp:
    """Whose an access is, and between which barriers, grid barriers and fences it lies; a thread's next one is another."""

    block: int
    thread: int
    epoch: int = 0
    grid_epoch: int = 0
    clock: int = 0


@dataclass
class Root:
    """Memory that nobody has written yet, as far as `written` says."""

    start: int
    written: np.ndarray

    def __contains__(self, address: int) -> bool:
        return self.start <= address < self.start + len(self.written)


class Word:
    """The accesses to a word that a later one may race with: the last write, and the reads since."""

    __slots__ = ("kind", "line", "reads", "write")

    def __init__(self) -> None:
        self.write: Stamp | None = None
        self.kind, self.line = "", 0
        self.reads: dict[Stamp, int] = {}
        """The readers of a word -> their lines."""


class DeviceArray(np.ndarray):
    """Memory of the simulated device, which is the host's."""

    def copy_to_host(self, ary: np.ndarray | None = None, stream: Any = 0) -> np.ndarray:
        if ary is None:
            return np.array(self, subok=False)
        np.copyto(ary, self)
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        np.copyto(self, ary)

    def is_c_contiguous(self) -> bool:
        return bool(self.flags.c_contiguous)


class Memory:
    """An array within a kernel: an element at a time, or a view."""

    __slots__ = ("address", "array", "length", "name", "read", "root", "sim", "strides", "wide")

    def __init__(self, sim: Any, array: np.ndarray, name: str, root: Root | None = None):
        self.sim, self.array, self.name, self.root = sim, array, name, root
        self.address, self.strides = array.__array_interface__["data"][0], array.strides
        self.length = len(array) if array.ndim == 1 else -1
        self.wide = array.dtype.char in "dD?"
        """Whether any value may be stored as it is."""
        self.read = array.item if self.wide or array.dtype.kind in "iu" else array.__getitem__
        """Gives an element as a kernel computes with it: integers as wide as numba makes them, halves and singles as they are."""

    shape = property(lambda self: self.array.shape)
    size = property(lambda self: self.array.size)
    ndim = property(lambda self: self.array.ndim)
    dtype = property(lambda self: self.array.dtype)
    T = property(lambda self: self.view(self.array.T))
    real = property(lambda self: self.view(self.array.real))
    imag = property(lambda self: self.view(self.array.imag))

    def view(self, array: np.ndarray) -> Memory:
        return Memory(self.sim, array, self.name, self.root)

    def reshape(self, *shape: Any) -> Memory:
        return self.view(self.array.reshape(*shape))

    def ravel(self) -> Memory:
        return self.view(self.array.reshape(-1))

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Any:
        return (self.load(i, 0) for i in range(len(self)))

    def place(self, index: Any, line: int, kind: str) -> tuple[tuple[int, ...], int] | None:
        """The indices and the address of an element; None for a view."""
        if index.__class__ is int and 0 <= index < self.length:
            return (index,), self.address + index * self.strides[0]
        parts: Sequence[Any] = index if isinstance(index, tuple) else (index,)
        if len(parts) != self.array.ndim or any(isinstance(p, slice) or p is Ellipsis for p in parts):
            return None
        address, found = self.address, []
        for part, extent, stride in zip(parts, self.array.shape, self.strides):
            i = int(part)
            if not -extent <= i < extent:
                self.sim.found(
                    "out of bounds",
                    line,
                    f"{self.name}[{', '.join(map(str, parts))}] of shape {self.array.shape}",
                )
                raise self.sim.stop
            i += extent if i < 0 else 0
            found.append(i)
            address += i * stride
        return tuple(found), address

    def load(self, index: Any, line: int) -> Any:
        at = self.place(index, line, "load")
        if at is None:
            return self.view(self.array[index])
        where, address = at
        if self.root is not None and not self.root.written[address - self.root.start]:
            self.sim.found(
                "uninitialised", line, f"{self.name}[{', '.join(map(str, where))}], which nobody has written"
            )
        self.sim.touched(self, address, where, "load", line)
        return self.read(where)

    def store(self, index: Any, value: Any, line: int, kind: str = "store") -> None:
        at = self.place(index, line, kind)
        if at is None:
            whole = self.view(self.array[index])
            for where in np.ndindex(whole.array.shape):
                one = (
                    value.load(where, line)
                    if isinstance(value, Memory)
                    else np.broadcast_to(value, whole.array.shape)[where]
                )
                whole.store(where, one, line)
            return
        where, address = at
        self.sim.touched(self, address, where, kind, line)
        self.put(where, address, value)

    def put(self, where: tuple[int, ...], address: int, value: Any) -> None:
        if self.root is not None:
            begin = address - self.root.start
            self.root.written[begin : begin + self.array.itemsize] = True
        self.array[where] = value if self.wide else fitted(value, self.array.dtype)


def fitted(value: Any, dtype: np.dtype) -> Any:
    """A value as memory of a dtype takes it: integers wrap, and floats lose their fraction."""
    if dtype.kind in "iu" and not isinstance(value, (np.void, tuple)):
        whole = int(value) & ((1 << 8 * dtype.itemsize) - 1)
        return (
            whole - (1 << 8 * dtype.itemsize)
            if dtype.kind == "i" and whole >> (8 * dtype.itemsize - 1)
            else whole
        )
    return value
