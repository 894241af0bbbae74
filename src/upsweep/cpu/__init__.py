"""The CPU engine: kernels compiled by numba, threads of our own. `upsweep.engine_protocol.Engine` is its protocol."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from upsweep.cpu.arrange import arranged
from upsweep.cpu.code import ensure
from upsweep.cpu.units import kernel
from upsweep.cpu.work import at_work
from upsweep.host import (
    apart,
    broadcast,
    cut,
    empty,
    give,
    heads,
    numbers,
    of_nothing,
    shifted,
    spread,
    start,
    view,
    without_ahead,
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
    """Run a plan: see `upsweep.engine_protocol.Engine.run`."""
    ys = [y if y is None else numbers(y) for y in ys]
    if plan.n == 0:
        if plan.reduce:
            one, items = of_nothing(plan, initial)
            run(one, items, ys, None, None)
        return
    if plan.ahead is not None:
        plan, xs, initial = without_ahead(plan), shifted(plan, xs, initial), None
    if plan.rows:
        at_work(*arranged(plan, xs, [y for y in ys if y is not None], initial, heads))
