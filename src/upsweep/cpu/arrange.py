"""From the arguments of a run to the arrays of a launch: all of full rank, in the order in which they are scanned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from upsweep.cpu import brief, launch, strips
from upsweep.cpu.brief import is_brief
from upsweep.cpu.cuts import walks
from upsweep.cpu.launch import Launch, starts_of, turned_round, with_map
from upsweep.host import flags_of, numbers
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
    ins = [numbers(x) for x in xs]
    if heads is not None:
        ins.append(flags_of(plan, heads))
    ins = [turned_round(plan, x) for x in ins]
    outs = [np.expand_dims(y, plan.axis) if plan.reduce else turned_round(plan, y) for y in ys]
    arrays = [*ins, *outs, *starts_of(plan, initial)]
    strides = tuple([a.strides for a in arrays])
    how = brief if is_brief(plan, strides) else strips if walks(plan, strides) else launch
    return plan, how.launch_of(plan, arrays), arrays
