"""Whether arrays that are taken item by item have the same labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from upsweep.components import tupled
from upsweep.engine import EngineError, library_of
from upsweep.host.labelled import has
from upsweep.segments import EACH, Segments


def check_alike(given: Sequence[Any]) -> None:
    """An EngineError where objects with labels, which are broadcast to one shape and taken item by item, have other labels than
    the one of their library that has most axes."""
    axes = [(library_of(x), _labels(x)) for x in given if has(x)]
    most: dict[str, list[_Labels]] = {}
    for library, own in sorted(axes, key=lambda x: -len(x[1])):
        wanted = most.setdefault(library, own)
        _check(wanted[len(wanted) - len(own) :], own, "an array")


def check_beside(
    given: Sequence[Any], shape: tuple[int, ...], axis: int, marks: Sequence[tuple[str, Any]], starts: Sequence[tuple[str, Any]]
) -> None:  # fmt: skip
    """An EngineError where marks of items, or the values that rows start from, have other labels than the data. Each mark or
    value comes with its name. Marks are 1-D along the axis, or have the shape of the data.
    """
    for like in filter(has, given):
        if np.shape(like) != shape:
            continue
        axes = _labels(like)
        along, across = axes[axis : axis + 1], [*axes[:axis], *axes[axis + 1 :]]
        beside = [(what, start, across) for what, start in starts]
        beside += [(what, mark, along if np.ndim(mark) == 1 else axes) for what, mark in marks]
        for what, x, wanted in beside:
            if library_of(x) == library_of(like):
                _check(wanted, _labels(x), what)


def marks_of(segments: Segments | None) -> list[tuple[str, Any]]:
    """The marks of items that say where segments start, each with the name of its spelling."""
    if segments is None or segments.spelling not in (*EACH, "groups"):
        return []
    return [(segments.spelling, mark) for mark in tupled(segments.values)]


def initials_of(initial: Any) -> list[tuple[str, Any]]:
    """The values that the components of rows start from, each with its name."""
    return [("initial", start) for start in tupled(initial)]


class _Labels(NamedTuple):
    """The labels along one axis."""

    dim: str
    """The name of the axis, where it has one."""
    index: Any
    """An index of pandas, or None."""


def _labels(x: Any) -> list[_Labels]:
    if library_of(x) == "xarray":
        indexes = getattr(x, "indexes", {})
        return [_Labels(dim, indexes.get(dim)) for dim in x.dims]
    # A Series and a DataFrame of pandas have axes.
    return [_Labels("", index) for index in getattr(x, "axes", ())]


def _check(wanted: Sequence[_Labels], own: Sequence[_Labels], what: str) -> None:
    dims, theirs = [labels.dim for labels in wanted], [labels.dim for labels in own]
    if len(dims) == len(theirs) and dims != theirs:
        instead = (
            "pass b.transpose(*a.dims)"
            if set(dims) == set(theirs)
            else "call upsweep.xarray's methods, which bring arrays to the same dimensions, or pass b.to_numpy()"
        )
        raise EngineError(
            f"the dimensions of {what} are {theirs}, those of the data {dims}, and items are taken in their order: {instead}"
        )
    for a, b in zip(wanted, own):
        if not _same(a.index, b.index):
            named = f" along {a.dim!r}" if a.dim else ""
            raise EngineError(
                f"the labels of {what}{named} differ from those of the data, and items are taken in their order: pass "
                "b.reindex_like(a), or b.to_numpy() where each belongs to the item in its place"
            )


def _same(a: Any, b: Any) -> bool:
    """Whether two indices have the same labels. One item along an axis stands for all."""
    if a is None or b is None or len(a) != len(b) or b.equals(a):
        return True
    # Numbers of int64 and of Int64, or times in two zones, are equal as objects alone.
    return b.astype(object).equals(a.astype(object))
