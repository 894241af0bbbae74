"""Batches of few columns that lie one behind another: a lane walks down a column in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

from upsweep.gpu.choice import Abreast
from upsweep.gpu.demands import costly, words
from upsweep.gpu.layout import Lane, Layout, forward
from upsweep.gpu.shapes import Chip
from upsweep.gpu.shapes.batches import BATCHED_ROWS, NEAR, for_batches
from upsweep.gpu.shapes.short import FLAGS, KNOWN, STEP
from upsweep.gpu.sharing import rounded_up
from upsweep.gpu.text import declared
from upsweep.plan import Plan


@dataclass(frozen=True)
class Batches(Abreast):
    """A block holds whole batches, and a lane walks down a column of each of several."""

    kernel = "batches"

    @property
    def width(self) -> int:
        return self.threads * self.shape.vector

    def grid(self, resident: Callable[[], int]) -> int:
        return -(-self.rows // (self.threads // self.columns * self.shape.vector))

    def shared_bytes(self, plan: Plan) -> int:
        sizes = _sizes(plan, self.layout)
        between = _pad(self.layout) * (self.threads // self.columns) * self.shape.vector
        bits = rounded_up(-(-self.layout.n // 8), 16) if self.layout.listed else 0
        return bits + self.width * self.layout.n * sum(sizes) + (16 + between) * len(sizes)

    def spec(self, plan: Plan) -> str:
        layout, shape = self.layout, self.shape
        runs = -(-layout.n // shape.items)
        # In the last run of a column.
        sure = (layout.n - (runs - 1) * shape.items - 1) // STEP * STEP
        # Few lines have code for their number: of a copy (H200), without -> with it, 7 x 3 bytes .58 -> .705.
        numbers = {
            "DIMS": len(layout.dims) - 1, "ITEMS": shape.items, "VECTOR": shape.vector, "THREADS": self.threads,
            "LENGTH": layout.n if layout.n <= KNOWN else 0, "COLUMNS": self.columns, "PAD": _pad(layout),
            "LEVELS_OF_RUNS": runs.bit_length(), "SURE": sure, "MOST": min(sure + STEP, shape.items),
        }  # fmt: skip
        begins = accumulate([self.width * size for size in _sizes(plan, layout)], initial=0)
        places = [{"at": at, "place": i} for i, at in enumerate(begins)]
        apart = 0 if plan.reduce or _alike(layout) else len(layout.moving())

        def moved(arrays: Sequence[Lane], first: int) -> list[dict[str, Any]]:
            free = iter(places[first:])
            return [
                {"grain": x.grain(x.size), "flip": x.along < 0} | ({} if x.still else next(free))
                for x in arrays
            ]

        truths = {"SEQUENTIAL": plan.order == "sequential", "LISTED": layout.listed}
        return declared(plan, layout, numbers, truths, moved(layout.loads, 0), moved(layout.stores, apart))


def choose(plan: Plan, layout: Layout, chip: Chip) -> Batches | None:
    """The choice for whole batches that lie one behind another, or None for other rows."""
    if len(layout.dims) != 2 or prod(layout.dims) < BATCHED_ROWS or not _one_behind_another(plan, layout):
        return None
    sizes = _sizes(plan, layout)
    n, columns = layout.n, layout.dims[-1]
    whole = not costly(plan) and (n <= FLAGS or not plan.segmented)
    shape = for_batches(n, columns, words(plan, layout), whole, sum(sizes), min(sizes), chip.shared)
    return shape and Batches(shape, layout, columns, chip)


def _one_behind_another(plan: Plan, layout: Layout) -> bool:
    columns, arrays = layout.dims[-1], [*layout.moving(), *([] if plan.reduce else layout.stores)]
    whole = all(
        x.rows == (layout.n * columns * x.size, x.size)
        and abs(x.along) == columns * x.size
        and x.grain() >= x.size
        for x in arrays
    )
    return bool(layout.moving()) and whole and all(x.rows[-1] == x.size for x in layout.stores)


def _pad(layout: Layout) -> int:
    """Bytes between batches in shared memory. Else lanes of batches of a multiple of 128 bytes meet in the same banks."""
    arrays = [x for x in layout.arrays() if x.along]
    lines = [layout.dims[-1] * x.size for x in arrays]
    near = max(lines) <= NEAR and all(layout.n * line % 128 == 0 for line in lines)
    return 16 * (near and all(_begin(layout, x) == 0 for x in arrays))


def _begin(layout: Layout, x: Lane) -> int:
    """The remainder by 16 of where batches begin."""
    lowest = forward(x, layout.n)
    return (lowest.phase + lowest.offset) % 16


def _sizes(plan: Plan, layout: Layout) -> list[int]:
    """Bytes of an item in each place of shared memory. Results lie where the inputs lay, if each takes its own item's place."""
    read = [x.size for x in layout.moving()]
    return read if plan.reduce or _alike(layout) else [*read, *(x.size for x in layout.stores)]


def _alike(layout: Layout) -> bool:
    """Whether each result may take the place of an input item by item."""

    def place(x: Lane) -> tuple[int, bool, int]:
        return x.size, x.along < 0, _begin(layout, x)

    given, made = map(place, layout.moving()), [place(x) for x in layout.stores]
    return made == [x for x, _ in zip(given, made)]
