"""Selection of items, which are brought side by side: by flags, by a function, or at the starts of runs of equal items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep.function import Function
from upsweep.gpu.arrays import view
from upsweep.gpu.functions import Linked, memory_type
from upsweep.gpu.kept import Select, Selection
from upsweep.gpu.one_pass import INT64, RAW, empty, items_of, movable, side_by_side, zeros
from upsweep.gpu.view import View


def pack(x: Any, keep: Any) -> Any:
    """The items or rows of `x` where `keep`, flags or a function of an item, is true."""
    if isinstance(keep, Function):
        items = items_of(x)
        return _cut(_testing(items, keep), items, None)[0]
    if not movable(x):
        return x[where(keep)]
    items = items_of(x)
    return _cut(_moving(items), items, items_of(keep))[0]


def select(x: Any, keep: Any, values: Any, places: Any, lengths: Any) -> Any:
    """As many kept items as there is room for, and their full number, without waiting for it."""
    items = items_of(x)
    outputs = [None if out is None else view(out) for out in (values, places, lengths)]
    side_by_side(*outputs)
    flags = None if keep is None or isinstance(keep, Function) else items_of(keep)
    how = _moving(items) if flags else _comparing(items) if keep is None else _testing(items, keep)
    wanted = {"values": values is not None, "places": places is not None, "lengths": lengths is not None}
    if not items.shape[0]:
        return zeros(items, 1).owner.reshape(())
    count, room = empty(items, (1,), INT64), min(v.shape[0] for v in outputs if v)
    selection = Selection(how._replace(**wanted), items, flags)
    selection.into(items.owner, (items.ptr, _at(flags)), [room, *map(_at, outputs)], count.ptr)
    return count.owner.reshape(())


def partition(x: Any, keep: Any) -> tuple[Any, int]:
    """The kept items, then the others, each in their order; and the number of kept items."""
    if movable(x):
        items = items_of(x)
        flags = items_of(keep)
        selection = Selection(_moving(items, rest=True), items, flags)
        count, written = selection.kept(items.owner, (items.ptr, flags.ptr))
        return written[0], count
    first, rest = where(keep), where(~keep)
    seen = view(x)
    both, middle = empty(seen, seen.shape, seen.dtype).owner, len(first)
    both[:middle], both[middle:] = x[first], x[rest]
    return both, middle


def where(keep: Any) -> Any:
    """The places where `keep` is true, as int64."""
    return _cut(_PLACES, None, items_of(keep))[0]


def found(x: Any, keep: Any) -> tuple[Any, Any]:
    """The kept items of a 1-D array, and their places."""
    items = items_of(x)
    values, places = _cut(_moving(items)._replace(places=True), items, items_of(keep))
    return values, places


def unique(x: Any) -> Any:
    """The first item of each run of equal items."""
    items = items_of(x)
    return _cut(_comparing(items), items, None)[0]


def runs(x: Any) -> tuple[Any, Any]:
    """The first item of each run of equal items, and the lengths of the runs (int64)."""
    items = items_of(x)
    values, lengths = _cut(_comparing(items, lengths=True), items, None)
    return values, lengths


_PLACES = Select("u8", 1, values=False, places=True)


def _moving(items: View, rest: bool = False) -> Select:
    return Select(RAW[items.dtype.itemsize], items.dtype.itemsize, rest=rest)


def _comparing(items: View, lengths: bool = False) -> Select:
    # Small integers are equal where their bytes are, which are compared four at a time.
    key = "u8" if items.dtype == np.int8 else memory_type(items.dtype)
    return Select(key, items.dtype.itemsize, runs=True, lengths=lengths)


def _testing(items: View, test: Function) -> Select:
    given = ((dtypes.accumulator(items.dtype),),)
    linked = Linked("upsweep_test", test, given, (np.dtype(bool),))
    return Select(memory_type(items.dtype), items.dtype.itemsize, linked)


def _cut(how: Select, x: View | None, flags: View | None) -> list[Any]:
    like = x or flags
    assert like is not None
    return Selection(how, x, flags).cut(like.owner, (_at(x), _at(flags)))


def _at(memory: View | None) -> int:
    return memory.ptr if memory else 0


_RULES: dict[str, Callable[[View], Select]] = {
    "pack": _moving,
    "where": lambda flags: _PLACES,
    "unique": _comparing,
    "runs": lambda items: _comparing(items, lengths=True),
}
"""The moves that are remembered."""


def again(move: str, *arrays: Any) -> Callable[..., Any] | None:
    """A function that makes a move of arrays like these, or gives None where an item lies at no multiple of its size."""
    seen = [view(x) for x in arrays]
    kind, size = seen[0].kind, seen[0].dtype.itemsize
    if kind is None or kind.likeness is None or any(v.kind is not kind for v in seen):
        return None
    pointer = kind.pointer
    # An array that has been brought elsewhere must be brought there in each call.
    if any(pointer(x) != v.ptr or v.strides != (v.dtype.itemsize,) for x, v in zip(arrays, seen)):
        return None
    if not all(map(movable, arrays)):
        return None
    how = _RULES[move](seen[0])
    x, flags = (None, *seen) if not how.values else (*seen, None)[:2]
    cut = Selection(how, x, flags).cut

    def known(*arrays: Any) -> Any:
        first = pointer(arrays[0])
        if first % size:
            return None
        at = (0, first) if x is None else (first, pointer(arrays[1])) if flags else (first, 0)
        made = cut(arrays[0], at)
        return made[0] if len(made) == 1 else tuple(made)

    return known
