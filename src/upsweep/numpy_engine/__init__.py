"""The NumPy engine: whole levels of the canonical tree at a time, in NumPy alone.

It runs where numba does not (a new Python on its first day, a browser), and is the tests' second opinion. sweep.py holds the
two orders, operators.py the operators on whole arrays, typed.py Python functions on whole arrays, fma.py an exact multiply-add.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from upsweep.dtypes import accumulator, foreign
from upsweep.function import Function
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
    without_ahead,
    writable,
)
from upsweep.numpy_engine.fma import odd_float32
from upsweep.numpy_engine.operators import computed, on_arrays, ufunc_of
from upsweep.numpy_engine.sweep import Steps, accumulated, in_order, last_prefix, prefixes
from upsweep.operator import identity_of
from upsweep.operators import free
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
    """Run a plan: see `upsweep.engine_protocol.Engine.run`. All items are read before a result is written."""
    ys = [y if y is None else numbers(y) for y in ys]
    if plan.n == 0 or plan.rows == 0:
        if plan.reduce and plan.rows:
            one, items = of_nothing(plan, initial)
            run(one, items, ys, None, None)
        return
    if plan.ahead is not None:
        plan, xs, initial = without_ahead(plan), shifted(plan, xs, initial), None
    # Integers wrap, and infinities are results like any other.
    with np.errstate(all="ignore"):
        write(plan, _results(plan, xs, initial, heads), ys)


def _results(
    plan: Plan,
    xs: Sequence[np.ndarray],
    initial: Sequence[np.ndarray] | None,
    heads: np.ndarray | None,
) -> Sequence[np.ndarray]:
    """The results, one array a component: the axis comes first, in the direction of the scan."""
    inputs = inputs_of(plan, xs)
    items = operands(plan, inputs)
    flags = None if heads is None else turned(plan, flags_of(plan, heads)) != 0
    before = None if initial is None else [np.broadcast_to(s, plan.row_shape) for s in initial]
    steps = Steps(on_arrays(plan.op, plan.accumulators), before)
    known = shown(plan, prefixes_of(plan, steps, items, flags), flags, before)
    return known if plan.finish is None else finished(plan, plan.finish, known, inputs)


def inputs_of(plan: Plan, xs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The inputs in the dtypes that are computed in, the axis first. A truth's byte may be another than 0 and 1, and NumPy would
    copy it.
    """
    given = [turned(plan, numbers(x)) for x in xs]
    return [
        x != 0 if x.dtype == np.bool_ else x.astype(accumulator(d))
        for x, d in zip(given, plan.loads, strict=True)
    ]


def operands(plan: Plan, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """The items that are scanned, one array a component."""
    if plan.map is not None:
        arguments = [[x] for x in (*inputs, *_places(plan, inputs[0], plan.placed))]
        inputs = computed(plan.map, arguments[: plan.map.arity])
    return [x.astype(d, copy=False) for x, d in zip(inputs, plan.accumulators)]


def finished(
    plan: Plan, finish: Function, prefixes: Sequence[np.ndarray], inputs: Sequence[np.ndarray]
) -> Sequence[np.ndarray]:
    """The results that the finish makes of prefixes."""
    arguments: list[Sequence[np.ndarray]] = [prefixes, *([x] for x in inputs[: finish.arity - 1])]
    arguments += [[x] for x in _places(plan, prefixes[0], finish.arity > 1 + len(inputs))]
    return computed(finish, arguments)


def _places(plan: Plan, like: np.ndarray, wanted: bool) -> list[np.ndarray]:
    """The index of each item, where it is wanted."""
    if not wanted:
        return []
    places = np.arange(plan.n).reshape(-1, *[1] * len(plan.row_shape))
    return [np.broadcast_to(places[::-1] if plan.reverse else places, like.shape)]


def prefixes_of(
    plan: Plan, steps: Steps, items: Sequence[np.ndarray], flags: np.ndarray | None
) -> Sequence[np.ndarray]:
    """The prefixes at 0, 1, ..., n; of a reduction the last alone."""
    any_order, ufunc = free(plan.op, plan.accumulators), ufunc_of(plan.op, plan.accumulators)
    if plan.order == "sequential" and not any_order:
        return in_order(steps, items, flags)
    if plan.reduce:
        return [p[None] for p in last_prefix(steps, items, flags)]
    if any_order and ufunc and flags is None:
        return accumulated(ufunc, steps, items)
    return prefixes(steps, items, flags)


def shown(
    plan: Plan,
    known: Sequence[np.ndarray],
    flags: np.ndarray | None,
    before: Sequence[np.ndarray] | None,
) -> Sequence[np.ndarray]:
    """The prefixes that belong to items: with the items, or without them. Where nothing stands before an item, this is `initial`
    or the identity.
    """
    if not plan.exclusive:
        return [p[-1] if plan.reduce else p[1:] for p in known]
    first = identity_of(plan.op, plan.accumulators) if before is None else before
    # planning.py asks for it.
    assert first is not None
    for p, e in zip(known, first):
        p[0] = e
        if flags is not None:
            p[:-1] = np.where(flags, e, p[:-1])
    return [p[:-1] for p in known]


def write(plan: Plan, results: Sequence[np.ndarray], ys: Sequence[np.ndarray | None]) -> None:
    for y, result in zip(ys, results):
        if y is not None:
            if foreign(y.dtype) and result.dtype == np.float64:
                # ml_dtypes goes by way of float32.
                result = odd_float32(result)
            np.copyto(y if plan.reduce else turned(plan, y), result, casting="unsafe")


def turned(plan: Plan, x: np.ndarray) -> np.ndarray:
    first = np.moveaxis(x, plan.axis, 0)
    return first[::-1] if plan.reverse else first
