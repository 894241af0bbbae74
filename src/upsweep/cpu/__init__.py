"""The CPU engine: kernels compiled by numba, threads of our own. See `upsweep.engine.Engine` for what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from upsweep.cpu import launch, strips
from upsweep.cpu.arrays import apart, broadcast, cut, empty, give, numbers, start, view, writable
from upsweep.cpu.heads import heads, spread
from upsweep.operator import exact, identity_of
from upsweep.plan import Plan

__all__ = [
    "apart",
    "broadcast",
    "cut",
    "empty",
    "give",
    "heads",
    "run",
    "spread",
    "start",
    "view",
    "writable",
]


def run(
    plan: Plan,
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray | None],
    initial: Sequence[np.ndarray] | None,
    heads: np.ndarray | None,
) -> None:
    """Run a plan: see `upsweep.engine.Engine.run`."""
    ys = [y if y is None else numbers(y) for y in ys]
    if plan.n == 0:
        _reduce_nothing(plan, ys, initial)
        return
    ins, outs = [numbers(x) for x in xs], [y for y in ys if y is not None]
    if heads is not None:
        ins.append(_heads(plan, heads))
    if plan.reverse:
        ins = [np.flip(x, plan.axis) for x in ins]
        outs = outs if plan.reduce else [np.flip(y, plan.axis) for y in outs]
    if plan.reduce:
        outs = [np.expand_dims(y, plan.axis) for y in outs]
    run = strips.run if walks(plan) else launch.run
    run(plan, ins, outs, [_broadcast(s, plan) for s in initial or ()])


def walks(plan: Plan) -> bool:
    """Whether a plan is walked in order; where every order gives the same bits a single row is faster by the tree."""
    return plan.order == "sequential" and not (plan.rows == 1 and exact(plan.op, plan.accumulators))


def _reduce_nothing(
    plan: Plan, ys: Sequence[np.ndarray | None], initial: Sequence[np.ndarray] | None
) -> None:
    if plan.reduce:
        values = identity_of(plan.op, plan.accumulators) if initial is None else initial
        for y, value in zip(ys, values or ()):
            if y is not None:
                y[...] = value


def _heads(plan: Plan, heads: np.ndarray) -> np.ndarray:
    """The flags, one for each item. In reverse a segment starts where it ended, one before the next one's head."""
    if plan.reverse:
        # What comes round is the start of the scan, where a head changes nothing.
        heads = np.roll(heads, -1, plan.axis if heads.ndim > 1 else 0)
    return spread(heads, plan.shape, plan.axis)


def _broadcast(start: np.ndarray, plan: Plan) -> np.ndarray:
    return np.expand_dims(np.broadcast_to(start, plan.row_shape), plan.axis)
