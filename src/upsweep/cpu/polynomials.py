"""Horner's rule at many points: all coefficients go over a few points while these are in the nearest cache."""

from __future__ import annotations

import numpy as np

from upsweep.cpu import threads
from upsweep.cpu.jitted import jitted

POINTS = 512
"""Points that all coefficients go over at once."""
SHARE = 1 << 19
"""Steps, a coefficient at a point each, that a thread takes at once."""

_njit = jitted()


def horner(p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A polynomial at points of its dtype."""
    points = np.ascontiguousarray(x).ravel()
    y, share = np.empty_like(points), max(POINTS, SHARE // len(p))
    p = np.ascontiguousarray(p)
    threads.each(lambda lo: _horner(p, points[lo : lo + share], y[lo : lo + share]), range(0, len(y), share))
    return y.reshape(x.shape)


@_njit
def _horner(p, x, y):
    for lo in range(0, len(x), POINTS):
        points, values = x[lo : lo + POINTS], y[lo : lo + POINTS]
        values[:] = p[0]
        for c in p[1:]:
            for i in range(len(points)):
                values[i] = values[i] * points[i] + c
