"""The shapes of batches of few columns."""

from __future__ import annotations

from upsweep.gpu.shapes import SEVERAL, Shape, items_for, power_of_two

BATCHED_ROWS = 8192
"""Columns of all batches from which lanes walk down a column each. Of a copy (H200), lanes sharing columns -> so: 7 x 3 f4 .31 ->
.90, 50 x 8 bytes .43 -> .96, 33 x 65 i8 .42 -> .90, 200 x 7 bf16 .38 -> .91, 300 x 2 f4 .36 -> .82, a Python operator 33 x 65 .19
-> .91, a recurrence of f8, reduced, 50 x 8 .29 -> .85."""

BATCH_COLUMNS = 128
"""The most columns of a batch: lanes hold short columns of wider ones in registers at .94 of a copy and more."""

WALKING = (4, 8, 2, 1)
"""Warps of a block, the best first where as many lanes are idle. Of a copy (H200), by tiles of columns -> in one warp: 500 x 2 f4
.57 -> .78, 512 x 16 .79 -> .88, 700 x 4 .62 -> .65, 300 x 2 f8 .35 -> .61."""

ODD = (3, 5)
"""Fewer warps of a block that leave fewer lanes idle, where four such blocks share a multiprocessor. Of a copy (H200), in more
-> so: 47 f8 of 42 .53 -> .70, 44 f4 of 100 .88 -> .97, 80 bf16 of 150 .83 -> .91, 77 bytes of 171 .56 -> .64, 86 i2 of 131 by
keys .67 -> .75; but in five instead of four 39 i2 of 49 1.1 -> .73, 37 i2 of 166 .91 -> .87."""

THIN = 2
"""Warps of a multiprocessor that are too few for batches of four columns and items of four bytes, or more: tiles of columns take
them. Of a copy
(H200), by batches -> by tiles as high as a column: 600 x 12 f4 .70 -> .955, 700 x 4 .675 -> .92; with more warps 500 x 2 .81 ->
.59, 300 x 7 .905 -> .85, 200 x 7 .94 -> .66; bytes of 600 x 12, three words, .60 -> .55."""

LEAST = 96
"""Bytes of the narrowest array that a lane moves, and the most columns that it walks down for them. Of a copy (H200), 28 bytes ->
96: 7 x 3 bf16 .70 -> .77, bytes .53 -> .57, 50 x 7 bytes .82 -> .92, 7 x 3 f4 .92 -> .90."""

MOST_COLUMNS = 8

NEAR = 16
"""The most bytes of a line of batches that lie apart in shared memory. Of a copy (H200), one behind another -> apart: 64 x 2 f4
.44 -> .91, 256 x 4 .68 -> .91, 64 x 2 bf16 .23 -> .93, 128 x 12 bytes .58 -> .90; but 128 x 8 f4 .92 -> .89, 64 x 8 f8 .94 ->
.89."""


def for_batches(
    n: int, columns: int, words: int, whole: bool, size: int, smallest: int, shared: int
) -> Shape | None:
    """The shape for batches whose items have `size` bytes in all arrays, and `words` registers, or None where no two blocks of
    them fit a multiprocessor. `whole`: a lane may hold a column of more items than one of a long column."""
    vector = min(MOST_COLUMNS, power_of_two(-(-LEAST // (n * smallest))))
    size_of_column = vector * n * size

    def fits(warps: int, blocks: int) -> bool:
        return (
            columns <= min(32 * warps, BATCH_COLUMNS)
            and 32 * warps * size_of_column <= shared // blocks - 2048
        )

    def used(warps: int) -> float:
        return 32 * warps // columns * columns / warps

    fitting = [warps for warps in WALKING if fits(warps, 2)]
    if not fitting:
        return None
    warps = max(fitting, key=used)
    warps = max([warps, *(fewer for fewer in ODD if fewer < warps and fits(fewer, 4))], key=used)
    if min(columns, smallest) >= 4 and warps * (shared // (32 * warps * size_of_column + 2048)) <= THIN:
        return None
    # A run that few items are left for takes as long as another.
    run = n if whole and n * words <= SEVERAL else min(n, items_for(words))
    return Shape(power_of_two(max(2, run)), warps, 1, vector=vector)
