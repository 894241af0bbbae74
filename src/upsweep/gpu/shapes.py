"""How large tiles are: every tuning number of the CUDA engine, with the measurement that chose it.

ITEMS is what one thread holds in registers, by the 32-bit words of an item's accumulators; WARPS make a tile; BLOCKS is
how many blocks share a multiprocessor, which bounds the registers of a thread to 65536 / (BLOCKS * threads).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """The shape of a kernel's work: what its text is compiled with."""

    items: int
    warps: int
    blocks: int
    lanes: int = 32
    vector: int = 1
    strips: int = 1
    carry: bool = False
    patient: bool = False


ITEMS = {1: 32, 2: 16, 4: 8, 8: 4, 16: 2}
"""32 registers of items a thread."""

WARPS = 8
BLOCKS = {1: 10, 2: 7, 4: 5, 8: 3}
"""Blocks a multiprocessor by warps a block: about 24 working warps, 64 registers a thread."""


STAGE = 32768
"""Bytes of a tile: three blocks of two stages fill shared memory."""


def items_for(words: int) -> int:
    return next(items for most, items in ITEMS.items() if words <= most or most == 16)


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def for_rows(n: int, words: int) -> Shape:
    """Rows that a warp can hold: as few lanes as hold one."""
    most = items_for(words)
    items = min(most, max(_power_of_two(n), 2))
    return Shape(items, 8, 3, lanes=_power_of_two(-(-n // items)))


ROWS = 1024
"""Rows from which a block takes whole rows: enough for all blocks of the largest GPUs, more than twice over."""


def for_tiles(n: int, rows: int, words: int, size: int, segmented: bool) -> Shape:
    """`size` is the bytes of an item in shared memory."""
    items = items_for(words)
    warps = min(WARPS, _power_of_two(-(-n // (32 * items))))
    while warps > 1 and warps * 32 * items * size > STAGE:
        warps //= 2
    strips = 1
    while strips * warps < min(32, n / (32 * items)) and 2 * strips * warps * 32 * items * size <= STAGE:
        strips *= 2
    return Shape(
        items,
        warps,
        max(1, BLOCKS[warps] - segmented),
        strips=strips,
        carry=rows >= ROWS and n > 32 * items * warps * strips,
    )


def for_columns(n: int, words: int, smallest: int) -> Shape:
    """`smallest` is the size of the smallest component: a warp reads lines of at least 128 bytes of it."""
    items = min(items_for(words), _power_of_two(n))
    warps = min(WARPS, _power_of_two(-(-n // items)))
    vector = max(1, 4 // smallest)
    return Shape(items, warps, max(1, BLOCKS[warps] * (warps + 2) // (warps + 2 * vector)), vector=vector)


def fits_rows(n: int, words: int) -> bool:
    return n <= 32 * items_for(words)
