"""The tiles in which arrays are brought into another order."""

from __future__ import annotations

from collections.abc import Iterator

from upsweep.gpu.shapes import WARPS, Shape, power_of_two_below

TILE, WIDE_TILE = 1 << 14, 1 << 15
"""Bytes of a tile, at most; of items of eight bytes and more."""

SIDE, NARROW_SIDE = 64, 128
"""Items of a tile's side, where neighbours of the array and of its copy lie along two sides; of bytes."""

MOST = 48 * 1024
"""Bytes of shared memory that a tile takes at most, with the gaps between its items."""

NEAR, GAPS = 16, 2
"""Neighbours in the array that are at most so many bytes apart come together with what lies between, and so do others that lie at
most so many times as far apart as they would without a gap."""

TOGETHER = 64
"""Bytes of a line that lanes side by side bring at least, where it has so many."""

SHORT = 128
"""Bytes of neighbours in the array, or in its copy, with fewer of which a tile has a third side: the neighbours' neighbours."""

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


def for_bringing(a: int, m: int, b: int, size: int, step: int) -> Iterator[Shape]:
    """The shapes for copies of `size` bytes an item, the largest first: tiles of `items` by `strips` by `lanes`, unless these
    would be small. There are `a` items along the side in which the array's neighbours lie, `step` bytes apart, `b` along that
    of the copy's, and `m` along the one between.
    """
    room, side = (WIDE_TILE if size >= 8 else TILE) // step, NARROW_SIDE if size == 1 else SIDE
    while room >= 32 * WARPS:
        across, along = (n if 2 * n <= 3 * side else side for n in (b, a))
        if m == 1 or a == 1:
            across = max(across, _even(min(b, room // along), b))
        along = _even(min(along, room // across), a)
        if m == 1:
            along = max(along, _even(min(a, room // across), a))
        between = _even(min(m, max(1, room // (across * along))), m)
        if along * between * across >= 32 * WARPS:
            yield Shape(along, WARPS, 4, lanes=across, strips=between)
        room //= 2


def _even(side: int, n: int) -> int:
    """The side of a tile that cuts `n` items, at a round number of them."""
    return side if side == n else side - side % power_of_two_below(min(side, SIDE) // 2 or 1)
