"""Reductions: of a whole axis, or one a segment."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep import engine as engines
from upsweep import recall
from upsweep.api import Op, last_prefix, scan
from upsweep.arguments import OutputError, axis_of, check_order, dtypes_of
from upsweep.components import tupled
from upsweep.dtypes import accumulator
from upsweep.engine import EngineError
from upsweep.function import as_function
from upsweep.homes import Elsewhere
from upsweep.host import labelled, marked, offsets
from upsweep.operator import Operator, resolve
from upsweep.operators import as_operator, free
from upsweep.segments import Segments, checked


def reduce(
    xs: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
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
    """The last prefix: bit for bit the last result of `scan`, in one pass that only reads.

    Arguments and errors are those of `scan`; the result lacks the axis, and `finish` is given the prefix alone. A reduction of no
    items is `initial`, or the operator's identity.

    With `segments` the axis stays, and has one result a segment: the last prefix of the segment, or the reduction of no items
    where offsets or lengths make it empty. Groups in any order have one result each, in the order in which they first occur. Such
    segments are 1-D, there is no `out`, the arrays are in host memory (`upsweep.torch.reduce` takes those of a GPU), and the scan
    is computed as a whole.

    >>> import upsweep as up
    >>> int(up.reduce([3, 1, 7, 0]))
    11
    >>> up.reduce([3, 1, 7, 0], "max", segments=up.segments.lengths([3, 1])).tolist()
    [7, 0]
    >>> up.reduce([3, 1, 7, 0], segments=up.segments.groups(["b", "a", "b", "a"])).tolist()
    [10, 1]
    """
    told = checked(segments)
    if told is not None and out is not None:
        raise OutputError("the number of segments decides the shape of the result: call it without out=")
    try:
        if told is None:
            return recall.run(
                xs, op, axis, False, reverse, initial, dtype, out, None, engine, threads, True, None, order, map, finish
            )  # fmt: skip
        keywords: dict[str, Any] = {
            "axis": axis, "reverse": reverse, "initial": initial, "dtype": dtype, "order": order, "map": map, "finish": finish,
            "threads": threads,
        }  # fmt: skip
        return _each(xs, op, told, engine, keywords)
    except Elsewhere as there:
        return there.instead(reduce, locals())


def _each(xs: Any, op: Op, segments: Segments, engine: str, keywords: dict[str, Any]) -> Any:
    """The last prefix of each segment."""
    given = tupled(xs)
    name = engines.choose(given) if engine == "auto" else engine
    if engines.load(name) and engines.ENGINES[name].place != "host":
        raise EngineError(
            f"the {name} engine has no reductions of segments: bring the arrays to the host, or pass tensors to "
            "upsweep.torch.reduce"
        )
    on = engines.load(name)
    seen = tuple([on.view(x) for x in given])
    bare: Any = seen if isinstance(xs, tuple) else seen[0]
    labelled.check_alike(given)
    ufunc = _ufunc_for(bare, op, segments, **keywords)
    axis, starts, told = keywords["axis"], None, segments
    alike = keywords["map"] is None and len({v.shape for v in seen}) == 1
    if alike and segments.spelling in ("offsets", "lengths"):
        axis = axis_of(axis, seen[0].shape)
        starts = offsets(segments, seen[0].shape, axis)
        told = segments if ufunc else Segments("flags", marked(starts, seen[0].shape[axis]))
    prefixes = bare if ufunc else scan(bare, op, segments=told, engine=name, **keywords)
    ys = tupled(prefixes)
    axis = axis_of(axis, ys[0].shape)
    starting = labelled.initials_of(keywords["initial"])
    labelled.check_beside(given, ys[0].shape, axis, labelled.marks_of(segments), starting)
    first = keywords["reverse"] or ufunc is not None
    places, empty = places_of(segments, starts, ys[0].shape, axis, first, name)
    none = np.count_nonzero(empty)
    if ufunc is None:
        made = [_taken(y, places, axis) for y in ys]
    elif none:
        made = [_spread(ufunc.reduceat(bare, places[~empty], axis, bare.dtype), ~empty, axis)]
    else:
        made = [ufunc.reduceat(bare, places, axis, bare.dtype)]
    if none:
        dtypes, shape = tuple([x.dtype for x in seen]), _sized(ys[0].shape, axis, 0)
        nothing = _of_nothing(dtypes, isinstance(xs, tuple), shape, op, name, keywords)
        for y, e in zip(made, tupled(nothing)):
            (np.moveaxis(y, axis, 0) if axis else y)[empty] = e
    like, own = next(((x, v) for x, v in zip(given, seen) if v.shape), (xs, None))
    # A segment is none of the items whose labels these are.
    like = own if labelled.has(like) else like
    results = tuple([on.give(like, y) for y in made])
    return results if isinstance(prefixes, tuple) else results[0]


def _of_nothing(
    dtypes: tuple[np.dtype, ...], several: bool, shape: tuple[int, ...], op: Op, engine: str, keywords: dict[str, Any]
) -> Any:  # fmt: skip
    """The reduction of arrays without items. Where it is the identity, not a caller's `initial`, it is remembered."""
    if keywords["initial"] is not None:
        none = tuple([np.empty(shape, d) for d in dtypes])
        return last_prefix(none if several else none[0], op, engine=engine, **keywords)
    fn, finish = keywords["map"], keywords["finish"]
    return _nothing(
        dtypes, several, as_operator(op), engine, dtypes_of(keywords["dtype"]), keywords["order"], fn and as_function(fn),
        finish and as_function(finish),
    )  # fmt: skip


@lru_cache(256)
def _nothing(
    dtypes: tuple[np.dtype, ...], several: bool, op: Operator, engine: str, dtype: Any, order: str, map: Any, finish: Any
) -> Any:  # fmt: skip
    none = tuple([np.empty(0, d) for d in dtypes])
    return last_prefix(
        none if several else none[0], op, engine=engine, dtype=dtype, order=order, map=map, finish=finish
    )


def places_of(
    segments: Segments, starts: np.ndarray | None, shape: tuple[int, ...], axis: int, first: bool, engine: str
) -> tuple[np.ndarray, np.ndarray]:
    """The first or the last item of each 1-D segment, and which segments are empty; `starts` where they are known."""
    if segments.spelling == "groups":
        codes, counts = engines.grouping(engine).codes_of(segments.values, shape[axis])
        step = -1 if first else 1
        places = np.empty(len(counts), np.int64)
        # A group has several places; the last that is written stays.
        places[codes[::step]] = np.arange(shape[axis])[::step]
        return places, np.zeros(len(counts), bool)
    starts = offsets(segments, shape, axis) if starts is None else starts
    return starts[:-1] if first else starts[1:] - 1, starts[1:] == starts[:-1]


def _taken(y: np.ndarray, places: np.ndarray, axis: int) -> np.ndarray:
    """The items at these places, and anything for a segment that has none."""
    if not y.shape[axis]:
        return np.empty(_sized(y.shape, axis, len(places)), y.dtype)
    return y.take(places, axis, mode="clip")


def _spread(y: np.ndarray, there: np.ndarray, axis: int) -> np.ndarray:
    """The results of segments, with room for those of empty ones."""
    made = np.empty(_sized(y.shape, axis, len(there)), y.dtype)
    made[(*[slice(None)] * axis, there)] = y
    return made


def _ufunc_for(
    x: Any, op: Op, segments: Segments, *, axis: int | None, reverse: bool, order: str, **others: Any
) -> np.ufunc | None:  # fmt: skip
    """NumPy's function for a call of which every order of evaluation gives the same bits."""
    if type(x) is not np.ndarray or x.dtype.kind not in "biu" or segments.spelling == "groups":
        return None
    if type(reverse) is not bool or any(v is not None for v in others.values()):
        return None
    axis_of(axis, x.shape)
    check_order(order)
    return _ufunc(as_operator(op), x.dtype)


@lru_cache(256)
def _ufunc(op: Operator, dtype: np.dtype) -> np.ufunc | None:
    from upsweep.numpy_engine.operators import ufunc_of

    op, accumulators = resolve(op, (dtype,)), (accumulator(dtype),)
    return ufunc_of(op, accumulators) if free(op, accumulators) else None


def _sized(shape: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    return tuple(n if d == axis else size for d, size in enumerate(shape))
