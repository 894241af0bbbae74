"""What a textbook kernel is, and how it is launched: the types behind the one table of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Launch:
    """One launch: a kernel, its grid, and what it is given."""

    kernel: Callable[..., None] | str
    grid: int
    block: int
    args: tuple[str | int, ...]
    """Names of buffers, and numbers."""
    names: Mapping[str, Any] = field(default_factory=dict)
    """The sizes bound to the kernel's names: BLOCK, TILE, WORDS ..."""
    shared: int = 0
    """Words of dynamic shared memory, for kernels that ask for `cuda.shared.array(0, dtype)`."""


@dataclass(frozen=True)
class Setup:
    """What a kernel needs to scan n items: its launches in order, and the memory besides the input `x`.

    A buffer is a number of unwritten items, or a list of integers that it holds before the first launch. The result is
    in `y`, and every `tile` items are scanned from their own start.
    """

    launches: tuple[Launch, ...]
    buffers: Mapping[str, int | Sequence[int]]
    tile: int
