"""Arithmetic on whole rows of float64, written down as vectors: LLVM's vectoriser makes little of loops this short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from upsweep.cpu.address import I32, I64

LANES = 32
"""Numbers in a row. An item of a cascade takes 1.15 times as long with 16, whose steps between lanes count for more."""
ROW = 8 * LANES
"""Bytes of a row."""
_WIDTH = 8
"""Numbers of a vector; LLVM cuts a vector where a processor has shorter ones."""
_VECTOR = ir.VectorType(ir.DoubleType(), _WIDTH)


class Real(NamedTuple):
    """A vector of numbers, in a function that is being written down."""

    builder: Any
    value: Any

    def __add__(self, other: Any) -> Real:
        return Real(self.builder, self.builder.fadd(self.value, other.value))

    def __sub__(self, other: Real) -> Real:
        return Real(self.builder, self.builder.fsub(self.value, other.value))

    def __mul__(self, other: Any) -> Real:
        return Real(self.builder, self.builder.fmul(self.value, other.value))


class Complex(NamedTuple):
    """A vector of complex numbers, in a function that is being written down; a product is four products, as everywhere here."""

    real: Real
    imag: Real

    def __add__(self, other: Any) -> Complex:
        return Complex(self.real + other.real, self.imag + other.imag)

    def __mul__(self, other: Any) -> Complex:
        return Complex(
            self.real * other.real - self.imag * other.imag, self.real * other.imag + self.imag * other.real
        )


def wide(x: Real) -> Complex:
    """Real numbers as complex ones."""
    return Complex(x, Real(x.builder, ir.Constant(_VECTOR, [0.0] * _WIDTH)))


def by_rows(fn: Callable[..., tuple[Any, ...]]) -> Any:
    """A function of kernels: it writes the rows that `fn` makes of rows and numbers.

    A row is an address, a row of complex numbers is a pair of addresses; a number is a float64 or a complex128.
    """

    @intrinsic
    def call(typing, out, given):
        def code(context, builder, signature, arguments):
            targets = _unpacked(builder, out, arguments[0])
            operands = list(zip(given, cgutils.unpack_tuple(builder, arguments[1])))
            for lane in range(0, LANES, _WIDTH):
                made = fn(*[_operand(context, builder, ty, value, lane) for ty, value in operands])
                flat = [part for value in made for part in ([value] if isinstance(value, Real) else [*value])]
                for target, part in zip(targets, flat, strict=True):
                    builder.store(part.value, _at(builder, target, lane), align=8)
            return context.get_dummy_value()

        return types.void(out, given), code

    return call


def _unpacked(builder: Any, ty: Any, value: Any) -> list[Any]:
    """The addresses of a tuple of rows."""
    parts = zip(ty, cgutils.unpack_tuple(builder, value))
    return [
        address
        for part, row in parts
        for address in ([row] if isinstance(part, types.Integer) else cgutils.unpack_tuple(builder, row))
    ]


def _operand(context: Any, builder: Any, ty: Any, value: Any, lane: int) -> Real | Complex:
    if isinstance(ty, types.Integer):
        return _loaded(builder, value, lane)
    if isinstance(ty, types.BaseTuple):
        return Complex(*[_loaded(builder, part, lane) for part in cgutils.unpack_tuple(builder, value)])
    if ty == types.float64:
        return _everywhere(builder, value)
    number = context.make_complex(builder, ty, value=value)
    return Complex(_everywhere(builder, number.real), _everywhere(builder, number.imag))


def _loaded(builder: Any, address: Any, lane: int) -> Real:
    return Real(builder, builder.load(_at(builder, address, lane), align=8))


def _at(builder: Any, address: Any, lane: int) -> Any:
    return builder.inttoptr(builder.add(address, I64(8 * lane)), _VECTOR.as_pointer())


def _everywhere(builder: Any, number: Any) -> Real:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, I32(0))
    return Real(
        builder, builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, _WIDTH), [0] * _WIDTH))
    )
