"""Loops that make flags of segments as they were told, `by` places further on: whether they are segments of so many items. One
makes codes of groups.

`flags` has an item for each item of a row. What a loop refuses is left to `upsweep.host.heads`, which names the mistake.
"""

from __future__ import annotations

import numpy as np

from upsweep.cpu.numbering import mixed


def flags(values, flags, by):
    for i in range(len(flags)):
        at = i - by
        flags[i] = 0 <= at < len(values) and values[at] != 0
    return len(values) == len(flags)


def keys(values, flags, by):
    for i in range(len(flags)):
        at = i - by
        flags[i] = 0 <= at < len(values) and (at == 0 or values[at] != values[at - 1])
    return len(values) == len(flags)


def offsets(values, flags, by):
    last, n = 0, len(flags)
    for i in range(n):
        flags[i] = 0
    for k in range(len(values)):
        start = values[k]
        if start > n or start < last or (k == 0 and start > 0):
            return False
        if 0 <= start + by < n and start < n:
            flags[start + by] = 1
        last = start
    return len(values) > 0 and last == n


def lengths(values, flags, by):
    start, n = 0, len(flags)
    for i in range(n):
        flags[i] = 0
    for k in range(len(values)):
        if 0 <= start + by < n and start < n:
            flags[start + by] = 1
        if values[k] < 0 or values[k] > n - start:
            return False
        start += values[k]
    return start == n


def groups(values, codes, n):
    """Number integers by first appearance: how many groups there are, or 0. Behind the n codes is a hash table: the place behind
    that of the first item of each group."""
    if len(values) != n:
        return 0
    last = np.uint64(len(codes) - n - 1)
    found = 0
    for at in range(n, len(codes)):
        codes[at] = 0
    for i in range(n):
        slot = mixed(np.uint64(0), np.uint64(values[i])) & last
        first = codes[n + np.int64(slot)]
        while first and values[first - 1] != values[i]:
            slot = (slot + np.uint64(1)) & last
            first = codes[n + np.int64(slot)]
        if first:
            codes[i] = codes[first - 1]
        else:
            codes[n + np.int64(slot)] = i + 1
            codes[i] = found
            found += 1
    return found
