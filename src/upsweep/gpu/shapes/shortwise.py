"""The shapes of tiles of short rows that lie one behind another in the results alone."""

from __future__ import annotations

from math import gcd

from upsweep.gpu.shapes import FEW, SEVERAL, Shape

TILE, BYTES_TILE, SIDE = 1 << 13, 1 << 15, 128
"""Bytes of a tile, also where bytes come one by one, and of a line of neighbours in the input, where these are more. Of a copy
(H200), brought first -> so: 8 x 7 x 176855 x 13 bytes along the last axis, in Fortran's order but for the middle, .257 -> .838, 4
x 11 x 56762 x 6 i4 .471 -> .902, 9 x 15 x 14186 x 4 f4 by keys .441 -> .719, 5 x 11 x 300000 x 3 f8 .395 -> .949, 3 x 40 x 60000
x 16 f4 .306 -> .927; by tiles of 16 KB .773, .617, .842 and .734 of these, where registers did not hold all items first. Bytes
one by one, 7 x 11 x 100003 x 9, .309 -> .623, by 8 KB .547. Lines of 64 bytes -> 128: 200 neighbours of f4 .653 -> .763, 100 of
bf16 .572 -> .657. By eight warps f8 .889, bytes one by one .639."""


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
