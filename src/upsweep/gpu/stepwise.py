"""Scans of many rows item by item, whose neighbours lie otherwise in the results than in the input, or of which few lie together.
Blocks walk tiles of rows, as `bringing` cuts them, down the axis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from upsweep.gpu import bringing, bytewise
from upsweep.gpu.choice import Choice
from upsweep.gpu.demands import any_order
from upsweep.gpu.layout import Layout
from upsweep.gpu.shapes import LINE, Chip
from upsweep.gpu.shapes.bringing import BROUGHT, PIECES, SECTOR, STAGES, STEPPED_LEAST, blocks_for
from upsweep.gpu.sharing import rounded_up
from upsweep.operator import Operator
from upsweep.plan import Plan

Tiles = TypeVar("Tiles", bound=Choice)


@dataclass(frozen=True)
class Stepwise(bringing.Bring):
    """A block walks a tile of rows down the axis."""

    depth: int = 0
    """Levels of the counter of block sums; none where the order of the items has the bits."""
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

    @property
    def are_enough(self) -> bool:
        """Whether there are tiles enough, of few pieces and few lines a thread, whose bytes lie together."""
        few = self.held <= PIECES and self.lines * self.line_lanes <= BROUGHT * self.threads
        return few and self.tickets >= STEPPED_LEAST and self.together >= SECTOR

    def shared_bytes(self, plan: Plan) -> int:
        return self.shape.stages * self.stage

    def spec(self, plan: Plan) -> str:
        shape = self.shape
        numbers = {
            "DEPTH": self.depth,
            "STAGES": shape.stages,
            "STAGE_BYTES": self.stage,
            "BLOCKS": shape.blocks,
        }
        text = ", ".join(f"{name} = {value}" for name, value in numbers.items())
        return f"constexpr int {text};\n{super().spec(plan)}"


def choose(plan: Plan, layout: Layout, chip: Chip) -> tuple[Plan, Stepwise] | None:
    """The choice for rows that no other kernel moves well, and the plan that it is made for, of words of narrow items; None for
    others."""
    if not _fit(plan, layout):
        return None
    (item,), (y,) = plan.accumulators, layout.stores
    narrow = plan.loads == plan.accumulators and y.size < 4
    op = bytewise.operator_on_words(plan) if narrow else None
    depth = 0 if plan.order == "sequential" or any_order(plan) else layout.n.bit_length()
    # Threads would keep twice the prefixes: sums of bf16 by keys ran at .24 of a copy, brought first at .41 (H200).
    if depth and y.size < 4:
        return None
    for made in bringing.tiled(layout, chip):
        if made.turned:
            continue
        tiles = Stepwise(
            made.shape, made.layout, chip=chip, m_near=made.m_near, b_near=made.b_near, depth=depth
        )
        words = op is not None and tiles.in_words
        # Narrow items that are combined one by one are held as they come and as they go, besides.
        each = max(1, item.itemsize // 4) * (1 if words or tiles.at_once == 1 else 3 * tiles.at_once)
        blocks = blocks_for(tiles.held * each * (1 + 2 * max(0, depth - 1)))
        stages = blocks and min(STAGES, chip.shared // blocks // (tiles.stage + 256))
        if stages > 2 and tiles.are_enough and not (tiles.in_words and y.along % 4):
            tiles = replace(tiles, shape=replace(tiles.shape, blocks=blocks, stages=stages))
            return of_words(plan, tiles, op) if op is not None and words else (plan, tiles)
    return None


def of_words(plan: Plan, tiles: Tiles, op: Operator) -> tuple[Plan, Tiles]:
    """The same scan of words of narrow items."""
    word = np.dtype(np.uint32)
    truths = replace(tiles.layout, truths=plan.accumulators[0].kind == "b")
    words = replace(plan, op=op, loads=(word,), accumulators=(word,), stores=(word,))
    return words, replace(tiles, layout=truths)


def _fit(plan: Plan, layout: Layout) -> bool:
    """Whether single items are scanned that lie across the axis, but in no lines of columns."""
    if not are_single(plan, layout):
        return False
    (x,), (y,) = layout.loads, layout.stores
    size, line = plan.loads[0].itemsize, layout.dims[-1] * x.size
    across = min(abs(x.along), abs(y.along)) > max(x.size, y.size) == size and x.grain() >= size
    lines = x.rows[-1] == x.size and y.rows[-1] == y.size and line >= LINE
    return across and not lines


def are_single(plan: Plan, layout: Layout) -> bool:
    """Whether rows of single items are scanned as they are, which start alike and share their segments."""
    loads, stores = plan.loads, [d for d in plan.stores if d is not None]
    alone = (
        len(loads) == len(plan.accumulators) == 1 and [*loads] == stores and plan.map is plan.finish is None
    )
    if not alone or plan.reduce or plan.ahead is not None or not layout.dims:
        return False
    shared = layout.heads is None or layout.listed
    return (
        shared and layout.n > 1 and all(layout.loads[0].rows) and all(start.told for start in layout.starts)
    )
