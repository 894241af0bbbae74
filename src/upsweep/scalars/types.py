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

from upsweep.scalars.rules import Kind, joined


class Scalar(types.Type):
    """A scalar of NumPy's, of a dtype."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype, self.plain = dtype, from_dtype(dtype)
        super().__init__(name=f"numpy.{dtype.name}")

    def unify(self, typingctx: Any, other: Any) -> Any:
        kind = kind_of(other)
        if kind is int and self.dtype.kind in "iu" and not _fits(other, self.dtype):
            # On one path stands a whole number of Python's that would wrap in the dtype of the other.
            kind = as_dtype(plain(other))
        return None if kind is None else Scalar(joined(self.dtype, kind))

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        return "safe" if isinstance(other, Scalar) else None

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        return None if kind_of(other) is None else "safe"


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


def _fits(ty: Any, dtype: np.dtype) -> bool:
    """Whether a whole number of Python's, known to the compiler by its type alone or as a literal, is one of a dtype."""
    if isinstance(ty, types.IntegerLiteral):
        return np.iinfo(dtype).min <= ty.literal_value <= np.iinfo(dtype).max
    return np.can_cast(as_dtype(plain(ty)), dtype)


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
    return ty.plain if isinstance(ty, Scalar) else ty.array if isinstance(ty, Table) else ty


def scalar_of(ty: Any) -> Any:
    """A number of the compiler's, or a tuple of them, as Scalars; all else itself."""
    ty = types.unliteral(ty)
    if (parts := parts_of(ty)) is not None:
        return types.Tuple(list(map(scalar_of, parts)))
    if isinstance(ty, types.Array):
        return Table(ty)
    return Scalar(as_dtype(ty)) if isinstance(ty, (types.Number, types.Boolean)) else ty
