"""Scans of short rows that lie one behind another in the results, while neighbours in the input lie along another dimension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from upsweep.gpu import bytewise
from upsweep.gpu.choice import Choice
from upsweep.gpu.demands import any_order, light, words
from upsweep.gpu.layout import Lane, Layout
from upsweep.gpu.shapes import Chip, power_of_two
from upsweep.gpu.shapes.bringing import STEPPED_LEAST
from upsweep.gpu.shapes.short import fits_short
from upsweep.gpu.shapes.shortwise import for_shortwise
from upsweep.gpu.stepwise import are_single, of_words
from upsweep.gpu.text import declared
from upsweep.plan import Plan


@dataclass(frozen=True)
class Shortwise(Choice):
    """A tile has `strips` rows one behind another in the results, for each of `lanes` neighbours in the input, which are the last
    dimensions of the layout; a thread has `vector` rows one behind another."""

    kernel = "shortwise"

    @property
    def meets(self) -> bool:
        return False

    @property
    def tile(self) -> int:
        return self.layout.n

    @property
    def tickets(self) -> int:
        *others, a, m = self.layout.dims
        return prod(others) * -(-a // self.shape.lanes) * -(-m // self.shape.strips)

    def grid(self, resident: Callable[[], int]) -> int:
        return self.tickets

    @property
    def pitch(self) -> int:
        """Bytes from run to run in shared memory, where runs have a word more that their last piece may read."""
        run = self.shape.strips * self.layout.n * self.layout.stores[0].size
        return (-(-(run + 4) // 16) | 1) * 16

    def shared_bytes(self, plan: Plan) -> int:
        return self.shape.lanes * self.pitch

    def spec(self, plan: Plan) -> str:
        layout, shape = self.layout, self.shape
        (y,), n = layout.stores, layout.n
        numbers = {
            "DIMS": len(layout.dims), "THREADS": self.threads, "ITEM_BYTES": y.size, "TILE_A": shape.lanes,
            "TILE_M": shape.strips, "UNIT": shape.vector, "PITCH": self.pitch, "LENGTH": n,
            "ITEMS": max(2, power_of_two(n)),
        }  # fmt: skip
        truths = {"SEQUENTIAL": plan.order == "sequential" or any_order(plan), "FLIP": y.along < 0}
        return declared(plan, layout, numbers, truths, [{}], [{}])


def choose(plan: Plan, layout: Layout, chip: Chip) -> tuple[Plan, Shortwise] | None:
    """The choice for such rows, and the plan that it is made for, of words of narrow items; None for others."""
    pick = _sides(plan, layout)
    if pick is None:
        return None
    tiles = layout.with_rows([layout.dims[i] for i in pick], pick)
    (x,), (y,), (*_, a, m), n = tiles.loads, tiles.stores, tiles.dims, tiles.n
    narrow = plan.loads == plan.accumulators and y.size < 4
    op = bytewise.operator_on_words(plan) if narrow else None
    each = 4 // y.size if op is not None and _in_words(tiles, x) else 1
    shape = for_shortwise(a, m, n, y.size, each)
    made = Shortwise(shape, tiles, chip=chip)
    if not STEPPED_LEAST <= made.tickets < 1 << 31:
        return None
    return of_words(plan, made, op) if op is not None and each > 1 else (plan, made)


def _sides(plan: Plan, layout: Layout) -> list[int] | None:
    """The dimensions, last that of neighbours in the input and that of rows one behind another in the results; None where these
    are not two, or where a thread holds no row."""
    if not are_single(plan, layout):
        return None
    (x,), (y,), dims = layout.loads, layout.stores, range(len(layout.dims))
    near = next((i for i in dims if x.rows[i] == x.size), None)
    behind = next((i for i in dims if y.rows[i] == layout.n * y.size), None)
    lie = abs(y.along) == y.size == x.size and abs(x.along) > x.size and min(x.grain(), y.grain()) >= x.size
    fits = fits_short(layout.n, words(plan, layout), plan.segmented, layout.listed, light(plan))
    if near is None or behind in (None, near) or not (lie and fits):
        return None
    return [*(i for i in dims if i not in (near, behind)), near, behind]


def _in_words(tiles: Layout, x: Lane) -> bool:
    """Whether neighbours in the input are words of narrow items."""
    *rows, _, m = x.rows
    return tiles.dims[-2] % (4 // x.size) == 0 and replace(x, rows=(*rows, m)).grain() >= 4
