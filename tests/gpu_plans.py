"""Scans as the CUDA engine plans them, without a GPU: shapes and flags are all it takes."""

from __future__ import annotations

from typing import Any

from upsweep.dtypes import accumulator, named
from upsweep.gpu import lanes, layout
from upsweep.gpu.arrays import c_strides
from upsweep.operator import Operator, resolve
from upsweep.plan import Plan

Case = tuple[Operator, list[str], tuple[int, ...], int, dict[str, Any]]
"""Operator, dtypes, shape, axis and the plan's flags; `kept` names the one component that is stored, `phase` the remainder by 16
of the pointers that are read."""


def chosen(case: Case) -> tuple[Plan, layout.Choice]:
    op, names, shape, axis, flags = case
    flags = dict(flags)
    kept, phase = flags.pop("kept", None), flags.pop("phase", 0)
    dtypes = tuple(named(n) for n in names)
    stores = tuple(d if kept in (None, c) else None for c, d in enumerate(dtypes))
    op, accumulators = resolve(op, dtypes), tuple(accumulator(d) for d in dtypes)
    plan = Plan(op, dtypes, accumulators, stores, shape, axis, **flags)
    ins = [(c_strides(shape, d.itemsize), phase) for d in dtypes]
    rows = plan.row_shape if plan.reduce else shape
    outs = [(c_strides(rows, d.itemsize), 0) for d in stores if d is not None]
    heads = (c_strides(shape, 1), 0) if plan.segmented else None
    arranged = layout.arrange(plan, ins, outs, [((), 0)] * len(dtypes) if plan.initial else [], heads)
    return plan, lanes.choose(plan, arranged) or layout.choose(plan, arranged)
