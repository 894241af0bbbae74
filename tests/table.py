"""What the tests run over: operators, dtypes, lengths and layouts; and the oracle, in NumPy, that decides.

The oracle is `upsweep.tree` with the loop over blocks left to NumPy. `test_tree.py` holds it to `tree.prefixes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from upsweep.operator import Operator, resolve
from upsweep.operators import form_of, ops

P, Q, R = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
SEVEN, REST = np.uint64(7), np.uint64(57)


def hashing(a, b):
    """Neither associative nor commutative: equal output means an equal tree, exactly."""
    c = a * P
    return ((c << SEVEN) | (c >> REST)) ^ (b * Q + R)


def last(a, b):
    return b


def join(a, b):
    """Adjacent intervals [lo, hi) become one; anything else becomes (-1, -1), and stays it."""
    fits = (a[1] == b[0]) & (a[0] >= 0)
    return (a[0] if fits else -1, b[1] if fits else -1)


def join_arrays(a, b):
    fits = (a[1] == b[0]) & (a[0] >= 0)
    return (np.where(fits, a[0], -1), np.where(fits, b[1], -1))


def twin(op, *dtypes):
    """The array twin of a built-in operator on these dtypes, from the table."""
    found = form_of(resolve(op, tuple(map(np.dtype, dtypes))), tuple(map(np.dtype, dtypes)))
    assert found is not None
    return found[1].twin


class Case(NamedTuple):
    """An operator with its twin on whole arrays, and data that it can be told wrong orders by."""

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


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def oracle(
    combine: Callable[[Any, Any], Any],
    xs: tuple[np.ndarray, ...],
    *,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Any = None,
    heads: np.ndarray | None = None,
    identity: Any = None,
) -> tuple[np.ndarray, ...]:
    """The scan of 1-D arrays by the definition."""
    n = len(xs[0])
    if reverse:
        xs = tuple(x[::-1] for x in xs)
        heads = None if heads is None else np.concatenate([[True], heads[::-1][:-1]])[:n]
    flags = np.zeros(n, bool) if heads is None else heads.astype(bool)
    start = None if initial is None else tuple(x.dtype.type(i) for x, i in zip(xs, as_tuple(initial)))
    prefixes = _starts(_Ops(combine, start, len(xs)), (*xs, flags))
    if not exclusive:
        ys = tuple(p[1:] for p in prefixes)
    else:
        ys = tuple(p[:-1].copy() for p in prefixes)
        first = flags.copy()
        first[:1] = True
        for c, y in enumerate(ys):
            y[first] = as_tuple(identity)[c] if start is None else start[c]
    return tuple(y[::-1] for y in ys) if reverse else ys


class _Ops(NamedTuple):
    combine: Callable[[Any, Any], Any]
    start: tuple[Any, ...] | None
    count: int

    def on(self, a: tuple[np.ndarray, ...], b: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        with np.errstate(all="ignore"):
            made = self.combine(a, b) if self.count > 1 else (self.combine(a[0], b[0]),)
        return tuple(np.asarray(m, x.dtype) for m, x in zip(made, b))

    def join(self, a, b):
        fb = b[-1]
        both = self.on(a[:-1], b[:-1])
        return (*(np.where(fb, y, z) for y, z in zip(b[:-1], both)), a[-1] | fb)

    def fold(self, p, b):
        fb, values = b[-1], b[:-1]
        if self.start is None:
            return tuple(np.where(fb, v, z) for v, z in zip(values, self.on(p, values)))
        return self.on(tuple(np.where(fb, s, q) for s, q in zip(self.start, p)), values)


def _starts(o: _Ops, items: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Prefixes at the starts of the items and at the end of the last; where nothing stands before, item 0 is junk."""
    n, values = len(items[0]), items[:-1]
    if n == 0:
        return tuple(np.full(1, 0 if o.start is None else o.start[c], v.dtype) for c, v in enumerate(values))
    half = n // 2
    above = _starts(
        o, o.join(tuple(i[: 2 * half : 2] for i in items), tuple(i[1 : 2 * half : 2] for i in items))
    )
    result = tuple(np.empty(n + 1, v.dtype) for v in values)
    odd = o.fold(tuple(a[: (n + 1) // 2] for a in above), tuple(i[::2] for i in items))
    for y, a, b in zip(result, above, odd):
        y[::2], y[1::2] = a[: n // 2 + 1], b
    if o.start is None:
        for y, v in zip(result, values):
            y[1] = v[0]
    return result


def rows_of(x: np.ndarray, axis: int) -> np.ndarray:
    """The rows along an axis, as a 2-D array."""
    moved = np.moveaxis(x, axis, -1)
    return moved.reshape(int(np.prod(moved.shape[:-1])), x.shape[axis])
