"""Bytes of neighbouring columns as words: an operator without a carry from byte to byte is computed for four columns at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from upsweep.gpu.layout import Lane, Layout
from upsweep.operator import Operator
from upsweep.operators import on_words, ops
from upsweep.plan import Plan

_WORD = np.dtype(np.uint32)


def joined(plan: Plan, layout: Layout) -> tuple[Plan, Layout]:
    """The plan and the layout of a scan of words, where every line begins and ends at a word. Another scan stays as it is."""
    op = _on_words(plan, layout)
    if op is None or layout.dims[-1] % 4 or any(_lines(x).grain() < 4 for x in layout.arrays()):
        return plan, layout
    return _words(plan, layout, op)


def ragged(plan: Plan, layout: Layout) -> tuple[Plan, Layout] | None:
    """The same where lines begin at any byte, alike in all arrays, and the last word of a line may have fewer bytes; None where
    there is no such scan."""
    op = _on_words(plan, layout)
    if op is None or plan.reduce or len({x.begins() for x in layout.arrays()}) > 1:
        return None
    plan, words = _words(plan, layout, op)
    return plan, replace(words, bytes=layout.dims[-1])


def _on_words(plan: Plan, layout: Layout) -> Operator | None:
    """The operator on words, if the innermost rows are bytes that are neighbours in memory."""
    dtypes = (*plan.loads, *plan.accumulators, *plan.stores)
    if len(dtypes) != 3 or not all(d and d.itemsize == 1 and d.kind in "biu" for d in dtypes):
        return None
    if plan.initial or plan.map or plan.finish or not layout.dims:
        return None
    if (layout.heads and layout.heads.rows[-1]) or any(x.rows[-1] != 1 for x in layout.arrays()):
        return None
    (byte,) = plan.accumulators
    op = on_words(plan.op, byte)
    # Before the first item of a conjunction all truths are set, and not all bits.
    set_before = plan.exclusive and op is ops.AND
    return None if (set_before if byte.kind == "b" else plan.stores[0] == np.bool_) else op


def _words(plan: Plan, layout: Layout, op: Operator) -> tuple[Plan, Layout]:
    def wide(x: Lane) -> Lane:
        return replace(x, size=4, rows=(*x.rows[:-1], 4))

    words = replace(
        layout,
        dims=(*layout.dims[:-1], -(-layout.dims[-1] // 4)),
        loads=tuple(map(wide, layout.loads)),
        stores=tuple(map(wide, layout.stores)),
        truths=any(d.kind == "b" for d in (*plan.loads, *plan.accumulators)),
    )
    return replace(plan, op=op, loads=(_WORD,), accumulators=(_WORD,), stores=(_WORD,)), words


def _lines(x: Lane) -> Lane:
    return replace(x, rows=x.rows[:-1])
