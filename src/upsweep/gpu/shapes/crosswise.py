"""The shapes of tiles whose columns are a rectangle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from upsweep.gpu.shapes import FEW, WARPS, Shape, power_of_two

CROSSED = {1: (256, 32, 8), 2: (256, 16, 16), 4: (256, 16, 8), 8: (128, 8, 8), 16: (128, 8, 8)}
"""Columns of a tile where these are a rectangle, its lines, and the items of a lane, by the bytes of the widest item, of words of
bytes by 1. Of a copy (H200), brought into the results' order first -> so: (256, 1000, 256) permuted (2, 1, 0) f4 .41 -> .70,
bf16 .33 -> .45, f8 .45 -> .79, bytes .32 -> .43, recurrences .34 -> .60, c16 .45 -> .70; (64, 200, 20, 250) permuted (3, 1, 2,
0) .39 -> .54; the last two of (8, 2048, 16, 256) swapped f4 .38 -> .72, bf16 .24 -> .54, of (4, 4096, 64, 64) .41 -> .69; odd
sides f4 .31 -> .42 and .48, bf16 .21 -> .27. Of f4 by other lines: 32 of 8 columns .57, 8 of 16 .63, 16 of 32 .66; of bytes 16
of 16 words .19."""

CROSSED_LEAST = 32
"""The least bytes of both sides of such a rectangle."""


def for_crossed(n: int, columns: int, lines: int, size: int) -> Iterator[Shape]:
    """Tiles whose columns are a rectangle of `columns` and `lines`, of items of `size` bytes, as neighbours in the inputs and in
    the results lie along two dimensions: the best first that fits. Results take the items' places, where these are as wide."""
    width, most, items = CROSSED[power_of_two(size)]
    side = min(width // min(most, power_of_two(lines)), power_of_two(columns))
    cross = min(width // side, max(power_of_two(lines), 32 // side))
    for high, most_warps in ((items, WARPS), (items, FEW), (items // 2, FEW)):
        warps = min(most_warps, power_of_two(-(-n // high)))
        for apart in (False, True):
            yield Shape(high, warps, 1, vector=side * cross // 32, apart=apart, cross=cross)


STRETCHED_LEAST, STRETCHED_MOST = 32, 256
"""The least and the most columns of a rectangle whose lines are stretches of memory along the axis, both ways, and which is
in one tile. Of a copy (H200), in a rectangle with idle lanes or brought first -> so: 16 x 9 i4 .370 -> .599, 9 x 5 f4 .369 ->
.547, 30 x 2 f8 .341 -> .699, 7 x 9 f8 .371 -> .604, 6 x 11 c8 by lengths .303 -> .353; but 3 x 9 f4 .378 -> .302, 4 x 26 i2
.365 -> .299, 2 x 12 bf16 in 20 batches .322 -> .167, and 16 x 16 f4 by four warps .661 -> .501."""

STRETCHES = ((16, 8, 3), (16, 8, 2), (8, 8, 3), (8, 8, 2))
"""Items, warps and stages of such tiles, the best first that fits."""


def for_stretches(n: int, columns: int, lines: int) -> Iterator[Shape]:
    """Tiles of all columns of such a rectangle."""
    count = columns * lines
    if not STRETCHED_LEAST <= count <= STRETCHED_MOST:
        return
    for items, warps, stages in STRETCHES:
        most, vector = min(warps, power_of_two(-(-n // items))), -(-count // 32)
        yield Shape(items, most, 1, vector=vector, stages=stages, apart=True, cross=lines, stretch=count)


BESIDE_MOST, BESIDE = 16, ((32, 8, 2, 3), (32, 8, 2, 2), (16, 8, 2, 2), (16, 8, 2, 1))
"""The most rows that lie one beside another in some arrays, and each by itself in the others, of which a warp holds several runs;
and items of four bytes, warps, stages and blocks of their tiles, the best first that fits. Of a copy (H200), brought first ->
so: 3 of 1851330 f8 in Fortran's order .351 -> .482, 7 of i8 .362 -> .494, 12 of c8 .423 -> .701, 2 of i4 .398 -> .703, 5 of f4
by flags .410 -> .452, 9 backwards .383 -> .542, 16 .408 -> .694. In three stages .469, .448, .729, .663, .467, .540, .648; of
half the items .374, .396, .421, .521, .327, .391, .635; in four warps .450, .460, .656, .524, .429, .487, .676."""


def for_beside(n: int, rows: int, words: int) -> Iterator[Shape]:
    """Tiles of all such rows, of items of so many registers."""
    lanes = power_of_two(rows)
    if not 2 <= rows <= BESIDE_MOST or words > 4:
        return
    for most_items, most, stages, blocks in BESIDE:
        items = most_items // power_of_two(words)
        warps = min(most, power_of_two(-(-n // (items * 32 // lanes))))
        yield Shape(items, warps, blocks, lanes=lanes, stages=stages, apart=True, cross=rows, stretch=rows)


WALKED = {1: (64, 96), 2: (64, 96), 4: (32, 64), 8: (32, 64), 16: (16, 64)}
"""Lines of a rectangle that a block of four warps walks, by the bytes of the smallest result, and the least such rectangles, as
few leave multiprocessors idle. Of a copy (H200), by tickets or brought first -> walked: (256, 1000, 256) permuted (2, 1, 0) f4
.70 -> .79, recurrences .61 -> .84, in order .39 -> .79, (256, 1000, 512) bf16 .45 -> .78, (256, 1000, 1024) bytes .43 -> .76,
their products .28 -> .65, (256, 1000, 128) f8 .79 -> .84, c16 .70 -> .85; (64, 200, 20, 256) permuted (3, 1, 2, 0) .63 -> .81;
(8, 2048, 16, 256) with the last two swapped, 64 rectangles, f4 .73 -> .86, but 32 rectangles of bf16 .54 -> .49, of f4 .70 ->
.52. Other lines: f4 16 .63, 64 .72, 128 .70; bf16 16 .55, 32 .65, 128 .66; bytes 32 .54, 128 .60; f8 16 .80, 64 .76."""

WALKED_WIDE = {4: (64, 64)}
"""The same of blocks of eight warps, which have twice the columns: f4 .79 -> .84, of twice the columns .77 -> .82; but bf16 in 32
lines .74, 64 .71, 128 .64, bytes .67 and .47."""

REDUCED = 8, 96
"""The same of reductions by four warps: (256, 1000, 256) f4 .84 -> 1.03, in 32 lines .98; bf16 .82 -> .99, bytes .69 -> 1."""

REDUCED_LEAST = 128
"""The least items of an axis that is reduced so."""

STAGES, WIDE_STAGES = (6, 5, 4, 3), (4,)
"""Stages of a block, which leave room for one block a multiprocessor: two of 512 columns of f4, in four stages, .71, one in six
.77. Where there is one anyway, of six and four f4 .777 and .785, bf16 .77 and .78, bytes .75 and .76, f8 .83 and .84, but of
three bf16 .73, f4 .76, and of blocks of eight warps .78, of four .84. Two blocks of half the columns: f4 .60, bf16 .50."""


def for_walked(
    n: int, dims: Sequence[int], size: int, least: int, parts: int, reduce: bool
) -> Iterator[Shape]:
    """Rectangles of columns that blocks walk, of the last two of `dims`: the best first that fits. `size` and `least` are the
    bytes of an item and of the smallest result; `parts`: inputs and components of an item."""
    *rows, lines, columns = dims
    high = 1 if reduce else max(1, 4 // least)
    vector, items = 16 // (size * high), 8 if parts <= 4 else 4
    if vector * size < 4 or (reduce and (n < REDUCED_LEAST or size == 1)):
        return
    wide = () if reduce or least not in WALKED_WIDE else ((8, *WALKED_WIDE[least], WIDE_STAGES),)
    narrow = (4, *(REDUCED if reduce else WALKED[least]), STAGES)
    for most, high_most, fewest, stages in (*wide, narrow):
        cross = max(8 * high, min(high_most, power_of_two(lines)))
        side = max(16 // size, min(512 * most // (size * cross), power_of_two(columns)))
        warps = cross * side * size // 512
        count = prod(rows) * -(-lines // cross) * -(-columns // side)
        whole = cross == high_most and warps == most
        if (whole or (most == 4 and not reduce and warps > 0)) and count * warps >= most * fewest:
            for k in stages:
                yield Shape(items, warps, 1, vector=vector, strips=high, stages=k, cross=cross)
