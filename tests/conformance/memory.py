"""The memory of a call's arrays, on a host or on a GPU. It is full of poison, and every byte of it is compared."""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

POISON, GUARD = 0xA5, 256


class Place(NamedTuple):
    """An array within some memory."""

    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int
    strides: tuple[int, ...]
    nbytes: int
    """The bytes of the memory, with those around the array."""

    def on(self, memory: np.ndarray) -> np.ndarray:
        return np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)


def place(layout: str, shape: tuple[int, ...], dtype: np.dtype, aligned: bool) -> Place:
    """An array of a layout. `aligned`: its items lie at multiples of their size."""
    size, whole = dtype.itemsize, list(shape)
    if shape and layout == "padded":
        # Lines of odd shapes begin at other remainders by 16 bytes than without a gap; those of even shapes at the same.
        whole[-1] += 3 if shape[-1] % 2 else 16
    if shape and layout == "stepped":
        whole[-1] *= 2
    order = range(len(whole)) if layout == "fortran" else reversed(range(len(whole)))
    strides, step = [0] * len(whole), size
    for d in order:
        strides[d] = step
        step *= max(whole[d], 1)
    offset = GUARD
    if layout == "offset":
        offset += size if aligned else size + 1
    if shape and layout == "stepped":
        strides[-1] *= 2
        # In odd shapes the items are the second ones of their pairs.
        offset += size * (shape[-1] % 2)
    if layout == "backwards":
        offset += sum((n - 1) * s for n, s in zip(shape, strides) if n)
        strides = [-s for s in strides]
    if shape and layout == "broadcast":
        strides[0] = 0
    return Place(shape, dtype, offset, tuple(strides), step + 2 * GUARD + 2 * size + 1)


class Host:
    """Memory of this machine, for the engines that work there."""

    aligned = False

    def __init__(self, engine: str) -> None:
        self.engine = engine

    def knows(self, dtype: np.dtype) -> bool:
        return True

    def put(self, memory: np.ndarray) -> Any:
        return memory.copy()

    def get(self, memory: Any) -> np.ndarray:
        return memory

    def array(self, memory: Any, at: Place) -> Any:
        return at.on(memory)

    def value(self, x: np.ndarray) -> Any:
        """A few numbers that go with a scan."""
        return x

    def host(self, x: Any) -> np.ndarray:
        return np.asarray(x)


class Device(Host):
    """Memory of a GPU, or what stands for it."""

    aligned = True

    def knows(self, dtype: np.dtype) -> bool:
        return dtype.kind in "biufc" and dtype.type.__module__ == "numpy"


class Cuda(Device):
    """Memory of a GPU, by CuPy."""

    def __init__(self) -> None:
        super().__init__("cuda")
        import cupy

        np.vstack = np.vstack  # type: ignore[attr-defined]  # numba-cuda up to 0.30 asks NumPy 2.5 for it
        self.cupy = cupy

    def put(self, memory: np.ndarray) -> Any:
        return self.cupy.asarray(memory)

    def get(self, memory: Any) -> np.ndarray:
        return self.cupy.asnumpy(memory)

    def array(self, memory: Any, at: Place) -> Any:
        return self.cupy.ndarray(at.shape, at.dtype, memory.data + at.offset, at.strides)

    def value(self, x: np.ndarray) -> Any:
        # CuPy would make 0.0 of -0.0 in an array without dimensions.
        return self.cupy.asarray(x.reshape(-1)).reshape(x.shape)

    def host(self, x: Any) -> np.ndarray:
        return self.cupy.asnumpy(x)


class Emulated(Device):
    """Memory of this machine that stands for a GPU's: the CUDA engine's kernels for a compute capability run in `emulator`, as
    long as `patch` lasts."""

    def __init__(self, patch: Any, architecture: int = 90, seed: int = 0) -> None:
        super().__init__("cuda")
        from emulator.device import Array, Gpu, room

        self.made, self.room, self.gpu = Array, room, Gpu(architecture, seed)
        self.gpu.patch(patch)
        self.forget()

    @staticmethod
    def forget() -> None:
        """Have kernels made anew."""
        from upsweep import recall
        from upsweep.gpu import kept, launch, one_pass, workspaces

        one_pass.loaded.cache_clear()
        kept._kernels.cache_clear()
        kept._course.cache_clear()
        launch._launches.clear()
        launch._kernel.cache_clear()
        # A launch that went wrong may have left its workspace as no launch does.
        workspaces._workspaces.clear()
        recall.forget()

    def knows(self, dtype: np.dtype) -> bool:
        return dtype.kind not in "mM"

    def put(self, memory: np.ndarray) -> Any:
        there = self.room(memory.nbytes)
        there[:] = memory
        return there

    def array(self, memory: Any, at: Place) -> Any:
        return self.made(at.on(memory))

    def value(self, x: np.ndarray) -> Any:
        return self.made(self.put(np.frombuffer(x.tobytes(), np.uint8)).view(x.dtype).reshape(x.shape))

    def host(self, x: Any) -> np.ndarray:
        nbytes = math.prod(x.shape) * x.dtype.itemsize
        memory = ctypes.string_at(x.__cuda_array_interface__["data"][0], nbytes)
        return np.frombuffer(memory, x.dtype).reshape(x.shape)


def device(engine: str) -> Host:
    """What an engine works on. "emulated" may name a compute capability: "emulated-80"."""
    name, _, architecture = engine.partition("-")
    if name == "emulated":
        return Emulated(pytest.MonkeyPatch(), int(architecture or 90))
    return Cuda() if engine == "cuda" else Host(engine)
