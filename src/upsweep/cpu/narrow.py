"""Floats that are stored narrower than they are computed with: their bits as float32, and float32 rounded to them once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from upsweep.dtypes import TABLE, Narrow

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_F32, _F64, _HALF = ir.FloatType(), ir.DoubleType(), ir.HalfType()
_IEEE_HALF, _BFLOAT = TABLE["float16"].narrow, TABLE["bfloat16"].narrow


def decoded(builder: Any, bits: Any, form: Narrow) -> Any:
    """The float32 that these bits stand for."""
    # The processor converts this float itself.
    if form == _IEEE_HALF:
        return builder.fpext(builder.bitcast(bits, _HALF), _F32)
    if form == _BFLOAT:
        return builder.bitcast(builder.shl(builder.zext(bits, _I32), _I32(16)), _F32)
    return _decoded(builder, builder.zext(bits, _I32), form)


def encoded(builder: Any, value: Any, form: Narrow) -> Any:
    """The bits nearest to a float32, ties to even."""
    if form == _IEEE_HALF:
        return builder.bitcast(builder.fptrunc(value, _HALF), _I16)
    if form == _BFLOAT:
        return _rounded_bfloat(builder, value)
    return builder.trunc(_encoded(builder, value, form), ir.IntType(1 + form.exponent + form.mantissa))


def to_odd(builder: Any, value: Any) -> Any:
    """float64 as the float32 toward zero. Its last bit is set where the conversion is not exact: so a narrow float of it is
    rounded only once.

    Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd" (2008).
    """
    near = builder.fptrunc(value, _F32)
    back, bits = builder.fpext(near, _F64), builder.bitcast(near, _I32)
    size = ir.Constant(_I64, (1 << 63) - 1)
    further = builder.icmp_unsigned(
        ">", builder.and_(builder.bitcast(back, _I64), size), builder.and_(builder.bitcast(value, _I64), size)
    )
    below = builder.sub(bits, builder.zext(further, _I32))
    odd = builder.bitcast(builder.or_(below, _I32(1)), _F32)
    return builder.select(builder.fcmp_ordered("!=", back, value), odd, near)


def _rounded_bfloat(builder: Any, value: Any) -> Any:
    bits = builder.bitcast(value, _I32)
    odd = builder.and_(builder.lshr(bits, _I32(16)), _I32(1))
    nearest = builder.add(bits, builder.add(odd, _I32(0x7FFF)))
    quiet = builder.or_(bits, _I32(0x400000))
    nan = builder.fcmp_unordered("uno", value, value)
    return builder.trunc(builder.lshr(builder.select(nan, quiet, nearest), _I32(16)), _I16)


def _decoded(builder: Any, bits: Any, form: Narrow) -> Any:
    """The float32 of a narrow float: the exponent and mantissa of a normal number go where float32 has them, a subnormal one is
    an integer times a power of two. To multiply the first by a power of two, as gpu/kernels/narrow.cuh does, would do for both;
    but there subnormal numbers are those of float32, of which an Intel processor takes each by itself.
    """
    width = form.exponent + form.mantissa
    wide = builder.and_(bits, _I32((1 << width) - 1))
    sign = builder.shl(builder.and_(bits, _I32(1 << width)), _I32(31 - width))
    moved = builder.shl(wide, _I32(23 - form.mantissa))
    normal = builder.add(moved, _I32((127 - form.bias) << 23))
    small = builder.fmul(builder.sitofp(wide, _F32), _F32(2.0 ** (1 - form.bias - form.mantissa)))
    below = builder.icmp_unsigned("<", wide, _I32(1 << form.mantissa))
    size = builder.select(below, builder.bitcast(small, _I32), normal)
    over = builder.icmp_unsigned(">", wide, _I32(form.largest))
    no_number = builder.icmp_unsigned(">", wide, _I32(form.largest + form.infinite))
    special = builder.select(no_number, _I32(0x7FC00000), _I32(0x7F800000))
    return builder.bitcast(builder.or_(builder.select(over, special, size), sign), _F32)


def _encoded(builder: Any, value: Any, form: Narrow) -> Any:
    """A narrow float of a float32, as in gpu/kernels/narrow.cuh: normal numbers are rounded as integers, subnormal ones by
    adding a power of two whose last place is theirs.
    """
    bits = builder.bitcast(value, _I32)
    size = builder.and_(bits, _I32(0x7FFFFFFF))
    sign = builder.lshr(builder.and_(bits, _I32(0x80000000)), _I32(31 - form.exponent - form.mantissa))
    shift = 23 - form.mantissa
    odd = builder.and_(builder.lshr(size, _I32(shift)), _I32(1))
    nearest = builder.add(size, builder.add(odd, _I32((1 << (shift - 1)) - 1)))
    normal = builder.sub(builder.lshr(nearest, _I32(shift)), _I32((127 - form.bias) << form.mantissa))
    magic = 2.0 ** (24 - form.bias - form.mantissa)
    added = builder.bitcast(builder.fadd(builder.bitcast(size, _F32), _F32(magic)), _I32)
    small = builder.sub(added, _I32((127 + 24 - form.bias - form.mantissa) << 23))
    below = builder.icmp_unsigned("<", size, _I32((128 - form.bias) << 23))
    over = builder.icmp_unsigned(">", normal, _I32(form.largest))
    normal = builder.select(over, _I32(form.largest + 1), normal)
    code = builder.select(below, small, normal)
    no_number = builder.icmp_unsigned(">", size, _I32(0x7F800000))
    return builder.or_(builder.select(no_number, _I32(form.nan), code), sign)
