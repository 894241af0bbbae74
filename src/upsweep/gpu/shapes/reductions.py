"""The blocks of the tree that long reductions are cut into."""

from __future__ import annotations

from upsweep.gpu.shapes import SEVERAL, WARPS, Shape, items_for, power_of_two_below
from upsweep.gpu.shapes.rows import TOGETHER
from upsweep.gpu.shapes.short import FLAGS

BLOCK = 1 << 26, 4
"""Bytes from which a reduction goes by rows, and how many such rows the largest block of threads could hold where rows do not
start at 16 bytes: f4 were read so at 1.06 of a copy and f8 at 1.05, tile by tile at .90 and .88 (H200).
"""

WIDE = 4
"""Bytes of an item from which such a reduction goes by rows: maxima of bf16 ran at .66 of a copy so, tile by tile at .89
(H200)."""

WHOLE_ROW = TOGETHER * 32 * 32
"""Items of the longest rows that a block holds at once: longer ones are cut also where there are many. Of a copy (H200), whole ->
cut: 3355 rows of 20000 f4 .47 -> .94, of 40000 .53 -> .93."""

AHEAD = 128
"""Bytes that a lane asks for at once where rows are blocks of the tree from 16 bytes on."""

SHARING = 4
"""Blocks of such rows that share a multiprocessor: they ask for 128 KiB at once."""

LINES = 128
"""Bytes of rows side by side from which their reduction goes by blocks that a lane holds: 65536 x 4096 f4 along axis 0 was read
at .95 of a copy so, 8192 x 16384 f8 at .92, by tiles of columns at .88 and .85 (H200)."""


def for_sums(n: int, largest: int, read: int) -> Shape | None:
    """The shape for rows that a block of threads sums without scanning them, or None. `largest` is the size of the largest item
    that is read, `read` that of all. A lane's runs are of 16 bytes.
    """
    items, strips = _asked(largest, read)
    warps, rest = divmod(n, 32 * items * strips)
    if rest or warps not in (4, 8, 16):
        return None
    return Shape(items, warps, SHARING * WARPS // warps, strips=strips)


def for_reduction(words: int, along: bool, light: bool) -> int:
    """Items of the blocks of the tree that a long reduction is cut into: rows that a block of threads holds, or, where rows lie
    side by side, items that a lane holds.
    """
    if along:
        return TOGETHER * 32 * items_for(words) // BLOCK[1]
    return power_of_two_below(min(SEVERAL // words, SEVERAL if light else FLAGS))


def for_even_reduction(largest: int, read: int) -> int:
    """The same where rows start at 16 bytes."""
    items, strips = _asked(largest, read)
    return WARPS * 32 * items * strips


def _asked(largest: int, read: int) -> tuple[int, int]:
    """Items of a run, and runs, that a lane asks for at once."""
    items = max(1, 16 // largest)
    return items, power_of_two_below(AHEAD // (items * read))
