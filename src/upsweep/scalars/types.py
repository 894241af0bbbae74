"""NumPy's scalars as a type of numba's and of numba-cuda's: values as ever, operations by NumPy's rules.

A function that is given a `Scalar` computes with it as NumPy 2 does with its scalars; numbers of Python's keep the compiler's own
types, which is how they are told apart. No function that is given no Scalar is compiled otherwise than before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.np.numpy_support import as_dtype

from upsweep.scalars.rules import Kind, joined, weak


class Ruled(types.Type):
    """A value that is computed with by NumPy's rules."""

    def unify(self, typingctx: Any, other: Any) -> Any:
        """The type of a variable that is this on one path, and `other` on another one."""
        parts = [_parts(self), _parts(other)]
        strong = [scalar.dtype for scalar, _ in parts if scalar]
        weak = [number for _, number in parts if number]
        if len(strong) + len(weak) < 2:
            return None
        scalar = Scalar(joined(*strong))
        return Either(scalar, typingctx.unify_types(*weak)) if weak else scalar

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        return "safe" if isinstance(other, Ruled) else None

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        return None if kind_of(other) is None else "safe"


class Scalar(Ruled):
    """A scalar of NumPy's, of a dtype."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype, self.plain = dtype, from_dtype(dtype)
        super().__init__(name=f"numpy.{dtype.name}")


class Either(Ruled):
    """A Scalar, or a number of Python's, according to the path that a function took."""

    def __init__(self, scalar: Scalar, number: Any) -> None:
        self.scalar, self.number = scalar, number
        super().__init__(name=f"{scalar} or {number}")


def settled(ty: Any) -> Any:
    """For an Either the Scalar that holds its value on every path; any other type itself."""
    return Scalar(joined(ty.scalar.dtype, kind_of(ty.number))) if isinstance(ty, Either) else ty


def _parts(ty: Any) -> tuple[Any, Any]:
    """The Scalar and the number of Python's that a value may be; None where it cannot be one."""
    if isinstance(ty, Either):
        return ty.scalar, ty.number
    kind = kind_of(ty)
    if kind is None:
        return None, None
    return (None, ty) if weak(kind) else (Scalar(kind), None)


class Table(types.Type):
    """An array that a function uses: its items are Scalars."""

    def __init__(self, array: Any) -> None:
        self.array = array
        super().__init__(name=f"table({array})")


class Library(types.Type):
    """A module whose functions take Scalars."""

    def __init__(self, module: Any) -> None:
        self.module = module
        # Types of one name are one type, and a module may be imported anew.
        super().__init__(name=f"library({module.__name__} at {id(module)})")


def kind_of(ty: Any) -> Kind | None:
    """The dtype or the type of Python's number that NumPy's rules take a type for; None where it is no number."""
    ty = types.unliteral(ty)
    if isinstance(ty, Scalar):
        return ty.dtype
    if ty in (types.int64, types.uint64):
        return int
    if ty in (types.float64, types.complex128):
        return float if ty == types.float64 else complex
    return as_dtype(ty) if isinstance(ty, (types.Number, types.Boolean)) else None


def kinds_of(args: Iterable[Any]) -> tuple[Kind, ...] | None:
    """The kinds of operands, where all are numbers."""
    kinds = tuple(map(kind_of, args))
    return None if any(kind is None for kind in kinds) else kinds


def parts_of(ty: Any) -> Any:
    """The types of a tuple's parts; None where it is no tuple."""
    return list(ty) if isinstance(ty, _TUPLE) else None


_TUPLE: Any = types.BaseTuple


def plain(ty: Any) -> Any:
    """The compiler's own type of a value."""
    ty = types.unliteral(ty)
    if (parts := parts_of(ty)) is not None:
        return types.Tuple(list(map(plain, parts)))
    ty = settled(ty)
    return ty.plain if isinstance(ty, Scalar) else ty.array if isinstance(ty, Table) else ty


def scalar_of(ty: Any) -> Any:
    """A number of the compiler's, or a tuple of them, as Scalars; all else itself."""
    ty = types.unliteral(ty)
    if (parts := parts_of(ty)) is not None:
        return types.Tuple(list(map(scalar_of, parts)))
    if isinstance(ty, types.Array):
        return Table(ty)
    return Scalar(as_dtype(ty)) if isinstance(ty, (types.Number, types.Boolean)) else ty
