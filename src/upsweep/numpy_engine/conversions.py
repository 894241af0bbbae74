"""Conversions of arrays, where NumPy's own of floats to integers hang on the processor."""

from __future__ import annotations

from typing import Any

import numpy as np


def converted(x: Any, dtype: np.dtype) -> Any:
    """An array in another dtype. Of floats that no integer is near, integers are those of `upsweep.scalars.integers.of_float`.

    >>> converted(np.array([3.7, -3.7, np.nan]), np.dtype("u1")).tolist()
    [3, 253, 0]
    """
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return x.astype(dtype)
    x = x.astype(np.float64)
    if dtype == np.uint64:
        large = x >= 2.0**63
        low = _low_bits(np.where(large, x - 2.0**63, x), 64).view(np.uint64)
        return low ^ (large.astype(np.uint64) << np.uint64(63))
    return _low_bits(x, 32 if dtype.itemsize < 4 or dtype == np.int32 else 64).astype(dtype)


def _low_bits(x: Any, bits: int) -> Any:
    least = -(2.0 ** (bits - 1))
    return np.where((x >= least) & (x < -least), x, least).astype(f"i{bits // 8}")
