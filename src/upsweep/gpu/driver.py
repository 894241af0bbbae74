"""The few calls of the CUDA driver that a launch needs. Their errors become exceptions here."""

from __future__ import annotations

import ctypes
import os
from functools import cache, lru_cache
from typing import Any

import numpy as np
from cuda.bindings import driver as cu  # pyright: ignore[reportAttributeAccessIssue]

from upsweep.engine import EngineError


def check(answer: Any) -> Any:
    """The value of a driver call, or an EngineError with the driver's own words."""
    status = answer[0]
    # 0 is success. Comparing enumerations takes longer than the call.
    if status:
        _, text = cu.cuGetErrorString(status)
        raise EngineError(f"CUDA: {text.decode() if text else status} ({status.name})")
    return answer[1] if len(answer) == 2 else answer[1:]


def fail(status: int) -> None:
    """The EngineError of a driver call's answer."""
    check((cu.CUresult(status),))


@cache
def primary_context(device: int) -> Any:
    check(cu.cuInit(0))
    return check(cu.cuDevicePrimaryCtxRetain(check(cu.cuDeviceGet(device))))


def is_current(device: int) -> bool:
    """Whether the device's primary context is the current one."""
    return cu.cuCtxGetCurrent()[1] == primary_context(device)


class on_device:
    """Makes the device's primary context, which every library shares, the current one for a while."""

    __slots__ = ("before", "context")

    def __init__(self, device: int) -> None:
        self.context = primary_context(device)

    def __enter__(self) -> None:
        before = cu.cuCtxGetCurrent()[1]
        self.before = None if before == self.context else before
        if self.before is not None:
            check(cu.cuCtxSetCurrent(self.context))

    def __exit__(self, *_: Any) -> None:
        if self.before is not None:
            check(cu.cuCtxSetCurrent(self.before))


def device_of(ptr: int) -> int:
    check(cu.cuInit(0))
    return int(
        check(cu.cuPointerGetAttribute(cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr))
    )


def current_device() -> int:
    check(cu.cuInit(0))
    return int(check(cu.cuCtxGetDevice())) if int(check(cu.cuCtxGetCurrent())) else 0


@cache
def attribute(device: int, name: str) -> int:
    """A device attribute by the end of its name, such as "MULTIPROCESSOR_COUNT"."""
    return check(
        cu.cuDeviceGetAttribute(getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device)
    )


@cache
def architecture(device: int) -> int:
    """Compute capability as one number, such as 90."""
    check(cu.cuInit(0))
    return 10 * attribute(device, "COMPUTE_CAPABILITY_MAJOR") + attribute(device, "COMPUTE_CAPABILITY_MINOR")


class Memory:
    """Device memory in the order of a stream: allocated, zeroed and freed there, without synchronising."""

    __slots__ = ("device", "nbytes", "ptr", "stream")

    def __init__(self, nbytes: int, device: int, stream: int) -> None:
        self.nbytes, self.device, self.stream = nbytes, device, stream
        with on_device(device):
            self.ptr = int(check(cu.cuMemAllocAsync(max(nbytes, 16), stream)))

    def __del__(self) -> None:
        # At exit the driver frees everything itself.
        if cu is not None:
            with on_device(self.device):
                cu.cuMemFreeAsync(self.ptr, self.stream)


def fill_words(ptr: int, value: int, count: int, stream: int) -> None:
    check(cu.cuMemsetD32Async(ptr, value, count, stream))


def fill_bytes(ptr: int, value: int, count: int, stream: int) -> None:
    check(cu.cuMemsetD8Async(ptr, value, count, stream))


def upload(to: int, source: Any, stream: int) -> None:
    """From a contiguous NumPy array; the driver has taken it when this returns."""
    check(cu.cuMemcpyHtoDAsync(to, source.ctypes.data, source.nbytes, stream))
    # Larger transfers may still read the host's pages.
    if source.nbytes > 65536:
        synchronize(stream)


def download(source: int, nbytes: int, stream: int) -> np.ndarray:
    """Bytes of the device, once all that the stream was given before has been done."""
    made = np.empty(nbytes, np.uint8)
    if nbytes:
        check(cu.cuMemcpyDtoHAsync(made.ctypes.data, source, nbytes, stream))
        synchronize(stream)
    return made


def copy(to: int, source: int, nbytes: int, stream: int) -> None:
    check(cu.cuMemcpyDtoDAsync(to, source, nbytes, stream))


def synchronize(stream: int) -> None:
    check(cu.cuStreamSynchronize(stream))


def stream_id(stream: int) -> int:
    """A number that no other stream of this process ever has, unlike its handle."""
    return int(check(cu.cuStreamGetId(stream)))


def capturing(stream: int) -> bool:
    """Whether the stream is being recorded into a CUDA graph."""
    return check(cu.cuStreamIsCapturing(stream)) == cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE


def capture(stream: int) -> tuple[int, Any]:
    """A number that no other recording of this process ever has, and the graph that the stream is recorded into."""
    _, number, graph, *_ = check(cu.cuStreamGetCaptureInfo(stream))
    return int(number), graph


# CU_STREAM_PER_THREAD.
OWN_STREAM = 2


class beside_capture:
    """Allows this thread for a while to wait for its own stream, which a stream that is recorded forbids to all others."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = check(cu.cuThreadExchangeStreamCaptureMode(_RELAXED))

    def __exit__(self, *_: Any) -> None:
        synchronize(OWN_STREAM)
        check(cu.cuThreadExchangeStreamCaptureMode(self.before))


_RELAXED = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


class Loan:
    """Whether something is lent to a graph that lives. This is a lock of the interpreter's own: the driver opens it when it
    destroys the graph, from a thread of its own and without the interpreter.
    """

    def __init__(self) -> None:
        new = ctypes.pythonapi.PyThread_allocate_lock
        new.restype = ctypes.c_void_p
        self.lock = ctypes.c_void_p(new())

    def take(self) -> bool:
        """Takes the lock, unless a graph has it."""
        return bool(ctypes.pythonapi.PyThread_acquire_lock(self.lock, 0))

    def give(self, graph: Any) -> None:
        """Leaves the lock to a graph, as long as the graph or anything made of it lives."""
        opens = ctypes.cast(ctypes.pythonapi.PyThread_release_lock, ctypes.c_void_p).value
        once = cu.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
        moves = cu.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE
        held = check(cu.cuUserObjectCreate(self.lock.value, cu.CUhostFn(opens), 1, int(once)))
        check(cu.cuGraphRetainUserObject(graph, held, 1, int(moves)))


def load(cubin: bytes, name: str, shared: int, device: int) -> Any:
    """A kernel of a compiled module, allowed `shared` bytes of dynamic shared memory."""
    library = check(cu.cuLibraryLoadData(cubin, [], [], 0, [], [], 0))
    kernel = check(cu.cuLibraryGetKernel(library, name.encode()))
    attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    check(cu.cuKernelSetAttribute(attribute, shared, kernel, device))
    if architecture(device) >= 90:
        attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        check(cu.cuKernelSetAttribute(attribute, 1, kernel, device))
    return cu.CUfunction(int(kernel))


@cache
def entries() -> tuple[int, int, int]:
    """The addresses of the driver's functions for the C part: a launch, the current context, and making one current."""
    own = os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") != "0"
    flags = cu.CUdriverProcAddress_flags
    flag = (
        flags.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
        if own
        else flags.CU_GET_PROC_ADDRESS_LEGACY_STREAM
    )
    names = b"cuLaunchKernel", b"cuCtxGetCurrent", b"cuCtxSetCurrent"
    launch, current, make_current = [
        int(check(cu.cuGetProcAddress(name, 12000, int(flag)))[0]) for name in names
    ]
    return launch, current, make_current


def blocks_per_multiprocessor(kernel: Any, threads: int, shared: int) -> int:
    return check(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, threads, shared))


def launch(
    kernel: Any, grid: int, block: int, shared: int, stream: int, parameter: bytes, together: bool = False
) -> None:
    """A kernel of one parameter, which the driver has copied when this returns. `together`: all blocks run at once, so that they
    may wait for each other; the driver refuses more than there is room for.
    """
    # In memory this is a list of one pointer, as the driver wants it.
    pointers = ctypes.c_char_p(parameter)
    at = ctypes.addressof(pointers)
    if together:
        check(cu.cuLaunchCooperativeKernel(kernel, grid, 1, 1, block, 1, 1, shared, stream, at))
        return
    answer = cu.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, shared, stream, at, 0)
    if answer[0]:
        check(answer)


def launch_early(kernel: Any, grid: int, block: int, shared: int, stream: int, parameter: bytes) -> None:
    """The same of a kernel whose blocks may begin before the kernel before has ended, and wait for its end themselves."""
    pointers = ctypes.c_char_p(parameter)
    check(cu.cuLaunchKernelEx(_early(grid, block, shared, stream), kernel, ctypes.addressof(pointers), 0))


@lru_cache(4096)
def _early(grid: int, block: int, shared: int, stream: int) -> Any:
    attribute = cu.CUlaunchAttribute()
    attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config = cu.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = block, 1, 1
    config.sharedMemBytes, config.hStream = shared, stream
    config.attrs, config.numAttrs = [attribute], 1
    return config
