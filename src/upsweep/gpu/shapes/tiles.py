"""The shapes of tiles along rows."""

from __future__ import annotations

from upsweep.gpu.shapes import BLOCKS, FEW, PACKED, ROWS, WARPS, Shape, items_for, power_of_two
from upsweep.gpu.shapes.columns import TALL
from upsweep.gpu.shapes.rows import FEW_BYTES

STAGE = 32768
"""Bytes of a tile: three blocks of two stages fill shared memory. Half of it cost the look-back .07 of a copy, twice as
much .06, three stages of half .12 (H200, 1 GiB of f4, f8, i2). Flags of segments come on top. With them, and for pairs, few
warps of two strips each leave the warp that looks back more of the multiprocessor: segments .87 to .89, pairs .89 to .905. Costly
operators want their warps in segments, too."""

WIDER = 4
"""Results of so many times the bytes of the inputs have a place of their own: truths as int64 were summed at .88 of a copy,
at .70 where they waited for results in a tile's place (H200)."""

HEAVY = {3: 16, 8: 8, 12: 8, 16: 4}
"""Items of a thread by the words of one, for three and from five on: shuffles and folds of the look-back cost so much that larger
tiles in fewer blocks pay. Of a copy (H200), with 32 registers and 32 KiB -> so: six numbers of f4 .56 -> .74, of f8 .38 -> .70;
mean and spread of f4 .60 -> .66, of f8 .43 -> .53; matrices of four doubles .36 -> .71; a filter's sections, whose 8 words read
2 again, .36 -> .52. Where they are read from fewer bytes than 12, three words are as any others, and of more a tile of the
usual bytes holds as many items."""

MADE = 2
"""Times the items of a thread, where an item has more words than it is read from: there are fewer sums of lanes and tiles for as
many bytes. Rows in tiles, of several components: returns of episodes .68 to .79 of a copy, advantages .44 to .54, averages .87 to
.88 (H200)."""

LONG = 16
"""Items of a thread, in one block a multiprocessor, of few rows that are read again and have as many words as columns in TALL: a
filter's section .55 to .65 of a copy; with half the tile in two blocks .55 (H200)."""

THIN = 16
"""Items of a thread, in two strips, of rows whose items are read again and have 6 to 11 bytes: twice the items share the
instructions for lanes and warps. Gradients along the last axis, of a copy: bf16 in rows of 4096 .77 -> .88, of 8192 .58 -> .91,
of 16384 .59 -> .83; f16 in rows of 4096 .72 -> .90. Rows of 4096 in one strip of eight warps .85, longer in four warps .73, 8
items in four strips .70 to .74. Few rows, one block a multiprocessor -> two: 64 of 2^20 .63 -> .80, 3 of 2^22 .52 -> .60, but one
of 2^27 .855 -> .84 (H200)."""

HALF_THIN = WARPS * 32 * THIN
"""Items of the smaller of these tiles."""

SMALL = 16 << 20
"""Bytes up to which the machine is not full. Half a tile lets more blocks share the work, up to FEW_BYTES; from there on tiles of
twice the size took 2^22 f4 in 12.2 us, half ones in 13.1 (H200)."""

AHEAD = 4 << 20
"""Bytes between the tile that a block loads and the one that it asks the second-level cache for. From 1 to 8 MiB are alike;
16 MiB drive each other out of it, .70 of a copy (H200)."""


GATHERED = {"narrow": 32, "costly": 8, "several": 4}
"""Sums of groups of lanes that a lane of the warp that publishes sweeps: floats of eight bits, costly operators, four
components of a word each. A warp sweeps its lanes by all of them, of which few have something to combine. Of a copy (H200),
without -> so: logaddexp of f4 .594 -> .656 (4 sums .646, 16 .627), of f8 .265 -> .281; e4m3 .68 -> .73, its maxima .64 -> .76;
four of f4 .866 -> .901. Larger items, and three components, wait for that warp: eight of f4 .605 -> .48, three of f8 .59 ->
.54."""


def for_tiles(
    n: int,
    rows: int,
    words: int,
    read: int,
    parts: int,
    size: int,
    staged: int,
    segmented: bool,
    halved: bool,
    packed: bool,
    again: bool,
    gathered: int,
    shared: int,
) -> Shape:
    """`parts` are an item's components, `size` its bytes, `staged` those in shared memory, fewer where results have a
    place of their own, `gathered` one of GATHERED or 0, `shared` all that there is. Half the items keep the code of
    costly operators short, logaddexp of f4 .58 of a copy instead of .56, and words that are turned in registers: f4 from
    x[1:] .91 to .95 instead of .78 (H200)."""
    heavy = words > 4 or (words == 3 and size >= 12)
    small = n * rows * size <= SMALL
    # Rows that would leave more than a fifth of these tiles empty are carried from tile to tile, below.
    filled = n <= HALF_THIN or 5 * n >= 4 * -(-n // (2 * HALF_THIN)) * 2 * HALF_THIN
    tall = again and (words - read, read) in TALL
    several = rows >= ROWS or (tall and rows > 1)
    thin = again and several and 4 < words <= 8 and 6 <= size < 12 and filled and not (small or segmented)
    long = tall and rows < ROWS and not (small or thin)
    if heavy:
        most = next(items for most, items in HEAVY.items() if words <= most or most == 16)
        items = LONG if long else THIN if thin else most
    else:
        items = PACKED if packed else items_for(words) >> halved
        if parts > 1 and read < words:
            items *= MADE
    few = (segmented and not gathered) or (parts > 1 and not heavy)
    whole, half = STAGE, STAGE // 2
    if long:
        whole = 2 * STAGE
    elif thin:
        whole = 2 * HALF_THIN * staged
    elif heavy and size >= 12:
        whole = half = 2 * STAGE if words <= 8 else 3 * STAGE
    if staged < size:
        whole, half = whole // 2, half // 2

    def tile(room: int) -> tuple[int, int]:
        sums = 2 * 32 * ((4 * words * gathered << segmented) + 8)
        room = min(room + segmented * min(room, STAGE) // 4, (shared - 4096 - sums) // 2)
        warps = min(FEW if few else WARPS, max(1, power_of_two(-(-n // (32 * items))) >> thin))
        while warps > 1 and warps * 32 * items * staged > room:
            warps //= 2
        strips = 1
        while strips * warps < min(32, n / (32 * items)) and 2 * strips * warps * 32 * items * staged <= room:
            strips *= 2
        return warps, strips

    warps, strips = tile(whole if not small else half if n * rows * size <= FEW_BYTES else 2 * whole)
    length = 32 * items * warps * strips
    carry = rows >= ROWS and n > length and 5 * n < 4 * -(-n // length) * length
    if carry:
        warps, strips = tile(half)
    # Gathered words within segments need 64 registers, and three blocks have room where flags are bits. Of a copy (H200), two ->
    # three: logaddexp by lengths f4 .453 -> .512, bf16 .241 -> .271. Items of f8 spill 80 bytes in two, 216 in three.
    fewer = segmented and not (gathered and words == 1)
    blocks = 1 if long else 3 if thin and warps < WARPS else 2 if heavy else max(1, BLOCKS[warps] - fewer)
    group = max(1, warps * strips // gathered) if gathered and warps * strips > 1 else 32
    return Shape(
        items,
        warps,
        blocks,
        strips=strips,
        carry=carry,
        stages=3 if carry else 2,
        small=small,
        group=group,
    )
