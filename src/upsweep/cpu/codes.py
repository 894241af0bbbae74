"""Keys as codes: by a table of all values, or by hashing them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from upsweep import cores
from upsweep.cpu import threads
from upsweep.cpu.address import bytes_at
from upsweep.host.codes import Codes, numbered

_njit: Any = numba.njit(nogil=True, cache=True)

_ROOMY = 4
"""A table of all values from the least to the greatest has at most so many entries an item; beyond that a hash table is used."""
_SLOTS = 1 << 12
PARALLEL_ITEMS = 1 << 16
"""One thread numbers, and scans, fewer items: joining what several did costs as much as it saves."""


def codes_of(keys: tuple[Any, ...], n: int, most: int | None = None) -> Codes:
    """The group of each of n items, int32, and how many items each group has. Items are of one group where all keys agree."""
    return numbered(keys, n, _dense, lambda data, offsets: _of_texts(data, offsets, most or cores.wanted()))


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
        groups = _by_hash(numbers.astype(np.int64), codes, counts, np.empty(n, np.int64))
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
    # One product would not bring the highest bits of a text's last characters to the lowest bits, which choose the slot.
    hash_ = (hash_ ^ bits) * np.uint64(0x9E3779B97F4A7C15)
    hash_ = (hash_ ^ (hash_ >> np.uint64(32))) * np.uint64(0xC2B2AE3D27D4EB4F)
    return hash_ ^ (hash_ >> np.uint64(29))


@_njit
def _grown(table):
    """A table of four times the slots, open addressing: a hash, and a group with what tells it from others of this hash, 0 where
    a slot is free. Both lie in one line of a cache.
    """
    larger = np.zeros((4 * len(table), 2), np.uint64)
    for slot in range(len(table)):
        if table[slot, 1]:
            at = np.int64(table[slot, 0] & np.uint64(len(larger) - 1))
            while larger[at, 1]:
                at = (at + 1) & (len(larger) - 1)
            larger[at, 0], larger[at, 1] = table[slot, 0], table[slot, 1]
    return larger


@_njit
def _by_hash(numbers, codes, counts, first):
    table, groups, done = np.zeros((_SLOTS, 2), np.uint64), 0, 0
    while True:
        # A loop that made larger tables would look the table itself up for each item: four times the time.
        done, groups = _by_hash_in(table, numbers, done, groups, codes, counts, first)
        if done == len(numbers):
            return groups
        table = _grown(table)


@_njit
def _by_hash_in(table, numbers, done, groups, codes, counts, first):
    """Number items from one on until all are done, or the table is full by half: how many items and groups there are now."""
    # Places have no sign: numba asks of a signed place whether it counts from the end.
    zero, one, last = np.uint64(0), np.uint64(1), np.uint64(len(table) - 1)
    for i in range(done, len(numbers)):
        # Two numbers never have the same hash.
        hash_ = _mixed(zero, np.uint64(numbers[i]))
        at = hash_ & last
        while table[at, one] and table[at, zero] != hash_:
            at = (at + one) & last
        code = np.int64(table[at, one]) - 1
        if code < 0:
            if 2 * groups == len(table):
                return i, groups
            code, first[groups] = groups, i
            groups += 1
            table[at, zero], table[at, one] = hash_, np.uint64(groups)
        codes[i] = code
        counts[code] += 1
    return len(numbers), groups


def _of_texts(data: np.ndarray, offsets: np.ndarray, most: int) -> Codes:
    """Each thread numbers a stretch by itself. What it found first is numbered again, in order, with what the others found."""
    n, starts, stops = len(offsets) - 1, offsets[:-1], offsets[1:]
    wanted = most if n >= PARALLEL_ITEMS else 1
    codes, parts = np.empty(n, np.int32), [(n * k // wanted, n * (k + 1) // wanted) for k in range(wanted)]
    found: list[Any] = [None] * wanted

    def number(k: int) -> None:
        here = slice(*parts[k])
        found[k] = _numbered(data, starts[here], stops[here], codes[here])

    threads.each(number, range(wanted), wanted)
    if wanted == 1:
        return codes, found[0][1]
    first = np.concatenate([low + places for (low, _), (places, _) in zip(parts, found)])
    known = np.empty(len(first), np.int32)
    merged, _ = _numbered(data, starts[first], stops[first], known)
    counts = np.zeros(len(merged), np.int64)
    np.add.at(counts, known, np.concatenate([counted for _, counted in found]))
    own = np.split(known, np.cumsum([len(places) for places, _ in found])[:-1])

    def rename(k: int) -> None:
        _renamed(codes[slice(*parts[k])], own[k])

    threads.each(rename, range(1, wanted), wanted)
    return codes, counts


@_njit
def _renamed(codes, names):
    for i in range(len(codes)):
        codes[i] = names[codes[i]]


def _numbered(data: np.ndarray, starts: np.ndarray, stops: np.ndarray, codes: np.ndarray) -> Any:
    """Number texts; where each group appears first, and how many items it has."""
    first, counts = np.empty(len(codes), np.int64), np.zeros(len(codes), np.int64)
    words = np.empty(len(codes), np.int64)
    if _short(data, starts, stops, words):
        groups = _by_hash(words, codes, counts, first)
    else:
        groups = _by_text(data, starts, stops, codes, counts, first)
    return first[:groups].copy(), counts[:groups].copy()


@_njit
def _word(data, at, n):
    """At most eight bytes as one number; all eight are read in one go where they are there."""
    if at + 8 <= len(data):
        word = np.uint64(bytes_at(data.ctypes.data + at))
        return word if n == 8 else word & ((np.uint64(1) << np.uint64(8 * n)) - np.uint64(1))
    word = np.uint64(0)
    for k in range(n):
        word |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return word


@_njit
def _short(data, starts, stops, words):
    """Texts of fewer than eight bytes as numbers that tell them from each other; whether all are so short."""
    for i in range(len(words)):
        n = stops[i] - starts[i]
        if n > 7:
            return False
        words[i] = _word(data, starts[i], n) | np.uint64(n) << np.uint64(56)
    return True


@_njit
def _same(data, at, other, n):
    differing = np.uint8(0)
    for k in range(n):
        differing |= data[at + k] ^ data[other + k]
    return differing == 0


@_njit
def _by_text(data, starts, stops, codes, counts, first):
    table, groups, done = np.zeros((_SLOTS, 2), np.uint64), 0, 0
    while True:
        done, groups = _by_text_in(table, data, starts, stops, done, groups, codes, counts, first)
        if done == len(codes):
            return groups
        table = _grown(table)


@_njit
def _by_text_in(table, data, starts, stops, done, groups, codes, counts, first):
    """Number texts as `_by_hash_in` numbers integers."""
    zero, one, last = np.uint64(0), np.uint64(1), np.uint64(len(table) - 1)
    for i in range(done, len(codes)):
        start, n = starts[i], stops[i] - starts[i]
        hash_, read = np.uint64(n), 0
        while read + 8 <= n:
            hash_ = _mixed(hash_, _word(data, start + read, 8))
            read += 8
        hash_ = _mixed(hash_, _word(data, start + read, n - read))
        # A text of fewer than eight bytes is one word, so no other text of its length has its hash.
        length = np.uint64(min(n, 8)) << np.uint64(32)
        at, code = hash_ & last, np.int64(-1)
        while table[at, one]:
            if table[at, zero] == hash_ and table[at, one] >> np.uint64(32) << np.uint64(32) == length:
                code = np.int64(table[at, one] - length) - 1
                known = first[code]
                if n < 8 or (stops[known] - starts[known] == n and _same(data, start, starts[known], n)):
                    break
                code = np.int64(-1)
            at = (at + one) & last
        if code < 0:
            if 2 * groups == len(table):
                return i, groups
            code, first[groups] = groups, i
            groups += 1
            table[at, zero], table[at, one] = hash_, length + np.uint64(groups)
        codes[i] = code
        counts[code] += 1
    return len(codes), groups
