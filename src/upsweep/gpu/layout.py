"""The arrays of a call in the order of the scan: strides alone, rows collapsed.

A reverse scan starts at the last item and walks backwards, so the kernels know only strides. Rows collapse to as few dimensions
as these allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd

import numpy as np

from upsweep.gpu import params
from upsweep.plan import Plan


@dataclass(frozen=True)
class Lane:
    """One array in the order of the scan: where it starts from its pointer, and its strides in bytes."""

    offset: int
    along: int
    rows: tuple[int, ...]
    size: int
    phase: int
    """The pointer's remainder by 16; below 0 where there is no pointer, and a value travels with the launch."""
    behind: int = 0
    """Bytes of an item before those that count."""
    woven: bool = False
    """Whether an item is a word whose bytes lie apart, with so many before the first."""

    @property
    def still(self) -> bool:
        """Whether one item serves a whole row."""
        return self.along == 0

    @property
    def told(self) -> bool:
        return self.phase < 0

    @property
    def again(self) -> bool:
        """Whether all rows read the same items. They ask their multiprocessor's own cache then: one place of the second-level
        cache that all ask bounded flags of one list for rows of 40 f4 at .11 of a copy (H200)."""
        return bool(self.rows) and not any(self.rows)

    def grain(self, *more: int) -> int:
        """The largest power of two up to 16 that divides every address (and the given numbers)."""
        return reduce(gcd, [self.phase + self.offset, self.along, *self.rows, *more], 16)

    def begins(self) -> tuple[int, ...]:
        """The remainders by 16 of where lines begin, and whether they go backwards, where the innermost rows are neighbours."""
        places = (self.phase + self.offset, self.along, *self.rows[:-1])
        return (self.along < 0, *(place % 16 for place in places))

    def grain_of_lines(self, width: int, columns: int) -> int:
        """The largest such power where the innermost rows are neighbours, `columns` of them, and addresses begin at multiples
        of `width`.
        """
        return replace(self, rows=self.rows[:-1]).grain(width * self.size, columns * self.size)


@dataclass(frozen=True)
class Layout:
    """All arrays of a call in one iteration space of `dims` rows of n items."""

    n: int
    dims: tuple[int, ...]
    loads: tuple[Lane, ...]
    stores: tuple[Lane, ...]
    starts: tuple[Lane, ...]
    heads: Lane | None
    truths: bool = False
    """Whether the innermost rows are words of bytes that have been truths."""
    bytes: int = 0
    """Where words begin at any byte, the bytes of a line of them: its last word may have fewer than four."""

    @property
    def listed(self) -> bool:
        """Whether one list of heads holds for all rows."""
        return self.heads is not None and self.heads.again

    def lanes(self) -> list[Lane]:
        return [*self.arrays(), *self.starts, *([self.heads] if self.heads else [])]

    def arrays(self) -> tuple[Lane, ...]:
        return (*self.loads, *self.stores)

    def moving(self) -> list[Lane]:
        """The arrays that are read item by item."""
        return [x for x in self.loads if not x.still]

    def with_rows(self, dims: Sequence[int], pick: Sequence[int]) -> Layout:
        """The layout with the row dimensions `pick` of `rows` alone, of these sizes."""

        def cut(x: Lane) -> Lane:
            return replace(x, rows=tuple(x.rows[i] for i in pick))

        return replace(
            self,
            dims=tuple(dims),
            loads=tuple(map(cut, self.loads)),
            stores=tuple(map(cut, self.stores)),
            starts=tuple(map(cut, self.starts)),
            heads=self.heads and cut(self.heads),
        )

    def line(self, x: Lane) -> int:
        """Bytes of a line of all innermost rows."""
        return self.bytes or self.dims[-1] * x.size


Strided = tuple[tuple[int, ...], int]
"""Strides in bytes, and the pointer's remainder by 16."""


def arrange(
    plan: Plan,
    loads: Sequence[Strided],
    stores: Sequence[Strided],
    starts: Sequence[Strided],
    heads: Strided | None,
) -> Layout:
    """Strides in the order of the scan, rows collapsed."""
    n, axis = plan.n, plan.axis
    rest = [d for d in range(len(plan.shape)) if d != axis]

    def lane(strides: Sequence[int], phase: int, dtype: np.dtype, before: int = 0, run: int = 1) -> Lane:
        along = strides[axis] if n > 1 or before or phase < 0 else dtype.itemsize
        offset = (-(-n // run) - 1 - before if plan.reverse else -before) * along
        return Lane(
            offset, -along if plan.reverse else along, tuple(strides[d] for d in rest), dtype.itemsize, phase
        )

    def row_lane(strides: Sequence[int], phase: int, dtype: np.dtype) -> Lane:
        return Lane(0, 0, tuple(strides) if strides else (0,) * len(rest), dtype.itemsize, phase)

    def written(strides: Sequence[int], phase: int, dtype: np.dtype, run: int) -> Lane:
        return row_lane(strides, phase, dtype) if plan.reduce else lane(strides, phase, dtype, run=run)

    runs = [*[1] * (len(stores) - 1), plan.run]
    byte = np.dtype(np.uint8)
    heads_lane = None
    if heads is not None:
        strides, phase = heads
        full = (
            strides
            if len(strides) == len(plan.shape)
            else [strides[0] if d == axis else 0 for d in range(len(plan.shape))]
        )
        # In reverse a segment starts at its last item, before the next segment's head; forward, after the end of the segment
        # before. The first item's flag lies outside then, and is never read.
        heads_lane = lane(full, phase, byte, before=plan.ends - plan.reverse)
    layout = Layout(
        n,
        plan.row_shape,
        tuple(lane(*x, d) for x, d in zip(loads, plan.loads)),
        tuple(written(*x, d, run) for x, d, run in zip(stores, params.stored(plan), runs)),
        tuple(row_lane(*x, d) for x, d in zip(starts, plan.accumulators)),
        heads_lane,
    )
    layout = _collapse(layout)
    return replace(layout, loads=tuple(map(_spaced, layout.loads)))


SPACED = (2, 4, 8, 16)


def _spaced(x: Lane) -> Lane:
    """Neighbours with a gap between them, as in x[:, ::2], as larger items without a gap, of which a part counts: memory hands
    over the bytes between them anyway, and they come in whole pieces. Each lies within 16 bytes that begin at a multiple of 16:
    no memory is touched that has no byte of the array. Of a copy (H200), item by item -> so: along axis 0, 250 columns of f4
    .05 -> .77, 1024 of bf16 .05 -> .92, 300 of bytes .01 -> .50; along the last axis, rows of 40 f4 .82 -> 1.02, of 5000 .59 ->
    1.00, of 777 i8 .71 -> .97; one row of f4 .86 -> .91, of bf16 .67 -> .91.
    """
    if x.still or x.told:
        return x
    step = x.rows[-1] if x.rows and x.rows[-1] > x.size else abs(x.along)
    step = min(step, abs(x.along))
    if step not in SPACED or step <= x.size or any(place % step for place in (x.along, *x.rows)):
        return x
    behind = (x.phase + x.offset) % step
    return x if behind % x.size else replace(x, size=step, offset=x.offset - behind, behind=behind)


def _ordering(layout: Layout) -> Sequence[Lane]:
    """The arrays that say in which order the rows lie: the inputs whose neighbours are not along the axis, else such results."""
    for arrays in (layout.loads, layout.stores):
        across = [x for x in arrays if abs(x.along) != x.size and not x.still]
        if across:
            return across
    return layout.loads


def _step(layout: Layout, i: int) -> int:
    """Bytes from row to row along a dimension; where the inputs are the same for all its rows, in the results."""
    steps = [max(abs(x.rows[i]) for x in arrays) for arrays in (_ordering(layout), layout.stores) if arrays]
    return next(filter(None, steps), 0)


def _collapse(layout: Layout) -> Layout:
    """Drops rows of one, and merges neighbours that every array steps through alike."""
    keep = [i for i, d in enumerate(layout.dims) if d != 1]
    layout = layout.with_rows([layout.dims[i] for i in keep], keep)
    order = sorted(range(len(layout.dims)), key=lambda i: -_step(layout, i))
    layout = layout.with_rows([layout.dims[i] for i in order], order)
    i = 0
    while i + 1 < len(layout.dims):
        inner = layout.dims[i + 1]
        if all(x.rows[i] == x.rows[i + 1] * inner for x in layout.lanes()):
            dims = [*layout.dims[:i], layout.dims[i] * inner, *layout.dims[i + 2 :]]
            layout = layout.with_rows(dims, [k for k in range(len(layout.dims)) if k != i])
        else:
            i += 1
    return layout


def mode(x: Lane, items: int) -> str:
    """The way in which memory.cuh moves an array: `items` of a slab."""
    if abs(x.along) != x.size or x.grain() < x.size:
        return "STRIDED"
    # A slab that runs backwards starts one item after its last.
    ahead = x.size if x.along < 0 else 0
    whole = items * x.size % 16 == 0
    even = (x.phase + x.offset + ahead) % 16 == 0 and all(s % 16 == 0 for s in x.rows)
    return "ALIGNED" if whole and even else "SHIFTED"


def touching_rows(layout: Layout, x: Lane) -> bool:
    """Whether the rows of an array lie one behind another, and are read forwards."""
    row = layout.n * x.size
    return x.along == x.size and x.rows == (row,)


GAP = 16
"""Most bytes between rows that are read as if they lay one behind another. Of a copy (H200), row by row -> so: f4 in rows of 33
at a pitch of 34 .47 -> .96, of 5 at 6 .38 -> .91, bf16 of 100 at 101 .60 -> .97, of 33 at 34 .25 -> .98, bytes of 100 at 101 .41
-> .94, of 200 at 201 .61 -> .90, of 33 at 34 .27 -> .72."""


def near_rows(layout: Layout, x: Lane) -> bool:
    """Whether the innermost rows lie one behind another, or so little apart that the bytes between them are read too."""
    row = layout.n * x.size
    return abs(x.along) == x.size and bool(x.rows) and row <= x.rows[-1] <= row + GAP


def flip(x: Lane, items: int) -> bool:
    return x.along < 0 and mode(x, items) != "STRIDED"


def patched(x: Lane) -> bool:
    """Whether columns are read line by line, through shared memory."""
    return not x.still and x.rows[-1] != 0


def turned(x: Lane) -> bool:
    """Whether the items of a row are neighbours in memory, and those of a column are not."""
    return abs(x.along) == x.size and abs(x.rows[-1]) > x.size


def forward(x: Lane, n: int) -> Lane:
    """Whole rows of an array, each from its lowest address on."""
    return replace(x, offset=x.offset + (n - 1) * min(0, x.along), along=0)
