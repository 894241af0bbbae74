"""How rows are cut: strips of rows side by side, tiles along rows, chunks of a tile; and how many tickets there are."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from upsweep import cores
from upsweep.cpu import tuning
from upsweep.cpu.words import LINE, PANELS, ROW
from upsweep.operators import extreme, free, variant_of
from upsweep.plan import Plan

Strides = tuple[int, ...]


class Rows(NamedTuple):
    """How the rows lie. The rows of the dimension `inner` are scanned side by side, `side_by_side` of them; None where rows are
    scanned one by one. `abreast`: they are few columns, of which several blocks are swept at once. `turned`: the items of such a
    row, not its neighbours, lie side by side. `near`: rows that are scanned one by one have items in the same cache lines.
    `crossed`: results lie the other way. Dimensions that lie as one count as one, the innermost of them.
    """

    inner: int | None
    side_by_side: int
    abreast: bool
    turned: bool
    crossed: bool
    near: int
    outer: tuple[int, ...]
    sizes: tuple[int, ...]


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
    """Rows that come near in one go, lines of columns or all rows of a strip; 0 where they do not."""
    width: int
    """Rows of a strip."""
    strips: int
    groups: int
    """Strips over all outer dimensions."""
    chunk: int
    """Items."""
    tile: int
    tiles: int
    batch: int
    """Groups to a ticket."""
    threads: int


def cut(plan: Plan, strides: tuple[Strides, ...], rows: tuning.Tuning, columns: tuning.Tuning) -> Cut:
    """How a plan is cut on arrays of these strides."""
    any_order = free(plan.op, plan.accumulators)
    straight, in_order = any_order and not plan.segmented, plan.order == "sequential" and not any_order
    lie = rows_of(plan, strides)
    # A map or a finish of rows side by side works on panels.
    plain = plan.map is plan.finish is None
    line_by_line = straight and plain and lie.turned and not lie.crossed
    along = lie.inner is None or (line_by_line and plan.n >= shortest_straight(plan))
    tuned = rows if along else columns
    item, read = item_size(plan), read_size(plan, strides)
    side_by_side = lie.side_by_side
    fewer = (max(item, 4) - 1).bit_length() - 2
    columns_apart = lie.inner is not None and not lie.turned
    widest = tuned.width if columns_apart else tuning.ROWS_TURNED
    width = tuning.STRIP_IN_ORDER if in_order else 1 if lie.inner is None else max(32, widest >> fewer)
    staged = 0 if along or in_order else lines_staged(plan, strides, lie)
    if staged and lie.turned:
        width = staged
    wanted = wanted_threads(plan, strides)
    while (
        columns_apart
        and width * item > tuning.NARROW_BYTES
        and not _even(-(-side_by_side // width) * prod(lie.sizes), wanted)
    ):
        width //= 2
    strips = -(-side_by_side // width)
    groups = strips * prod(lie.sizes)
    far = read * plan.n * plan.rows >= tuning.FAR_BYTES and not plan.reduce and _even(groups, wanted)
    brought = not (_as_stored(plan) and _side_by_side(plan, strides))
    longest = min(tuned.chunk, tuning.FAR_CHUNK) if far or (plan.reduce and brought) else tuned.chunk
    chunk = max(ROW, longest >> fewer) if along else ROW * ROW if lie.abreast else ROW
    if lie.near > 1:
        while chunk > ROW and chunk * lie.near * read > tuning.NEAR_BYTES:
            chunk //= 2
        tile, batch = chunk, lie.near
    else:
        largest = max(chunk, tuned.tile // (read * min(side_by_side, width)))
        tile = plan.n if in_order else _tile(plan.n, groups, wanted, chunk, largest)
        batch = _batch(tile < plan.n, groups, wanted, read * plan.n * min(side_by_side, width))
    tiled = along and tile < plan.n and lie.near == 1
    pays = far and lie.near == 1 and len(plan.accumulators) + plan.segmented > 1 and _cheap(plan)
    again = along and not (straight or plan.reduce) and (tiled or pays)
    if again and tiled:
        # Between the two sweeps of a tile, scratch memory keeps the sums of its runs, and the items that cannot be swept where
        # they lie.
        chunk = tile = min(tile, ROW**PANELS)
    elif again:
        chunk = max(ROW, min(tuning.AGAIN * tuned.chunk >> fewer, ROW**PANELS))
    tiles = max(1, -(-plan.n // tile))
    staged = staged if (tiles if lie.turned else strips) == 1 else 0
    threads = max(1, min(wanted, -(-groups // batch) * tiles))
    return Cut(
        lie,
        along,
        straight and along,
        again,
        _takes_extremes(plan, strides, lie, along),
        in_order,
        staged,
        width,
        strips,
        groups,
        chunk,
        tile,
        tiles,
        batch,
        threads,
    )


def shortest_straight(plan: Plan) -> int:
    """The items of a short row from which on it may be scanned straight through: of pairs a line of values."""
    line = LINE // plan.accumulators[0].itemsize if len(plan.accumulators) > 1 else 0
    return max(tuning.SHORT_STRAIGHT, line)


def _takes_extremes(plan: Plan, strides: tuple[Strides, ...], lie: Rows, along: bool) -> bool:
    """Whether a reduction gives one of the floats of each row, the same in every order, and finds them side by side."""
    if not (plan.reduce and extreme(plan.op, plan.accumulators) and plan.order == "tree"):
        return False
    lines = lie.turned and _side_by_side(plan, strides) and plan.n >= tuning.SHORT_STRAIGHT
    return plan.map is None and not plan.segmented and (along or (lines and _as_stored(plan)))


def walks(plan: Plan, strides: tuple[Strides, ...]) -> bool:
    """Whether a scan goes item by item, as scans in order of columns and of few rows do. Where every order gives the same bits,
    it goes the faster way: columns item by item, if their results stay in the cache and there are enough columns for all
    threads.
    """
    lie = rows_of(plan, strides)
    if not free(plan.op, plan.accumulators):
        return plan.order == "sequential" and not lie.turned
    threads = wanted_threads(plan, strides)
    enough = threads == 1 or lie.side_by_side * prod(lie.sizes) >= 2 * LINE * threads
    columns = (lie.inner is not None and not lie.abreast) or lie.near * item_size(plan) >= tuning.WALKED_BYTES
    return columns and not lie.turned and enough and not past_cache(plan)


@lru_cache(4096)
def rows_of(plan: Plan, strides: tuple[Strides, ...]) -> Rows:
    """Rows are scanned one by one where the axis runs along memory. Otherwise they are scanned side by side along the dimension
    that runs along memory, unless this dimension is shorter than a cache line. Short rows are scanned side by side too, and so
    are all rows of a scan in order and rows whose results lie the other way.
    """
    reads = strides[: len(plan.loads)]
    # Inputs whose rows are all the same do not tell which rows are neighbours.
    steps = [
        max(abs(array[d]) for array in reads) or max(abs(array[d]) for array in strides)
        for d in range(len(plan.shape))
    ]
    outer: list[int] = []
    sizes: list[int] = []
    others = [d for d in range(len(plan.shape)) if d != plan.axis and plan.shape[d] > 1]
    for d in sorted(others, key=lambda d: -steps[d]):
        if outer and all(a[outer[-1]] == a[d] * plan.shape[d] for a in strides):
            outer[-1], sizes[-1] = d, sizes[-1] * plan.shape[d]
        else:
            outer.append(d)
            sizes.append(plan.shape[d])
    inner, side_by_side, abreast, turned, crossed, near = None, 1, False, False, False, 1
    if outer and plan.n > 1:
        last, rows = outer[-1], sizes[-1]
        writes = strides[len(plan.loads) + plan.segmented :][: sum(d is not None for d in plan.stores)]
        crossed = rows >= LINE and not plan.reduce and any(abs(a[last]) < abs(a[plan.axis]) for a in writes)
        if steps[last] >= steps[plan.axis]:
            short = plan.n < tuning.SHORT or plan.order == "sequential"
            turned = (short and rows >= 8) or crossed
        elif rows * max(d.itemsize for d in plan.accumulators) <= LINE:
            abreast = goes_abreast(plan, strides, last, rows)
            near = rows if rows * steps[last] < LINE and not abreast else 1
        if turned or (near == 1 and steps[last] < steps[plan.axis]):
            inner, side_by_side = outer.pop(), sizes.pop()
    return Rows(inner, side_by_side, abreast, turned, crossed, near, tuple(outer), tuple(sizes))


def goes_abreast(plan: Plan, strides: tuple[Strides, ...], across: int, columns: int) -> bool:
    """Whether few columns, side by side along a dimension `across`, are swept together: lines are read forward, results have no
    gaps, and neither have items that must be converted.
    """
    in_tree = plan.order == "tree" or free(plan.op, plan.accumulators)
    if not in_tree or not _plain(plan):
        return False
    reads, writes = _lines_of(plan)
    size = max(d.itemsize for d in plan.accumulators)
    pays = columns > 2 or columns * size >= tuning.PAIR_BYTES or plan.reduce
    filled = columns / lanes_of(plan, False) >= tuning.COSTLY_FILLED or not _costly(plan)
    near = all(array[across] == d.itemsize for array, d in zip(strides, (*reads, *writes)))
    onward = all(array[plan.axis] > 0 for array in strides[: len(reads)])
    lines = [array[plan.axis] == columns * d.itemsize for array, d in zip(strides, (*reads, *writes))]
    dense = all(lines[len(reads) if _as_stored(plan) else 0 :])
    return pays and filled and near and onward and dense


def lines_staged(plan: Plan, strides: tuple[Strides, ...], lie: Rows) -> int:
    """The rows of a strip, or the lines of columns, that come near in one go, as they cannot be swept where they lie: their
    items are converted, reversed, apart or all the same. So do lines of large arrays without gaps, which are neither so long that
    a processor fetches them ahead nor so short that they lie one behind the other anyway.
    """
    if lie.inner is None or lie.abreast or (lie.turned and lie.crossed) or not _plain(plan):
        return 0
    reads, writes = _lines_of(plan)
    arrays = list(zip(strides, (*reads, *writes)))
    beside, apart = (plan.axis, lie.inner) if lie.turned else (lie.inner, plan.axis)
    items = plan.n if lie.turned else lie.side_by_side
    line = items * item_size(plan)
    if line >= tuning.STAGED_LINE and (not lie.turned or items >= tuning.SHORT):
        return 0
    if _as_stored(plan) and all(array[beside] == d.itemsize for array, d in arrays):
        dense = all(array[apart] == items * d.itemsize for array, d in arrays)
        large = plan.n * plan.rows * item_size(plan) >= tuning.STAGED_FROM
        longest = line < tuning.STAGED_LINE and (items >= 3 * ROW if lie.turned else line >= 2 * LINE)
        if not (dense and large and longest):
            return 0
    elif items < ROW or (plan.reduce and not lie.turned):
        return 0
    return max(ROW, lanes_of(plan, False), tuning.STAGED_BYTES // line // ROW * ROW)


def _side_by_side(plan: Plan, strides: tuple[Strides, ...]) -> bool:
    """Whether the items of a row that are read lie side by side."""
    return all(array[plan.axis] == d.itemsize for array, d in zip(strides, plan.loads))


def _cheap(plan: Plan) -> bool:
    """Whether the operator is known to take few instructions."""
    return variant_of(plan.op, plan.accumulators) is not None and not _costly(plan)


def _costly(plan: Plan) -> bool:
    """Whether the operator is known to take many instructions."""
    known = variant_of(plan.op, plan.accumulators)
    return known is not None and known[0].costly


def _as_stored(plan: Plan) -> bool:
    """Whether nothing lies between arrays and operator."""
    return plan.loads == plan.accumulators and {*plan.stores} <= {*plan.loads, None} and _plain(plan)


def _plain(plan: Plan) -> bool:
    """Whether no more than a conversion lies between arrays and operator."""
    return plan.map is plan.finish is None and not (plan.segmented and plan.exclusive)


def _lines_of(plan: Plan) -> tuple[list[np.dtype], list[np.dtype]]:
    """The dtypes of the arrays that are read and of those that are written line by line."""
    writes = [] if plan.reduce else [d for d in plan.stores if d is not None]
    return [*plan.loads, *[np.dtype(np.uint8)] * plan.segmented], writes


def _tile(n: int, groups: int, wanted: int, chunk: int, largest: int) -> int:
    """Rows are cut into tiles only where there are too few of them to keep all threads at work."""
    if _even(groups, wanted) or n <= chunk:
        return max(n, 1)
    tile = chunk
    while tile * 2 <= largest and tile * 8 * wanted <= n * groups:
        tile *= 2
    return tile


def _even(groups: int, wanted: int) -> bool:
    """Whether `wanted` threads that share whole groups out lose less time idle than with tiles, which are read twice."""
    return -(-groups // wanted) * wanted <= tuning.TWICE * groups


def _batch(tiled: bool, groups: int, wanted: int, size: int) -> int:
    """Groups to a ticket: several short groups, but enough tickets for all threads."""
    return 1 if tiled else max(1, min(tuning.TICKET_BYTES // max(1, size), groups // (4 * wanted)))


def wanted_threads(plan: Plan, strides: tuple[Strides, ...]) -> int:
    """The threads that pay for a plan."""
    pay = 2 * read_size(plan, strides) * plan.n * plan.rows // max(1, tuning.PARALLEL_BYTES)
    return max(1, min(plan.threads or cores.wanted(), pay))


def past_cache(plan: Plan) -> bool:
    """Whether results are too large for the cache."""
    return plan.n * plan.rows * item_size(plan) >= tuning.STREAM_BYTES and not plan.reduce


def lanes_of(plan: Plan, along: bool) -> int:
    """Runs that are swept at once, or columns: at least four, as of complex128 two cost 1.3 times as much."""
    widest = max(d.itemsize for d in plan.accumulators)
    return max(4, (tuning.LANES if along and not _costly(plan) else tuning.COSTLY_LANES) // widest)


def item_size(plan: Plan) -> int:
    """Bytes of one item of block sums, over all components and the flag."""
    return sum(d.itemsize for d in plan.accumulators) + plan.segmented


def read_size(plan: Plan, strides: tuple[Strides, ...]) -> int:
    """Bytes of one item as it is swept, or as it is read where a map makes fewer bytes of it. Numbers stay where they are."""
    moved = sum(d.itemsize for d, array in zip(plan.loads, strides) if array[plan.axis])
    return max(item_size(plan), moved + plan.segmented)


def nodes_of(tiles: int) -> int:
    """Nodes of the look-back's tree over `tiles` tiles."""
    return sum((tiles >> level) + 1 for level in range(tiles.bit_length()))
