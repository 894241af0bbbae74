"""Scans along an axis between two others: neighbours in inputs lie along one of these, neighbours in the results along the other.
Tiles of columns are rectangles of both, so that lines come and go whole, and are turned on their way through shared memory."""

from __future__ import annotations

from dataclasses import replace

from upsweep.gpu import bytewise
from upsweep.gpu.columns import Columns
from upsweep.gpu.layout import Lane, Layout
from upsweep.gpu.shapes import Chip, Shape
from upsweep.gpu.shapes.crosswise import CROSSED_LEAST, for_crossed
from upsweep.plan import Plan


def choose(plan: Plan, layout: Layout, chip: Chip) -> tuple[Plan, Columns] | None:
    """Tiles whose columns are a rectangle, and the plan that they are made for; None where arrays lie otherwise, or where these
    do not fit."""
    seen = _crossed(plan, layout)
    if seen is None:
        return None
    made_for, layout = bytewise.crossed(plan, seen)
    *_, rows, columns = layout.dims
    sizes = [x.size for x in (*seen.moving(), *seen.stores)]
    # Bytes one by one would come in pieces of 16, which nobody has timed.
    if made_for is plan and min(sizes) == 1:
        return None
    size = max(sizes)
    for shape in for_crossed(layout.n, columns, rows, size):
        made = Columns(shape, _grouped(layout, shape), columns, crosswise=rows, chip=chip)
        fits = made.threads <= 1024 and shape.blocks * made.shared_bytes(made_for) <= chip.shared
        if fits and min(made.places(made_for)[1]) >= 0:
            return made_for, made
    return None


def _crossed(plan: Plan, layout: Layout) -> Layout | None:
    """The layout with the dimension of the results' neighbours before the innermost, that of the inputs'; None where these are
    not two dimensions beside the axis, or where some array lies otherwise."""
    moving, dims = layout.moving(), range(len(layout.dims))
    if plan.reduce or plan.order != "tree" or plan.ahead is not None or not layout.stores:
        return None

    def nears(x: Lane) -> list[int]:
        return [i for i in dims if x.rows[i] == x.size]

    cross = next(iter(nears(layout.stores[0])), None)
    side = next((i for x in moving for i in nears(x) if i != cross), None)
    if side is None or cross is None:
        return None
    pick = [*(i for i in dims if i not in (cross, side)), cross, side]
    made = layout.with_rows([layout.dims[i] for i in pick], pick)
    lie = all(map(_lies, (*made.moving(), *made.stores))) and all(x.told for x in made.loads if x.still)
    shared = made.heads is None or not any(made.heads.rows[-2:])
    least = min(x.size for x in (*made.moving(), *made.stores)) * min(made.dims[-2:])
    wide = least >= CROSSED_LEAST and made.dims[-2] * made.dims[-1] >= 128
    return made if lie and shared and wide else None


def _lies(x: Lane) -> bool:
    """Whether neighbours of an array lie along one of the two dimensions, and columns apart."""
    near = x.rows[-1] == x.size or (x.rows[-2] == x.size and x.rows[-1] != 0)
    return near and abs(x.along) != x.size and x.grain() >= x.size


def _grouped(layout: Layout, shape: Shape) -> Layout:
    """The layout whose rows before the innermost are groups of as many lines as a rectangle has."""

    def grouped(x: Lane) -> Lane:
        return replace(x, rows=(*x.rows[:-2], x.rows[-2] * shape.cross, x.rows[-1]))

    *rows, lines, columns = layout.dims
    return replace(
        layout,
        dims=(*rows, -(-lines // shape.cross), columns),
        loads=tuple(map(grouped, layout.loads)),
        stores=tuple(map(grouped, layout.stores)),
        starts=tuple(map(grouped, layout.starts)),
        heads=layout.heads and grouped(layout.heads),
    )
