"""How the lines of columns lie: whether a kernel of columns takes them, and how they come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from upsweep.gpu import functions
from upsweep.gpu.demands import words
from upsweep.gpu.layout import GAP, Lane, Layout, patched, turned
from upsweep.gpu.shapes import LINE
from upsweep.gpu.shapes.columns import MANY, NARROW, STRETCHED, WIDE_STRETCHED
from upsweep.plan import Plan


def scanned(plan: Plan, layout: Layout) -> Sequence[Lane]:
    """The results that are as long as the rows: none of a reduction, and no sums of runs."""
    return () if plan.reduce else layout.stores[: len(layout.stores) - plan.sums]


def are_loose(plan: Plan, layout: Layout) -> bool:
    """Whether lines may come and go in pieces of 16 bytes, wherever they begin: items are whole."""
    loads = [x for x in layout.loads if patched(x)]
    arrays = (*loads, *scanned(plan, layout))
    near = all(
        x.rows[-1] == x.size and (layout.bytes or replace(x, rows=x.rows[:-1]).grain() >= x.size)
        for x in arrays
    )
    if loads and lie_apart(plan, layout, False) and not _may_lie_apart(layout, arrays):
        return False
    small = max((x.size for x in loads), default=4) < 4
    narrow = small and functions.reads_again(plan) and (not plan.segmented or are_uneven(layout))
    return near and bool(arrays) and (narrow or words(plan, layout) <= MANY)


def _may_lie_apart(layout: Layout, arrays: Sequence[Lane]) -> bool:
    """Whether results that lie otherwise than the inputs pay for places of their own: all items are of one size, and lines are
    long, or items smaller than cp.async copies by themselves. Of a copy (H200), by items -> so: x[:, 1:] of 101 f4 .690 ->
    .675, of 8 .721 -> .715, x[:, :-1] of 5 .677 -> .617; of 101 bf16 .24 -> .63, bytes .11 -> .57, of 8 .17 -> .62 and .10 ->
    .51. Or bytes lie apart in short lines.
    """
    if any(x.woven for x in arrays):
        return layout.dims[-1] <= STRETCHED
    sizes = {x.size for x in arrays}
    return len(sizes) == 1 and (layout.bytes > 0 or max(sizes) < 4 or layout.dims[-1] > STRETCHED)


def lie_apart(plan: Plan, layout: Layout, stretch: bool) -> bool:
    """Whether results of lines that go in pieces cannot take the places of inputs, as no input lies as a result lies. In a
    `stretch` of lines the bytes from line to line count, too."""

    def lies(x: Lane) -> tuple[int, int, tuple[int, ...]]:
        return x.size, abs(x.along) if stretch else 0, x.begins()

    free = [lies(x) for x in layout.loads if patched(x)]
    for place in map(lies, scanned(plan, layout)):
        if place not in free:
            return True
        free.remove(place)
    return False


def are_stretch(plan: Plan, layout: Layout, columns: int, most: int) -> bool:
    """Whether the lines of `most` columns or fewer lie one behind another, in all arrays, or those that are read a little apart,
    and lines moved one by one would be cut into small pieces, or into two groups of columns."""
    arrays = [x for x in layout.loads if patched(x)] or scanned(plan, layout)
    gaps = [_gap(layout, x) for x in arrays]
    most_gap = GAP if _may_lie_apart(layout, (*arrays, *scanned(plan, layout))) else 0
    dense = (
        all(0 <= gap <= most_gap for gap in gaps)
        and all(_gap(layout, x) == 0 for x in scanned(plan, layout))
        and (layout.heads is None or layout.heads.rows[-1] == 0 or abs(layout.heads.along) == columns)
    )
    pieces = (
        columns > 32
        or columns & (columns - 1) > 0
        or layout.bytes
        or min(x.size for x in arrays) < 4
        or any(gaps)
    )
    return (
        dense
        and bool(pieces)
        and (1 if layout.bytes or any(gaps) else 2) < columns <= most
        and layout.n * columns >= NARROW
        and not _are_full(layout, columns, min(x.size for x in arrays))
    )


def _are_full(layout: Layout, columns: int, size: int) -> bool:
    """Whether lines are whole pieces of 128 bytes that begin at sectors, and no lane of theirs is idle. As one stretch 64 columns
    of f8 had tiles of 64 items in two stages, and 128 of recurrences of f4 two working warps a multiprocessor; line by line they
    have the shapes of 256 columns.
    """
    whole = columns % 32 == 0 and columns * size % 128 == 0
    return whole and not (layout.bytes or are_uneven(layout))


def _gap(layout: Layout, x: Lane) -> int:
    """Bytes between one line of all columns and the next."""
    return abs(x.along) - layout.line(x)


def go_by_lines(layout: Layout, columns: int) -> bool:
    """Whether the lines of wide items are moved one by one, though they lie one behind another."""
    return columns > WIDE_STRETCHED or (columns > 16 and not are_uneven(layout))


def are_uneven(layout: Layout) -> bool:
    """Whether lines begin within sectors of 32 bytes."""
    return any(place % 32 for x in _lines(layout) for place in (x.phase + x.offset, x.along, *x.rows[:-1]))


def grain_of(layout: Layout, width: int, columns: int) -> int:
    """The largest power of two up to 16 that divides every address of lines of so many columns; 0 where there are fewer."""
    if columns < width or any(map(turned, (*layout.moving(), *layout.stores))):
        return 0
    return min(x.grain_of_lines(width, columns) for x in _lines(layout))


def _lines(layout: Layout) -> list[Lane]:
    return [x for x in layout.arrays() if patched(x)]


def fit(plan: Plan, layout: Layout) -> bool:
    """Whether the innermost rows are neighbours in memory, in every array: a line of rows, or a long axis without gaps. Rows may
    also share the items of an input. In some arrays the items of a row may be the neighbours, as in a transposed array. Results
    of a reduction are few, and may lie anywhere, but where lines begin within sectors: their rows may be more columns beside
    each other once the results lie likewise.
    """
    columns, arrays = layout.dims[-1], (*layout.loads, *layout.stores)
    stores = layout.stores if are_uneven(layout) and _may_join(layout) else scanned(plan, layout)
    across = all(x.rows[-1] == x.size or turned(x) for x in stores) and all(
        x.still or x.rows[-1] in (0, x.size) or turned(x) for x in layout.loads
    )
    heads = layout.heads is None or layout.heads.rows[-1] in (0, 1)
    if not across or not heads:
        return False
    if any(map(turned, arrays)):
        return _turns(layout)
    line = columns * min(x.size for x in layout.stores) >= LINE
    dense = all(0 <= _gap(layout, x) <= GAP for x in layout.moving() if patched(x))
    return line or (dense and layout.n * columns >= NARROW)


def _may_join(layout: Layout) -> bool:
    """Whether rows would be more neighbours if results lay as inputs do: no items along the axis lie between them. Of a copy
    (H200), by single items of 3 x 647071 x 24 c8 in Fortran's order -> as columns .359 -> .693, results brought of 24 x 24 x 2465
    x 15 bf16 -> not .452 -> .499."""
    moving = layout.moving()
    return all(len(x.rows) == 1 or abs(x.along) > abs(x.rows[0]) for x in moving)


def _turns(layout: Layout) -> bool:
    """Whether squares of items can be turned on their way through shared memory."""
    room = sum(x.size for x in layout.loads if patched(x)) >= max(x.size for x in layout.stores)
    even = all(x.grain() >= x.size for x in (*layout.moving(), *layout.stores) if turned(x))
    return room and even and layout.dims[-1] >= 32 and layout.n >= 32
