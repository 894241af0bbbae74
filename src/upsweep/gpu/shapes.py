"""How large tiles are: every tuning number of the CUDA engine, with the measurement that chose it.

ITEMS are the items that one thread holds in registers, by the 32-bit words of an item's accumulators; WARPS make a tile;
BLOCKS share a multiprocessor, which bounds the registers of a thread to 65536 / (BLOCKS * threads).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import NamedTuple


@dataclass(frozen=True)
class Shape:
    """The shape of a kernel's work: the numbers that its text is compiled with."""

    items: int
    warps: int
    blocks: int
    lanes: int = 32
    vector: int = 1
    strips: int = 1
    carry: bool = False
    stages: int = 2
    together: bool = False
    """Whether the warps of a block hold a row together."""
    small: bool = False
    """Whether the machine is not full."""
    cluster: int = 1
    """Blocks that hold a row, or a part of it, together."""
    stretch: int = 0
    """Columns whose lines lie one behind another and are moved as one stretch of memory; 0 where lines are moved one by one."""


class Chip(NamedTuple):
    """An architecture: its sizes, as CUDA's programming guide lists them, and a choice that its compiler asks for."""

    shared: int
    """Bytes of shared memory that a block may have, nearly all of a multiprocessor's."""
    cluster: int
    """Blocks of the largest cluster; 1 where there are none."""
    near_groups: bool
    """Whether the look-back of items of 8 bytes takes sums of near groups from their parts: elsewhere such kernels spill."""


CHIPS = {
    80: Chip(163 * 1024, 1, False),
    86: Chip(99 * 1024, 1, False),
    90: Chip(227 * 1024, 16, True),
    100: Chip(227 * 1024, 16, False),
    120: Chip(99 * 1024, 8, False),
}
"""Chips by compute capability; a missing one is like the one before it."""


def chip(arch: int) -> Chip:
    """The chip of a compute capability."""
    return CHIPS[max((known for known in CHIPS if known <= arch), default=min(CHIPS))]


ITEMS = {1: 32, 2: 16, 4: 8, 8: 4, 16: 2}
"""32 registers of items a thread."""

WARPS, FEW = 8, 4
BLOCKS = {1: 10, 2: 7, 4: 5, 8: 3}
"""Blocks a multiprocessor by warps a block: about 24 working warps, 64 registers a thread."""


STAGE = 32768
"""Bytes of a tile: three blocks of two stages fill shared memory. Half of it cost the look-back .07 of a copy, twice as
much .06, three stages of half .12 (H200, 1 GiB of f4, f8, i2). Flags of segments come on top. With them, and for pairs, few
warps of two strips each leave the warp that looks back more of the multiprocessor: segments .87 to .89, pairs .89 to .905."""


WIDER = 4
"""Results of so many times the bytes of the inputs have a place of their own: truths as int64 were summed at .88 of a copy,
at .70 where they waited for results in a tile's place (H200)."""


def items_for(words: int) -> int:
    return next(items for most, items in ITEMS.items() if words <= most or most == 16)


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _power_of_two_below(n: int) -> int:
    return 1 << (max(n, 1).bit_length() - 1)


BLOCK = 1 << 26, 4
"""Bytes from which a reduction goes by rows, and how many such rows the largest block of threads could hold: f4 were read so at
1.06 of a copy and f8 at 1.05, tile by tile at .90 and .88 (H200).
"""

WIDE = 4
"""Bytes of an item from which a reduction goes by rows: maxima of bf16 ran at .66 of a copy so, tile by tile at .89 (H200)."""


LINES = 128
"""Bytes of rows side by side from which their reduction goes by blocks that a lane holds: 65536 x 4096 f4 along axis 0 was read
at .95 of a copy so, 8192 x 16384 f8 at .92, by tiles of columns at .88 and .85 (H200)."""


def for_reduction(words: int, along: bool, light: bool) -> int:
    """Items of the blocks of the tree that a long reduction is cut into: rows that a block of threads holds, or, where rows lie
    side by side, items that a lane holds.
    """
    if along:
        return TOGETHER * 32 * items_for(words) // BLOCK[1]
    return _power_of_two_below(min(SEVERAL // words, SEVERAL if light else FLAGS))


def for_rows(n: int, rows: int, words: int) -> Shape:
    """The shape for rows that a warp can hold: a row takes as few lanes as can hold it. Few rows take several warps each."""
    few = max(2, FEW_WORDS // words)
    if rows <= AT_ONCE and n > 32 * few:
        return Shape(few, -(-n // (32 * few)), BLOCKS[FEW], together=True)
    most = items_for(words)
    items = min(most, max(_power_of_two(n), 2))
    return Shape(items, 8, 3, lanes=_power_of_two(-(-n // items)))


TOGETHER = 16
"""Warps that hold a row together: an affine recurrence in rows of 5000 ran at .93 of a copy, where a block went through
whole rows tile by tile at .79. Rows of bytes, .62 in 16 warps and .78 in 8, pay up to 8 (H200)."""


def for_whole_rows(n: int, words: int, even: bool) -> Shape:
    """The shape for rows that a block can hold: as many warps as a row takes, with half the items where fewer lanes are then
    idle. Rows that do not start `even`, at 16 bytes, take more registers: 25 warps spill where 20 do not, f4 .85 of a copy
    against .917.
    """
    items = items_for(words)
    if items > 4 and -(-n // (32 * items)) * 32 * items > 1.2 * n:
        items //= 2
    warps = -(-n // (32 * items))
    blocks = min(-(-24 // warps), 32 // warps) if even else max(2, 24 // warps)
    return Shape(items, warps, blocks, together=True)


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

PACKED = 64
"""Items of a thread where four bytes are summed at a time: int8 .91 to .93 of a copy, truths .72 to .84 (H200)."""

SMALL = 16 << 20
"""Bytes up to which the machine is not full. Half a tile lets more blocks share the work, up to FEW_BYTES; from there on tiles of
twice the size took 2^22 f4 in 12.2 us, half ones in 13.1 (H200)."""

AHEAD = 4 << 20
"""Bytes between the tile that a block loads and the one that it asks the second-level cache for. From 1 to 8 MiB are alike;
16 MiB drive each other out of it, .70 of a copy (H200)."""

ROWS = 1024
"""Rows from which a block may take whole rows, tile by tile, without a look-back: enough for all blocks of the largest GPUs,
more than twice over. It pays, with half the tile and three stages, where more than a fifth of all tiles would lie past the
ends of rows: sums of f4 in rows of 16500 ran at .87 of a copy instead of .77, of i2 in rows of 33000 at .78 instead of .64;
in rows of 20000 at .83 instead of .90, of 65536 at .78 instead of .95 (H200)."""


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
    shared: int,
) -> Shape:
    """`parts` are an item's components, `size` its bytes, `staged` those in shared memory, fewer where results have a
    place of their own, `shared` all that there is. Half the items keep the code of costly operators short, logaddexp of f4 .58 of
    a copy instead of .56, and words that are turned in registers: f4 from x[1:] .91 to .95 instead of .78 (H200)."""
    heavy = words > 4 or (words == 3 and size >= 12)
    small = n * rows * size <= SMALL
    long = again and words in TALL and rows < ROWS and not small
    if heavy:
        items = LONG if long else next(items for most, items in HEAVY.items() if words <= most or most == 16)
    else:
        items = PACKED if packed else items_for(words) >> halved
        if parts > 1 and read < words:
            items *= MADE
    few = segmented or (parts > 1 and not heavy)
    whole, half = STAGE, STAGE // 2
    if long:
        whole = 2 * STAGE
    elif heavy and size >= 12:
        whole = half = 2 * STAGE if words <= 8 else 3 * STAGE
    if staged < size:
        whole, half = whole // 2, half // 2

    def tile(room: int) -> tuple[int, int]:
        room = min(room + segmented * STAGE // 4, (shared - 4096) // 2)
        warps = min(FEW if few else WARPS, _power_of_two(-(-n // (32 * items))))
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
    blocks = 1 if long else 2 if heavy else max(1, BLOCKS[warps] - segmented)
    return Shape(items, warps, blocks, strips=strips, carry=carry, stages=3 if carry else 2, small=small)


SMALL_ROWS = ((16, 1, 1), (8, 8, 1), (16, 16, 1), (16, 8, 32), (32, 8, 32))
"""Shapes for a few rows that the machine holds at once, in blocks of eight warps: the words of a thread, the blocks of a
cluster, and the clusters of a row that look back on one level. The first that hold a row are taken. Microseconds in a graph for
2^12, 2^14, 2^16, 2^18 and 2^20 f4: 1.7, 2.2, 2.7, 3.8 and 5.4; the best blocks of 32 warps took 2.0, 3.0 and 3.5 for the
first three (H200).
"""

AT_ONCE = 528
"""Blocks of eight warps that the machine holds: with more, a block takes a row. 64 rows of 16384 took 3.9 us so, 17.6 in four
turns of clusters (H200)."""

FEW_WORDS = 8
"""Words of a thread in few rows that a warp could hold, and that several hold sooner: 20, 100 and 300 rows of 1000 f4 took 1.7,
1.8 and 2.1 us so, 2.6, 2.4 and 2.7 in a warp each; 1000 rows 3.2 and 3.3 (H200)."""

FEW_BYTES = 8 << 20
"""Bytes up to which all blocks hold a scan at once: 2^22 f4 took 12.6 us, with tiles and their look-back 12.2 (H200)."""


def for_small(n: int, rows: int, words: int, size: int, chip: Chip) -> Shape | None:
    """The shape of a few rows that all blocks hold at once, or None."""
    if n * rows * size > FEW_BYTES:
        return None
    for room, blocks, most in SMALL_ROWS:
        items, warps, cluster = max(2, _power_of_two_below(room // words)), WARPS, min(blocks, chip.cluster)
        while items * 32 * warps * size > chip.shared - 8192:
            warps //= 2
        clusters = -(-n // (items * 32 * warps * cluster))
        if clusters <= (most if cluster == blocks else 32) and rows * clusters * cluster <= AT_ONCE:
            return Shape(items, warps, 4, together=True, small=True, cluster=cluster)
    return None


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


def for_columns(
    n: int, columns: int, words: int, smallest: int, most: int, again: bool, pair: int, segmented: bool
) -> Shape:  # fmt: skip
    """`smallest` is the size of the smallest component that counts: a warp reads lines of at least 128 bytes of it, if there are
    so many `columns`. Fewer columns than lanes share a warp, each in several runs. There are at `most` so many warps. `again`:
    items are read again with their prefixes. `pair`: the bytes that are read of a pair of four bytes each, 0 of anything else."""
    lanes = min(32, _power_of_two(columns)) if n * columns >= NARROW else 32
    vector = min(max(1, 4 // smallest), _power_of_two(-(-columns // 32)))
    runs = -(-n * lanes // 32)
    even = smallest == 4 and lanes == 32
    own = (PAIR.get((pair, again, segmented)) if even else None) or (TALL.get(words) if again else None)
    wide, few, blocks = own or (items_for(words), most, 0)
    items = min(wide, HEADS if segmented else wide, _power_of_two(runs))
    warps = min(most, few, _power_of_two(-(-runs // items)))
    blocks = blocks or max(2, BLOCKS[warps] * (warps + 2) // (warps + 2 * vector))
    return Shape(items, warps, blocks, lanes=lanes, vector=vector)


STRETCHED = 128
"""The most columns whose lines are moved as one stretch. Of a copy (H200), line by line -> so: 3 columns of f4 .32 -> .79, 5
.26 -> .80, 10 .50 -> .78, 33 .32 -> .77, 50 .67 -> .76, 65 .40 -> .72, 99 .45 -> .70, 127 .55 -> .73; but 2 .81 -> .76."""


def for_stretch(shape: Shape, columns: int) -> Shape:
    """Tiles of some 32 KiB, of lines with all columns."""
    sets = -(-columns // 32)
    items = shape.items // (2 if sets > 2 or columns > STRETCHED // 3 else 1)
    return replace(shape, items=items, vector=sets, blocks=shape.blocks if sets == 1 else 2, stretch=columns)


LITTLE = 4
"""An input of columns does not decide how wide lines are, if it is so many times narrower than the widest one, or more."""

NARROW = 8192
"""Items of all columns from which fewer columns than lanes share a warp."""


def fits_rows(n: int, words: int) -> bool:
    return n <= 32 * items_for(words)


WHOLE_ROWS = 64
"""Rows from which a block for each pays: 200 of 16384 f4 took 7.7 us, in tiles 48 (H200)."""


def fits_whole_rows(n: int, rows: int, words: int, size: int) -> bool:
    return rows >= WHOLE_ROWS and n <= (TOGETHER if size >= 4 else TOGETHER // 2) * 32 * items_for(words)


LINE = 32
"""Bytes of neighbours in memory from which a lane for each pays."""

SHORT, FLAGS = 128, 32
"""Registers in which a lane holds the items of an axis, and the flags of segments that one more holds: axes of 100 f4 ran at .69
to .72 of a copy, by tiles of columns at .54 to .58 (H200)."""

SHORT_WARPS, DENSE_WARPS = 8, 4
"""Warps of a block whose rows are neighbours in memory, and whose rows lie one behind another. Of a copy (H200), with 4 warps ->
8: 100 x 2684352 f4 .82 -> .90 (12 warps .79), 100 x 2684354 .67 -> .76, 100 x 100 x 26843 .65 -> .82, 33 x 8134407 .69 -> .76,
32 x 8388608 .85 -> .94; rows of 3 f4 .97 -> .90, of 99 .96 -> .94."""

SEVERAL = 64
"""Registers for the items of several neighbouring rows."""

FULL = 1024
"""Warps that keep the memory of the largest GPUs busy; with fewer, a lane takes one row at a time."""

WALKS = {1: (4, 12), 2: (3, 6), 3: (2, 4)}
"""By the walking warps that share a multiprocessor, the warps that serve each and the stages of its ring: with one server a
stage took 950 cycles that was walked in 400; with some 200 KiB on their way at once instead of 96, recurrences of
(8, 4096, 1536) ran at .86 of a copy instead of .93 (H200)."""

STAGE_OF_WALK = 8192
"""Bytes of a stage."""

NEIGHBOURS = {1: 4, 2: 2, 4: 2}
"""Rows of a lane by the size of an item: lines of 256 bytes in (32, 2048, 4096) f4 ran at .98 of a copy, of 128 at .93."""

VECTOR_ROWS = 8192
"""Rows from which a lane takes several narrow ones."""

MULTIPROCESSORS = 132
"""Multiprocessors of the measured GPU: before a launch, the walks that share a multiprocessor are known only roughly."""


def fits_short(n: int, words: int, segmented: bool, light: bool) -> bool:
    """Whether a lane can hold an axis. Whether the operator is `light` counts, as a lane's code grows with its items."""
    items = _power_of_two(n)
    return (items * words <= SEVERAL and items <= FLAGS) or (
        light and not segmented and items * words <= SHORT
    )


def for_short(n: int, rows: int, words: int, largest: int, grain: int) -> Shape:
    """A lane's rows fill 16 bytes, as far as addresses (multiples of `grain` items) and registers allow."""
    items = max(2, _power_of_two(n))
    vector = min(max(1, 16 // largest), grain, max(1, SEVERAL // (items * words)))
    while vector > 1 and rows < 32 * FULL * vector:
        vector //= 2
    return Shape(items, SHORT_WARPS, 1, vector=vector)


KNOWN = 16
"""Items of the longest rows, one behind another, whose length a kernel is compiled for. Of a copy (H200), lanes sharing rows ->
rows in lanes: rows of 3 f4 .70 -> .97, of 5 .76 -> .98, of 7 .72 -> .96, of 9 .64 -> .99, of 17 .84 -> 1.0, of 33 .62 -> .99,
of 65 .70 -> .98, of 127 .89 -> .96; of 3 i1 .06 -> 1.0, of 33 i1 .15 -> .49, of 100 i1 .29 -> .75, of 5 pairs .76 -> 1.0."""


def for_dense(n: int, words: int, smallest: int) -> Shape:
    """The shape for short rows one behind another: a lane's rows fill whole chunks, as far as registers allow."""
    chunk = 16 // gcd(16, n * smallest)
    vector = 1 if n > KNOWN else chunk if chunk * n * smallest > 16 else 3 * chunk
    while vector > 1 and vector * n * words > SEVERAL:
        vector //= 2
    return Shape(max(2, _power_of_two(n)), DENSE_WARPS, 1, vector=vector)


class Walking(NamedTuple):
    """The shape of a walk."""

    items: int
    """Items that are read at once."""
    vector: int
    """Rows of a lane."""
    steps: int
    """Items of a stage."""
    walks: int
    """Walking warps that share a multiprocessor."""
    servers: int
    """Warps that bring the items of one walking warp."""

    stages: int

    def fitting(self, size: int, shared: int) -> int:
        """The stages of so many bytes that shared memory holds, a multiple of the servers."""
        room = shared // self.walks - 4096
        return max(self.servers, min(self.stages, room // size) // self.servers * self.servers)


def for_walk(n: int, rows: int, words: int, size: int, largest: int, across: bool) -> Walking:
    """`size` is an item's bytes in a stage, `largest` that of its largest component."""
    vector = NEIGHBOURS.get(largest, 1) if across and rows >= VECTOR_ROWS else 1
    items = _power_of_two_below(min(8, 16 // (words * vector)))
    walks = min(max(WALKS), -(-rows // (32 * vector * MULTIPROCESSORS)))
    steps = min(64, STAGE_OF_WALK // (32 * vector * size), _power_of_two(n))
    return Walking(items, vector, max(2 * items, _power_of_two_below(steps)), walks, *WALKS[walks])
