"""Which inputs a value is made of, as stretches of the input in the order in which they were combined."""

from __future__ import annotations

from itertools import pairwise

Intervals = tuple[tuple[int, int], ...]
"""((0, 3), (5, 5)) is x0..x3 then x5; () is an identity or another constant."""
MANY = 48
"""The stretches that are kept of one value; only broken kernels, and those that ask for more laws, make more."""


def join(a: Intervals, b: Intervals, most: int = MANY) -> Intervals:
    """The inputs of `a op b`, neighbouring stretches made one."""
    if a and b and a[-1][1] + 1 == b[0][0]:
        a, b = (*a[:-1], (a[-1][0], b[0][1])), b[1:]
    return (a + b)[:most]


def spoken(intervals: Intervals) -> str:
    """`x0..x3` for ((0, 3),), `e` for nothing.

    >>> spoken(((0, 3), (5, 5)))
    'x0..x3 x5'
    """
    return " ".join(f"x{a}" if a == b else f"x{a}..x{b}" for a, b in intervals) or "e"


def flaw(intervals: Intervals) -> str | None:
    """The fault that keeps a value from being a stretch of the input: an overlap, a gap, or a wrong order."""
    if len(intervals) < 2:
        return None
    flat = sorted(intervals)
    steps = [b[0] - a[1] for a, b in pairwise(flat)]
    return "overlap" if min(steps) < 1 else "gap" if max(steps) > 1 else "order"
