"""Compaction: flag, scan, scatter."""

from __future__ import annotations

from typing import Any

from upsweep.api import ShapeError
from upsweep.apps import moving
from upsweep.apps.kinds import enter
from upsweep.engine import DTypeError


def compact(x: Any, keep: Any) -> Any:
    """The items of x that are to be kept, in their order: `x[keep]`.

    Args:
        x: array of n items or n rows, of any dtype.
        keep: n booleans.

    Returns:
        An array of x's kind, dtype and device.

    Raises:
        ShapeError: x and keep differ in length. DTypeError: keep is not boolean.

    >>> from upsweep import apps
    >>> apps.compact([3, 1, 7, 0, 4], [True, False, True, False, True]).tolist()
    [3, 7, 4]

    Source: Blelloch (1990), section 1.3; Billeter, Olsson and Assarsson, "Efficient stream compaction" (2009).
    """
    xp, (x, keep), give = enter(x, keep)
    _check_flags(xp, x, keep)
    return give(moving.pack(xp, x, keep))


def partition(x: Any, keep: Any) -> tuple[Any, int]:
    """What is kept, then what is not, each in its order; and how many are kept. Arguments are those of `compact`.

    >>> from upsweep import apps
    >>> y, kept = apps.partition([3, 1, 7, 0, 4], [True, False, True, False, True])
    >>> y.tolist(), kept
    ([3, 7, 4, 1, 0], 3)

    Source: Blelloch (1990), section 1.3 ("split").
    """
    xp, (x, keep), give = enter(x, keep)
    _check_flags(xp, x, keep)
    both, kept = moving.partition(xp, x, keep)
    return give(both), kept


def where(keep: Any) -> Any:
    """The places where keep (1-D, boolean) is true, as int64: `numpy.flatnonzero(keep)`.

    >>> from upsweep import apps
    >>> apps.where([True, False, True]).tolist()
    [0, 2]
    """
    xp, (keep,), give = enter(keep)
    _check_flags(xp, keep, keep)
    return give(moving.where(xp, keep))


def unique_consecutive(x: Any) -> Any:
    """The first item (or row) of each run of equal ones; a NaN equals nothing. The array is x's kind, dtype and device.

    >>> from upsweep import apps
    >>> apps.unique_consecutive([5, 5, 5, 2, 2, 5]).tolist()
    [5, 2, 5]
    """
    xp, (x,), give = enter(x)
    _check_runs(x)
    return give(moving.unique(xp, x))


def run_length_encode(x: Any) -> tuple[Any, Any]:
    """The values of the runs of equal items and the runs' lengths (int64); `run_length_decode` is the way back.

    >>> from upsweep import apps
    >>> values, lengths = apps.run_length_encode([5, 5, 5, 2, 2, 5])
    >>> values.tolist(), lengths.tolist()
    ([5, 2, 5], [3, 2, 1])
    """
    xp, (x,), give = enter(x)
    _check_runs(x)
    values, lengths = moving.runs(xp, x)
    return give(values), give(lengths)


def run_length_decode(values: Any, lengths: Any) -> Any:
    """Each value as often as its length says: `numpy.repeat(values, lengths)`.

    Args:
        values: m items or rows of any dtype.
        lengths: m integers, none negative.

    Raises:
        ShapeError: lengths of another shape, or negative. DTypeError: lengths that are no integers.

    >>> from upsweep import apps
    >>> apps.run_length_decode([5, 2, 5], [3, 2, 1]).tolist()
    [5, 5, 5, 2, 2, 5]
    """
    xp, (values, lengths), give = enter(values, lengths)
    check_counts(xp, lengths, "lengths")
    if values.ndim == 0 or lengths.shape[0] != values.shape[0]:
        raise ShapeError(f"{lengths.shape[0]} lengths do not fit values of shape {tuple(values.shape)}")
    return give(moving.repeat(xp, values, moving.places(xp, lengths)))


def check_counts(xp: Any, counts: Any, what: str) -> None:
    """Refuse what cannot say how many of something there are."""
    if counts.ndim != 1:
        raise ShapeError(f"{what} must be 1-D, got shape {tuple(counts.shape)}")
    if counts.shape[0] and not xp.isdtype(counts.dtype, "integral"):
        raise DTypeError(f"{what} must be integers, got {counts.dtype}")
    if counts.shape[0] and int(xp.min(counts)) < 0:
        raise ShapeError(f"{what} must not be negative, got {int(xp.min(counts))}")


def _check_flags(xp: Any, x: Any, keep: Any) -> None:
    if keep.shape != tuple(x.shape[:1]) or keep.ndim != 1:
        raise ShapeError(
            f"keep must have one flag for each item of x: shapes {tuple(keep.shape)} and {tuple(x.shape)}"
        )
    if keep.dtype != xp.bool and keep.shape[0]:
        raise DTypeError(f"keep must be boolean, got {keep.dtype}; compare something, or pass keep != 0")


def _check_runs(x: Any) -> None:
    if x.ndim == 0:
        raise ShapeError("a 0-dimensional array has no runs; pass x.reshape(1)")
