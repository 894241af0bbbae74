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


def for_bringing(a: int, b: int, size: int) -> Shape | None:
    """The shape for copies of `size` bytes an item, in tiles of `items`, of which `lanes` at most are neighbours in the copy.
    There are `b` of these in all, and `a` items lie along the other side. None where tiles would be small.
    """
    most = min(TILE[0], TILE[1] // size)
    across = most if a == 1 else SIDE
    return Shape(most, WARPS, 4, lanes=across) if min(a * b, most) >= 32 * WARPS else None
