"""The tiles in which arrays are brought into another order."""

from __future__ import annotations

from upsweep.gpu.shapes import WARPS, Shape

TILE = 4096, 1 << 15
"""Items and bytes of a tile, at most."""

SIDE = 64
"""Items of a tile's side, where neighbours of the array and of its copy lie along two sides."""

LEAST = 1 << 22
"""Bytes of an array from which it is worth two launches more."""

PART = 1 << 28
"""Bytes that are brought at once: the copies of a larger scan take each other's place."""

SECTOR = 32
"""Bytes that memory hands over at least. Neighbours so far apart along the axis, where others are nearer, are brought together;
and so are lines of columns of so few bytes."""

TURNED = 4
"""Bytes from which a tile of columns turns bytes that touch along the axis; with fewer at once, the array is brought first. Of a
copy (H200), turned in the tile -> brought: truths of 3611 x 20342 transposed along axis 0 .157 -> .192, along axis 1 .149 ->
.173; but f2 of 4097 x 10343 .284 -> .278."""

RESULTS = 9
"""The same of results. Of a copy (H200), in place -> brought: few columns of an array in Fortran's order into C's, 5 of f4 .17 ->
.34, 3 .29 -> .34, of f8 .29 -> .39, 10 of bf16 .09 -> .245, 10 of bytes .08 -> .16, 24 .04 -> .16; but 2 of bf16 .39 -> .25, 3 of
bytes .21 -> .12. Of C's order into Fortran's 5 of f4 .305 -> .28, of bf16 .28 -> .16."""


def for_bringing(a: int, b: int, size: int) -> Shape | None:
    """The shape for copies of `size` bytes an item: tiles of `items` by `lanes`. There are `a` items along the first side and `b`
    along the other, in which the copy's neighbours lie. None where tiles would be small.
    """
    most = min(TILE[0], TILE[1] // size)
    across = min(b, most if a == 1 else SIDE)
    along = min(a, most // across)
    if SIDE // 2 < along < a:
        along -= along % (SIDE // 2)
    return Shape(along, WARPS, 4, lanes=across) if along * across >= 32 * WARPS else None
