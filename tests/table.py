"""Operators that the tests of one property run over, each with its twin on whole arrays and data.

The suite that proves an engine has the whole list: `conformance/cases.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from upsweep.operator import Operator, resolve
from upsweep.operators import ops, variant_of

P, Q, R = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
SEVEN, REST = np.uint64(7), np.uint64(57)


def hashing(a, b):
    """Neither associative nor commutative: equal output means an equal tree, exactly."""
    c = a * P
    return ((c << SEVEN) | (c >> REST)) ^ (b * Q + R)


def last(a, b):
    return b


def join(a, b):
    """Adjacent intervals [lo, hi) become one interval; any other two become (-1, -1), which stays."""
    fits = (a[1] == b[0]) & (a[0] >= 0)
    return (a[0] if fits else -1, b[1] if fits else -1)


def join_arrays(a, b):
    fits = (a[1] == b[0]) & (a[0] >= 0)
    return (np.where(fits, a[0], -1), np.where(fits, b[1], -1))


def twin(op, *dtypes):
    """The array twin of a built-in operator on these dtypes, from the table."""
    found = variant_of(resolve(op, tuple(map(np.dtype, dtypes))), tuple(map(np.dtype, dtypes)))
    assert found is not None
    return found[1].twin


class Case(NamedTuple):
    """An operator with its twin on whole arrays, and data that shows a wrong order."""

    name: str
    op: Any
    arrays: Callable[[Any, Any], Any]
    dtypes: tuple[str, ...]
    data: Callable[[np.random.Generator, Any], Any]
    identity: Any

    def draw(self, shape: Any, seed: int = 0) -> tuple[np.ndarray, ...]:
        parts = self.data(np.random.default_rng(seed), shape)
        return tuple(np.ascontiguousarray(p, d) for p, d in zip(parts, self.dtypes))


def normal(rng, shape):
    return (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape),)


def words(rng, shape):
    return (rng.integers(0, 2**63, shape, np.uint64),)


def small(rng, shape):
    return (rng.integers(-100, 100, shape),)


def with_nan(rng, shape):
    x = rng.normal(size=shape)
    x = np.where(rng.random(shape) < 0.001, np.nan, x)
    return (np.where(rng.random(shape) < 0.1, -0.0, x),)


def intervals(rng, shape):
    lo = np.broadcast_to(np.arange(shape if isinstance(shape, int) else shape[-1]), shape)
    return (lo, lo + 1)


def maps(rng, shape):
    return (rng.uniform(-1, 1, shape), rng.normal(size=shape))


def turns(rng, shape):
    return (np.exp(2j * np.pi * rng.random(shape)),)


CASES = {
    case.name: case
    for case in (
        Case("hash-u64", Operator(hashing, name="hash"), hashing, ("u8",), words, None),
        Case("last-i64", Operator(last, name="last"), last, ("i8",), small, None),
        Case("join-i64", Operator(join, name="join"), join_arrays, ("i8", "i8"), intervals, None),
        Case("add-f32", ops.ADD, twin(ops.ADD, "f4"), ("f4",), normal, 0),
        Case("add-f64", ops.ADD, twin(ops.ADD, "f8"), ("f8",), normal, 0),
        Case("add-i8", ops.ADD, twin(ops.ADD, "i1"), ("i1",), small, 0),
        Case("add-i32", ops.ADD, twin(ops.ADD, "i4"), ("i4",), small, 0),
        Case("mul-c64", ops.MUL, twin(ops.MUL, "c8"), ("c8",), turns, 1),
        Case("max-f32", ops.MAX, twin(ops.MAX, "f4"), ("f4",), with_nan, -np.inf),
        Case("affine-f32", ops.AFFINE, twin(ops.AFFINE, "f4", "f4"), ("f4", "f4"), maps, (1, 0)),
        Case("last-f32", ops.LAST, twin(ops.LAST, "f4"), ("f4",), with_nan, np.nan),
    )
}

BORDERS = [
    n for k in range(6, 15, 2) for n in (4**k // 4096 * 64 - 1, 4**k // 4096 * 64, 4**k // 4096 * 64 + 1)
]
"""Lengths around blocks of 64, 256, 1024, ... items."""


def rows_of(x: np.ndarray, axis: int) -> np.ndarray:
    """The rows along an axis, as a 2-D array."""
    moved = np.moveaxis(x, axis, -1)
    return moved.reshape(int(np.prod(moved.shape[:-1])), x.shape[axis])
