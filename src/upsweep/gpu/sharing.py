"""The layout of a block's shared memory, in bytes: the kernels check these sizes by static_assert."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, zip_longest
from typing import NamedTuple

from upsweep.gpu import functions, params
from upsweep.gpu.demands import costly, turned_piece
from upsweep.gpu.layout import Lane, Layout, mode, patched, turned
from upsweep.gpu.lines import scanned
from upsweep.gpu.shapes import Shape
from upsweep.gpu.shapes.tiles import WIDER
from upsweep.plan import Plan


def rounded_up(n: int, step: int) -> int:
    return -(-n // step) * step


def item_of(plan: Plan) -> tuple[int, int]:
    """Size and alignment of Tuple<...>, a head and a nested tail."""
    size, align = 0, 1
    for d in reversed(plan.accumulators):
        align_of_tail, align = align, max(align, d.itemsize)
        size = rounded_up(rounded_up(d.itemsize, align_of_tail) + size if size else d.itemsize, align)
    return size, align


def element_of(plan: Plan) -> tuple[int, int]:
    size, align = item_of(plan)
    if plan.segmented:
        align = max(align, 4)
        size = rounded_up(rounded_up(size, 4) + 4, align)
    return size, align


def node_words(plan: Plan) -> int:
    return rounded_up(item_of(plan)[0], 4) // 4


class Room(NamedTuple):
    """The places in shared memory where lanes that hold a row together keep its items, in bytes; -1 for arrays elsewhere."""

    inputs: list[int]
    sums: list[int]
    """The place of each component's block sums; without a place they are computed again."""
    outputs: list[int]
    heads: int
    area: int
    own: int
    """The bytes of a place for results alone, which a warp uses for all its tiles."""


def room_of(
    plan: Plan,
    layout: Layout,
    items: int,
    apart: bool = False,
    tight: bool = False,
    bits: bool = False,
    keeps: bool = False,
) -> Room:
    """`items` of a slab; `apart`: results have a place of their own; `tight`: the lanes are a warp, and their places follow
    each other without a gap where no array is shifted; `bits`: segments are read as bits; `keeps`: the sums of narrower items
    have room in their places.
    """
    sizes = _places(plan, layout, apart, keeps)
    stores = layout.stores[: len(layout.stores) - plan.sums]
    moved = zip_longest(layout.moving(), () if apart else stores)
    gaps = [_gap(items, tight, *pair) for pair in moved]
    *places, heads = _begins(sizes, gaps, items)
    free, moving = iter(places), list(zip(places, sizes))
    inputs = [-1 if x.still else next(free) for x in layout.loads]
    sums = []
    for d in plan.accumulators:
        fitting = next((place for place in moving if place[1] >= d.itemsize), None)
        if fitting is not None:
            moving.remove(fitting)
        sums.append(-1 if fitting is None or functions.reads_again(plan) else fitting[0])
    area = heads + (rounded_up(items // 8 if bits else items, 16) + 16) * plan.segmented
    written = [_gap(items, tight, x) for x in stores]
    *results, own = _begins(_written(plan), written, items) if apart else (*places, 0)
    results = [*results[: len(_written(plan))], *[-1] * plan.sums]
    return Room(inputs, sums, results, heads, area, own)


def _begins(sizes: Iterable[int], gaps: Iterable[int], items: int) -> list[int]:
    """The start of each of these arrays, and the end of the last."""
    return list(accumulate([rounded_up(items * size, 16) + gap for size, gap in zip(sizes, gaps)], initial=0))


def _gap(items: int, tight: bool, *moved: Lane | None) -> int:
    """Bytes behind a place: one more piece, where an array is shifted there. Without it the places of a warp begin at
    multiples of 128 bytes, and lanes that read their runs meet each bank once; with it eight components take 1.6 times the
    cycles of shared memory. Of a copy (H200), with it -> without: four of f4 .83 -> .88, of f8 .73 -> .77, six of f4 .75 -> .80,
    of f8 .70 -> .76, eight of f4 .55 -> .59, of f8 .46 -> .49. Three of f8 spill more without it: .61 -> .55.
    """
    whole = all(x is None or mode(x, items) != "SHIFTED" for x in moved)
    return 0 if tight and whole else 16


def places_of(plan: Plan, layout: Layout) -> list[int]:
    """Bytes of an item in each place of shared memory, where an array that is read makes way for one that is written."""
    return [max(pair) for pair in zip_longest(_read(layout), _written(plan), fillvalue=0)]


def results_apart(plan: Plan, layout: Layout) -> bool:
    """Whether results have a place of their own, because they are much wider than the inputs: tiles that wait for the results
    would be short of items.
    """
    return not plan.reduce and sum(_written(plan)) >= WIDER * max(1, sum(_read(layout)))


def staged(plan: Plan, layout: Layout) -> int:
    """Bytes of an item in the shared memory of a tile."""
    return sum(_places(plan, layout, results_apart(plan, layout), keeps(plan))) + plan.segmented


def keeps(plan: Plan) -> bool:
    """Whether the items of a tile have places as wide as their sums, so that a costly operator does not sweep them up twice."""
    return costly(plan) and not (plan.reduce or functions.reads_again(plan))


def _places(plan: Plan, layout: Layout, apart: bool, keeps: bool) -> list[int]:
    sizes = _read(layout) if apart else places_of(plan, layout)
    sums = [d.itemsize for d in plan.accumulators] if keeps else []
    return [max(pair) for pair in zip_longest(sizes, sums, fillvalue=0)]


def _read(layout: Layout) -> list[int]:
    return [x.size for x in layout.moving()]


def _written(plan: Plan) -> list[int]:
    stored = params.stored(plan)
    return [d.itemsize for d in stored[: len(stored) - plan.sums]]


def patches(layout: Layout, shape: Shape) -> list[int]:
    """The places where a warp of columns keeps the lines of each array that is read, or the list that all columns share, and
    after them the heads."""
    end, places = 0, []
    for x in layout.loads:
        places.append(-1 if x.still else end)
        end += 0 if x.still else _patch_read(layout, shape, x) if patched(x) else _list(shape, x.size)
    # Results that are turned take the places of all inputs.
    end = max([end, *(_patch_read(layout, shape, y) for y in layout.stores if is_skewed(layout, shape, y))])
    # What each lane keeps of the lanes before it: a line, in an odd number of words.
    kept = 128 * shape.strips * (layout.dims[-1] | 1) if shape.flat else 0
    return [*places, end + kept]


def is_skewed(layout: Layout, shape: Shape, x: Lane) -> bool:
    """Whether narrow items that touch along the axis come or go in words that lines share."""
    return not shape.cross and turned(x) and turned_piece(layout, x, shape.items) < 4


def _patch_read(layout: Layout, shape: Shape, x: Lane) -> int:
    """A patch with a word more for each column whose items begin within words."""
    return patch(shape, x) + 128 * shape.vector * is_skewed(layout, shape, x)


def _list(shape: Shape, size: int) -> int:
    """Bytes of a warp's items of `size` that all columns share."""
    return rounded_up(_runs(shape) * shape.items * size, 16)


def heads_of_lines(shape: Shape, heads: Lane, bits: bool) -> int:
    """Bytes of the heads of a warp's items: of all columns; or of a list that they share, as bits, or in words of which the first
    may begin before it.
    """
    if heads.rows[-1]:
        return patch(shape, heads)
    if bits:
        return rounded_up(_runs(shape) * shape.items // 8, 16)
    return rounded_up(_runs(shape) * shape.items + 6, 16) if abs(heads.along) == 1 else 0


def _runs(shape: Shape) -> int:
    """Runs of a warp, one below another."""
    return 32 // shape.lanes * shape.strips


def results_of_lines(plan: Plan, layout: Layout, shape: Shape) -> list[int]:
    """The places of a warp's results where these have places of their own, and the end of the last."""
    sizes = [patch(shape, x) for x in layout.stores] if shape.apart and not plan.reduce else []
    return list(accumulate(sizes, initial=0))


def places_of_lines(plan: Plan, layout: Layout, shape: Shape) -> list[int]:
    """The places among these where the results of columns wait for a whole line, each in that of items as wide; -1 where they
    do not wait: a warp's columns that are side by side in lanes are a line, and lines that would go in pieces of less than four
    bytes are sooner stored item by item (333 columns of bf16 in .81 of the time, of bytes in .66, H200).
    """
    if shape.apart and not plan.reduce:
        return results_of_lines(plan, layout, shape)[:-1]
    kept = [
        x
        for x in zip(layout.loads, patches(layout, shape))
        if patched(x[0]) and (shape.cross or not turned(x[0]))
    ]
    if shape.cross:
        kept = [(x, at) for x, at in kept if x.rows[-1] == x.size]
    free = [((x.size, x.begins() if shape.loose else ()), at) for x, at in kept]
    places = []
    for o, (x, d) in enumerate(zip(layout.stores, params.stored(plan))):
        pieces = shape.vector > 1 and x.grain_of_lines(32 * shape.vector, layout.dims[-1]) >= 4
        waiting = (shape.loose or shape.cross or pieces) and o < len(scanned(plan, layout))
        kind = (d.itemsize, x.begins() if shape.loose else ())
        found = next((place for place in free if waiting and place[0] == kind), None)
        if found is not None:
            free.remove(found)
        places.append(-1 if found is None else found[1])
    return places


def patch(shape: Shape, x: Lane) -> int:
    """Bytes of a warp's items: one more line for each of several runs."""
    runs, line = _runs(shape), abs(pitch(shape, x))
    if shape.cross and shape.stretch:
        stretch = runs * (shape.items * line + 16 * (runs > 1))
        return shape.stretch * x.size // line * (stretch + (max(line, 16 * runs) - stretch) % 128 // 16 * 16)
    if shape.loose:
        most, gap = (
            (line, _pad(shape, x.size, line)) if shape.stretch else (shape.lanes * shape.vector * x.size, 0)
        )
        last = runs * (shape.items * line + gap) - gap - line + most
        return (last + 30) // 16 * 16
    return (
        32 * shape.vector * shape.items * shape.strips + (runs if shape.lanes < 32 else 0) * shape.lanes
    ) * x.size


def pitch(shape: Shape, x: Lane) -> int:
    """Bytes from line to line in shared memory, where these begin anywhere, with the remainder by 16 of those in memory; below
    0 where they lie backwards, 0 where all begin evenly."""
    if shape.cross and shape.stretch:
        return x.along
    if not shape.loose:
        return 0
    room = shape.lanes * shape.vector * x.size + 16
    line = abs(x.along) if shape.stretch else room + (abs(x.along) - room) % 16
    return line if x.along > 0 else -line


def begin(shape: Shape, x: Lane) -> int:
    """The remainder by 16 of the lowest address of a warp's lines, -1 where it differs from warp to warp."""
    lines, width = _runs(shape) * shape.items, shape.lanes * shape.vector * x.size
    steps = (lines * x.along, *x.rows[:-1], 0 if shape.stretch else width)
    if not shape.loose or any(step % 16 for step in steps):
        return -1
    return (x.phase + x.offset + (lines - 1) * min(0, x.along)) % 16


def _pad(shape: Shape, size: int, line: int) -> int:
    """Bytes between runs of whole lines, so that lanes meet each bank once."""
    if shape.lanes == 32 or shape.flat:
        return 0
    return (max(16, shape.lanes * size) - shape.items * line) % 128 // 16 * 16
