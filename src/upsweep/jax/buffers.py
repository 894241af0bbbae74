"""XLA's own buffers: functions that work where XLA's arrays lie, and queue their work on XLA's stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.experimental.buffer_callback import buffer_callback


def in_place(run: Callable[..., None], how: tuple[Any, ...], shapes: Any, *operands: Any) -> Any:
    """The arrays of these shapes and dtypes that `run(*how, outs, *operands)` fills.

    `run` gets the memory of the arrays: NumPy's arrays on the CPU, views of the CUDA engine on a GPU. Operands are arrays,
    tuples of them, or None. XLA compiles calls of one function with an equal `how` once.
    """
    made = buffer_callback(_OnBuffers(run, how), shapes)(*operands)
    axes = _axes(operands)
    return jax.tree.map(lambda y: _vary(y, axes), made) if axes else made


def varying_alike(given: Any) -> Any:
    """Arrays, in tuples or not, that all differ over the devices of a mesh over which any of them does, within
    `jax.shard_map`: then their results differ, too, and the gradient of an array that is one for all devices is a sum."""
    axes = _axes(given)
    return jax.tree.map(lambda x: _vary(x, axes), given) if axes else given


def _axes(given: Any) -> list[Any]:
    return sorted(set().union(*map(_varying, jax.tree.leaves(given))), key=str)


def result_of(x: Any, shape: tuple[int, ...] | None = None, dtype: Any = None) -> ShapedArray:
    """The type of a result that differs over the devices over which the operand x does, of its shape and dtype or others."""
    shape, dtype = x.shape if shape is None else shape, x.dtype if dtype is None else dtype
    made = ShapedArray(shape, dtype)
    return _type(x).update(shape=made.shape, dtype=made.dtype, weak_type=False) if _varying(x) else made


def _type(x: Any) -> Any:
    return x if isinstance(x, ShapedArray) else jax.typeof(x)


def _varying(x: Any) -> frozenset[Any]:
    """The axes of a mesh along which an array differs from device to device. JAX has renamed where it says so."""
    known = getattr(_type(x), "manual_axis_type", None)
    return _type(x).vma if known is None else known.varying


def _vary(x: Any, axes: Sequence[Any]) -> Any:
    more = tuple([axis for axis in axes if axis not in _varying(x)])
    # JAX has renamed this, too.
    lax: Any = jax.lax
    return lax.pcast(x, more, to="varying") if hasattr(lax, "pcast") else lax.pvary(x, more)


@dataclass(frozen=True)
class _OnBuffers:
    run: Callable[..., None]
    how: tuple[Any, ...]

    def __call__(self, context: Any, outs: Any, *operands: Any) -> None:
        place, device = jax.tree.leaves(outs)[0].__dlpack_device__()
        see = np.asarray if place == _CPU else _on_gpu(device, context.stream)
        self.run(*self.how, *_seen((outs, *operands), see))


_CPU = 1
"""DLPack's name of this machine's memory."""


def _seen(given: Any, see: Callable[[Any], Any]) -> Any:
    if isinstance(given, (tuple, list)):
        return [_seen(part, see) for part in given]
    return None if given is None else see(given)


def _on_gpu(device: int, stream: int) -> Callable[[Any], Any]:
    """Buffers as the CUDA engine sees them."""
    from upsweep.gpu.queued import Queue, Queued

    queue = Queue(stream)
    return lambda buffer: Queued(_address(buffer), buffer.shape, buffer.dtype, device, queue)


def _address(buffer: Any) -> int:
    """The start of a buffer, by DLPack, which knows every dtype: the first word of its tensor."""
    tensor = _pointer(buffer.__dlpack__(), b"dltensor")
    return ctypes.c_void_p.from_address(tensor).value or 0


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def like(x: Any) -> jax.ShapeDtypeStruct:
    """The shape and dtype of an array."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)
