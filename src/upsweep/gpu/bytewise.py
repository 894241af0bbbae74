"""Neighbouring columns as one: an operator on bytes without a carry from byte to byte is computed for four columns at
once, on items of two bytes for two columns, and sums of two columns of floats are those of complex numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from upsweep.gpu.layout import Lane, Layout
from upsweep.operator import Operator, resolve
from upsweep.operators import on_words, ops, variant_of
from upsweep.plan import Plan

_WORD, _PAIR = np.dtype(np.uint32), np.dtype(np.uint16)
_COMPLEX = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}


def joined(plan: Plan, layout: Layout) -> tuple[Plan, Layout]:
    """The plan and the layout of a scan of words, where every line begins and ends at a word, or of the pairs of two columns.
    Another scan stays as it is."""
    if _are_complex(plan, layout):
        number = _COMPLEX[plan.accumulators[0]]
        plan, numbers = _words(plan, layout, resolve(ops.ADD, (number,)), number)
        return plan, _without_columns(numbers)
    op = _on_words(plan, layout, 2 if plan.segmented else 1)
    if op is None:
        return plan, layout
    item = plan.accumulators[0].itemsize
    word = _PAIR if layout.dims[-1] * item == 2 else _WORD
    count = word.itemsize // item
    if word is _PAIR and isinstance(op.identity, int):
        op = replace(op, identity=op.identity & 0xFFFF)
    if (
        count == 1
        or layout.dims[-1] % count
        or any(_lines(x).grain() < count * x.size for x in layout.arrays())
    ):
        return plan, layout
    if count == 2 and _woven(layout):
        return plan, layout
    plan, words = _words(plan, layout, op, word)
    return plan, _without_columns(words) if words.dims[-1] == 1 else words


def in_words(plan: Plan) -> Plan:
    """The scan in words of integers of two bytes, of which the least or the largest are wanted within segments: signs are
    extended as items are read, and not before each comparison. The identity of an exclusive scan, and an initial value, are of
    two bytes. Of a copy (H200), before -> so: rows of 182 .433 -> .510, one row .585 -> .654, 257 columns .378 -> .412, 317 of
    318 .363 -> .395, 1521 of 1522 .466 -> .477.
    """
    (d, *others), known = plan.accumulators, variant_of(plan.op, plan.accumulators)
    plain = (
        plan.segmented and plan.map is plan.finish is None and not (others or plan.exclusive or plan.initial)
    )
    if not plain or d.itemsize != 2 or known is None or known[0].name not in ("min", "max"):
        return plan
    return replace(plan, accumulators=(np.dtype(f"{d.kind}4"),))


def _without_columns(words: Layout) -> Layout:
    """A line of one word is an item of a row."""
    rows = range(len(words.dims) - 1)
    return words.with_rows([words.dims[i] for i in rows], rows)


def _are_complex(plan: Plan, layout: Layout) -> bool:
    """Whether a scan sums two columns of floats, which lie as complex numbers do. Of a copy (H200), as columns -> so: f4 of
    2^27 x 2 .81 -> .95, of 111848 x 300 x 2 along axis 1 .84 -> .985, of 524288 x 64 x 2 .91 -> .96.
    """
    dtypes = (*plan.loads, *plan.accumulators, *plan.stores)
    if len(dtypes) != 3 or len(set(dtypes)) != 1 or dtypes[0] not in _COMPLEX or layout.dims[-1:] != (2,):
        return False
    plain = plan.map is plan.finish is None and plan.order == "tree" and not plan.initial
    shared = layout.heads is None or layout.heads.rows[-1] == 0
    size = plan.accumulators[0].itemsize
    near = all(x.size == x.rows[-1] == size and _lines(x).grain() >= 2 * size for x in layout.arrays())
    return plain and shared and near and plan.op is resolve(ops.ADD, plan.accumulators)


def ragged(plan: Plan, layout: Layout) -> tuple[Plan, Layout] | None:
    """The same where lines begin at any byte, and the last word of a line may have fewer bytes; None where there is no such
    scan."""
    op = _on_words(plan, layout, 2)
    if op is None or _woven(layout) or (plan.reduce and not are_whole(plan, layout)):
        return None
    size = plan.accumulators[0].itemsize
    plan, words = _words(plan, layout, op, _WORD)
    return plan, replace(words, bytes=size * layout.dims[-1])


def are_whole(plan: Plan, layout: Layout) -> bool:
    """Whether the results of a line are words, so that none is cut, wherever the lines of inputs begin."""
    count = _WORD.itemsize // plan.accumulators[0].itemsize
    return layout.dims[-1] % count == 0 and all(_lines(x).grain() >= _WORD.itemsize for x in layout.stores)


def crossed(plan: Plan, layout: Layout) -> tuple[Plan, Layout]:
    """The plan and the layout of a scan of words where neighbours in the result lie along the dimension before the innermost: its
    bytes stay bytes. Another scan stays as it is."""
    op = _on_words(plan, replace(layout, stores=layout.loads))
    if op is None or layout.dims[-1] % 4 or any(_lines(x).grain() < 4 for x in layout.loads):
        return plan, layout
    (store,) = layout.stores
    plan, words = _words(plan, layout, op, _WORD)
    return plan, replace(words, stores=(replace(store, rows=(*store.rows[:-1], 4 * store.rows[-1])),))


def _on_words(plan: Plan, layout: Layout, most: int = 1) -> Operator | None:
    """The operator on words, if the innermost rows are items of at most so many bytes that are neighbours in memory, or in inputs
    every second or fourth byte."""
    dtypes = [d for d in (*plan.loads, *plan.accumulators, *plan.stores) if d]
    sizes = {d.itemsize for d in dtypes}
    if len(dtypes) != 3 or len(sizes) != 1 or max(sizes) > most or not all(d.kind in "biu" for d in dtypes):
        return None
    if plan.map or plan.finish or not layout.dims or not all(x.told for x in layout.starts):
        return None
    near = all(x.rows[-1] == x.size <= _WORD.itemsize for x in layout.loads) and all(
        x.rows[-1] in sizes for x in layout.stores
    )
    if (layout.heads and layout.heads.rows[-1]) or not near:
        return None
    return operator_on_words(plan)


def operator_on_words(plan: Plan) -> Operator | None:
    """The operator on words of narrow items, if there is one."""
    (part,) = plan.accumulators
    op = on_words(plan.op, part)
    # Before the first item of a conjunction all truths are set, and not all bits.
    set_before = plan.exclusive and not plan.initial and op is ops.AND
    return None if (set_before if part.kind == "b" else plan.stores[0] == np.bool_) else op


def _words(plan: Plan, layout: Layout, op: Operator, word: np.dtype) -> tuple[Plan, Layout]:
    item = plan.accumulators[0].itemsize
    count = word.itemsize // item

    def wide(x: Lane) -> Lane:
        return replace(x, size=count * x.size, rows=(*x.rows[:-1], count * x.size), woven=x.size > item)

    words = replace(
        layout,
        dims=(*layout.dims[:-1], -(-layout.dims[-1] // count)),
        loads=tuple(map(wide, layout.loads)),
        stores=tuple(map(wide, layout.stores)),
        truths=any(d.kind == "b" for d in (*plan.loads, *plan.accumulators)),
    )
    return replace(plan, op=op, loads=(word,), accumulators=(word,), stores=(word,)), words


def _woven(layout: Layout) -> bool:
    """Whether bytes lie apart in an input. Of a copy (H200), byte by byte -> in words: x[:, ::2] of 300 bytes .51 -> .72."""
    return any(x.size > y.size for x in layout.loads for y in layout.stores)


def _lines(x: Lane) -> Lane:
    return replace(x, rows=x.rows[:-1])
