"""Lexicographic order, many pairs at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from upsweep import api, homes
from upsweep.apps import moving
from upsweep.apps.big_integers import LAST_NONZERO
from upsweep.apps.kinds import INTEGRAL, enter
from upsweep.arguments import ShapeError
from upsweep.dtypes import kind_of
from upsweep.engine import DTypeError
from upsweep.host import labelled, view

_FIRST = 8


@homes.apart
def compare_strings(a: Any, b: Any) -> Any:
    """-1, 0 or 1 for each pair of strings, as the first is less than, equal to or greater than the second.

    Of codes, the sign of the first difference decides: a reduction, from the end, under "the later one unless it is zero", of the
    first 8 of them, then of the next 16 of those pairs that are still equal, then of the next 32, and so on. Of strings that
    Python or NumPy holds, their own loops decide, which stop at the difference itself: no scan is as fast.

    Args:
        a, b: lists of str or of bytes, arrays of them (NumPy's, pandas', polars', Arrow's), or integer arrays of shape
            (..., length) of any library, whose rows are strings of codes, padded at the end with a code lower than any other
            where they are shorter.

    Returns:
        int8 of the shape (...).

    Raises:
        ShapeError: different numbers of strings, or codes of different shapes. TypeError: str against bytes, or a missing
            string. DTypeError: codes that are no integers.

    >>> from upsweep import apps
    >>> apps.compare_strings(["scan", "scan", "up"], ["scan", "scans", "down"]).tolist()
    [0, -1, 1]
    >>> apps.compare_strings([[1, 2, 3]], [[1, 3, 0]]).tolist()
    [-1]

    Source: Blelloch (1990), section 1.1 ("lexically compare strings of characters").
    """
    if isinstance(a, str) or isinstance(b, str):
        raise ShapeError("one string is a list of its characters here: pass lists, [a] and [b]")
    if _holds_strings(a) or _holds_strings(b):
        return _compared(a, b)
    xp, (a, b), give = enter(a, b)
    for codes in (a, b):
        if math.prod(codes.shape) and kind_of(codes.dtype) not in INTEGRAL:
            raise DTypeError(f"strings are str, bytes or integer codes, got {codes.dtype}")
    if a.shape != b.shape or a.ndim == 0:
        raise ShapeError(
            f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}: both need one shape, codes along the last axis"
        )
    rows = (math.prod(a.shape[:-1]), a.shape[-1])
    return give(xp.reshape(_signs(xp, xp.reshape(a, rows), xp.reshape(b, rows)), a.shape[:-1]))


def _holds_strings(v: Any) -> bool:
    if isinstance(v, np.ndarray) or labelled.has(v):
        return view(v).dtype.kind in "SUTO"
    return isinstance(v, Sequence) and (not len(v) or isinstance(v[0], (str, bytes)))


def _compared(a: Any, b: Any) -> Any:
    """The signs of strings that Python holds, in lists, or NumPy and pandas."""
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        _same_number(len(a), len(b))
        _alike({*map(type, a), *map(type, b)})
        # Whether strings are equal mostly shows at their lengths.
        codes = bytes([2 if p > q else p == q for p, q in zip(a, b)])
        return np.frombuffer(codes, np.int8) - np.int8(1)
    a, b = (np.array(v, object) if isinstance(v, Sequence) else view(v) for v in (a, b))
    _same_number(a.shape, b.shape)
    _alike({kind for v in (a, b) for kind in _types(v)})
    return np.greater(a, b).view(np.int8) - np.less(a, b).view(np.int8)


def _types(v: np.ndarray) -> set[type]:
    return set(map(type, v.flat)) if v.dtype.kind in "OT" else {v.dtype.type}


def _alike(kinds: set[type]) -> None:
    """A TypeError for values that have no order, or that are no strings: a missing one is less than none, nor equal to it."""
    if not any(all(issubclass(kind, text) for kind in kinds) for text in (str, bytes)):
        raise TypeError(
            "str is compared with str, and bytes with bytes, and none may be missing: here are "
            + ", ".join(sorted(kind.__name__ for kind in kinds))
        )


def _same_number(a: Any, b: Any) -> None:
    if a != b:
        raise ShapeError(f"a has {a} strings and b {b}: strings are compared in pairs")


def _signs(xp: Any, a: Any, b: Any) -> Any:
    equal = moving.indices(xp, a.shape[0], a)
    signs = xp.zeros_like(equal, dtype=xp.int8)
    lo, width = 0, _FIRST
    while equal.shape[0] and lo < a.shape[1]:
        # All of them are told apart where they lie.
        rows = equal if lo else slice(None)
        left, right = (codes[rows, lo : lo + width] for codes in (a, b))
        differences = xp.astype(left > right, xp.int8) - xp.astype(left < right, xp.int8)
        signs[rows] = first = api.last_prefix(differences, LAST_NONZERO, axis=-1, reverse=True)
        equal = moving.pack(xp, equal, first == 0)
        lo, width = lo + width, 2 * width
    return signs
