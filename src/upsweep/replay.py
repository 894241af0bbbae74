"""The function that runs calls like one that ran: from its arrays and numbers to the engine's run, without checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from upsweep import engine as engines
from upsweep import short_way
from upsweep.arguments import is_number
from upsweep.components import bare, tupled
from upsweep.engine import LIKENESS
from upsweep.execution import Ran
from upsweep.segments import Segments

Known = Callable[[Any, Any, Any, Any], Any]
"""Runs a call once more, with other arrays, initial values, outputs and segments that are alike; gives None if it did not."""


def replayed(ran: Ran | None, xs: Any, initial: Any, out: Any, segments: Any, several: bool) -> Known | None:
    """The function that runs calls like one that ran, and gives `several` results or one; None where each is to be checked."""
    kind = None if ran is None else type(ran.like)
    way = None if ran is None or kind not in LIKENESS else LIKENESS[kind].ways.get(ran.engine)
    if ran is None or way is None:
        return None
    plan, views = ran.plan, ran.views
    if not all(v.dtype.kind in "biufcVmM" and v.dtype.isnative for v in (*views.inputs, *views.outputs)):
        return None
    groups = segments is not None and segments.spelling == "groups"
    if groups and kind is not np.ndarray:
        return None
    heads = None if segments is None else _keys_of if groups else _heads_of(ran, segments)
    # The keys of groups are several arrays or one.
    told = None if segments is None else bare(segments.values) if groups else segments.values
    objects = [
        *tupled(xs),
        *(() if segments is None else [segments.values if heads is _as_they_lie else None]),
        *([None] * len(views.outputs) if out is None else tupled(out)),
        *(() if initial is None else tupled(initial)),
    ]
    dtypes = [*plan.loads, *[None] * ((segments is not None) + len(views.outputs)), *plan.accumulators]
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
    again = None
    if type(told) is kind is np.ndarray:
        # The engine may make flags of segments, or codes of groups, itself.
        marks = len(views.inputs)
        again = engines.again(ran.engine, plan, views, [*given[:marks], segments, *given[marks + 1 :]])
        heads = heads if again is None else _key_of if groups else _as_they_lie
    if again is None:
        again = _again_by_groups(ran, given) if groups else engines.again(ran.engine, plan, views, given)
    if again is None:
        return None
    wrote = LIKENESS[type(ran.like)].wrote
    makers = [way.maker(ran.like, y.shape, y.dtype) for y in views.outputs]
    givers = [way.giver(y.shape, y.dtype) for y in views.outputs]
    first = next(at for at, x in enumerate(objects) if x is ran.like)
    if short_way.runs(again) and heads in (None, _as_they_lie, _key_of):
        # The C part takes by identity what `recall` makes of all else: values that do not change.
        made = range(0) if out is not None else range(starts - len(views.outputs), starts)
        holders = {at: hold for at, hold in (*enumerate(readers), *numbers) if hold is not None}
        held = tuple([holders.get(at) for at in range(len(objects)) if at not in made])
        # The C part makes memory as `np.empty` does: large memory is made by a function.
        plain = kind is np.ndarray and all(y.nbytes < engines.NEW for y in views.outputs)
        makes = (tuple(views.outputs), None) if plain else (tuple(makers), tuple(givers))
        if again.teach(held, *(makes if made else ((), None)), first, several):  # type: ignore[attr-defined]
            return again.again  # type: ignore[attr-defined]
    if not numbers and len(objects) == 2 and type(xs) is not tuple:
        return _known_one(again, readers, makers[0], givers[0], wrote)
    return _known_several(again, first, heads, numbers, readers, makers, givers, wrote, several)


def _known_several(
    again: engines.Again, first: int, heads: Callable[[Any, Any], Any] | None,
    numbers: Sequence[tuple[int, Callable[[Any], Any]]], readers: Sequence[Any], makers: Sequence[Callable[[Any], Any]],
    givers: Sequence[Any], wrote: Callable[[Any], None] | None, several: bool,
) -> Known:  # fmt: skip
    """The function that runs calls of arrays and numbers; the array `first` tells where results lie."""
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


def _keys_of(segments: Segments, like: Any) -> Any:
    """The keys of groups, which stand where heads would."""
    return segments.values


def _key_of(segments: Segments, like: Any) -> Any:
    """The one key of groups."""
    return segments.values[0]


def _again_by_groups(ran: Ran, given: Sequence[Any]) -> engines.Again | None:
    """The function that runs a plan for each group once more, on NumPy's arrays."""
    plan, views, on = ran.plan, ran.views, engines.load(ran.engine)
    run_groups, keys = engines.grouping(ran.engine).run_groups, len(views.inputs)
    last = keys + 1 + len(views.outputs)
    seen = zip([*given[:keys], *given[keys + 1 : last]], [*views.inputs, *views.outputs])
    if any(x is not None and x.dtype != v.dtype for x, v in seen):
        return None

    def again(arrays: tuple[Any, ...]) -> bool:
        xs = [x if x.shape == plan.shape else on.broadcast(x, plan.shape, x.dtype, x) for x in arrays[:keys]]
        ys, starts = arrays[keys + 1 : last], arrays[last:]
        if any(np.may_share_memory(y, other) for y, other in combinations(ys, 2)):
            return False
        stored = iter(ys)
        run_groups(
            plan, [on.apart(x, ys) for x in xs], [None if d is None else next(stored) for d in plan.stores],
            [on.apart(s, ys) for s in starts] or None, arrays[keys],
        )  # fmt: skip
        return True

    return again


def _heads_of(ran: Ran, segments: Segments) -> Callable[[Any, Any], Any]:
    """The function that makes heads of segments like these."""
    on, plan = engines.load(ran.engine), ran.plan
    marks = segments.spelling in ("flags", "ends")
    heads = ran.views.heads[0]
    # A GPU makes its marks of keys where these lie.
    keys = not isinstance(heads, np.ndarray) and type(segments.values) is type(ran.like)
    if (marks or keys) and on.give(segments.values, heads) is segments.values:
        return _as_they_lie

    def made(segments: Segments, like: Any) -> Any:
        told = Segments("flags", segments.values) if marks else segments
        return on.heads(told, plan.shape, plan.axis, like)

    return made


def _as_they_lie(segments: Segments, like: Any) -> Any:
    """Flags or keys that are read as they lie."""
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
