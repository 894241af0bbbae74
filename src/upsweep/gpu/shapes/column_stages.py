"""The stages of tiles of columns, in which the tiles that follow come while one is swept."""

from __future__ import annotations

from dataclasses import replace

from upsweep.gpu.shapes import SEVERAL, WARPS, Shape
from upsweep.gpu.shapes.columns import STRETCHED, WASTE

WIDE = 2048
"""Columns of words whose lines begin anywhere from which twice the warps hold half the items, in two stages: 3001 columns of f4
.777 -> .795 of a copy, but 333 .785 -> .741, as each look-back then has less time (H200)."""

IDLE = 1.2
"""Lanes for a word of a line of bytes that begins anywhere, in tiles of 256 bytes of a line, above which tiles have 512 bytes, as
WIDE lines have: 778 columns .525 -> .57 of a copy, but 999 .64 -> .545, 1001 and 1501 .605 -> .526 (H200)."""

HALVES_WIDE = 1000
"""Columns of two bytes whose lines begin anywhere from which 16 warps hold 8 items of 256 columns each. Of a copy (H200): bf16 of
1001 columns .664 -> .683, 2049 .632, 3001 .658 -> .699, 5001 .683 -> .730."""

APART = {
    (0, False): ((16, 8),),
    (2, False): ((32, 8), (16, 8)),
    (4, False): ((16, 8),),
    (2, True): ((16, 16),),
    (8, True): ((16, 4),),
}
"""Items and warps of lines whose results have places of their own, the best first that fits, in a block alone, by the bytes of an
item, 0 where four bytes are a word, 8 where these are every second byte, and whether all lines are one stretch. While results are
stored another tile comes. Of a copy (H200), item by item, where cp.async copies four bytes or more -> so: x[:, 1:] of 1024 f4
.697 -> .778, bf16 .286 -> .686, bytes .123 -> .667; x[:, :-1] of 334 .678 -> .726, .25 -> .52 and .117 -> .51; bf16 x[1:] of 1024
.29 -> .735, x[::2] of 333 .25 -> .60; x[:, 1:] of 101 bf16 .24 -> .63; every second byte of 404 columns, in two warps -> so .54
-> .62, but of 300 in four .695 -> .64. Stored before the next tile is asked for: 1024 f4 .752, bf16 .640, bytes .632."""


def for_stages(
    shape: Shape, columns: int, size: int, dense: bool, uneven: bool, halves: bool, long: bool
) -> tuple[Shape, ...]:
    """The same for items of `size` bytes, 0 where several bytes are a word, in blocks that have all of a
    multiprocessor's memory: the best first that fits. `dense`: the lines lie one behind another. `uneven`: lines of words begin
    at 16 bytes within sectors, and go as those that begin anywhere. Of a copy (H200), before -> so: lines that begin at
    sectors, 4096 columns of f4 .92 -> .93, 256 .89 -> .91, 16 .84 -> .88, 4 .81 -> .86, 2 .81 -> .83,
    in one block .80; 512 of f8 .90 -> .92, 2 .68 -> .83, in two blocks .68; 1024 of bytes .88 -> .91, 16 .74 -> .81. As parts
    of the time before: lines of words that begin anywhere, 333 of f4 .92, 201 .92, 1001 .94, 257 .99, but 150 1.05 and 130
    1.11, as a second part has few; stretches of f4, 24 .92, 33 .88, 50 .95, 64 .95, 65 .92, 96 .97, 101 .97, 13 with half the
    items .95, but 3 1.05; of bf16 101 .93, 128 .91, 130 .71, 201 .88, 257 .84, 333 .94, 351 .95, but 65 1.11, 255 1.04; of 333
    bytes, four a word, 1.44, of 999 .91; stretches of words of 203 bytes .91, of 235 .95, of 250 .93. 101 of bf16 run at .690 of
    a copy in eight warps of 32 items, at .700 in sixteen of 16.
    Pairs of `halves` in 12 columns ran at .32 with half the items in four stages; nobody has timed them in three.
    """
    if shape.apart:
        whole = shape.stretch > 0
        least = 3 * 32 if size == 8 else SEVERAL
        forms = APART.get((size, whole), ()) if columns > least else ()
        return tuple(replace(shape, items=i, warps=w, vector=4, blocks=1, strips=1) for i, w in forms)
    # Two parts of 128 columns leave few lanes idle.
    full = 224 < columns <= 256
    if dense and size == 2 and columns > 96 and not full and (columns % 8 or shape.loose):
        forms = ((16, 16, 3), (32, 8, 3)) if columns <= STRETCHED else ((16, 8, 3), (16, 8, 2))
        block = replace(shape, vector=-(-columns // 32), blocks=1, strips=1, stretch=columns, loose=True)
        return tuple(replace(block, items=i, warps=w, stages=s) for i, w, s in forms)
    if shape.stretch:
        if size == 0 and shape.lanes == 32:
            return (replace(shape, blocks=shape.blocks if shape.vector < 3 else 1, stages=3),)
        if size == 4 and shape.lanes == 16:
            parts, stages = (1, 3) if halves else (2, 4)
            return (replace(shape, items=shape.items // parts, blocks=2, stages=stages),)
        if size == 8:
            few = FEW_OF_EIGHT[shape.lanes] if long and 2 < shape.lanes < 32 and shape.strips == 1 else ()
            forms = EIGHT.get(shape.vector, ()) if shape.lanes == 32 else few
            return tuple(
                replace(shape, items=i, warps=w, blocks=b, strips=1, stages=s) for i, w, b, s in forms
            )
        if size != 4 or shape.lanes < 32:
            return ()
        pair = replace(shape, warps=8, blocks=2, strips=1, stages=3)
        alone = replace(shape, blocks=1, stages=3)
        if shape.vector == 1:
            return replace(pair, stages=4), pair, alone
        if shape.vector > 2:
            return pair, replace(alone, items=shape.items // 2, warps=2 * shape.warps), alone
        return pair, alone
    if shape.loose and size == 2:
        wide = replace(shape, items=8, vector=8, warps=16, blocks=1)
        return (wide,) if columns >= HALVES_WIDE else ()
    if shape.loose or uneven:
        few = columns <= STRETCHED or 3 * columns < 256 * -(-columns // 128)
        idle = size == 0 and 64 * -(-columns // 64) > IDLE * columns
        items, warps, stages = (8, 16, 2) if columns >= WIDE or idle else (16, 8, 3)
        block = replace(shape, items=items, vector=4, warps=warps, blocks=1, stages=stages)
        return () if size not in (0, 4) or few else (block,)
    if shape.lanes <= 2 and size == 4:
        return (replace(shape, blocks=2, stages=3),)
    return replace(shape, warps=2 * shape.warps, blocks=1, stages=3), replace(shape, blocks=2, stages=3)


COSTLY_ITEMS = 32
"""The most items of a lane in tiles of 16 warps of a costly operator, whose machine code fills the cache of instructions."""


def for_costly(shape: Shape, n: int) -> tuple[Shape, ...]:
    """The same for costly operators, of columns of `n` items: in 16 warps alone, unless more of the last tile is empty. These do
    the same at the same time, so that their instructions are brought once. Three stages have a serving warp each, as its chain of
    operations takes as long as a tile. Of a copy (H200), logaddexp in as many warps of two blocks -> so: 16384 x 4096 f4 .659 ->
    .720, in two stages .523, bf16 in two stages .347 -> .397, 13 columns f4 .423 -> .494, bf16 .247 -> .283, 7 columns f4 .413 ->
    .515. Of lines that begin anywhere and have half the warps: 1001 columns f4 .520 -> .532, 333 of bf16 .240 -> .265.
    """
    block = replace(shape, items=min(COSTLY_ITEMS, shape.items), warps=2 * shape.warps, blocks=1)
    high, higher = shape.items * shape.warps, block.items * block.warps
    lanes = 32 // shape.lanes * shape.strips
    high, higher = (-(-n // (lanes * each)) * each for each in (high, higher))
    alone = (shape.warps == WARPS or (shape.loose and not shape.stretch)) and higher <= WASTE * high
    forms = (replace(block, stages=3), block) if alone else ()
    return *forms, replace(shape, stages=3)


WIDE_STAGES = 4, 3
"""Stages of stretches of items of several words, in one block, the best first that fits. Of a copy (H200), two stages -> so:
recurrences of c8 of 17 columns by channels .447 -> .646 (three .577), of 3 in 41 batches .568 -> .609, of f8 of 14 by a
number .649 -> .792, of 7 .734 -> .759, of 53 .717 -> .819; of 22 in batches of three tiles .670 -> .662."""


def for_wide(shape: Shape) -> tuple[Shape, ...]:
    """The same for light operators on such items."""
    return tuple(replace(shape, stages=stages) for stages in WIDE_STAGES)


def for_marked(shape: Shape, n: int) -> Shape | None:
    """One block of twice the warps for stretches of 33 to 64 columns within segments, of `n` items each; None for others. Of a
    copy (H200), eight warps in two blocks -> so: 39 f4 .475 -> .535, 59 i4 .41 -> .475, 44 f2 .51 -> .53, 45 c8 .485 -> .51, 35
    f8 .38 -> .42, 225 bytes .34 -> .38.
    """
    if (
        shape.vector != 2
        or not shape.stretch
        or shape.apart
        or shape.warps != WARPS
        or n < 8 * shape.items * 2 * WARPS
    ):
        return None
    return replace(shape, warps=2 * WARPS, blocks=1, strips=1)


EIGHT = {
    1: ((16, 8, 2, 4), (16, 8, 2, 3)),
    2: ((8, 16, 1, 3),),
    3: ((16, 4, 2, 2),),
    4: ((8, 8, 1, 3), (16, 4, 1, 3)),
}
"""Items, warps, blocks and stages of stretches of single items of eight bytes, or of two of four bytes, by the columns of a lane,
the best first that fits. Of a copy (H200), in two stages -> so: f8 of 24 columns .785 -> .777, 31 .787 -> .806, 53 .707 -> .813,
80 .737 -> .747, 101 .677 -> .776, 127 .704 -> .788; recurrences of f4 of 24 .770 -> .719, 53 .668 -> .738, 127 .603 -> .687."""


FEW_OF_EIGHT = {4: ((16, 16, 1, 3),), 8: ((16, 8, 2, 4), (16, 8, 2, 3)), 16: ((16, 8, 2, 4), (16, 8, 2, 3))}
LONG = 256
"""The same where several lanes share a column, by the lanes of a line, of rows of so many tiles, whose look-backs bind. Of a
copy (H200), in three blocks of two stages, which spill up to 208 bytes, -> so: c8 of 3 columns .710 -> .768, recurrences of
f4 of 3 .559 -> .735 (by the form of 8 lanes .740 and .619), i8 of 12 .688 -> .833, recurrences of f4 of 11 in 45 batches .595
-> .690; but in batches of 47 tiles i8 of 9 .627 -> .585 (two blocks of two stages .630), of 20 tiles f8 of 3 .672 -> .723
(.747), and where tiles have several strips recurrences of f4 of 5 .702 -> .639, reductions of i8 of 5 .788 -> .734, of f8 of
11 .749 -> .719."""

LISTED, LISTED_MOST = {4: (16, 1, 3), 8: (8, 2, 3), 16: (16, 1, 3), 32: (16, 1, 3)}, 256
LISTED_STRETCHED = {(32, 1): ((8, 2, 3), (8, 1, 3)), (32, 4): ((4, 1, 3),)}
"""Warps, blocks and stages of columns of four bytes that share one list of heads: by the lanes of a line, of so many columns at
most, up to which bits are read, or by items and columns of a lane where lines are one stretch, the best first that fits. Of a
copy (H200), as others of two stages -> so: 4 columns .844 -> .871, 8 .870 -> .894, 16 .870 -> .882, 24 in one block .811 -> .821,
33 .718 -> .763, 101 .667 -> .718, 200 .821 -> .842, 256 .912 -> .929; but 1024 .935 both ways, 4096 .942 -> .938, and 33 in three
stages of eight warps .65."""


def for_listed(shape: Shape, columns: int) -> tuple[Shape, ...]:
    """The same where all columns share one list of heads. Two blocks have tiles of one strip, so that both fit."""
    fits = columns <= LISTED_MOST and not shape.loose
    narrow = [LISTED[shape.lanes]] if fits and shape.lanes in LISTED else ()
    forms = LISTED_STRETCHED.get((shape.items, shape.vector), ()) if shape.stretch else narrow
    return tuple(
        replace(shape, warps=warps, blocks=blocks, strips=shape.strips if blocks == 1 else 1, stages=stages)
        for warps, blocks, stages in forms
    )
