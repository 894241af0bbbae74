"""Run kernels of numba.cuda's dialect without a GPU, and fail on a race, a divergent barrier or an uninitialised read.

numba's own simulator is going away, and it never looked for races. Here a kernel is launched as usual, on arrays of any
size that a test needs; the launch raises `SimulationError`, an `AssertionError`, with everything that was found.

>>> import numpy as np
>>> from upsweep.lab.simulate import cuda
>>> @cuda.jit
... def reverse(x, y):
...     t = cuda.threadIdx.x
...     tile = cuda.shared.array(64, np.int64)
...     tile[t] = x[t]
...     cuda.syncthreads()
...     y[t] = tile[cuda.blockDim.x - 1 - t]
>>> y = np.zeros(64, np.int64)
>>> reverse[1, 64](np.arange(64), y)
>>> y[:3].tolist()
[63, 62, 61]

In tests, `from upsweep.lab.simulate import simulated_cuda` in a conftest.py gives a fixture: while it is in use, kernels of
`numba.cuda`, also those that were decorated before, run here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from upsweep.lab.simulate.device import Device, Kernel
from upsweep.lab.simulate.machine import SimulationError

__all__ = ["Device", "Kernel", "SimulationError", "cuda", "simulated", "simulated_cuda"]

HOST = ("jit", "to_device", "device_array", "device_array_like", "pinned_array", "mapped_array", "managed_array", "synchronize",
        "stream", "is_available", "get_current_device", "current_context", "select_device", "close", "gpus")  # fmt: skip
"""The names that are replaced in `numba.cuda` while it is simulated; the device's own names are replaced in each kernel."""
ON_DEVICE = ("threadIdx", "blockIdx", "blockDim", "gridDim", "laneid", "warpsize", "shared", "local", "const", "atomic", "cg",
             "grid", "gridsize", "syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or", "syncwarp",
             "threadfence", "threadfence_block", "threadfence_system", "nanosleep", "activemask", "lanemask_lt",
             "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "shfl_sync", "all_sync", "any_sync", "eq_sync", "ballot_sync",
             "match_any_sync", "match_all_sync", "popc", "brev", "clz", "ffs", "fma", "cbrt", "selp")  # fmt: skip

cuda: Any = Device()
"""A device of its own, for kernels that do not import numba at all."""


@contextmanager
def simulated() -> Iterator[Device]:
    """Let kernels of `numba.cuda` run on a simulated device.

    Modules imported meanwhile, whose kernels name their types, need no GPU to be imported.

    Raises:
        ImportError: where numba-cuda is not installed; `upsweep.lab.simulate.cuda` needs none.
    """
    import numba
    import numba.cuda as numba_cuda

    real: Any = numba_cuda

    device = Device()
    device.stubs = {id(real): device, id(numba): _Numba(numba, device)}
    for name in ON_DEVICE:
        if hasattr(real, name) and not isinstance(getattr(real, name), int):
            device.stubs[id(getattr(real, name))] = _Late(device, name)
    dispatcher: Any = real.dispatcher.CUDADispatcher
    kept = {name: getattr(real, name) for name in HOST if hasattr(real, name)}
    methods = {name: getattr(dispatcher, name) for name in ("__getitem__", "forall")}
    for name in kept:
        setattr(real, name, getattr(device, name))
    dispatcher.__getitem__ = lambda self, configuration: Kernel(device, self.py_func)[configuration]
    dispatcher.forall = lambda self, *args, **options: Kernel(device, self.py_func).forall(*args, **options)
    try:
        yield device
    finally:
        for name, value in kept.items():
            setattr(real, name, value)
        for name, value in methods.items():
            setattr(dispatcher, name, value)


class _Numba:
    """`numba` with the simulated device for its `cuda`."""

    def __init__(self, numba: Any, device: Device):
        self._numba, self.cuda = numba, device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numba, name)


class _Late:
    """A name of the device that a kernel's module has imported by itself: `from numba.cuda import threadIdx`."""

    def __init__(self, device: Device, name: str):
        self._device, self._name = device, name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(self._device, self._name), name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return getattr(self._device, self._name)(*args, **options)


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture
    def simulated_cuda() -> Iterator[Device]:
        """While a test uses it, kernels of `numba.cuda` run on a simulated device, and a finding fails the test."""
        with simulated() as device:
            yield device
