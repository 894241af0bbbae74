"""The shapes of walks: rows that are scanned item by item."""

from __future__ import annotations

from typing import NamedTuple

from upsweep.gpu.shapes import power_of_two, power_of_two_below

WALKS = {1: (4, 12), 2: (3, 6), 3: (2, 4)}
"""By the walking warps that share a multiprocessor, the warps that serve each and the stages of its ring: with one server a
stage took 950 cycles that was walked in 400; with some 200 KiB on their way at once instead of 96, recurrences of
(8, 4096, 1536) ran at .86 of a copy instead of .93 (H200)."""

TURNED = {1: (8, 8, 128), 2: (6, 6, 64), 3: (4, 4, 64)}
"""The same where items come by way of registers, and the registers of a lane for items on their way. What is on its way
lies in the cache of the multiprocessor, beside the ring: with three stages a server 333 columns of f4 took 15.7 cycles a step
instead of 9.3."""

BUSY = 2048, (4, 4, 64)
"""The same for one walking warp a multiprocessor from so many rows of at least four bytes an item: 3001 columns of f4 ran at .61
of a copy with 4 servers, with 8 at .42 (H200)."""

FEW = {1: 2048, 2: 4096, 3: 2048}
"""By the registers of an item on its way, rows up to which items come that way even where lines may be copied: a warp that
reads several steps at once waits for little but arithmetic. Recurrences of (1, 16384, 4096) f4 ran at .97 of a copy instead of
.79, sums of (2, 65536, 1024) bf16 at .45 instead of .30, but sums of 4096 columns of f4 were slower by .03 (H200)."""

HALVES = {1: 4096, 2: 4096, 3: 4096}
"""The same for items of two bytes: see PIECE."""

STAGE_OF_WALK = 8192
"""Bytes of a stage."""

STAGE_OF_ONE = {1: 4096, 2: 4096, 3: 16384}
"""The same of more than FEW[1] columns of one array, by the walking warps that share a multiprocessor. Of a copy (H200), 8192 ->
so, sums of f4: (1, 16384, 4096) .84 -> .91, (1, 8192, 8192) .91 -> .93, (8, 4096, 1536) .86 -> .87, (64, 512, 2048) .907 -> .942,
(32, 2048, 4096) .936 -> .953; of f8 (1, 16384, 3072) .83 -> .88; of bf16 (4, 4096, 4096) .84 -> .92, (64, 512, 2048) .884 ->
.913; but of 2048 columns of f8, (2, 65536, 1024), .84 -> .70."""

NEIGHBOURS = {1: 4, 2: 2, 4: 2}
"""Rows of a lane by the size of an item: lines of 256 bytes in (32, 2048, 4096) f4 ran at .98 of a copy, of 128 at .93."""

WALKED = 16384
"""Columns from which a scan in order is walked though a sweep along the tree has its bits. Of a copy (H200), walked -> swept,
columns of max f8: 256 .067 -> .90, 1024 .26 -> .92; of add i4 256 .18 -> .94, 4096 .86 -> .95, 16384 .92 -> .89; of max bf16 4096
.62 -> .89; 51712 of bytes .79 -> .66; 12288 rows along the last axis, add i8 .85 -> .97, max f4 .81 -> .95."""

SWEPT = 4096, 32768
"""Bytes of lines from which such columns of several batches are swept, however many there are, and the columns from which they
are walked again. Of a copy (H200), walked -> swept: max f4 of (32, 2048, 4096) .937 -> .989, of (64, 512, 2048) .904 -> .971,
bf16 .901 -> .964, i1 of (16, 1000, 8192) .877 -> .923; but f4 of (4, 1024, 32768) .935 -> .931, i2 of (2, 700, 50000) .847 ->
.789, of (32, 2048, 1024) .874 -> .849."""

VECTOR_ROWS = 8192
"""Rows from which a lane takes several narrow ones."""

SINGLE_ROWS = 16384
"""The same of items of two bytes where one array is read. Sums of (8, 4096, 1536) bf16 ran at .82 of a copy with a row a lane, at
.77 with two; recurrences at .83 and .87 (H200)."""

SECTOR = 32
"""Bytes that memory hands over at once."""

WIDE = 32768, 4
"""Rows from which a lane takes so many of two bytes, whose lines begin at 16 bytes, so that lines have 256 bytes: gradients of 31
x 6405 x 1104 .55 -> .87 of a copy, else 1.03 of the speed (H200)."""

HALF = 2
"""Bytes of an item of half precision. Where lines begin anywhere a lane has one row of such items: 1535 columns of bf16 .465 ->
.575 of a copy, their gradients .34 -> .41, but of f4 .65 -> .58 (H200)."""

MULTIPROCESSORS = 132
"""Multiprocessors of the measured GPU: before a launch, the walks that share a multiprocessor are known only roughly."""

ROOM = 32 * MULTIPROCESSORS
"""Rows of a walk for each multiprocessor, a lane a row."""


STAGE_OF_PARTS = 12288
"""Most bytes of the components in a stage, where serving warps map items. Of a copy (H200), stages of 128 steps instead of 64:
recurrences of bf16 of (8, 16384, 64) .175 instead of .189, packed .153 instead of .164, of (2, 65536, 1024) .58 instead of .61;
sums of bf16, half as wide, .172 instead of .161."""


PIECE, PIECED = 2, (STAGE_OF_PARTS, 12, 12)
"""The most columns that a lane of a serving warp moves at once; and bytes of components in a stage, servers and stages then. Of a
copy (H200), (1, 16384, 4096) bf16, a column -> two: recurrences .71 -> .94, sums .65 -> .84, packed .67 -> .81, gradients .64 ->
.745; four columns .905, .835, .76 and .67, in ten warps .90, .88, .77 and .625, in eight .80, .815, .56 and .64. Stages twice as
long leave no cache: .55. Where ROW_LANES bring a row, (2, 65536, 1024), the chain binds, and two columns lose: .60 -> .57."""


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
    turned: bool = False
    """Whether lines of columns become rows of a stage, by way of registers."""
    row_lanes: int = 1
    """Lanes that bring the items of one row then: each a share of its steps."""
    apart: bool = False
    """Whether no server shares the scheduler of the warp that walks, which issues half of what a scheduler can. Recurrences of
    (2, 65536, 1024) bf16 .39 -> .46 of a copy, of 333 columns of f4 .55 -> .595 and their gradients .61 -> .67 (H200)."""
    walkers: int = 1
    """Warps that walk in a block."""
    stretch: bool = False
    """Whether lines that lie one behind another are moved as one stretch of memory."""
    loose: bool = False
    """Whether lines begin anywhere, and come and go in pieces of 16 bytes."""
    tree: bool = False
    """Whether lanes walk along the tree, in runs of so many items."""
    team: int = 1
    """Warps that take the runs of the same columns by turns then."""
    mapped: bool = False
    """Whether serving warps map and finish items, so that the walking warp only combines. Gradients of (2, 65536, 1024) ran so in
    bf16 at .58 of a copy instead of .48, but in f4, where nothing is converted, at .66 instead of .78 (H200)."""

    piece: int = 1
    """Neighbouring columns that a lane of a serving warp moves at once."""

    def mapping(self, size: int, piece: int) -> Walking:
        """The same where serving warps map items into components of `size` bytes together, and move `piece` columns at once."""
        stage, servers, stages = PIECED if piece > 1 else (STAGE_OF_PARTS, self.servers, self.stages)
        most = stage // (32 // self.row_lanes * self.vector * size)
        least = max(2 * self.items, self.row_lanes)
        steps = min(self.steps, max(least, power_of_two_below(max(1, most))))
        return self._replace(steps=steps, servers=servers, stages=stages, mapped=True, piece=piece)

    def fitted(self, size: int, shared: int) -> Walking:
        """The same with as much as shared memory holds of stages of `size` bytes: a multiple of the servers."""
        walks = next(w for w in range(self.walks, 0, -1) if w == 1 or shared // w - 4096 >= 2 * size)
        most = (min(shared // walks, LOOSE_RING if self.loose else shared) - 4096) // size
        stages, servers = min(self.stages, most), min(self.servers, most)
        if self.loose:
            servers = max(
                range(servers // 2 + 1, servers + 1), key=lambda each: (stages // each * each, each)
            )
        stages = stages // servers * servers
        team = min(self.team, power_of_two_below(stages))
        return self._replace(walks=walks, servers=servers, stages=stages, team=team)


def for_walk(
    n: int, rows: int, words: int, size: int, largest: int, across: bool, grain: int, asked: int
) -> Walking:
    """`size` is an item's bytes in a stage, `largest` that of its largest component. Lines begin at multiples of `grain`, up
    to 16. `asked` are the registers of an item on its way. Where several lanes bring a row, stages are longer: a stage costs its
    walk some 50 cycles."""
    many, together = WIDE
    even = grain == 16
    wide = SINGLE_ROWS if asked == 1 and largest == HALF else VECTOR_ROWS
    several = across and rows >= wide and (even or largest != HALF)
    vector = NEIGHBOURS.get(largest, 1) if several else 1
    vector = together if across and even and largest == HALF and rows >= many else vector
    items = power_of_two_below(min(8, 16 // (words * vector)))
    walks = min(max(WALKS), -(-rows // (32 * vector * MULTIPROCESSORS)))
    few = (HALVES if largest == HALF else FEW).get(asked, 0)
    if across and (not even or (rows <= few and largest <= 4)):
        busy = walks == 1 and not even and rows >= BUSY[0] and largest >= 4
        servers, stages, registers = BUSY[1] if busy else TURNED[walks]
        most, turned, apart = registers // (asked * vector), True, walks == 1 and not busy
        row_lanes = _row_lanes(rows, largest) if apart and vector == 1 else 1
        longer = max(1, 2 * row_lanes // max(HALF, largest))
    else:
        servers, stages = WALKS[walks]
        row_lanes, longer, apart = 1, 1, False
        alone = across and asked == max(1, largest // 4) and rows > FEW[1]
        most, turned = (STAGE_OF_ONE[walks] if alone else STAGE_OF_WALK) // (32 * vector * size), False
    steps = max(2 * items, power_of_two_below(min(64 * longer, most * longer, power_of_two(n))))
    return Walking(items, vector, steps, walks, servers, stages, turned, row_lanes, apart)


LOOSE_ROWS = ROOM
"""Rows up to which lines that begin anywhere come by way of registers. Of a copy (H200), these -> in pieces: (8, 4096, 1535) in
order, recurrences of f4 .646 -> .811, of bf16 .556 -> .795, of f8 .778 -> .891, packed bf16 .553 -> .804, sums of f4 .45 ->
.71, of bf16 .38 -> .57, gradients of f4 .505 -> .704, of bf16 .385 -> .578; 801 columns of f4 .575 -> .847; 40001 .66 -> .885,
sums of 128 x 1001 x 1001 bf16 .44 -> .81. Halves of 1098 columns .49 -> .62, of 68140 .70 -> .76."""

LOOSE_WALKERS = 16
"""The most warps that walk together along lines that begin anywhere."""

LOOSE_SERVERS = 8, 64
"""The most warps that serve all these, and the most stages. Eight and twelve are alike (H200)."""

LOOSE_STAGE, LOOSE_RING = 8192, 106496
"""Bytes of a stage of such lines, and of all stages. With 16 KiB and the whole shared memory recurrences of (8, 4096, 1535)
bf16 ran at .63 of a copy instead of .795, of 801 columns of f4 at .64 instead of .85, others as fast or .05 slower (H200)."""

TEAMS = 12
"""The most warps that walk along the tree together."""

TREE_WALKERS, TREE_SHARE = 3, 0.7
"""The least warps beside each other along the tree, and the least part of a line's bytes that must be its own share of all: of
so wide a block, of sectors at the line's ends, of multiprocessors that are idle. Of a copy (H200), by look-backs -> walked:
recurrences of (8, 4096, 1535) f4 .704 -> .788, bf16 .606 -> .831, their gradients .572 -> .714; two warps of 8001 columns f4
.714 -> .657, of 7651 bf16 .658 -> .671."""

LONG, HIGH, WIDE_ITEM = 512, 1024, 8
"""Items of columns from which they are walked along the tree, and items up to which, or bytes of an item from which, one array
is enough. Of a copy (H200), by look-backs -> walked: recurrences by one number a step of 880 x 20841 bf16 .467 -> .608, of 2201
x 12755 f8 .698 -> .787, sums of 700 x 33001 f8 .692 -> .889; but recurrences by one number of 24 x 7009 x 770 bf16 .607 ->
.539, sums of (8, 4096, 1535) f4 .715 -> .695, of 2000 x 20001 i4 .78 -> .80."""


class _Width(NamedTuple):
    """How wide lines are that begin anywhere."""

    walkers: int
    blocks: int
    least: int
    """Steps after which the remainders of lines are the same again."""
    share: float
    """The part of a line's bytes, with the sectors at its ends, that each multiprocessor would have at best."""


def _width(columns: int, batch: int, sizes: list[int]) -> _Width:
    """So wide that each multiprocessor has the least to do: a line shares the sectors at its ends with the blocks beside it.
    Stages of `sizes`, those of all arrays, fit four times."""

    def work(form: tuple[int, int]) -> int:
        walkers, blocks = form
        rounds = -(-batch * -(-columns // (32 * walkers)) // (blocks * MULTIPROCESSORS))
        return rounds * blocks * (32 * walkers * min(sizes) + 2 * SECTOR)

    least = max(4, 16 // min(sizes))
    most = max(1, min(LOOSE_WALKERS, LOOSE_RING // (4 * least * 32 * sum(sizes)), -(-columns // 32)))
    form = min(((w, b) for b in (1, 2) for w in range(most, 0, -1)), key=work)
    return _Width(*form, least, columns * batch * min(sizes) / MULTIPROCESSORS / work(form))


def for_loose(columns: int, batch: int, words: int, sizes: list[int], size: int) -> Walking | None:
    """The walk of lines that begin anywhere, of `batch` times so many columns; `size` is an item's bytes in a stage. None where
    these are few."""
    if columns * batch <= LOOSE_ROWS:
        return None
    walkers, blocks, least, _ = _width(columns, batch, sizes)
    steps = max(least, power_of_two_below(min(32, LOOSE_STAGE // (32 * walkers * blocks * size))))
    items = min(power_of_two_below(max(2, min(8, 16 // words))), steps // 2)
    return Walking(items, 1, steps, blocks, *LOOSE_SERVERS, walkers=walkers, loose=True)


def for_tree(
    n: int, columns: int, batch: int, words: int, sizes: list[int], size: int, alone: bool
) -> Walking | None:
    """The same along the tree, where it pays; a stage is a run. `alone`: one array is read."""
    walkers, blocks, least, share = _width(columns, batch, sizes)
    few = alone and n > HIGH and size < WIDE_ITEM
    if columns * batch <= LOOSE_ROWS or n < LONG or walkers < TREE_WALKERS or share < TREE_SHARE or few:
        return None
    most = LOOSE_STAGE // (32 * walkers * blocks * size)
    items = max(least, power_of_two_below(min(16, 32 // words, most)))
    team = power_of_two_below(max(1, TEAMS // walkers))
    return Walking(items, 1, items, blocks, *LOOSE_SERVERS, walkers=walkers, loose=True, tree=True, team=team)


def _row_lanes(rows: int, largest: int) -> int:
    """As many lanes a row as leave a walk to each multiprocessor, and a sector to each line of a walk. Of a copy (H200), a lane a
    row -> so: recurrences of f4 of (2, 65536, 1024) .84 -> .99, of (8, 16384, 64) .21 -> .26 and their gradients .23 -> .29, of
    333 columns .46 -> .55 and .52 -> .61."""
    return next(n for n in (4, 2, 1) if n == 1 or (rows * n <= ROOM and 32 // n * largest >= SECTOR))


def for_pieces(near: int, largest: int, rows: int) -> int:
    """How many columns a lane of a serving warp moves at once, where `near` can be."""
    return max(1, min(PIECE, near)) if largest == HALF and 2 * rows > ROOM else 1


STRETCH = 16384, 40960
"""Bytes of a stage of whole lines that are read and written, and the most."""

STRETCH_WALKERS = 8
"""The most warps that walk a row of rows together."""


def for_stretch(n: int, columns: int, batch: int, words: int, sizes: list[int]) -> Walking | None:
    """The walk of blocks that take all columns of a batch."""
    vector = min(4, -(-columns // 32))
    walkers = -(-columns // (32 * vector))
    items = max(1, 8 // (vector * words))
    size = sum(sizes) * columns
    steps = max(2 * items, 16 // min(sizes), power_of_two_below(STRETCH[0] // size))
    if batch < MULTIPROCESSORS or walkers > STRETCH_WALKERS or steps * size > STRETCH[1] or steps > n:
        return None
    blocks = min(4, -(-batch // MULTIPROCESSORS))
    return Walking(items, vector, min(steps, 64), blocks, 3, 12, walkers=walkers, stretch=True)
