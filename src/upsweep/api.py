"""The public scans: check the call, make a frozen plan, run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep import cores
from upsweep import engine as engines
from upsweep.arguments import (
    ShapeError,
    alone,
    axis_of,
    dtype_of,
    dtypes_of,
    held,
    number_dtype,
    result_dtypes,
    shape_of,
    summed_dtype,
)
from upsweep.dtypes import accumulator, fits, number
from upsweep.engine import DTypeError, Engine
from upsweep.function import Function, as_function
from upsweep.operator import Operator, OperatorError, identity_of, resolve
from upsweep.operators import as_operator, ops
from upsweep.plan import ORDERS, Plan
from upsweep.segments import Segments, checked

Op = Operator | str | Callable[[Any, Any], Any]


class OutputError(ValueError):
    """`out` has the wrong shape, number or kind, or cannot be written."""


def scan(
    xs: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Any = None,
    dtype: Any = None,
    out: Any = None,
    segments: Segments | None = None,
    order: str = "tree",
    map: Callable[..., Any] | None = None,
    finish: Callable[..., Any] | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Any:
    """All prefixes of a sequence under an associative operator.

    `inclusive[i] = initial ⊕ x[0] ⊕ ... ⊕ x[i]`, `exclusive[i]` the same up to `x[i-1]`; the order of evaluation is the
    canonical tree (see `upsweep.tree`), so that the result has the same bits on every machine and engine, and
    `inclusive[i]` those of `reduce(x[:i+1])`.

    Args:
        xs: an array, or a tuple of arrays of one shape that together are one sequence of tuples, or a structured
            array; NumPy, PyTorch, CuPy, JAX, or anything with DLPack or `__cuda_array_interface__`.
        op: a built-in operator by name or from `upsweep.ops`, an `Operator`, or an associative Python function of two
            scalars (of two tuples of scalars for a tuple of arrays). The left operand is always the earlier one.
        axis: the axis to scan along; it may be left out for 1-D input only.
        exclusive: leave the item itself out of its prefix. The first result is `initial` or the identity.
        reverse: scan from the end: flip, scan, flip. The left operand is what is already scanned.
        initial: what stands before the first item, of the accumulator's dtype: a scalar or an array with one value a
            row (the shape without the axis); a tuple of these for a tuple of arrays. Every segment starts from it.
        dtype: the dtype to compute and return, one for all or a tuple. By default that of the input, where floats
            narrower than float32 are summed in float32 and rounded once. Integers wrap.
        out: where to put the result (a tuple for a tuple of arrays); it may be the input itself.
        segments: see `upsweep.segments`; the scan starts anew where a segment starts.
        order: "tree" for the canonical tree, or "sequential" for the loop `y[i] = y[i-1] ⊕ x[i]` from `initial`, whose bits
            are those of `np.add.accumulate`, wherever a sequence is cut and continued. It is parallel over rows only: the
            faster order for many rows, a slow one for a single long row.
        map: a function that makes what is scanned out of the items of all arrays: `f(x)`, or `f(x0, x1, ...)` for a tuple of
            arrays, which then may have any dtypes and shapes that broadcast (nothing is copied for that); it returns a scalar,
            or a tuple of them for an operator on tuples. Numbers among the arrays are parameters: another value compiles
            nothing. `dtype` is that of what is scanned.
        finish: a function that makes the results out of a prefix (a tuple of scalars for an operator on tuples): `g(prefix)`;
            with more parameters, which have no defaults, `g(prefix, x0, x1, ...)` of the items as well, or
            `g(prefix, x0, x1, ..., index)` of their index along the axis too. It returns a scalar or a tuple, which are the
            results. Bit for bit, `finish(scan(map(xs)))` in three steps; the items are read, and the results written, once.
        engine: "auto" (where the data are), "cpu", "cuda", or "numpy", which needs no compiler.
        threads: threads of the CPU engine; by default what `upsweep.set_threads` says. It changes no bit.

    Returns:
        An array (a tuple of arrays) of the input's shape, kind and device; with `map` or `finish`, of the dtypes that these
        return. They see narrow floats as float32, and times as int64.

    Raises:
        ShapeError, DTypeError, OutputError, SegmentError, OperatorError, EngineError: before anything is written.

    >>> import upsweep as up
    >>> up.scan([3, 1, 7, 0, 4, 1, 6, 3]).tolist()
    [3, 4, 11, 11, 15, 16, 22, 25]
    >>> up.scan([3, 1, 7, 0, 4, 1, 6, 3], exclusive=True).tolist()
    [0, 3, 4, 11, 11, 15, 16, 22]
    >>> up.scan([3.0, 1.0, 7.0, 0.0], "max", finish=lambda peak, x: (peak - x) / peak).round(2).tolist()  # drawdown
    [0.0, 0.67, 0.0, 1.0]

    Source: Blelloch, "Prefix sums and their applications" (1990); Brent and Kung (1982) for the tree.
    """
    like = known = None
    likeness = engines.LIKENESS.get(type(xs))
    bare = initial is dtype is segments is threads is map is finish is None
    if likeness is not None and bare and engine == "auto":
        like = _likeness(likeness, xs, op, axis, exclusive, reverse, out, order)
        known = _known.get(like)
        if known is not None:
            y = likeness.empty(xs) if out is None else out
            if known(xs, y):
                return y
    y = execute(
        xs, op, axis, exclusive, reverse, initial, dtype, out, segments, engine, threads, False, None, order, map, finish
    )  # fmt: skip
    if like is not None and known is None and likeness is not None:
        _learn(likeness, like, xs, y, op, axis, exclusive, reverse)
    return y


_known: dict[tuple[Any, ...] | None, engines.Again] = {}
_LEARNT = 4096
MOST = 32
"""Arrays that go into a scan, components, and results."""


def _likeness(
    likeness: engines.Likeness,
    xs: Any,
    op: Any,
    axis: Any,
    exclusive: Any,
    reverse: Any,
    out: Any,
    order: Any,
) -> tuple[Any, ...] | None:
    """All that a scan of one array is checked for, where nothing but that tells one from another; else None."""
    if type(op) is not str and type(op) is not Operator:  # a function may have changed
        return None
    if not (type(exclusive) is type(reverse) is bool and type(axis) in (int, type(None)) and order == "tree"):
        return None
    if out is None:
        return (type(xs), op, *likeness.of(xs), axis, exclusive, reverse)
    if type(out) is not type(xs):
        return None
    written = likeness.written(out)
    return None if written is None else (type(xs), op, *likeness.of(xs), axis, exclusive, reverse, *written)


def _learn(
    likeness: engines.Likeness, like: tuple[Any, ...], x: Any, y: Any, op: Any, axis: Any, exclusive: Any, reverse: Any
) -> None:  # fmt: skip
    """Know a scan from x to y, which was right, when its like comes again."""
    name = engines.choose((x,))
    if x.nbytes > likeness.most or name != likeness.engine:
        return
    have, made = [engines.load(name).view(a) for a in (x, y)]
    if any(v.dtype.kind not in likeness.kinds or v.dtype.names or not v.dtype.isnative for v in (have, made)):
        return
    plan, dtypes = plan_of(as_operator(op), (have.dtype,), (have.shape,), axis, exclusive, reverse)
    plan = _stored_in(plan, dtypes, ((made.shape, made.dtype),))
    run = engines.again(name, plan, x, y)
    if run is not None:
        if len(_known) >= _LEARNT:
            _known.clear()
        _known[like] = run


def prepared(
    x: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    out: Any = None,
) -> Callable[..., Any]:
    """`scan`, for a loop that scans many arrays like `x` (and into arrays like `out`): `f(x)`, or `f(x, out)`.

    What `scan` checks and plans is done once, here, with a scan of x. A later array of another dtype, shape, strides or device
    is checked as `scan` checks it, and errors are those of `scan`.

    >>> import numpy as np
    >>> import upsweep as up
    >>> running_maximum = up.prepared(np.zeros(4), "max")
    >>> running_maximum(np.array([2.0, 1.0, 5.0, 3.0])).tolist()
    [2.0, 2.0, 5.0, 5.0]
    """
    op = as_operator(op)

    def long_way(x: Any, out: Any) -> Any:
        return scan(x, op, axis=axis, exclusive=exclusive, reverse=reverse, out=out)

    long_way(x, out)
    likeness = engines.LIKENESS.get(type(x))
    like = likeness and _likeness(likeness, x, op, axis, exclusive, reverse, out, "tree")
    known = _known.get(like)
    if likeness is None or known is None:
        return lambda x, out=None: long_way(x, out)
    of, written, empty, kind = likeness.of, likeness.written, likeness.empty, type(x)
    own, others = of(x), None if out is None else written(out)

    def again(x: Any, out: Any = None) -> Any:
        if type(x) is kind and of(x) == own and (out is None) == (others is None):
            y = empty(x) if out is None else out
            if (out is None or (type(out) is kind and written(out) == others)) and known(x, y):
                return y
        return long_way(x, out)

    return again


def last_prefix(
    xs: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: Any = None,
    dtype: Any = None,
    out: Any = None,
    order: str = "tree",
    map: Callable[..., Any] | None = None,
    finish: Callable[..., Any] | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Any:
    """`upsweep.reduce` without segments."""
    return execute(
        xs, op, axis, False, reverse, initial, dtype, out, None, engine, threads, True, None, order, map, finish
    )  # fmt: skip


def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    segments: Segments | None = None,
    order: str = "tree",
) -> Any:
    """Running totals along an axis, as the Python array API standard names and defines them.

    Booleans and integers narrower than the default integer are summed as the default integer, as NumPy does. With
    `include_initial` the result starts with 0 and has one item more. Shapes, kinds, `segments`, `order` and errors are those of
    `scan`.

    >>> import upsweep as up
    >>> up.cumulative_sum([1, 2, 3], include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative(x, ops.ADD, axis, dtype, include_initial, segments, order)


def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    segments: Segments | None = None,
    order: str = "tree",
) -> Any:
    """Running products along an axis, as the Python array API standard names and defines them; see `cumulative_sum`.

    >>> import upsweep as up
    >>> up.cumulative_prod([1, 2, 3, 4]).tolist()
    [1, 2, 6, 24]
    """
    return _cumulative(x, ops.MUL, axis, dtype, include_initial, segments, order)


def cummax(
    x: Any, *, axis: int | None = None, reverse: bool = False, out: Any = None, segments: Segments | None = None,
    order: str = "tree",
) -> Any:  # fmt: skip
    """Running maxima; a NaN stays from where it stands, as with `numpy.maximum.accumulate`, and 0.0 is above -0.0. Errors
    are those of `scan`.

    >>> import upsweep as up
    >>> up.cummax([2, 1, 5, 3]).tolist()
    [2, 2, 5, 5]
    """
    return scan(x, ops.MAX, axis=axis, reverse=reverse, out=out, segments=segments, order=order)


def cummin(
    x: Any, *, axis: int | None = None, reverse: bool = False, out: Any = None, segments: Segments | None = None,
    order: str = "tree",
) -> Any:  # fmt: skip
    """Running minima; a NaN stays from where it stands, as with `numpy.minimum.accumulate`, and -0.0 is below 0.0. Errors
    are those of `scan`.

    >>> import upsweep as up
    >>> up.cummin([2, 1, 5, 3]).tolist()
    [2, 1, 1, 1]
    """
    return scan(x, ops.MIN, axis=axis, reverse=reverse, out=out, segments=segments, order=order)


def cumlogsumexp(
    x: Any, *, axis: int | None = None, reverse: bool = False, out: Any = None, segments: Segments | None = None,
    order: str = "tree",
) -> Any:  # fmt: skip
    """`log(cumsum(exp(x)))` without overflow, for floating-point x. Errors are those of `scan`.

    exp and log1p are evaluated by arithmetic of our own, so that this too has the same bits on every machine.

    >>> import upsweep as up
    >>> up.cumlogsumexp([0.0, 0.0, 0.0, 0.0]).round(4).tolist()
    [0.0, 0.6931, 1.0986, 1.3863]
    """
    return scan(x, ops.LOGADDEXP, axis=axis, reverse=reverse, out=out, segments=segments, order=order)


def linear_recurrence(
    a: Any,
    b: Any,
    *,
    initial: Any = None,
    axis: int | None = None,
    reverse: bool = False,
    out: Any = None,
    segments: Segments | None = None,
    order: str = "tree",
) -> Any:
    """`h[t] = a[t] h[t-1] + b[t]`, from `h[-1] = initial` (0 if not given): a scan of affine maps.

    Args:
        a, b: arrays of one shape and one floating, complex or integer dtype. `a` may also be a scalar or an array that
            broadcasts to the shape of `b`, without being copied; b's dtype must hold it.
        initial: the state before the first item: a scalar, or one value a row (the shape without the axis).
        axis, reverse, out, segments: as in `scan`. In reverse `h[t] = a[t] h[t+1] + b[t]`.
        order: as in `scan`. "sequential" has the bits of the loop `h = a[t] * h + b[t]`, product and sum rounded each; half
            precision keeps h in float32 and rounds at the store.

    Returns:
        h, of b's shape, dtype, kind and device. Errors are those of `scan`.

    >>> import upsweep as up
    >>> up.linear_recurrence([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], initial=2.0).tolist()
    [2.0, 2.0, 2.0]

    Source: Blelloch (1990), section 1.4; Kogge and Stone (1973).
    """
    start = None if initial is None else (1, initial)
    on = engines.load(engines.choose((a, b)))
    states = on.view(b)
    if getattr(a, "shape", None) != states.shape:
        scalar = a if engines.on_gpu(a) else held(a, states.dtype, "a", "b.astype('float64')")
        a = on.broadcast(scalar, states.shape, states.dtype, b)
    elif not fits(on.view(a).dtype, states.dtype):
        raise DTypeError(f"a of {a.dtype} with b of {states.dtype}: pass b.astype({str(a.dtype)!r})")
    return execute(
        (a, b), ops.AFFINE, axis, False, reverse, start, None, out, segments, "auto", None, False, 1, order
    )


def _cumulative(
    x: Any, op: Operator, axis: int | None, dtype: Any, include_initial: bool, segments: Segments | None, order: str
) -> Any:  # fmt: skip
    alone(include_initial, segments)
    name = engines.choose((x,))
    on = engines.load(name)
    view = on.view(x)
    dtype = summed_dtype(view.dtype, dtype)
    if not include_initial:
        return scan(x, op, axis=axis, dtype=dtype, segments=segments, order=order)
    axis = axis_of(axis, view.shape)
    n, computed = view.shape[axis], view.dtype if dtype is None else dtype_of(dtype)
    y = on.empty(x, tuple(n + 1 if d == axis else size for d, size in enumerate(view.shape)), computed)
    first, rest = on.cut(y, axis, 0, 1), on.cut(y, axis, 1, n + 1)
    scan(view, op, axis=axis, dtype=computed, out=rest, order=order, engine=name)
    scan(first, op, axis=axis, exclusive=True, out=first, engine=name)  # the identity, whatever lies there
    return on.give(x, y)


def execute(
    xs: Any, op: Op, axis: int | None, exclusive: bool, reverse: bool, initial: Any, dtype: Any, out: Any,
    segments: Segments | None, engine: str, threads: int | None, reducing: bool, keep: int | None, order: str = "tree",
    map: Any = None, finish: Any = None,
) -> Any:  # fmt: skip
    """Check, plan, run. `keep` names the one component that is wanted; None for all."""
    given, segments = xs if isinstance(xs, tuple) else (xs,), checked(segments)
    if not given:
        raise ShapeError("an empty tuple is no sequence; pass one array or a tuple of arrays")
    name = engines.choose(given) if engine == "auto" else engine
    on = engines.load(name)
    like, views = _seen(on, given) if map is None else _broadcast(on, given)
    fields = views[0].dtype.names if len(views) == 1 else None
    if fields:
        views = [views[0][field] for field in fields]  # type: ignore[index]
    threads = cores.wanted() if threads is None else threads
    groups = segments.values if segments is not None and segments.spelling == "groups" else None
    segments = None if groups else segments
    plan, dtypes = plan_of(
        as_operator(op), tuple([v.dtype for v in views]), tuple([v.shape for v in views]), axis, exclusive, reverse,
        initial is not None, dtypes_of(dtype), segments is not None, threads, reducing, keep, order,
        map and as_function(map), finish and as_function(finish),
    )  # fmt: skip
    fused = plan.map is not None or plan.finish is not None
    made = dtypes if plan.finish is None else plan.finish.results
    fields = None if fused else fields
    ys: list[Any]
    record, written = None, []
    if out is None:
        ys, record = _made(on, plan, made, like if fused else views[0], fields)
    else:
        written = _written(on, out, 1 if keep is not None else len(plan.stores), fields)
        plan = _stored_in(plan, made, tuple([(y.shape, y.dtype) for y in written]))
        for y in written:
            if not on.writable(y):
                raise OutputError(
                    "out is read-only, or its numbers are not as they are computed: pass another array"
                )
        rest = iter(written)
        ys = [None if stored is None else next(rest) for stored in plan.stores]
    starts = None if initial is None else _starts(on, plan, dtypes, initial, like, fields)
    heads = None if segments is None else on.heads(segments, plan.shape, plan.axis, like)
    if written:
        views = [on.apart(x, written) for x in views]
        heads = None if heads is None else on.apart(heads, written)
        starts = None if starts is None else [on.apart(s, written) for s in starts]
    if groups:
        engines.grouping(name).run_groups(plan, views, ys, starts, groups)
    else:
        on.run(plan, views, ys, starts, heads)
    if out is not None:
        return out
    if record is not None:
        return on.give(given[0], record)
    if fused:
        results = [on.give(like, y) for y in ys]
        return tuple(results) if len(results) > 1 else results[0]
    if keep is not None:
        return on.give(given[keep], ys[keep])
    arrays = tuple([on.give(x, y) for x, y in zip(given, ys)])
    return arrays if isinstance(xs, tuple) else arrays[0]


def _seen(on: Engine, given: Sequence[Any]) -> tuple[Any, list[Any]]:
    return given[0], [on.view(x) for x in given]


def _broadcast(on: Engine, given: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The inputs of a map in their common shape, and the first that is an array. Numbers lie where that does."""
    seen = [None if _is_number(x) else on.view(x) for x in given]
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
    for x, v in zip(given, seen):
        if v is None:
            number = held(x, number_dtype(x, [v.dtype for v in arrays]), "a number")
            v = on.broadcast(number, shape, number.dtype, like)
        elif v.shape != shape:
            v = on.broadcast(x, shape, v.dtype, like)
        views.append(v)
    return like, views


def _is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float, complex, np.generic)) or (
        isinstance(x, np.ndarray) and x.ndim == 0
    )


@lru_cache(4096, typed=True)  # axis=1.0 is a mistake also where axis=1 is known
def plan_of(
    op: Operator, dtypes: tuple[np.dtype, ...], shapes: tuple[tuple[int, ...], ...], axis: int | None,
    exclusive: bool = False, reverse: bool = False, initial: bool = False, dtype: tuple[np.dtype, ...] | None = None,
    segmented: bool = False, threads: int | None = None, reducing: bool = False, keep: int | None = None,
    order: str = "tree", map: Function | None = None, finish: Function | None = None,
) -> tuple[Plan, tuple[np.dtype, ...]]:  # fmt: skip
    """Check everything that does not depend on the data: the plan, and the dtypes of the prefixes."""
    shape = shape_of(shapes)
    axis = axis_of(axis, shape)
    if threads is not None and (not isinstance(threads, (int, np.integer)) or threads < 1):
        raise ValueError(f"threads={threads!r}: pass a number of at least 1, or nothing for all cores")
    if order not in ORDERS:
        raise ValueError(f"order={order!r}: pass one of {', '.join([repr(o) for o in ORDERS])}")
    loads = [accumulator(number(d)) for d in dtypes]
    if map is not None:
        map = map.taking([len(dtypes)])
        map = _typed(map, tuple([(d,) for d in loads]))
    computed = result_dtypes(dtypes if map is None else map.results, dtype)
    chosen = resolve(op, computed)
    accumulators = tuple(accumulator(d) for d in computed)
    needs = (exclusive and shape[axis] > 0) or (reducing and shape[axis] == 0)
    if needs and not initial and identity_of(chosen, accumulators) is None:
        what = "an exclusive scan" if exclusive else "the reduction of nothing"
        raise OperatorError(
            f"{what} needs an identity, and {op} has none: pass initial=, or Operator(..., identity=)"
        )
    stores = tuple(number(d) if keep is None or keep == c else None for c, d in enumerate(computed))
    if finish is not None:
        finish = finish.taking([1] if reducing else [1, 1 + len(loads), 2 + len(loads)])
        arguments: Any = (accumulators, *[(d,) for d in loads], (np.dtype(np.int64),))[: finish.arity]
        finish = _typed(finish, arguments)
        stores = finish.results
    most = max(len(dtypes), len(computed), len(stores))
    if most > MOST:
        raise ShapeError(
            f"{most} arrays go into a scan, are combined by it, or come out; pass at most {MOST}"
        )
    plan = Plan(
        chosen, tuple([number(d) for d in dtypes]), accumulators, stores, shape, axis, exclusive, reverse, initial,
        segmented, reducing, threads, order, map, finish,
    )  # fmt: skip
    return plan, computed


def _typed(function: Function, arguments: tuple[tuple[np.dtype, ...], ...]) -> Function:
    from upsweep.numpy_engine.inference import results_of

    return replace(function, results=results_of(function, arguments))


@lru_cache(4096)
def _stored_in(
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


def _parts(value: Any, count: int, what: str) -> tuple[Any, ...]:
    if count == 1 and not isinstance(value, tuple):
        return (value,)
    if not isinstance(value, tuple) or len(value) != count:
        raise ShapeError(f"{what} must be a tuple of {count}, one for each component, got {value!r}")
    return value


def _starts(
    on: Engine, plan: Plan, dtypes: Sequence[np.dtype], initial: Any, like: Any, fields: Any
) -> list[Any]:
    if fields and isinstance(initial, (np.void, np.ndarray)):
        initial = tuple(initial[field] for field in fields)
    parts = _parts(initial, len(plan.accumulators), "initial")
    held_in = [d if d.kind in "mM" else wide for d, wide in zip(dtypes, plan.accumulators)]
    parts = [s if engines.on_gpu(s) else held(s, d) for s, d in zip(parts, held_in)]
    starts = [on.start(s, dtype, like) for s, dtype in zip(parts, plan.accumulators)]
    for s in starts:
        if s.shape not in ((), plan.row_shape):
            raise ShapeError(
                f"initial has shape {s.shape}; pass a scalar or one value a row, shape {plan.row_shape}"
            )
    return starts


def _made(
    on: Engine, plan: Plan, dtypes: Sequence[np.dtype], like: Any, fields: Any
) -> tuple[list[Any], Any]:
    """New memory for each component (None where it is not wanted) and, for structured data, the record array that they are
    fields of."""
    shape = plan.row_shape if plan.reduce else plan.shape
    if fields:
        record = on.empty(like, shape, np.dtype(list(zip(fields, dtypes))))
        return [record[field] for field in fields], record  # type: ignore[index]
    return [None if s is None else on.empty(like, shape, d) for s, d in zip(plan.stores, dtypes)], None


def _written(on: Engine, out: Any, count: int, fields: Any) -> list[Any]:
    """A view of each array, or field of the record array, that results go to."""
    if fields:
        record = on.view(out)
        if record.dtype.names != fields:
            raise OutputError(f"out of {record.dtype} has not the fields {', '.join(fields)}")
        return [record[field] for field in fields]  # type: ignore[index]
    parts = _parts(out, count, "out")
    for part in parts:
        if isinstance(part, (list, int, float)):
            raise OutputError(f"out must be an array, got {type(part).__name__}")
    views: list[Any] = [on.view(part) for part in parts]
    starts = [y.ctypes.data if isinstance(y, np.ndarray) else y.ptr for y in views if 0 not in y.shape]
    if len(set(starts)) < len(starts):
        raise OutputError("two arrays of out start at one place: each component needs memory of its own")
    return views
