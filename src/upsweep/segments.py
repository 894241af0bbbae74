"""Where segments start: five spellings of one thing; and groups, whose items lie in any order.

Each returns a `Segments`, which `scan(..., segments=...)` takes. Flags, ends and keys of the shape of the data give every row its
own segments; everything else is 1-D along the scanned axis and holds for all rows.

>>> import upsweep as up
>>> x = [1, 2, 3, 4, 5, 6]
>>> for s in (up.segments.flags([1, 0, 0, 1, 0, 1]), up.segments.ends([0, 0, 1, 0, 1, 0]), up.segments.offsets([0, 3, 5, 6]),
...           up.segments.lengths([3, 2, 1]), up.segments.keys(["a", "a", "a", "b", "b", "a"])):
...     print(up.scan(x, segments=s).tolist())
[1, 3, 6, 4, 9, 6]
[1, 3, 6, 4, 9, 6]
[1, 3, 6, 4, 9, 6]
[1, 3, 6, 4, 9, 6]
[1, 3, 6, 4, 9, 6]
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np

EACH = ("flags", "ends", "keys")
"""The spellings that have a value for each item."""
LISTS = ("offsets", "lengths")
"""Those whose values are one list for all rows, as long as there are segments."""


class SegmentError(ValueError):
    """The segments do not fit the data: a wrong length, falling offsets, negative lengths."""


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments as the user spelt them; the engine that runs the scan turns them into flags."""

    spelling: str
    values: Any


def checked(segments: Any) -> Segments | None:
    """The argument `segments=`; an error where it is neither None nor one of the spellings below."""
    if segments is None or isinstance(segments, Segments):
        return segments
    raise SegmentError(
        f"segments= of type {type(segments).__name__} may mean several things: pass upsweep.segments.flags(f), true where "
        "a segment starts, .ends(e), true at its last item, .offsets(o), where each starts and the last ends, .lengths(l), "
        ".keys(k), which change from one to the next, or .groups(k), equal keys wherever they lie"
    )


def differ(earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
    """Where keys differ from the ones before; a SegmentError where they do not compare, as pandas' missing values do not."""
    try:
        return earlier != later
    except TypeError as error:
        raise SegmentError(f"some keys cannot be told to be equal or different: {error}") from None


def check_form(spelling: str, values: Any, shape: tuple[int, ...], n: int) -> None:
    """A SegmentError where values of a spelling have another dtype or shape than segments of rows of n items have, whatever is
    in them."""
    kind = values.dtype.kind
    if spelling not in EACH:
        if values.ndim != 1 or (values.size and kind not in "iu"):
            raise SegmentError(
                f"{spelling} must be 1-D integers, got {values.dtype} of shape {tuple(values.shape)}"
            )
        return
    what = "keys" if spelling == "keys" else "flags"
    # A list of no flags is one of floats.
    if what == "flags" and values.size and kind not in "biu":
        raise SegmentError(f"flags must be booleans or integers, got {values.dtype}")
    if values.shape not in (shape, (n,)):
        raise SegmentError(
            f"{what} have shape {tuple(values.shape)}; pass {n} of them, or the data's shape {shape}"
        )


def one_list(dimensions: int) -> None:
    """A SegmentError for segments that differ from row to row, where each segment has one result."""
    if dimensions > 1:
        raise SegmentError(
            "rows with segments of their own reduce to different numbers of results: pass 1-D segments"
        )


def no_groups(segments: Segments) -> None:
    """A SegmentError for groups in any order, where only segments that lie one behind the other are scanned."""
    if segments.spelling == "groups":
        raise SegmentError(
            "groups in any order are scanned without gradients, jit and streams, by up.scan of arrays in memory or in Dask's "
            "chunks and by up.scan_file: sort the data by group, order = np.argsort(k, kind='stable'), and pass "
            "segments.keys(k[order])"
        )


def flags(f: Any) -> Segments:
    """`f[i]` is true where a segment starts (bool or integers, of the data's shape or 1-D along the axis). The first item starts
    one in any case. The scan raises a SegmentError where flags have another length or dtype.

    >>> import upsweep as up
    >>> up.scan([1, 2, 3, 4], segments=up.segments.flags([False, False, True, False])).tolist()
    [1, 3, 3, 7]
    """
    return Segments("flags", f)


def ends(e: Any) -> Segments:
    """`e[i]` is true at the last item of a segment, as a reinforcement learner's `done` is (bool or integers, of the data's
    shape or 1-D along the axis). The scan raises a SegmentError where they have another length or dtype.

    >>> import upsweep as up
    >>> up.scan([1, 2, 3, 4], segments=up.segments.ends([False, True, False, False])).tolist()
    [1, 3, 3, 7]
    """
    return Segments("ends", e)


def offsets(o: Any) -> Segments:
    """`o` holds where each segment starts and, last, where the data ends, as in CSR: m + 1 integers for m segments, from
    0 to n, never falling; a segment may be empty. The scan raises a SegmentError for any others.

    >>> import upsweep as up
    >>> up.scan([1, 2, 3, 4], segments=up.segments.offsets([0, 2, 2, 4])).tolist()
    [1, 3, 3, 7]
    """
    return Segments("offsets", o)


def lengths(lengths: Any) -> Segments:
    """The length of each segment: m integers, none negative, that add up to n. The scan raises a SegmentError for any others.

    >>> import upsweep as up
    >>> up.scan([1, 2, 3, 4], segments=up.segments.lengths([2, 0, 2])).tolist()
    [1, 3, 3, 7]
    """
    return Segments("lengths", lengths)


def keys(k: Any) -> Segments:
    """A segment is a run of equal keys (any dtype that compares; of the data's shape or 1-D along the axis). A NaN equals no
    other key. The scan raises a SegmentError where keys have another length, or cannot be told to be equal or different.

    >>> import upsweep as up
    >>> up.scan([1, 2, 3, 4], segments=up.segments.keys(["a", "a", "b", "b"])).tolist()
    [1, 3, 3, 7]
    """
    return Segments("keys", _told_apart(k))


def groups(*k: Any) -> Segments:
    """A group is all items with equal keys, wherever they lie: what `groupby` means in pandas.

    Each group is scanned by itself, with the bits of a scan of its items alone. Several keys make a group of the items for
    which all of them agree. Keys are 1-D along the axis: numbers, times, strings, categories, objects that hash, from NumPy,
    pandas, polars or pyarrow; on a GPU they may also be numbers there. Missing keys (NaN, None) are a group of their own;
    0.0 and -0.0 are one key. Without any keys, or in a scan with keys of another length, this is a SegmentError.

    >>> import upsweep as up
    >>> shop, sold = ["a", "b", "a", "a", "b"], [1, 2, 3, 4, 5]
    >>> up.scan(sold, segments=up.segments.groups(shop)).tolist()
    [1, 2, 4, 8, 7]
    """
    if not k:
        raise SegmentError("groups() needs keys: pass one array, or several of one length")
    return Segments("groups", tuple([_told_apart(key, {list}) for key in k]))


def _told_apart(k: Any, rows: Set[type] = frozenset({list, tuple})) -> Any:
    """Keys, those of a list as an array in which two that differ are different; `rows` are the types of rows of keys. Of several
    types NumPy would make texts, of large integers floats, and of two texts that end in other numbers of zeros one."""
    types = {type(key) for key in k} if isinstance(k, (list, tuple)) else set()
    if not types or types & rows:
        return k
    if types <= {int, bool} and (numbers := np.asarray(k)).dtype.kind in "biu":
        return numbers
    if len(types) == 1 and not types & {int, str, bytes, tuple}:
        return k
    return np.fromiter(k, object, len(k))
