"""The types behind the one table of kernels: a kernel, its launches and its formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Launch:
    """One launch: a kernel, its grid, and what it is given."""

    kernel: Any
    """A function, its text, or an `upsweep.lab.reading.Source`."""
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
    """The needs of a kernel that scans n items: its launches in order, and the memory besides the input `x`.

    A buffer is a number of unwritten items, or a list of integers that it holds before the first launch. The result is
    in `y`, and every `tile` items are scanned from their own start.
    """

    launches: tuple[Launch, ...]
    buffers: Mapping[str, int | Sequence[int]]
    tile: int
    width: Mapping[str, int] = field(default_factory=dict)
    """For each array that stands for a table, x among them, the items of a row: such arrays are drawn in two dimensions."""


@dataclass(frozen=True)
class Formula:
    """A count in closed form, for n items of one section and the block that scans them."""

    text: str
    value: Callable[[int, int], int]
    powers: bool = False
    """Whether it holds only where n is a power of two."""
    any_block: bool = False
    """Whether it holds for any block that divides n; others hold for the block that one section of n items asks for."""

    def holds(self, n: int) -> bool:
        return not self.powers or n & (n - 1) == 0


@dataclass(frozen=True)
class Kernel:
    """One row of the table: a kernel, what it promises, and what it must cost."""

    name: str
    function: Callable[..., None]
    setup: Callable[[int, int, int], Setup]
    """From n, the threads of a block, and the threads of a warp."""
    block: Callable[[int], int]
    """The block that one section of n items asks for."""
    result: str = "inclusive"
    """inclusive, exclusive, reduction, or application"""
    family: str = ""
    """The circuit that its trace must be recognised as."""
    contract: str = "any n; any block"
    needs: str = ""
    """The law besides associativity that its operator must have."""
    work: Formula | None = None
    steps: Formula | None = None
    barriers: Formula | None = None
    answer: Callable[[Sequence[Any]], list[Any]] | None = None
    """The result of an application."""
    says: str = ""
    """Algorithm and source, where this row is more than its function or shares it with another row."""

    @property
    def title(self) -> str:
        """Algorithm, source and figure: the function's first line, or the row's own."""
        return self.says or (self.function.__doc__ or "").strip().split("\n")[0]

    def __str__(self) -> str:
        return f"{self.name}: {self.title}"
