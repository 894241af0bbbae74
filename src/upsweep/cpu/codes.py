"""Keys as codes: by a table of all values, or by hashing them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from upsweep.host.codes import Codes, numbered

_njit: Any = numba.njit(nogil=True, cache=True)

_ROOMY = 4
"""A table of all values from the least to the greatest has at most so many entries an item; beyond that a hash table is used."""
_SLOTS = 1 << 12


def codes_of(keys: tuple[Any, ...], n: int) -> Codes:
    """The group of each of n items, int32, and how many items each group has. Items are of one group where all keys agree."""
    return numbered(keys, n, _dense, _first_equal)


def _dense(numbers: np.ndarray) -> Codes:
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
    """The places of the items whose codes lie in [first, behind), in their order: there are as many of them as `places` has
    room for. The loop has no branch, since every other one would be guessed wrong.
    """
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
