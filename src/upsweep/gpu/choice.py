"""The choice of a launch: a kernel and its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from upsweep.engine import EngineError
from upsweep.gpu.demands import packing
from upsweep.gpu.layout import Lane, Layout, flip, mode
from upsweep.gpu.shapes import CHIPS, Chip, Shape
from upsweep.gpu.shapes.columns import MOST_AT_ONCE
from upsweep.gpu.shapes.tiles import AHEAD
from upsweep.gpu.sharing import Room, begin, node_words, pitch, room_of, rounded_up
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
    crosswise: int = 1
    """The extent of the dimension before the innermost one, where the columns of a tile are a rectangle of these two."""

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
                f"the scan has {count} tiles, and the cuda engine counts to 2^32: scan it in chunks, by upsweep.Stream"
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

    def blocks(self, plan: Plan) -> int:
        """Blocks that share a multiprocessor, each of which takes 1 KiB of its memory besides."""
        room = (self.chip.shared + 1024) // (self.shared_bytes(plan) + 1024)
        return max(1, min(self.shape.blocks, room))

    def fits(self, plan: Plan) -> bool:
        """Whether as many blocks as the shape says have room on a multiprocessor."""
        return self.shared_bytes(plan) <= self.chip.shared and self.blocks(plan) == self.shape.blocks

    def room(self, plan: Plan) -> Room:
        """The shared memory of lanes that hold a row together."""
        return room_of(plan, self.layout, self.shape.lanes * self.shape.items)

    def reads_bits(self, plan: Plan) -> bool:
        """Whether the kernel can read segments as bits, of one list for all rows."""
        return False

    @property
    def grouped(self) -> bool:
        """Whether blocks that are no cluster hold a row together."""
        return False

    def mode(self, plan: Plan, x: Lane, read: bool) -> str:
        """The way in which an array moves: a Mode of kernels/prelude.cuh."""
        return mode(x, self.shape.lanes * self.shape.items)

    def places(self, plan: Plan) -> tuple[list[int], list[int], int]:
        """The places in shared memory of what is read, of results and of heads, in bytes; -1 for arrays elsewhere."""
        room = self.room(plan)
        return room.inputs, room.outputs, room.heads

    def moved(self, plan: Plan, x: Lane, at: int, read: bool) -> dict[str, Any]:
        """The constants that say how an array moves. `at`: its place. `read`: whether the array is read or written."""
        slab = self.shape.lanes * self.shape.items
        run = plan.run if not read and x is self.layout.stores[-1] else 1
        how = {"at": at, "mode": self.mode(plan, x, read), "flip": flip(x, slab), "grain": x.grain(x.size)}
        return how if read else {**how, "run": run}

    def spec(self, plan: Plan) -> str:
        """The part of the text that says what is scanned: types, operator, shape, modes."""
        layout, shape, columns = self.layout, self.shape, self.across
        numbers: dict[str, Any] = {
            "DIMS": len(layout.dims) - columns,
            "ITEMS": shape.items,
            "WARPS": shape.warps,
            "THREADS": self.threads,
            "BLOCKS": self.blocks(plan),
            "LANES": shape.lanes,
            "VECTOR": shape.vector,
            "ROW_WARPS": shape.warps if shape.together else 1,
            "CLUSTER": shape.cluster,
            "STRIPS": shape.strips,
            "STAGES": shape.stages,
            "GROUP": shape.group,
            "NODE_WORDS": node_words(plan),
            "SHARED_BYTES": self.shared_bytes(plan),
            "BYTEWISE": packing(plan, layout),
            "COLUMNS": shape.stretch,
            "LINE_BYTES": layout.bytes,
        }
        heads = layout.heads
        # Heads lie apart where each column has heads of its own.
        apart = heads if columns and heads is not None and heads.rows[-1] != 0 else None
        truths = {
            "CARRY": shape.carry,
            "SMALL": shape.small,
            "GROUPED": self.grouped,
            "NEAR_GROUPS": self.chip.near_groups,
            "HEADS_FLIP": heads is not None and heads.along == -1,
            "HEADS_BITS": self.bits,
            "HEADS_APART": apart is not None,
            "HEADS_AGAIN": heads is not None and heads.again,
        }
        room = self.room(plan)
        at_inputs, at_outputs, at_heads = self.places(plan)
        numbers |= {
            "AREA": room.area,
            "OWN": rounded_up(room.own, 128),
            "HEADS_AT": at_heads,
            "KEEPS": int(min(room.sums) >= 0),
            "SUMS_FLIP": int(flip(layout.moving()[0], shape.lanes * shape.items)) if layout.moving() else 0,
            "HEADS_MODE": self._heads_mode(),
            "HEADS_PITCH": pitch(shape, apart) if apart else 0,
            "HEADS_BEGIN": begin(shape, apart) if apart else -1,
            "HEADS_GRAIN": heads.grain_of_lines(self.width, self.columns) if heads and columns else 1,
        }
        inputs = [
            {**self.moved(plan, x, at, True), "again": x.again} for x, at in zip(layout.loads, at_inputs)
        ]
        outputs = [self.moved(plan, x, at, False) for x, at in zip(layout.stores, at_outputs)]
        components = [{"at": at} for at in room.sums]
        return declared(plan, layout, numbers, truths, inputs, outputs, components)

    def _heads_mode(self) -> str:
        heads = self.layout.heads
        if heads is None or (self.across and abs(heads.along) == 1):
            return "SHIFTED"
        return mode(heads, self.shape.lanes * self.shape.items)


class Abreast(Choice):
    """A kernel whose lanes have columns to themselves, so that its blocks wait for none."""

    @property
    def meets(self) -> bool:
        return False

    @property
    def across(self) -> bool:
        return True


def tickets_ahead(plan: Plan, choice: Choice, grid: int) -> int:
    """The number of tickets between a tile and the tile that is asked for at the same time; whole rows where blocks take rows. As
    many as there are, where the blocks of a grid load most tiles at once."""
    if choice.across and choice.tickets <= MOST_AT_ONCE * grid * choice.shape.stages:
        return choice.tickets
    width = choice.width if choice.across else 1
    tile = choice.tile * width * (sum(x.size for x in choice.layout.moving()) + plan.segmented)
    ahead = -(-AHEAD // max(1, tile))
    return rounded_up(ahead, choice.tiles) if choice.shape.carry else ahead
