"""a * b + c, rounded once, for whole arrays: the processor's instruction in arithmetic that every machine has.

The product is split into two numbers without an error (Dekker 1971). The sum is rounded to odd, so the last rounding sees all
that it needs (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

import numpy as np

from upsweep.arithmetic import fma as exact_fma

_SPLIT = 2.0**27 + 1
_SMALL, _LARGE = 2.0**-400, 2.0**400
"""Between these bounds no step below overflows or loses the error of a product."""


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c of float32 or float64 arrays that broadcast."""
    if c.dtype == np.float32:
        # The product is exact: 24 bits by 24 bits.
        product = a.astype(np.float64) * b
        return _odd_sum(product, c.astype(np.float64)).astype(np.float32)
    a, b, c = (np.asarray(x) for x in np.broadcast_arrays(a, b, c))
    high, low = _product(a, b)
    upper, lower = _sum(c, low)
    top, rest = _sum(high, upper)
    made = top + _odd_sum(rest, lower)
    # The sum has the sign of zero.
    made = np.where(made == 0, high + c, made)
    # The product is too small to be seen.
    beyond = abs(high) < abs(c) * 2.0**-60
    made = np.where(beyond, c, made)
    for at in np.argwhere(~(beyond | _ordinary(a, b, c))):
        i = tuple(at)
        finite = np.isfinite(a[i]) and np.isfinite(b[i]) and np.isfinite(c[i])
        made[i] = exact_fma(a[i], b[i], c[i]) if finite else high[i] + c[i]
    return made


def odd_float32(x: np.ndarray) -> np.ndarray:
    """float64 as float32, rounded to odd: a later rounding of the result is the only one that counts."""
    near = x.astype(np.float32)
    bits, inexact = near.view(np.int32), (near != x) & np.isfinite(x)
    return np.where(inexact, bits - (abs(near) > abs(x)) | 1, bits).view(np.float32)


def _ordinary(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Where the steps have no error. A product of zero needs none of them."""
    fits = [(abs(x) < _LARGE) & ((abs(x) > _SMALL) | (x == 0)) for x in (a, b, c)]
    return fits[0] & fits[1] & fits[2]


def _sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b as the nearest number and the error that it makes (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a * b as the nearest number and the error that it makes (Dekker, with Veltkamp's halves)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = x * _SPLIT
    high = scaled - (scaled - x)
    return high, x - high


def _odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b. Where the sum is not exact, the result is the neighbour of the true sum whose last bit is 1."""
    total, error = _sum(a, b)
    bits = np.asarray(total).view(np.int64)
    inexact = (error != 0) & (bits & 1 == 0) & np.isfinite(total)
    # The bits of a number and of its neighbour away from zero differ by one.
    away = (error > 0) == (total > 0)
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)
