"""The oracle: scans by definition, in plain Python on NumPy's numbers. It shares no code with upsweep.

Items are tuples, one part for each component; a part is a number, or an array with one number for each row.
"""

from __future__ import annotations

import numpy as np


def scan(op, items, heads, start, nothing, *, exclusive=False, order="tree"):
    """All prefixes. `heads[i]` is true where a segment starts. `start` stands before the first item and before each segment
    (None for no start). `nothing` is the result of an exclusive scan where nothing stands before an item.
    """
    blocks = {}

    def block(first, size):
        """The flag and the value of a balanced tree over a power of two of items."""
        if size == 1:
            return heads[first], items[first]
        if (first, size) not in blocks:
            (f, a), (g, b) = block(first, size // 2), block(first + size // 2, size // 2)
            blocks[first, size] = (f | g, choose(g, b, op(a, b)))
        return blocks[first, size]

    before = [start]
    for k in range(1, len(items) + 1):
        size = k & -k if order == "tree" else 1
        prefix, (flag, value) = before[k - size], block(k - size, size)
        if start is not None:
            before.append(op(choose(flag, start, prefix), value))
        else:
            before.append(value if prefix is None else choose(flag, value, op(prefix, value)))
    if not exclusive:
        return before[1:]
    fresh = nothing if start is None else start
    return [fresh if i == 0 else choose(heads[i], fresh, before[i]) for i in range(len(items))]


def choose(flag, a, b):
    some = flag.any() if isinstance(flag, np.ndarray) else flag
    return tuple(np.where(flag, x, y).astype(y.dtype) for x, y in zip(a, b)) if some else b


# --- operators on tuples of numbers or arrays -----------------------------------------------------------------------

NAT = np.int64(-(2**63))


def each(fn):
    return lambda a, b: (fn(a[0], b[0]),)


@each
def add(a, b):
    return a + b


@each
def add_times(a, b):
    return np.where((a == NAT) | (b == NAT), NAT, a + b)


@each
def mul(a, b):
    if a.dtype.kind != "c":
        return a * b
    real, imag = a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real
    product = np.empty(np.shape(real), a.dtype)
    product.real, product.imag = real, imag
    return product


def above(a, b):
    """Whether a is the larger by IEEE 754-2019's maximum: a NaN is above all, 0.0 above -0.0."""
    if a.dtype.kind != "f":
        return a >= b
    return (a != a) | ((b == b) & ((a > b) | ((a == b) & ~np.signbit(a))))


@each
def maximum(a, b):
    return np.where(above(a, b), a, b)


@each
def minimum(a, b):
    if a.dtype.kind == "f":
        return -np.where(above(-a, -b), -a, -b)
    return np.where(a <= b, a, b)


@each
def maximum_times(a, b):
    return np.where((a == NAT) | (b == NAT), NAT, np.maximum(a, b))


@each
def bit_and(a, b):
    return a & b


@each
def bit_or(a, b):
    return a | b


@each
def bit_xor(a, b):
    return a ^ b


@each
def log_add_exp(a, b):
    return np.logaddexp(a, b)


@each
def last(a, b):
    return np.where(b == b, b, a)


@each
def last_times(a, b):
    return np.where(b == NAT, a, b)


def affine(a, b):
    ((scaled,), (moved,)) = mul((a[0],), (b[0],)), mul((a[1],), (b[0],))
    return scaled, moved + b[1]


def argmax(a, b):
    keep = (a[0] >= b[0]) | (a[0] != a[0])
    return np.where(keep, a[0], b[0]), np.where(keep, a[1], b[1])


def argmin(a, b):
    keep = (a[0] <= b[0]) | (a[0] != a[0])
    return np.where(keep, a[0], b[0]), np.where(keep, a[1], b[1])
