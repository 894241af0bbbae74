"""Links followed to their ends.

Many walkers go at once, a step each in turn, so that the others go on while one waits for memory. Each leaves its number and
the steps it has gone; a walk ends where another has been, or at an end. Then the walks are few, and the rest of each item's way
is known: Helman and JaJa, "Designing practical efficient algorithms for symmetric multiprocessors" (1999).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

WALKERS = 16
_UNKNOWN, _NOWHERE, _STEPS = -2, -1, (1 << 32) - 1

_njit: Any = numba.njit(nogil=True, cache=True)


def distances(links: np.ndarray) -> np.ndarray:
    """How many links lead from each item to one whose link is -1; -1 where none does."""
    marks, met = _walked(np.ascontiguousarray(links, np.int64))
    return _left(marks, _lengths(marks, met))


@_njit
def _walked(links):
    """For each item the number of the walk that came there first, times 2^32, plus the walk's steps until then. For each walk the
    item that it met at last, and its steps. This item is -1 behind an end and len(links) where a link leads nowhere.
    """
    n = len(links)
    marks, met = np.full(n, -1), np.empty((n, 2), np.int64)
    at, steps, walk = np.zeros(WALKERS, np.int64), np.zeros(WALKERS, np.int64), np.full(WALKERS, -1)
    start, walks, active = 0, 0, 0
    while True:
        for w in range(WALKERS):
            if walk[w] < 0:
                while start < n and marks[start] >= 0:
                    start += 1
                if start == n:
                    continue
                at[w], steps[w], walk[w] = start, 0, walks
                start, walks, active = start + 1, walks + 1, active + 1
            i = at[w]
            if i < 0 or i >= n or marks[i] >= 0:
                met[walk[w], 0], met[walk[w], 1] = (i if i == -1 or 0 <= i < n else n), steps[w]
                walk[w], active = -1, active - 1
            else:
                marks[i] = walk[w] << 32 | steps[w]
                at[w], steps[w] = links[i], steps[w] + 1
        if start == n and active == 0:
            return marks, met[:walks]


@_njit
def _lengths(marks, met):
    """How far the first item of each walk is from its end; _NOWHERE where the walk comes to no end."""
    lengths, path = np.full(len(met), _UNKNOWN), np.empty(len(met), np.int64)
    for first in range(len(met)):
        walk, depth = first, 0
        while lengths[walk] == _UNKNOWN:
            # A walk that is met again on this path is a circle.
            lengths[walk], path[depth], depth = _NOWHERE, walk, depth + 1
            item = met[walk, 0]
            if item < 0 or item == len(marks):
                break
            walk = marks[item] >> 32
        while depth:
            depth -= 1
            walk = path[depth]
            item, steps = met[walk]
            if item < 0:
                lengths[walk] = steps - 1
            elif item < len(marks) and lengths[marks[item] >> 32] != _NOWHERE:
                lengths[walk] = steps + lengths[marks[item] >> 32] - (marks[item] & _STEPS)
    return lengths


@_njit
def _left(marks, lengths):
    left = np.empty_like(marks)
    for i in range(len(marks)):
        length = lengths[marks[i] >> 32]
        left[i] = -1 if length == _NOWHERE else length - (marks[i] & _STEPS)
    return left
