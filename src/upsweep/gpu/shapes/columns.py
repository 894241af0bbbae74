"""The shapes of tiles of columns."""

from __future__ import annotations

from dataclasses import replace

from upsweep.gpu.shapes import BLOCKS, Shape, items_for, power_of_two

PAIR = {
    (4, False, False): (32, 8, 2),
    (4, False, True): (32, 8, 2),
    (4, True, False): (32, 8, 2),
    (8, False, False): (32, 4, 3),
    (8, True, False): (32, 4, 3),
    (8, True, True): (16, 8, 2),
    (12, False, False): (16, 8, 2),
    (13, False, True): (16, 4, 3),
}
"""Items, warps and blocks of columns of pairs of four bytes, by the bytes that are read of one, whether these are read again, and
segments. Of a copy (H200): averages of f4 .90, with 32 items in two warps .79; returns of episodes .89, with 32 items in two
warps .70; advantages .90, with 16 items in four warps .81; of episodes .80, with 32 items in four warps .73; with the values that
follow .86, with 8 items .73; of episodes .72, with 8 items .61."""

TALL = {6: (16, 4, 4), 9: (64, 4, 1), 10: (64, 4, 1), 11: (8, 4, 4)}
"""The same of columns that are read again, by their words. 6 and 11: gradients of recurrences of f4 ran at .89 to .92 of a copy
so, in three blocks at .83 to .90, in 8 warps, of which 2 blocks fit, at .89 to .94 but within segments at .60 instead of .71, and
with 4 items, which spill, at .50; bf16 .53 to .57; f8 .74 (.41). 9 and 10: a filter's sections, whose look-back fills the
registers; tiles as high as this look back less often: .59 of a copy, 32 items .46, 16 items .28, 32 items in 8 warps .47, 8 in 8
warps .18 (H200)."""

HEADS = 32
"""The most items of a lane whose heads are bits of one word."""

STRETCHED = 128
"""The most columns whose lines are moved as one stretch. Of a copy (H200), line by line -> so: 3 columns of f4 .32 -> .79, 5
.26 -> .80, 10 .50 -> .78, 33 .32 -> .77, 50 .67 -> .76, 65 .40 -> .72, 99 .45 -> .70, 127 .55 -> .73; but 2 .81 -> .76."""

LITTLE = 4
"""An input of columns does not decide how wide lines are, if it is so many times narrower than the widest one, or more."""

NARROW = 8192
"""Items of all columns from which fewer columns than lanes share a warp."""


def for_columns(
    n: int, columns: int, words: int, smallest: int, most: int, again: bool, pair: int, segmented: bool
) -> Shape:  # fmt: skip
    """`smallest` is the size of the smallest component that counts: a warp reads lines of at least 128 bytes of it, if there are
    so many `columns`. Fewer columns than lanes share a warp, each in several runs. There are at `most` so many warps. `again`:
    items are read again with their prefixes. `pair`: the bytes that are read of a pair of four bytes each, 0 of anything else."""
    lanes = min(32, power_of_two(columns)) if n * columns >= NARROW else 32
    vector = min(max(1, 4 // smallest), power_of_two(-(-columns // 32)))
    runs = -(-n * lanes // 32)
    even = smallest == 4 and lanes == 32
    own = (PAIR.get((pair, again, segmented)) if even else None) or (TALL.get(words) if again else None)
    wide, few, blocks = own or (items_for(words), most, 0)
    items = min(wide, HEADS if segmented else wide, power_of_two(runs))
    warps = min(most, few, power_of_two(-(-runs // items)))
    blocks = blocks or max(2, BLOCKS[warps] * (warps + 2) // (warps + 2 * vector))
    return Shape(items, warps, blocks, lanes=lanes, vector=vector)


def for_stretch(shape: Shape, columns: int) -> Shape:
    """Tiles of some 32 KiB, of lines with all columns."""
    sets = -(-columns // 32)
    items = shape.items // (2 if sets > 2 or columns > STRETCHED // 3 else 1)
    return replace(shape, items=items, vector=sets, blocks=shape.blocks if sets == 1 else 2, stretch=columns)
