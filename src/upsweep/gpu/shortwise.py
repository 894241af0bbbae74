"""Scans of short rows whose neighbours lie otherwise in the results than in the input: a block brings a tile of whole rows, as
`bringing` cuts them, and scans these before it writes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from upsweep.gpu import bringing, bytewise
from upsweep.gpu.demands import any_order, light, words
from upsweep.gpu.layout import Lane, Layout
from upsweep.gpu.shapes import Chip, power_of_two
from upsweep.gpu.shapes.bringing import MOST, STEPPED_LEAST
from upsweep.gpu.shapes.short import fits_short
from upsweep.gpu.short import are_turned
from upsweep.gpu.stepwise import are_single, of_words
from upsweep.plan import Plan


@dataclass(frozen=True)
class Shortwise(bringing.Bring):
    """A tile has whole rows, along one of its sides."""

    kernel = "shortwise"

    @property
    def axis(self) -> int:
        """The side along the axis: its items lie apart as rows do that the layout has in this dimension."""
        (y,), n = self.layout.stores, self.layout.n
        return next(i for i in range(3) if self.layout.dims[i - 3] == n and y.rows[i - 3] == y.along)

    @property
    def whole(self) -> bool:
        return self.sides[self.axis] == self.layout.n

    def are_words(self, op: object) -> bool:
        """Whether the operator takes words of neighbours in the input, of which no side of a tile cuts one."""
        (source,), (a, *_) = self.layout.loads, self.sides
        count = 4 // self.size
        near = op is not None and count > 1 and self.axis > 0 and source.rows[-3] == self.size
        return near and a % count == self.layout.dims[-3] % count == 0 and self._grain_of_words(source) == 4

    def _grain_of_words(self, source: Lane) -> int:
        return min(4, replace(source, rows=(*source.rows[:-3], *source.rows[-2:])).grain())

    def spec(self, plan: Plan) -> str:
        n, rank = self.layout.n, len(self.layout.dims)
        numbers = {"AXIS": rank - 3 + self.axis, "LENGTH": n, "ITEMS": max(2, power_of_two(n))}
        sequential = plan.order == "sequential" or any_order(plan)
        text = ", ".join(f"{name} = {value}" for name, value in numbers.items())
        return f"constexpr int {text};\nconstexpr bool SEQUENTIAL = {str(sequential).lower()};\n{super().spec(plan)}"


def choose(plan: Plan, layout: Layout, chip: Chip) -> tuple[Plan, Shortwise] | None:
    """The choice for short rows that would be brought first, and the plan that it is made for, of words of narrow items; None for
    others."""
    if not _fit(plan, layout):
        return None
    narrow = plan.loads == plan.accumulators and layout.stores[0].size < 4
    op = bytewise.operator_on_words(plan) if narrow else None
    for made in bringing.tiled(_with_axis(layout), chip):
        tiles = Shortwise(made.shape, made.layout, chip=chip, m_near=made.m_near, b_near=made.b_near)
        if made.turned or not tiles.whole or tiles.shared_bytes(plan) > MOST:
            continue
        if tiles.tickets < STEPPED_LEAST:
            return None
        return of_words(plan, tiles, op) if op is not None and tiles.are_words(op) else (plan, tiles)
    return None


def _fit(plan: Plan, layout: Layout) -> bool:
    """Whether rows of single items are short, and neighbours lie along one dimension in the input and along another in the
    results."""
    if not are_single(plan, layout) or are_turned(plan, layout):
        return False
    rows = _with_axis(layout)
    nearest = [min(range(len(x.rows)), key=lambda i: abs(x.rows[i])) for x in rows.arrays()]
    apart = len({*nearest}) == 2 and all(x.grain() >= x.size == layout.stores[0].size for x in layout.arrays())
    return apart and fits_short(
        layout.n, words(plan, layout), plan.segmented, layout.listed, light(plan)
    )


def _with_axis(layout: Layout) -> Layout:
    """The layout with the axis as its last dimension, too."""

    def longer(x: Lane) -> Lane:
        return replace(x, rows=(*x.rows, x.along))

    return replace(
        layout,
        dims=(*layout.dims, layout.n),
        loads=tuple(map(longer, layout.loads)),
        stores=tuple(map(longer, layout.stores)),
        starts=tuple(replace(x, rows=(*x.rows, 0)) for x in layout.starts),
        heads=layout.heads and replace(layout.heads, rows=(*layout.heads.rows, 0)),
    )
