"""XLA's buffers, where a function of ours is part of what XLA computes: memory with the stream that its work is queued on."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from upsweep.engine import LIKENESS, Likeness, Way
from upsweep.gpu import driver
from upsweep.gpu.arrays import Kind, made_by
from upsweep.gpu.view import View, c_strides


class Queue(NamedTuple):
    """A stream, which stands for an owner: XLA keeps the memory that is used on the stream until the function returns."""

    stream: int


class Queued(View):
    """Memory of XLA's; `owner` is the stream on which all work on the memory is queued."""

    __slots__ = ()
    is_cuda = True

    def __init__(
        self, ptr: int, shape: tuple[int, ...], dtype: np.dtype, device: int, queue: Queue, memory: Any = None
    ) -> None:
        strides = c_strides(shape, dtype.itemsize)
        super().__init__(ptr, shape, strides, dtype, device, QUEUED, queue, memory=memory)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _queued_empty(like: View, shape: tuple[int, ...], dtype: np.dtype) -> View:
    memory = driver.Memory(math.prod(shape) * dtype.itemsize, like.device, like.owner.stream)
    return Queued(memory.ptr, shape, dtype, like.device, like.owner, memory)


def _queued_likeness(x: Any) -> tuple[Any, ...]:
    return x.dtype, x.shape, x.device


LIKENESS[Queued] = Likeness(_queued_likeness, {"cuda": Way(made_by(_queued_empty))})
QUEUED = Kind(
    lambda x: x, _queued_empty, lambda v: v.owner.stream, likeness=LIKENESS[Queued], pointer=lambda x: x.ptr
)
