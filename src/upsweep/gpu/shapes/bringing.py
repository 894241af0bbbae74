"""The tiles in which arrays are brought into another order."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from upsweep.gpu.shapes import ROWS, WARPS, Shape, power_of_two, power_of_two_below

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

STAGES, PIECES, BROUGHT, STEPPED_LEAST = 4, 12, 4, 256
"""The stages of tiles that are walked down the axis, the most pieces of a thread there, the most lines of which it brings
parts, and the least tiles. Of a copy (H200), with the stages that fill shared memory -> four (three): 5 x 32 x 21388 x 35 i2
.462 -> .622 (.617), f4 by keys .624 -> .720 (.722), 11 x 300 x 900 x 13 i4 .428 -> .610 (.500), 7 x 20 x 21388 x 16 c8 .745
-> .866 (.813)."""

PREFIXES = {24: 3, 72: 2}
"""Blocks of such tiles that share a multiprocessor, by the most registers of a thread for what stands before its items."""

SHORT = 128
"""Bytes of neighbours in the array, or in its copy, with fewer of which a tile has a third side: the neighbours' neighbours."""

LEAST = 1 << 22
"""Bytes of an array from which it is worth two launches more."""

ALIKE, ALIKE_ALONG = 1 << 24, 40 << 20
"""Bytes of items from which rows that read the same are scanned once: the copy of their results is a launch more. Rows along
memory are fast as they are. Of a copy (H200), each by itself -> once: 2 x 4200000 f4 .626 -> .455, 1024 x 4100 .753 -> .607; but
2206 x 37071 .463 -> .514, columns of 17 MB, 64 x 2050 x 33 f4, .401 -> .476."""

LINES, PERIOD, TIMES = 1 << 14, 1 << 14, 8
"""Bytes of lines that are copies of one line, from which threads put pieces together once for all of them, bytes that have a
piece for each thread of several blocks, and how often a thread stores its piece at most."""

PART, PART_SIDE = 1 << 28, 64
"""Bytes that are brought at once, as the copies of a larger scan take each other's place; and the least neighbours of a part, as
fewer would be brought by a few bytes: 7 x 14392 x 888 i4, of which parts had 5 and 2 of 7 neighbours, .324 -> .436 of a copy
(H200)."""

SECTOR = 32
"""Bytes that memory hands over at least. Neighbours so far apart along the axis, where others are nearer, are brought together;
and so are lines of columns of so few bytes."""

ALONG = 256
"""Items of a row from which bytes and halves that lie along memory in an input are scanned there, and their results brought, as
columns that begin within words are slower than rows. Of a copy (H200), along axis 0 of transposed arrays, columns -> so: truths
of 3611 x 20342 .32 -> .36, bytes by lengths 3001 x 40001 .28 -> .31."""

SQUARE, SQUARE_LEAST = 16, 20 << 20
"""Bytes of a piece from which the results of a rectangle of columns of two bytes are turned in the tile; with less at once, an
array of so many bytes is brought first, as is one whose pieces are single items. Of a copy (H200), turned in the tile -> brought,
by the bytes of pieces read and written: 2 and 16 .092 -> .326, 2 and 4 .098 -> .308, 4 and 4 .244 -> .301, 16 and 4 .277 -> .334,
16 and 2 .249 -> .267, 8 and 2 .273 -> .318; but 4 and 16 .441 -> .379, of 19 MB 8 and 2 .180 -> .145, 16 and 2 .220 -> .181."""

IDLE = {4: 1.7, 8: 2}
"""The most lanes for a column in such rectangles, of which copies of large arrays are no faster, by the bytes of an item, of four
bytes within segments. Of a copy (H200), in place -> brought: keys of 9 x 300000 x 16 f4 .36 -> .43; without segments 16 x 186508
x 9 i4 .37 -> .41, but 17 x 40000 x 100 f4 .39 -> .30."""

AMONG = 8
"""Bytes at once from which an array stays where it lies, if its few neighbours are neighbours in the other order too, as lines
change places. Items of fewer bytes take a sector each in place. Of a copy (H200), in place -> brought: lines of 3 f4 .141 ->
.404, of 14 bytes .057 -> .323, of 2 i2 .111 -> .213; of 3 f8, which stay, .196."""

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


def blocks_for(prefixes: int) -> int:
    """Blocks of a multiprocessor whose threads keep prefixes in so many registers; 0 where these are too many."""
    return next((blocks for most, blocks in PREFIXES.items() if prefixes <= most), 0)


TURNING, TURNED_LINES, FULL_LINES = 120, 124, 0.75
"""Bytes of a line at most in a tile of bytes that lanes turn as words, and its lines, of which at least so many are there. A warp
has four lines more, as its last lane's words are for the lane before it. Whole scans of transposed bytes, byte by byte -> so:
truths of 3611 x 20342 .33 -> .41 of a copy (lines of 248 bytes .37, of 56 .34), sums of 9001 x 15003 .33 -> .40, maxima of 654 x
112257 .29 -> .34. Halves turned by two .40 -> .38, which are not (H200)."""


def for_turning(a: int, b: int) -> Shape | None:
    """The shape for such copies of lines of `a` bytes to runs of `b`; None where too many lanes would be idle."""
    if a < SHORT or b < FULL_LINES * TURNED_LINES * -(-b // TURNED_LINES):
        return None
    even = -(-a // -(-a // TURNING))
    return Shape(-(-even // 8) * 8, WARPS, 4, lanes=TURNED_LINES)


def for_lines(line: int, nbytes: int) -> Shape:
    """The shape for copies of one line of so many bytes, of all that is written: `items` times a piece is stored, and `strips`
    times as many lines as end at a piece have PERIOD bytes. As many blocks as the largest GPUs hold, if there are so many."""
    whole = line * 16 // gcd(line, 16)
    times = power_of_two_below(min(TIMES, nbytes // (16 * 32 * WARPS * ROWS)))
    return Shape(times, WARPS, 4, strips=power_of_two(-(-PERIOD // whole)))


def _even(side: int, n: int) -> int:
    """The side of a tile that cuts `n` items, at a round number of them."""
    return side if side == n else side - side % power_of_two_below(min(side, SIDE) // 2 or 1)
