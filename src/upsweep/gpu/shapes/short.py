"""The shapes of rows that a lane holds."""

from __future__ import annotations

from math import gcd

from upsweep.gpu.shapes import SEVERAL, Shape, power_of_two, power_of_two_below

SHORT, FLAGS = 128, 32
"""Registers in which a lane holds the items of an axis, and the flags of segments that one more holds, of a list for all rows
in two: axes of 100 f4 ran at .69 to .72 of a copy, by tiles of columns at .54 to .58 (H200). Axes of more than 32 items
within segments of a list, in tiles or by several lanes -> so: 30 x 40 x 27927 f2 .461 -> .753, 60 x 40 x 10240 f4 .703 ->
.933, 64 x 270000 .756 -> .789, 900 x 50 x 999 bf16 .365 -> .687, bytes of 7 x 37 x 980360 .696 -> .761; rows of 55 i4 .748 ->
.919, of 51 bf16 .669 -> .918, of 44 i2 cut from 45 .269 -> .871."""

SHORT_WARPS, DENSE_WARPS = 8, 4
"""Warps of a block whose rows are neighbours in memory, and whose rows lie one behind another. Of a copy (H200), with 4 warps ->
8: 100 x 2684352 f4 .82 -> .90 (12 warps .79), 100 x 2684354 .67 -> .76, 100 x 100 x 26843 .65 -> .82, 33 x 8134407 .69 -> .76,
32 x 8388608 .85 -> .94; rows of 3 f4 .97 -> .90, of 99 .96 -> .94."""

FULL = 1024
"""Warps that keep the memory of the largest GPUs busy; with fewer, a lane takes one row at a time."""

KNOWN = 16
"""Items of the longest rows, one behind another, whose length a kernel is compiled for. Of a copy (H200), lanes sharing rows ->
rows in lanes: rows of 3 f4 .70 -> .97, of 5 .76 -> .98, of 7 .72 -> .96, of 9 .64 -> .99, of 17 .84 -> 1.0, of 33 .62 -> .99,
of 65 .70 -> .98, of 127 .89 -> .96; of 3 i1 .06 -> 1.0, of 33 i1 .15 -> .49, of 100 i1 .29 -> .75, of 5 pairs .76 -> 1.0."""

TURNED, TURNED_LEAST, TURNED_BYTES = 32, 1024, 64
"""Items from which rows that lie one behind another in some arrays, and side by side in others, are turned in tiles of columns;
the least such rows side by side; and bytes of a lane's rows, at most, where these are shorter: of more, more meet in one bank."""

STEP = 8
"""Items by which the lengths of longer rows that share a kernel differ: what no row has takes no registers and no tests. Of a
copy, a kernel for each power of two -> so: bf16 in rows of 17 .73 -> .94, of 33 .67 -> 1.0, of 65 .51 -> .99, of 101 .70 -> .98
(H200)."""


def fits_short(n: int, words: int, segmented: bool, listed: bool, light: bool) -> bool:
    """Whether a lane can hold an axis. Whether the operator is `light` counts, as a lane's code grows with its items."""
    items = power_of_two(n)
    most = SEVERAL if listed else 0 if segmented else SHORT
    return (items * words <= SEVERAL and items <= FLAGS) or (light and items * words <= most)


def for_short(n: int, rows: int, words: int, largest: int, grain: int) -> Shape:
    """A lane's rows fill 16 bytes, as far as addresses (multiples of `grain` items) and registers allow."""
    items = max(2, power_of_two(n))
    vector = min(max(1, 16 // largest), grain, max(1, SEVERAL // (items * words)))
    while vector > 1 and rows < 32 * FULL * vector:
        vector //= 2
    return Shape(items, SHORT_WARPS, 1, vector=vector)


def for_dense(n: int, words: int, smallest: int) -> Shape:
    """The shape for short rows one behind another: a lane's rows fill whole chunks, as far as registers allow."""
    chunk = 16 // gcd(16, n * smallest)
    vector = 1 if n > KNOWN else chunk if chunk * n * smallest > 16 else 3 * chunk
    while vector > 1 and vector * n * words > SEVERAL:
        vector //= 2
    return Shape(max(2, power_of_two(n)), DENSE_WARPS, 1, vector=vector)


def for_turned(n: int, largest: int) -> Shape:
    """The shape for short rows that a lane turns: as many as TURNED_BYTES hold, of which one item comes by 16 bytes at most."""
    vector = 1 if n > KNOWN else min(16 // largest, power_of_two_below(TURNED_BYTES // (n * largest)))
    return Shape(max(2, power_of_two(n)), DENSE_WARPS, 1, vector=vector)
