"""The coefficients of a filter."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from upsweep.apps.kinds import host
from upsweep.apps.roots import quotient
from upsweep.arguments import ShapeError
from upsweep.engine import DTypeError

Told = tuple[np.dtype, tuple[int, ...], bytes]
"""Dtype, shape and bytes of coefficients. They are told by their bits: equal numbers may differ in the sign of a zero."""


def told(coefficients: Any) -> Told:
    # Where lists are told from arrays first, arrays take half the time.
    v = coefficients if type(coefficients) is np.ndarray else host(coefficients)
    return v.dtype, v.shape or (1,), v.tobytes()


def polynomials(b: Told, a: Told, *arrays: Any) -> tuple[tuple[Any, ...], tuple[str, str]]:
    """Coefficients as `_monic` gives them, and kind and name of the dtype that all operands give together, by NumPy's rule."""
    (b_dtype, b_shape, b_bytes), (a_dtype, a_shape, a_bytes) = b, a
    if len(b_shape) != 1 or len(a_shape) != 1 or not b_bytes or not a_bytes:
        raise ShapeError(
            f"coefficients must be 1-D and not empty, got b of shape {b_shape} and a of shape {a_shape}"
        )
    dtype = _dtype_of(b_dtype, a_dtype, *[v.dtype for v in arrays])
    return _monic(b_dtype, b_bytes, a_dtype, a_bytes), dtype


@lru_cache(256)
def _dtype_of(*dtypes: Any) -> tuple[str, str]:
    """The dtype that operands of these, of any library, give together."""
    names = [str(v).rpartition(".")[2] for v in dtypes]
    try:
        dtype = np.result_type(*map(np.dtype, names))
    except TypeError as error:
        raise DTypeError(f"{', '.join(names)} cannot be filtered together: {error}") from error
    dtype = np.dtype(np.float64) if dtype.kind in "biu" else dtype
    if dtype.char not in "efdFD":
        raise DTypeError(
            f"{dtype} cannot be filtered; float16, float32, float64, complex64 and complex128 can"
        )
    return dtype.kind, dtype.name


@lru_cache(256)
def _monic(b_dtype: np.dtype, b: bytes, a_dtype: np.dtype, a: bytes) -> tuple[Any, ...]:
    """Both polynomials as Python numbers, divided by a[0], and the bytes of their real parts."""
    given = np.frombuffer(b, b_dtype), np.frombuffer(a, a_dtype)
    numerator, denominator = (v.astype(np.complex128).tolist() for v in given)
    if not np.isfinite([*numerator, *denominator]).all():
        raise ValueError("a coefficient of the filter is infinite or NaN")
    if denominator[0] == 0:
        raise ZeroDivisionError("a[0] is zero: there is nothing to divide the coefficients by")
    made = [tuple([quotient(v, denominator[0]) for v in each]) for each in (numerator, denominator)]
    if not np.isfinite([*made[0], *made[1]]).all():
        raise ValueError("a coefficient, divided by a[0], is not finite")
    return *made, [np.array([c.real for c in each]).tobytes() for each in made]
