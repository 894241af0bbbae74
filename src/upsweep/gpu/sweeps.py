"""Kernels that sweep up and down the tree, and which of them a scan takes:

* rows: neighbours along the axis touch in memory (or nothing better fits), and a warp holds a row, or a block, where there
  are rows enough; or several blocks reduce a row, and its last one finishes it
* sums: reductions of rows that are blocks of the tree, which need no scan
* tiles: neighbours along the axis, longer rows
* columns: neighbours of another axis touch (columns.py)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from upsweep.dtypes import narrow
from upsweep.gpu import columns, functions, lines
from upsweep.gpu.choice import Choice
from upsweep.gpu.demands import (
    any_order,
    are_behind,
    costly,
    held,
    moved_together,
    packing,
    words,
    words_read,
)
from upsweep.gpu.layout import Lane, Layout, mode
from upsweep.gpu.shapes import ROWS, Chip, Shape
from upsweep.gpu.shapes.reductions import for_sums
from upsweep.gpu.shapes.rows import (
    BLOCKS_OF_ROW,
    fits_rows,
    fits_whole_rows,
    for_grouped,
    for_rows,
    for_small,
    for_whole_rows,
    reducing,
)
from upsweep.gpu.shapes.tiles import GATHERED, for_tiles
from upsweep.gpu.sharing import Room, keeps, node_words, places_of, results_apart, room_of, rounded_up, staged
from upsweep.gpu.text import declared
from upsweep.plan import Plan


class Rows(Choice):
    """A warp holds a row, or several; or the warps of a block hold one together, or of a cluster, or of up to 32 clusters."""

    kernel = "rows"

    @property
    def radix(self) -> int:
        # The look-back has one level, also that of reductions over groups of clusters.
        return 1 + BLOCKS_OF_ROW

    @property
    def meets(self) -> bool:
        return self.tiles > 1

    @property
    def tile(self) -> int:
        one = self.shape.items * self.shape.lanes
        return one * self.shape.warps * self.shape.cluster if self.shape.together else one

    def reads_bits(self, plan: Plan) -> bool:
        return self.layout.listed

    def room(self, plan: Plan) -> Room:
        room = super().room(plan)
        # A block makes bits of a list.
        return room._replace(area=room.heads, heads=-1) if self.layout.listed else room

    def grid(self, resident: Callable[[], int]) -> int:
        alone = self.shape.warps * (32 // self.shape.lanes)
        return self.rows * self.tiles * self.shape.cluster if self.shape.together else -(-self.rows // alone)

    @property
    def grouped(self) -> bool:
        return self.meets

    def mode(self, plan: Plan, x: Lane, read: bool) -> str:
        if self.shape.items % 16 == 0 and self.tile >= held(plan, self.layout) > self.layout.n:
            return "PLACED"
        return _dense(self.layout, x, self.shape, read) or super().mode(plan, x, read)

    def moved(self, plan: Plan, x: Lane, at: int, read: bool) -> dict[str, Any]:
        lies = super().moved(plan, x, at, read)
        return lies if read else {**lies, "apart": lies["run"] == 1 and _lies_apart(self.layout, x)}

    def spec(self, plan: Plan) -> str:
        clustered = "__cluster_dims__(CLUSTER)" if self.shape.cluster > 1 else ""
        return f"#define CLUSTERED {clustered}\n{super().spec(plan)}"


class Sums(Choice):
    """A block sums a row that is one aligned block of the tree, and scans nothing."""

    kernel = "sums"

    @property
    def meets(self) -> bool:
        return False

    def grid(self, resident: Callable[[], int]) -> int:
        return self.rows

    def shared_bytes(self, plan: Plan) -> int:
        return 0

    def spec(self, plan: Plan) -> str:
        layout, shape = self.layout, self.shape
        numbers = {
            "DIMS": len(layout.dims), "ITEMS": shape.items, "WARPS": shape.warps, "STRIPS": shape.strips, "BLOCKS": shape.blocks,
            "THREADS": self.threads,
        }  # fmt: skip
        inputs = [{"grain": x.grain(x.size), "flip": x.along < 0} for x in layout.loads]
        outputs = [{"grain": x.grain(x.size)} for x in layout.stores]
        return declared(plan, layout, numbers, {}, inputs, outputs)


@dataclass(frozen=True)
class Tiles(Choice):
    """Blocks take tiles of long rows by ticket and look back; two warps of a block serve the others."""

    before: int = 0
    """The most bytes of a piece of memory before a row, where it is cut where pieces end."""
    kernel = "tiles"

    @property
    def tiles(self) -> int:
        return -(-(self.layout.n + self.before) // self.tile)

    @property
    def threads(self) -> int:
        return 32 * (self.shape.warps + 2)

    def shared_bytes(self, plan: Plan) -> int:
        own = rounded_up(self.room(plan).own, 128) * self.shape.warps
        return super().shared_bytes(plan) * self.shape.stages + own

    def reads_bits(self, plan: Plan) -> bool:
        turned_alike = self.shape.items * max(x.size for x in self.layout.arrays()) <= 128
        return self.shape.items in (8, 16, 32, 64) and turned_alike

    def room(self, plan: Plan) -> Room:
        apart = results_apart(plan, self.layout)
        tight = len(plan.accumulators) > 3 or _narrow_bytes(plan)
        return room_of(
            plan, self.layout, self.shape.lanes * self.shape.items, apart, tight, self.bits, keeps(plan)
        )

    def spec(self, plan: Plan) -> str:
        # Within segments items of a word or two become prefixes one after the other, where any order has the bits.
        (d, *others), free = plan.accumulators, any_order(plan) and plan.segmented and not plan.reduce
        chained = free and not others and d.itemsize <= 8
        return f"constexpr bool CHAINED = {str(chained).lower()};\n{super().spec(plan)}"

    def mode(self, plan: Plan, x: Lane, read: bool) -> str:
        if self.before:
            return "PLACED"
        return (not read and _dense(self.layout, x, self.shape, read)) or super().mode(plan, x, read)


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


def choose(plan: Plan, layout: Layout, chip: Chip) -> Choice:
    touching = all(abs(x.along) == x.size for x in (*layout.moving(), *lines.scanned(plan, layout)))
    if layout.dims and not touching and lines.fit(plan, layout):
        return columns.choose(plan, layout, layout.dims[-1], chip)
    # Sums of runs go past shared memory.
    along = replace(layout, stores=tuple(lines.scanned(plan, layout))) if plan.sums else layout
    return replace(_along(plan, along, chip), layout=layout)


def _along(plan: Plan, layout: Layout, chip: Chip) -> Choice:
    """The kernel of rows along memory, or of those that no other kernel takes better."""
    sums = _sums(plan, layout, chip)
    if sums is not None:
        return sums
    n, rows, item = layout.n, prod(layout.dims), words(plan, layout)
    packed, whole = packing(plan, layout) > 0, held(plan, layout)
    if fits_rows(whole, rows, item, packed):
        return Rows(for_rows(whole, rows, item, packed, not moved_together(layout)), layout, chip=chip)
    size = sum(places_of(plan, layout)) + plan.segmented
    small = for_small(n, rows, item, size, chip)
    if small is not None:
        return Rows(small, layout, chip=chip)
    turned = any(x.size >= 4 and mode(x, 16) == "SHIFTED" for x in layout.moving())
    reduced = plan.reduce and not (plan.segmented or costly(plan))
    resident = reducing(item, turned) if reduced else 0
    if fits_whole_rows(whole, rows, item, packed, size - plan.segmented, plan.segmented, reduced):
        even = all(mode(x, 16) == "ALIGNED" for x in (*layout.moving(), *layout.stores))
        return Rows(for_whole_rows(whole, item, packed, even, resident), layout, chip=chip)
    grouped = for_grouped(n, rows, item, size, resident) if reduced else None
    if grouped is not None:
        return Rows(grouped, layout, chip=chip)
    parts, in_tile, halved = (
        len(plan.accumulators),
        staged(plan, layout),
        costly(plan) or _turning(plan, layout),
    )
    read, again = words_read(layout), functions.reads_again(plan)
    shape = for_tiles(
        n,
        rows,
        item,
        read,
        parts,
        size,
        in_tile,
        plan.segmented,
        halved,
        packed,
        again,
        _gathered(plan, layout),
        chip.shared,
    )
    return Tiles(shape, layout, chip=chip, before=0 if plan.segmented else whole - n)


def _sums(plan: Plan, layout: Layout, chip: Chip) -> Sums | None:
    """The kernel of a reduction that needs no scan, or None."""
    moving = layout.moving()
    if not plan.reduce or plan.segmented or not moving or prod(layout.dims) < ROWS:
        return None
    shape = for_sums(layout.n, max(x.size for x in moving), sum(x.size for x in moving))
    return Sums(shape, layout, chip=chip) if shape and all(_even(x, shape.items) for x in moving) else None


def _even(x: Lane, items: int) -> bool:
    """Whether runs of so many items touch, and start at multiples of their size."""
    lowest = replace(x, offset=x.offset + (x.size if x.along < 0 else 0), along=0)
    return abs(x.along) == x.size and lowest.grain(items * x.size) == min(16, items * x.size)


def _gathered(plan: Plan, layout: Layout) -> int:
    """The sums of groups of lanes that a lane of a serving warp sweeps, or 0 where a warp's lanes are swept by themselves. Floats
    of eight bits that do not start at 16 bytes would leave no room for a third block."""
    even = all(mode(x, 16) == "ALIGNED" for x in (*layout.moving(), *layout.stores))
    kinds = {
        "narrow": _narrow_bytes(plan) and even,
        "costly": costly(plan),
        "several": len(plan.accumulators) == 4 and node_words(plan) == 4,
    }
    kind = next((kind for kind, true in kinds.items() if true), None)
    return 0 if plan.reduce or (plan.segmented and not costly(plan)) or kind is None else GATHERED[kind]


def _narrow_bytes(plan: Plan) -> bool:
    """Whether floats of eight bits are scanned."""
    return len(plan.loads) == 1 and plan.loads[0].itemsize == 1 and narrow(plan.loads[0]) is not None


def _turning(plan: Plan, layout: Layout) -> bool:
    """Whether words that do not start at 16 bytes are turned in registers."""
    arrays = (*layout.moving(), *layout.stores)
    return words(plan, layout) == 1 and any(x.size == 4 and mode(x, 16) == "SHIFTED" for x in arrays)
