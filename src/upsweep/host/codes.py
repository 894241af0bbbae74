"""Keys of every kind as integers, and as codes: the number of each key's group, by first appearance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep.engine import library_of
from upsweep.host.arrays import view
from upsweep.segments import SegmentError

Codes = tuple[np.ndarray, np.ndarray]
"""The group of each item, int32, and how many items each group has."""


def numbered(
    keys: tuple[Any, ...],
    n: int,
    dense: Callable[[np.ndarray], Codes],
    first_equal: Callable[[np.ndarray], np.ndarray],
) -> Codes:
    """The codes of n items. Items are of one group where all keys agree. `dense` makes codes of integers, `first_equal` makes
    integers of rows of bytes.
    """
    codes, counts = dense(_numbers(keys[0], n, first_equal))
    for key in keys[1:]:
        more, several = dense(_numbers(key, n, first_equal))
        codes, counts = dense(codes * np.int64(len(several)) + more)
    return codes, counts


def _numbers(key: Any, n: int, first_equal: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """One key as integers that are equal where its items are."""
    values = _counted(key)
    if values.shape != (n,):
        raise SegmentError(f"keys of groups have shape {values.shape}; pass {n} of them, 1-D along the axis")
    kind = values.dtype.kind
    if kind in "biu":
        return values
    if kind in "mM":
        return values.view(np.int64)
    if kind == "f" and values.itemsize <= 8:
        return _bits(values)
    if kind in "SU" and values.itemsize:
        return first_equal(np.ascontiguousarray(values).view(np.uint8).reshape(n, values.itemsize))
    known: dict[Any, int] = {}
    return np.fromiter((known.setdefault(value, len(known)) for value in values.tolist()), np.int64, n)


def _counted(key: Any) -> np.ndarray:
    """A key as a NumPy array. A key from a library that knows its categories becomes that library's numbers of them."""
    library = library_of(key)
    if library == "pandas":
        return _of_pandas(key)
    if library == "polars":
        return _of_polars(key)
    if library == "pyarrow":
        return _of_arrow(key)
    return view(key)


def _of_pandas(key: Any) -> np.ndarray:
    if hasattr(key.dtype, "categories"):
        return np.asarray(key.cat.codes if hasattr(key, "cat") else key.codes)
    if isinstance(key.dtype, np.dtype) and key.dtype.kind != "O":
        return key.to_numpy()
    return key.factorize(use_na_sentinel=False)[0]


def _of_polars(key: Any) -> np.ndarray:
    import polars

    key = key.cast(polars.Categorical) if key.dtype == polars.String else key
    numbers = key.to_physical()
    if numbers.null_count() and not numbers.dtype.is_float():
        numbers = numbers.cast(polars.Int64).fill_null(np.iinfo(np.int64).min)
    return numbers.to_numpy()


def _of_arrow(key: Any) -> np.ndarray:
    key = key.combine_chunks() if hasattr(key, "combine_chunks") else key
    key = key if hasattr(key, "indices") else key.dictionary_encode("encode")
    return key.indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _bits(values: np.ndarray) -> np.ndarray:
    """Floats by their bits, with one code for all NaNs and one for both zeros."""
    wide = values.astype(np.float64) + 0.0
    wide[wide != wide] = np.nan
    return wide.view(np.int64)
