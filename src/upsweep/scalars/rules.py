"""NumPy's rules for scalars: which dtype an operation computes in, where Python's numbers give way (NEP 50)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Kind = Any
"""A scalar's dtype; or int, float or complex for a number of Python's, which takes the dtype of the other operand."""

_HALF = np.dtype(np.float16)
OWN: dict[Kind, np.dtype] = {
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
"""The dtypes that Python's numbers are computed in among themselves."""


def dtype_of(kind: Kind) -> np.dtype:
    """The dtype that a number is computed in beside others of its kind."""
    return OWN[kind] if weak(kind) else kind


def weak(kind: Kind) -> bool:
    """Whether it is a number of Python's."""
    return isinstance(kind, type)


@cache
def resolved(ufunc: np.ufunc, kinds: tuple[Kind, ...]) -> tuple[np.dtype, ...]:
    """The dtypes that a ufunc takes and gives for scalars of these kinds; Refused, where NumPy has no such operation.

    >>> resolved(np.add, (np.dtype("f4"), float))
    (dtype('float32'), dtype('float32'), dtype('float32'))
    """
    try:
        found = ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))
    except TypeError as error:
        names = " and ".join(k.__name__ if weak(k) else str(k) for k in kinds)
        raise Refused(f"NumPy has no {ufunc.__name__} of {names}") from error
    # NumPy computes functions of narrow integers in float16.
    if _HALF in found and not any(k == _HALF for k in kinds if not weak(k)):
        single = np.dtype(np.float32)
        found = tuple(single if d == _HALF else d for d in found)
    return found


@cache
def joined(*kinds: Kind) -> Kind:
    """The kind of a variable that holds one of these."""
    strong = [k for k in kinds if not weak(k)]
    if not strong:
        return max(kinds, key=list(OWN).index)
    return np.result_type(*(k(0) if weak(k) else k for k in kinds))


class Refused(TypeError):
    """An operation that NumPy refuses."""


def fitting(value: int, dtype: np.dtype) -> None:
    """Refused, where a whole number of Python's cannot be one of this dtype."""
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise Refused(f"Python integer {value} is out of bounds for {dtype}")


def convertible(kinds: tuple[Kind, ...], dtype: np.dtype) -> None:
    """Refused, where a complex number is to be a real one."""
    for kind in kinds:
        if dtype.kind != "c" and dtype_of(kind).kind == "c":
            raise Refused(f"Python has no {dtype} of a complex number; take its real part")


def power(base: Kind, exponent: Kind) -> tuple[np.dtype, bool]:
    """The dtype of a power, and whether it is a product, by squares: of integers, and with a whole exponent of Python's."""
    made = resolved(np.power, (base, exponent))[-1]
    return made, made.kind in "iu" or exponent is int


def compared(
    ufunc: np.ufunc, kinds: tuple[Kind, ...], held: tuple[np.dtype, ...] | None = None
) -> tuple[np.dtype, ...]:
    """The dtypes that operands are compared in: integers as the numbers that they are, whatever their widths. `held` are the
    dtypes in which an engine has them, where Python's may be unsigned."""
    if all(k is int or (not weak(k) and k.kind in "iu") for k in kinds):
        return held or tuple(map(dtype_of, kinds))
    return resolved(ufunc, kinds)[:2]
