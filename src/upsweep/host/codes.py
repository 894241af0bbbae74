"""Keys of every kind as integers, and as codes: the number of each key's group, by first appearance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from upsweep.engine import library_of
from upsweep.host.arrays import view
from upsweep.segments import SegmentError

Codes = tuple[np.ndarray, int]
"""The group of each item, int32, and how many groups there are."""


def numbered(
    keys: tuple[Any, ...],
    n: int,
    of_integers: Callable[[np.ndarray], Codes],
    of_texts: Callable[[np.ndarray, np.ndarray], Codes],
) -> Codes:
    """The codes of n items, which are of one group where all keys agree. `of_integers` makes codes of integers, `of_texts` of
    stretches of bytes that lie one behind the other: the bytes, and where each starts and the last ends."""
    first, *rest = [column for key in keys for column in _columns(key)]
    codes, groups = _coded(first, n, of_integers, of_texts)
    for key in rest:
        more, several = _coded(key, n, of_integers, of_texts)
        room = np.int32 if groups * several < 1 << 31 else np.int64
        pairs = np.multiply(codes, several, dtype=room)
        codes, groups = of_integers(np.add(pairs, more, out=pairs))
    return codes, groups


def _coded(key: Any, n: int, of_integers: Any, of_texts: Any) -> Codes:
    values = _counted(key)
    if isinstance(values, Texts):
        _check((len(values.offsets) - 1,), n)
        return of_texts(values.data, values.offsets)
    _check(values.shape, n)
    kind = values.dtype.kind
    if kind in "biu":
        return of_integers(values)
    if kind in "mM":
        return of_integers(values.view(np.int64))
    if kind == "f" and values.itemsize <= 8:
        return of_integers(float_bits(values))
    if kind in "SU" and values.itemsize:
        data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        return of_texts(data, np.arange(n + 1, dtype=np.int64) * values.itemsize)
    return of_integers(of_objects(values))


def of_objects(values: np.ndarray) -> np.ndarray:
    """Objects that hash as integers, equal where the objects are."""
    items = values.tolist()
    with _hashing():
        known = {item: k for k, item in enumerate(dict.fromkeys(items))}
    # All missing values are one, with None.
    for item in filter(_missing, [*known]):
        known[item] = known.setdefault(None, len(known))
    return np.fromiter(map(known.__getitem__, items), np.int64, len(items))


def _missing(item: Any) -> bool:
    """Whether a key is NaN, NaT or pandas' NA: none of these equals itself."""
    try:
        return bool(item != item)
    except TypeError:
        # Of NA it is unknown.
        return True


@contextmanager
def _hashing() -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise SegmentError(
            f"keys of groups must be numbers, times, texts or objects that hash: {error}"
        ) from None


def _columns(key: Any) -> list[Any]:
    """The columns of a key that is a table, or the levels of an index: one key each."""
    library = library_of(key)
    if library == "pandas" and hasattr(key, "levels"):
        return [key.get_level_values(level) for level in range(key.nlevels)]
    if library not in ("pandas", "polars", "pyarrow") or not hasattr(key, "columns"):
        return [key]
    if library == "pandas":
        return [key.iloc[:, c] for c in range(key.shape[1])]
    return key.get_columns() if library == "polars" else key.columns


def _check(shape: tuple[int, ...], n: int) -> None:
    if shape != (n,):
        raise SegmentError(f"keys of groups have shape {shape}; pass {n} of them, 1-D along the axis")


class Texts(NamedTuple):
    """Texts of Arrow's: their bytes, and where each starts and the last ends."""

    data: np.ndarray
    offsets: np.ndarray


def _counted(key: Any) -> np.ndarray | Texts:
    """A key as a NumPy array, or as texts. A key of categories becomes the numbers that its library gives them."""
    library = library_of(key)
    if library == "pandas":
        return _of_pandas(key)
    if library == "polars":
        return _of_polars(key)
    if library == "pyarrow":
        return _of_arrow(key)
    return view(key)


def _of_pandas(key: Any) -> np.ndarray | Texts:
    if hasattr(key.dtype, "categories"):
        return np.asarray(key.cat.codes if hasattr(key, "cat") else key.codes)
    if isinstance(key.dtype, np.dtype) and key.dtype.kind != "O":
        return key.to_numpy()
    # A Series holds an array of pandas', which may also come alone.
    array = getattr(key, "array", key)
    if hasattr(array, "__arrow_array__") and str(key.dtype) in ("str", "string"):
        import pyarrow

        return _of_arrow(pyarrow.array(array))
    with _hashing():
        return key.factorize(use_na_sentinel=False)[0]


def _of_polars(key: Any) -> np.ndarray | Texts:
    import polars

    if str(key.dtype) in ("Int128", "UInt128"):
        # Neither NumPy nor Arrow has them.
        key = key.rank("dense")
    numbers = key.to_physical()
    plain = (numbers.dtype.is_integer() and not key.dtype.is_decimal()) or numbers.dtype == polars.Boolean
    if numbers.dtype.is_float() or (plain and not key.null_count()):
        return numbers.to_numpy()
    return _of_arrow(key.to_arrow())


def _of_arrow(key: Any) -> np.ndarray | Texts:
    import pyarrow as pa

    if str(key.type) in ("string", "large_string", "string_view"):
        # No text has such a byte, so that missing values are a text of their own. A scalar of Arrow's own making would import
        # pandas.
        ends, byte = np.array([0, 1], np.int64).view(np.uint8), np.array([255], np.uint8)
        missing = pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(byte)])
        texts = key.cast(pa.large_string()).cast(pa.large_binary()).fill_null(missing[0])
        texts = texts.combine_chunks() if hasattr(texts, "combine_chunks") else texts
        _, offsets, data = texts.buffers()
        starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        return Texts(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), starts)
    key = key.combine_chunks() if hasattr(key, "combine_chunks") else key
    if pa.types.is_floating(key.type) or (pa.types.is_integer(key.type) and not key.null_count):
        return key.to_numpy(zero_copy_only=False)
    try:
        if not pa.types.is_dictionary(key.type):
            key = key.dictionary_encode("encode")
        elif not _apart(key.dictionary):
            return _of_arrow(key.dictionary_decode())
    except pa.ArrowNotImplementedError:
        raise SegmentError(
            f"keys of groups cannot be of {key.type}: pass the columns that it is made of"
        ) from None
    return key.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)


def _apart(words: Any) -> bool:
    """Whether the values of a dictionary of Arrow's are keys of their own: one may stand there twice, or be missing."""
    floats = str(words.type) in ("halffloat", "float", "double")
    return not floats and not words.null_count and len(words.unique()) == len(words)


def float_bits(values: np.ndarray) -> np.ndarray:
    """Floats as integers: by their bits, with one code for all NaNs and one for both zeros."""
    wide = values.astype(np.float64) + 0.0
    wide[wide != wide] = np.nan
    return wide.view(np.int64)
