"""Loops that number keys by first appearance, over arrays: see `codes`."""

from __future__ import annotations

import numpy as np

from upsweep.cpu.address import bytes_at, fetched
from upsweep.cpu.array_views import looping

SLOT = 16
"""Bytes of a slot of a hash table."""
AHEAD = 16
"""How many items further on an item's slot is fetched."""


def in_line(codes):
    """Whether groups lie one behind the other, as their codes never fall or never rise."""
    rise = fall = False
    for first in range(1, len(codes), 1024):
        for i in range(first, min(first + 1024, len(codes))):
            rise |= codes[i] > codes[i - 1]
            fall |= codes[i] < codes[i - 1]
        if rise and fall:
            return 0
    return 1


def near(numbers, codes, told):
    """Number integers by how far they lie from the least, if the greatest lies nearer than there are items, and say whether. The
    least and this distance are told."""
    low = high = numbers[0]
    for i in range(len(numbers)):
        low, high = min(low, numbers[i]), max(high, numbers[i])
    # As int64 the greatest numbers without a sign are below 0, and so is the least: their distance stays, without a sign.
    told[0], told[1] = np.int64(low), np.int64(high) - np.int64(low)
    if told[1] < 0 or told[1] >= len(codes):
        return 0
    for i in range(len(codes)):
        codes[i] = np.int64(numbers[i]) - told[0]
    return 1


def renamed(codes, names):
    for i in range(len(codes)):
        codes[i] = names[codes[i]]
    return 0


def by_table(numbers, low, known, codes):
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
    slots = larger.ctypes.data
    for slot in range(len(table)):
        later = table[min(slot + AHEAD, len(table) - 1), 0] & np.uint64(len(larger) - 1)
        fetched(slots + np.int64(later) * SLOT)
        if table[slot, 1]:
            at = np.int64(table[slot, 0] & np.uint64(len(larger) - 1))
            while larger[at, 1]:
                at = (at + 1) & (len(larger) - 1)
            larger[at, 0], larger[at, 1] = table[slot, 0], table[slot, 1]
    return 0


def by_hash(table, numbers, done, codes, first, groups):
    """Number integers from item `done` on, until all are numbered or the table is full by half: how many items are numbered now.
    `groups` holds how many groups there are.
    """
    zero, one, last = np.uint64(0), np.uint64(1), np.uint64(len(table) - 1)
    found, slots = groups[0], table.ctypes.data
    for i in range(done, len(numbers)):
        later = mixed(zero, np.uint64(numbers[min(i + AHEAD, len(numbers) - 1)])) & last
        fetched(slots + np.int64(later) * SLOT)
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


def by_text(table, data, starts, stops, done, codes, first, groups):
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
    groups[0] = found
    return len(codes)
