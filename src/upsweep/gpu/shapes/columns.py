"""The shapes of tiles of columns."""

from __future__ import annotations

from dataclasses import replace

from upsweep.gpu.shapes import BLOCKS, FEW, SEVERAL, WARPS, Shape, items_for, power_of_two, power_of_two_below

PAIR = {
    (4, 4, False, False): (32, 8, 2),
    (4, 4, False, True): (32, 8, 2),
    (4, 4, True, False): (32, 8, 2),
    (4, 8, False, False): (32, 4, 3),
    (4, 8, True, False): (32, 4, 3),
    (4, 8, True, True): (16, 8, 2),
    (4, 12, False, False): (16, 8, 2),
    (4, 13, False, True): (16, 4, 3),
    (2, 2, False, False): (64, 4, 2),
    (2, 2, True, False): (32, 8, 1),
    (2, 2, False, True): (32, 4, 2),
    (2, 4, False, False): (32, 8, 1),
    (2, 4, True, True): (32, 4, 2),
    (2, 6, True, False): (16, 8, 2),
    (2, 7, True, True): (32, 4, 2),
}
"""Items, warps and blocks of columns of pairs of four bytes, by the bytes of the smallest input that counts, the bytes that are
read of one pair, whether these are read again, and segments. Of a copy (H200), of f4: averages .90, with 32 items in two warps
.79; returns of episodes .89, with 32 items in two warps .70; advantages .90, with 16 items in four warps .81; of episodes .80,
with 32 items in four warps .73; with the values that follow .86, with 8 items .73; of episodes .72, with 8 items .61. Of bf16:
averages .74, in eight warps .70, with half the items .60; their gradients .68, with half the items .57; recurrences .82, in four
warps .80, with half the items .79; their gradients .87, with twice the items in four warps .85, with the same .82; within
segments .72, with half the items .69; advantages of episodes .48, with a quarter of the items .36; returns of episodes .67, in
eight warps .58, with half the items in eight warps .61."""

SUMMED = {4: (32, 8, 1), 2: (32, 4, 2)}
"""The same of scans that sum a result, by the bytes of the smallest input that counts. Forward and backward of (8, 4096, 1536),
of a copy (H200), in two passes -> so: recurrences with a multiplier for each channel f4 .69 -> .85, bf16 .49 -> .61, for each
time .66 -> .80 and .46 -> .58; averages with such weights .64 -> .87 and .43 -> .63, .66 -> .86 and .45 -> .61. With 32 items in
four warps f4 .84, .79, .86 and .86; 16 in eight bf16 .62, .57, .59 and .58."""

TALL = {
    (2, 3): (16, 4, 4),
    (2, 4): (16, 4, 4),
    (4, 6): (8, 4, 2),
    (4, 7): (8, 4, 4),
    (8, 1): (64, 4, 1),
    (8, 2): (64, 4, 1),
}
"""The same of columns that are read again, by the words of what is scanned and of what is read. Gradients of recurrences of f4,
(2, 3) and (2, 4), ran at .89 to .92 of a copy so, in three blocks at .83 to .90, in 8 warps, of which 2 blocks fit, at .89 to .94
but within segments at .60 instead of .71, and with 4 items, which spill, at .50; of f8 at .87, in four blocks, where they spill,
.84. (8, 1) and (8, 2) are a filter's sections, whose look-back fills the registers; tiles as high as this look back less often:
.59 of a copy, 32 items .46, 16 items .28, 32 items in 8 warps .47, 8 in 8 warps .18 (H200)."""

WIDE_ITEMS, WIDE_REGISTERS = {3: 32, 4: 16}, 128
"""Items of a lane in eight warps, which have a multiprocessor to themselves, by the words that are read of an item, of items of
more than two words; and the registers that they may take. Lower tiles look back more often than columns of such items can. Of a
copy (H200), 8 items in two blocks -> so: 4096 columns of recurrences of f8 .73 -> .91, within segments .66 -> .85, with f4
coefficients .53 -> .92, of c8 .66 -> .88, of c16 .27 -> .80, of argmax of f4 .66 -> .91, of f8 .73 -> .91, of matrices .72 ->
.90, of three f4 .61 -> .76, of six .38 -> .79; 2 columns of recurrences of f8 .37 -> .64, 8 .51 -> .64, of argmax of f4 .49 ->
.72, .54 -> .71."""

WIDE_STRETCHED = 96
"""The most columns of such items whose lines are moved as one stretch, where they begin within sectors. Of a copy (H200), line by
line -> so: 33 columns of three f4 .13 -> .43, of matrices .35 -> .42, 65 .39 -> .40 and .51 -> .60, 101 .46 -> .26 and .57 ->
.48; but 64, whose lines begin at sectors, of recurrences of f8 .65 -> .58, of matrices .73 -> .63."""

HEADS = 32
"""The most items of a lane whose heads are bits of one word."""

STRETCHED = 128
"""The most columns whose lines are moved as one stretch. Of a copy (H200), line by line -> so: 3 columns of f4 .32 -> .79, 5
.26 -> .80, 10 .50 -> .78, 33 .32 -> .77, 50 .67 -> .76, 65 .40 -> .72, 99 .45 -> .70, 127 .55 -> .73; but 2 .81 -> .76. Of bf16:
3 .21 -> .68, 13 .22 -> .75, 33 .23 -> .62, 101 .33 -> .64; of bytes: 7 .15 -> .57, 65 .13 -> .53."""

STRETCHED_HALVES = 352
"""The same of items of two bytes whose lines begin anywhere, in a block of the form that `for_stages` gives; within segments also
of lines a little apart, where the results have places of their own: x[:, 1:] of 164 bf16 by keys .42 -> .53 of a copy (H200)."""

STRETCH = 42 * 1024
"""Bytes of a tile of whole lines from which lanes hold half the items, or where lanes have three columns or more, there are half
the warps. Of a copy (H200): 65 columns of f4 .68 -> .74 by half the warps, 101 .67 -> .73."""

COSTLY_BLOCKS = 2
"""The most blocks of eight warps of costly operators on words, which want registers more than warps. Of a copy (H200), logaddexp
by three blocks -> two: 16384 x 4096 f4 .622 -> .631, 4000000 x 13 f4 .37 -> .41, 8192 x 2048 f8 .242 -> .268."""

COSTLY_LOW = 13 * 32
"""Items of a column up to which halves of costly operators lie as their sums would, so that one tile may hold it: 300 x 100000 f2
.353 of a copy, in lines twice as wide .244. Longer ones are faster in these: 16384 x 4096 bf16 .332 -> .343, by flags .267 ->
.300, 100000 x 1000 .272 -> .310, 111503 x 192 by lengths .252 -> .274 (H200)."""

STRIPS = 4
"""The most strips of a warp, where lines are so short that a tile would have few bytes."""

RAGGED = 96
"""Columns of bytes from which four are a word though lines begin at any byte, where lanes do not hold whole lines. Of a copy
(H200), byte by byte -> so: 101 columns .54 -> .59, 333 .40 -> .63, truths in 999 .41 -> .63; but 65 .53 -> .47, 7 .57 -> .47, as
a lane's word may be cut."""

RAGGED_SEGMENTED = 76
"""The same within segments. A word of each lane stands for three bytes of each from 65 columns on, for two below. Of 51 batches
byte by byte -> so (H200): 95 columns .305 -> .447, 91 .291 -> .420, 77 .260 -> .328; but 71 .293 -> .297, 65 .341 -> .275."""

LOOSE = 256
"""Bytes of a line of a tile, where lines begin anywhere, by half the warps. Of a copy (H200): 333 columns of f4 .61 -> .69, in
three blocks .65, 3001 .67 -> .71, .61; with flags of each .29 -> .66. Of two bytes in eight warps and one block, 333 of bf16 .37
-> .60, in four .52; of one byte 128 bytes of a line, maxima of 333 .39, with 256 bytes .32."""

FLAT, FLAT_LEAST = 32, 1 << 22
"""The most words of a line of bytes of which lanes hold several, and the least bytes of all. Of a copy (H200): 1 MiB of 7 and 65
columns .32 both ways, 4 MiB .42 -> .46 and .40 -> .44."""

FLAT_FORMS = ((65, 680, 4, 2, 1), (15, 400, 4, 2, 2), (0, 200, 8, 2, 2))
"""By the least bytes of a line: the most that a lane holds, warps, stages, blocks."""

LITTLE = 4
"""An input of columns does not decide how wide lines are, if it is so many times narrower than the widest one, or more."""

NARROW = 256
"""Items of all columns from which fewer columns than lanes share a warp."""

MOST_AT_ONCE = 1.5
"""Tiles, by those that all blocks load at once, up to which none is asked of the second-level cache ahead: a block would ask for
what another one loads. Of a copy (H200), with -> without: 918 x 2686 i8 .570 -> .623, 10 x 25471 x 40 f2 .439 -> .481, 622986 x 4
i8 .543 -> .586, 807 x 25806 bytes .458 -> .476; above it 286 x 1458 x 10 c8 .715 -> .699, 32768 x 4096 f4 .969 -> .939."""


def for_columns(
    n: int, columns: int, words: int, read: int, smallest: int, most: int, again: bool, pair: int, segmented: bool,
    sums: bool, tight: bool,
) -> Shape:  # fmt: skip
    """`smallest` is the size of the smallest component that counts: a warp reads lines of at least 128 bytes of it, if there are
    so many `columns`. Fewer columns than lanes share a warp, each in several runs. There are at `most` so many warps. `words` are
    an item's, `read` those that are read of it. `again`: items are read again with their prefixes. `pair`: the bytes that are
    read of a pair of four bytes each, 0 of anything else. `sums`: a result is summed. `tight`: items of two words
    are scanned, which spill 40 to 256 bytes in three blocks of eight warps whose lanes share columns, and in five of four. Of a
    copy (H200), 14 x 39487 x 4 f8 .54 -> .74, 25 x 5113 x 12 i8 .44 -> .57, 1298498 x 2 c8 .50 -> .62, by flags of 6 c8 .44 ->
    .54; 40 f8 transposed by offsets .63 -> .69; but reduced 4 x 153271 x 2 i8 .40 -> .33."""
    lanes = min(32, power_of_two(columns)) if n * columns >= NARROW else 32
    vector = min(max(1, 4 // smallest), power_of_two(-(-columns // 32)))
    runs = -(-n * lanes // 32)
    own = PAIR.get((smallest, pair, again, segmented)) if lanes == 32 else None
    own = (SUMMED.get(smallest) if sums and pair and lanes == 32 else None) or own
    own = own or (TALL.get((words - read, read)) if again else None)
    if own is None and words > 2 and not again:
        own = (min(WIDE_ITEMS[min(max(read, 3), 4)], power_of_two_below(WIDE_REGISTERS // words)), WARPS, 1)
    wide, few, blocks = own or (items_for(words), most, 0)
    items = min(wide, HEADS if segmented else wide, power_of_two(runs))
    warps = min(most, few, power_of_two(-(-runs // items)))
    fewer = tight and (warps == FEW or lanes < 32)
    blocks = blocks or max(2, _blocks(warps, vector) - fewer)
    return Shape(items, warps, blocks, lanes=lanes, vector=vector)


def _blocks(warps: int, vector: int, stages: int = 2) -> int:
    """Blocks of so many warps with 24 at work, less what the warps take that serve them."""
    return BLOCKS.get(warps, 1) * (warps + 2) // (warps + stages * vector)


def for_stretch(
    shape: Shape,
    n: int,
    columns: int,
    size: int,
    single: bool,
    wide: bool,
    many: bool,
    ragged: bool,
    halves: bool,
    crowded: bool,
    shared: int,
) -> Shape:
    """Tiles of some 32 KiB, of lines with all columns, `size` bytes a column. Where several lanes share a column of `single`
    words of two bytes or more, tiles are twice as high, and a block is alone, but of two bytes there are two blocks, in 96
    registers without a spill. Those of `wide` items are as high as their memory allows. Of `many` words lanes hold fewer
    items. `ragged` words of bytes go in eight warps of half the items: 333 bytes .650 -> .662 of a copy, their maxima .659 ->
    .670; of more than two columns a lane with all items, as look-backs are fewer, where two such tiles fit the `shared`
    memory: 333 bytes .67 -> .71 (H200). Two blocks have pairs of `halves`, which are twice as high where several lanes share
    a column, and what is `crowded`: scans of eight bytes, and narrow items within segments. In three blocks f8 of 3 to 12
    columns spilled 144 to 232 bytes on sm_90, halves of 3 and 8 columns 168 and 112, i2 of 3, 7 and 12 columns within
    segments 72, 48 and 64. c8 of 7 columns by keys ran at .605 of a copy, so at .806, i8 of 25 by lengths .621 and .648
    (H200)."""
    sets = -(-columns // 32)
    if wide:
        return replace(shape, vector=sets, stretch=columns, loose=True)
    items, warps, room = shape.items, shape.warps, STRETCH
    blocks = min(2, shape.blocks) if crowded else shape.blocks
    items = min(items, MANY_STRETCHED) if many else items
    low = n <= items * warps * (32 // shape.lanes)
    if single and size > 1 and shape.lanes < 32 and not low:
        items, room, blocks = 2 * items, 2 * room, 1 if size > 2 else 2
    elif halves and shape.lanes < 32 and not low:
        items, blocks = 2 * items, 2
    elif items * warps * columns * size > room and sets > 2 and not ragged:
        warps = max(1, warps // 2)
    elif items * warps * columns * size > (2 * room if ragged and sets > 2 and 5 * room <= shared else room):
        items //= 2
    if sets > 1:
        blocks = max(2, _blocks(warps, sets))
    tile = items * warps * (32 // shape.lanes) * columns * size
    strips = min(STRIPS, power_of_two_below(room // tile), power_of_two(-(-n * columns * size // tile)))
    return replace(
        shape, items=items, warps=warps, vector=sets, strips=strips, blocks=blocks, stretch=columns, loose=True
    )  # fmt: skip


def for_flat(size: int) -> tuple[Shape, ...]:
    """Tiles of whole lines of `size` bytes, the best first that fits. A lane holds an odd number of times as many lines as end at
    a word, so that lanes meet each bank once. Of a copy (H200), byte by byte, or from 96 columns on in words by lines, -> so: 5
    columns .465 -> .781, 7 .585 -> .790, 10 .407 -> .79, 13 .466 -> .805, 17 .454 -> .79, 25 .603 -> .81, 33 .468 -> .805, 50
    .595 -> .79, 65 .545 -> .757, 66 .751, 95 .591 -> .68, 101 .600 -> .686, 127 .686 -> .706. With half and a third of the lines
    a lane, as lanes and warps share their sums as often, 7 columns .737 and .62, 33 .73.

    Within segments, byte by byte -> so: 5 columns in 6 batches .14 -> .33, 22 .34 -> .73, 30 .32 -> .64, 65 .34 -> .64; heads
    take memory, so that lanes may hold fewer lines. Batches that begin at a word: 50 columns of 32 .47 -> .75.

    Longer lines, where eight warps do not fit, in four warps of three stages -> six or seven of two, which are no block of the
    tree: 101 columns .66 -> .74, 95 of 51 batches within segments .44 -> .59.
    """
    lanes, lines = power_of_two(-(-size // 4)), 4 if size % 2 else 2
    most, *form = next(form for least, *form in FLAT_FORMS if size >= least)
    times = (max(1, most // (lines * size)) - 1) // 2 * 2 + 1
    forms = [(k, *form) for k in range(times, 0, -2)]
    if times == 1:
        forms = [*((1, warps, 2, 1) for warps in (8, 7, 6)), (1, 4, 3, 1)]
    return tuple(
        Shape(
            lanes * lines * k, warps, blocks, lanes=lanes, stages=stages, stretch=-(-size // 4), loose=True, flat=True
        )
        for k, warps, stages, blocks in (*forms, (times, 4, 2, 1))
    )  # fmt: skip


WASTE = 1.15
"""So many times higher are the tiles of a column that are left for a tile as high as the column. Of a copy (H200), before -> so:
bf16 of 256 x 2048 .64 -> .97, of 315 x 1024 .70 -> .91, of 134 x 10^6 .35 -> .86; f4 of 200 x 1024 .97, of 256 .85 -> .96; in
three stages or with half the items alike or .01 to .05 less."""


ONE_LEAST, ONE_THREADS = 16, 1152
"""The least items of a lane of such tiles, and the threads that share a multiprocessor where lanes hold half the items: 40 lines
have tiles of 48 so instead of 64, 70 lines of 80 instead of 96. Of 30 x 40 x 27927 f2 and 900 x 40 x 999 f4 within segments that
is 56 registers in as many blocks as before, which spill nothing on sm_90."""


LINES_OF_ONE = 300
"""Tiles beside each other that are enough where one holds a column. Of a copy (H200), more tiles -> so: recurrences of f8 of 71 x
16292 .72 -> .85, of 141 x 10447 .68 -> .80; but 270 of f4, two for each multiprocessor and six more, .43 -> .40."""

LOWER, LOWER_BY_WARPS = 1.12, 1.3
"""So many times higher are the tiles of a column that are left for tiles of half the height: in half the items a lane, or strips;
and in half the warps. Of a copy (H200), before -> so: recurrences of bf16 by one number a step of 880 x 20841 .46 -> .52, by one
number of 85 x 342 x 823 .35 -> .49, i2 by offsets of 24 x 601 x 1633 .34 -> .43, f4 by flags of 574 x 46372 .56 -> .68, f2 of 488
x 2483 x 21 .51 -> .65. Not so where lanes share a column: 5 i4 of 2445 by flags .47 -> .41."""

LEAST_ITEMS = 8
"""The least items of a lane where twice the warps take half the items each. Of a copy (H200), before -> so: recurrences of bf16
of 114 x 118 x 1003 .46 -> .56, of f2 of 52090 x 2349 .54 -> .60, of f4 of 20519 x 105 .38 -> .45, 2562 bytes of 57 by offsets .22
-> .30, bytes by lengths in x[:, 1:] of 31500 x 2519 .40 -> .49; but 2 c8 of 477, whose lanes share columns, .62 -> .54."""


FEW_TILES = 1024
"""Tiles up to which that is also done where WARPS work on a multiprocessor and lines begin anywhere. Of a copy (H200), before ->
so: 807 x 25806 bytes .479 -> .537, 30000 x 333 bf16 .420 -> .446, 20000 x 500 f2 .429 -> .444, 2 x 2670 x 1900 .444 -> .453; but
60000 x 100 i4, which are moved as one stretch, .623 -> .549."""


def for_lower(shape: Shape, words: int) -> tuple[Shape, float] | None:
    """Tiles of half the height, and how many times higher those are that are left for them; None for the lowest."""
    if shape.strips > 1:
        return replace(shape, strips=shape.strips // 2), LOWER
    halved = shape.items > ONE_LEAST
    warps = shape.warps if halved else shape.warps // 2
    blocks = 1024 // (32 * (warps + shape.stages * shape.vector))
    if halved:
        more = max(shape.blocks, blocks) if words <= 2 else shape.blocks
        return replace(shape, items=shape.items // 2, blocks=more), LOWER
    blocks -= words > 1
    fewer = warps < FEW or blocks * warps * 4 < shape.blocks * shape.warps * 3
    return None if fewer else (replace(shape, warps=warps, blocks=blocks), LOWER_BY_WARPS)


def for_one(shape: Shape, n: int, words: int) -> Shape | None:
    """The same with as many warps as hold a column of `n` items: a tile that has no neighbours below needs no sum of its own,
    and so no power of two of warps, but one item more than there are. Lanes hold half the items where far fewer are then idle.
    None where these are too many."""

    def warps_of(items: int) -> int:
        height = items * (32 // shape.lanes) * shape.strips
        warps = -(-n // height)
        return n // height + 1 if warps & (warps - 1) else warps

    items = shape.items
    while items > ONE_LEAST and WASTE * warps_of(items // 2) * (items // 2) <= warps_of(items) * items:
        items //= 2
    warps = warps_of(items)
    threads = 32 * (warps + 2 * shape.vector)
    blocks = max(1, (1024 if items == shape.items else ONE_THREADS) // threads)
    # Items of two words spill in four blocks: 87 f8 .85 -> .90 of a copy in three (H200).
    blocks -= words > 1 and blocks > 3
    return (
        replace(
            shape,
            items=items,
            warps=warps,
            blocks=blocks,
            stages=2,
        )
        if warps <= 2 * WARPS
        else None
    )


TURNED_WARPS = 16
"""The most warps at work on a multiprocessor where results of words are turned in pieces of less than 16 bytes. Of a copy (H200),
by 24 -> so: 3299 x 1141 i4 along axis 1 .65 -> .77, 1941 x 1597 f4 .59 -> .68, 52 x 28093 c8 .43 -> .52, 54402 x 737 i4 by keys
.53 -> .60, 329 x 44986 by offsets .53 -> .54; but 23626 x 538 i2 .34 -> .33, and inputs that are turned take as long."""

STILL_STAGES = 3
"""Stages of stretches without inputs, which take little room, in two blocks at most. Of a copy (H200), two in three blocks -> so:
20 f8 of 191190 .47 -> .58, 65 f4 of 79953 .36 -> .40, 3 f8 of 475183 .31 -> .33."""


def for_turned(shape: Shape, size: int, piece: int) -> Shape:
    """Tiles where items that touch along the axis come or go by 128 bytes, as far as registers allow, of items of `size` bytes.
    A lane has at most one piece of a run, of `piece` items. Of a copy (H200), by 64 bytes and less -> so: transposed bf16 along
    axis 0 .79 -> .88, along axis 1 .80 -> .83, bytes .47 -> .65 and .48 -> .57.
    """
    items = min(SEVERAL, 128 // size, 32 * piece)
    return replace(shape, items=items, blocks=2) if items > shape.items else shape


SKEWED_LOWER = 1.1
"""So many times higher are such tiles that are left for tiles of half the height: bf16 of 2057 x 16204 .453 -> .484 of a copy
(H200)."""


def for_skewed(shape: Shape, n: int) -> Shape:
    """Tiles of inputs of two bytes that touch along the axis and begin within words, whose results begin within sectors: lines of
    these are twice as wide, as blocks share the sectors at their ends. Of a copy (H200), brought first -> by lines of 64 bytes ->
    so: bf16 of 8191 x 12289 transposed along axis 0 .395 -> .406 -> .455, of 13957 x 15084 by keys .338 -> .459 -> .476, f2 of
    4097 x 10343 .337 -> .416 -> .428, i2 of 301 x 200001 .301 -> .387 -> .404, of 30001 x 1000 by flags .275 -> .483 -> .510; in
    half the warps .414, .459, .395, .327, .483, and by 256 bytes .369, .454, .303, .234, .462. Where results begin at sectors,
    8192 x 8192 backwards, .465 -> .707 -> .626."""
    items = shape.items
    while items > HEADS and SKEWED_LOWER * _covered(n, items // 2 * shape.warps) < _covered(
        n, items * shape.warps
    ):
        items //= 2
    return replace(shape, items=items, vector=2, blocks=2)


def _covered(n: int, tile: int) -> int:
    return -(-n // tile) * tile


MANY = 4
"""The most words of an item whose lines begin anywhere and go in pieces of 16 bytes; of two bytes that are read again more,
within segments where lines begin within sectors. Gradients of 1535 columns of bf16 ran at .10 of a copy item by item, so at .545,
of 333 at .10 and .47, of 101 at .08 and .36; within segments .02 and .42, .08 and .36, .08 and .30; of 64, whose lines begin at
sectors, .506 and .485 (H200)."""

MANY_STRETCHED = 16
"""The most items of a lane of as many words, in lines that are moved as one stretch. The gradients of 101 columns within segments
ran at .30 of a copy so, with 32 items in half the warps, which spill, at .28 (H200)."""

MANY_LOOSE = (8, 4, 8, 2)
"""Items, columns of a lane, warps and blocks of more words. The same gradients with 16 items and two columns .545 and .46, with
16 items in four warps .44 and .38."""


def for_loose(shape: Shape, columns: int, size: int, many: bool) -> Shape:
    """Tiles of lines of LOOSE bytes in the smallest array, whose items have `size` bytes, or of half of it where that is one; of
    `many` words those of MANY_LOOSE. Few warps of two bytes have no block alone: 40 x 27927 f2 .335 -> .413 of a copy (H200)."""
    sets = power_of_two(-(-columns // 32))
    if many:
        items, vector, warps, blocks = MANY_LOOSE
        fitted = {
            "items": items,
            "vector": min(vector, sets),
            "warps": min(warps, shape.warps),
            "blocks": blocks,
        }
        return replace(shape, **fitted, loose=True)
    vector = max(1, min(LOOSE // (32 * max(2, size)), sets))
    warps = shape.warps if size < 4 else max(1, shape.warps // vector)
    blocks = min(3, WARPS // warps) if size == 2 else 2
    return replace(shape, vector=vector, warps=warps, blocks=blocks, loose=True)


def for_uneven(shape: Shape) -> Shape:
    """Tiles of lines twice as wide, by half the warps. A line that begins within a sector of 32 bytes shares it with another
    block's. Of a copy (H200): 322 columns of f4 .57 -> .71, 1000 of bf16 .62 -> .72. Not so 200 of f4, .82 -> .77, whose lines
    begin at sectors.
    """
    return replace(shape, vector=2 * shape.vector, warps=max(1, shape.warps // 2), blocks=3)
