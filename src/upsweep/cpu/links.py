"""Links followed to their ends.

Where most links lead one way, as those of nodes to parents that come before them, one sweep over the items finds the distance
of each from that of its link. For the rest many walkers go at once, a step each in turn, so that the others go on while one
waits for memory. Each leaves its number and the steps it has gone; a walk ends where another has been, at an item whose distance
is known, or at an end. Then the walks are few, and the rest of each item's way is known: Helman and JaJa, "Designing practical
efficient algorithms for symmetric multiprocessors" (1999).
"""

from __future__ import annotations

import numpy as np

from upsweep.cpu.jitted import jitted

WALKERS = 16
# Marks of items: none, that of an item whose link is -1 (one less for each link more), and from 0 on walks.
_NONE, _END = -1, -2
_UNKNOWN, _NOWHERE, _STEPS = -2, -1, (1 << 32) - 1

_njit = jitted()


def distances(links: np.ndarray) -> np.ndarray:
    """How many links lead from each item to one whose link is -1; -1 where none does."""
    links = np.ascontiguousarray(links, np.int64)
    marks = _swept(links)
    return _left(marks, _lengths(marks, _walked(links, marks)))


@_njit
def _swept(links):
    """The marks of the items after a sweep that begins where links lead to. It is made if seven of eight links lead one way: in
    no order it finds little. ms for 10^6 items, walked and swept: parents first 230 and 25, a list in a row 74 and 28."""
    n, lower = len(links), 0
    for i in range(n):
        lower += links[i] < i
    marks = np.full(n, _NONE)
    if 8 * max(lower, n - lower) >= 7 * n:
        for k in range(n):
            i = k if 2 * lower >= n else n - 1 - k
            link = links[i]
            # Any item stands in for a link that leads nowhere.
            there = marks[link if 0 <= link < n else i]
            marks[i] = _END if link == -1 else there - 1 if there < _NONE else _NONE
    return marks


@_njit
def _walked(links, marks):
    """Mark the other items with the number of the walk that came there first, times 2^32, plus the walk's steps until then. For
    each walk the item that it met at last, and its steps. This item is -1 behind an end and len(links) behind a link that leads
    nowhere.
    """
    n = len(links)
    met = np.empty((n, 2), np.int64)
    at, steps, walk = np.zeros(WALKERS, np.int64), np.zeros(WALKERS, np.int64), np.full(WALKERS, -1)
    start, walks, active = 0, 0, 0
    while True:
        for w in range(WALKERS):
            if walk[w] < 0:
                while start < n and marks[start] != _NONE:
                    start += 1
                if start == n:
                    continue
                at[w], steps[w], walk[w] = start, 0, walks
                start, walks, active = start + 1, walks + 1, active + 1
            i = at[w]
            if i < 0 or i >= n or marks[i] != _NONE:
                met[walk[w], 0], met[walk[w], 1] = (i if i == -1 or 0 <= i < n else n), steps[w]
                walk[w], active = -1, active - 1
            else:
                marks[i] = walk[w] << 32 | steps[w]
                at[w], steps[w] = links[i], steps[w] + 1
        if start == n and active == 0:
            return met[:walks]


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
            if item < 0 or item == len(marks) or marks[item] < _NONE:
                break
            walk = marks[item] >> 32
        while depth:
            depth -= 1
            walk = path[depth]
            item, steps = met[walk]
            if item < 0:
                lengths[walk] = steps - 1
            elif item < len(marks) and marks[item] < _NONE:
                lengths[walk] = steps + _END - marks[item]
            elif item < len(marks) and lengths[marks[item] >> 32] != _NOWHERE:
                lengths[walk] = steps + lengths[marks[item] >> 32] - (marks[item] & _STEPS)
    return lengths


@_njit
def _left(marks, lengths):
    left = np.empty_like(marks)
    for i in range(len(marks)):
        if marks[i] < _NONE:
            left[i] = _END - marks[i]
        else:
            length = lengths[marks[i] >> 32]
            left[i] = -1 if length == _NOWHERE else length - (marks[i] & _STEPS)
    return left
