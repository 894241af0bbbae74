"""The parts that the kernels which move data share: texts of constants, memory that is gone after the call, a launch, a number
that is read back.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from upsweep.engine import EngineError
from upsweep.gpu import compile, driver
from upsweep.gpu.arrays import view
from upsweep.gpu.functions import Linked
from upsweep.gpu.values import converted
from upsweep.gpu.view import View

RAW = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "uint4"}
"""The C type that moves items of so many bytes."""
INT64 = np.dtype(np.int64)


def movable(x: Any) -> bool:
    """Whether the kernels move the items of an array: it is 1-D, and of a size that is known."""
    return x.ndim == 1 and x.itemsize in RAW


def items_of(x: Any) -> View:
    """The memory of a 1-D array, or of a copy, where its items lie side by side at multiples of their size."""
    seen = view(x)
    size = seen.dtype.itemsize
    return seen if seen.strides == (size,) and seen.ptr % size == 0 else converted(seen, seen.dtype)


def side_by_side(*outputs: View | None) -> None:
    """Refuses memory in which items do not touch."""
    if any(v and v.strides != (v.dtype.itemsize,) and v.shape[0] > 1 for v in outputs):
        raise EngineError(
            "the cuda engine brings items together in memory without gaps; pass a contiguous out"
        )


def empty(like: View, shape: tuple[int, ...], dtype: np.dtype) -> View:
    assert like.kind is not None
    return like.kind.empty(like, shape, dtype)


def stream_of(like: View) -> int:
    assert like.kind is not None
    return like.kind.stream(like)


def zeros(like: View, count: int, more: int = 0) -> View:
    """As many zeros (int64), and behind them room for `more` words, in memory of the library's own, which it has at hand."""
    made = empty(like, (count + more,), INT64)
    if count:
        with driver.on_device(like.device):
            driver.fill_words(made.ptr, 0, 2 * count, stream_of(like))
    return made


def nodes(tiles: int) -> tuple[list[int], int]:
    """The first word of each level of the tree of groups of 32 tiles, and the number of words: kernels/tally.cuh."""
    counts = [-(-tiles >> 5 * level) for level in range(4)]
    return [sum(counts[:level]) for level in range(4)], sum(counts)


class Kernel(NamedTuple):
    """A kernel of one struct of words of eight bytes, ready on a device."""

    loaded: Any
    shared: int
    """The bytes of shared memory that a block asks for."""


def kernel(
    module: str,
    name: str,
    spec: dict[str, Any],
    device: int,
    shared: int = 0,
    python: tuple[Linked, ...] = (),
) -> Kernel:
    with driver.on_device(device):
        return Kernel(loaded(module, name, tuple(spec.items()), shared, device, python), shared)


def start(
    kernel: Kernel, like: View, blocks: tuple[int, int], numbers: Sequence[int], together: bool = False
) -> None:
    """Launch a kernel in so many blocks of so many threads, on the stream of `like`; `together` has all blocks run at once."""
    with driver.on_device(like.device):
        parameter = struct.pack(f"<{len(numbers)}q", *numbers)
        driver.launch(kernel.loaded, *blocks, kernel.shared, stream_of(like), parameter, together)


@lru_cache(1024)
def loaded(
    module: str,
    name: str,
    spec: tuple[tuple[str, Any], ...],
    shared: int,
    device: int,
    python: tuple[Linked, ...] = (),
) -> Any:
    code = compile.cubin(module, text(spec), python, driver.architecture(device))
    return driver.load(code, name, shared, device)


def text(spec: Sequence[tuple[str, Any]]) -> str:
    """The part of the kernel's text that says what it moves."""
    return "".join(
        f"#define {name} {int(value) if isinstance(value, bool) else value}\n" for name, value in spec
    )


def resident(like: View, blocks: int) -> int:
    """As many blocks as fit onto the device, where each multiprocessor holds so many."""
    return blocks * driver.attribute(like.device, "MULTIPROCESSOR_COUNT")
