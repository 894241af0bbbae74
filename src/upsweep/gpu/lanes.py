"""Kernels in which a lane has rows to itself: short axes in registers, and scans in order walked item by item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from upsweep.gpu import compile, shapes
from upsweep.gpu.layout import Choice, Lane, Layout, declared, mode, words
from upsweep.gpu.shapes import Shape, Walking
from upsweep.operators import free
from upsweep.plan import Plan


def choose(plan: Plan, layout: Layout) -> Choice | None:
    """The kernel of a scan that gives its rows to lanes, or None where the tree is swept by many."""
    across = _are_neighbours(layout)
    if across and plan.finish is None and shapes.fits_short(layout.n, words(plan)):
        return _short(plan, layout)
    if plan.order == "tree" or (free(plan.op, plan.accumulators) and prod(layout.dims) < shapes.ROWS):
        return None
    arrays = [x for x in (*layout.loads, *layout.stores) if x is not None and x.along]
    return _walk(plan, layout, across and any(abs(x.along) != x.size for x in arrays))


def _are_neighbours(layout: Layout) -> bool:
    """Whether the innermost rows are neighbours in memory, in results, or at least one and the same, in what is read."""
    if not layout.dims:
        return False
    stores = [s for s in layout.stores if s is not None]
    near = all(x.rows[-1] in (0, x.size) for x in layout.loads) and all(s.rows[-1] == s.size for s in stores)
    heads = layout.heads is None or layout.heads.rows[-1] in (0, 1)
    return near and heads and layout.dims[-1] * min(s.size for s in stores) >= shapes.LINE


def _short(plan: Plan, layout: Layout) -> Short:
    columns, rows = layout.dims[-1], prod(layout.dims)
    arrays = [x for x in (*layout.loads, *layout.stores) if x is not None and x.rows[-1]]
    grain = max(1, min(_line_grain(layout, x, 16 // x.size, columns) // x.size for x in arrays))
    largest = max(x.size for x in arrays)
    return Short(shapes.for_short(layout.n, rows, words(plan), largest, grain), layout, columns)


def _line_grain(layout: Layout, x: Lane, vector: int, columns: int) -> int:
    """The largest power of two that divides the address of every `vector` neighbours; the axis has steps if it is longer
    than one item."""
    return (x if layout.n > 1 else replace(x, along=0)).grain_of_lines(vector, columns)


class Short(Choice):
    """A lane holds the items of its rows in registers."""

    kernel = "short"
    meets = False
    THREADS = 128

    @property
    def across(self) -> bool:
        return True

    @property
    def width(self) -> int:
        return self.shape.vector

    @property
    def threads(self) -> int:
        return self.THREADS

    def grid(self, resident: Callable[[], int]) -> int:
        return -(-self.rows * self.column_groups // self.THREADS)

    def shared_bytes(self, plan: Plan) -> int:
        return 0

    def spec(self, plan: Plan) -> str:
        layout, vector = self.layout, self.shape.vector
        numbers = {
            "DIMS": len(layout.dims) - 1, "ITEMS": self.shape.items, "VECTOR": vector, "THREADS": self.THREADS,
        }  # fmt: skip
        parts = []
        for load, stored in zip(layout.loads, layout.stores):
            same = load.rows[-1] == 0
            store = stored or load
            parts.append({
                "load_same": int(same),
                "load_grain": load.grain(load.size) if same else _line_grain(layout, load, vector, self.columns),
                "store_grain": _line_grain(layout, store, vector, self.columns),
            })  # fmt: skip
        return declared(plan, numbers, {"SEQUENTIAL": plan.order == "sequential"}, parts)


def _walk(plan: Plan, layout: Layout, across: bool) -> Walk:
    if plan.ahead is not None:
        late = layout.loads[plan.ahead]
        loads = [replace(x, offset=x.offset + x.along) if x is late else x for x in layout.loads]
        layout = replace(layout, loads=tuple(loads))
    size = sum(d.itemsize for d in plan.loads) + plan.segmented
    largest = max(x.size for x in (*layout.loads, *layout.stores) if x is not None)
    rows = prod(layout.dims)
    walking = shapes.for_walk(layout.n, rows, words(plan), size, largest, across)
    shape = Shape(walking.items, 1, walking.walks, vector=walking.vector)
    return Walk(shape, layout, layout.dims[-1] if across else 0, walking)


NOT_WALKING = Walking(1, 1, 1, 1, 1, 1)


@dataclass(frozen=True)
class Walk(Choice):
    """A warp walks 32 rows or more, item by item; others bring what it needs."""

    walking: Walking = NOT_WALKING
    kernel = "walk"
    meets = False

    @property
    def across(self) -> bool:
        return self.columns > 0

    @property
    def threads(self) -> int:
        return 32 + 32 * self.walking.servers

    def grid(self, resident: Callable[[], int]) -> int:
        return self.rows * self.column_groups if self.across else -(-self.rows // self.width)

    def shared_bytes(self, plan: Plan) -> int:
        size = self._parts(plan)[1]["STAGE_BYTES"]
        return self.walking.fitting(size) * size

    def spec(self, plan: Plan) -> str:
        parts, numbers = self._parts(plan)
        _, vector, steps, walks, servers, _ = self.walking
        numbers |= {
            "DIMS": len(self.layout.dims) - self.across, "ITEMS": self.walking.items, "VECTOR": vector, "STEPS": steps,
            "AHEAD": -1 if plan.ahead is None else plan.ahead,
            "STAGES": self.walking.fitting(numbers["STAGE_BYTES"]), "BLOCKS": walks, "SERVERS": servers,
        }  # fmt: skip
        return declared(plan, numbers, {"ACROSS": self.across}, parts) + compile.finish_text(plan)

    def _parts(self, plan: Plan) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """What is said of each component, and of a stage: where each array lies in it and how it is copied."""
        end, parts = 0, []
        for load, store in zip(self.layout.loads, self.layout.stores):
            same = self._same(load)
            flipped = self._flips(load) and not same
            part = {
                "load_at": end,
                "load_same": int(same),
                "load_flip": int(flipped),
                "load_grain": self._grain(load),
            }
            end += self._room(load, same)
            at = part["load_at"]
            if store is not None and not plan.reduce:
                if same or store.size != load.size or self._flips(store) != flipped:  # no place to write to
                    at, end = end, end + self._room(store, False)
                part |= {"store_flip": int(self._flips(store)), "store_grain": self._grain(store)}
            else:
                part |= {"store_flip": 0, "store_grain": 1}
            reduced = store.grain(store.size) if store is not None else 1
            parts.append({**part, "store_at": at, "reduced_grain": reduced})
        heads = self.layout.heads
        said = {"HEADS_AT": end, "HEADS_SAME": 0, "HEADS_FLIP": 0, "HEADS_GRAIN": 1}
        if heads is not None:
            said |= {
                "HEADS_SAME": int(self._same(heads)),
                "HEADS_GRAIN": 1 if plan.reverse or self._same(heads) else self._grain(heads),
            }
            end += self._room(heads, self._same(heads))
        return parts, {**said, "STAGE_BYTES": -(-end // 128) * 128}

    def _same(self, x: Lane) -> bool:
        """Whether all rows of a block read the same items."""
        return x.rows[-1] == 0 if self.across else not any(x.rows)

    def _flips(self, x: Lane) -> bool:
        return not self.across and x.along == -x.size and mode(x, 16) == "ALIGNED"

    def _grain(self, x: Lane) -> int:
        """Bytes that are copied at once of rows that lie apart."""
        if self.across:
            return x.grain_of_lines(self.width, self.columns)
        return 16 if mode(x, 16) == "ALIGNED" and self.walking.steps * x.size % 16 == 0 else x.grain(x.size)

    def _room(self, x: Lane, same: bool) -> int:
        line = self.walking.steps * x.size
        if not same:
            line = line * self.width if self.across else (line + 16) * self.width
        return -(-line // 16) * 16
