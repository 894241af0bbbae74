"""Copies of one line to many places, one behind another."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod

from upsweep.gpu.bringing import is_copy
from upsweep.gpu.choice import Choice
from upsweep.gpu.layout import Layout
from upsweep.gpu.shapes import Chip
from upsweep.gpu.shapes.bringing import LINES, for_lines
from upsweep.gpu.text import declared
from upsweep.plan import Plan


class AlikeLines(Choice):
    """A thread has a piece of 16 bytes, and stores it `items` times. The last two dimensions are the lines and a line's items."""

    kernel = "alike"

    @property
    def meets(self) -> bool:
        return False

    @property
    def line(self) -> int:
        return self.layout.dims[-1] * self.layout.stores[0].size

    @property
    def nbytes(self) -> int:
        """Bytes from the piece in which the lines begin, at most."""
        return self.line * self.layout.dims[-2] + 15

    @property
    def period(self) -> int:
        """Lines from one that begins within a piece as another does to that one."""
        return self.shape.strips * 16 // gcd(self.line, 16)

    @property
    def column_groups(self) -> int:
        """Blocks that hold the pieces of a period, or of all lines, if these are fewer. The first piece may begin before them."""
        return -(-min(self.line * self.period, self.nbytes) // (16 * self.threads))

    @property
    def rows(self) -> int:
        return prod(self.layout.dims[:-2])

    @property
    def tiles(self) -> int:
        """Parts of all lines."""
        return -(-self.nbytes // (self.line * self.period * self.shape.items))

    def grid(self, resident: Callable[[], int]) -> int:
        return self.tickets

    def shared_bytes(self, plan: Plan) -> int:
        return 0

    def spec(self, plan: Plan) -> str:
        (source,), (copy,) = self.layout.loads, self.layout.stores
        numbers = {
            "DIMS": len(self.layout.dims), "THREADS": self.threads, "PERIOD": self.period, "TIMES": self.shape.items,
            "GRAIN": gcd(source.grain(self.line), copy.grain(self.line)),
        }  # fmt: skip
        return declared(plan, self.layout, numbers, {}, [{}], [{}])


def choose(plan: Plan, layout: Layout, chip: Chip) -> AlikeLines | None:
    """The choice for a copy that reads each line several times, or None for other scans and for copies of few bytes."""
    if not is_copy(plan, layout):
        return None
    (source,), (copy,), dims = layout.loads, layout.stores, layout.dims
    near = [i for i in range(len(dims)) if source.rows[i] == copy.rows[i] == copy.size]
    line = copy.size * prod(dims[i] for i in near)
    lines = next((i for i in range(len(dims)) if (source.rows[i], copy.rows[i]) == (0, line)), None)
    if lines is None or line * dims[lines] < LINES:
        return None
    others = [i for i in range(len(dims)) if i not in (lines, *near)]
    extents = [*[dims[i] for i in (*others, lines)], line // copy.size]
    tiles = layout.with_rows(extents, [*others, lines, *(near or [lines])])
    made = AlikeLines(for_lines(line, prod(dims) * copy.size), tiles, chip=chip)
    return made if made.tickets < 1 << 31 else None
