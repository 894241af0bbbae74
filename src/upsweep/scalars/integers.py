"""Operations of integers, all operands and the result of one width: they wrap, as NumPy's do. The compiler's own would be widened
to 64 bits, and their overflow undefined. And floats as integers, which is undefined where no integer is near.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir


def within(builder: Any, x: Any, bits: int = 64) -> Any:
    """A float that a signed integer of so many bits holds; the least one in place of any other float and of NaN, as processors of
    x86-64 have it. Without this, a conversion has other results in vectors than in scalars, and on another processor."""
    least = x.type(-(2.0 ** (bits - 1)))
    inside = [builder.fcmp_ordered(">=", x, least), builder.fcmp_ordered("<", x, x.type(2.0 ** (bits - 1)))]
    return builder.select(builder.and_(*inside), x, least)


def of_float(builder: Any, x: Any, bits: int, signed: bool) -> Any:
    """A float as an integer, as NumPy converts its scalars on x86-64: narrow integers are the low bits of one of 32 bits or of
    64."""
    if bits == 64 and not signed:
        high = x.type(2.0**63)
        large = builder.fcmp_ordered(">=", x, high)
        low = of_float(builder, builder.select(large, builder.fsub(x, high), x), 64, True)
        return builder.xor(low, builder.shl(builder.zext(large, low.type), low.type(63)))
    wide = 32 if bits < 32 or (bits == 32 and signed) else 64
    made = builder.fptosi(within(builder, x, wide), ir.IntType(wide))
    return made if wide == bits else builder.trunc(made, ir.IntType(bits))


def _floor_division(builder: Any, signed: bool, a: Any, b: Any) -> tuple[Any, Any]:
    """Quotient and remainder of integers: by zero both are 0, and the least one by -1 wraps, where a processor would trap."""
    ty, zero = a.type, a.type(0)
    nothing = builder.icmp_unsigned("==", b, zero)
    if not signed:
        safe = builder.select(nothing, ty(1), b)
        quotient, remainder = builder.udiv(a, safe), builder.urem(a, safe)
        return builder.select(nothing, zero, quotient), builder.select(nothing, zero, remainder)
    minus = builder.icmp_unsigned("==", b, ty(-1))
    safe = builder.select(builder.or_(nothing, minus), ty(1), b)
    quotient, remainder = builder.sdiv(a, safe), builder.srem(a, safe)
    unlike = builder.icmp_signed("<", builder.xor(remainder, safe), zero)
    below = builder.and_(builder.icmp_unsigned("!=", remainder, zero), unlike)
    quotient = builder.sub(quotient, builder.zext(below, ty))
    remainder = builder.add(remainder, builder.select(below, safe, zero))
    quotient = builder.select(minus, builder.sub(zero, a), quotient)
    return builder.select(nothing, zero, quotient), remainder


def _shift_left(builder: Any, signed: bool, a: Any, b: Any) -> Any:
    inside = builder.icmp_unsigned("<", b, b.type(a.type.width))
    return builder.select(inside, builder.shl(a, builder.select(inside, b, b.type(0))), a.type(0))


def _shift_right(builder: Any, signed: bool, a: Any, b: Any) -> Any:
    inside = builder.icmp_unsigned("<", b, b.type(a.type.width))
    most = b.type(a.type.width - 1)
    if signed:
        return builder.ashr(a, builder.select(inside, b, most))
    return builder.select(inside, builder.lshr(a, builder.select(inside, b, most)), a.type(0))


def _absolute(builder: Any, signed: bool, a: Any) -> Any:
    negative = builder.icmp_signed("<", a, a.type(0))
    return builder.select(negative, builder.sub(a.type(0), a), a) if signed else a


def _sign(builder: Any, signed: bool, a: Any) -> Any:
    some = builder.zext(builder.icmp_unsigned("!=", a, a.type(0)), a.type)
    return builder.or_(some, builder.ashr(a, a.type(a.type.width - 1))) if signed else some


def _fmod(builder: Any, signed: bool, a: Any, b: Any) -> Any:
    zero, rest = a.type(0), _floor_division(builder, signed, a, b)[1]
    if not signed:
        return rest
    unlike = builder.icmp_signed("<", builder.xor(rest, a), zero)
    both = builder.and_(builder.icmp_unsigned("!=", rest, zero), unlike)
    return builder.sub(rest, builder.select(both, b, zero))


def _lcm(builder: Any, signed: bool, a: Any, b: Any) -> Any:
    a, b, zero = _absolute(builder, signed, a), _absolute(builder, signed, b), a.type(0)
    before, turn, step, end = builder.block, *(builder.append_basic_block() for _ in range(3))
    builder.branch(turn)
    builder.position_at_end(turn)
    divisor, rest = builder.phi(a.type), builder.phi(a.type)
    builder.cbranch(builder.icmp_unsigned("==", rest, zero), end, step)
    builder.position_at_end(step)
    for phi, first, later in ((divisor, a, rest), (rest, b, builder.urem(divisor, rest))):
        phi.add_incoming(first, before)
        phi.add_incoming(later, step)
    builder.branch(turn)
    builder.position_at_end(end)
    # The divisor of 0 and 0 is 0.
    return builder.mul(_floor_division(builder, False, a, divisor)[0], b)


AT_WIDTH: dict[Any, Callable[..., Any]] = {
    operator.add: lambda builder, signed, a, b: builder.add(a, b),
    operator.sub: lambda builder, signed, a, b: builder.sub(a, b),
    operator.mul: lambda builder, signed, a, b: builder.mul(a, b),
    operator.and_: lambda builder, signed, a, b: builder.and_(a, b),
    operator.or_: lambda builder, signed, a, b: builder.or_(a, b),
    operator.xor: lambda builder, signed, a, b: builder.xor(a, b),
    operator.floordiv: lambda *given: _floor_division(*given)[0],
    operator.mod: lambda *given: _floor_division(*given)[1],
    operator.lshift: _shift_left,
    operator.rshift: _shift_right,
    operator.neg: lambda builder, signed, a: builder.sub(a.type(0), a),
    operator.pos: lambda builder, signed, a: a,
    operator.invert: lambda builder, signed, a: builder.not_(a),
    abs: _absolute,
    np.sign: _sign,
    np.fmod: _fmod,
    np.lcm: _lcm,
}
"""The code of each, from a builder, whether the integers are signed, and values."""
