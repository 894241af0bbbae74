"""Scans along an axis between two others: neighbours in inputs lie along one of these, neighbours in the results along the other.
Tiles of columns are rectangles of both, so that lines come and go whole, and are turned on their way through shared memory.
Blocks walk many rectangles down the axis, and take tickets for the tiles of few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from upsweep.gpu import bytewise, params
from upsweep.gpu.choice import Abreast, Choice
from upsweep.gpu.columns import Columns
from upsweep.gpu.demands import words
from upsweep.gpu.layout import Lane, Layout
from upsweep.gpu.shapes import Chip, Shape, power_of_two
from upsweep.gpu.shapes.bringing import LEAST
from upsweep.gpu.shapes.crosswise import (
    CROSSED,
    CROSSED_LEAST,
    for_beside,
    for_crossed,
    for_stretches,
    for_walked,
)
from upsweep.gpu.sharing import item_of
from upsweep.gpu.text import declared
from upsweep.plan import Plan


class Walked(Abreast):
    """A block walks a rectangle of columns down the axis. Inputs lie along its one side, results along the other."""

    kernel = "crosswise"

    @property
    def size(self) -> int:
        """Bytes of an item of the inputs."""
        return self.layout.moving()[0].size

    @property
    def tile(self) -> int:
        return self.shape.items

    @property
    def width(self) -> int:
        return 16 * self.threads // (self.size * self.shape.cross)

    @property
    def column_groups(self) -> int:
        return -(-self.columns // self.width)

    def grid(self, resident: Callable[[], int]) -> int:
        return self.rows * self.column_groups

    def shared_bytes(self, plan: Plan) -> int:
        """Of the stages, and of a counter of block sums for each column, two items a level."""
        levels = self.tiles.bit_length() if plan.order == "tree" else 0
        counter = 2 * levels * item_of(plan)[0] * self.width * self.shape.cross
        return self.shape.stages * self._stage() + counter

    def _stage(self) -> int:
        return len(self.layout.moving()) * self.shape.items * 16 * self.threads

    def spec(self, plan: Plan) -> str:
        layout, shape = self.layout, self.shape
        numbers = {
            "DIMS": len(layout.dims) - 1, "ITEMS": shape.items, "THREADS": self.threads, "BLOCKS": shape.blocks,
            "CROSS": shape.cross, "SIDE": self.width, "HIGH": shape.strips, "VECTOR": shape.vector,
            "STAGES": shape.stages, "STAGE_BYTES": self._stage(),
        }  # fmt: skip
        inputs, place = [], 0
        for x in layout.loads:
            inputs.append({"at": place, "grain": self._grain_read(x)})
            place += 0 if x.still else shape.items * 16 * self.threads
        split = params.stored(plan)[0].itemsize // layout.stores[0].size
        outputs = [{"split": split, "grain": self._grain_written(plan, x, split)} for x in layout.stores]
        truths = {"SEQUENTIAL": plan.order == "sequential"}
        return declared(plan, layout, numbers, truths, inputs, outputs)

    def _grain_read(self, x: Lane) -> int:
        if x.still:
            return x.grain(x.size)
        *rows, lines, _ = x.rows
        return replace(x, rows=(*rows, lines // self.shape.cross)).grain(
            self.width * x.size, self.columns * x.size
        )

    def _grain_written(self, plan: Plan, x: Lane, split: int) -> int:
        *rows, lines, column = x.rows
        if plan.reduce:
            return replace(x, rows=(*rows, lines // self.shape.cross, column)).grain(x.size)
        return replace(x, rows=(*rows, column // split)).grain(
            self.shape.strips * x.size, self.crosswise * x.size
        )


def choose(plan: Plan, layout: Layout, chip: Chip) -> tuple[Plan, Choice] | None:
    """Tiles whose columns are a rectangle, and the plan that they are made for; None where arrays lie otherwise, or where these
    do not fit. Reductions need inputs that lie along one side of it, and no more."""
    if plan.reduce:
        made_for, joined = bytewise.crossed(plan, layout)
        reduced = _walked(made_for, joined, chip) if len(layout.dims) > 1 else None
        return reduced and (made_for, reduced)
    if plan.order == "tree" and (beside := _beside(plan, layout, chip)) is not None:
        return plan, beside
    seen = _crossed(plan, layout)
    if seen is None:
        return None
    if plan.order == "tree" and (stretches := _in_stretches(plan, seen, chip)) is not None:
        return plan, stretches
    if not _are_wide(seen):
        return None
    made_for, layout = bytewise.crossed(plan, seen)
    walked = _walked(made_for, layout, chip)
    if walked is not None:
        return made_for, walked
    *_, rows, columns = layout.dims
    sizes = [x.size for x in (*seen.moving(), *seen.stores)]
    # Bytes one by one would come in pieces of 16, which nobody has timed.
    if plan.order != "tree" or (made_for is plan and min(sizes) == 1):
        return None
    size = max(sizes)
    for shape in for_crossed(layout.n, columns, rows, size):
        made = Columns(shape, _grouped(layout, shape), columns, crosswise=rows, chip=chip)
        if made.threads <= 1024 and made.fits(made_for) and min(made.places(made_for)[1]) >= 0:
            return made_for, made
    return None


def _in_stretches(plan: Plan, layout: Layout, chip: Chip) -> Columns | None:
    """Tiles of all columns of few, whose neighbours and the next ones along the axis lie together in memory, in all arrays."""
    *_, lines, columns = layout.dims

    def together(x: Lane) -> bool:
        near = columns if x.rows[-1] == x.size else lines
        return x.size >= 4 and abs(x.along) == near * x.size

    if not all(map(together, (*layout.moving(), *layout.stores))):
        return None
    for shape in for_stretches(layout.n, columns, lines):
        made = Columns(shape, _grouped(layout, shape), columns, crosswise=lines, chip=chip)
        if made.threads <= 1024 and made.fits(plan):
            return made
    return None


def _beside(plan: Plan, layout: Layout, chip: Chip) -> Columns | None:
    """Tiles of all rows of few that lie one beside another in some arrays, and each by itself in the others: a rectangle of so
    many lines of one column."""
    arrays, n = (*layout.moving(), *layout.stores), layout.n
    beside = [x for x in arrays if abs(x.along) != x.size]
    dims = range(len(layout.dims))
    cross = next((i for i in dims if beside and beside[0].rows[i] == beside[0].size), None)
    if cross is None or plan.ahead is not None or len(beside) == len(arrays):
        return None
    count = layout.dims[cross]
    apart = all(x.rows[cross] for x in arrays)
    near = all(x.rows[cross] == x.size and abs(x.along) == count * x.size for x in beside)
    whole = all(x.grain() >= x.size >= 4 for x in arrays) and all(x.told for x in layout.loads if x.still)
    shared = layout.heads is None or not layout.heads.rows[cross]
    if not (apart and near and whole and shared) or n * count * min(x.size for x in arrays) < LEAST:
        return None
    pick = [*(i for i in dims if i != cross), cross]
    seen = layout.with_rows([layout.dims[i] for i in pick], pick)

    def lined(x: Lane) -> Lane:
        return replace(x, rows=(*x.rows, x.size if abs(x.along) == x.size else x.along))

    seen = replace(
        seen,
        dims=(*seen.dims, 1),
        loads=tuple(map(lined, seen.loads)),
        stores=tuple(map(lined, seen.stores)),
        starts=tuple(replace(x, rows=(*x.rows, 0)) for x in seen.starts),
        heads=seen.heads and replace(seen.heads, rows=(*seen.heads.rows, 0)),
    )
    for shape in for_beside(n, count, words(plan, layout)):
        made = Columns(shape, _grouped(seen, shape), 1, crosswise=count, chip=chip)
        if made.fits(plan):
            return made
    return None


def _crossed(plan: Plan, layout: Layout) -> Layout | None:
    """The layout with the dimension of the results' neighbours before the innermost, that of the inputs'; None where these are
    not two dimensions beside the axis, or where some array lies otherwise."""
    moving, dims = layout.moving(), range(len(layout.dims))
    if plan.ahead is not None or not layout.stores:
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
    return made if lie and shared else None


def _are_wide(layout: Layout) -> bool:
    """Whether both sides of a rectangle are long enough for its tiles."""
    sizes = [x.size for x in (*layout.moving(), *layout.stores)]
    half = CROSSED[power_of_two(max(sizes))][0] // 2
    *_, lines, columns = layout.dims
    return min(sizes) * min(lines, columns) >= CROSSED_LEAST and lines * columns >= half


def _lies(x: Lane) -> bool:
    """Whether neighbours of an array lie along one of the two dimensions, and columns apart."""
    near = x.rows[-1] == x.size or (x.rows[-2] == x.size and x.rows[-1] != 0)
    return near and abs(x.along) != x.size and x.grain() >= x.size


def _walked(plan: Plan, layout: Layout, chip: Chip) -> Walked | None:
    """Rectangles of columns that blocks walk; None where these would be too few, or arrays lie otherwise."""
    moving, stores = layout.moving(), layout.stores
    along = all(x.rows[-1] == x.size for x in moving) and len({x.size for x in moving}) == 1
    across = plan.reduce or all(x.rows[-1] != x.size for x in stores)
    told = all(x.told for x in layout.loads if x.still)
    if plan.segmented or plan.ahead is not None or not (along and across and told):
        return None
    sizes = moving[0].size, min(x.size for x in stores)
    parts = len(moving) + len(plan.accumulators)
    for shape in for_walked(layout.n, layout.dims, *sizes, parts, plan.reduce):
        *_, lines, columns = layout.dims
        made = Walked(shape, _grouped(layout, shape), columns, crosswise=lines, chip=chip)
        even = min(map(made._grain_read, made.layout.moving())) == 16
        if even and made.fits(plan):
            return made
    return None


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
