"""The memory of calls: a call like an earlier one is neither checked nor planned again.

Checking a call takes longer than a small scan does. Whatever the checks look at is a call's likeness; the function that
ran a call is kept under it, and runs the next call that is alike. Numbers are alike by their type: their values are looked at in
every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from upsweep import engine as engines
from upsweep.arguments import is_number
from upsweep.components import tupled
from upsweep.engine import LIKENESS
from upsweep.execution import Op, Ran, execute
from upsweep.function import as_function
from upsweep.homes import compiling, uncompiled
from upsweep.host import view
from upsweep.operators import as_operator
from upsweep.segments import Segments

Known = Callable[[Any, Any, Any, Any], Any]
"""Runs a call once more, with other arrays, initial values, outputs and segments that are alike; gives None if it did not."""

known_calls: dict[Any, Callable[..., Any]] = {}
MOST = 4096
"""Calls that are remembered; one more, and all are forgotten."""
_NUMBERS = {bool, int, float, complex, *[np.dtype(code).type for code in "?bhilqBHILQefdFD"]}
_WHOLE = {int, type(None)}
_looks: dict[tuple[type, ...], Callable[[tuple[Any, ...]], Any]] = {}
"""By the types of the parts of a tuple."""
_UNSEEN: Any = []
"""The likeness of a value that may differ from the next one of its type. It has no hash: a call with it is never found."""


def run(
    xs: Any, op: Op, axis: int | None, exclusive: bool, reverse: bool, initial: Any, dtype: Any, out: Any,
    segments: Segments | None, engine: str, threads: int | None, reducing: bool, keep: tuple[int, ...] | None,
    order: str = "tree", map: Any = None, finish: Any = None,
) -> Any:  # fmt: skip
    """Run a call as its like was run before; the first of its kind is checked and planned. `keep` names the components that are
    wanted; None for all."""
    if compiling():
        return uncompiled(
            run, xs, op, axis, exclusive, reverse, initial, dtype, out, segments, engine, threads, reducing, keep, order, map,
            finish,
        )  # fmt: skip
    if type(xs) is list and engine == "auto":
        # A list is told from another by what it holds.
        xs = view(xs)
    # A Python function may have changed since the last call.
    if type(op) is not str:
        op = as_operator(op)
    if map is not None:
        map = as_function(map)
    if finish is not None:
        finish = as_function(finish)
    like = alike(
        xs, op, axis, exclusive, reverse, initial, dtype, out, segments, engine, threads, reducing, keep, order, map, finish
    )  # fmt: skip
    y = again(like, xs, initial, out, segments)
    if y is not None:
        return y
    return learnt(
        like, xs, initial, out, segments, execute, xs, op, axis, exclusive, reverse, initial, dtype, out, segments, engine,
        threads, reducing, keep, order, map, finish,
    )  # fmt: skip


def keep(like: Any, known: Callable[..., Any]) -> None:
    """Have calls of a likeness run so."""
    if len(known_calls) >= MOST:
        known_calls.clear()
    known_calls[like] = known


def known(like: Any) -> Known | None:
    """What runs calls of this likeness: `never` where that is known, None where none was remembered."""
    try:
        return known_calls.get(like)
    except TypeError:
        return None


def again(like: Any, xs: Any, initial: Any, out: Any, segments: Any) -> Any:
    """The result of a call of this likeness, run as the call that it is like; None if none was, or it did not run."""
    try:
        known = known_calls.get(like)
    except TypeError:
        return None
    return None if known is None else known(xs, initial, out, segments)


def learnt(
    like: Any, xs: Any, initial: Any, out: Any, segments: Any, first: Callable[..., tuple[Any, Ran | None]], *given: Any
) -> Any:  # fmt: skip
    """The result of `first(*given)`, which runs a call of this likeness, the first of its kind, and is remembered."""
    y, ran = first(*given)
    try:
        known = like in known_calls
    except TypeError:
        known = True
    if not known:
        keep(like, _learnt(ran, xs, initial, out, segments, isinstance(y, tuple)) or never)
    for part in () if out is None else tupled(out):
        likeness = LIKENESS.get(type(part))
        if likeness is not None and likeness.wrote is not None:
            likeness.wrote(part)
    return y


def alike(
    xs: Any, op: Any, axis: Any, exclusive: Any, reverse: Any, initial: Any, dtype: Any, out: Any, segments: Any,
    engine: Any, threads: Any, reducing: bool, keep: Any, order: Any, map: Any, finish: Any,
) -> Any:  # fmt: skip
    """The likeness of a call: all that is checked, if calls differ in nothing else; otherwise a likeness that is never found."""
    # axis=1.0 is a mistake also where axis=1 is known.
    if not (type(exclusive) is type(reverse) is bool and type(axis) in _WHOLE and type(threads) in _WHOLE):
        return _UNSEEN
    return (
        *((seen(xs), None) if out is None else seen_and_written(xs, out)), initial if initial is None else seen(initial),
        segments if segments is None else seen_segments(segments), op, axis, exclusive, reverse, dtype, engine, threads,
        reducing, keep, order, map, finish,
    )  # fmt: skip


def seen(x: Any) -> Any:
    """The likeness of an array, a number, or a tuple of these: all that is checked, if they differ in nothing else."""
    kind = type(x)
    likeness = LIKENESS.get(kind)
    if likeness is not None:
        return kind, likeness.of(x)
    if kind is not tuple:
        return kind if kind in _NUMBERS else _UNSEEN
    kinds = tuple(map(type, x))
    look = _looks.get(kinds)
    return kinds, (_look_at(kinds) if look is None else look)(x)


def _look_at(kinds: tuple[type, ...]) -> Callable[[tuple[Any, ...]], Any]:
    """The function that sees tuples of arrays and numbers of these types."""
    arrays = [(at, LIKENESS[kind]) for at, kind in enumerate(kinds) if kind in LIKENESS]
    if len(arrays) + sum(kind in _NUMBERS for kind in kinds) < len(kinds):
        # A type of which nothing is known may be one of arrays later.
        return lambda x: tuple([seen(part) for part in x])
    together = arrays[0][1].together if arrays and len({kinds[at] for at, _ in arrays}) == 1 else None
    if together is not None:
        places = [at for at, _ in arrays]
        look = _looks[kinds] = lambda x: together(tuple([x[at] for at in places]))
    else:
        each = [(at, likeness.of) for at, likeness in arrays]
        look = _looks[kinds] = lambda x: tuple([of(x[at]) for at, of in each])
    return look


def seen_and_written(xs: Any, out: Any) -> tuple[Any, Any]:
    """The likeness of arrays and that of those that are written to."""
    kind = type(out)
    likeness = LIKENESS.get(kind)
    if type(xs) is kind and likeness is not None and likeness.together is not None and likeness.writable(out):
        return (likeness.of(xs), "in place") if xs is out else (likeness.together((xs, out)), "beside")
    return seen(xs), seen_written(out)


def seen_written(y: Any) -> Any:
    """The likeness of arrays that are written to."""
    kind = type(y)
    likeness = LIKENESS.get(kind)
    if likeness is not None:
        return (kind, likeness.of(y)) if likeness.writable(y) else _UNSEEN
    return tuple([seen_written(part) for part in y]) if kind is tuple else _UNSEEN


def seen_segments(segments: Any) -> Any:
    """The likeness of segments."""
    if type(segments) is not Segments or segments.spelling == "groups":
        return _UNSEEN
    # Offsets and lengths become one flag an item, whatever their dtype.
    if segments.spelling in ("offsets", "lengths"):
        return segments.spelling, type(segments.values)
    return segments.spelling, seen(segments.values)


def never(*_: Any) -> None:
    """Runs no call, so that it is checked each time."""


def _learnt(ran: Ran | None, xs: Any, initial: Any, out: Any, segments: Any, several: bool) -> Known | None:
    """The function that runs calls like one that ran, and gives `several` results or one."""
    kind = None if ran is None else type(ran.like)
    way = None if ran is None or kind not in LIKENESS else LIKENESS[kind].ways.get(ran.engine)
    if ran is None or way is None:
        return None
    plan, views = ran.plan, ran.views
    if not all(v.dtype.kind in "biufcVmM" and v.dtype.isnative for v in (*views.inputs, *views.outputs)):
        return None
    heads = None if segments is None else _heads_of(ran, segments)
    objects = [
        *tupled(xs),
        *(() if segments is None else [segments.values if heads is _flags else None]),
        *([None] * len(views.outputs) if out is None else tupled(out)),
        *(() if initial is None else tupled(initial)),
    ]
    dtypes = [*plan.loads, *[None] * (len(views.heads) + len(views.outputs)), *plan.accumulators]
    numbers: list[tuple[int, Callable[[Any], Any]]] = []
    starts = len(objects) - len(views.starts)
    for at, (x, dtype) in enumerate(zip(objects, dtypes)):
        converted = at >= starts and type(x) is np.ndarray and x.dtype != dtype
        if dtype is not None and (is_number(x) or converted):
            hold = _holder(x, dtype)
            if hold is None:
                return None
            objects[at] = None
            numbers.append((at, hold))
        elif x is not None and type(x) is not kind:
            return None
    readers = [None if x is None else way.reader(x) for x in objects]
    given = [x if read is None else read(x) for x, read in zip(objects, readers)]
    again = engines.again(ran.engine, plan, views, given)
    if again is None:
        return None
    wrote = LIKENESS[type(ran.like)].wrote
    makers = [way.maker(ran.like, y.shape, y.dtype) for y in views.outputs]
    givers = [way.giver(y.shape, y.dtype) for y in views.outputs]
    if not numbers and len(objects) == 2 and type(xs) is not tuple:
        return _known_one(again, readers, makers[0], givers[0], wrote)
    first = next(at for at, x in enumerate(objects) if x is ran.like)
    read_at = [(at, read) for at, read in enumerate(readers) if read is not None]
    give_at = [(at, give) for at, give in enumerate(givers) if give is not None]

    def known(xs: Any, initial: Any, out: Any, segments: Any) -> Any:
        objects = [*xs] if type(xs) is tuple else [xs]
        like = objects[first]
        if heads is not None:
            objects.append(heads(segments, like))
        ys: Any = [make(like) for make in makers] if out is None else tupled(out)
        objects += ys
        if initial is not None:
            objects += tupled(initial)
        for at, hold in numbers:
            objects[at] = hold(objects[at])
            if objects[at] is None:
                return None
        for at, read in read_at:
            objects[at] = read(objects[at])
        if not again(tuple(objects)):
            return None
        if out is not None:
            if wrote is not None:
                for y in ys:
                    wrote(y)
            return out
        for at, give in give_at:
            ys[at] = give(ys[at])
        return tuple(ys) if several else ys[0]

    return known


def _known_one(
    again: engines.Again, readers: Sequence[Any], make: Callable[[Any], Any], give: Callable[[Any], Any] | None,
    wrote: Callable[[Any], None] | None,
) -> Known:  # fmt: skip
    """The function that runs calls of one array: the shortest way of all."""
    read, read_written = readers

    def known(x: Any, initial: Any, out: Any, segments: Any) -> Any:
        y = make(x) if out is None else out
        if not again((x if read is None else read(x), y if read_written is None else read_written(y))):
            return None
        if out is None:
            return y if give is None else give(y)
        if wrote is not None:
            wrote(out)
        return out

    return known


def _heads_of(ran: Ran, segments: Segments) -> Callable[[Any, Any], Any]:
    """The function that makes heads of segments like these."""
    on, plan = engines.load(ran.engine), ran.plan
    marks = segments.spelling in ("flags", "ends")
    if marks and on.give(segments.values, ran.views.heads[0]) is segments.values:
        return _flags

    def made(segments: Segments, like: Any) -> Any:
        told = Segments("flags", segments.values) if marks else segments
        return on.heads(told, plan.shape, plan.axis, like)

    return made


def _flags(segments: Segments, like: Any) -> Any:
    """Flags that are read as they lie."""
    return segments.values


def _holder(number: Any, dtype: np.dtype) -> Callable[[Any], Any] | None:
    """The function that makes arrays of numbers of this type, and None of numbers that need a check; None if all need one."""
    if isinstance(number, (np.ndarray, np.generic)):
        if number.dtype == dtype:
            return np.asarray
        exact = number.dtype.kind in "biufc" and np.can_cast(number.dtype, dtype)
        return partial(np.asarray, dtype=dtype) if exact else None
    if type(number) in (bool, float, complex) and np.array(number).dtype == dtype:
        return np.array
    kinds = {bool: "biufc", int: "biufc", float: "fc", complex: "c"}[type(number)]
    # An integer of more bits has another dtype.
    if dtype.kind not in kinds or (isinstance(number, int) and not -(2**63) <= number < 2**63):
        return None
    if dtype.kind in "biu":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    else:
        # Integers up to 2 ** 53 are rounded once, whichever way they go.
        high = 2**53 if isinstance(number, int) else float(np.finfo(dtype).max)
        low = -high

    def hold(number: Any) -> Any:
        inside = low <= number.real <= high and low <= number.imag <= high
        return np.asarray(number, dtype) if inside or number - number != 0 else None

    return hold
