"""The demands of a plan and its layout: registers, instructions, bytes that are summed or moved at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from upsweep.gpu import functions, params
from upsweep.gpu.layout import Lane, Layout, mode, near_rows, touching_rows
from upsweep.gpu.shapes.rows import PLACED
from upsweep.operators import variant_of
from upsweep.plan import Plan


def words(plan: Plan, layout: Layout) -> int:
    """32-bit registers of an item: as it is read, combined or written (the most of these), and of the items that are read
    again with it.
    """
    inputs, prefix = words_read(layout), _words(d.itemsize for d in plan.accumulators)
    if plan.map is plan.finish is None:
        return prefix
    return max(inputs, prefix + inputs * functions.reads_again(plan), _words(x.size for x in layout.stores))


def words_passing(plan: Plan, layout: Layout) -> int:
    """The registers of an item where one prefix takes the place of the one before, and many items are read and results written
    at once.
    """
    if plan.map is plan.finish is None:
        return words(plan, layout)
    return max(words_read(layout), _words(x.size for x in layout.stores))


def words_read(layout: Layout) -> int:
    """32-bit registers of what is read of an item."""
    return _words(x.size for x in layout.moving())


def _words(sizes: Iterable[int]) -> int:
    return sum(-(-size // 4) for size in sizes)


def any_order(plan: Plan) -> bool:
    """Whether the kernels give the same bits in every order of evaluation."""
    known = variant_of(plan.op, plan.accumulators)
    return known is not None and all(
        d.kind in known[1].free + known[1].functor_free for d in plan.accumulators
    )


def costly(plan: Plan) -> bool:
    """Whether the operator takes many instructions."""
    known = variant_of(plan.op, plan.accumulators)
    return known is not None and known[0].costly


def light(plan: Plan) -> bool:
    """Whether the operator is known to take few instructions, and so are the map and the finish."""
    return (
        plan.map is plan.finish is None
        and variant_of(plan.op, plan.accumulators) is not None
        and not costly(plan)
    )


BYTEWISE = {"add": 1, "or_": 2, "and_": 3, "xor": 4, ">": 5, "<": 6}
"""The numbers that packed.cuh gives to operators on bytes, by the operators' instruction on vectors."""


def packing(plan: Plan, layout: Layout) -> int:
    """The operator that makes sums of bytes, or of every second byte, four at a time, of rows that may be cut anywhere, or 0."""
    known = variant_of(plan.op, plan.accumulators)
    kinds = [
        d.kind if d.itemsize == 1 else "" for d in (*plan.loads, *plan.accumulators, *params.stored(plan))
    ]
    truths = [kind == "b" for kind in kinds[1:]]
    alone = len(kinds) == 3 and set(kinds) <= set("biu") and truths[0] == truths[1]
    plain = plan.map is plan.finish is None and not plan.reduce
    x = layout.loads[0]
    # Truths of every second byte stay truths.
    far = x.size > (2 if (kinds[0] == "b") == truths[0] else 1)
    if known is None or not (alone and plain) or x.still or far:
        return 0
    return BYTEWISE.get(known[1].vector, 0)


def held(plan: Plan, layout: Layout) -> int:
    """The items that lanes must hold of a row. Rows of bytes that may be cut anywhere are cut where pieces of memory end, if each
    result lies as its item does: they have the bytes of the first piece besides."""
    if packing(plan, layout) == 0 or layout.n <= PLACED:
        return layout.n
    (x,), (y,) = layout.loads, layout.stores
    alike = all(
        (a - b) % 16 == 0 for a, b in zip((x.phase + x.offset, *x.rows), (y.phase + y.offset, *y.rows))
    )
    apart = layout.heads is not None and not layout.listed
    placed = x.along == y.along and abs(x.along) == 1 and alike and not apart and mode(x, 16) == "SHIFTED"
    return layout.n + 15 * placed


def are_behind(layout: Layout, x: Lane, read: bool) -> bool:
    return touching_rows(layout, x) or (read and len(layout.dims) == 1 and near_rows(layout, x))


def moved_together(layout: Layout) -> bool:
    """Whether a warp that holds several rows moves them as they lie."""
    loads, stores = layout.moving(), layout.stores
    return all(are_behind(layout, x, True) for x in loads) and all(
        are_behind(layout, x, False) for x in stores
    )


def turned_piece(layout: Layout, x: Lane, items: int) -> int:
    """Bytes of a row that are turned together: so many that every run and row begins and ends with them."""
    return replace(x, along=0).grain(layout.n * x.size, items * x.size) if x.along > 0 else x.size
