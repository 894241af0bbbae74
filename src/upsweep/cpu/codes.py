"""Keys of every kind as codes: the number of each key's group, by first appearance."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from upsweep.engine import library_of
from upsweep.host.arrays import view
from upsweep.segments import SegmentError

_njit: Any = numba.njit(nogil=True, cache=True)

_ROOMY = 4
"""A table of all values from the least to the greatest serves up to so many entries an item; a hash table beyond that."""
_SLOTS = 1 << 12


def codes_of(keys: tuple[Any, ...], n: int) -> tuple[np.ndarray, np.ndarray]:
    """The group of each of n items, int32, and how many items each group has. Items are of one group where all keys agree."""
    codes, counts = _dense(_numbers(keys[0], n))
    for key in keys[1:]:
        more, several = _dense(_numbers(key, n))
        codes, counts = _dense(codes * np.int64(len(several)) + more)
    return codes, counts


def _numbers(key: Any, n: int) -> np.ndarray:
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
        return _first_equal(np.ascontiguousarray(values).view(np.uint8).reshape(n, values.itemsize))
    known: dict[Any, int] = {}
    return np.fromiter((known.setdefault(value, len(known)) for value in values.tolist()), np.int64, n)


def _counted(key: Any) -> np.ndarray:
    """A key as a NumPy array; where it comes from a library that knows what its items are, as that numbers them."""
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
    """Floats by their bits: all NaNs are one, and so are both zeros."""
    wide = values.astype(np.float64) + 0.0
    wide[wide != wide] = np.nan
    return wide.view(np.int64)


def _dense(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes from 0 on, and how often each occurs."""
    n = len(numbers)
    codes, counts = np.empty(n, np.int32), np.zeros(n + 1, np.int64)
    if not n:
        return codes, counts[:0]
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < max(_ROOMY * n, _SLOTS):
        known = np.full(high - low + 1, -1, np.int32)
        groups = _by_table(numbers, numbers.dtype.type(low), known, codes, counts)
    else:
        groups = _by_hash(numbers.astype(np.int64), codes, counts)
    return codes, counts[:groups]


@_njit
def members(codes, first, behind, places):
    """The places of the items whose codes lie in [first, behind), of which there are as many as `places` has room for, in
    their order. There is no branch that would be guessed wrong every other time."""
    count = 0
    for i in range(len(codes)):
        if count == len(places):
            break
        places[count] = i
        count += (codes[i] >= first) & (codes[i] < behind)


@_njit
def _by_table(numbers, low, known, codes, counts):
    groups = 0
    for i in range(len(numbers)):
        at = np.int64(numbers[i]) - np.int64(low)
        code = known[at]
        if code < 0:
            code = known[at] = groups
            groups += 1
        codes[i] = code
        counts[code] += 1
    return groups


@_njit
def _mixed(hash_, bits):
    hash_ = (hash_ ^ bits) * np.uint64(0x9E3779B97F4A7C15)
    return hash_ ^ (hash_ >> np.uint64(29))


@_njit
def _grown(table, hashes):
    """A table of four times the slots, open addressing: places in `hashes`, -1 where a slot is free."""
    larger = np.full(4 * len(table), -1, np.int64)
    for place in table:
        if place >= 0:
            at = np.int64(hashes[place] & np.uint64(len(larger) - 1))
            while larger[at] >= 0:
                at = (at + 1) & (len(larger) - 1)
            larger[at] = place
    return larger


@_njit
def _by_hash(numbers, codes, counts):
    table, groups = np.full(_SLOTS, -1, np.int64), 0
    keys, hashes = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.uint64)
    for i in range(len(numbers)):
        key = numbers[i]
        hash_ = _mixed(np.uint64(0), np.uint64(key))
        at = np.int64(hash_ & np.uint64(len(table) - 1))
        while table[at] >= 0 and keys[table[at]] != key:
            at = (at + 1) & (len(table) - 1)
        code = table[at]
        if code < 0:
            code = table[at] = groups
            keys[code], hashes[code] = key, hash_
            groups += 1
            if 2 * groups > len(table):
                table = _grown(table, hashes)
        codes[i] = code
        counts[code] += 1
    return groups


@_njit
def _first_equal(rows):
    """For each row of bytes the first row that equals it."""
    table, groups = np.full(_SLOTS, -1, np.int64), 0
    hashes, first = np.empty(len(rows), np.uint64), np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        hash_ = np.uint64(0)
        for byte in rows[i]:
            hash_ = _mixed(hash_, np.uint64(byte))
        hashes[i] = hash_
        at = np.int64(hash_ & np.uint64(len(table) - 1))
        while table[at] >= 0 and not (hashes[table[at]] == hash_ and np.all(rows[table[at]] == rows[i])):
            at = (at + 1) & (len(table) - 1)
        if table[at] < 0:
            table[at] = i
            groups += 1
        first[i] = table[at]
        if 2 * groups > len(table):
            table = _grown(table, hashes)
    return first
