"""The choice of a launch: a kernel and its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from upsweep.engine import EngineError
from upsweep.gpu.demands import are_behind, costly, held, packing, turned_piece
from upsweep.gpu.layout import Lane, Layout, flip, mode, patched, turned
from upsweep.gpu.shapes import CHIPS, Chip, Shape
from upsweep.gpu.shapes.tiles import AHEAD
from upsweep.gpu.sharing import Room, begin, node_words, patches, pitch, places_of_lines, room_of, rounded_up
from upsweep.gpu.text import declared
from upsweep.plan import Plan


@dataclass(frozen=True)
class Choice:
    """A kernel and the numbers that launch it. Each kernel is a class of its own, in sweeps.py, columns.py, short.py
    or walk.py."""

    shape: Shape
    layout: Layout
    columns: int = 1
    """The extent of the innermost row dimension, where the lanes are its neighbours."""
    chip: Chip = CHIPS[90]
    bits: bool = False
    """Whether segments are read as bits."""

    kernel: ClassVar[str]
    """The name of its file in kernels/."""

    @property
    def radix(self) -> int:
        """Nodes of one level of the look-back that a node of the next level stands for."""
        return 32

    @property
    def meets(self) -> bool:
        """Whether blocks take tickets or hand each other sums, and so need shared words in memory."""
        return True

    @property
    def across(self) -> bool:
        """Whether the lanes are neighbours of the innermost row dimension."""
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
        """The tiles of all rows, which are drawn by ticket."""
        count = self.rows * self.tiles * self.column_groups
        if count >= 1 << 32:
            raise EngineError(
                f"{count} tiles are more than the cuda engine's tickets count; scan it in parts"
            )
        return count

    def grid(self, resident: Callable[[], int]) -> int:
        """Blocks to launch. Where blocks take tickets, at most as many as are `resident` on the device."""
        return min(self.tickets // (self.tiles if self.shape.carry else 1), resident())

    def levels(self) -> tuple[list[int], list[int], int]:
        """The start of each level of nodes, its nodes for each row, and the number of all nodes: `tiles` < radix ** levels."""
        if not self.meets or self.tiles == 1 or self.shape.carry:
            return [0], [0], 0
        rows = self.rows * self.column_groups * self.shape.vector
        sizes, first = [self.tiles], [0]
        while sizes[-1] >= self.radix:
            first.append(first[-1] + rows * sizes[-1])
            sizes.append(-(-sizes[-1] // self.radix))
        return first, sizes, first[-1] + rows * sizes[-1]

    def shared_bytes(self, plan: Plan) -> int:
        """Bytes of shared memory that a block asks for."""
        return (
            rounded_up(self.room(plan).area * (32 // self.shape.lanes), 128)
            * self.shape.warps
            * self.shape.strips
        )

    def room(self, plan: Plan) -> Room:
        """The shared memory of lanes that hold a row together."""
        return room_of(plan, self.layout, self.shape.lanes * self.shape.items)

    def reads_bits(self, plan: Plan) -> bool:
        """Whether the kernel can read segments as bits, of one list for all rows."""
        return False

    def spec(self, plan: Plan) -> str:
        """The part of the text that says what is scanned."""
        return spec(plan, self)


def spec(plan: Plan, choice: Choice) -> str:
    """The part of the text that says what is scanned: types, operator, shape, modes."""
    layout, shape, columns = choice.layout, choice.shape, choice.across
    slab = shape.lanes * shape.items
    numbers: dict[str, Any] = {
        "DIMS": len(layout.dims) - columns,
        "ITEMS": shape.items,
        "WARPS": shape.warps,
        "THREADS": choice.threads,
        "BLOCKS": max(1, min(shape.blocks, choice.chip.shared // (choice.shared_bytes(plan) + 2048))),
        "LANES": shape.lanes,
        "VECTOR": shape.vector,
        "ROW_WARPS": shape.warps if shape.together else 1,
        "CLUSTER": shape.cluster,
        "STRIPS": shape.strips,
        "STAGES": shape.stages,
        "NODE_WORDS": node_words(plan),
        "SHARED_BYTES": choice.shared_bytes(plan),
        "BYTEWISE": packing(plan, layout),
        "COLUMNS": shape.stretch,
        "LINE_BYTES": layout.bytes,
    }
    heads = layout.heads
    truths = {
        "CARRY": shape.carry,
        "SMALL": shape.small,
        "GROUPED": choice.kernel == "rows" and choice.meets,
        "NEAR_GROUPS": choice.chip.near_groups,
        "COSTLY": costly(plan),
        "HEADS_FLIP": heads is not None and heads.along == -1,
        "HEADS_BITS": choice.bits,
        "TRUTHS": layout.truths,
    }

    room = choice.room(plan)
    *places, heads_at = patches(layout, shape) if columns else (*room.inputs, room.heads)
    numbers |= {
        "AREA": room.area,
        "OWN": rounded_up(room.own, 128),
        "HEADS_AT": heads_at,
        "KEEPS": int(min(room.sums) >= 0),
    }
    numbers |= {"SUMS_FLIP": int(flip(layout.moving()[0], slab)) if layout.moving() else 0}

    def moved(x: Lane, at: int, grain: int, read: bool) -> dict[str, Any]:
        if columns:
            loose = patched(x) and at >= 0
            return {
                "at": at, "turned": turned(x), "grain": grain, "pitch": pitch(shape, x) if loose else 0, "begin": begin(shape, x),
            }  # fmt: skip
        dense = choice.kernel == "rows" or (choice.kernel == "tiles" and not read)
        how = (dense and _dense(layout, x, shape, read)) or mode(x, slab)
        if choice.kernel == "rows" and shape.items % 16 == 0 and choice.tile >= held(plan, layout) > layout.n:
            how = "PLACED"
        return {"at": at, "mode": how, "flip": flip(x, slab), "grain": grain}

    def grain_of(x: Lane) -> int:
        if not columns or not patched(x):
            return x.grain(x.size)
        return (
            turned_piece(layout, x, shape.items)
            if turned(x)
            else x.grain_of_lines(choice.width, choice.columns)
        )

    inputs = [
        {**moved(x, at, grain_of(x), True), "again": bool(x.rows) and not any(x.rows)}
        for x, at in zip(layout.loads, places)
    ]
    at_outputs = places_of_lines(plan, layout, shape) if columns else room.outputs

    def grain_of_results(x: Lane, at: int) -> int:
        if columns and not plan.reduce and turned(x):
            return turned_piece(layout, x, shape.items)
        gathered = shape.lanes < 32 or (shape.vector == shape.strips == 1 and x.size < 4)
        lined = columns and not plan.reduce and (at >= 0 or gathered)
        return x.grain_of_lines(choice.width, choice.columns) if lined else x.grain(x.size)

    outputs = [moved(x, at, grain_of_results(x, at), False) for x, at in zip(layout.stores, at_outputs)]
    if choice.kernel == "rows":
        outputs = [{**lies, "apart": _lies_apart(layout, x)} for lies, x in zip(outputs, layout.stores)]
    components = [{"at": at} for at in room.sums]
    numbers["HEADS_MODE"] = "SHIFTED" if heads is None or abs(heads.along) == 1 else "STRIDED"
    truths["HEADS_APART"] = columns and heads is not None and heads.rows[-1] != 0
    apart = heads if truths["HEADS_APART"] else None
    numbers |= {
        "HEADS_PITCH": pitch(shape, apart) if apart else 0,
        "HEADS_BEGIN": begin(shape, apart) if apart else -1,
    }
    numbers["HEADS_GRAIN"] = heads.grain_of_lines(choice.width, choice.columns) if heads and columns else 1
    return declared(plan, layout, numbers, truths, inputs, outputs, components)


def _dense(layout: Layout, x: Lane, shape: Shape, read: bool) -> str | None:
    """The way in which dense.cuh moves the rows of a warp as they lie, or None. A warp has one row, or rows that lie one behind
    another, those that are read also a little apart."""
    how, several = mode(x, shape.items), shape.lanes < 32
    if x.along != x.size or how == "STRIDED" or (several and not are_behind(layout, x, read)):
        return None
    narrow = x.size <= (4 if several else 2)
    if narrow and how == "SHIFTED" and shape.items * x.size % 16 == 0 and layout.n * x.size >= 16:
        return "LOOSE"
    return ("EVEN" if how == "ALIGNED" else "DENSE" if x.size >= 4 else None) if several else None


def _lies_apart(layout: Layout, x: Lane) -> bool:
    """Whether each row of results is whole in memory and touches no other row, so that the cache is asked for its ends. Of a
    copy (H200), without -> with: bytes of 1000 at a pitch of 1001 .84 -> .91, of 200 at 201 .47 -> .63, f4 of 300 at 301 .82 ->
    .91, of 20 at 32 .39 -> .53, f8 of 5 at 6 .42 -> .58. Not so of bytes that begin at sectors: 100 at 128 .61 -> .56.
    """
    apart = abs(x.along) == x.size and bool(x.rows) and abs(x.rows[-1]) != layout.n * x.size
    return apart and (x.size > 1 or x.rows[-1] % 32 > 0)


def tickets_ahead(plan: Plan, choice: Choice) -> int:
    """The number of tickets between a tile and the tile that is asked for at the same time; whole rows where blocks take rows."""
    width = choice.width if choice.across else 1
    tile = choice.tile * width * (sum(x.size for x in choice.layout.moving()) + plan.segmented)
    ahead = -(-AHEAD // max(1, tile))
    return rounded_up(ahead, choice.tiles) if choice.shape.carry else ahead
