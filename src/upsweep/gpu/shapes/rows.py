"""The shapes of rows that a warp, a block or all blocks hold at once."""

from __future__ import annotations

from collections.abc import Sequence

from upsweep.gpu.shapes import (
    BLOCKS,
    FEW,
    PACKED,
    WARPS,
    Chip,
    Shape,
    items_for,
    power_of_two,
    power_of_two_below,
)

SMALL_ROWS = ((16, 1, 1), (8, 8, 1), (16, 16, 1), (16, 8, 32), (32, 8, 32))
"""Shapes for a few rows that the machine holds at once, in blocks of eight warps: the words of a thread, the blocks of a
cluster, and the clusters of a row that look back on one level. The first that hold a row are taken. Microseconds in a graph for
2^12, 2^14, 2^16, 2^18 and 2^20 f4: 1.7, 2.2, 2.7, 3.8 and 5.4; the best blocks of 32 warps took 2.0, 3.0 and 3.5 for the
first three (H200).
"""

AT_ONCE = 528
"""Blocks of eight warps that the machine holds: with more, a block takes a row. 64 rows of 16384 took 3.9 us so, 17.6 in four
turns of clusters (H200)."""

FEW_WORDS = 8
"""Words of a thread in few rows that a warp could hold, and that several hold sooner: 20, 100 and 300 rows of 1000 f4 took 1.7,
1.8 and 2.1 us so, 2.6, 2.4 and 2.7 in a warp each; 1000 rows 3.2 and 3.3 (H200)."""

FEW_BYTES = 8 << 20
"""Bytes up to which all blocks hold a scan at once: 2^22 f4 took 12.6 us, with tiles and their look-back 12.2 (H200)."""

WHOLE_ROWS = 64
"""Rows from which a block for each pays: 200 of 16384 f4 took 7.7 us, in tiles 48 (H200)."""

BYTES = 112
"""Most items of a thread where four bytes are summed at a time. Such rows are cut anywhere, at multiples of 16 bytes, as their
operators are free of the tree: bytes in rows of 200 in two lanes of 112 ran at .87 of a copy, in four lanes of 64 at .78, of 333
at .81 and .67, of 5003 in two warps of 80 at .94, in five of 32 at .71 (H200)."""

PLACED = 4 * BYTES
"""Bytes from which such rows are cut where pieces of memory end, in eight lanes or more: with fewer, a warp's copies lie far
apart. Of a copy (H200), turned in registers -> so: truths in rows of 999 .80 -> .92, of 5003 .93 -> .97, maxima of bytes of 999
.75 -> .93, of 5003 .86 -> .97, their sums of 999 .90 -> .94."""

CUT = 16
"""Items of the longest rows that are not cut."""

TOGETHER = 16
"""Warps that hold a row together: an affine recurrence in rows of 5000 ran at .93 of a copy, where a block went through
whole rows tile by tile at .79. Rows of bytes, .62 in 16 warps and .78 in 8, pay up to 8 (H200). Rows of two bytes had eight, too:
8709 halves were three tiles of 4096, and are nine warps of 32 items."""


LONG = 12
"""The same of rows of bytes that eight warps do not hold, nor a tile. Of a copy (H200), in tiles -> so: xor of 21667 bytes .54 ->
.90, maxima of 28000 .84 -> .88 (in ten warps .80), sums of 36001 .58 -> .85, minima of 38486 .53 -> .79; but sums of 32768, which
fill a tile, .92 -> .88, and within segments by flags, which each row turns into bits, 28000 .38 -> .31 and 36000 .42 -> .31."""


def fits_rows(n: int, rows: int, words: int, packed: bool) -> bool:
    return n <= 32 * (BYTES if packed and rows > AT_ONCE else items_for(words))


def for_rows(n: int, rows: int, words: int, packed: bool, apart: bool) -> Shape:
    """The shape for rows that a warp can hold: a row takes as few lanes as can hold it. Few rows take several warps each. Rows
    that lie `apart` are copied row by row, so that several lanes share each: f4 in rows of 100 of a pitch of 101 .49 of a copy in
    four lanes, .59 in eight (H200).
    """
    few = max(2, FEW_WORDS // words)
    if rows <= AT_ONCE and n > 32 * few:
        return Shape(few, -(-n // (32 * few)), BLOCKS[FEW], together=True)
    if packed and n > CUT:
        lanes, items = _cut(n, [8, 16, 32, 4] if apart else [1, 2, 4, 8, 16, 32])
    else:
        items = min(items_for(words), max(power_of_two(-(-n // (8 if apart else 1))), 4 if apart else 2))
        lanes = power_of_two(-(-n // items))
    return Shape(items, 8, 3, lanes=lanes)


def _cut(n: int, lanes: Sequence[int]) -> tuple[int, int]:
    """The number of lanes, the first of those of which the fewest are idle, and the bytes that each holds."""
    items = {k: 16 * -(-n // (16 * k)) for k in lanes}
    best = min((k for k in lanes if items[k] <= BYTES), key=lambda k: k * items[k])
    return best, items[best]


def fits_whole_rows(
    n: int, rows: int, words: int, packed: bool, size: int, segmented: bool, reduce: bool
) -> bool:
    if packed:
        most, tile = 32 * WARPS * (PACKED if segmented else BYTES), 2 * 32 * WARPS * PACKED
        long = tile < n <= 32 * LONG * BYTES and not segmented
        return rows >= WHOLE_ROWS and (n <= most or long)
    warps = TOGETHER if size >= 2 or reduce else TOGETHER // 2
    return rows >= WHOLE_ROWS and n <= warps * 32 * items_for(words)


def for_whole_rows(n: int, words: int, packed: bool, even: bool, resident: int) -> Shape:
    """The shape for rows that a block can hold: as many warps as a row takes, with half the items where fewer lanes are then
    idle. Rows that do not start `even`, at 16 bytes, take more registers: 25 warps spill where 20 do not, f4 .85 of a copy
    against .917. `resident`: the warps that share a multiprocessor where rows are reduced, or 0.
    """
    if packed:
        warps = WARPS if n <= 32 * WARPS * BYTES else LONG
        lanes, items = _cut(n, range(64, 32 * warps + 1, 32))
        return Shape(items, lanes // 32, max(2, 24 * 32 // lanes), together=True)
    items = items_for(words)
    if items > 4 and -(-n // (32 * items)) * 32 * items > 1.2 * n:
        items //= 2
    warps = -(-n // (32 * items))
    if resident and warps > 2:
        return Shape(items, warps, max(2, resident // warps), together=True)
    blocks = min(-(-24 // warps), 32 // warps) if even else max(2, 24 // warps)
    return Shape(items, warps, blocks, together=True)


def for_small(n: int, rows: int, words: int, size: int, chip: Chip) -> Shape | None:
    """The shape of a few rows that all blocks hold at once, or None."""
    if n * rows * size > FEW_BYTES:
        return None
    for room, blocks, most in SMALL_ROWS:
        items, warps, cluster = max(2, power_of_two_below(room // words)), WARPS, min(blocks, chip.cluster)
        while items * 32 * warps * size > chip.shared - 8192:
            warps //= 2
        clusters = -(-n // (items * 32 * warps * cluster))
        if clusters <= (most if cluster == blocks else 32) and rows * clusters * cluster <= AT_ONCE:
            return Shape(items, warps, 4, together=True, small=True, cluster=cluster)
    return None


GROUPED_BYTES = 1 << 27
"""Bytes up to which the blocks of a row that is reduced hand their sums to its last block, and wait for none."""

REDUCING, REDUCING_WIDE, REDUCING_TURNED = 48, 32, 24
"""Warps that share a multiprocessor where blocks reduce rows: of items of a word, of wider ones, and where words are turned in
registers. Few spill, the most c16, 32 bytes a thread. Of a copy (H200), where items are kept in registers -> so: whole rows of
three warps f2 of 2657 .658 -> .721, of six f2 of 5467 .624 -> .756, of nine bf16 of 8301 .239 -> .760; but of two bf16 of 2001
.601 -> .489, f4 of 1999 .922 -> .747, which keep them."""

BLOCKS_OF_ROW = 1024
"""The most blocks of such a row: 32 groups of 32."""

BLOCKS_OF_FEW = 32
"""The most blocks of FEW warps, which are one group. Of a copy (H200), by eight warps -> so: 516 x 31364 f2 cut .481 -> .507, 689
x 20371 i2 .430 -> .486, 61 x 45399 c8 .528 -> .562, 300 x 40001 f4 .651 -> .694, 500 x 12345 f8 .550 -> .630, 1000 x 33333 bytes
.217 -> .235, 64 x 120000 f2 .589 -> .583."""


def reducing(words: int, turned: bool) -> int:
    """Warps that share a multiprocessor where blocks reduce rows; `turned`: whether words are turned in registers."""
    return REDUCING_TURNED if turned else REDUCING if words == 1 else REDUCING_WIDE


def for_grouped(n: int, rows: int, words: int, size: int, resident: int) -> Shape | None:
    """The shape of rows that are reduced by several blocks each, of which the last waits for the others; or None."""
    if n * rows * size > GROUPED_BYTES:
        return None
    for warps, most in ((FEW, BLOCKS_OF_FEW), (WARPS, BLOCKS_OF_ROW), (2 * WARPS, BLOCKS_OF_ROW)):
        tile = items_for(words) * 32 * warps
        if tile < n <= most * tile:
            return Shape(items_for(words), warps, max(2, resident // warps), together=True)
    return None
