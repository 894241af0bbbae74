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


WALKED = {1: 64, 2: 64, 4: 32, 8: 32, 16: 16}
"""Lines of a rectangle that a block walks, by the bytes of the smallest result."""

WALKED_LEAST = 96
"""The least rectangles that are walked."""

REDUCED_LEAST = 128
"""The least items of an axis that is reduced so."""

WALKED_STAGES = 6
"""The most stages."""


def for_walked(
    n: int, dims: Sequence[int], size: int, least: int, parts: int, reduce: bool
) -> Iterator[Shape]:
    """Rectangles of columns that blocks walk, of the last two of `dims`: the best first that fits. `size` and `least` are the
    bytes of an item and of the smallest result; `parts`: inputs and components of an item."""
    *rows, lines, columns = dims
    high = 1 if reduce else max(1, 4 // least)
    vector = 16 // (size * high)
    cross = max(8 * high, min(8 if reduce else WALKED[least], power_of_two(lines)))
    side = max(16 // size, min(2048 // (size * cross), power_of_two(columns)))
    count = prod(rows) * -(-lines // cross) * -(-columns // side)
    warps = cross * side * size // 512
    few = warps == 0 or count * warps < 4 * WALKED_LEAST
    if vector * size < 4 or few or (reduce and (n < REDUCED_LEAST or size == 1)):
        return
    for stages in range(WALKED_STAGES, 2, -1):
        items = 8 if parts <= 4 else 4
        yield Shape(items, warps, 1, vector=vector, strips=high, stages=stages, cross=cross)
