"""What stands in for CUDA's driver: memory of this machine, and kernels that the emulator runs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from cuda.bindings import nvjitlink  # pyright: ignore[reportAttributeAccessIssue]

from emulator.ptx import Kernel, translated
from emulator.warps import run
from no_device import tell_capability
from upsweep.gpu import compile, driver, mailbox
from upsweep.gpu.functions import Linked, python_ltoir

MULTIPROCESSORS = 3


def ptx(kernel: str, spec: str, python: Sequence[Linked], arch: int) -> bytes:
    """A kernel as PTX instead of machine code, with these Python functions in it."""
    parts = [compile._compile(compile.text(kernel, spec), arch, linked=True)]
    parts += [python_ltoir(each, arch) for each in python]
    linker = nvjitlink.create(
        2 + len(compile._LINK_FLAGS), [f"-arch=sm_{arch}", "-ptx", *compile._LINK_FLAGS]
    )
    for part in parts:
        nvjitlink.add_data(linker, nvjitlink.InputType.LTOIR, part, len(part), "upsweep")
    nvjitlink.complete(linker)
    text = bytearray(nvjitlink.get_linked_ptx_size(linker))
    nvjitlink.get_linked_ptx(linker, text)
    nvjitlink.destroy(linker)
    return bytes(text)


class Memory:
    """As `driver.Memory`; it begins as noise."""

    def __init__(self, nbytes: int, device: int, stream: int) -> None:
        self.nbytes, self.device, self.stream = nbytes, device, stream
        noise = np.random.default_rng(nbytes).integers(0, 256, nbytes + 512, np.uint8)
        self.held = noise[-noise.ctypes.data % 256 :]
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
            "fill_words": lambda ptr, value, count, stream: _fill(ptr, value, count, ctypes.c_uint32),
            "fill_bytes": lambda ptr, value, count, stream: _fill(ptr, value, count, ctypes.c_uint8),
            "copy": lambda to, source, nbytes, stream: ctypes.memmove(to, source, nbytes),
            "upload": lambda to, source, stream: ctypes.memmove(to, source.ctypes.data, source.nbytes),
        }  # fmt: skip
        for name, answer in answers.items():
            patch.setattr(driver, name, answer)
        patch.setattr(compile, "cubin", ptx)
        tell_capability(patch, divmod(self.architecture, 10))
        patch.setattr(mailbox, "box", lambda device: Box())

    def load(self, code: bytes, name: str, shared: int, device: int) -> Any:
        self.loaded.add(name)
        return translated(code.rstrip(b"\0 ").decode(), name)

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
        assert grid <= MULTIPROCESSORS or not together
        self.clusters.add(kernel.cluster)
        run(kernel, grid, block, shared, parameter, MULTIPROCESSORS, self.rng)


def _fill(ptr: int, value: int, count: int, kind: Any) -> None:
    if count:
        np.ctypeslib.as_array((kind * count).from_address(ptr))[:] = value


class Array:
    """An array of this machine's memory that says it is a GPU's."""

    def __init__(self, held: np.ndarray) -> None:
        self.held, self.shape, self.dtype = held, held.shape, held.dtype
        self.ndim, self.itemsize = held.ndim, held.itemsize
        self.__cuda_array_interface__ = {
            "shape": held.shape, "typestr": held.dtype.str, "strides": held.strides, "version": 3,
            "data": (held.ctypes.data, not held.flags.writeable),
        }  # fmt: skip
