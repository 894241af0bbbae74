"""From a plan and the strides of its arrays to what is launched: which kernel, of which shape, told what.

Everything is put in the order of the scan first: a reverse scan starts at the last item and walks backwards, so the
kernels know only strides. Then the rows collapse to as few dimensions as the strides allow, and the kernel follows:

* rows: neighbours along the axis touch in memory (or nothing better fits), and a warp holds a row, or a block, where there
  are rows enough
* tiles: the same, longer rows
* columns: neighbours of another axis touch
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, zip_longest
from math import gcd, prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from upsweep.engine import EngineError
from upsweep.gpu import functions, params, shapes
from upsweep.gpu.shapes import Chip, Shape
from upsweep.operators import form_of
from upsweep.plan import Plan


@dataclass(frozen=True)
class Lane:
    """One array in the order of the scan: where it starts from its pointer, and its strides in bytes."""

    offset: int
    along: int
    rows: tuple[int, ...]
    size: int
    phase: int
    """The pointer's remainder by 16; below 0 where there is none, and a value travels with the launch."""

    @property
    def still(self) -> bool:
        """Whether one item serves a whole row."""
        return self.along == 0

    @property
    def told(self) -> bool:
        return self.phase < 0

    def grain(self, *more: int) -> int:
        """The largest power of two up to 16 that divides every address (and what else is given)."""
        return reduce(gcd, [self.phase + self.offset, self.along, *self.rows, *more], 16)

    def grain_of_lines(self, width: int, columns: int) -> int:
        """The same where the innermost rows are neighbours, `columns` of them, and addresses begin at groups of `width`."""
        return replace(self, rows=self.rows[:-1]).grain(width * self.size, columns * self.size)


@dataclass(frozen=True)
class Layout:
    """All arrays of a call in one iteration space of `dims` rows of n items."""

    n: int
    dims: tuple[int, ...]
    loads: tuple[Lane, ...]
    stores: tuple[Lane, ...]
    starts: tuple[Lane, ...]
    heads: Lane | None

    def lanes(self) -> list[Lane]:
        return [*self.arrays(), *self.starts, *([self.heads] if self.heads else [])]

    def arrays(self) -> tuple[Lane, ...]:
        return (*self.loads, *self.stores)

    def moving(self) -> list[Lane]:
        """What is read item by item."""
        return [x for x in self.loads if not x.still]

    def with_rows(self, dims: Sequence[int], pick: Sequence[int]) -> Layout:
        """The same with the row dimensions `pick` of `rows`, of these sizes."""

        def cut(x: Lane) -> Lane:
            return replace(x, rows=tuple(x.rows[i] for i in pick))

        return Layout(
            self.n,
            tuple(dims),
            tuple(map(cut, self.loads)),
            tuple(map(cut, self.stores)),
            tuple(map(cut, self.starts)),
            self.heads and cut(self.heads),
        )


Strided = tuple[tuple[int, ...], int]
"""Strides in bytes, and the pointer's remainder by 16."""


def arrange(
    plan: Plan,
    loads: Sequence[Strided],
    stores: Sequence[Strided],
    starts: Sequence[Strided],
    heads: Strided | None,
) -> Layout:
    """Strides in the order of the scan, rows collapsed."""
    n, axis = plan.n, plan.axis
    rest = [d for d in range(len(plan.shape)) if d != axis]

    def lane(strides: Sequence[int], phase: int, dtype: np.dtype, past: int = 0) -> Lane:
        along = strides[axis] if n > 1 or past or phase < 0 else dtype.itemsize
        offset = (n - 1 + past) * along if plan.reverse else 0
        return Lane(
            offset, -along if plan.reverse else along, tuple(strides[d] for d in rest), dtype.itemsize, phase
        )

    def row_lane(strides: Sequence[int], phase: int, dtype: np.dtype) -> Lane:
        return Lane(0, 0, tuple(strides) if strides else (0,) * len(rest), dtype.itemsize, phase)

    place = row_lane if plan.reduce else lane
    byte = np.dtype(np.uint8)
    heads_lane = None
    if heads is not None:
        strides, phase = heads
        full = (
            strides
            if len(strides) == len(plan.shape)
            else [strides[0] if d == axis else 0 for d in range(len(plan.shape))]
        )
        heads_lane = lane(full, phase, byte, past=1)  # a reverse scan starts a segment after the item marked
    layout = Layout(
        n,
        plan.row_shape,
        tuple(lane(*x, d) for x, d in zip(loads, plan.loads)),
        tuple(place(*x, d) for x, d in zip(stores, params.stored(plan))),
        tuple(row_lane(*x, d) for x, d in zip(starts, plan.accumulators)),
        heads_lane,
    )
    return _collapse(layout)


def _collapse(layout: Layout) -> Layout:
    """Drops rows of one, and merges neighbours that every array steps through alike."""
    keep = [i for i, d in enumerate(layout.dims) if d != 1]
    layout = layout.with_rows([layout.dims[i] for i in keep], keep)
    order = sorted(range(len(layout.dims)), key=lambda i: -max(abs(x.rows[i]) for x in layout.loads))
    layout = layout.with_rows([layout.dims[i] for i in order], order)
    i = 0
    while i + 1 < len(layout.dims):
        inner = layout.dims[i + 1]
        if all(x.rows[i] == x.rows[i + 1] * inner for x in layout.lanes()):
            dims = [*layout.dims[:i], layout.dims[i] * inner, *layout.dims[i + 2 :]]
            layout = layout.with_rows(dims, [k for k in range(len(layout.dims)) if k != i])
        else:
            i += 1
    return layout


@dataclass(frozen=True)
class Choice:
    """A kernel and the numbers that it is launched with; each kernel is a class of its own below, or in lanes.py."""

    shape: Shape
    layout: Layout
    columns: int = 1
    """The extent of the innermost row dimension, where lanes are neighbours of it."""
    chip: Chip = shapes.CHIPS[90]

    kernel: ClassVar[str]
    """The name of its file in kernels/."""
    RADIX: ClassVar[int] = 32
    """Nodes of a look-back's level that one of the next level stands for."""

    @property
    def meets(self) -> bool:
        """Whether blocks take tickets or hand each other sums, and so need memory to meet in."""
        return True

    @property
    def across(self) -> bool:
        """Whether lanes are neighbours of the innermost row dimension."""
        return False

    @property
    def tile(self) -> int:
        """Items of a row that a block works on at a time."""
        return self.shape.items * self.shape.lanes * self.shape.warps * self.shape.strips

    @property
    def tiles(self) -> int:
        return -(-self.layout.n // self.tile)

    @property
    def width(self) -> int:
        return 32 * self.shape.vector

    @property
    def column_groups(self) -> int:
        return -(-self.columns // self.width)

    @property
    def node_items(self) -> int:
        """Items of a node of the look-back: one for each lane that has rows to itself."""
        return 1

    @property
    def threads(self) -> int:
        return 32 * self.shape.warps

    @property
    def rows(self) -> int:
        return prod(self.layout.dims[:-1] if self.across else self.layout.dims)

    @property
    def tickets(self) -> int:
        """Pieces of work: tiles of all rows."""
        count = self.rows * self.tiles * self.column_groups
        if count >= 1 << 32:
            raise EngineError(
                f"{count} tiles are more than the cuda engine's tickets count; scan it in parts"
            )
        return count

    def grid(self, resident: Callable[[], int]) -> int:
        """Blocks to launch, at the most as many as are `resident` on the device where they take tickets."""
        return min(self.tickets // (self.tiles if self.shape.carry else 1), resident())

    def levels(self) -> tuple[list[int], list[int], int]:
        """Where each level of nodes begins, its nodes for each row, and all nodes: `tiles` < radix ** levels."""
        if not self.meets or self.tiles == 1 or self.shape.carry:
            return [0], [0], 0
        rows = self.rows * self.column_groups * self.shape.vector
        sizes, first = [self.tiles], [0]
        while sizes[-1] >= self.RADIX:
            first.append(first[-1] + rows * sizes[-1])
            sizes.append(-(-sizes[-1] // self.RADIX))
        return first, sizes, first[-1] + rows * sizes[-1]

    def shared_bytes(self, plan: Plan) -> int:
        """Bytes of shared memory that a block asks for."""
        return (
            _up(self.room(plan).area * (32 // self.shape.lanes), 128) * self.shape.warps * self.shape.strips
        )

    def room(self, plan: Plan) -> Room:
        """The shared memory of lanes that hold a row together."""
        return room_of(plan, self.layout, self.shape.lanes * self.shape.items)

    def spec(self, plan: Plan) -> str:
        """The part of the text that says what is scanned."""
        return spec(plan, self)


class Rows(Choice):
    """A warp holds a row, or several; or the warps of a block hold one together, or of a cluster, or of up to 32 clusters."""

    kernel = "rows"
    RADIX = 33  # one level

    @property
    def meets(self) -> bool:
        return self.tiles > 1

    @property
    def tile(self) -> int:
        one = self.shape.items * self.shape.lanes
        return one * self.shape.warps * self.shape.cluster if self.shape.together else one

    def grid(self, resident: Callable[[], int]) -> int:
        alone = self.shape.warps * (32 // self.shape.lanes)
        return self.rows * self.tiles * self.shape.cluster if self.shape.together else -(-self.rows // alone)

    def spec(self, plan: Plan) -> str:
        clustered = "__cluster_dims__(CLUSTER)" if self.shape.cluster > 1 else ""
        return f"#define CLUSTERED {clustered}\n{super().spec(plan)}"


class Tiles(Choice):
    """Blocks take tiles of long rows by ticket and look back; two warps of a block serve the others."""

    kernel = "tiles"

    @property
    def threads(self) -> int:
        return 32 * (self.shape.warps + 2)

    def shared_bytes(self, plan: Plan) -> int:
        return super().shared_bytes(plan) * self.shape.stages


class Columns(Choice):
    """A lane holds items of a column; where those are few, several lanes; warps are stacked along the axis."""

    kernel = "columns"
    RADIX = 8

    @property
    def width(self) -> int:
        return self.shape.lanes * self.shape.vector

    @property
    def across(self) -> bool:
        return True

    @property
    def tile(self) -> int:
        return self.shape.items * self.shape.warps * (32 // self.shape.lanes)

    @property
    def node_items(self) -> int:
        return 32

    @property
    def threads(self) -> int:
        return 32 * (self.shape.warps + 2 * self.shape.vector)

    def shared_bytes(self, plan: Plan) -> int:
        warps, served = self.shape.warps, 32 * self.shape.vector
        patches = 2 * warps * (_patches(self)[-1] + _patch(self, 1) * plan.segmented)
        (element, align), (item, item_align) = _element(plan), _item(plan)
        align = max(align, item_align, 8)
        sums = _up(32, align) + 2 * warps * served * element
        return patches + _up(_up(sums, item_align) + 2 * (warps + 1) * served * item, align)


def words(plan: Plan, layout: Layout) -> int:
    """32-bit registers of an item: of what it is read as, combined as or written as, and of what is read again with it."""

    def count(sizes: Iterable[int]) -> int:
        return sum(-(-size // 4) for size in sizes)

    inputs, prefix = count(x.size for x in layout.moving()), count(d.itemsize for d in plan.accumulators)
    if plan.map is plan.finish is None:
        return prefix
    return max(inputs, prefix + inputs * functions.reads_again(plan), count(x.size for x in layout.stores))


def patched(x: Lane) -> bool:
    """Whether columns are read line by line, by way of shared memory."""
    return not x.still and x.rows[-1] != 0


def costly(plan: Plan) -> bool:
    """Whether the operator takes many instructions."""
    known = form_of(plan.op, plan.accumulators)
    return known is not None and known[0].costly


def choose(plan: Plan, layout: Layout, chip: Chip) -> Choice:
    touching = all(
        abs(x.along) == x.size for x in (*layout.moving(), *(() if plan.reduce else layout.stores))
    )
    columns = layout.dims[-1] if layout.dims and not touching and _are_columns(layout) else 0
    if columns:
        return _fitting_columns(plan, layout, columns, chip)
    n, rows, item = layout.n, prod(layout.dims), words(plan, layout)
    if shapes.fits_rows(n, item):
        return Rows(shapes.for_rows(n, item), layout, chip=chip)
    size = sum(_places(plan, layout)) + plan.segmented
    small = shapes.for_small(n, rows, item, size, chip)
    if small is not None:
        return Rows(small, layout, chip=chip)
    if shapes.fits_whole_rows(n, rows, item, size):
        even = all(mode(x, 16) == "ALIGNED" for x in (*layout.moving(), *layout.stores))
        return Rows(shapes.for_whole_rows(n, item, even), layout, chip=chip)
    parts = len(plan.accumulators)
    shape = shapes.for_tiles(n, rows, item, parts, size, plan.segmented, costly(plan), chip.shared)
    return Tiles(shape, layout, chip=chip)


def _fitting_columns(plan: Plan, layout: Layout, columns: int, chip: Chip) -> Columns:
    """Lines as wide as the smallest component wants them, and as many warps as pay, if all components fit into shared memory."""
    line, warps = min((x.size for x in layout.loads if patched(x)), default=4), shapes.WARPS
    if any(map(_turned, (*layout.moving(), *layout.stores))):
        line = 4
    while True:
        shape = shapes.for_columns(layout.n, columns, words(plan, layout), line, warps)
        made = Columns(shape, layout, columns, chip)
        if made.shared_bytes(plan) <= chip.shared - 4096 or shape.warps == 1:
            return made
        if line < 4:
            line *= 2
        else:
            warps //= 2


def _are_columns(layout: Layout) -> bool:
    """Whether the innermost rows are neighbours in memory, in every array (in what is read also one and the same): a line of
    them, or a long axis without gaps. Of some arrays the items of a row may be, as they are of a transposed one."""
    columns, arrays = layout.dims[-1], (*layout.loads, *layout.stores)
    across = all(x.rows[-1] == x.size or _turned(x) for x in layout.stores) and all(
        x.still or x.rows[-1] in (0, x.size) or _turned(x) for x in layout.loads
    )
    heads = layout.heads is None or layout.heads.rows[-1] in (0, 1)
    if not across or not heads:
        return False
    if any(map(_turned, arrays)):
        return _turns(layout)
    line = columns * min(x.size for x in layout.stores) >= shapes.LINE
    dense = all(abs(x.along) == columns * x.size for x in layout.moving())
    return line or (dense and layout.n * columns >= shapes.NARROW)


def _turned(x: Lane) -> bool:
    """Whether the items of a row are neighbours in memory, and those of a column are not."""
    return abs(x.along) == x.size and abs(x.rows[-1]) > x.size


def _turns(layout: Layout) -> bool:
    """Whether squares of items can be turned on their way through shared memory."""
    room = sum(x.size for x in layout.loads if patched(x)) >= max(x.size for x in layout.stores)
    even = all(x.grain() >= x.size for x in (*layout.moving(), *layout.stores) if _turned(x))
    return room and even and layout.dims[-1] >= 32 and layout.n >= 32


def _piece(layout: Layout, x: Lane) -> int:
    """Bytes of a row that are turned together."""
    whole = replace(x, along=0).grain(layout.n * x.size) >= 4 and x.along > 0
    return 4 if x.size < 4 and whole else x.size


# --- the text that a kernel is compiled with ------------------------------------------------------------------------


def mode(x: Lane, items: int) -> str:
    """How memory.cuh moves an array: `items` of a slab."""
    if abs(x.along) != x.size or x.grain() < x.size:
        return "STRIDED"
    ahead = x.size if x.along < 0 else 0  # a slab that runs backwards starts one item after its last
    whole = items * x.size % 16 == 0
    even = (x.phase + x.offset + ahead) % 16 == 0 and all(s % 16 == 0 for s in x.rows)
    return "ALIGNED" if whole and even else "SHIFTED"


def _dense(layout: Layout, x: Lane, run: int) -> str | None:
    """How memory.cuh moves rows that lie one behind another, `run` items a lane; None where they do not."""
    if x.along != x.size or x.rows != (layout.n * x.size,):
        return None
    if mode(x, run) == "ALIGNED":
        return "EVEN"
    return "DENSE" if x.size >= 4 and x.grain() >= x.size else None


def flip(x: Lane, items: int) -> bool:
    return x.along < 0 and mode(x, items) != "STRIDED"


def spec(plan: Plan, choice: Choice) -> str:
    """The part of the text that says what is scanned: types, operator, shape, modes."""
    layout, shape, columns = choice.layout, choice.shape, choice.across
    slab = shape.lanes * shape.items
    numbers: dict[str, Any] = {
        "DIMS": len(layout.dims) - columns,
        "ITEMS": shape.items,
        "WARPS": shape.warps,
        "BLOCKS": max(1, min(shape.blocks, choice.chip.shared // (choice.shared_bytes(plan) + 2048))),
        "LANES": shape.lanes,
        "VECTOR": shape.vector,
        "ROW_WARPS": shape.warps if shape.together else 1,
        "CLUSTER": shape.cluster,
        "STRIPS": shape.strips,
        "STAGES": shape.stages,
        "NODE_WORDS": node_words(plan),
        "SHARED_BYTES": choice.shared_bytes(plan),
    }
    heads = layout.heads
    truths = {
        "CARRY": shape.carry,
        "SMALL": shape.small,
        "GROUPED": choice.kernel == "rows" and choice.meets,
        "NEAR_GROUPS": choice.chip.near_groups,
        "COSTLY": costly(plan),
        "HEADS_FLIP": heads is not None and heads.along == -1,
    }

    room = choice.room(plan)
    *places, heads_at = _patches(choice) if columns else (*room.inputs, room.heads)
    numbers |= {"AREA": room.area, "HEADS_AT": heads_at, "KEEPS": int(min(room.sums) >= 0)}
    numbers |= {"SUMS_FLIP": int(flip(layout.moving()[0], slab)) if layout.moving() else 0}
    dense = choice.kernel == "rows" and shape.lanes < 32

    def moved(x: Lane, at: int, grain: int) -> dict[str, Any]:
        if columns:
            return {"at": at, "turned": _turned(x), "grain": grain}
        how = (dense and _dense(layout, x, shape.items)) or mode(x, slab)
        return {"at": at, "mode": how, "flip": flip(x, slab), "grain": grain}

    def grain_of(x: Lane) -> int:
        if not columns or not patched(x):
            return x.grain(x.size)
        return _piece(layout, x) if _turned(x) else x.grain_of_lines(choice.width, choice.columns)

    inputs = [
        {**moved(x, at, grain_of(x)), "again": bool(x.rows) and not any(x.rows)}
        for x, at in zip(layout.loads, places)
    ]
    lined = columns and shape.lanes < 32 and not plan.reduce
    outputs = [
        moved(x, at, x.grain_of_lines(choice.width, choice.columns) if lined else x.grain(x.size))
        for x, at in zip(layout.stores, room.outputs)
    ]
    components = [{"at": at} for at in room.sums]
    numbers["HEADS_MODE"] = "SHIFTED" if heads is None or abs(heads.along) == 1 else "STRIDED"
    numbers["HEADS_GRAIN"] = heads.grain_of_lines(choice.width, choice.columns) if heads and columns else 1
    return declared(plan, layout, numbers, truths, inputs, outputs, components)


def declared(
    plan: Plan,
    layout: Layout,
    numbers: dict[str, Any],
    truths: dict[str, bool],
    inputs: Sequence[dict[str, Any]],
    outputs: Sequence[dict[str, Any]],
    components: Sequence[dict[str, Any]] = (),
) -> str:
    """The part of the text that says what is scanned, as every kernel reads it; the last three say how each array is moved, and
    where block sums are kept."""
    numbers = {**numbers, "WIDEST": max(d.itemsize for d in (*plan.loads, *params.stored(plan)))}
    truths = {**truths, "INITIAL": plan.initial, "EXCLUSIVE": plan.exclusive, "REDUCE": plan.reduce}
    lines = [
        f"#define SEGMENTED {int(plan.segmented)}",
        *(f"constexpr int {name} = {value};" for name, value in numbers.items()),
        *(f"constexpr bool {name} = {str(value).lower()};" for name, value in truths.items()),
        "template <int I> struct Input;",
        "template <int C> struct Component;",
        "template <int O> struct Output;",
    ]

    def struct(name: str, types: dict[str, str], moved: dict[str, Any]) -> None:
        typedefs = [f"typedef {known} {alias};" for alias, known in types.items()]
        constants = [
            f"static constexpr int {key} = {int(value) if isinstance(value, bool) else value};"
            for key, value in moved.items()
        ]
        lines.append(f"template <> struct {name} {{ {' '.join([*typedefs, *constants])} }};")

    told = 0
    for i, (x, dtype, value, moved) in enumerate(
        zip(layout.loads, plan.loads, functions.given(plan), inputs)
    ):
        types = {"Load": functions.memory_type(dtype), "Value": functions.value_type(value)}
        lies = {"still": x.still, "same": bool(x.rows) and x.rows[-1] == 0, "told": told if x.told else -1}
        struct(f"Input<{i}>", types, {**lies, **moved})
        told += x.told
    for c, dtype in enumerate(plan.accumulators):
        struct(f"Component<{c}>", {"Acc": functions.value_type(dtype)}, components[c] if components else {})
    for o, (dtype, moved) in enumerate(zip(params.stored(plan), outputs)):
        struct(f"Output<{o}>", {"Store": functions.memory_type(dtype)}, moved)
    return (
        "\n".join(lines)
        + "\n"
        + params.text(arity(plan, layout), numbers["DIMS"])
        + functions.functions_text(plan)
    )


def arity(plan: Plan, layout: Layout) -> params.Arity:
    told = sum(x.told for x in layout.loads)
    return params.Arity(len(plan.loads), len(plan.accumulators), len(layout.stores), told)


# --- sizes that the kernels check by static_assert ----------------------------------------------------------------------


def _up(n: int, step: int) -> int:
    return -(-n // step) * step


def _item(plan: Plan) -> tuple[int, int]:
    """Size and alignment of Tuple<...>, a head and a nested tail."""
    size, align = 0, 1
    for d in reversed(plan.accumulators):
        align_of_tail, align = align, max(align, d.itemsize)
        size = _up(_up(d.itemsize, align_of_tail) + size if size else d.itemsize, align)
    return size, align


def _element(plan: Plan) -> tuple[int, int]:
    size, align = _item(plan)
    if plan.segmented:
        align = max(align, 4)
        size = _up(_up(size, 4) + 4, align)
    return size, align


def node_words(plan: Plan) -> int:
    return _up(_item(plan)[0], 4) // 4


class Room(NamedTuple):
    """Where lanes that hold a row together keep its items in shared memory, in bytes; -1 for what lies elsewhere."""

    inputs: list[int]
    sums: list[int]
    """Of each component, or nowhere: then block sums are computed again."""
    outputs: list[int]
    heads: int
    area: int


def room_of(plan: Plan, layout: Layout, items: int) -> Room:
    sizes = _places(plan, layout)
    *places, heads = accumulate([_up(items * size, 16) + 16 for size in sizes], initial=0)
    free, moving = iter(places), list(zip(places, sizes))
    inputs = [-1 if x.still else next(free) for x in layout.loads]
    sums = []
    for d in plan.accumulators:
        fitting = next((place for place in moving if place[1] >= d.itemsize), None)
        if fitting is not None:
            moving.remove(fitting)
        sums.append(-1 if fitting is None or functions.reads_again(plan) else fitting[0])
    return Room(inputs, sums, places, heads, heads + (_up(items, 16) + 16) * plan.segmented)


def _places(plan: Plan, layout: Layout) -> list[int]:
    """Bytes of an item in each place of shared memory, where an array that is read makes way for one that is written."""
    sizes = [x.size for x in layout.moving()], [d.itemsize for d in params.stored(plan)]
    return [max(pair) for pair in zip_longest(*sizes, fillvalue=0)]


def _patches(choice: Choice) -> list[int]:
    """Where a warp of columns keeps the lines of each array that is read, and after them the heads."""
    end, places = 0, []
    for x in choice.layout.loads:
        places.append(end if patched(x) else -1)
        end += patched(x) * _patch(choice, x.size)
    return [*places, end]


def _patch(choice: Choice, size: int) -> int:
    """Bytes of a warp's items of `size`: a line more for each of several runs."""
    shape = choice.shape
    return (32 * shape.vector * shape.items + (32 if shape.lanes < 32 else 0)) * size


def tickets_ahead(plan: Plan, choice: Choice) -> int:
    """How many tickets lie between a tile and the one that is asked for at the same time; whole rows where blocks take those."""
    width = choice.width if choice.across else 1
    tile = choice.tile * width * (sum(x.size for x in choice.layout.moving()) + plan.segmented)
    ahead = -(-shapes.AHEAD // max(1, tile))
    return _up(ahead, choice.tiles) if choice.shape.carry else ahead
