"""Lexicographic order, many pairs at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep import api
from upsweep.api import ShapeError
from upsweep.apps.kinds import enter
from upsweep.apps.last import LAST_NONZERO


def compare_strings(a: Any, b: Any) -> Any:
    """-1, 0 or 1 for each pair of strings, as the first is less than, equal to or greater than the second.

    The sign of the first difference decides: a reduction, from the end, under "the later one unless it is zero".

    Args:
        a, b: lists of str or of bytes, NumPy arrays of them, or integer arrays of shape (..., length) of any library, whose
            rows are strings of codes, padded at the end with a code lower than any other where they are shorter.

    Returns:
        int8 of the shape (...).

    Raises:
        ShapeError: different numbers of strings, or codes of different shapes. TypeError: str against bytes.

    >>> from upsweep import apps
    >>> apps.compare_strings(["scan", "scan", "up"], ["scan", "scans", "down"]).tolist()
    [0, -1, 1]

    Source: Blelloch (1990), section 1.1 ("lexically compare strings of characters").
    """
    if isinstance(a, (list, tuple)) or (isinstance(a, np.ndarray) and a.dtype.kind in "SUO"):
        a, b = _codes(a, b)
    xp, (a, b), give = enter(a, b)
    if a.shape != b.shape or a.ndim == 0:
        raise ShapeError(f"codes of shapes {tuple(a.shape)} and {tuple(b.shape)} are no pairs of strings")
    signs = xp.astype(a > b, xp.int8) - xp.astype(a < b, xp.int8)
    return give(api.reduce(signs, LAST_NONZERO, axis=-1, reverse=True))


def _codes(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Strings as rows of code points plus one, so that what pads them is lower than any."""
    if len(a) != len(b):
        raise ShapeError(f"{len(a)} strings cannot be compared with {len(b)}")
    if all(isinstance(v, np.ndarray) and v.dtype.kind == "U" for v in (a, b)):
        wide = np.promote_types(a.dtype, b.dtype)
        return tuple(np.ascontiguousarray(v, wide).view(np.uint32).reshape(len(v), -1) for v in (a, b))  # type: ignore[return-value]
    a, b = list(a), list(b)
    kinds = {type(s) for s in (*a, *b)} - {np.str_, np.bytes_} | {str for s in (*a, *b) if type(s) is np.str_}
    if len({issubclass(k, bytes) for k in kinds}) > 1:
        raise TypeError("str and bytes cannot be compared")
    width = max((len(s) for s in (*a, *b)), default=0)
    return _rows(a, width), _rows(b, width)


def _rows(strings: list[Any], width: int) -> np.ndarray:
    lengths = np.array([len(s) for s in strings], np.int64)
    if strings and isinstance(strings[0], bytes):
        codes = np.frombuffer(b"".join(strings), np.uint8)
    else:
        codes = np.frombuffer("".join(strings).encode("utf-32-le", "surrogatepass"), np.uint32)
    rows = np.zeros((len(strings), width), np.uint32)
    rows[np.arange(width) < lengths[:, None]] = codes + np.uint32(1)
    return rows
