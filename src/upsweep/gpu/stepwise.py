"""Scans of many rows item by item, whose neighbours lie otherwise in the results than in the input, or of which few lie together.
Blocks walk tiles of rows, as `bringing` cuts them, down the axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from upsweep.gpu import bringing, bytewise
from upsweep.gpu.demands import any_order
from upsweep.gpu.layout import Layout
from upsweep.gpu.shapes import LINE, Chip
from upsweep.gpu.shapes.bringing import PIECES, SECTOR, STAGES, STEPPED, STEPPED_LEAST
from upsweep.gpu.sharing import rounded_up
from upsweep.plan import Plan


class Stepwise(bringing.Bring):
    """A block walks a tile of rows down the axis."""

    kernel = "stepwise"

    @property
    def stage(self) -> int:
        return rounded_up(self.tile_bytes, 128)

    @property
    def held(self) -> int:
        """Pieces of a thread, whose prefixes it keeps."""
        a, m, b = self.sides
        if self.step:
            return -(-m * b // (self.step * self.at_once))
        own = self.pieces * self.run_step * (1 if self.m_run else m)
        return -(-own // self.threads) * -(-a // self.run_step)

    @property
    def together(self) -> int:
        """Bytes that lie together, in the input or in the results, whichever has fewer."""
        _, m, b = self.sides
        run = (m if self.m_run else 1) * b * self.size
        return min(run, (self.line_words - 1) * self.word)

    def shared_bytes(self, plan: Plan) -> int:
        return self.shape.stages * self.stage

    def spec(self, plan: Plan) -> str:
        numbers = f"constexpr int STAGES = {self.shape.stages}, STAGE_BYTES = {self.stage}, BLOCKS = {self.shape.blocks};"
        return f"{numbers}\n{super().spec(plan)}"


def choose(plan: Plan, layout: Layout, chip: Chip) -> tuple[Plan, Stepwise] | None:
    """The choice for rows that no other kernel moves well, and the plan that it is made for, of words of narrow items; None for
    others."""
    if not _fit(plan, layout):
        return None
    (y,) = layout.stores
    tiles = next(_steps(layout, chip), None)
    if tiles is None or y.size >= 4:
        return tiles and (plan, tiles)
    op, word = bytewise.operator_on_words(plan), np.dtype(np.uint32)
    if op is None or not tiles.in_words or y.along % 4:
        return None
    truths = replace(tiles.layout, truths=plan.accumulators[0].kind == "b")
    words = replace(plan, op=op, loads=(word,), accumulators=(word,), stores=(word,))
    return words, replace(tiles, layout=truths)


def _steps(layout: Layout, chip: Chip) -> Iterator[Stepwise]:
    """Tiles of many stages, of which there are enough, whose pieces are few, and whose bytes lie together."""
    for made in bringing.tiled(layout, chip):
        steps = Stepwise(made.shape, made.layout, chip=chip, m_near=made.m_near, b_near=made.b_near)
        stages = min(STAGES, chip.shared // STEPPED // (steps.stage + 256))
        few = steps.held <= PIECES and steps.tickets >= STEPPED_LEAST
        if few and stages > 2 and steps.together >= SECTOR:
            yield replace(steps, shape=replace(steps.shape, blocks=STEPPED, stages=stages))


def _fit(plan: Plan, layout: Layout) -> bool:
    """Whether single items are scanned in any order, or in theirs, and lie across the axis, but in no lines of columns."""
    dtypes = [d for d in (*plan.loads, *plan.accumulators, *plan.stores) if d]
    alone = len(dtypes) == 3 and len(set(dtypes)) == 1 and plan.map is plan.finish is None
    if (
        not alone
        or plan.reduce
        or plan.ahead is not None
        or not (plan.order == "sequential" or any_order(plan))
    ):
        return False
    (x,), (y,) = layout.loads, layout.stores
    shared = layout.heads is None or layout.listed
    moving = layout.n > 1 and all(x.rows) and all(start.told for start in layout.starts)
    across = min(abs(x.along), abs(y.along)) > max(x.size, y.size) == dtypes[0].itemsize
    lines = (
        layout.dims[-1:]
        and x.rows[-1] == x.size
        and y.rows[-1] == y.size
        and layout.dims[-1] * x.size >= LINE
    )
    return bool(layout.dims) and moving and shared and across and x.grain() >= x.size and not lines
