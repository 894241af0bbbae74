"""All checks of a call that need no data; they end in a plan."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

import numpy as np

from upsweep.arguments import OutputError, ShapeError, axis_of, check_order, result_dtypes, shape_of
from upsweep.dtypes import accumulator, fits, number
from upsweep.function import Function
from upsweep.operator import Operator, OperatorError, identity_of, resolve
from upsweep.plan import Plan

P = ParamSpec("P")
T = TypeVar("T")

MOST = 32
"""Arrays that go into a scan, components, and results."""
_INDEX = (np.dtype(np.int64),)


def _remembered(plan: Callable[P, T]) -> Callable[P, T]:
    """The plan of a call, from memory where the same functions were planned before. A value that an equal function uses may have
    changed since.
    """

    # `typed`: axis=1.0 is a mistake also where axis=1 is known.
    @lru_cache(4096, typed=True)
    def known(ids: Any, *given: Any, **named: Any) -> T:
        return plan(*given, **named)

    def planned(*given: P.args, **named: P.kwargs) -> T:
        told = (*given, *named.values())
        functions = [each for each in told if isinstance(each, (Operator, Function))]
        # An argument without a hash, such as axis=[0], is a mistake, which `plan` names.
        if not all(isinstance(each, Hashable) for each in told) or not all(
            f.uses.constant for f in functions
        ):
            return plan(*given, **named)
        return known(tuple(map(id, functions)), *given, **named)

    return planned


@_remembered
def plan_of(
    op: Operator, dtypes: tuple[np.dtype, ...], shapes: tuple[tuple[int, ...], ...], axis: int | None,
    exclusive: bool = False, reverse: bool = False, initial: bool = False, dtype: tuple[np.dtype, ...] | None = None,
    segmented: bool = False, threads: int | None = None, reducing: bool = False, keep: tuple[int, ...] | None = None,
    order: str = "tree", map: Function | None = None, finish: Function | None = None, ends: bool = False,
) -> tuple[Plan, tuple[np.dtype, ...]]:  # fmt: skip
    """Check everything that does not depend on the data: the plan, and the dtypes of the prefixes."""
    shape = shape_of(shapes)
    axis = axis_of(axis, shape)
    for name, value in (("exclusive", exclusive), ("reverse", reverse)):
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name}={value!r}: pass True or False")
    if threads is not None and (not isinstance(threads, (int, np.integer)) or threads < 1):
        raise ValueError(f"threads={threads!r}: pass a number of at least 1, or nothing for all cores")
    check_order(order)
    loads = [accumulator(number(d)) for d in dtypes]
    if map is not None:
        map = map.taking([len(loads), 1 + len(loads)])
        map = _typed(map, (*[(d,) for d in loads], _INDEX)[: map.arity])
    computed = result_dtypes(dtypes if map is None else map.results, dtype)
    chosen = resolve(op, computed)
    accumulators = tuple(accumulator(d) for d in computed)
    needs = (exclusive and shape[axis] > 0) or (reducing and shape[axis] == 0)
    if needs and not initial and identity_of(chosen, accumulators) is None:
        what = "an exclusive scan" if exclusive else "the reduction of nothing"
        raise OperatorError(
            f"{what} needs an identity, and {op} has none: pass initial=, or Operator(..., identity=)"
        )
    stores = tuple(number(d) if keep is None or c in keep else None for c, d in enumerate(computed))
    if finish is not None:
        finish = finish.taking([1] if reducing else [1, 1 + len(loads), 2 + len(loads)])
        arguments: Any = (accumulators, *[(d,) for d in loads], _INDEX)[: finish.arity]
        finish = _typed(finish, arguments)
        stores = finish.results
    most = max(len(dtypes), len(computed), len(stores))
    if most > MOST:
        raise ShapeError(
            f"{most} arrays are too many to go into a scan, to be combined by it, or to come out: pass at most {MOST}"
        )
    plan = Plan(
        chosen, tuple([number(d) for d in dtypes]), accumulators, stores, shape, axis, exclusive, reverse, initial,
        segmented, ends, reducing, threads, order, map, finish,
    )  # fmt: skip
    return plan, computed


def _typed(function: Function, arguments: tuple[tuple[np.dtype, ...], ...]) -> Function:
    from upsweep.numpy_engine.inference import results_of

    return replace(function, results=results_of(function, arguments))


def stored_in(
    plan: Plan, dtypes: tuple[np.dtype, ...], outs: tuple[tuple[tuple[int, ...], np.dtype], ...]
) -> Plan:
    """The plan, writing to arrays of these shapes and dtypes, one for each component that it stores."""
    shape = plan.row_shape if plan.reduce else plan.shape
    stores = list(plan.stores)
    for c, (have, dtype) in zip([c for c, stored in enumerate(stores) if stored is not None], outs):
        if have != shape:
            raise OutputError(f"out has shape {have}, the result has {shape}")
        if not fits(dtypes[c], dtype):
            raise OutputError(
                f"out of {dtype} cannot hold a result of {dtypes[c]}; pass dtype= or another out"
            )
        stores[c] = number(dtype)
    return plan if tuple(stores) == plan.stores else replace(plan, stores=tuple(stores))
