"""The shapes of tiles of short rows that lie one behind another in the results alone."""

from __future__ import annotations

from math import gcd

from upsweep.gpu.shapes import FEW, SEVERAL, Shape

TILE, BYTES_TILE, SIDE = 1 << 13, 1 << 15, 64
"""Bytes of a tile, also where bytes come one by one, and of a line of neighbours in the input, where these are more."""


def for_shortwise(a: int, m: int, n: int, size: int, each: int) -> Shape:
    """Tiles of rows of `n` items of `size` bytes, of which there are `m` one behind another in the results for each of `a`
    neighbours in the input; `each` neighbours are a word. A thread's rows fill words of the results, if registers allow."""
    unit = max(1, 4 // gcd(4, n * size))
    if unit * n * max(1, size // 4) > SEVERAL:
        unit = 1
    side = max(1, SIDE // size)
    lanes = a if 2 * a <= 3 * side else side
    rows = max(1, 32 * FEW // -(-lanes // each)) * unit
    most = BYTES_TILE if size == each == 1 else TILE
    strips = rows * max(1, min(most // (lanes * n * size), m) // rows)
    return Shape(n, FEW, 1, lanes=lanes, vector=unit, strips=strips)
