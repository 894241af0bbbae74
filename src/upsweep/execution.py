"""Check a call, plan it, run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from upsweep import cores, homes
from upsweep import engine as engines
from upsweep.arguments import (
    SUMMED,
    OutputError,
    ShapeError,
    check_any,
    check_broadcasts,
    check_starts,
    dtypes_of,
    fields_of,
    held,
    is_number,
    number_dtype,
    parts_of,
    result_dtypes,
    starts_of_fields,
    summed_dtype,
    written_fields,
)
from upsweep.components import bare, tupled
from upsweep.dtypes import accumulator, fits, row, row_of
from upsweep.engine import DTypeError, Operands
from upsweep.engine_protocol import Engine
from upsweep.function import as_function
from upsweep.host import copied
from upsweep.host.labelled import reduced
from upsweep.host.labels import check_alike, check_beside, initials_of, marks_of
from upsweep.operator import Operator
from upsweep.operators import as_operator, ops
from upsweep.plan import Plan
from upsweep.planning import plan_of, stored_in
from upsweep.segments import Segments, checked

Op = Operator | str | Callable[[Any, Any], Any]


class Ran(NamedTuple):
    """A call after all checks and its run."""

    engine: str
    plan: Plan
    like: Any
    """The first of its arrays."""
    views: Operands
    """Its arrays as the engine saw them."""


def execute(
    xs: Any, op: Op, axis: int | None, exclusive: bool, reverse: bool, initial: Any, dtype: Any, out: Any,
    segments: Segments | None, engine: str, threads: int | None, reducing: bool, keep: tuple[int, ...] | None,
    order: str = "tree", map: Any = None, finish: Any = None,
) -> tuple[Any, Ran | None]:  # fmt: skip
    """Check, plan, run. Gives the result, and the call that ran, which is None for records. `keep` names the
    components that are wanted; None for all.
    """
    given, told = tupled(xs), checked(segments)
    check_any(given)
    check_alike(given)
    name = engines.choose(given) if engine == "auto" else engine
    on = engines.load(name)
    op = as_operator(op)
    of_states = op is ops.AFFINE and keep == (1,)
    like, views = (broadcast if map is not None else _recurrence if of_states else _seen)(on, given)
    fields = views[0].dtype.names if len(views) == 1 else None
    if fields:
        views = list(fields_of(views[0], fields))
    if dtype is SUMMED:
        dtype = summed_dtype(views[0].dtype, None, homes.integer_bytes(like))
    threads = cores.wanted() if threads is None else threads
    groups = told.values if told is not None and told.spelling == "groups" else None
    segments = None if groups else told
    ends = segments is not None and segments.spelling == "ends"
    # Products of multipliers in a narrower dtype would be other numbers than those of one that is converted, or would wrap.
    wanted = (views[1].dtype,) if of_states else dtypes_of(dtype)
    plan, dtypes = plan_of(
        op, tuple([v.dtype for v in views]), tuple([v.shape for v in views]), axis, exclusive, reverse,
        initial is not None, wanted, segments is not None, threads, reducing, keep, order, map and as_function(map),
        finish and as_function(finish), ends,
    )  # fmt: skip
    marks, rows = marks_of(told), initials_of(initial)
    # A reduction has one result a row.
    (rows if reducing else marks).extend([("out", part) for part in tupled(out)])
    check_beside(given, plan.shape, plan.axis, marks, rows)
    if dtype is not None:
        homes.warn_of_width(given[0], dtypes)
    fused = plan.map is not None or plan.finish is not None
    made = dtypes if plan.finish is None else plan.finish.results
    fields = None if fused else fields
    ys: list[Any]
    record, written = None, []
    if out is None:
        ys, record = _made(on, plan, made, like, fields)
    else:
        written = _written(on, out, len(plan.stores) if keep is None else len(keep), fields)
        plan = stored_in(plan, made, tuple([(y.shape, y.dtype) for y in written]))
        check_places(on, written)
        rest = iter(written)
        ys = [None if stored is None else next(rest) for stored in plan.stores]
    starts = None if initial is None else starts_of(on, plan, dtypes, initial, like, fields)
    flagged = Segments("flags", segments.values) if segments is not None and ends else segments
    heads = None if flagged is None else on.heads(flagged, plan.shape, plan.axis, like)
    seen = Operands(views, [] if heads is None else [heads], [y for y in ys if y is not None], starts or [])
    ran = None if fields else Ran(name, plan, like, seen)
    if written:
        views = [on.apart(x, written) for x in views]
        heads = None if heads is None else on.apart(heads, written)
        starts = None if starts is None else [on.apart(s, written) for s in starts]
    if groups:
        engines.grouping(name).run_groups(plan, views, ys, starts, groups)
    else:
        on.run(plan, views, ys, starts, heads)
    if out is not None:
        return out, ran
    if record is not None:
        return on.give(given[0], record), ran
    kept = range(len(ys)) if fused or keep is None else keep
    likes = [like if fused else given[c] for c in kept]
    results = [on.give(x, ys[c]) for x, c in zip(likes, kept)]
    if plan.reduce:
        results = [reduced(x, y, plan.axis) for x, y in zip(likes, results)]
    several = not fused and keep is None and isinstance(xs, tuple)
    return tuple(results) if several else bare(results), ran


def _seen(on: Engine, given: Sequence[Any]) -> tuple[Any, list[Any]]:
    return given[0], [on.view(x) for x in given]


def _recurrence(on: Engine, given: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The multiplier and the addend of a recurrence. The multiplier takes the addend's shape, and must fit its dtype."""
    a, b = given
    states = on.view(b)
    result_dtypes((states.dtype,), None)
    check_broadcasts("a", np.shape(a), states.shape)
    if getattr(a, "shape", None) != states.shape:
        # Numbers and arrays of a dtype of their own keep their digits: half precision would make 1 of 0.999.
        own = row_of(getattr(a, "dtype", None))
        dtype = states.dtype if own is row(states.dtype) else accumulator(states.dtype)
        scalar = a if engines.on_gpu(a) else held(a, dtype, "a", "b.astype({!r})")
        a = on.broadcast(scalar, states.shape, dtype, b)
    elif not fits(on.view(a).dtype, states.dtype):
        raise DTypeError(f"a of {a.dtype} does not fit b's {states.dtype}: pass b.astype({str(a.dtype)!r})")
    return b, [on.view(a), states]


def broadcast(on: Engine, given: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The first input of a map that is an array, and all inputs in their common shape. Numbers lie where that array does."""
    seen = [None if is_number(x) else on.view(x) for x in given]
    arrays = [v for v in seen if v is not None]
    if not arrays:
        raise ShapeError("numbers alone are no sequence: pass at least one array")
    like = next(x for x, v in zip(given, seen) if v is not None)
    try:
        shape = np.broadcast_shapes(*[v.shape for v in arrays])
    except ValueError as error:
        shapes = ", ".join([str(v.shape) for v in arrays])
        raise ShapeError(f"the arrays do not broadcast to one shape: {shapes}") from error
    views = []
    # NumPy's arrays without dimensions are numbers; so those of every library decide as little.
    dtypes = [v.dtype for v in arrays if v.shape] or [v.dtype for v in arrays]
    for x, v in zip(given, seen):
        if v is None:
            own = isinstance(x, (np.ndarray, np.generic))
            number = np.asarray(x) if own else held(x, number_dtype(x, dtypes), "a number")
            v = on.broadcast(number, shape, number.dtype, like)
        elif v.shape != shape:
            v = on.broadcast(x, shape, v.dtype, like)
        views.append(v)
    return like, views


def starts_of(
    on: Engine, plan: Plan, dtypes: Sequence[np.dtype], initial: Any, like: Any, fields: Any
) -> list[Any]:
    initial = starts_of_fields(initial, fields) if fields else initial
    parts = parts_of(initial, len(plan.accumulators), "initial")
    held_in = [d if d.kind in "mM" else wide for d, wide in zip(dtypes, plan.accumulators)]
    parts = [s if engines.on_gpu(s) else held(s, d) for s, d in zip(parts, held_in)]
    starts = [on.start(s, dtype, like) for s, dtype in zip(parts, plan.accumulators)]
    for s in starts:
        check_starts(s.shape, plan.row_shape)
    return starts


def _made(
    on: Engine, plan: Plan, dtypes: Sequence[np.dtype], like: Any, fields: Any
) -> tuple[list[Any], Any]:
    """New memory for each component (None where it is not wanted); for structured data also the record array whose fields the
    components are.
    """
    shape = plan.row_shape if plan.reduce else plan.shape
    if fields:
        record = on.empty(like, shape, np.dtype(list(zip(fields, dtypes))))
        return list(fields_of(record, fields)), record
    return [None if s is None else on.empty(like, shape, d) for s, d in zip(plan.stores, dtypes)], None


def _written(on: Engine, out: Any, count: int, fields: Any) -> list[Any]:
    """A view of each array, or field of the record array, that results go to."""
    if fields:
        return list(written_fields(on.view(out), fields))
    parts = parts_of(out, count, "out")
    return [_lent(on, part) for part in parts]


def _lent(on: Engine, part: Any) -> Any:
    """A view of the memory of an array that was passed as out."""
    y = None if isinstance(part, (list, int, float, np.generic)) else on.view(part)
    if y is None or copied(part, y):
        raise OutputError(
            f"out must be an array, got {type(part).__name__}: results would go into a copy of it"
        )
    return y


def check_places(on: Engine, ys: Sequence[Any]) -> None:
    """An OutputError where two items would be written to one place, or where an array cannot be written to."""
    if any(map(_folded, ys)):
        raise OutputError("items of out share memory, as those of an expanded array do: pass a copy of it")
    places = [y if isinstance(y, np.ndarray) else np.asarray(_Place(y)) for y in ys]
    if any(np.shares_memory(y, other) for y, other in combinations(places, 2)):
        raise OutputError("two arrays of out share memory: each component needs memory of its own")
    if not all(map(on.writable, ys)):
        raise OutputError(
            "out cannot be written to: it is read-only, a conjugated or negated view, or of another byte order"
        )


def _folded(y: Any) -> bool:
    """Whether an axis goes on within the items that a shorter step reaches."""
    steps = sorted((abs(step), n) for n, step in zip(y.shape, y.strides) if n != 1)
    reached = y.dtype.itemsize
    for step, n in steps:
        if step < reached:
            return 0 not in y.shape
        reached += (n - 1) * step
    return False


class _Place:
    """Memory of a GPU, for NumPy to compare with other such memory, which it does not read."""

    def __init__(self, y: Any) -> None:
        self.__array_interface__ = {
            "data": (y.ptr, False), "shape": y.shape, "strides": y.strides, "typestr": f"|V{y.dtype.itemsize}",
            "version": 3,
        }  # fmt: skip
