"""Scans in order: a warp walks rows side by side, item by item, and other warps serve it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from upsweep.gpu import functions
from upsweep.gpu.choice import Choice
from upsweep.gpu.demands import costly, words, words_passing
from upsweep.gpu.layout import Lane, Layout, forward, mode, patched
from upsweep.gpu.lines import scanned
from upsweep.gpu.shapes import Chip, Shape
from upsweep.gpu.shapes.walks import (
    HALF,
    Walking,
    for_loose,
    for_pieces,
    for_stretch,
    for_tree,
    for_walk,
)
from upsweep.gpu.sharing import item_of
from upsweep.gpu.text import declared
from upsweep.operators import variant_of
from upsweep.plan import Plan


def walk(plan: Plan, layout: Layout, across: bool, chip: Chip) -> Walk:
    stores = layout.stores
    # Sums of results go past the ring.
    layout = replace(layout, stores=tuple(scanned(plan, layout))) if plan.sums else layout
    if plan.ahead is not None:
        late = layout.loads[plan.ahead]
        loads = [replace(x, offset=x.offset + x.along) if x is late else x for x in layout.loads]
        layout = replace(layout, loads=tuple(loads))
    size = max(1, sum(x.size for x in layout.moving()) + plan.segmented)
    rows = prod(layout.dims)
    lines = [x for x in (*layout.arrays(), layout.heads) if x and patched(x)] if across else []
    grain = min((x.grain_of_lines(32, layout.dims[-1]) for x in lines), default=16)
    # An input that serves all columns decides neither how wide lines are nor how many may be on their way.
    largest = max(x.size for x in (*layout.stores, *(x for x in layout.loads if x in lines or not across)))
    read = max(1, sum(-(-x.size // 4) for x in (*layout.loads, layout.heads) if x in lines))
    walking = for_walk(layout.n, rows, words_passing(plan, layout), size, largest, across, grain, read)
    if lines and grain < 16:
        columns, sizes = layout.dims[-1], [x.size for x in lines]
        form = columns, rows // columns, words_passing(plan, layout), sizes
        stretched = all(_stretches(x, layout) for x in lines) and for_stretch(layout.n, *form)
        walking = stretched or (_are_whole(lines) and for_loose(*form, size)) or walking
    if walking.apart and (plan.map is not None or plan.loads != plan.accumulators):
        width = 32 // walking.row_lanes * walking.vector
        near = min(x.grain_of_lines(width, layout.dims[-1]) // x.size for x in lines)
        size = sum(d.itemsize for d in plan.accumulators)
        walking = walking.mapping(size, for_pieces(near, largest, rows))
    return _made(plan, replace(layout, stores=stores), layout.dims[-1] if across else 0, chip, walking)


def along_tree(plan: Plan, layout: Layout, chip: Chip) -> Walk | None:
    """The walk of many columns along the tree, where their lines begin anywhere. No block waits for another one."""
    lines = [x for x in (*layout.arrays(), layout.heads) if x and patched(x)]
    columns = layout.dims[-1]
    uneven = min((x.grain_of_lines(32, columns) for x in lines), default=16) < 16
    known = variant_of(plan.op, plan.accumulators) is not None and not costly(plan)
    items = min(x.size for x in layout.arrays()) >= HALF and not (layout.bytes or layout.truths)
    if plan.reduce or plan.sums or plan.line > 1 or not (known and items and uneven and _are_whole(lines)):
        return None
    read = [x.size for x in layout.moving()]
    form = layout.n, columns, prod(layout.dims[:-1]), words(plan, layout), [x.size for x in lines]
    walking = for_tree(*form, sum(read) + plan.segmented, sum(map(patched, layout.loads)) == 1)
    return walking and _made(plan, layout, columns, chip, walking)


def _made(plan: Plan, layout: Layout, columns: int, chip: Chip, walking: Walking) -> Walk:
    shape = Shape(walking.items, 1, walking.walks, vector=walking.vector)
    walk = Walk(shape, layout, columns, chip, walking=walking)
    return replace(walk, walking=walking.fitted(walk.stage(plan), chip.shared - walk.counter(plan)))


def _are_whole(lines: Sequence[Lane]) -> bool:
    """Whether items lie at multiples of their size."""
    return all(replace(x, rows=x.rows[:-1]).grain(x.size) == x.size for x in lines)


def _stretches(x: Lane, layout: Layout) -> bool:
    """Whether the lines of columns lie one behind another, from 16 bytes on."""
    columns = layout.dims[-1] * x.size
    whole = replace(forward(x, layout.n), rows=x.rows[:-1])
    return abs(x.along) == columns and whole.grain(layout.n * columns) == 16


_Lines = list[dict[str, Any]]
NOT_WALKING = Walking(1, 1, 1, 1, 1, 1)


@dataclass(frozen=True)
class Walk(Choice):
    """A warp walks 32 rows or more, item by item. Other warps bring the items."""

    walking: Walking = NOT_WALKING
    kernel = "walk"

    @property
    def meets(self) -> bool:
        return False

    @property
    def across(self) -> bool:
        return self.columns > 0

    @property
    def threads(self) -> int:
        walking = self.walking
        walkers = walking.walkers * walking.team
        return 32 * (walkers + walking.servers + (walking.servers - 1) // 3 * walking.apart)

    @property
    def by_lines(self) -> bool:
        """Whether lines of many columns come as they lie, in pieces of 16 bytes."""
        return self.across and not self.walking.turned and not self.walking.loose

    @property
    def width(self) -> int:
        return 32 // self.walking.row_lanes * self.walking.vector * self.walking.walkers

    def grid(self, resident: Callable[[], int]) -> int:
        return self.rows * self.column_groups if self.across else -(-self.rows // self.width)

    def shared_bytes(self, plan: Plan) -> int:
        return self.walking.stages * self.stage(plan) + self.counter(plan)

    def counter(self, plan: Plan) -> int:
        """Bytes of the block sums of all columns, and of what stands before each block."""
        if not self.walking.tree:
            return 0
        levels = (-(-self.layout.n // self.walking.items)).bit_length()
        return ((2 * levels + 1) * item_of(plan)[0] + 4 * plan.segmented) * self.width

    @property
    def run(self) -> int:
        """Steps whose results are summed, where they are."""
        walking = self.walking
        return walking.steps // (walking.row_lanes * walking.piece if walking.mapped else 1)

    def stage(self, plan: Plan) -> int:
        """Bytes of a stage."""
        return self._parts(plan)[3]["STAGE_BYTES"]

    def spec(self, plan: Plan) -> str:
        inputs, outputs, components, numbers = self._parts(plan)
        walking, last = self.walking, len(outputs) - 1
        inputs = [{**x, "pitch": self._pitch(lane)} for x, lane in zip(inputs, self.layout.loads)]
        outputs = [
            {**x, "pitch": self._pitch(lane), "run": plan.run if o == last else 1}
            for o, (x, lane) in enumerate(zip(outputs, self.layout.stores))
        ]
        numbers |= {
            "DIMS": len(self.layout.dims) - self.across, "ITEMS": walking.items, "VECTOR": walking.vector,
            "STEPS": walking.steps, "AHEAD": -1 if plan.ahead is None else plan.ahead, "STAGES": walking.stages,
            "THREADS": self.threads,
            "BLOCKS": walking.walks, "SERVERS": walking.servers, "WALKERS": walking.walkers,
            "ROW_LANES": walking.row_lanes, "PIECE": walking.piece,
            "COLUMNS": self.columns if walking.stretch else 0, "TEAM": walking.team,
            "HEADS_BYTES": 4 * plan.segmented * self.width if walking.tree else 0,
        }  # fmt: skip
        truths = {
            "ACROSS": self.across,
            "TURNED": walking.turned,
            "APART": walking.apart,
            "MAPPED": walking.mapped,
            "ANYWHERE": walking.loose,
            "TREE": walking.tree,
        }
        return declared(plan, self.layout, numbers, truths, inputs, outputs, components)

    def _parts(self, plan: Plan) -> tuple[_Lines, _Lines, _Lines, dict[str, int]]:
        """The text's lines for each input, each output and each component, and for a stage: the place of each array in it and the
        way it is copied.
        """
        end, inputs, outputs, components = (
            self._parts_mapped if self.walking.mapped else self._parts_as_read
        )(plan)
        heads = self.layout.heads
        said = {"HEADS_AT": end, "HEADS_ALONE": 0, "HEADS_FLIP": 0, "HEADS_GRAIN": 1, "HEADS_PITCH": 0}
        if heads is not None:
            alone = self._alone(heads)
            # Along rows whose first head lies outside, heads come one by one.
            apart = not self.across and plan.reverse != plan.ends
            said |= {
                "HEADS_ALONE": int(alone),
                "HEADS_FLIP": int(not apart and self._flips(heads)),
                "HEADS_GRAIN": 1 if apart else self._grain(heads, alone),
                "HEADS_PITCH": self._pitch(heads),
            }
            end += self._room(heads.size, alone)
        return inputs, outputs, components, {**said, "STAGE_BYTES": max(1, -(-end // 128)) * 128}

    def _parts_mapped(self, plan: Plan) -> tuple[int, _Lines, _Lines, _Lines]:
        """Of stages that hold components, and the inputs that the finish reads. Prefixes take the place of components that
        the operator does not hand on."""
        end, inputs, components = 0, [], []
        for x, again in zip(self.layout.loads, functions.read_by_finish(plan)):
            alone = not x.still and self._alone(x)
            lies = alone or (again and not x.still)
            grain = x.grain(x.size)
            inputs.append({"at": end if lies else -1, "alone": alone, "flip": False, "grain": grain})
            end += self._room(x.size, alone) if lies else 0
        kept = [plan.exclusive or not handed for handed in functions.handed_on(plan)]
        if plan.reduce:
            kept = [False] * len(kept)
        elif plan.finish is None:
            kept = [keep and stored is not None for keep, stored in zip(kept, plan.stores)]
        for d, keep in zip(plan.accumulators, kept):
            components.append({"at": end, "kept": keep})
            end += self._room(d.itemsize, False)
        outputs = [
            {"at": 0, "flip": False, "grain": x.grain(x.size), "reduced_grain": x.grain(x.size)}
            for x in self.layout.stores
        ]
        return end, inputs, outputs, components

    def _parts_as_read(self, plan: Plan) -> tuple[int, _Lines, _Lines, _Lines]:
        """Of stages that hold inputs, in the place of which results are written."""
        end, inputs, outputs = 0, [], []
        # Places whose items make way for results.
        free: list[tuple[tuple[Any, ...], int]] = []
        for x in self.layout.loads:
            if x.still:
                inputs.append({"at": -1, "alone": False, "flip": False, "grain": x.grain(x.size)})
                continue
            alone = self._alone(x)
            flipped = self._flips(x) and not alone
            inputs.append({"at": end, "alone": alone, "flip": flipped, "grain": self._grain(x, alone)})
            if not alone:
                free.append((self._kind(x), end))
            end += self._room(x.size, alone)
        for o, x in enumerate(self.layout.stores):
            if plan.reduce or o == len(self.layout.stores) - plan.sums:
                outputs.append({"at": 0, "flip": False, "grain": 1, "reduced_grain": x.grain(x.size)})
                continue
            place = next((p for p in free if p[0] == self._kind(x)), None)
            if place is not None:
                free.remove(place)
            at = place[1] if place is not None else end
            end += 0 if place is not None else self._room(x.size, False)
            outputs.append(
                {"at": at, "flip": self._flips(x), "grain": self._grain(x, False), "reduced_grain": 1}
            )
        return end, inputs, outputs, []

    def _alone(self, x: Lane) -> bool:
        """Whether all rows of a block read the same items."""
        return x.rows[-1] == 0 if self.across else not any(x.rows)

    def _flips(self, x: Lane) -> bool:
        if self.walking.stretch:
            return x.along < 0
        return not self.across and x.along == -x.size and self._grain(x, False) == 16

    def _kind(self, x: Lane) -> tuple[Any, ...]:
        """The same for arrays of which one may take the place of another."""
        return x.size, self._flips(x), self.walking.loose and x.begins()

    def _pitch(self, x: Lane) -> int:
        """Bytes from line to line in a stage, where lines keep their remainder by 16."""
        return self.width * x.size + 16 + x.along % 16 if self.walking.loose else 0

    def _grain(self, x: Lane, alone: bool) -> int:
        """Bytes that are copied at once, of rows that lie apart."""
        if alone or self.walking.turned:
            return x.grain(x.size)
        if self.across:
            return x.grain_of_lines(self.width, self.columns)
        return 16 if mode(x, 16) == "ALIGNED" and self.walking.steps * x.size % 16 == 0 else x.grain(x.size)

    def _room(self, size: int, alone: bool) -> int:
        line = self.walking.steps * size
        if self.walking.loose and not alone:
            line = self.walking.steps * (self.width * size + 31) + 15
        elif self.walking.stretch and not alone:
            line *= self.columns
        elif not alone:
            lined = self.across and not self.walking.turned
            line = line * self.width if lined else (line + 16) * self.width
        return -(-line // 16) * 16
