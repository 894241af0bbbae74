"""The sums of boxes by a table of sums: each thread takes some boxes."""

from __future__ import annotations

import numpy as np

from upsweep.cpu import threads
from upsweep.cpu.jitted import jitted

SHARE = 1 << 14
"""Boxes that a thread takes at once."""

_njit = jitted()


def boxes(table: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sums of boxes, and how many items each has; -1 where a box is not within the table."""
    sums, items = np.zeros(len(starts), table.dtype), np.empty(len(starts), np.int64)
    flat, shape = np.ascontiguousarray(table).reshape(-1), np.array(table.shape)
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)

    def share(lo: int) -> None:
        each = slice(lo, lo + SHARE)
        _boxes(flat, shape, starts[each], stops[each], sums[each], items[each])

    threads.each(share, range(0, len(starts), SHARE))
    return sums, items


@_njit
def _boxes(table, shape, starts, stops, sums, items):
    dims = len(shape)
    across = np.empty(dims, np.int64)
    for box in range(len(starts)):
        first, step, count, within = 0, 1, 1, True
        for d in range(dims - 1, -1, -1):
            start, stop = starts[box, d], stops[box, d]
            within = within and 0 <= start <= stop < shape[d]
            first += start * step
            across[d] = (stop - start) * step
            step *= shape[d]
            count *= stop - start
        items[box] = count if within else -1
        if not within:
            continue
        total = sums[box]
        # The last dimension turns first.
        for corner in range(1 << dims):
            at, down = first, dims & 1
            for d in range(dims):
                if corner >> (dims - 1 - d) & 1:
                    at += across[d]
                    down ^= 1
            if down:
                total -= table[at]
            else:
                total += table[at]
        sums[box] = total
