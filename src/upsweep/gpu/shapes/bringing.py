"""The tiles in which arrays are brought into another order."""

from __future__ import annotations

from upsweep.gpu.shapes import WARPS, Shape, power_of_two

TILE = 4096, 1 << 15
"""Items and bytes of a tile, at most."""

SIDE = 64
"""Items of a tile's side, where neighbours of the array and of its copy lie along two sides."""

LEAST = 1 << 22
"""Bytes of an array from which it is worth two launches more."""

PART = 1 << 28
"""Bytes that are brought at once: the copies of a larger scan take each other's place."""

SECTOR = 32
"""Bytes that memory hands over at least. Neighbours so far apart along the axis, where others are nearer, are brought together."""

NARROW = 256
"""Bytes of a line of columns below which lines are brought together, where wider lines come of it."""


def for_bringing(a: int, b: int, size: int, turned: bool) -> Shape | None:
    """The shape for copies of `size` bytes an item: `lanes` by `items` of a tile. `a` items lie side by side in the array if it is
    `turned`, `b` in the copy. None where tiles would be small.
    """
    most = min(TILE[0], TILE[1] // size)
    across = min(power_of_two(b), SIDE if turned or a > 1 else most)
    along = min(power_of_two(a), most // across)
    return Shape(along, WARPS, 4, lanes=across) if along * across >= 32 * WARPS else None
