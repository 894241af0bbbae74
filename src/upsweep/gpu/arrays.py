"""Device arrays of every library as one View: a pointer, a shape, strides in bytes, a dtype, a device.

Each kind of array is a row of KINDS: how to see its memory, how to make a new one, which stream its library works on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import numpy as np

from upsweep import dtypes, homes
from upsweep.engine import LIKENESS, EngineError, Likeness, Way, library_of
from upsweep.gpu.view import View, c_strides
from upsweep.host import TORCH_LIKENESS


@dataclass(frozen=True)
class Kind:
    """How one library's arrays are seen, made and ordered."""

    view: Callable[[Any], View]
    empty: Callable[[View, tuple[int, ...], np.dtype], View]
    stream: Callable[[View], int]
    waits: bool = False
    """Whether a result must be complete before it is given back: the library knows nothing of our stream."""
    likeness: Likeness | None = None
    pointer: Callable[[Any], int] = id
    """Where an array begins, for kinds with a likeness."""


# --- PyTorch --------------------------------------------------------------------------------------------------------


def _torch_dtypes() -> dict[Any, np.dtype]:
    torch = sys.modules["torch"]
    there = [row for row in dtypes.TABLE.values() if row.torch and hasattr(torch, row.name)]
    known = [row for row in there if row.module == "numpy" or find_spec(row.module)]
    return {getattr(torch, row.name): dtypes.named(row.name) for row in known}


_TORCH: dict[Any, np.dtype] = {}
_TORCH_OF: dict[np.dtype, Any] = {}


def _torch_view(x: Any) -> View:
    homes.check(x)
    if not _TORCH:
        _TORCH.update(_torch_dtypes())
        _TORCH_OF.update({d: t for t, d in _TORCH.items()})
    dtype = _TORCH.get(x.dtype)
    if dtype is None:
        raise EngineError(
            f"a tensor of {x.dtype} cannot be scanned (bfloat16 and float8 need pip install ml_dtypes)"
        )
    copied = x.is_neg() or (dtype.kind == "c" and x.is_conj())
    if copied:
        x = x.resolve_conj().resolve_neg()
    size = dtype.itemsize
    strides = tuple([s * size for s in x.stride()])
    return View(x.data_ptr(), tuple(x.shape), strides, dtype, x.get_device(), TORCH, x, copied)


def _torch_empty(like: View, shape: tuple[int, ...], dtype: np.dtype) -> View:
    if dtype not in _TORCH_OF:
        raise EngineError(f"PyTorch has no dtype for {dtype}")
    made = _torch_maker(like.owner, shape, dtype)(like.owner)
    return View(made.data_ptr(), shape, c_strides(shape, dtype.itemsize), dtype, like.device, TORCH, made)


@cache
def _torch_streams() -> Callable[[int], int]:
    # A tenth of the time of torch.cuda.current_stream().
    return sys.modules["torch"]._C._cuda_getCurrentRawStream


def _torch_stream(v: View) -> int:
    return _torch_streams()(v.device)


# --- CuPy -----------------------------------------------------------------------------------------------------------


def _cupy_view(x: Any) -> View:
    return View(x.data.ptr, x.shape, x.strides, x.dtype, x.data.device_id, CUPY, x)


def _cupy_empty(like: View, shape: tuple[int, ...], dtype: np.dtype) -> View:
    made = _cupy_made(like.owner, shape, dtype)
    return View(made.data.ptr, shape, made.strides, dtype, like.device, CUPY, made)


def _cupy_stream(v: View) -> int:
    return sys.modules["cupy"].cuda.get_current_stream(v.device).ptr


# --- JAX: arrays on XLA's own streams, so work is awaited on both sides -----------------------------------------------


def _jax_view(x: Any) -> View:
    homes.check(x)
    x = x.block_until_ready()
    dtype = np.dtype(x.dtype)
    return View(
        x.unsafe_buffer_pointer(),
        x.shape,
        c_strides(x.shape, dtype.itemsize),
        dtype,
        _jax_device(x),
        JAX,
        x,
        True,
    )


def _jax_device(x: Any) -> int:
    (device,) = x.devices()
    return int(device.local_hardware_id)


def _jax_empty(like: View, shape: tuple[int, ...], dtype: np.dtype) -> View:
    jax = sys.modules["jax"]
    (device,) = like.owner.devices()
    with jax.default_device(device):
        made = jax.numpy.empty(shape, dtype)
    if made.dtype != dtype:
        raise EngineError(
            f"JAX makes {made.dtype} of {dtype}; jax.config.update('jax_enable_x64', True) allows 64 bits"
        )
    return _jax_view(made)


# --- everything else: __cuda_array_interface__ and DLPack -------------------------------------------------------------


def _foreign_view(x: Any) -> View:
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is None:
        return _dlpack_view(x)
    dtype, told = getattr(x, "dtype", None), interface["typestr"]
    # The array's own dtype names the fields of a structure and the floats of ml_dtypes, which the interface cannot.
    if not isinstance(dtype, np.dtype) or dtype.str != told:
        dtype = np.dtype(told)
    shape = tuple(interface["shape"])
    ptr, readonly = interface["data"]
    strides = interface.get("strides")
    return View(
        ptr,
        shape,
        tuple(strides or c_strides(shape, dtype.itemsize)),
        dtype,
        _device_of(ptr),
        FOREIGN,
        x,
        readonly,
    )


def _dlpack_view(x: Any) -> View:
    from cuda.core.utils import StridedMemoryView

    if not hasattr(x, "__dlpack__"):
        raise EngineError(
            f"a {type(x).__name__} is no GPU array: it offers neither DLPack nor __cuda_array_interface__"
        )
    seen = StridedMemoryView.from_dlpack(x, stream_ptr=1)
    dtype = np.dtype(seen.dtype)
    shape = tuple(seen.shape)
    strides = (
        tuple(s * dtype.itemsize for s in seen.strides) if seen.strides else c_strides(shape, dtype.itemsize)
    )
    return View(seen.ptr, shape, strides, dtype, seen.device_id, FOREIGN, (x, seen), bool(seen.readonly))


def _device_of(ptr: int) -> int:
    from upsweep.gpu import driver

    return driver.device_of(ptr) if ptr else driver.current_device()


class DeviceArray:
    """A result for arrays of a library that upsweep does not know: memory behind `__cuda_array_interface__`."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> None:
        from upsweep.gpu import driver

        self.shape, self.dtype = shape, dtype
        self._memory = driver.Memory(int(np.prod(shape)) * dtype.itemsize, device, 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._memory.ptr, False),
            "version": 3,
            "stream": 1,
        }


def _foreign_empty(like: View, shape: tuple[int, ...], dtype: np.dtype) -> View:
    if type(like.owner).__module__.startswith("numba."):
        return _foreign_view(sys.modules["numba.cuda"].device_array(shape, dtype))
    return _foreign_view(DeviceArray(shape, dtype, like.device))


def _foreign_stream(v: View) -> int:
    interface = getattr(v.owner, "__cuda_array_interface__", None) or {}
    return int(interface.get("stream") or 0)


def _torch_maker(like: Any, shape: tuple[int, ...], dtype: np.dtype) -> Callable[[Any], Any]:
    # Two thirds of the time of torch.empty, which looks at the layout in memory that is asked for.
    made, strides = sys.modules["torch"].empty_strided, c_strides(shape, 1)
    own, device = _TORCH_OF[dtype], like.device
    if (like.dtype, tuple(like.shape), like.stride()) == (own, shape, strides):
        # Two thirds of the time of the function below.
        return sys.modules["torch"].empty_like
    return lambda _: made(shape, strides, dtype=own, device=device)


def _cupy_likeness(x: Any) -> tuple[Any, ...]:
    return x.dtype, x.shape, x.strides, x.data.device_id


def made_by(empty: Callable[[Any, tuple[int, ...], np.dtype], Any]) -> Callable[..., Callable[[Any], Any]]:
    """The maker of a Way, from a function that makes one array of a shape and dtype where another lies."""
    return lambda _, shape, dtype: lambda like: empty(like, shape, dtype)


def _cupy_made(like: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(like.data.device_id):
        return cupy.empty(shape, dtype)


def scratch(like: View, nbytes: int) -> View:
    """Bytes for arrays that are made on the way to a scan. They are given back, in the order of the stream, when nothing looks at
    them any more. The array's library gives them, as it keeps freed memory, unless it works on streams that we do not see.
    """
    from upsweep.gpu import driver

    assert like.kind is not None
    byte, shape = np.dtype(np.uint8), (max(nbytes, 1),)
    if like.kind.likeness is not None:
        return like.kind.empty(like, shape, byte)
    memory = driver.Memory(nbytes, like.device, like.kind.stream(like))
    return View(memory.ptr, shape, (1,), byte, like.device, like.kind, like.owner, memory=memory)


TORCH_LIKENESS.ways["cuda"] = Way(_torch_maker)
TORCH = Kind(
    _torch_view,
    _torch_empty,
    _torch_stream,
    likeness=TORCH_LIKENESS,
    # A third of the time of `operator.methodcaller`.
    pointer=lambda x: x.data_ptr(),
)
CUPY = Kind(
    _cupy_view,
    _cupy_empty,
    _cupy_stream,
    likeness=Likeness(_cupy_likeness, {"cuda": Way(made_by(_cupy_made))}),
    pointer=attrgetter("data.ptr"),
)
JAX = Kind(_jax_view, _jax_empty, lambda v: 0, waits=True)
FOREIGN = Kind(_foreign_view, _foreign_empty, _foreign_stream)
KINDS = {"torch": TORCH, "cupy": CUPY, "jaxlib": JAX, "jax": JAX}


_viewers: dict[type, Callable[[Any], View]] = {}


def view(x: Any) -> View:
    """The memory of a device array, or of a NumPy scalar."""
    viewer = _viewers.get(type(x))
    if viewer is None:
        viewer = _viewers[type(x)] = _viewer(x)
    return viewer(x)


def _viewer(x: Any) -> Callable[[Any], View]:
    if isinstance(x, View):
        return lambda seen: seen
    if isinstance(x, (np.ndarray, np.generic)):
        return _host_view
    kind = KINDS.get(library_of(x), FOREIGN)
    if kind.likeness is not None and type(x).__name__ in ("Tensor", "ndarray"):
        LIKENESS[type(x)] = kind.likeness
    return kind.view


def _host_view(x: np.ndarray | np.generic) -> View:
    x = np.asarray(x)
    if x.ndim:
        raise EngineError(
            "the cuda engine takes arrays on a GPU; this one is NumPy's, which engine='cpu' scans in place"
        )
    return View(0, (), (), x.dtype, -1, None, x, True, value=x)
