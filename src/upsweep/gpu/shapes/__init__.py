"""How large tiles are: every tuning number of the scans on a GPU, with the measurement that chose it. A file for each kernel has
its own numbers; here are those that several share.

ITEMS are the items that one thread holds in registers, by the 32-bit words of an item's accumulators; WARPS make a tile;
BLOCKS share a multiprocessor, which bounds the registers of a thread to 65536 / (BLOCKS * threads).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Shape:
    """The shape of a kernel's work: the numbers that its text is compiled with."""

    items: int
    warps: int
    blocks: int
    lanes: int = 32
    vector: int = 1
    strips: int = 1
    carry: bool = False
    stages: int = 2
    together: bool = False
    """Whether the warps of a block hold a row together."""
    small: bool = False
    """Whether the machine is not full."""
    group: int = 32
    """Lanes whose sum is handed to a serving warp."""
    cluster: int = 1
    """Blocks that hold a row, or a part of it, together."""
    loose: bool = False
    """Whether lines of columns begin anywhere, and come and go in pieces of 16 bytes."""
    stretch: int = 0
    """Columns whose lines lie one behind another and are moved as one stretch of memory; 0 where lines are moved one by one."""
    apart: bool = False
    """Whether results of such lines have places of their own, as they lie otherwise than the inputs."""
    cross: int = 0
    """Lines of a rectangle of columns, where neighbours in the inputs and neighbours in the results lie along two dimensions; 0
    where the columns of a tile are one line."""
    flat: bool = False
    """Whether a lane holds whole lines of such a stretch, as they lie: lines of words that begin at any byte."""


class Chip(NamedTuple):
    """An architecture: its sizes, as CUDA's programming guide lists them, and a choice that its compiler asks for."""

    shared: int
    """Bytes of shared memory that a block may have, nearly all of a multiprocessor's."""
    cluster: int
    """Blocks of the largest cluster; 1 where there are none."""
    near_groups: bool
    """Whether the look-back of items of 8 bytes takes sums of near groups from their parts: elsewhere such kernels spill."""


CHIPS = {
    80: Chip(163 * 1024, 1, False),
    86: Chip(99 * 1024, 1, False),
    90: Chip(227 * 1024, 16, True),
    100: Chip(227 * 1024, 16, False),
    120: Chip(99 * 1024, 8, False),
}
"""Chips by compute capability; a missing one is like the one before it."""


def chip(arch: int) -> Chip:
    """The chip of a compute capability."""
    return CHIPS[max((known for known in CHIPS if known <= arch), default=min(CHIPS))]


ITEMS = {1: 32, 2: 16, 4: 8, 8: 4, 16: 2}
"""32 registers of items a thread."""

PACKED = 64
"""Items of a thread where four bytes are summed at a time: in tiles int8 .91 to .93 of a copy, truths .72 to .84 (H200)."""

WARPS, FEW = 8, 4

BLOCKS = {1: 10, 2: 7, 4: 5, 8: 3}
"""Blocks a multiprocessor by warps a block: about 24 working warps, 64 registers a thread."""

ROWS = 1024
"""Rows from which a block may take whole rows, tile by tile, without a look-back: enough for all blocks of the largest GPUs,
more than twice over. It pays, with half the tile and three stages, where more than a fifth of all tiles would lie past the
ends of rows: sums of f4 in rows of 16500 ran at .87 of a copy instead of .77, of i2 in rows of 33000 at .78 instead of .64;
in rows of 20000 at .83 instead of .90, of 65536 at .78 instead of .95 (H200)."""

LINE = 32
"""Bytes of neighbours in memory from which a lane for each pays."""

SEVERAL = 64
"""Registers for the items of several neighbouring rows."""


def items_for(words: int) -> int:
    return next(items for most, items in ITEMS.items() if words <= most or most == 16)


def power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def power_of_two_below(n: int) -> int:
    return 1 << (max(n, 1).bit_length() - 1)
