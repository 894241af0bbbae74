"""Short axes: a lane holds whole rows in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from math import prod
from typing import Any

from upsweep.gpu.choice import Abreast
from upsweep.gpu.demands import moved_together, packing, words
from upsweep.gpu.layout import GAP, Lane, Layout, forward, near_rows
from upsweep.gpu.shapes import Chip
from upsweep.gpu.shapes.rows import CUT
from upsweep.gpu.shapes.short import KNOWN, STEP, TURNED, TURNED_LEAST, for_dense, for_short, for_turned
from upsweep.gpu.shapes.walks import VECTOR_ROWS
from upsweep.gpu.text import declared
from upsweep.plan import Plan


def short(plan: Plan, layout: Layout, chip: Chip) -> Short:
    columns, rows = layout.dims[-1], prod(layout.dims)
    arrays = [x for x in layout.arrays() if x.rows[-1]]
    grain = max(1, min(_line_grain(layout, x, 16 // x.size, columns) // x.size for x in arrays))
    largest = max(x.size for x in arrays)
    return Short(for_short(layout.n, rows, words(plan, layout), largest, grain), layout, columns, chip)


def _line_grain(layout: Layout, x: Lane, vector: int, columns: int) -> int:
    """The largest power of two that divides the address of every `vector` neighbours; the axis has steps if it is longer
    than one item."""
    return (x if layout.n > 1 else replace(x, along=0)).grain_of_lines(vector, columns)


def are_dense(plan: Plan, layout: Layout) -> bool:
    """Whether a lane takes whole rows that lie one behind another: rows of so few bytes that lanes which share one would do
    little, or rows that do not begin at 16 bytes."""
    n, arrays = layout.n, [*layout.moving(), *([] if plan.reduce else layout.stores)]
    if not arrays or not layout.dims or prod(layout.dims) < VECTOR_ROWS:
        return False
    if plan.reduce and any(x.rows[-1] != x.size for x in layout.stores):
        return False
    dense = all(near_rows(layout, x) and x.grain() >= x.size for x in arrays)
    # Rows at a pitch of a multiple of 32 bytes lie in so few banks that lanes wait for each other: f4 of 31 at 32 ran at .42 of a
    # copy so, at .61 row by row (H200).
    apart = all(x.rows[-1] % 32 for x in arrays if _gap(layout, x))
    uneven = any(forward(x, n).grain() < 16 or (plan.reduce and x.rows[-1] % 32) for x in arrays)
    # A head for each item of each row is a byte that a lane reads by itself; of one list for all rows it hits the cache.
    long = layout.heads is not None and any(layout.heads.rows) and n > KNOWN
    cut = plan.order == "tree" and n > CUT and packing(plan, layout) > 0
    shared = cut and moved_together(layout)
    return (
        dense
        and apart
        and uneven
        and not (long or shared)
        and not any(x.rows[-1] for x in layout.loads if x.still)
    )


def are_turned(plan: Plan, layout: Layout) -> bool:
    """Whether rows lie one behind another in some arrays, and side by side in others, so that a lane turns them in registers."""
    arrays = [*layout.moving(), *layout.stores]
    if (
        plan.reduce
        or plan.sums
        or not 1 < layout.n < TURNED
        or not layout.dims
        or layout.dims[-1] < TURNED_LEAST
    ):
        return False
    pitches = [layout.n * x.size if _behind(x) else x.size for x in arrays]
    lie = all(x.rows[-1] == pitch and x.grain() >= x.size for x, pitch in zip(arrays, pitches))
    told = all(x.told for x in layout.loads if x.still)
    return lie and told and (layout.heads is None or layout.listed) and len({*map(_behind, arrays)}) == 2


def _behind(x: Lane) -> bool:
    """Whether the items of a row are neighbours."""
    return abs(x.along) == x.size


def _gap(layout: Layout, x: Lane) -> int:
    """Bytes between the innermost rows of an array."""
    return x.rows[-1] - layout.n * x.size if _behind(x) else 0


def dense(plan: Plan, layout: Layout, chip: Chip) -> Short:
    arrays = [*layout.moving(), *([] if plan.reduce else layout.stores)]
    sizes, n = [x.size for x in arrays], layout.n
    shape = (
        for_dense(n, words(plan, layout), min(sizes))
        if all(map(_behind, arrays))
        else for_turned(n, max(sizes))
    )
    return Short(shape, layout, layout.dims[-1], chip, dense=True)


@dataclass(frozen=True)
class Short(Abreast):
    """A lane holds the items of its rows in registers."""

    dense: bool = False
    """Whether rows lie one behind another, in all arrays or in some."""
    kernel = "short"

    @property
    def width(self) -> int:
        return self.shape.vector * (self.threads if self.dense else 1)

    def grid(self, resident: Callable[[], int]) -> int:
        units = self.rows * self.column_groups
        return units if self.dense else -(-units // self.threads)

    def shared_bytes(self, plan: Plan) -> int:
        if not self.dense:
            return 0
        rest = 16 + self.width * self.gap
        return sum(self.width * self.layout.n * size + rest for size in self.sizes(plan))

    def sizes(self, plan: Plan) -> list[int]:
        """Bytes of an item in each place of shared memory. A reduction's results go to memory from registers."""
        stores = () if plan.reduce else self.layout.stores
        read, written = ([x.size for x in arrays if _behind(x)] for arrays in (self.layout.moving(), stores))
        return [max(pair) for pair in zip_longest(read, written, fillvalue=0)]

    @property
    def gap(self) -> int:
        """Bytes that shared memory has for what lies between two rows."""
        return GAP if any(_gap(self.layout, x) for x in self.layout.arrays()) else 0

    def spec(self, plan: Plan) -> str:
        layout, vector = self.layout, self.shape.vector
        n = layout.n
        length = n if self.dense and n <= KNOWN else 0
        sure = (n - 1) // STEP * STEP
        numbers = {
            "DIMS": len(layout.dims) - 1, "ITEMS": self.shape.items, "VECTOR": vector, "THREADS": self.threads,
            "LENGTH": length, "SURE": sure, "MOST": sure + STEP,
            "GAP": self.gap if self.dense else 0,
        }  # fmt: skip

        def behind(x: Lane) -> bool:
            return self.dense and _behind(x)

        def grain(x: Lane) -> int:
            if behind(x):
                lowest, row = forward(x, layout.n), layout.n * x.size
                if _gap(layout, x):
                    return lowest.grain(row)
                return replace(lowest, rows=x.rows[:-1]).grain(vector * row)
            lines = x.rows[-1] and not x.still
            return _line_grain(layout, x, vector, self.columns) if lines else x.grain(x.size)

        sizes = self.sizes(plan)
        begins = accumulate([self.width * size for size in sizes], initial=0)
        places = [{"at": at, "place": i} for i, at in enumerate(begins)]

        def moved(arrays: Sequence[Lane]) -> list[dict[str, Any]]:
            free = iter(places)
            return [
                {
                    "grain": grain(x),
                    "flip": x.along < 0,
                    "behind": behind(x),
                    "apart": behind(x) and _gap(layout, x) > 0,
                }
                | (next(free) if behind(x) else {})
                for x in arrays
            ]

        truths = {"SEQUENTIAL": plan.order == "sequential", "BEHIND": self.dense, "LISTED": layout.listed}
        inputs, outputs = (
            moved(layout.loads),
            moved(
                layout.stores
                if self.dense and plan.reduce
                else [replace(x, along=x.along or x.size) for x in layout.stores]
            ),
        )
        return declared(plan, layout, numbers, truths, inputs, outputs)
