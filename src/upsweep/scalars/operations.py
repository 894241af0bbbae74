"""The operations on Scalars: the type of each, by NumPy's rules, and its code.

Integers are computed by `integers.py`. All else is the compiler's own operation on operands of the dtypes that NumPy names.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.np.numpy_support import as_dtype

from upsweep.scalars.integers import AT_WIDTH, of_float
from upsweep.scalars.rules import Refused, compared, dtype_of, fitting, power, resolved
from upsweep.scalars.types import Scalar, kind_of, kinds_of, plain


class Operation(NamedTuple):
    """An operator or a function."""

    typed: Callable[[Any, Sequence[Any]], Any]
    """The type of the result for a typing context and the operands' types; None where it is the compiler's own business."""
    code: Callable[..., Any]
    """The code, from a target context, a builder, a signature and values."""


def _kinds(args: Sequence[Any]) -> tuple[Any, ...] | None:
    """The kinds of operands of which one at least is a Scalar."""
    return kinds_of(args) if any(isinstance(a, Scalar) for a in args) else None


def fit(args: Sequence[Any], dtypes: Sequence[np.dtype]) -> None:
    """Refused, where a literal does not fit the dtype that it takes."""
    for ty, dtype in zip(args, dtypes):
        if isinstance(ty, types.IntegerLiteral):
            fitting(ty.literal_value, dtype)


def cast(context: Any, builder: Any, value: Any, ty: Any, dtype: np.dtype) -> Any:
    """A value of a type as one of a dtype."""
    # The compiler has taken a literal apart.
    if not isinstance(value, ir.Value):
        value = context.get_constant(plain(ty), value)
    if isinstance(plain(ty), types.Float) and dtype.kind in "iu":
        return of_float(builder, value, 8 * dtype.itemsize, dtype.kind == "i")
    return context.cast(builder, value, plain(ty), from_dtype(dtype))


def own(fn: Any, context: Any, builder: Any, values: Sequence[Any], args: Sequence[Any], result: Any) -> Any:
    """The compiler's own code of a function, for values of its own types."""
    known = context.typing_context.resolve_value_type(fn)
    signature = known.get_call_type(context.typing_context, tuple(args), {})
    code = context.get_function(known, signature)
    values = [context.cast(builder, v, a, b) for v, a, b in zip(values, args, signature.args)]
    return context.cast(
        builder, code(builder, values), signature.return_type, result or signature.return_type
    )


def by_ufunc(op: Any, ufunc: np.ufunc) -> Operation:
    """An operator, or a function, that NumPy has a ufunc for."""
    at_width = AT_WIDTH.get(op)

    def typed(context, args):
        kinds = _kinds(args)
        if kinds is None:
            return None
        *taken, made = resolved(ufunc, kinds)
        fit(args, taken)
        return Scalar(made)

    def code(context, builder, signature, values):
        *taken, made = resolved(ufunc, tuple(map(kind_of, signature.args)))
        values = [cast(context, builder, v, t, d) for v, t, d in zip(values, signature.args, taken)]
        if at_width and all(d.kind in "iu" for d in (*taken, made)):
            return at_width(builder, made.kind == "i", *values)
        return own(op, context, builder, values, list(map(from_dtype, taken)), from_dtype(made))

    return Operation(typed, code)


def _comparison(op: Any, ufunc: np.ufunc) -> Operation:
    def typed(context, args):
        kinds = _kinds(args)
        return None if kinds is None or not compared(ufunc, kinds) else Scalar(np.dtype(bool))

    def code(context, builder, signature, values):
        held = tuple([as_dtype(plain(t)) for t in signature.args])
        dtypes = compared(ufunc, tuple(map(kind_of, signature.args)), held)
        mixed = {d.kind for d in dtypes} == {"i", "u"} and np.dtype(np.uint64) in dtypes
        if mixed:
            dtypes = tuple([np.dtype(f"{d.kind}8") for d in dtypes])
        values = [cast(context, builder, v, t, d) for v, t, d in zip(values, signature.args, dtypes)]
        if mixed:
            return _signs_apart(builder, _SIGNS[op], dtypes[0].kind == "i", *values)
        return own(op, context, builder, values, list(map(from_dtype, dtypes)), types.boolean)

    return Operation(typed, code)


_SIGNS = {
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}  # fmt: skip


def _signs_apart(builder: Any, sign: str, first: bool, a: Any, b: Any) -> Any:
    """A signed integer beside an unsigned one, each of 64 bits, which the compiler itself compares as float64. `first`: a is the
    signed one."""
    zero = a.type(0)
    told = builder.icmp_signed(sign, a, zero) if first else builder.icmp_signed(sign, zero, b)
    below = builder.icmp_signed("<", a if first else b, zero)
    return builder.select(below, told, builder.icmp_unsigned(sign, a, b))


def _power() -> Operation:
    """By squares where `rules.power` says so; all other powers are the C library's."""
    general = by_ufunc(operator.pow, np.power)

    def typed(context, args):
        if (kinds := _kinds(args)) is None:
            return None
        made, _ = power(*kinds)
        if made.kind in "iu" and isinstance(args[1], types.IntegerLiteral) and args[1].literal_value < 0:
            raise Refused("NumPy has no integers to negative powers")
        return Scalar(made)

    def code(context, builder, signature, values):
        (a, b), ty = signature.args, signature.return_type
        if not power(kind_of(a), kind_of(b))[1]:
            return general.code(context, builder, signature, values)
        base = cast(context, builder, values[0], a, ty.dtype)
        if isinstance(b, types.IntegerLiteral):
            return _squares(context, builder, ty, base, b.literal_value)
        if ty.dtype.kind not in "iu":
            exponent = cast(context, builder, values[1], b, np.dtype(np.int64))
            return own(operator.pow, context, builder, [base, exponent], [ty.plain, types.int64], ty.plain)
        wide = [cast(context, builder, v, t, np.dtype(np.uint64)) for v, t in ((base, ty), (values[1], b))]
        sign = context.get_constant(types.uint64, 1 << 63 if dtype_of(kind_of(b)).kind == "i" else 0)
        made = context.compile_internal(
            builder, _power_of_integers, types.uint64(*[types.uint64] * 3), [*wide, sign]
        )
        return context.cast(builder, made, types.uint64, ty.plain)

    return Operation(typed, code)


def _power_of_integers(base, exponent, sign):
    """`sign` is the bit of a negative exponent, 0 of unsigned ones. A kernel of a GPU raises no exception: to a negative power 1
    and -1 are their own inverses, and other integers give 0.
    """
    made = np.uint64(1)
    if exponent & sign:
        exponent &= np.uint64(1)
        if base != made and base != ~np.uint64(0):
            base, made = np.uint64(0), np.uint64(0)
    while exponent:
        if exponent & np.uint64(1):
            made *= base
        exponent >>= np.uint64(1)
        base *= base
    return made


def _squares(context: Any, builder: Any, ty: Scalar, base: Any, exponent: int) -> Any:
    def operated(op: Any, a: Any, b: Any) -> Any:
        return OPERATORS[op].code(context, builder, ty(ty, ty), [a, b])

    left, made = abs(exponent), None
    while left:
        if left & 1:
            made = base if made is None else operated(operator.mul, made, base)
        left >>= 1
        base = operated(operator.mul, base, base) if left else base
    one = context.get_constant_generic(builder, ty.plain, ty.dtype.type(1))
    made = one if made is None else made
    return made if exponent >= 0 else operated(operator.truediv, one, made)


def _quotient() -> Operation:
    """Complex numbers divide by Smith's method (1962), also by zero, where the compiler's own division raises an exception."""
    general = by_ufunc(operator.truediv, np.true_divide)

    def code(context, builder, signature, values):
        made = signature.return_type.dtype
        if made.kind != "c":
            return general.code(context, builder, signature, values)
        a, b = (cast(context, builder, v, t, made) for v, t in zip(values, signature.args))
        return _smiths(builder, a, b)

    return Operation(general.typed, code)


def _smiths(builder: Any, a: Any, b: Any) -> Any:
    (x, y), (u, v) = ([builder.extract_value(z, part) for part in (0, 1)] for z in (a, b))
    zero = u.type(0.0)
    sizes = [builder.select(builder.fcmp_ordered("<", w, zero), builder.fsub(zero, w), w) for w in (u, v)]
    wide = builder.fcmp_ordered(">=", *sizes)
    large, small = builder.select(wide, u, v), builder.select(wide, v, u)
    ratio = builder.fdiv(small, large)
    below = builder.fadd(large, builder.fmul(small, ratio))
    near, far = (builder.fmul(part, ratio) for part in (x, y))
    real = builder.select(wide, builder.fadd(x, far), builder.fadd(near, y))
    imag = builder.select(wide, builder.fsub(y, near), builder.fsub(far, x))
    for part, sum_ in enumerate((real, imag)):
        a = builder.insert_value(a, builder.fdiv(sum_, below), part)
    return a


def _truth(opposite: bool) -> Operation:
    def typed(context, args):
        return types.boolean if len(args) == 1 and isinstance(args[0], Scalar) else None

    def code(context, builder, signature, values):
        true = context.is_true(builder, plain(signature.args[0]), values[0])
        return builder.not_(true) if opposite else true

    return Operation(typed, code)


UFUNCS: dict[Any, np.ufunc] = {
    operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply, operator.truediv: np.true_divide,
    operator.floordiv: np.floor_divide, operator.mod: np.remainder, operator.lshift: np.left_shift,
    operator.rshift: np.right_shift, operator.and_: np.bitwise_and, operator.or_: np.bitwise_or,
    operator.xor: np.bitwise_xor, operator.neg: np.negative, operator.pos: np.positive, operator.invert: np.invert,
    abs: np.absolute,
}  # fmt: skip
COMPARISONS: dict[Any, np.ufunc] = {
    operator.lt: np.less, operator.le: np.less_equal, operator.gt: np.greater,
    operator.ge: np.greater_equal, operator.eq: np.equal, operator.ne: np.not_equal,
}  # fmt: skip
OPERATORS: dict[Any, Operation] = {
    **{op: by_ufunc(op, ufunc) for op, ufunc in UFUNCS.items()},
    **{op: _comparison(op, ufunc) for op, ufunc in COMPARISONS.items()},
    operator.truediv: _quotient(),
    operator.pow: _power(),
    operator.not_: _truth(opposite=True),
    bool: _truth(opposite=False),
}
IN_PLACE = {
    getattr(operator, f"i{op.__name__.rstrip('_')}"): op
    for op in (*UFUNCS, operator.pow)
    if hasattr(operator, f"i{op.__name__.rstrip('_')}")
}
