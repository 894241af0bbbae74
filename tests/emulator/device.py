"""What stands in for CUDA's driver: memory of this machine, and kernels that the emulator runs."""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np
from cuda.bindings import nvjitlink  # pyright: ignore[reportAttributeAccessIssue]

from driver_functions import Functions
from emulator.ptx import Kernel, translated
from emulator.warps import run
from no_device import tell_capability
from upsweep.engine import LIKENESS, Likeness, Way
from upsweep.function import unchanged
from upsweep.gpu import arrays, compile, driver, mailbox
from upsweep.gpu.functions import Linked, python_ltoir
from upsweep.gpu.view import View

MULTIPROCESSORS = 3


def ptx(kernel: str, spec: str, python: Sequence[Linked], arch: int) -> bytes:
    """A kernel as PTX instead of machine code, with these Python functions in it."""
    for each in python:
        unchanged(each.function)
    # The emulator knows no functions.
    text = compile.text(kernel, spec).replace("__noinline__", "__forceinline__")
    return _ptx(text, tuple(python), arch)


@cache
def _ptx(text: str, python: tuple[Linked, ...], arch: int) -> bytes:
    """A kernel is made once for all tests that load it, each of which has forgotten the launches before."""
    parts = [compile._compile(text, arch, linked=True), *[python_ltoir(each, arch) for each in python]]
    linker = nvjitlink.create(
        2 + len(compile._LINK_FLAGS), [f"-arch=sm_{arch}", "-ptx", *compile._LINK_FLAGS]
    )
    for part in parts:
        nvjitlink.add_data(linker, nvjitlink.InputType.LTOIR, part, len(part), "upsweep")
    nvjitlink.complete(linker)
    written = bytearray(nvjitlink.get_linked_ptx_size(linker))
    nvjitlink.get_linked_ptx(linker, written)
    nvjitlink.destroy(linker)
    return bytes(written)


_recent: deque[np.ndarray] = deque(maxlen=64)


def room(nbytes: int) -> np.ndarray:
    """Memory at a multiple of 256 bytes, which begins as noise. No later memory lies there for a while: the pointer of an earlier
    call leads to what that call left.
    """
    noise = np.random.default_rng(nbytes).integers(0, 256, nbytes + 256, np.uint8)
    _recent.append(noise)
    return noise[-noise.ctypes.data % 256 :][:nbytes]


class Memory:
    """As `driver.Memory`."""

    def __init__(self, nbytes: int, device: int, stream: int) -> None:
        self.nbytes, self.device, self.stream = nbytes, device, stream
        self.held = room(max(nbytes, 16))
        self.ptr = self.held.ctypes.data


class Box:
    """As `mailbox.Box`; the number is there when a launch returns."""

    def __init__(self) -> None:
        self.number = ctypes.c_int64(mailbox.MISSING)
        self.ptr = ctypes.addressof(self.number)

    def wait(self, stream: int) -> int:
        return self.number.value


class Gpu:
    """A GPU of a compute capability. `rng` decides which warp has the next turn, and for how long."""

    def __init__(self, architecture: int, seed: int) -> None:
        self.architecture, self.rng = architecture, np.random.default_rng(seed)
        self.loaded: set[str] = set()
        self.kernels: dict[int, Kernel] = {}
        self.functions = Functions(lambda handle: (self.kernels[handle], self.kernels[handle].parameter))
        self.clusters: set[int] = set()
        """The sizes of clusters that were launched."""

    def patch(self, patch: Any) -> None:
        """Have a pytest `MonkeyPatch` put this in the place of the driver."""
        answers = {
            "architecture": lambda device: self.architecture,
            "attribute": lambda device, name: MULTIPROCESSORS,
            "blocks_per_multiprocessor": lambda kernel, threads, shared: 1,
            "device_of": lambda ptr: 0, "current_device": lambda: 0, "is_current": lambda device: True,
            "on_device": lambda device: nullcontext(), "stream_id": lambda stream: 0, "capturing": lambda stream: False,
            "synchronize": lambda stream: None, "Memory": Memory, "load": self.load, "launch": self.launch,
            "launch_early": self.launch,
            "fill_words": lambda ptr, value, count, stream: _fill(ptr, value, count, ctypes.c_uint32),
            "fill_bytes": lambda ptr, value, count, stream: _fill(ptr, value, count, ctypes.c_uint8),
            "copy": lambda to, source, nbytes, stream: ctypes.memmove(to, source, nbytes),
            "download": lambda source, nbytes, stream: np.array((ctypes.c_uint8 * nbytes).from_address(source)),
            "upload": lambda to, source, stream: ctypes.memmove(to, source.ctypes.data, source.nbytes),
        }  # fmt: skip
        for name, answer in answers.items():
            patch.setattr(driver, name, answer)
        self.functions.patch(patch)
        patch.setattr(compile, "cubin", ptx)
        tell_capability(patch, divmod(self.architecture, 10))
        patch.setattr(mailbox, "box", lambda device: Box())
        patch.setitem(arrays._viewers, Array, _view)
        patch.setitem(LIKENESS, Array, KIND.likeness)

    def load(self, code: bytes, name: str, shared: int, device: int) -> Any:
        self.loaded.add(name)
        kernel = translated(code.rstrip(b"\0 ").decode(), name)
        self.kernels[int(kernel)] = kernel
        return kernel

    def launch(
        self,
        kernel: Kernel,
        grid: int,
        block: int,
        shared: int,
        stream: int,
        parameter: bytes,
        together: bool = False,
    ) -> None:
        assert grid > 0, "the driver refuses a launch of no blocks"
        assert grid <= MULTIPROCESSORS or not together
        self.clusters.add(kernel.cluster)
        run(kernel, grid, block, shared, parameter, MULTIPROCESSORS, self.rng)


def _fill(ptr: int, value: int, count: int, kind: Any) -> None:
    if count:
        np.ctypeslib.as_array((kind * count).from_address(ptr))[:] = value


class Foreign:
    """An array of this machine's memory that says it is a GPU's, of a library that upsweep does not know."""

    def __init__(self, held: np.ndarray) -> None:
        self.held, self.shape, self.dtype = held, held.shape, held.dtype
        self.ndim, self.itemsize, self.strides = held.ndim, held.itemsize, held.strides
        self.ptr = held.ctypes.data
        self.__cuda_array_interface__ = {
            "shape": held.shape, "typestr": held.dtype.str, "strides": held.strides, "version": 3,
            "data": (held.ctypes.data, not held.flags.writeable),
        }  # fmt: skip


class Array(Foreign):
    """The same of a library that upsweep knows: a call like an earlier one goes a shorter way."""

    def __getitem__(self, at: Any) -> Array:
        return Array(self.held[at])

    def reshape(self, shape: tuple[int, ...]) -> Array:
        return Array(self.held.reshape(shape))

    def get(self) -> np.ndarray:
        """A copy in this machine's memory, as CuPy names it."""
        return self.held.copy()


def _view(x: Array) -> View:
    return View(x.ptr, x.shape, x.strides, x.dtype, 0, KIND, x, not x.held.flags.writeable)


def _made(like: Any, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    return Array(room(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape))


KIND = arrays.Kind(
    _view,
    lambda like, shape, dtype: _view(_made(like, shape, dtype)),
    lambda view: 0,
    likeness=Likeness(
        lambda x: (x.dtype, x.shape, x.strides),
        {"cuda": Way(arrays.made_by(_made))},
        lambda y: y.held.flags.writeable,
    ),
    pointer=attrgetter("ptr"),
)
