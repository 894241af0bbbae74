"""XLA's own buffers: functions that work where XLA's arrays lie, and queue what they do on its stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback

from upsweep.engine import on_gpu


def in_place(run: Callable[..., None], how: tuple[Any, ...], shapes: Any, *operands: Any) -> Any:
    """What `run(*how, outs, *operands)` writes into new arrays of these shapes and dtypes.

    It is given the memory of the arrays: NumPy's arrays on the CPU, views of the CUDA engine on a GPU. Operands are arrays,
    tuples of them, or None. XLA compiles calls of one function with an equal `how` once.
    """
    return buffer_callback(_OnBuffers(run, how), shapes)(*operands)


@dataclass(frozen=True)
class _OnBuffers:
    run: Callable[..., None]
    how: tuple[Any, ...]

    def __call__(self, context: Any, outs: Any, *operands: Any) -> None:
        self.run(*self.how, *_seen((outs, *operands), context))


def _seen(given: Any, context: Any) -> Any:
    if isinstance(given, (tuple, list)):
        return tuple([_seen(part, context) for part in given])
    if given is None:
        return None
    return _queued(given, context.stream) if on_gpu(given) else np.asarray(given)


def _queued(buffer: Any, stream: int) -> Any:
    from upsweep.gpu.arrays import Queue, Queued

    device = buffer.__dlpack_device__()[1]
    return Queued(_address(buffer), buffer.shape, np.dtype(buffer.dtype), device, Queue(stream))


def _address(buffer: Any) -> int:
    """Where a buffer begins, by DLPack, which knows every dtype: the first word of its tensor."""
    tensor = _pointer(buffer.__dlpack__(), b"dltensor")
    return ctypes.c_void_p.from_address(tensor).value or 0


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def like(x: Any) -> jax.ShapeDtypeStruct:
    """The shape and dtype of an array."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)
