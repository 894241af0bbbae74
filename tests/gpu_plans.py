"""Scans as the CUDA engine plans them, without a GPU: shapes and flags are all it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from upsweep.dtypes import accumulator, named
from upsweep.function import as_function
from upsweep.gpu import launch, layout, shapes
from upsweep.gpu.choice import Choice
from upsweep.gpu.view import c_strides
from upsweep.operator import Operator, resolve
from upsweep.operators import as_operator
from upsweep.plan import Plan
from upsweep.planning import plan_of, stored_in

Case = tuple[Operator, list[str], tuple[int, ...], int, dict[str, Any]]
"""Operator, dtypes, shape, axis and the plan's flags. `kept` names the one component that is stored. `phase` is the remainder
by 16 of the pointers that are read, `pitch` the items from row to row of arrays that are read. `transposed` says whether the
arrays lie column by column, `listed` whether all rows share their segments, `alone` whether they share the first input.
"""


def chosen(case: Case, arch: int = 90) -> tuple[Plan, Choice]:
    op, names, shape, axis, flags = case
    flags = dict(flags)
    kept, phase = flags.pop("kept", None), flags.pop("phase", 0)
    transposed, pitch = flags.pop("transposed", False), flags.pop("pitch", shape[-1])
    listed, alone = flags.pop("listed", False), flags.pop("alone", False)
    line = tuple(int(d == axis) for d in range(len(shape)))
    dtypes = tuple(named(n) for n in names)
    stores = tuple(d if kept in (None, c) else None for c, d in enumerate(dtypes))
    op, accumulators = resolve(op, dtypes), tuple(accumulator(d) for d in dtypes)
    plan = Plan(op, dtypes, accumulators, stores, shape, axis, **flags)
    ins = [(c_strides((*shape[:-1], pitch), d.itemsize), phase) for d in dtypes]
    if transposed:
        ins = [(c_strides(shape[::-1], d.itemsize)[::-1], phase) for d in dtypes]
    if alone:
        ins[0] = (tuple(d * dtypes[0].itemsize for d in line), phase)
    rows = plan.row_shape if plan.reduce else shape
    outs = [(c_strides(rows, d.itemsize), 0) for d in stores if d is not None]
    heads = (line if listed else c_strides(shape, 1), 0) if plan.segmented else None
    return _choice(plan, ins, outs, heads, arch)


def apart(op: Operator, name: str, shape: tuple[int, int], step: int, behind: int) -> tuple[Plan, Choice]:
    """A scan along axis 0 of every `step`th column, from column `behind` on."""
    dtype = named(name)
    plan = Plan(resolve(op, (dtype,)), (dtype,), (accumulator(dtype),), (dtype,), shape, 0)
    size = dtype.itemsize
    ins = [((step * shape[1] * size, step * size), behind * size)]
    return _choice(plan, ins, [(c_strides(shape, size), 0)], None)


class Fused(NamedTuple):
    """A scan with a map or a finish."""

    op: Any
    inputs: str
    """The dtype of each input, and how the input lies: "f4" is an array, "f4:" a number, "f4-" one item a row, "f4|" one row
    for all.
    """
    shape: tuple[int, ...]
    axis: int
    map: Callable[..., Any] | None = None
    finish: Callable[..., Any] | None = None
    flags: dict[str, Any] = {}  # noqa: RUF012
    stores: str = ""
    """The dtypes of the results, where these are not what the finish gives."""


def fused(case: Fused, arch: int = 90) -> tuple[Plan, Choice]:
    kinds = [name[-1] for name in case.inputs.split()]
    dtypes = tuple(named(name.rstrip(":-|")) for name in case.inputs.split())
    functions = {
        "map": case.map and as_function(case.map),
        "finish": case.finish and as_function(case.finish),
    }
    plan, made = plan_of(
        as_operator(case.op), dtypes, (case.shape,) * len(dtypes), case.axis, **functions, **case.flags
    )
    if case.stores:
        results = made if plan.finish is None else plan.finish.results
        plan = stored_in(plan, results, tuple((case.shape, named(name)) for name in case.stores.split()))

    def strides(kind: str, size: int) -> tuple[int, ...]:
        full = c_strides(case.shape, size)
        moves = {":": lambda d: False, "-": lambda d: d != case.axis, "|": lambda d: d == case.axis}
        return tuple([s * moves.get(kind, lambda d: True)(d) for d, s in enumerate(full)])

    ins = [(strides(kind, d.itemsize), -1 if kind == ":" else 0) for kind, d in zip(kinds, dtypes)]
    rows = plan.row_shape if plan.reduce else plan.shape
    outs = [(c_strides(rows, d.itemsize), 0) for d in plan.stores if d is not None]
    return _choice(plan, ins, outs, (c_strides(case.shape, 1), 0) if plan.segmented else None, arch)


def _choice(plan: Plan, ins: Any, outs: Any, heads: Any, arch: int = 90) -> tuple[Plan, Choice]:
    """The plan that a kernel is made for, and the choice that launches it."""
    starts = [((), 0)] * len(plan.accumulators) if plan.initial else []
    arranged = layout.arrange(plan, ins, outs, starts, heads)
    return launch.choose(plan, arranged, shapes.chip(arch))
