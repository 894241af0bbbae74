"""Bytes of neighbouring columns as words: an operator without a carry from byte to byte is computed for four columns at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from upsweep.gpu.choice import OF_TRUTHS
from upsweep.gpu.layout import Lane, Layout
from upsweep.gpu.shapes.columns import RAGGED
from upsweep.operator import Operator
from upsweep.operators import BYTES, form_of, ops
from upsweep.plan import Plan

_WORD = np.dtype(np.uint32)
_ON_WORDS = {**BYTES, "and": ops.AND, "or": ops.OR, "xor": ops.XOR}


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
    if (
        op is None
        or plan.reduce
        or layout.dims[-1] < RAGGED
        or len({x.begins() for x in layout.arrays()}) > 1
    ):
        return None
    plan, words = _words(plan, layout, op)
    return plan, replace(words, bytes=layout.dims[-1])


def _on_words(plan: Plan, layout: Layout) -> Operator | None:
    """The operator on words, if the innermost rows are bytes that are neighbours in memory."""
    known = form_of(plan.op, plan.accumulators)
    dtypes = (*plan.loads, *plan.accumulators, *plan.stores)
    if (
        known is None
        or len(dtypes) != 3
        or not all(d and d.itemsize == 1 and d.kind in "biu" for d in dtypes)
    ):
        return None
    if plan.initial or plan.map or plan.finish or not layout.dims:
        return None
    if (layout.heads and layout.heads.rows[-1]) or any(x.rows[-1] != 1 for x in layout.arrays()):
        return None
    name, truths = known[0].name, plan.accumulators[0].kind == "b"
    if truths:
        # Before the first item of a conjunction all truths are set, and not all bits.
        name = OF_TRUTHS.get(name, name)
        return None if plan.exclusive and name == "and" else _ON_WORDS.get(name)
    if plan.stores[0] == np.bool_:
        return None
    return _ON_WORDS.get(name) or _ON_WORDS.get(f"{name} {plan.accumulators[0].kind}")


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
