"""Scans of two results, of which an engine sums the second where it makes it: no array of its size is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from typing import Any

from upsweep import engine as engines
from upsweep.dtypes import accumulator
from upsweep.engine import ENGINES
from upsweep.execution import broadcast
from upsweep.function import as_function
from upsweep.operators import as_operator
from upsweep.plan import Plan
from upsweep.planning import plan_of
from upsweep.segments import Segments


def scan_and_sums(
    given: tuple[Any, ...], op: Any, *, axis: int, across: bool, exclusive: bool = False, reverse: bool = False,
    segments: Segments | None = None, order: str = "tree", map: Callable[..., Any], finish: Callable[..., Any],
) -> tuple[Any, Any] | None:  # fmt: skip
    """A scan, as `upsweep.scan` with these arguments, whose finish gives two numbers for an item. The first is
    stored as the first input is. The second is summed before it is stored, in the dtype that is computed in.

    Args:
        across: sum over neighbours along the last axis; else over neighbours along the axis of the scan.

    Returns:
        The first result, and sums of the second, whose sum is the sum of all. None, and nothing is run, where no kernel of the
        engine sums such rows.
    """
    summing = sums_of(given)
    if summing is None:
        return None
    on = engines.load(engines.choose(given))
    like, xs = broadcast(on, given)
    computed = accumulator(xs[0].dtype)
    how = axis, exclusive, reverse, False, (computed,), segments is not None, None, False, None, order
    plan, _ = plan_of(
        as_operator(op), tuple([x.dtype for x in xs]), tuple([x.shape for x in xs]), *how, as_function(map), as_function(finish)
    )  # fmt: skip
    heads = None if segments is None else on.heads(segments, plan.shape, axis, like)
    made = summing.run(_stored(plan), xs, heads, across, lambda shape, dtype: on.empty(like, shape, dtype))
    return made and (on.give(like, made[0]), on.give(like, made[1]))


def sums_of(given: tuple[Any, ...]) -> Any:
    """The module of sums within scans that the engine of these arrays has; None where it has none."""
    module = ENGINES[engines.choose(given)].sums
    return module and import_module(module)


@lru_cache(1024)
def _stored(plan: Plan) -> Plan:
    return replace(plan, stores=(plan.loads[0], accumulator(plan.loads[0])))
