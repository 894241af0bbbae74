"""From the arguments of a run to the arrays of a launch: all of full rank, in the order in which they are scanned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from upsweep.cpu import brief, launch, strips, tuning
from upsweep.cpu.brief import is_brief
from upsweep.cpu.launch import Launch, starts_of, turned_round, with_map
from upsweep.cpu.strips import walks
from upsweep.host import flags_of, numbers
from upsweep.operators import BUILTIN
from upsweep.plan import Plan


def arranged(
    plan: Plan,
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    initial: Sequence[np.ndarray] | None,
    heads: np.ndarray | None,
) -> tuple[Plan, Launch, list[np.ndarray]]:
    """The plan that is launched, how, and on which arrays: inputs, flags of segments, outputs, starts."""
    plan = with_map(plan)
    coupled, xs = _coupled(plan), [numbers(x) for x in xs]
    if coupled and all(_couples(x) for x in (*xs, *ys, *(initial or ()))) and _one_for_all(plan, heads):
        xs, ys = ([x.view(_COMPLEX) for x in arrays] for arrays in (xs, ys))
        plan, initial = coupled, initial and [start.view(_COMPLEX) for start in initial]
    ins = [*xs]
    if heads is not None:
        ins.append(flags_of(plan, heads))
    ins = [turned_round(plan, x) for x in ins]
    outs = [np.expand_dims(y, plan.axis) if plan.reduce else turned_round(plan, y) for y in ys]
    arrays = [*ins, *outs, *starts_of(plan, initial)]
    strides = tuple([a.strides for a in arrays])
    how = brief if is_brief(plan, strides) else strips if walks(plan, strides) else launch
    return plan, how.launch_of(plan, arrays), arrays


_REAL, _COMPLEX = np.dtype("f4"), np.dtype("c8")


@lru_cache(4096)
def _coupled(plan: Plan) -> Plan | None:
    """The plan of sums of complex numbers, where two columns of float32 are summed: these sums have the same bits."""
    sums = plan.op == BUILTIN["add"] and plan.loads == plan.accumulators == plan.stores == (_REAL,)
    columns = len(plan.shape) == plan.axis + 2 and plan.shape[-1] == 2 and plan.n >= tuning.COUPLED
    if not (sums and columns and plan.order == "tree" and plan.map is plan.finish is None and not plan.sums):
        return None
    one = (_COMPLEX,)
    return replace(plan, loads=one, accumulators=one, stores=one, shape=(*plan.shape[:-1], 1))


def _couples(x: np.ndarray) -> bool:
    """Whether the last dimension of an array is two items side by side."""
    return x.shape[-1:] == (2,) and x.strides[-1] == _REAL.itemsize


def _one_for_all(plan: Plan, heads: np.ndarray | None) -> bool:
    """Whether both columns have the same segments."""
    return heads is None or heads.ndim < len(plan.shape)
