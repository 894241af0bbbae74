"""The shapes of walks: rows that are scanned item by item."""

from __future__ import annotations

from typing import NamedTuple

from upsweep.gpu.shapes import power_of_two, power_of_two_below

WALKS = {1: (4, 12), 2: (3, 6), 3: (2, 4)}
"""By the walking warps that share a multiprocessor, the warps that serve each and the stages of its ring: with one server a
stage took 950 cycles that was walked in 400; with some 200 KiB on their way at once instead of 96, recurrences of
(8, 4096, 1536) ran at .86 of a copy instead of .93 (H200)."""

STAGE_OF_WALK = 8192
"""Bytes of a stage."""

NEIGHBOURS = {1: 4, 2: 2, 4: 2}
"""Rows of a lane by the size of an item: lines of 256 bytes in (32, 2048, 4096) f4 ran at .98 of a copy, of 128 at .93."""

VECTOR_ROWS = 8192
"""Rows from which a lane takes several narrow ones."""

MULTIPROCESSORS = 132
"""Multiprocessors of the measured GPU: before a launch, the walks that share a multiprocessor are known only roughly."""


class Walking(NamedTuple):
    """The shape of a walk."""

    items: int
    """Items that are read at once."""
    vector: int
    """Rows of a lane."""
    steps: int
    """Items of a stage."""
    walks: int
    """Walking warps that share a multiprocessor."""
    servers: int
    """Warps that bring the items of one walking warp."""

    stages: int

    def fitting(self, size: int, shared: int) -> int:
        """The stages of so many bytes that shared memory holds, a multiple of the servers."""
        room = shared // self.walks - 4096
        return max(self.servers, min(self.stages, room // size) // self.servers * self.servers)


def for_walk(n: int, rows: int, words: int, size: int, largest: int, across: bool) -> Walking:
    """`size` is an item's bytes in a stage, `largest` that of its largest component."""
    vector = NEIGHBOURS.get(largest, 1) if across and rows >= VECTOR_ROWS else 1
    items = power_of_two_below(min(8, 16 // (words * vector)))
    walks = min(max(WALKS), -(-rows // (32 * vector * MULTIPROCESSORS)))
    steps = min(64, STAGE_OF_WALK // (32 * vector * size), power_of_two(n))
    return Walking(items, vector, max(2 * items, power_of_two_below(steps)), walks, *WALKS[walks])
