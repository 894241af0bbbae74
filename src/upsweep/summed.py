"""Scans of two results, of which an engine sums the second where it makes it: no array of its size is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from upsweep import engine as engines
from upsweep import recall
from upsweep.dtypes import accumulator
from upsweep.engine import ENGINES, Operands
from upsweep.execution import Ran, broadcast
from upsweep.function import Function, as_function
from upsweep.operator import Operator
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
    told = segments and recall.seen_segments(segments)
    like = scan_and_sums, recall.seen(given), op, axis, across, exclusive, reverse, told, order, map, finish
    known = recall.known(like)
    if known is _nowhere:
        return None
    made = known and known(given, None, None, segments)
    if made is None:
        how = op, axis, across, exclusive, reverse, segments, order, map, finish
        made = recall.learnt(like, given, None, None, segments, _run, summing, given, *how)
        if made is None and recall.hashes(like):
            recall.keep(like, _nowhere)
    return made


def _nowhere(*_: Any) -> None:
    """Stands for calls that no kernel of the engine sums."""


def _run(
    summing: Any, given: tuple[Any, ...], op: Any, axis: int, across: bool, exclusive: bool, reverse: bool,
    segments: Segments | None, order: str, map: Callable[..., Any], finish: Callable[..., Any],
) -> tuple[tuple[Any, Any] | None, Ran | None]:  # fmt: skip
    """The two results, and how they were made."""
    name = engines.choose(given)
    on = engines.load(name)
    like, xs = broadcast(on, given)
    plan = _plan(
        as_operator(op), tuple([x.dtype for x in xs]), tuple([x.shape for x in xs]), axis, exclusive, reverse,
        segments is not None, order, as_function(map), as_function(finish),
    )  # fmt: skip
    heads = [] if segments is None else [on.heads(segments, plan.shape, axis, like)]
    made = summing.run(
        plan, xs, heads[0] if heads else None, across, lambda shape, dtype: on.empty(like, shape, dtype)
    )
    if made is None:
        return None, None
    plan, *ys = made
    return (on.give(like, ys[0]), on.give(like, ys[1])), Ran(name, plan, like, Operands(xs, heads, ys, []))


def sums_of(given: tuple[Any, ...]) -> Any:
    """The module of sums within scans that the engine of these arrays has; None where it has none."""
    return _sums_of(engines.choose(given))


@cache
def _sums_of(engine: str) -> Any:
    module = ENGINES[engine].sums
    return module and import_module(module)


@lru_cache(1024)
def _plan(
    op: Operator, dtypes: tuple[np.dtype, ...], shapes: tuple[tuple[int, ...], ...], axis: int, exclusive: bool, reverse: bool,
    segmented: bool, order: str, map: Function, finish: Function,
) -> Plan:  # fmt: skip
    computed = accumulator(dtypes[0])
    how = axis, exclusive, reverse, False, (computed,), segmented, None, False, None, order
    plan, _ = plan_of(op, dtypes, shapes, *how, map, finish)
    return replace(plan, stores=(dtypes[0], computed))
