"""The memory of calls: a call like an earlier one is neither checked nor planned again.

Checking a call takes longer than a small scan does. Whatever the checks look at is a call's likeness; the function that
ran a call is kept under it, and runs the next call that is alike. Numbers are alike by their type: their values are looked at in
every call. Where the package has its C part, a call of arrays and numbers that comes once more runs in C from then on, on the CPU
or on a GPU (`short_way`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep import cores, short_way
from upsweep.components import bare, tupled
from upsweep.engine import LIKENESS
from upsweep.execution import Op, Ran, execute
from upsweep.function import as_function
from upsweep.homes import compiling, uncompiled
from upsweep.host import labelled, view
from upsweep.operators import as_operator
from upsweep.replay import Known, replayed
from upsweep.segments import LISTS, Segments

known_calls: dict[Any, Any] = {}
MOST = 4096
"""Calls that are remembered; one more, and all are forgotten."""
NUMBERS = {bool, int, float, complex, *[np.dtype(code).type for code in "?bhilqBHILQefdFD"]}
if short_way.part is not None:
    short_way.part.tell_apart(LIKENESS)
_NUMBER = {*NUMBERS, type(None)}
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
        # A list is told from another by its items.
        xs = view(xs)
    # A Python function may have changed since the last call.
    if type(op) is not str:
        op = as_operator(op)
    if map is not None:
        map = as_function(map)
    if finish is not None:
        finish = as_function(finish)
    part, wanted = short_way.part, cores.setting if threads is None else threads
    marks, spelling = (segments.values, segments.spelling) if type(segments) is Segments else (None, segments)
    if part is not None:
        y = part.find(
            xs, marks, out, initial, op, axis, exclusive, reverse, dtype, spelling, engine, reducing, keep, order, map, finish,
            wanted,
        )  # fmt: skip
        if y is not None:
            return y
    like = alike(
        xs, op, axis, exclusive, reverse, initial, dtype, out, segments, engine, threads, reducing, keep, order, map, finish
    )  # fmt: skip
    runs = known(like)
    y = None if runs is None else runs(xs, initial, out, segments)
    if y is not None:
        if part is not None:
            part.remember(
                runs, xs, marks, out, initial, op, axis, exclusive, reverse, dtype, spelling, engine, reducing, keep, order, map,
                finish, wanted,
            )  # fmt: skip
        return y
    if engine == "auto" and out is None and type(initial) in _NUMBER and labelled.has(xs) and _bare(segments):
        # The items are an array that may be like an earlier one.
        types = labelled.types_of(xs)
        y = run(
            labelled.items(xs, types), op, axis, exclusive, reverse, initial, dtype, out, segments, engine, threads, reducing,
            keep, order, map, finish,
        )  # fmt: skip
        made = [labelled.labelled(xs, part, types) for part in tupled(y)]
        return bare([labelled.reduced(xs, part, axis) for part in made] if reducing else made)
    return learnt(
        like, xs, initial, out, segments, execute, xs, op, axis, exclusive, reverse, initial, dtype, out, segments, engine,
        threads, reducing, keep, order, map, finish,
    )  # fmt: skip


def _bare(segments: Any) -> bool:
    """Whether segments have no labels."""
    return segments is None or not any(
        labelled.has(mark) for mark in tupled(getattr(segments, "values", segments))
    )


def forget() -> None:
    """Have no call remembered."""
    known_calls.clear()
    if short_way.part is not None:
        short_way.part.forget()


def hashes(like: Any) -> bool:
    """Whether a likeness may be found again."""
    try:
        hash(like)
    except TypeError:
        return False
    return True


def keep(like: Any, known: Any) -> None:
    """Have calls of a likeness run so."""
    if len(known_calls) >= MOST:
        forget()
    known_calls[like] = known


def known(like: Any) -> Known | None:
    """The function that runs calls of this likeness; `never` where each is to be checked, None where no call was remembered."""
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
        keep(like, replayed(ran, xs, initial, out, segments, isinstance(y, tuple)) or never)
    for part in () if out is None else tupled(out):
        likeness = LIKENESS.get(type(part))
        if likeness is not None and likeness.wrote is not None:
            likeness.wrote(part)
    return y


def alike(
    xs: Any, op: Any, axis: Any, exclusive: Any, reverse: Any, initial: Any, dtype: Any, out: Any, segments: Any,
    engine: Any, threads: Any, reducing: bool | str, keep: Any, order: Any, map: Any, finish: Any,
) -> Any:  # fmt: skip
    """The likeness of a call: all that is checked, if calls differ in nothing else; otherwise a likeness that is never found."""
    # axis=1.0 is a mistake also where axis=1 is known.
    if not (type(exclusive) is type(reverse) is bool and type(axis) in _WHOLE and type(threads) in _WHOLE):
        return _UNSEEN
    return (
        *((seen(xs), None) if out is None else seen_and_written(xs, out)), initial if initial is None else seen(initial),
        segments if segments is None else seen_segments(segments), op, axis, exclusive, reverse, dtype, engine,
        cores.setting if threads is None else threads, reducing, keep, order, map, finish,
    )  # fmt: skip


def scan_like(
    xs: Any, op: Any, initial: Any, out: Any, segments: Any, *, axis: Any = None, exclusive: bool = False, reverse: bool = False,
    dtype: Any = None, order: Any = "tree", map: Any = None, finish: Any = None, engine: str = "auto", threads: int | None = None,
) -> Any:  # fmt: skip
    """The likeness of a scan with these keywords."""
    return alike(
        xs, op if type(op) is str else as_operator(op), axis, exclusive, reverse, initial, dtype, out, segments, engine, threads,
        False, None, order, map and as_function(map), finish and as_function(finish),
    )  # fmt: skip


def seen(x: Any) -> Any:
    """The likeness of an array, a number, or a tuple of these: all that is checked, if they differ in nothing else."""
    kind = type(x)
    likeness = LIKENESS.get(kind)
    if likeness is not None:
        return kind, likeness.of(x)
    if kind is not tuple:
        return kind if kind in NUMBERS else _UNSEEN
    kinds = tuple(map(type, x))
    look = _looks.get(kinds)
    return kinds, (_look_at(kinds) if look is None else look)(x)


def _look_at(kinds: tuple[type, ...]) -> Callable[[tuple[Any, ...]], Any]:
    """The function that sees tuples of arrays and numbers of these types."""
    arrays = [(at, LIKENESS[kind]) for at, kind in enumerate(kinds) if kind in LIKENESS]
    if len(arrays) + sum(kind in NUMBERS or kind is type(None) for kind in kinds) < len(kinds):
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
    if type(segments) is not Segments:
        return _UNSEEN
    # Offsets and lengths become one flag an item, however many they are.
    if segments.spelling in LISTS:
        values = segments.values
        return segments.spelling, (values.dtype, values.ndim) if type(values) is np.ndarray else type(values)
    return segments.spelling, seen(segments.values)


class Scan:
    """`upsweep.scan` of arrays in this machine's memory, for a place where those of every call are like those of the first. That
    one finds the function that runs it; later calls run by that function, and their arrays are not compared.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: Known | None = None

    def __call__(
        self, xs: Any, op: Any, *, axis: Any = None, exclusive: bool = False, reverse: bool = False, initial: Any = None,
        dtype: Any = None, out: Any = None, segments: Segments | None = None, order: str = "tree", map: Any = None,
        finish: Any = None, engine: str = "auto", threads: int | None = None,
    ) -> Any:  # fmt: skip
        y = None if self._known is None else self._known(xs, initial, out, segments)
        if y is None:
            y = run(
                xs, op, axis, exclusive, reverse, initial, dtype, out, segments, engine, threads, False, None, order, map, finish
            )  # fmt: skip
            like = scan_like(
                xs, op, initial, out, segments, axis=axis, exclusive=exclusive, reverse=reverse, dtype=dtype, order=order,
                map=map, finish=finish, engine=engine, threads=threads,
            )  # fmt: skip
            self._known = self._known or known(like)
        return y


def never(*_: Any) -> None:
    """Runs no call, so that it is checked each time."""
