"""The pieces that a kernel is put together of. All but the operator's are compiled once for all scans."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from upsweep.cpu.code import Piece
from upsweep.cpu.words import Form
from upsweep.operator import identity_of, unchanged
from upsweep.plan import Plan


@cache
def kernel() -> Piece:
    """What every thread runs."""

    def make():
        from upsweep.cpu.kernel import run

        return run

    return Piece(("kernel",), 2, make, "the kernel")


@cache
def entry() -> Piece:
    """A small scan's way in."""

    def make():
        from upsweep.cpu.entry import enter

        return enter

    return Piece(("entry",), 4, make, "the way in")


@cache
def turn_in(size: int) -> Piece:
    """Runs of items of this size into the lanes of a panel."""

    def make():
        from upsweep.cpu import transpose

        return transpose.turn_in(size)

    return Piece(("turn in", size), 5, make, f"moves of {size} bytes")


@cache
def turn_out(size: int) -> Piece:
    """Lanes of a panel to runs."""

    def make():
        from upsweep.cpu import transpose

        return transpose.turn_out(size)

    return Piece(("turn out", size), 5, make, f"moves of {size} bytes")


@cache
def bring(stored: np.dtype, computed: np.dtype) -> Piece:
    """A line of an array's items to scratch memory."""
    stored, computed = _moved(stored, computed)

    def make():
        from upsweep.cpu import lines

        return lines.bring(stored, computed)

    return Piece(("bring", stored.name, computed.name), 4, make, f"moves of {stored}")


@cache
def hand(computed: np.dtype, stored: np.dtype) -> Piece:
    """A line of items from scratch memory to an array."""
    stored, computed = _moved(stored, computed)

    def make():
        from upsweep.cpu import lines

        return lines.hand(computed, stored)

    return Piece(("hand", computed.name, stored.name), 4, make, f"moves of {stored}")


@cache
def stream(size: int) -> Piece:
    """A line of items of this size from scratch memory to an array, past the cache."""

    def make():
        from upsweep.cpu import lines

        return lines.stream(size)

    return Piece(("stream", size), 4, make, f"moves of {size} bytes")


def _moved(stored: np.dtype, computed: np.dtype) -> tuple[np.dtype, np.dtype]:
    """Items that stay as they are move as bits of their size."""
    if stored != computed:
        return stored, computed
    bits = np.dtype({1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}[stored.itemsize])
    return bits, bits


def sweep(plan: Plan) -> Piece:
    """The operator's own code for the tree's order."""
    key = _key(plan)
    # Only segments start from `initial` within a row.
    starts = plan.segmented and plan.initial

    def make():
        from upsweep.cpu.sweep import sweeper

        return sweeper(plan.op.fn, plan.accumulators, plan.segmented, starts)

    return Piece(
        ("sweep", key, _names(plan.accumulators), plan.segmented, starts), 7, make, _title(plan), plan.op
    )


def walk(plan: Plan, form: Form, most: int) -> Piece:
    """The code of a scan in order, for strips of at most `most` rows."""
    identity = identity_of(plan.op, plan.accumulators)

    def make():
        from upsweep.cpu.walk import walker

        return walker(plan.op.fn, plan.loads, plan.accumulators, plan.stores, identity, form, most)

    types = _names(plan.loads), _names(plan.accumulators), _names(plan.stores)
    finish = plan.finish and plan.finish.key[0]
    what = "walk", _key(plan), types, repr(identity), form._replace(finish=None), finish, most
    return Piece(what, 2, make, _title(plan), plan.op)


def grouping(plan: Plan, form: Any) -> Piece:
    """The code for groups whose items lie in any order."""
    identity = identity_of(plan.op, plan.accumulators)

    def make():
        from upsweep.cpu.interleaved import grouper

        return grouper(plan.op.fn, plan.loads, plan.accumulators, plan.stores, identity, form)

    types = _names(plan.loads), _names(plan.accumulators), _names(plan.stores)
    return Piece(("grouping", _key(plan), types, repr(identity), form), 1, make, _title(plan), plan.op)


def _key(plan: Plan) -> Any:
    unchanged(plan.op)
    return plan.op.key[0]


def _names(dtypes: Iterable[np.dtype | None]) -> tuple[str | None, ...]:
    return tuple(d and d.name for d in dtypes)


def _title(plan: Plan) -> str:
    return f"{plan.op} of {', '.join(map(str, plan.loads))}"
