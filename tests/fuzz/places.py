"""Memory for a case: one buffer of random bytes in which inputs and outputs are views of any layout, and the libraries that see
it.

The bytes beside the outputs, before, behind and between their items, must be the same after a scan.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from upsweep.engine import ENGINES


class Layout(NamedTuple):
    """The places of items: byte strides, and the lowest and the highest byte from the first item on."""

    strides: tuple[int, ...]
    low: int
    high: int


class Place(NamedTuple):
    """An array within the buffer."""

    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def of(self, buffer: np.ndarray) -> np.ndarray:
        return np.ndarray(self.shape, self.dtype, buffer, self.offset, self.strides)


def layout(rng: np.random.Generator, shape: tuple[int, ...], size: int, tame: bool, repeats: bool) -> Layout:
    """Strides in any order and of any sign, with gaps, also of multiples of 16 bytes, behind which lines begin as without them.
    `tame`: positive multiples of the items' size. `repeats`: 0 as well."""
    axes = list(range(len(shape)))[::-1] if rng.random() < 0.5 else rng.permutation(len(shape)).tolist()
    step = size * int(rng.choice([1, 1, 1, 2, 3]))
    if not tame and rng.random() < 0.2:
        # A field of a structure.
        step += int(rng.integers(1, 9))
    strides = [0] * len(shape)
    for d in axes:
        strides[d] = step if tame or rng.random() < 0.8 else -step
        step = step * max(1, shape[d]) + (size * int(rng.choice([0, 1, 2, 16])) if rng.random() < 0.3 else 0)
        if repeats and rng.random() < 0.05:
            strides[d] = 0
    return Layout(tuple(strides), *reach(shape, strides, size))


def reach(shape, strides, size) -> tuple[int, int]:
    if 0 in shape:
        return 0, 0
    steps = [(n - 1) * s for n, s in zip(shape, strides)]
    return sum(min(0, s) for s in steps), sum(max(0, s) for s in steps) + size


class NumPy:
    """NumPy arrays: any layout."""

    tame = False

    def takes(self, dtype: np.dtype) -> bool:
        return True

    def send(self, buffer: np.ndarray) -> Any:
        return buffer

    def array(self, memory: Any, place: Place) -> Any:
        return place.of(memory)

    def fetch(self, memory: Any) -> np.ndarray:
        return memory

    def values(self, array: Any) -> np.ndarray:
        assert isinstance(array, (np.ndarray, np.generic)), type(array)
        return np.asarray(array)


class Torch:
    """PyTorch's tensors: positive strides of whole items."""

    tame = True

    def __init__(self, device: str = "cpu") -> None:
        import torch

        self.torch, self.device = torch, device

    def dtype(self, dtype: np.dtype) -> Any:
        return getattr(self.torch, dtype.name, None)

    def takes(self, dtype: np.dtype) -> bool:
        return dtype.isnative and self.dtype(dtype) is not None

    def send(self, buffer: np.ndarray) -> Any:
        return self.torch.from_numpy(buffer).to(self.device)

    def array(self, memory: Any, place: Place) -> Any:
        size = place.dtype.itemsize
        items = memory[: len(memory) // size * size].view(self.dtype(place.dtype))
        return items.as_strided(place.shape, [s // size for s in place.strides], place.offset // size)

    def fetch(self, memory: Any) -> np.ndarray:
        return memory.cpu().numpy()

    def values(self, array: Any) -> np.ndarray:
        assert isinstance(array, self.torch.Tensor), type(array)
        assert array.device.type == self.device
        array, name = array.cpu(), str(array.dtype).removeprefix("torch.")
        if hasattr(ml_dtypes, name):
            bits = array.view(getattr(self.torch, f"int{8 * array.itemsize}"))
            return bits.numpy().view(getattr(ml_dtypes, name))
        return array.numpy()


class CuPy:
    """CuPy's arrays: any layout of what CuPy has a dtype for."""

    tame = False

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy

    def takes(self, dtype: np.dtype) -> bool:
        return dtype.isnative and dtype.kind in "biufc" and dtype.isbuiltin == 1

    def send(self, buffer: np.ndarray) -> Any:
        return self.cupy.asarray(buffer)

    def array(self, memory: Any, place: Place) -> Any:
        return self.cupy.ndarray(place.shape, place.dtype, memory.data + place.offset, place.strides)

    def fetch(self, memory: Any) -> np.ndarray:
        return self.cupy.asnumpy(memory)

    def values(self, array: Any) -> np.ndarray:
        assert isinstance(array, self.cupy.ndarray), type(array)
        return self.cupy.asnumpy(array)


class Emulated:
    """Memory of this machine that stands for a GPU's, as long as the emulator stands for the GPU: any layout."""

    tame = False

    def __init__(self, device: Any) -> None:
        self.device = device

    def takes(self, dtype: np.dtype) -> bool:
        return dtype.isnative and self.device.knows(dtype)

    def send(self, buffer: np.ndarray) -> Any:
        return self.device.put(buffer)

    def array(self, memory: Any, place: Place) -> Any:
        return self.device.made(place.of(memory))

    def fetch(self, memory: Any) -> np.ndarray:
        return memory

    def values(self, array: Any) -> np.ndarray:
        assert isinstance(array, self.device.made), type(array)
        return self.device.host(array)


LIBRARIES = {
    "host": {"numpy": NumPy, "torch": Torch},
    "cuda": {"torch": lambda: Torch("cuda"), "cupy": CuPy},
}
"""By the place where the arrays lie."""


def libraries(engine: str) -> list[Any]:
    """The installed libraries whose arrays an engine scans."""
    return [make() for name, make in LIBRARIES[ENGINES[engine].place].items() if find_spec(name)]
