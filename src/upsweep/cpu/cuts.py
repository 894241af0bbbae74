"""How rows are cut: strips of rows side by side, tiles along rows, chunks of a tile; and how many tickets there are."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from upsweep import cores
from upsweep.cpu import tuning
from upsweep.cpu.rows import (
    Rows,
    Strides,
    as_stored,
    backward,
    costly,
    item_size,
    lanes_of,
    line_size,
    lines_of,
    plain,
    rows_of,
    side_by_side,
)
from upsweep.cpu.words import CLASH, LINE, PANELS, ROW, WHOLE
from upsweep.operators import extreme, free, variant_of
from upsweep.plan import Plan


class Cut(NamedTuple):
    rows: Rows
    along: bool
    """Whether a chunk lies along a row; else it is a panel of several rows."""
    straight: bool
    """Whether a row is scanned straight through."""
    again: bool
    """Whether runs of items are swept up again as they are swept down; else their block sums are kept."""
    extremes: bool
    """Whether rows are reduced straight through, unless they hold a NaN."""
    in_order: bool
    """Whether a panel takes one step after the other."""
    staged: int
    """Lines of columns, or rows of a strip, that come near in one go; 0 where none do."""
    width: int
    """Rows of a strip."""
    strips: int
    groups: int
    """Strips over all outer dimensions."""
    chunk: int
    """Items."""
    tile: int
    tiles: int
    chained: bool
    """Whether tiles wait for those above them, without being summed first."""
    batch: int
    """Groups to a ticket."""
    threads: int


def cut(plan: Plan, strides: tuple[Strides, ...], rows: tuning.Tuning, columns: tuning.Tuning) -> Cut:
    """How a plan is cut on arrays of these strides."""
    lie, wanted, read = rows_of(plan, strides), wanted_threads(plan, strides), read_size(plan, strides)
    any_order, in_turn = free(plan.op, plan.accumulators), _in_turn(plan, lie)
    straight = in_turn or (any_order and not plan.segmented)
    in_order = plan.order == "sequential" and not (any_order or in_turn)
    along = lie.inner is None or (straight and _line_by_line(plan, strides, lie))
    tuned = rows if along else columns
    staged = 0 if along else lines_staged(plan, strides, lie)
    width = _width(plan, lie, tuned.width, staged, in_order, wanted)
    strips = -(-lie.side_by_side // width)
    groups = strips * prod(lie.sizes)
    chained = not in_order and _chains(plan, lie, wanted) and groups < tuning.CHAINED_TICKETS * wanted
    far = read * plan.n * plan.rows >= tuning.FAR_BYTES and not plan.reduce and _even(groups, wanted)
    brought = not (as_stored(plan) and _side_by_side(plan, strides))
    lanes = lanes_of(plan, True)
    span = ROW * ROW * lanes if along and not (straight or plan.reduce) and lanes <= ROW else 0
    less = not span and (far or (plan.reduce and brought))
    longest = min(tuned.chunk, tuning.FAR_CHUNK) if less else tuned.chunk
    chunk = max(ROW, longest >> _fewer(plan)) if along else _lines(plan, lie) if lie.abreast else ROW
    chunk = min(chunk, span) if span else chunk
    if lie.near > 1:
        while chunk > ROW and chunk * lie.near * read > tuning.NEAR_BYTES:
            chunk //= 2
        tile, batch = chunk, lie.near
    else:
        bytes_of_tile = tuned.tile // 2 if lie.abreast and wanted > tuning.FETCHING else tuned.tile
        largest = max(chunk, bytes_of_tile // (read * min(lie.side_by_side, width)))
        whole = in_order or in_turn or lie.folded
        tile = plan.n if whole else _tile(plan.n, groups, wanted, chunk, largest)
        if chained:
            fair = plan.n * groups // (tuning.CHAINED_TICKETS * wanted)
            tile = 1 << max(tuning.CHAINED_ROWS, fair).bit_length() - 1
        size = read * plan.n * min(lie.side_by_side, width)
        batch = _batch(tile < plan.n, groups, wanted, size)
    tiled = along and tile < plan.n and lie.near == 1
    pays = far and lie.near == 1 and len(plan.accumulators) + plan.segmented > 1 and _cheap(plan)
    again = along and not (straight or plan.reduce) and (tiled or pays)
    if again and tiled:
        # Between the two sweeps of a tile, scratch memory keeps the sums of its runs, and the items that cannot be swept where
        # they lie.
        chunk = tile = min(tile, ROW**PANELS)
    elif again:
        chunk = max(ROW, min(tuning.AGAIN * tuned.chunk >> _fewer(plan), ROW**PANELS))
    tiles = max(1, -(-plan.n // tile))
    return Cut(
        rows=lie,
        along=along,
        straight=straight and along,
        again=again,
        extremes=_takes_extremes(plan, strides, lie, along),
        in_order=in_order,
        staged=staged if (tiles if lie.turned else strips) == 1 else 0,
        width=width,
        strips=strips,
        groups=groups,
        chunk=chunk,
        tile=tile,
        tiles=tiles,
        chained=chained and tiles > 1,
        batch=batch,
        threads=max(1, min(wanted, -(-groups // batch) * tiles)),
    )


def _lines(plan: Plan, lie: Rows) -> int:
    """The lines of narrow columns that are swept by one call, a power of two."""
    fit = max(ROW, tuning.ABREAST_CHUNK // (lie.side_by_side * item_size(plan)))
    return 1 << fit.bit_length() - 1


def _fewer(plan: Plan) -> int:
    """Halvings of the numbers of tuning, which are for items of 4 bytes."""
    return (max(item_size(plan), 4) - 1).bit_length() - 2


def _line_by_line(plan: Plan, strides: tuple[Strides, ...], lie: Rows) -> bool:
    """Whether rows side by side are scanned straight through, one by one. A map or a finish of such rows works on panels."""
    plain_rows = plan.map is plan.finish is None and lie.turned and not lie.crossed
    return plain_rows and plan.n >= shortest_straight(plan) and not backward(plan, strides)


def _width(plan: Plan, lie: Rows, most: int, staged: int, in_order: bool, wanted: int) -> int:
    """Rows of a strip."""
    if staged and lie.turned:
        return staged
    if lie.folded:
        return _width_folded(plan, lie)
    if lie.abreast:
        # Sums and prefixes of fewer columns take up the lanes of a group.
        return max(LINE, lie.side_by_side)
    apart = lie.inner is not None and not lie.turned
    widest = most if apart else tuning.ROWS_TURNED
    width = tuning.STRIP_IN_ORDER if in_order else 1 if lie.inner is None else max(32, widest >> _fewer(plan))
    others = prod(lie.sizes)
    narrowed = apart or (lie.turned and not in_order)
    narrowest = 2 * lanes_of(plan, False) if lie.turned else tuning.NARROW_BYTES // item_size(plan)
    if apart and not in_order and _chains(plan, lie, wanted):
        while -(-lie.side_by_side // width) * others < wanted:
            width //= 2
        return width
    while narrowed and width > narrowest and not _even(-(-lie.side_by_side // width) * others, wanted):
        width //= 2
    return width


def _chains(plan: Plan, lie: Rows, wanted: int) -> bool:
    """Whether there are columns enough for all threads, so that a tile need not be summed before it is scanned: it waits for the
    one above it, which was begun as many tickets before as there are strips.
    """
    if lie.inner is None or lie.turned or lie.abreast or lie.folded or plan.reduce:
        return False
    line = lie.side_by_side * prod(lie.sizes) * item_size(plan)
    many = wanted >= tuning.CHAINED and line >= wanted * tuning.NARROW_BYTES
    return many and plan.n >= 2 * tuning.CHAINED_ROWS


def shortest_straight(plan: Plan) -> int:
    """The items of a short row from which on it may be scanned straight through: a line at least, of pairs of values."""
    line = LINE // plan.accumulators[0].itemsize
    return line if past_cache(plan) and len(plan.accumulators) == 1 else max(tuning.SHORT_STRAIGHT, line)


def _in_turn(plan: Plan, lie: Rows) -> bool:
    """Whether rows one by one give floats of theirs in order. Where none is NaN, every order gives the same bits."""
    alone = lie.inner is None and lie.near == 1 and not plan.segmented
    return alone and plan.order == "sequential" and extreme(plan.op, plan.accumulators) and worth_code(plan)


def _takes_extremes(plan: Plan, strides: tuple[Strides, ...], lie: Rows, along: bool) -> bool:
    """Whether a reduction gives one of the floats of each row, the same in every order, and finds them side by side."""
    if not (plan.reduce and extreme(plan.op, plan.accumulators) and plan.order == "tree"):
        return False
    lines = lie.turned and _side_by_side(plan, strides) and plan.n >= tuning.SHORT_STRAIGHT
    return plan.map is None and not plan.segmented and (along or (lines and as_stored(plan)))


def walks(plan: Plan, strides: tuple[Strides, ...]) -> bool:
    """Whether a scan goes item by item. Scans in order of columns and of few rows do. Where every order gives the same bits,
    columns go item by item if that is faster: they have no gaps between them, their results stay in the cache, and there are
    enough columns for all threads. Of 200 columns with gaps, 32 MiB of uint8 were reduced in 2.1 ns an item so and are in .25, of
    int32 in 2.6 and .70; 256 KiB of uint8 were scanned in .71 and are in .32, of int32 in .97 and .56. Where one flag of segments
    stands for a whole line they go so in any memory: 1000 columns of int32 .42 and .11, 2000 in 32 MiB .55 and .25.
    """
    lie = rows_of(plan, strides)
    if lie.folded:
        return False
    if not free(plan.op, plan.accumulators):
        # One item has the same bits in each order.
        in_order = plan.order == "sequential" and not _in_turn(plan, lie)
        return (in_order or (plan.n == 1 and worth_code(plan))) and not lie.turned
    threads = wanted_threads(plan, strides)
    enough = threads == 1 or lie.side_by_side * prod(lie.sizes) >= 2 * LINE * threads
    columns = lie.near * item_size(plan) >= tuning.WALKED_BYTES
    if lie.inner is not None:
        # Lines of so many bytes that go through a map or a finish are walked too, as both stand in the loop.
        line = line_size(plan, lie.side_by_side)
        walked = line > LINE if plain(plan) else line >= tuning.WALKED_BYTES
        columns = (walked or not lie.abreast) and _lines_without_gaps(plan, strides, lie)
    return (
        columns and not lie.turned and enough and (_flag_a_line(plan, strides, lie) or not past_cache(plan))
    )


def _lines_without_gaps(plan: Plan, strides: tuple[Strides, ...], lie: Rows) -> bool:
    """Whether neighbours lie without a gap, but for flags that are one for a whole line."""
    reads, writes = lines_of(plan)
    assert lie.inner is not None
    if _flag_a_line(plan, strides, lie):
        flags = len(plan.loads)
        reads, strides = reads[:flags], strides[:flags] + strides[flags + 1 :]
    return side_by_side(strides, (*reads, *writes), lie.inner, False)


def _flag_a_line(plan: Plan, strides: tuple[Strides, ...], lie: Rows) -> bool:
    """Whether one flag of segments stands for a whole line of rows side by side."""
    return plan.segmented and lie.inner is not None and strides[len(plan.loads)][lie.inner] == 0


def lines_staged(plan: Plan, strides: tuple[Strides, ...], lie: Rows) -> int:
    """The rows of a strip, or the lines of columns, that come near in one go; 0 where none do.

    Lines come near where they cannot be swept as they lie: their items are converted, apart or all the same, or reversed, unless
    those of rows are so in all arrays, or their results start anew at the heads of segments. In large arrays lines without gaps
    come near too, unless they are so long that a processor fetches them ahead, or so short that they lie one behind the other
    anyway. Where results go past the cache, even the shortest rows come near.
    """
    called = plan.map is not None or plan.finish is not None
    if lie.inner is None or lie.abreast or lie.folded or (lie.turned and lie.crossed) or called:
        return 0
    reads, writes = lines_of(plan)
    arrays = list(zip(strides, (*reads, *writes)))
    beside, apart = (plan.axis, lie.inner) if lie.turned else (lie.inner, plan.axis)
    items = plan.n if lie.turned else lie.side_by_side
    line = items * item_size(plan)
    if lie.turned and line >= tuning.STAGED_ROW and items >= tuning.SHORT:
        return 0
    longest = tuning.STAGED_LINE if len(plan.accumulators) == 1 else tuning.STAGED_SEVERAL
    large = plan.n * plan.rows * item_size(plan) >= tuning.STAGED_FROM
    if plan.segmented and plan.exclusive and lie.turned and not (large and items >= tuning.RESTARTED_ROW):
        return 0
    if as_stored(plan) and side_by_side(strides, (*reads, *writes), beside, lie.turned):
        # Rows side by side are taken in the order in which they lie, so that none of them stand one before the other. A line that
        # stands for all of them is near anyway.
        dense = all(
            (array[apart] if lie.turned else abs(array[apart])) in (0, items * d.itemsize)
            for array, d in arrays
        )
        enough = line >= 2 * LINE if not lie.turned else items >= 3 * ROW or past_cache(plan)
        if not (dense and large and enough and line < _longest_staged(plan, lie, line)):
            return 0
    elif items < ROW if lie.turned else plan.reduce or line >= longest:
        return 0
    return max(ROW, lanes_of(plan, False), tuning.STAGED_BYTES // line // ROW * ROW)


def _longest_staged(plan: Plan, lie: Rows, line: int) -> int:
    """The bytes of the shortest lines without gaps that are swept where they lie in large arrays. Longer rows come near too
    where their results go past the cache, and where they would drive each other out of the nearest one.
    """
    many = lanes_of(plan, False) >= ROW
    clash = line % (CLASH if many else 2 * CLASH) == 0
    near = many if clash else past_cache(plan)
    return tuning.STAGED_ROW if lie.turned and near else tuning.STAGED_LINE


def _width_folded(plan: Plan, lie: Rows) -> int:
    """The rows of a strip whose columns are folded: an odd number of squares, as lines that lie a power of two apart fall into a
    few sets of the nearest cache.
    """
    reads, writes = lines_of(plan)
    square = WHOLE // min(d.itemsize for d in (*reads, *writes))
    line = plan.n * lie.folded * sum(d.itemsize for d in (*reads, *writes))
    squares = tuning.FOLDED_STRIP // (line * square)
    return lie.folded * min(lie.side_by_side // lie.folded, square * max(1, squares - 1 | 1))


def _side_by_side(plan: Plan, strides: tuple[Strides, ...]) -> bool:
    """Whether the items of a row that are read lie side by side."""
    return all(array[plan.axis] == d.itemsize for array, d in zip(strides, plan.loads))


def _cheap(plan: Plan) -> bool:
    """Whether the operator is known to take few instructions."""
    return variant_of(plan.op, plan.accumulators) is not None and not costly(plan)


def _tile(n: int, groups: int, wanted: int, chunk: int, largest: int) -> int:
    """Rows are cut into tiles only where there are too few of them to keep all threads at work."""
    if _even(groups, wanted) or n <= chunk:
        return max(n, 1)
    tile = chunk
    while tile * 2 <= largest and tile * 8 * wanted <= n * groups:
        tile *= 2
    return tile


def _even(groups: int, wanted: int) -> bool:
    """Whether `wanted` threads lose less time by sharing whole groups out, with some threads idle at the end, than by tiles,
    which are read twice.
    """
    return -(-groups // wanted) * wanted <= tuning.TWICE * groups


def _batch(tiled: bool, groups: int, wanted: int, size: int) -> int:
    """Groups to a ticket: several short groups, but enough tickets for all threads."""
    return 1 if tiled else max(1, min(tuning.TICKET_BYTES // max(1, size), groups // (4 * wanted)))


def wanted_threads(plan: Plan, strides: tuple[Strides, ...]) -> int:
    """The threads that pay for a plan. One row that is scanned straight through takes one thread less time than others do."""
    most = plan.threads or cores.wanted()
    alone = plan.rows == 1 and not (plan.reduce or plan.segmented) and free(plan.op, plan.accumulators)
    fast = alone and most < tuning.PARALLEL_MANY
    least = tuning.PARALLEL_BYTES * (tuning.PARALLEL_STRAIGHT if fast else 1)
    size = read_size(plan, strides) * plan.n * plan.rows
    pay = tuning.PARALLEL * size // max(1, least) if size >= least else 1
    return max(1, min(most, pay))


def past_cache(plan: Plan) -> bool:
    """Whether results are too large for the cache."""
    return plan.n * plan.rows * item_size(plan) >= tuning.STREAM_BYTES and not plan.reduce


def worth_code(plan: Plan) -> bool:
    """Whether arrays are so large that code of their own is worth compiling."""
    return plan.n * plan.rows * item_size(plan) >= tuning.OWN_CODE_BYTES


def passes_short(plan: Plan) -> bool:
    """Whether the last rows of columns, less than 16, have code of their own. Less than four rows need none. An exclusive scan in
    place would write on items that are yet to be read.
    """
    return plan.n % ROW > 3 and not plan.exclusive and worth_code(plan)


def read_size(plan: Plan, strides: tuple[Strides, ...]) -> int:
    """Bytes of one item as it is swept, or as it is read where a map makes fewer bytes of it. Numbers stay where they are."""
    moved = sum(d.itemsize for d, array in zip(plan.loads, strides) if array[plan.axis])
    return max(item_size(plan), moved + plan.segmented)


def nodes_of(tiles: int) -> int:
    """Nodes of the look-back's tree over `tiles` tiles."""
    return sum((tiles >> level) + 1 for level in range(tiles.bit_length()))
