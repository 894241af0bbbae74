"""Loops that number keys by first appearance, over arrays: see `codes`."""

from __future__ import annotations

import numpy as np

from upsweep.cpu.address import bytes_at
from upsweep.cpu.array_views import looping


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
    return count


def renamed(codes, names):
    for i in range(len(codes)):
        codes[i] = names[codes[i]]
    return 0


def by_table(numbers, low, known, codes, counts):
    """Number integers from `low` on by a table of them; how many groups there are."""
    groups = 0
    for i in range(len(numbers)):
        # A place has no sign: numba asks of a signed place whether it counts from the end.
        at = np.uint64(np.int64(numbers[i]) - low)
        code = known[at]
        if code < 0:
            code = known[at] = groups
            groups += 1
        codes[i] = code
        counts[np.uint64(code)] += 1
    return groups


@looping
def mixed(hash_, bits):
    # One product would not bring the highest bits of a text's last characters to the lowest bits, which choose the slot.
    hash_ = (hash_ ^ bits) * np.uint64(0x9E3779B97F4A7C15)
    hash_ = (hash_ ^ (hash_ >> np.uint64(32))) * np.uint64(0xC2B2AE3D27D4EB4F)
    return hash_ ^ (hash_ >> np.uint64(29))


def into_larger(table, larger):
    """Fill a larger table of zeros. A table has open addressing, and a line for each slot: a hash, and a group with the length
    of its text, 0 where the slot is free. Both lie in one line of a cache.
    """
    for slot in range(len(table)):
        if table[slot, 1]:
            at = np.int64(table[slot, 0] & np.uint64(len(larger) - 1))
            while larger[at, 1]:
                at = (at + 1) & (len(larger) - 1)
            larger[at, 0], larger[at, 1] = table[slot, 0], table[slot, 1]
    return 0


def by_hash(table, numbers, done, codes, counts, first, groups):
    """Number integers from item `done` on, until all are numbered or the table is full by half: how many items are numbered now.
    `groups` holds how many groups there are.
    """
    zero, one, last = np.uint64(0), np.uint64(1), np.uint64(len(table) - 1)
    found = groups[0]
    for i in range(done, len(numbers)):
        # Two numbers never have the same hash.
        hash_ = mixed(zero, np.uint64(numbers[i]))
        at = hash_ & last
        while table[at, one] and table[at, zero] != hash_:
            at = (at + one) & last
        code = np.int64(table[at, one]) - 1
        if code < 0:
            if 2 * found == len(table):
                groups[0] = found
                return i
            code, first[found] = found, i
            found += 1
            table[at, zero], table[at, one] = hash_, np.uint64(found)
        codes[i] = code
        counts[code] += 1
    groups[0] = found
    return len(numbers)


@looping
def word(data, at, n):
    """At most eight bytes as one number; all eight are read in one go where they are there."""
    if at + 8 <= len(data):
        word = np.uint64(bytes_at(data.ctypes.data + at))
        return word if n == 8 else word & ((np.uint64(1) << np.uint64(8 * n)) - np.uint64(1))
    word = np.uint64(0)
    for k in range(n):
        word |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return word


def short(data, starts, stops, words):
    """Texts of fewer than eight bytes as numbers that tell them from each other; whether all are so short."""
    for i in range(len(words)):
        n = stops[i] - starts[i]
        if n > 7:
            return 0
        words[i] = word(data, starts[i], n) | np.uint64(n) << np.uint64(56)
    return 1


@looping
def same(data, at, other, n):
    differing = np.uint8(0)
    for k in range(n):
        differing |= data[at + k] ^ data[other + k]
    return differing == 0


def by_text(table, data, starts, stops, done, codes, counts, first, groups):
    """Number texts as `by_hash` numbers integers."""
    zero, one, last = np.uint64(0), np.uint64(1), np.uint64(len(table) - 1)
    found = groups[0]
    for i in range(done, len(codes)):
        start, n = starts[i], stops[i] - starts[i]
        hash_, read = np.uint64(n), 0
        while read + 8 <= n:
            hash_ = mixed(hash_, word(data, start + read, 8))
            read += 8
        hash_ = mixed(hash_, word(data, start + read, n - read))
        # A text of fewer than eight bytes is one word, so no other text of its length has its hash.
        length = np.uint64(min(n, 8)) << np.uint64(32)
        at, code = hash_ & last, np.int64(-1)
        while table[at, one]:
            if table[at, zero] == hash_ and table[at, one] >> np.uint64(32) << np.uint64(32) == length:
                code = np.int64(table[at, one] - length) - 1
                known = first[code]
                if n < 8 or (stops[known] - starts[known] == n and same(data, start, starts[known], n)):
                    break
                code = np.int64(-1)
            at = (at + one) & last
        if code < 0:
            if 2 * found == len(table):
                groups[0] = found
                return i
            code, first[found] = found, i
            found += 1
            table[at, zero], table[at, one] = hash_, length + np.uint64(found)
        codes[i] = code
        counts[code] += 1
    groups[0] = found
    return len(codes)
