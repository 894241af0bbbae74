"""Compaction: flag, scan, scatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep import homes
from upsweep.apps import moving
from upsweep.apps.kinds import INTEGRAL, check_labels, count_of, enter
from upsweep.arguments import OutputError, ShapeError
from upsweep.components import tupled
from upsweep.dtypes import kind_of
from upsweep.engine import DTypeError
from upsweep.host import copied


@homes.apart
def compact(x: Any, keep: Any, *, size: int | None = None, out: Any = None) -> Any:
    """The items of x that are to be kept, in their order: `x[keep]`.

    Args:
        x: array of n items or n rows, of any dtype; or a tuple of several, of which the same are kept.
        keep: n booleans, or a Python function that gives one for an item of x (of 1-D x; an item of each array of a tuple).
        size: the length of the result, however many items are kept; x is then one 1-D array. The kept items come first, as many
            as there is room for, and zeros behind them. Nothing waits for a GPU then, so that a CUDA graph can hold the call.
        out: a 1-D array of x's dtype, into which the kept items are written, as many as there is room for; its items behind them
            stay as they are.

    Returns:
        An array of x's kind, dtype and device, or a tuple of arrays. With size or out a pair: the array, and the number of items
        that are to be kept, a 0-dimensional int64 array of the same kind.

    Raises:
        ShapeError: x and keep differ in length; rows with size, out or a function; a tuple with size or out. DTypeError: keep is
        not boolean; out of another dtype. OutputError: an out that cannot be written to.

    >>> from upsweep import apps
    >>> apps.compact([3, 1, 7, 0, 4], [True, False, True, False, True]).tolist()
    [3, 7, 4]
    >>> apps.compact([3, 1, 7, 0, 4], lambda v: v > 2).tolist()
    [3, 7, 4]
    >>> kept, count = apps.compact([3, 1, 7, 0, 4], [True, False, True, False, True], size=4)
    >>> kept.tolist(), int(count)
    ([3, 7, 4, 0], 3)

    Source: Blelloch (1990), section 1.3; Billeter, Olsson and Assarsson, "Efficient stream compaction" (2009); a count by
    many tiles in one pass: Merrill and Garland, "Single-pass parallel prefix scan with decoupled look-back" (2016).
    """
    if size is None and out is None and not (isinstance(x, tuple) or callable(keep)):
        return moving.recalled("pack", _compact, x, keep)
    arrays = tupled(x)
    if callable(keep):
        xp, arrays, give = enter(*arrays)
        keep = moving.predicate(xp, arrays, keep)
    else:
        for array in arrays:
            check_labels((array,), getattr(array, "shape", ()), 0, {"keep": keep})
        xp, (*arrays, keep), give = enter(*arrays, keep)
        for array in arrays:
            keep = _flags(xp, array, keep)
    if size is None and out is None:
        kept = tuple([give(moving.pack(xp, array, keep)) for array in arrays])
        return kept if isinstance(x, tuple) else kept[0]
    if isinstance(x, tuple):
        raise ShapeError(
            "size= and out= are for one array: of several, take the places that where(keep, size=...) gives"
        )
    values, result = _room(xp, give, arrays[0], size, out)
    return result(moving.select(xp, arrays[0], keep, values=values))


def _compact(x: Any, keep: Any) -> Any:
    xp, x, keep, give = _flagged(x, keep)
    return give(moving.pack(xp, x, keep))


@homes.apart
def partition(x: Any, keep: Any) -> tuple[Any, int]:
    """The items that are kept, then the others, each in their order; and how many are kept. Arguments are those of `compact`.

    >>> from upsweep import apps
    >>> y, kept = apps.partition([3, 1, 7, 0, 4], [True, False, True, False, True])
    >>> y.tolist(), kept
    ([3, 7, 4, 1, 0], 3)

    Source: Blelloch (1990), section 1.3 ("split").
    """
    xp, x, keep, give = _flagged(x, keep)
    both, kept = moving.partition(xp, x, keep)
    return give(both), kept


@homes.apart
def where(keep: Any, *, size: int | None = None, out: Any = None) -> Any:
    """The places where keep (1-D, boolean) is true, as int64: `numpy.flatnonzero(keep)`.

    size, out and errors are those of `compact`; out is int64.

    >>> from upsweep import apps
    >>> apps.where([True, False, True]).tolist()
    [0, 2]

    Source: Blelloch (1990), section 1.3.
    """
    if size is None and out is None:
        return moving.recalled("where", _where, keep)
    xp, (keep,), give = enter(keep)
    keep = _flags(xp, keep, keep)
    places, result = _room(xp, give, xp.empty(0, dtype=xp.int64, device=keep.device), size, out)
    return result(moving.select(xp, keep, keep, places=places))


def _where(keep: Any) -> Any:
    xp, (keep,), give = enter(keep)
    return give(moving.where(xp, _flags(xp, keep, keep)))


@homes.apart
def unique_consecutive(x: Any, *, size: int | None = None, out: Any = None) -> Any:
    """The first item (or row) of each run of equal ones; a NaN equals nothing.

    x is n items or n rows of any dtype; size, out and the results with them are those of `compact`. A 0-dimensional x is a
    ShapeError, and so are rows with size or out.

    >>> from upsweep import apps
    >>> apps.unique_consecutive([5, 5, 5, 2, 2, 5]).tolist()
    [5, 2, 5]
    """
    if size is None and out is None:
        return moving.recalled("unique", _unique, x)
    xp, x, give = _in_runs(x)
    values, result = _room(xp, give, x, size, out)
    return result(moving.select(xp, x, None, values=values))


def _unique(x: Any) -> Any:
    xp, x, give = _in_runs(x)
    return give(moving.unique(xp, x))


@homes.apart
def run_length_encode(x: Any, *, size: int | None = None) -> Any:
    """The values of the runs of equal items and the runs' lengths (int64); `run_length_decode` is the way back.

    x is n items or n rows of any dtype; a NaN equals nothing. With size both results have that length, and the number of runs is
    a third result: see `compact`. A 0-dimensional x is a ShapeError, and so are rows with size.

    >>> from upsweep import apps
    >>> values, lengths = apps.run_length_encode([5, 5, 5, 2, 2, 5])
    >>> values.tolist(), lengths.tolist()
    ([5, 2, 5], [3, 2, 1])
    """
    if size is None:
        return moving.recalled("runs", _runs, x)
    xp, x, give = _in_runs(x)
    values, result = _room(xp, give, x, size, None)
    lengths = xp.zeros(size, dtype=xp.int64, device=x.device)
    kept, count = result(moving.select(xp, x, None, values=values, lengths=lengths))
    return kept, give(lengths), count


def _runs(x: Any) -> tuple[Any, Any]:
    xp, x, give = _in_runs(x)
    values, lengths = moving.runs(xp, x)
    return give(values), give(lengths)


@homes.apart
def run_length_decode(values: Any, lengths: Any, *, size: int | None = None, out: Any = None) -> Any:
    """Each value as often as its length says: `numpy.repeat(values, lengths)`.

    Args:
        values: m items or rows of any dtype.
        lengths: m integers, none negative.
        size, out: as in `compact`, for 1-D values. Nothing waits for a GPU then.

    Returns:
        An array of the values' kind, dtype and device. With size or out a pair: the array, and the sum of the lengths, a
        0-dimensional int64 array of the same kind; on a GPU it is below zero where a length is, and nothing else is written.

    Raises:
        ShapeError: lengths of another shape, or negative. DTypeError: lengths that are no integers. Those of `compact` for size
        and out.

    >>> from upsweep import apps
    >>> apps.run_length_decode([5, 2, 5], [3, 2, 1]).tolist()
    [5, 5, 5, 2, 2, 5]
    >>> items, count = apps.run_length_decode([5, 2, 5], [3, 2, 1], size=8)
    >>> items.tolist(), int(count)
    ([5, 5, 5, 2, 2, 5, 0, 0], 6)
    """
    xp, (values, lengths), give = enter(values, lengths)
    lengths = counts_of(xp, lengths, "lengths")
    if values.ndim == 0 or lengths.shape[0] != values.shape[0]:
        raise ShapeError(f"{lengths.shape[0]} lengths do not fit values of shape {tuple(values.shape)}")
    if size is None and out is None:
        return give(moving.repeat(xp, values, lengths, "lengths"))
    room, result = _room(xp, give, values, size, out)
    return result(moving.fill(xp, values, lengths, room, "lengths"))


def counts_of(xp: Any, counts: Any, what: str) -> Any:
    """Integers. Lengths that cannot be counts are refused here, negative ones by `moving`."""
    if counts is None:
        raise DTypeError(f"{what} must be integers, got None")
    if counts.ndim != 1:
        raise ShapeError(f"{what} must be 1-D, got shape {tuple(counts.shape)}")
    if kind_of(counts.dtype) in INTEGRAL:
        return counts
    if counts.shape[0]:
        raise DTypeError(f"{what} must be integers, got {counts.dtype}")
    # A list of no counts is one of floats.
    return xp.astype(counts, xp.int64)


def _flagged(x: Any, keep: Any) -> tuple[Any, Any, Any, Callable[[Any], Any]]:
    """The namespace of both arrays, x, a flag for each of its items, and the function that makes a result of an array."""
    if type(x) is not np.ndarray:
        check_labels((x,), getattr(x, "shape", ()), 0, {"keep": keep})
    xp, (x, keep), give = enter(x, keep)
    return xp, x, _flags(xp, x, keep), give


def _flags(xp: Any, x: Any, keep: Any) -> Any:
    if keep is None:
        raise DTypeError("keep must be boolean, got None")
    if keep.ndim != 1 or x.ndim == 0 or keep.shape[0] != x.shape[0]:
        raise ShapeError(
            f"keep must be 1-D, one flag for each item along x's first axis: shapes {tuple(keep.shape)} and {tuple(x.shape)}"
        )
    if keep.dtype == xp.bool:
        return keep
    if keep.shape[0]:
        raise DTypeError(f"keep must be boolean, got {keep.dtype}; compare something, or pass keep != 0")
    # A list of no flags is one of floats.
    return xp.astype(keep, xp.bool)


def _in_runs(x: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    """The namespace of x, x, and the function that makes a result of an array."""
    xp, (x,), give = enter(x)
    if x.ndim == 0:
        raise ShapeError("a 0-dimensional array has no runs; pass x.reshape(1)")
    return xp, x, give


def _room(xp: Any, give: Any, x: Any, size: int | None, out: Any) -> tuple[Any, Any]:
    """The memory for kept items (`out`, or `size` zeros), and the function that makes the results of it and of their number. It
    is called when the memory is written, which `give` may copy."""
    if x.ndim != 1:
        raise ShapeError(
            f"size and out are for 1-D x, got shape {tuple(x.shape)}; take rows by where(keep, size=...)"
        )
    size = None if size is None else count_of(size, "size")
    if out is None:
        made = xp.zeros(size, dtype=x.dtype, device=x.device)
        return made, lambda count: (give(made), give(count))
    _, (_, room), _ = enter(x, out)
    if room.ndim != 1 or size not in (None, room.shape[0]):
        raise ShapeError(f"out must be 1-D and as long as size, got shape {tuple(room.shape)}")
    if room.dtype != x.dtype:
        raise DTypeError(f"out of {room.dtype} cannot hold {x.dtype}")
    if copied(out, room) or (xp is np and not room.flags.writeable):
        raise OutputError(
            f"out must be an array that can be written to: results would go into a copy of this {type(out).__name__}"
        )
    return room, lambda count: (out, give(count))
