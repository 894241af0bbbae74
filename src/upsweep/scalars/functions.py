"""The functions that a function of Scalars may call: those of Python, math and NumPy; and tables of numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.np.numpy_support import as_dtype

from upsweep.keys import is_numpys
from upsweep.scalars import choices
from upsweep.scalars.integers import within
from upsweep.scalars.operations import (
    COMPARISONS,
    OPERATORS,
    UFUNCS,
    Operation,
    by_ufunc,
    cast,
    fit,
    own,
)
from upsweep.scalars.rules import convertible, dtype_of, joined, resolved, weak
from upsweep.scalars.types import Scalar, Table, kind_of, kinds_of, plain, scalar_of


def operation_of(fn: Any) -> Operation:
    """The code of a call."""
    if fn in _BUILTINS:
        return _BUILTINS[fn]
    if isinstance(fn, type) and issubclass(fn, np.generic):
        return _conversion(np.dtype(fn))
    return _library(fn)


def _conversion(dtype: np.dtype) -> Operation:
    """A NumPy dtype that is called."""

    def typed(context, args):
        kinds = kinds_of(args) if len(args) < 2 else None
        if kinds is None:
            return None
        convertible(kinds, dtype)
        return Scalar(dtype)

    def code(context, builder, signature, values):
        if not values:
            return context.get_constant(from_dtype(dtype), 0)
        return cast(context, builder, values[0], signature.args[0], dtype)

    return Operation(typed, code)


def _number(of: Callable[[Any], Any]) -> Operation:
    """A number of Python's, from one of any kind: `of` gives the compiler's own type for a kind."""

    def typed(context, args):
        kinds = kinds_of(args) if len(args) == 1 else None
        if kinds is None:
            return None
        made = of(dtype_of(kinds[0]))
        convertible(kinds, as_dtype(made))
        return made

    def code(context, builder, signature, values):
        return cast(context, builder, values[0], signature.args[0], as_dtype(signature.return_type))

    return Operation(typed, code)


def _whole(dtype: np.dtype) -> Any:
    return types.uint64 if dtype == np.uint64 else types.int64


def _extreme(op: Any) -> Operation:
    """min or max of Python's: the first of the operands that none of the later ones beats."""

    def typed(context, args):
        kinds = kinds_of(args)
        if kinds is None or len(args) < 2:
            return None
        kind = joined(*kinds)
        fit(args, [dtype_of(kind)] * len(args))
        return from_dtype(dtype_of(kind)) if weak(kind) else Scalar(kind)

    def code(context, builder, signature, values):
        ty = signature.return_type
        dtype = dtype_of(kind_of(ty))
        best, *others = (cast(context, builder, v, t, dtype) for v, t in zip(values, signature.args))
        for other in others:
            better = own(op, context, builder, [other, best], [plain(ty)] * 2, types.boolean)
            best = builder.select(better, other, best)
        return best

    return Operation(typed, code)


def _rounded(fn: Any) -> Operation:
    """A whole number of Python's; one that is whole stays as it is."""

    def typed(context, args):
        kind = kind_of(args[0]) if len(args) == 1 else None
        return None if kind is None else _whole(dtype_of(kind))

    def code(context, builder, signature, values):
        ty = plain(signature.args[0])
        if not isinstance(ty, types.Float):
            return context.cast(builder, values[0], ty, signature.return_type)
        return own(fn, context, builder, [within(builder, values[0])], [ty], types.int64)

    return Operation(typed, code)


def _quotient_and_remainder() -> Operation:
    parts = OPERATORS[operator.floordiv], OPERATORS[operator.mod]

    def typed(context, args):
        made = [part.typed(context, args) for part in parts]
        return None if None in made else types.Tuple(made)

    def code(context, builder, signature, values):
        made = [
            part.code(context, builder, ty(*signature.args), values)
            for part, ty in zip(parts, signature.return_type)
        ]
        return context.make_tuple(builder, signature.return_type, made)

    return Operation(typed, code)


def _library(fn: Any) -> Operation:
    """A function that the compiler knows: it is given its own types, and its numbers are Scalars again. A function of Python's
    own, such as those of math, gives a whole number or a truth as a number of Python's, and a float as it took it. One of NumPy's
    gives a Scalar for numbers of Python's, too: `np.sqrt(2.0)` is a float64."""
    pythons = not is_numpys(fn)

    def given(args: Sequence[Any]) -> list[Any]:
        """The compiler's own types of the operands."""
        kinds = kinds_of(args)
        if kinds is None or all(map(weak, kinds)):
            return [plain(a) for a in args]
        if isinstance(fn, np.ufunc) and len(kinds) == fn.nin:
            dtypes = resolved(fn, kinds)[: fn.nin]
        elif pythons and any(k.kind in "fc" for k in kinds if not weak(k)):
            dtypes = [joined(*kinds)] * len(kinds)
        else:
            dtypes = [joined(k, *(s for s in kinds if not weak(s))) if weak(k) else k for k in kinds]
        fit(args, dtypes)
        return [from_dtype(d) for d in dtypes]

    def typed(context, args):
        try:
            known = context.resolve_value_type(fn)
        except ValueError:
            # The compiler has no such function.
            return None
        signature = context.resolve_function_type(known, tuple(given(args)), {})
        if signature is None:
            return None
        made = signature.return_type
        if pythons and not (
            any(isinstance(a, Scalar) for a in args) and isinstance(made, (types.Float, types.Complex))
        ):
            return made
        return scalar_of(made)

    def code(context, builder, signature, values):
        taken = given(signature.args)
        values = [context.cast(builder, v, plain(a), t) for v, a, t in zip(values, signature.args, taken)]
        return own(fn, context, builder, values, taken, None)

    return Operation(typed, code)


def _sign() -> Operation:
    """np.sign, which gives 0.0 for -0.0, as the compiler's own does not."""
    typed, of_integers = by_ufunc(np.sign, np.sign)

    def code(context, builder, signature, values):
        (ty,), (value,) = signature.args, values
        if not isinstance(plain(ty), types.Float):
            return of_integers(context, builder, signature, values)
        zero = value.type(0.0)
        # A NaN stays.
        made = builder.fadd(value, zero)
        made = builder.select(builder.fcmp_ordered("<", value, zero), value.type(-1.0), made)
        return builder.select(builder.fcmp_ordered(">", value, zero), value.type(1.0), made)

    return Operation(typed, code)


def _chosen(of: Callable[[Sequence[Any]], Operation]) -> Operation:
    """The operation that `of` chooses for operands of these types."""
    return Operation(
        lambda context, args: of(args).typed(context, args),
        lambda context, builder, signature, values: of(signature.args).code(
            context, builder, signature, values
        ),
    )


def _beside(op: Any) -> Operation:
    """A function of Python's that is an operator too: of Python's numbers alone the compiler's own."""
    of_scalars, general = OPERATORS[op], _library(op)
    return _chosen(lambda args: of_scalars if any(isinstance(a, Scalar) for a in args) else general)


def _of_kinds(ufunc: np.ufunc, operation: Operation, taken: str = "iu") -> Operation:
    """A ufunc that has an operation of its own for these kinds of operands: of integers it wraps, shifts, divides and compares as
    NumPy does."""
    general = _library(ufunc)

    def of(args: Sequence[Any]) -> Operation:
        kinds = kinds_of(args) if any(isinstance(a, Scalar) for a in args) else None
        if (
            kinds
            and len(kinds) == ufunc.nin
            and all(d.kind in taken for d in resolved(ufunc, kinds)[: ufunc.nin])
        ):
            return operation
        return general

    return _chosen(of)


_BUILTINS: dict[Any, Operation] = {
    abs: _beside(abs),
    pow: OPERATORS[operator.pow],
    **{
        ufunc: _of_kinds(ufunc, OPERATORS[op])
        for op, ufunc in (*UFUNCS.items(), *COMPARISONS.items(), (operator.pow, np.power))
    },
    **{ufunc: _of_kinds(ufunc, by_ufunc(ufunc, ufunc)) for ufunc in (np.fmod, np.lcm)},
    # Of floats the compiler's functions round the quotient before it takes the floor, and lose the sign of a remainder of 0.
    np.floor_divide: _of_kinds(np.floor_divide, OPERATORS[operator.floordiv], "iuf"),
    np.remainder: _of_kinds(np.remainder, OPERATORS[operator.mod], "iuf"),
    np.sign: _of_kinds(np.sign, _sign(), "iuf"),
    np.where: choices.where(),
    np.clip: choices.clip(),
    divmod: _quotient_and_remainder(),
    min: _extreme(operator.lt),
    max: _extreme(operator.gt),
    int: _number(_whole),
    float: _number(lambda dtype: types.float64),
    complex: _number(lambda dtype: types.complex128),
    **{fn: _rounded(fn) for fn in (round, math.floor, math.ceil, math.trunc)},
}
PYTHONS = {fn.__name__: fn for fn in _BUILTINS if getattr(fn, "__module__", "") == "builtins"}
"""The functions that a function finds without an import. Before NumPy 2.2 its own have no module."""


def _part(number: int) -> Operation:
    """The real part or the imaginary one."""

    def typed(context, args):
        (ty,) = args
        return Scalar(np.dtype(f"f{ty.dtype.itemsize // 2}") if ty.dtype.kind == "c" else ty.dtype)

    def code(context, builder, signature, values):
        dtype = signature.args[0].dtype
        if dtype.kind == "c":
            return builder.extract_value(values[0], number)
        return values[0] if number == 0 else context.get_constant(from_dtype(dtype), 0)

    return Operation(typed, code)


def _bits() -> Operation:
    """x.view(dtype)."""

    def typed(context, args):
        known = getattr(args[1], "fn", None) if len(args) == 2 else None
        dtype = np.dtype(known) if isinstance(known, type) and issubclass(known, np.generic) else None
        return Scalar(dtype) if dtype is not None and dtype.itemsize == args[0].dtype.itemsize else None

    def code(context, builder, signature, values):
        return builder.bitcast(values[0], context.get_value_type(plain(signature.return_type)))

    return Operation(typed, code)


def _indexed(fn: Any, holds: Callable[[Sequence[Any]], bool]) -> Operation:
    """The operation of an item of a Table, or of an item at an index that is a Scalar."""

    def typed(context: Any, args: Sequence[Any]) -> Any:
        if not holds(args):
            return None
        signature = context.resolve_function_type(fn, tuple(map(plain, args)), {})
        return None if signature is None else made_of(args, signature.return_type)

    def made_of(args: Sequence[Any], made: Any) -> Any:
        return scalar_of(made) if fn is not len and isinstance(args[0], Table) else made

    def code(context, builder, signature, values):
        return own(fn, context, builder, values, [plain(a) for a in signature.args], None)

    return Operation(typed, code)


PARTS = {"real": _part(0), "imag": _part(1)}
METHODS = {"view": _bits(), "conjugate": operation_of(np.conjugate)}
ITEM = _indexed(operator.getitem, lambda args: isinstance(args[0], Table) or isinstance(args[-1], Scalar))
LENGTH = _indexed(len, lambda args: isinstance(args[0], Table))
