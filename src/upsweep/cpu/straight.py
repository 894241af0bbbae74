"""The parts of a straight scan that depend on the operator. A row is scanned straight through, a vector of items at a time,
where every order of evaluation gives the same bits.

Within a vector, Hillis and Steele's scan takes log2 of its items steps, each a shuffle and an operation. Only the prefix goes
from vector to vector, by one operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from upsweep.cpu.address import I8, I32, I64, fetch, pointer
from upsweep.cpu.memory import Items, adopted, gathered, inner
from upsweep.cpu.nodes import joiners, operators
from upsweep.cpu.shuffles import shuffle
from upsweep.cpu.words import JOIN, LINE, OPERANDS, SCAN, SUM
from upsweep.operators import Variant

LONG = 256
"""Longer rows reach a cache line item by item before vectors are stored."""
STRETCH = 1 << 15
"""Bytes of items after which a reduction looks whether further items can change its result. Time of 10^6 random items without
this over that with it, AMD: truths and bytes 3.1 to 3.7, bits of int32 12, of int64 22; .95 to 1 where every item counts."""


def _on_vectors(how: str) -> Callable[[Any, Any, Any, bool], Any]:
    """A built-in operator on two vectors of integers, as its variant says."""

    def code(builder: Any, a: Any, b: Any, signed: bool) -> Any:
        if how == "right":
            return b
        if how in "<>":
            compare = builder.icmp_signed if signed else builder.icmp_unsigned
            return builder.select(compare(how, a, b), a, b)
        return getattr(builder, how)(a, b)

    return code


def runner(variant: Variant, stored: np.dtype, identity: Any) -> Callable[..., None]:
    """The code of a built-in operator on integers, or on booleans, with which it computes as bytes of 0 and 1. `frame` holds the
    addresses of what it is asked for, for the first of several rows, and how many bytes the others' items and results lie
    further on; items of a row lie side by side:

    SUM: of a place for a prefix, and of w items, which are folded onto it.
    SCAN: of such a place, of w items, and of the places for the prefixes up to each of them, or, where `exclusive`, of those
        before each. With `past` they go past the cache.
    Where a place does not hold a `known` prefix, items are folded onto the identity.
    JOIN and FOLD: as for `sweep`.
    """
    dtype = np.dtype(np.uint8) if stored.kind == "b" else stored
    S = Items([dtype], [dtype], True)
    combine, fold, _ = operators(adopted(variant.fn), S, S, False, False)
    join, fold_row = joiners(S, S, 1, 1, combine, fold)
    read, write, take = Items([stored], [dtype], True).read, S.write, gathered(OPERANDS)
    size, neutral = dtype.itemsize, int(identity)
    cast, stretch = S.cast, STRETCH // size
    settled = _settled(variant.vector, dtype, stored, cast)

    @inner
    def start(place, known):
        return read((place,), 0) if known else cast(neutral)

    @inner
    def total(place, x, w, known):
        p, first = start(place, known), 0
        while first < w and not settled(p):
            behind = min(w, first + stretch)
            for i in range(first, behind):
                p = combine(p, read((x,), i))
            first = behind
        write((place,), 0, p)

    @inner
    def items(x, y, w, p, exclusive):
        for i in range(w):
            q = combine(p, read((x,), i))
            write((y,), i, p if exclusive else q)
            p = q
        return p

    scan = over_lines(variant.vector, stored, neutral, items)

    def run(which, frame, past, w, known, exclusive, rows):
        if which == SUM:
            place, x, _, x_across, _ = take(frame, 0, 1)
            for k in range(rows):
                total(place + k * size, x + k * x_across, w, known)
        elif which == SCAN:
            place, x, y, x_across, y_across = take(frame, 0, 1)
            for k in range(rows):
                at = place + k * size
                p = scan(x + k * x_across, y + k * y_across, w, start(at, known), exclusive, past)
                write((at,), 0, p)
        elif which == JOIN:
            join(frame, w)
        else:
            fold_row(frame, w, 0)

    return run


def _settled(how: str, dtype: np.dtype, stored: np.dtype, cast: Any) -> Any:
    """A function that says whether no further item changes a prefix."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    ones = 1 if stored.kind == "b" else -1 if dtype.kind == "i" else high
    last = {"and_": 0, "mul": 0, "or_": ones, "<": low, ">": high}.get(how)
    return inner((lambda p: False) if last is None else (lambda p: p == cast(last)))


def over_lines(how: str, dtype: np.dtype, neutral: int, items: Any) -> Any:
    """A function that scans w items, from a prefix on, and gives the prefix behind them. Whole cache lines of results are scanned
    at once, those before and behind one by one, by `items`. Floats are compared as integers: such a prefix, and what is neutral,
    is an `ordered` one.
    """
    size = dtype.itemsize
    upto, before, upto_past, before_past = (
        _vectors(how, dtype, neutral, exclusive, past)
        for past in (False, True)
        for exclusive in (False, True)
    )

    @inner
    def scan(x, y, w, p, exclusive, past):
        head = min(w, (-y & (LINE - 1)) // size) if w > LONG else 0
        p = items(x, y, head, p, exclusive)
        x, y, w = x + head * size, y + head * size, w - head
        whole = w * size // LINE
        if past and y & (LINE - 1) == 0:
            later = past * size
            p = before_past(x, y, whole, p, later) if exclusive else upto_past(x, y, whole, p, later)
        else:
            p = before(x, y, whole, p, 0) if exclusive else upto(x, y, whole, p, 0)
        done = whole * LINE
        return items(x + done, y + done, w - done // size, p, exclusive)

    return scan


def _vectors(how: str, dtype: np.dtype, neutral: int, exclusive: bool, past: bool) -> Any:
    """A function that scans `count` cache lines of items in this way."""
    size, both = dtype.itemsize, _on_vectors(how)
    n, signed = LINE // size, dtype.kind in "if"
    item = ir.IntType(8 * size)
    vector, none = ir.VectorType(item, n), ir.Constant(ir.VectorType(item, n), [neutral] * n)

    def constant(value: int) -> Any:
        return ir.Constant(vector, [value] * n)

    def turned(builder: Any, v: Any) -> Any:
        """Floats as `ordered` integers, and back."""
        sign = builder.ashr(v, constant(8 * size - 1))
        return (
            builder.xor(v, builder.and_(sign, constant((1 << (8 * size - 1)) - 1)))
            if dtype.kind == "f"
            else v
        )

    def behind(builder: Any, v: Any, d: int) -> Any:
        """Every item `d` places further on."""
        return shuffle(builder, none, v, [n - d + k for k in range(n)])

    @intrinsic
    def scan(typing, x, y, count, prefix, later):
        def code(context, builder, signature, arguments):
            x, y, count, prefix, later = arguments
            carry = cgutils.alloca_once(builder, vector)
            one = builder.insert_element(none, prefix, I32(0))
            builder.store(shuffle(builder, one, one, [0] * n), carry)
            with cgutils.for_range(builder, count, intp=I64) as loop:
                at = builder.mul(loop.index, I64(LINE))
                v = builder.load(pointer(builder, builder.add(x, at), vector), align=1)
                if past:
                    fetch(builder, pointer(builder, builder.add(builder.add(x, at), later), I8))
                if dtype.kind == "b":
                    # Any byte but 0 is true.
                    v = builder.zext(builder.icmp_unsigned("!=", v, constant(0)), vector)
                v = turned(builder, v)
                for step in range(n.bit_length() - 1):
                    v = both(builder, behind(builder, v, 1 << step), v, signed)
                before = builder.load(carry)
                given = both(builder, before, v, signed)
                if exclusive:
                    given = shuffle(builder, before, given, [n - 1 + k for k in range(n)])
                place = pointer(builder, builder.add(y, at), vector)
                store = builder.store(turned(builder, given), place, align=LINE if past else 1)
                if past:
                    store.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))
                last = shuffle(builder, v, v, [n - 1] * n)
                builder.store(both(builder, before, last, signed), carry)
            return builder.extract_element(builder.load(carry), I32(0))

        return prefix(types.int64, types.int64, types.int64, prefix, types.int64), code

    return scan
