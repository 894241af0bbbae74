"""The rows of several arrays, whose last dimension is the axis, as sets of rows that lie a constant step apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from upsweep.cpu.objects import address_of
from upsweep.plan import Plan


class Sets(NamedTuple):
    places: np.ndarray
    """Where the first row of each set lies, a line for each input, output, and other array."""
    rows: int
    """The rows of a set."""
    near: bool
    """Whether items of neighbouring rows lie closer than those of one row."""
    steps: list[int]
    """The bytes from one item of a row to the next, for each input, and from one row to the next; the same for each output; and
    from one row to the next for each other array."""


def by_row(x: np.ndarray, plan: Plan) -> np.ndarray:
    """An array with the axis last. In reverse the axis runs from the end."""
    if plan.axis < x.ndim - 1:
        x = np.moveaxis(x, plan.axis, -1)
    return x[..., ::-1] if plan.reverse else x


def sets_of(ins: list[np.ndarray], outs: list[np.ndarray], others: Sequence[np.ndarray]) -> Sets:
    """The rows of a set are nearest neighbours in the result. Other arrays have something for each row, or the same for all."""
    like, arrays = outs[0], [*ins, *outs, *others]
    dimensions = sorted(range(like.ndim - 1), key=lambda d: abs(like.strides[d]))
    if not dimensions:
        steps = [step for some in (ins, outs) for step in (*[a.strides[0] for a in some], *[0] * len(some))]
        return Sets(np.array([[address_of(a)] for a in arrays]), 1, False, [*steps, *[0] * len(others)])
    inner, *rest = dimensions
    places = []
    for a in arrays:
        firsts = np.array([address_of(a)])
        for d in rest:
            firsts = np.add.outer(firsts, np.arange(like.shape[d]) * _step(a, d)).ravel()
        places.append(firsts)
    steps = [_step(a, d) for some in (ins, outs) for d in (-1, inner) for a in some]
    steps += [_step(a, inner) for a in others]
    near = abs(like.strides[inner]) < abs(like.strides[-1])
    return Sets(np.array(places), like.shape[inner], near, steps)


def _step(a: np.ndarray, dimension: int) -> int:
    return a.strides[dimension] if a.ndim else 0
