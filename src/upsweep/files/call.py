"""A call of `scan_file` as it was asked for, and the parts that are scanned together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from upsweep.api import scan
from upsweep.components import bare, tupled
from upsweep.files import arrays
from upsweep.files.arrays import FileError
from upsweep.function import as_function
from upsweep.operator import Operator
from upsweep.segments import Segments


def listed(what: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names of an argument; an error where it is one text, which would be taken letter by letter."""
    if isinstance(names, str):
        raise FileError(f"{what}={names!r} is one text: pass a list of names, {what}=[{names!r}]")
    return tuple(names)


@dataclass(frozen=True)
class Call:
    """A call of `scan_file`, as it was asked for."""

    op: Operator
    columns: tuple[str, ...]
    names: tuple[str, ...]
    axis: int | None
    exclusive: bool
    reverse: bool
    initial: Any
    dtype: tuple[np.dtype, ...] | None
    segments: Segments | None
    map: Callable[..., Any] | None
    finish: Callable[..., Any] | None
    keep: tuple[str, ...] | None

    @property
    def groups(self) -> Segments | None:
        """The segments, where they are groups in any order."""
        return self.segments if self.segments and self.segments.spelling == "groups" else None

    def picture(self) -> str:
        """The words that tell this call from any other."""
        starts = tupled(self.initial)
        plain = [None if s is None else (np.asarray(s).dtype.str, np.asarray(s).tobytes()) for s in starts]
        segments = self.segments and (
            self.segments.spelling,
            [*map(arrays.content, self.segments.values)]
            if self.groups
            else arrays.content(self.segments.values),
        )
        functions = [fn and as_function(fn).key for fn in (self.map, self.finish)]
        words = (
            self.op.key, self.columns, self.names, self.axis, self.exclusive, self.reverse, plain, self.dtype, segments,
            functions, self.keep,
        )  # fmt: skip
        return repr(words)

    def parts(self, inputs: int) -> list[Part]:
        """The inputs that are scanned together: all, or each by itself where the operator takes one and no map joins them."""
        every = slice(None)
        if inputs == 1 or self.op.arity != 1 or self.map is not None:
            return [Part(self, every, self.initial, self.dtype, every)]
        starts = self.initial if isinstance(self.initial, tuple) else (self.initial,) * inputs
        dtypes = (self.dtype or ()) if len(self.dtype or ()) != 1 else (self.dtype or ()) * inputs
        for what, have in (("initial", len(starts)), ("dtype", len(dtypes) or inputs)):
            if have != inputs:
                raise FileError(f"{what} has {have} values for {inputs} columns: pass one, or one for each")
        return [
            Part(self, slice(c, c + 1), starts[c], dtypes[c : c + 1] or None, every) for c in range(inputs)
        ]

    def named(self, inputs: tuple[str, ...], results: int) -> tuple[str, ...]:
        """The names of the results: by default those of the columns that they are made of."""
        names = self.names or inputs
        if "" in self.names:
            raise FileError("a result needs a name that is not empty: pass another one in names= (--as)")
        if len(names) != results and (names or results > 1):
            raise FileError(
                f"{results} results have the names {', '.join(names) or '(none)'}: pass names= (--as) with one for each"
            )
        return names


@dataclass(frozen=True)
class Part:
    """Inputs that are scanned together, and where their results stand among all."""

    call: Call
    inputs: slice
    initial: Any
    dtype: tuple[np.dtype, ...] | None
    results: slice

    def at(self, first: int, count: int) -> Part:
        return replace(self, results=slice(first, first + count))

    def turned(self) -> Part:
        """The part of the transposed array."""
        parts = tupled(self.initial)
        return replace(self, initial=bare(tuple(s if np.ndim(s) == 0 else np.asarray(s).T for s in parts)))

    def keywords(self) -> dict[str, Any]:
        call = self.call
        return {"exclusive": call.exclusive, "dtype": self.dtype, "map": call.map, "finish": call.finish}


def planned(
    parts: list[Part], nothing: Sequence[np.ndarray], axis: int | None
) -> tuple[list[Part], list[np.dtype]]:
    """The parts with the places of their results, and the dtypes of all results. A plan checks everything but the data: arrays
    without items along the axis do."""
    placed: list[Part] = []
    dtypes: list[np.dtype] = []
    for part in parts:
        xs = bare(tuple(nothing[part.inputs]))
        made = tupled(scan(xs, part.call.op, axis=axis, initial=part.initial, **part.keywords()))
        placed.append(part.at(len(dtypes), len(made)))
        dtypes += [y.dtype for y in made]
    return placed, dtypes
