"""Bytes of neighbouring columns as words: an operator without a carry from byte to byte is computed for four columns at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from upsweep.gpu.layout import Lane, Layout
from upsweep.operators import BYTE_SUMS, form_of, ops
from upsweep.plan import Plan

_WORD = np.dtype(np.uint32)
_ON_WORDS = {"Scalar<Add>": BYTE_SUMS, "Scalar<And>": ops.AND, "Scalar<Or>": ops.OR, "Scalar<Xor>": ops.XOR}


def joined(plan: Plan, layout: Layout) -> tuple[Plan, Layout]:
    """The plan and the layout of a scan of words. A scan of other items than bytes stays as it is."""
    known = form_of(plan.op, plan.accumulators)
    op = known and _ON_WORDS.get(known[1].functor)
    dtypes = (*plan.loads, *plan.accumulators, *plan.stores)
    bytes_alone = all(d is not None and d.itemsize == 1 and d.kind in "iu" for d in dtypes)
    if op is None or not bytes_alone or plan.initial or plan.map or plan.finish or not _fits(layout):
        return plan, layout

    def wide(x: Lane) -> Lane:
        return replace(x, size=4, rows=(*x.rows[:-1], 4))

    words = replace(
        layout,
        dims=(*layout.dims[:-1], layout.dims[-1] // 4),
        loads=tuple(map(wide, layout.loads)),
        stores=tuple(map(wide, layout.stores)),
    )
    return replace(plan, op=op, loads=(_WORD,), accumulators=(_WORD,), stores=(_WORD,)), words


def _fits(layout: Layout) -> bool:
    """Whether the innermost rows are neighbours in memory, and every line begins and ends at a word."""
    if not layout.dims or layout.dims[-1] % 4 or (layout.heads and layout.heads.rows[-1]):
        return False
    return all(x.rows[-1] == 1 and replace(x, rows=x.rows[:-1]).grain() >= 4 for x in layout.arrays())
