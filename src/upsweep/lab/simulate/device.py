"""`cuda` as a simulated kernel, and its host, see it."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep.lab.simulate.machine import Simulator
from upsweep.lab.simulate.memory import DeviceArray, Memory, Root
from upsweep.lab.simulate.threads import WARP, Dim3, Request

ALL = 0xFFFFFFFF
SIGNED = ("shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "shfl_sync")
VOTES = ("all_sync", "any_sync", "eq_sync", "ballot_sync", "match_any_sync", "match_all_sync")


class Kernel:
    """A simulated kernel, launched as usual: `kernel[grid, block](...)`."""

    def __init__(self, device: Device, function: Callable[..., Any]):
        self.device, self.py_func = device, function
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__module__ = function.__module__

    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        grid, block, _, shared, *_ = (*configuration, 0, 0)
        return lambda *args: self.device.sim.launch(self.py_func, grid, block, args, int(shared), self.device)

    def forall(self, tasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        threads = tpb or 128
        return self[-(-int(tasks) // threads), threads, stream, sharedmem]

    def __call__(self, *args: Any) -> Any:
        # The host has called a device function.
        return self.py_func(*args)


class _Shared:
    def __init__(self, device: Device, space: str):
        self.device, self.space = device, space

    def array(self, shape: Any, dtype: Any, alignment: Any = None) -> Memory:
        sim, kind = self.device.sim, np.dtype(_numpy(dtype))
        t = sim.now
        key = (t.line, "dynamic" if shape == 0 else "")
        if self.space == "shared" and key in t.block.shared:
            return t.block.shared[key]
        shape = sim.dynamic // kind.itemsize if shape == 0 else shape
        words = np.zeros(shape, kind)
        root = Root(words.__array_interface__["data"][0], np.zeros(max(words.nbytes, 1), bool))
        made = Memory(sim, words, f"{self.space} memory of line {t.line}", root)
        if self.space == "shared":
            t.block.shared[key] = made
        return made


class _Const:
    def __init__(self, device: Device):
        self.device = device

    def array_like(self, ary: Any) -> Memory:
        return Memory(self.device.sim, np.asarray(ary), "constant memory")


class _Atomic:
    def __init__(self, device: Device):
        self.device = device

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in ATOMIC:
            raise AttributeError(f"the simulator does not know cuda.atomic.{name}")
        return lambda array, index, *values: self.update(ATOMIC[name], array, index, values)

    def update(self, rule: Callable[..., Any], array: Memory, index: Any, values: tuple[Any, ...]) -> Any:
        sim = self.device.sim
        line = sim.now.line
        at = array.place(index, line, "atomic")
        if at is None:
            raise TypeError("an atomic updates one element: give it an index for each dimension of the array")
        where, address = at
        if (
            array.root is not None
            and not array.root.written[address - array.root.start]
            and rule is not ATOMIC["exch"]
        ):
            sim.found("uninitialised", line, f"{array.name}, which nobody has written")
        sim.touched(array, address, where, "atomic", line)
        sim.signalled(address)
        old = array.read(where)
        new = rule(old, *values)
        array.put(where, address, new)
        # A thread that waits for a change lets others run.
        return Request("turn", value=old) if new == old else old

    def compare_and_swap(self, array: Memory, old: Any, value: Any) -> Any:
        return self.update(ATOMIC["cas"], array, 0, (old, value))

    def cas(self, array: Memory, index: Any, old: Any, value: Any) -> Any:
        return self.update(ATOMIC["cas"], array, index, (old, value))


class _Grid:
    """A cooperative group of the whole grid."""

    def sync(self) -> Request:
        return Request("grid")


class _Gpu(types.SimpleNamespace):
    """An item of `cuda.gpus`, which a program may enter."""

    def __enter__(self) -> _Gpu:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Device:
    """Stands for `numba.cuda`, for kernels and for their host."""

    def __init__(self) -> None:
        self.sim = Simulator()
        self.shared, self.local = _Shared(self, "shared"), _Shared(self, "local")
        self.const, self.atomic = _Const(self), _Atomic(self)
        self.cg = types.SimpleNamespace(this_grid=_Grid)
        self.warpsize = WARP
        self.stubs: dict[int, Any] = {}
        """The stand-ins for numba's own objects, by the ids of these."""

    def instead(self, value: Any) -> Any:
        """The stand-in for a name of a kernel's surroundings; None where the name may stay."""
        return self.stubs.get(id(value))

    # --- on the device ----------------------------------------------------------------------------------------------

    threadIdx = property(lambda self: self.sim.now.index)
    blockIdx = property(lambda self: self.sim.now.block.index)
    blockDim = property(lambda self: self.sim.shape)
    gridDim = property(lambda self: self.sim.grid)
    laneid = property(lambda self: self.sim.now.number % WARP)

    def grid(self, dims: int) -> Any:
        t, shape = self.sim.now, self.sim.shape
        found = tuple(i + b * n for i, b, n in zip(t.index, t.block.index, shape))[:dims]
        return found[0] if dims == 1 else found

    def gridsize(self, dims: int) -> Any:
        found = tuple(g * n for g, n in zip(self.sim.grid, self.sim.shape))[:dims]
        return found[0] if dims == 1 else found

    def syncthreads(self) -> Request:
        return Request("barrier")

    def syncthreads_count(self, value: Any) -> Request:
        return Request("barrier", "count", value=value)

    def syncthreads_and(self, value: Any) -> Request:
        return Request("barrier", "and", value=value)

    def syncthreads_or(self, value: Any) -> Request:
        return Request("barrier", "or", value=value)

    def syncwarp(self, mask: int = ALL) -> Request:
        return Request("warp", "syncwarp", int(mask) & ALL)

    def __getattr__(self, name: str) -> Any:
        if name in SIGNED:
            return lambda mask, value, by: Request("warp", name, int(mask) & ALL, value, int(by))
        if name in VOTES:
            return lambda mask, value: Request("warp", name, int(mask) & ALL, value)
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        raise AttributeError(f"the simulator does not know cuda.{name}")

    def activemask(self) -> int:
        t = self.sim.now
        return sum(1 << u.number % WARP for u in t.block.threads if u.number // WARP == t.number // WARP)

    def lanemask_lt(self) -> int:
        return (1 << self.laneid) - 1

    def threadfence(self) -> None:
        self.sim.fence("device")

    threadfence_system = threadfence

    def threadfence_block(self) -> None:
        self.sim.fence("block")

    def nanosleep(self, _: Any) -> Request:
        return Request("turn")

    # --- on the host ------------------------------------------------------------------------------------------------

    def jit(self, *args: Any, **options: Any) -> Any:
        function = args[0] if args and isinstance(args[0], types.FunctionType) else None
        if function is not None:
            return Kernel(self, function)
        return lambda fn: fn if options.get("device") else Kernel(self, fn)

    def to_device(self, obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> DeviceArray:
        made = np.array(obj).view(DeviceArray) if to is None else to
        if to is not None:
            np.copyto(to, obj)
            self.known(to)
        return made

    def device_array(
        self, shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
    ) -> DeviceArray:
        made = np.zeros(shape, _numpy(dtype), order=order).view(DeviceArray)  # pyright: ignore[reportCallIssue, reportArgumentType]
        self.sim.roots.append(Root(made.__array_interface__["data"][0], np.zeros(max(made.nbytes, 1), bool)))
        self.kept.append(made)
        return made

    # Device memory lives as long as the process, so that no address is given twice.
    kept: list[Any] = []  # noqa: RUF012

    def device_array_like(self, ary: Any, stream: Any = 0) -> DeviceArray:
        return self.device_array(ary.shape, ary.dtype)

    pinned_array = mapped_array = managed_array = staticmethod(
        lambda shape, dtype=np.float64, **_: np.zeros(shape, dtype)
    )

    def known(self, array: Any) -> None:
        """The host has written this."""
        start = array.__array_interface__["data"][0]
        for root in self.sim.roots:
            if start in root:
                root.written[:] = True

    def get_current_device(self) -> Any:
        """The numbers that a program asks of a device before it launches: those of an H100."""
        return _Gpu(
            id=0, name=b"simulated", compute_capability=(9, 0), WARP_SIZE=WARP, MULTIPROCESSOR_COUNT=132,
            MAX_THREADS_PER_BLOCK=1024, MAX_SHARED_MEMORY_PER_BLOCK=48 << 10, MAX_GRID_DIM_X=2**31 - 1, MAX_BLOCK_DIM_X=1024,
        )  # fmt: skip

    def current_context(self, devnum: Any = None) -> Any:
        freed = types.SimpleNamespace(clear=lambda: None)
        memory = (1 << 36, 1 << 36)
        return types.SimpleNamespace(
            device=self.get_current_device(), get_memory_info=lambda: memory, deallocations=freed
        )

    def select_device(self, device: Any = 0) -> Any:
        return self.current_context()

    def close(self) -> None:
        """Nothing: there is no context to close."""

    gpus = property(lambda self: [self.get_current_device()])
    list_devices = property(lambda self: lambda: [self.get_current_device()])

    def synchronize(self) -> None:
        """Nothing: a simulated launch has ended when it returns."""

    def stream(self) -> int:
        return 0

    def is_available(self) -> bool:
        return True


def _numpy(dtype: Any) -> Any:
    """A NumPy dtype for one of numba's types."""
    name = getattr(dtype, "name", None)
    if isinstance(name, str) and not isinstance(dtype, (np.dtype, type)):
        return {"boolean": "bool"}.get(name, name)
    return dtype


ATOMIC: dict[str, Callable[..., Any]] = {
    "add": lambda old, v: old + v,
    "sub": lambda old, v: old - v,
    "max": lambda old, v: v if v > old or old != old else old,
    "min": lambda old, v: v if v < old or old != old else old,
    "nanmax": lambda old, v: old if v != v else v if v > old or old != old else old,
    "nanmin": lambda old, v: old if v != v else v if v < old or old != old else old,
    "inc": lambda old, v: 0 if old >= v else old + 1,
    "dec": lambda old, v: v if old == 0 or old > v else old - 1,
    "exch": lambda old, v: v,
    "cas": lambda old, expected, v: v if old == expected else old,
    "and_": lambda old, v: old & v,
    "or_": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "popc": lambda v: int(v).bit_count(),
    "brev": lambda v: int(f"{int(v) & ALL:032b}"[::-1], 2),
    "clz": lambda v: 32 - (int(v) & ALL).bit_length(),
    "ffs": lambda v: (int(v) & -int(v)).bit_length(),
    "fma": lambda a, b, c: a * b + c,
    "cbrt": lambda v: math.copysign(abs(v) ** (1 / 3), v),
    "selp": lambda test, a, b: a if test else b,
    "Dim3": Dim3,
}
