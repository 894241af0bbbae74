"""The memory of scans: a call like an earlier one is neither checked nor planned again.

Checking a call takes longer than a small scan does. Whatever the checks look at is a call's likeness; what ran a call is kept
under it, and runs the next call that is alike.
"""

from __future__ import annotations

from typing import Any

from upsweep import engine as engines
from upsweep.operator import Operator
from upsweep.operators import as_operator
from upsweep.planning import plan_of, stored_in

known_scans: dict[tuple[Any, ...] | None, engines.Again] = {}
_MOST = 4096
"""Scans that are remembered; one more, and all are forgotten."""


def alike(
    likeness: engines.Likeness,
    xs: Any,
    op: Any,
    axis: Any,
    exclusive: Any,
    reverse: Any,
    out: Any,
    order: Any,
) -> tuple[Any, ...] | None:
    """All that a scan of one array is checked for, where nothing but that tells one from another; else None."""
    # A Python function may have changed since the last call.
    if type(op) is not str and type(op) is not Operator:
        return None
    if not (type(exclusive) is type(reverse) is bool and type(axis) in (int, type(None)) and order == "tree"):
        return None
    if out is None:
        return (type(xs), op, *likeness.of(xs), axis, exclusive, reverse)
    if type(out) is not type(xs):
        return None
    written = likeness.written(out)
    return None if written is None else (type(xs), op, *likeness.of(xs), axis, exclusive, reverse, *written)


def learn(
    likeness: engines.Likeness, like: tuple[Any, ...], x: Any, y: Any, op: Any, axis: Any, exclusive: Any, reverse: Any
) -> None:  # fmt: skip
    """Know a scan from x to y, which was right, when its like comes again."""
    name = engines.choose((x,))
    if x.nbytes > likeness.most or name != likeness.engine:
        return
    have, made = [engines.load(name).view(a) for a in (x, y)]
    if any(v.dtype.kind not in likeness.kinds or v.dtype.names or not v.dtype.isnative for v in (have, made)):
        return
    plan, dtypes = plan_of(as_operator(op), (have.dtype,), (have.shape,), axis, exclusive, reverse)
    plan = stored_in(plan, dtypes, ((made.shape, made.dtype),))
    run = engines.again(name, plan, x, y)
    if run is not None:
        if len(known_scans) >= _MOST:
            known_scans.clear()
        known_scans[like] = run
