"""The CPU engine: kernels compiled by numba, threads of our own. See `upsweep.engine.Engine` for what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from upsweep.cpu import launch, strips
from upsweep.cpu.code import ensure
from upsweep.cpu.cuts import walks
from upsweep.cpu.pieces import kernel
from upsweep.host import (
    apart,
    broadcast,
    cut,
    empty,
    flags_of,
    give,
    heads,
    numbers,
    of_nothing,
    shifted,
    spread,
    start,
    view,
    writable,
)
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

ensure(kernel())


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
        if plan.reduce:
            one, items = of_nothing(plan, initial)
            run(one, items, ys, None, None)
        return
    if plan.ahead is not None:
        (plan, xs), initial = shifted(plan, xs, initial or ()), None
    plan = launch.with_map(plan)
    ins, outs = [numbers(x) for x in xs], [y for y in ys if y is not None]
    if heads is not None:
        ins.append(flags_of(plan, heads))
    ins = [launch.turned_round(plan, x) for x in ins]
    outs = outs if plan.reduce else [launch.turned_round(plan, y) for y in outs]
    if plan.reduce:
        outs = [np.expand_dims(y, plan.axis) for y in outs]
    starts = launch.starts_of(plan, initial)
    how = strips.run if walks(plan, tuple([a.strides for a in (*ins, *outs, *starts)])) else launch.run
    how(plan, ins, outs, starts)
