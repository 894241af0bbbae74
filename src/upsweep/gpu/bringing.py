"""Copies of arrays in another order of their dimensions: a scan of rows of one item is a copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from upsweep.gpu.choice import Choice
from upsweep.gpu.layout import Lane, Layout
from upsweep.gpu.shapes import Chip
from upsweep.gpu.shapes.bringing import SIDE, for_bringing
from upsweep.gpu.text import declared
from upsweep.plan import Plan


@dataclass(frozen=True)
class Bring(Choice):
    """A block copies a tile of two dimensions, which are the last of the layout."""

    turned: bool = False
    """Whether neighbours in the array and neighbours in its copy lie along two dimensions."""
    kernel = "bring"

    @property
    def meets(self) -> bool:
        return False

    @property
    def tile(self) -> int:
        return self.shape.items * self.shape.lanes

    @property
    def tickets(self) -> int:
        *others, a, b = (1, *self.layout.dims)
        return prod(others) * -(-a // self.shape.items) * -(-b // self.shape.lanes)

    def grid(self, resident: Callable[[], int]) -> int:
        return self.tickets

    def shared_bytes(self, plan: Plan) -> int:
        size = self.layout.stores[0].size
        word = max(4, size)
        return self.turned * self.shape.lanes * word * (-(-self.shape.items * size // word) | 1)

    @property
    def pack(self) -> int:
        """Items of fewer than four bytes that move at once, in whole tiles of words in the array and in its copy."""
        (source,), (copy,) = self.layout.loads, self.layout.stores
        words = 4 // copy.size
        if words < 2 or not self.turned or not self.shape.items == self.shape.lanes == SIDE:
            return 1
        *others, a, b = range(len(self.layout.dims))
        if any(self.layout.dims[d] % words for d in (a, b)):
            return 1

        def even(x: Lane, near: int, far: int) -> bool:
            rest = replace(x, along=0, rows=tuple(x.rows[d] for d in (*others, far)))
            return x.rows[near] == copy.size and rest.grain() >= 4

        return words if even(source, a, b) and even(copy, b, a) else 1

    def spec(self, plan: Plan) -> str:
        shape, layout = self.shape, self.layout
        numbers = {
            "DIMS": len(layout.dims),
            "THREADS": self.threads,
            "TILE_A": shape.items,
            "TILE_B": shape.lanes,
            "PACK": self.pack,
        }

        def moved(arrays: Any) -> list[dict[str, Any]]:
            return [{"grain": x.grain(x.size)} for x in arrays]

        return declared(
            plan, layout, numbers, {"TURNED": self.turned}, moved(layout.loads), moved(layout.stores)
        )


def choose(plan: Plan, layout: Layout, chip: Chip) -> Bring | None:
    """The choice for a copy, or None for other scans and for copies of small tiles."""
    if not _is_copy(plan, layout):
        return None
    (source,), (copy,) = layout.loads, layout.stores
    *others, last = sorted(range(len(layout.dims)), key=lambda i: -abs(copy.rows[i]))
    # The side in which the array's neighbours lie; where that and the copy's are short, the next.
    nearest = sorted((*others, last), key=lambda i: (abs(source.rows[i]), i != last))
    for near in nearest[: nearest.index(last) + 1]:
        order = [*sorted(others, key=lambda i: i == near), last]
        a, b = (1, *[layout.dims[i] for i in order])[-2:]
        shape = for_bringing(a, b, copy.size)
        if shape:
            tiles = layout.with_rows([layout.dims[i] for i in order], order)
            made = Bring(shape, tiles, chip=chip, turned=near != last)
            return made if made.tickets < 1 << 31 else None
    return None


def _is_copy(plan: Plan, layout: Layout) -> bool:
    whole = plan.n == 1 and bool(layout.dims) and plan.loads == plan.accumulators == plan.stores
    plain = not (plan.reduce or plan.exclusive or plan.initial or plan.segmented)
    alone = plan.map is None and plan.finish is None and len(plan.loads) == 1
    return whole and plain and alone and not layout.loads[0].told
