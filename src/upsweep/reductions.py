"""Reductions: of a whole axis, or one a segment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep import engine as engines
from upsweep import recall
from upsweep.api import Op, last_prefix
from upsweep.arguments import OutputError, axis_of, check_order, dtypes_of, is_number, number_dtype
from upsweep.components import tupled
from upsweep.dtypes import accumulator
from upsweep.function import Function, as_function
from upsweep.homes import Elsewhere, compiling, uncompiled
from upsweep.host import labelled, marked, offsets
from upsweep.host.labels import check_alike, check_beside, initials_of, marks_of
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
    segments are 1-D, there is no `out`, and the scan is computed as a whole. A table keeps the labels of its other axis. How many
    segments there are is counted: a GPU is waited for.

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
        return _each(
            xs, op, axis, reverse, initial, dtype, told, engine, threads, order, map and as_function(map),
            finish and as_function(finish),
        )  # fmt: skip
    except Elsewhere as there:
        return there.instead(reduce, locals())


def _each(
    xs: Any, op: Op, axis: int | None, reverse: bool, initial: Any, dtype: Any, segments: Segments, engine: str,
    threads: int | None, order: str, map: Function | None, finish: Function | None,
) -> Any:  # fmt: skip
    """The last prefix of each segment. A call like an earlier one is not checked again."""
    if compiling():
        return uncompiled(
            _each, xs, op, axis, reverse, initial, dtype, segments, engine, threads, order, map, finish
        )
    if type(op) is not str:
        op = as_operator(op)
    like = recall.alike(
        xs, op, axis, False, reverse, initial, dtype, None, segments, engine, threads, "each", None, order, map, finish
    )  # fmt: skip
    run: Any = recall.known(like)
    if run is None:
        how = {
            "reverse": reverse,
            "dtype": dtype,
            "order": order,
            "map": map,
            "finish": finish,
            "threads": threads,
        }
        given = tupled(xs)
        engine = engines.choose(given) if engine == "auto" else engine
        kind = _Each if engines.picks(engine) is None else _EachThere
        run = kind(given, isinstance(xs, tuple), op, segments, engine, axis, initial, how)
        # A list may differ from the next one.
        with suppress(TypeError):
            recall.keep(like, run)
    return run(xs, segments, initial)


class _Each:
    """The reduction of each segment, of arrays, segments and initial values like those that it was made of."""

    def __init__(
        self, given: tuple[Any, ...], several: bool, op: Op, segments: Segments, engine: str, axis: int | None, initial: Any,
        how: dict[str, Any],
    ) -> None:  # fmt: skip
        self.several, self.op, self.how, self.spelling = several, op, how, segments.spelling
        self.engine = engine
        on = engines.load(engine)
        self.view, self.give = on.view, on.give
        views = [None if is_number(x) else self.view(x) for x in given]
        arrays = [v for v in views if v is not None]
        check_alike(given)
        self.labels = any(map(labelled.has, given))
        self.shape = _shape_of(arrays)
        self.axis = axis_of(axis, self.shape)
        told = [v.dtype for v in arrays if v.shape]
        self.dtypes = tuple([number_dtype(x, told) if v is None else v.dtype for x, v in zip(given, views)])
        self.like = next(at for at, v in enumerate(views) if v is not None and v.shape)
        alone = not several and self.spelling != "groups" and initial is None
        self.ufunc = _ufunc_for(views[0], op, **how) if alone else None
        self.first = how["reverse"] or self.ufunc is not None
        self.scan = recall.Scan()

    def __call__(self, xs: Any, segments: Segments, initial: Any) -> Any:
        given = tupled(xs)
        views = [x if is_number(x) else self.view(x) for x in given]
        starts = None if self.spelling == "groups" else offsets(segments, self.shape, self.axis)
        if self.ufunc:
            ys, there = views[0], having_items(starts)
        else:
            told, there = self._told(segments, starts)
            ys = self._prefixes(views, told, initial)
        if self.labels:
            marks, starting = marks_of(segments), initials_of(initial)
            check_beside(given, self.shape, self.axis, marks, starting)
        places = places_of(segments, starts, self.shape, self.axis, self.first, self.engine)
        made = [self._picked(y, places, there) for y in tupled(ys)]
        if there is not None:
            for y, e in zip(made, tupled(self._of_nothing(initial))):
                (np.moveaxis(y, self.axis, 0) if self.axis else y)[~there] = e
        like = given[self.like]
        if self.labels and labelled.has(like):
            # A segment is none of the items whose labels these are.
            results = tuple([labelled.of_segments(like, y, self.axis) for y in made])
        else:
            results = tuple([self.give(like, y) for y in made])
        return results if isinstance(ys, tuple) else results[0]

    def _told(self, segments: Segments, starts: np.ndarray | None) -> tuple[Segments, np.ndarray | None]:
        """The segments that are scanned, and which have items; None where all do."""
        if starts is None or self.spelling == "flags":
            return segments, None
        flags = marked(starts, self.shape[self.axis])
        # Segments without items start where others do, or behind all items.
        all_do = np.count_nonzero(flags) == len(starts) - 1
        return Segments("flags", flags), None if all_do else having_items(starts)

    def _prefixes(self, views: list[Any], told: Segments, initial: Any) -> Any:
        return self.scan(
            tuple(views) if self.several else views[0], self.op, axis=self.axis, initial=initial, segments=told,
            engine=self.engine, **self.how,
        )  # fmt: skip

    def _picked(self, y: np.ndarray, places: np.ndarray, there: np.ndarray | None) -> np.ndarray:
        """The results at these places, and anything for a segment that has none."""
        if self.ufunc is None:
            return _taken(y, places, self.axis)
        if there is None:
            return self.ufunc.reduceat(y, places, self.axis, y.dtype)
        return _spread(self.ufunc.reduceat(y, places[there], self.axis, y.dtype), there, self.axis)

    def _of_nothing(self, initial: Any) -> Any:
        """The reduction of arrays without items. Where it is the identity, not a caller's `initial`, it is remembered."""
        how = self.how
        if initial is None:
            return _nothing(
                self.dtypes, self.several, as_operator(self.op), self.engine, dtypes_of(how["dtype"]), how["order"], how["map"],
                how["finish"],
            )  # fmt: skip
        none = tuple([np.empty(_sized(self.shape, self.axis, 0), d) for d in self.dtypes])
        return last_prefix(
            none if self.several else none[0],
            self.op,
            axis=self.axis,
            initial=initial,
            engine=self.engine,
            **how,
        )


class _EachThere(_Each):
    """The same where the arrays are in a device's memory."""

    def __call__(self, xs: Any, segments: Segments, initial: Any) -> Any:
        on, axis = engines.picks(self.engine), self.axis
        assert on is not None
        like = tupled(xs)[self.like]
        ys = self.scan(
            xs, self.op, axis=axis, initial=initial, segments=segments, engine=self.engine, **self.how
        )
        if self.spelling == "groups":
            there = None
            places = on.ends_of(segments.values, self.shape[axis], self.first, like)
        else:
            starts = on.starts_of(segments, self.shape, axis, like)
            there = having_items(starts)
            places = starts[:-1] if self.first else starts[1:] - 1
        nothing = tupled(ys) if there is None else tupled(self._of_nothing(xs, initial))
        made = [on.picked(self.view(y), axis, places, there, e) for y, e in zip(tupled(ys), nothing)]
        results = tuple([self.give(like, y) for y in made])
        return results if isinstance(ys, tuple) else results[0]

    def _of_nothing(self, xs: Any, initial: Any) -> Any:
        """The reduction of arrays without items."""
        on, like = engines.load(self.engine), tupled(xs)[self.like]
        shape = _sized(self.shape, self.axis, 0)
        none = [on.give(like, on.empty(like, shape, d)) for d in self.dtypes]
        return last_prefix(
            tuple(none) if self.several else none[0],
            self.op,
            axis=self.axis,
            initial=initial,
            engine=self.engine,
            **self.how,
        )


def _shape_of(views: list[Any]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*[v.shape for v in views])
    except ValueError:
        # The scan says so.
        return views[0].shape


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
) -> np.ndarray:  # fmt: skip
    """The first or the last item of each group, or of each 1-D segment, whose starts are known."""
    if starts is not None:
        return starts[:-1] if first else starts[1:] - 1
    codes, groups = engines.grouping(engine).codes_of(segments.values, shape[axis])
    step = -1 if first else 1
    places = np.empty(groups, np.int64)
    # A group has several places; the last that is written stays.
    places[codes[::step]] = np.arange(shape[axis])[::step]
    return places


def having_items(starts: np.ndarray | None) -> np.ndarray | None:
    """Which segments have items; None where all have, as groups do."""
    if starts is None:
        return None
    there = starts[1:] != starts[:-1]
    return None if np.count_nonzero(there) == len(there) else there


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


def _ufunc_for(x: Any, op: Op, *, reverse: bool, order: str, **others: Any) -> np.ufunc | None:
    """NumPy's function for a call of which every order of evaluation gives the same bits."""
    if type(x) is not np.ndarray or x.dtype.kind not in "biu":
        return None
    if type(reverse) is not bool or any(v is not None for v in others.values()):
        return None
    check_order(order)
    return _ufunc(as_operator(op), x.dtype)


@lru_cache(256)
def _ufunc(op: Operator, dtype: np.dtype) -> np.ufunc | None:
    from upsweep.numpy_engine.operators import ufunc_of

    op, accumulators = resolve(op, (dtype,)), (accumulator(dtype),)
    return ufunc_of(op, accumulators) if free(op, accumulators) else None


def _sized(shape: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    return tuple(n if d == axis else size for d, size in enumerate(shape))
