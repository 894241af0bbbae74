"""XLA's own buffers: functions that work where XLA's arrays lie, and queue their work on XLA's stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental.buffer_callback import buffer_callback


def in_place(run: Callable[..., None], how: tuple[Any, ...], shapes: Any, *operands: Any) -> Any:
    """The arrays of these shapes and dtypes that `run(*how, outs, *operands)` fills.

    `run` gets the memory of the arrays: NumPy's arrays on the CPU, views of the CUDA engine on a GPU. Operands are arrays,
    tuples of them, or None. XLA compiles calls of one function with an equal `how` once.
    """
    return buffer_callback(_OnBuffers(run, how), shapes)(*operands)


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
