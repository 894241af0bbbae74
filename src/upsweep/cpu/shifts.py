"""Sums of shifted items: the part of a filter that its input alone makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from upsweep.cpu.chunked import SHARE, each_chunk
from upsweep.cpu.jitted import jitted

BLOCK = 2048
"""Items that all coefficients go over at once: they and their sums stay in the nearest cache."""

_njit = jitted()


def taken(x: Any) -> np.ndarray:
    """An array to read: items side by side, and read-only. numba compiles a function anew for an array that can be written to."""
    adjacent = np.ascontiguousarray(x).view()
    adjacent.flags.writeable = False
    return adjacent


def feed_forward(b: Sequence[float], x: np.ndarray) -> np.ndarray:
    """`b[0] x[t] + b[1] x[t-1] + ...` along the last axis of float64, the first product first."""
    columns = x.ndim == 2 and x.T.flags.c_contiguous
    source = taken(x.T if columns else x)
    y, numbers = np.empty_like(source), taken(b)
    # The item before one lies as far away as there are columns.
    step = len(x) if columns else 1
    row, flat, out = step * x.shape[-1], source.reshape(-1), y.reshape(-1)
    each_chunk(len(flat), lambda lo, hi: shifted(numbers, flat, row, step, lo, hi, out), SHARE)
    return y.T if columns else y


def last_state(
    b: Sequence[float], a: Sequence[float], x: np.ndarray, y: np.ndarray, before: np.ndarray
) -> np.ndarray:
    """The state of a filter behind its last items, from these and the state `before` them."""
    state, order = np.empty(before.shape), before.shape[-1]
    # The items that count, and rows in one dimension.
    last, rows = max(0, x.shape[-1] - order), math.prod(before.shape[:-1])
    given: tuple[Any, ...] = taken(x[..., last:]), np.ascontiguousarray(y[..., last:]), taken(before), state
    behind(taken(b), taken(a), *(v.reshape(rows, v.shape[-1]) for v in given))
    return state


@_njit
def behind(b, a, x, y, before, state):
    """The states of rows behind their last items."""
    state[:] = 0
    items, order = x.shape[1], before.shape[1]
    for row in range(len(state)):
        for m in range(order - items):
            state[row, m] = before[row, m + items]
        for k in range(items):
            item = items - 1 - k
            for m in range(len(b) - k - 1):
                state[row, m] += b[k + 1 + m] * x[row, item]
            for m in range(len(a) - k - 1):
                state[row, m] -= a[k + 1 + m] * y[row, item]


@_njit
def shifted(b, x, row, step, lo, hi, y):
    """The sums of items lo to hi of rows, whose items lie `step` apart."""
    while lo < hi:
        start = lo // row * row
        end = min(hi, lo + BLOCK, start + row)
        sums, k = y[lo:end], 1
        _first(b[0], x[lo:end], sums)
        while k + 3 < len(b) and start + (k + 3) * step <= lo:
            at = lo - k * step
            _four(b[k : k + 4], x[at:], x[at - step :], x[at - 2 * step :], x[at - 3 * step :], sums)
            k += 4
        while k < len(b) and start + k * step < end:
            first = max(lo, start + k * step)
            _one(b[k], x[first - k * step :], y[first:end])
            k += 1
        lo = end


@_njit
def _first(c, x, sums):
    for i in range(len(sums)):
        sums[i] = c * x[i]


@_njit
def _one(c, x, sums):
    for i in range(len(sums)):
        sums[i] += c * x[i]


@_njit
def _four(b, x, x1, x2, x3, sums):
    b0, b1, b2, b3 = b[0], b[1], b[2], b[3]
    for i in range(len(sums)):
        sums[i] = (((sums[i] + b0 * x[i]) + b1 * x1[i]) + b2 * x2[i]) + b3 * x3[i]
