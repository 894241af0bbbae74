"""Bytes of neighbouring columns as words: an operator without a carry from byte to byte is computed for four columns at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from upsweep.gpu.layout import Lane, Layout
from upsweep.operator import Operator
from upsweep.operators import on_words, ops
from upsweep.plan import Plan

_WORD, _PAIR = np.dtype(np.uint32), np.dtype(np.uint16)


def joined(plan: Plan, layout: Layout) -> tuple[Plan, Layout]:
    """The plan and the layout of a scan of words, where every line begins and ends at a word, or of the pairs of two columns.
    Another scan stays as it is."""
    op = _on_words(plan, layout)
    if op is None:
        return plan, layout
    word = _PAIR if layout.dims[-1] == 2 else _WORD
    size = word.itemsize
    if word is _PAIR and isinstance(op.identity, int):
        op = replace(op, identity=op.identity & 0xFFFF)
    if layout.dims[-1] % size or any(_lines(x).grain() < size for x in layout.arrays()):
        return plan, layout
    plan, words = _words(plan, layout, op, word)
    # A line of one word is an item of a row.
    rows = range(len(words.dims) - (words.dims[-1] == 1))
    return plan, words.with_rows([words.dims[i] for i in rows], rows)


def ragged(plan: Plan, layout: Layout) -> tuple[Plan, Layout] | None:
    """The same where lines begin at any byte, and the last word of a line may have fewer bytes; None where there is no such
    scan."""
    op = _on_words(plan, layout)
    if op is None or plan.reduce:
        return None
    plan, words = _words(plan, layout, op, _WORD)
    return plan, replace(words, bytes=layout.dims[-1])


def crossed(plan: Plan, layout: Layout) -> tuple[Plan, Layout]:
    """The plan and the layout of a scan of words where neighbours in the result lie along the dimension before the innermost: its
    bytes stay bytes. Another scan stays as it is."""
    op = _on_words(plan, replace(layout, stores=layout.loads))
    if op is None or layout.dims[-1] % 4 or any(_lines(x).grain() < 4 for x in layout.loads):
        return plan, layout
    (store,) = layout.stores
    plan, words = _words(plan, layout, op, _WORD)
    return plan, replace(words, stores=(replace(store, rows=(*store.rows[:-1], 4 * store.rows[-1])),))


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


def _words(plan: Plan, layout: Layout, op: Operator, word: np.dtype) -> tuple[Plan, Layout]:
    size = word.itemsize

    def wide(x: Lane) -> Lane:
        return replace(x, size=size, rows=(*x.rows[:-1], size))

    words = replace(
        layout,
        dims=(*layout.dims[:-1], -(-layout.dims[-1] // size)),
        loads=tuple(map(wide, layout.loads)),
        stores=tuple(map(wide, layout.stores)),
        truths=any(d.kind == "b" for d in (*plan.loads, *plan.accumulators)),
    )
    return replace(plan, op=op, loads=(word,), accumulators=(word,), stores=(word,)), words


def _lines(x: Lane) -> Lane:
    return replace(x, rows=x.rows[:-1])
