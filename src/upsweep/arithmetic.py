"""The arithmetic of the built-in operators: each function on two scalars, and some of them again on whole arrays.

The scalar functions are what engines compile and the tracer runs; an array twin has the bits of its function in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

NAT = np.int64(np.iinfo(np.int64).min)
"""datetime64 and timedelta64 keep not-a-time in the smallest int64."""

Binary = Callable[[Any, Any], Any]


def add(a, b):
    return a + b


def sums_of_parts(size: int):
    """The sums of the parts of a word, of one or two bytes each, in uint32."""
    high = _highest_bits(size)

    def add(a, b):
        """Without the highest bits no sum runs over into the next part."""
        return ((a & ~high) + (b & ~high)) ^ ((a ^ b) & high)

    return add


def _highest_bits(size: int) -> np.uint32:
    return np.uint32(0x80808080 if size == 1 else 0x80008000)


def extremes_of_parts(size: int, signed: bool):
    """The smaller and the larger of the parts of a word, in uint32."""
    high = _highest_bits(size)
    turned = high if signed else np.uint32(0)
    to_lowest, all_bits = np.uint32(8 * size - 1), np.uint32((1 << 8 * size) - 1)

    def not_smaller(a, b):
        """All bits of the parts where a >= b, of which the highest bit of each part is computed by itself."""
        gap = (a | high) - (b & ~high)
        return ((((a & ~b) | (~(a ^ b) & gap)) & high) >> to_lowest) * all_bits

    def smaller(a, b):
        chosen = not_smaller(b ^ turned, a ^ turned)
        return (a & chosen) | (b & ~chosen)

    def larger(a, b):
        chosen = not_smaller(a ^ turned, b ^ turned)
        return (a & chosen) | (b & ~chosen)

    return smaller, larger


def mul(a, b):
    return a * b


def mul_arrays(a, b):
    """The product; that of complex numbers by four real ones, as NumPy may fuse one of these into a sum."""
    if np.asarray(a).dtype.kind != "c" and np.asarray(b).dtype.kind != "c":
        return a * b
    made = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b)), np.result_type(a, b))
    made.real = a.real * b.real - a.imag * b.imag
    made.imag = a.real * b.imag + a.imag * b.real
    return made


# Of two of Python's floats the first NaN stays; scans of arrays take the functions of `extremes_in`.
def minimum(a, b):
    return a if a <= b or a != a else b


def maximum(a, b):
    return a if a >= b or a != a else b


def extremes_in(real: type, integer: type) -> tuple[Binary, Binary]:
    """IEEE 754-2019's `minimum` and `maximum`: NaN where either operand is one, and -0 below 0.

    Each comparison chooses an operand. The two choices are the same operand, except where the operands are equal or one is NaN;
    combining the bits of both choices makes a NaN of a NaN and anything, and finds the sign of two zeros. Against
    `a if a >= b or a != a else b` scans run at .95 to 1.07 of the speed, and at .95 by llvm.maximum.
    """
    # The mask of all bits but the sign.
    size = integer(2 ** (8 * real().itemsize - 1) - 1)

    def minimum(a, b):
        one, other = real(a if a < b else b).view(integer), real(b if b < a else a).view(integer)
        return integer(one | other).view(real)

    def maximum(a, b):
        one, other = real(a if a > b else b).view(integer), real(b if b > a else a).view(integer)
        return integer((one | other) & (one & other | size)).view(real)

    return minimum, maximum


def extreme_arrays_in(real: type, integer: type) -> tuple[Binary, Binary]:
    """`minimum` and `maximum` as `extremes_in` defines them, on whole arrays."""
    size = integer(2 ** (8 * real().itemsize - 1) - 1)

    def minimum(a, b):
        one, other = np.where(a < b, a, b).view(integer), np.where(b < a, b, a).view(integer)
        return (one | other).view(real)

    def maximum(a, b):
        one, other = np.where(a > b, a, b).view(integer), np.where(b > a, b, a).view(integer)
        return ((one | other) & (one & other | size)).view(real)

    return minimum, maximum


def bit_and(a, b):
    return a & b


def bit_or(a, b):
    return a | b


def bit_xor(a, b):
    return a ^ b


def last(a, b):
    return b if b == b else a


def last_arrays(a, b):
    return np.where(b == b, b, a)


def add_times(a, b):
    return NAT if a == NAT or b == NAT else a + b


def add_times_arrays(a, b):
    return np.where((a == NAT) | (b == NAT), NAT, a + b)


def maximum_times(a, b):
    return a if (a >= b and b != NAT) or a == NAT else b


def maximum_times_arrays(a, b):
    return np.where(((a >= b) & (b != NAT)) | (a == NAT), a, b)


def last_times(a, b):
    return b if b != NAT else a


def last_times_arrays(a, b):
    return np.where(b != NAT, b, a)


def affine(a, b):
    return (a[0] * b[0], a[1] * b[0] + b[1])


def affine_arrays(a, b):
    return (mul_arrays(a[0], b[0]), mul_arrays(a[1], b[0]) + b[1])


def adjoint(a, b):
    return (b[0] + a[1] * a[0], b[1], b[2])


def products(s):
    return (s[0], s[0] * s[2], s[2])


def argmax(a, b):
    keep = a[0] >= b[0] or a[0] != a[0]
    return (a[0] if keep else b[0], a[1] if keep else b[1])


def argmax_arrays(a, b):
    keep = (a[0] >= b[0]) | (a[0] != a[0])
    return (np.where(keep, a[0], b[0]), np.where(keep, a[1], b[1]))


def argmin(a, b):
    keep = a[0] <= b[0] or a[0] != a[0]
    return (a[0] if keep else b[0], a[1] if keep else b[1])


def argmin_arrays(a, b):
    keep = (a[0] <= b[0]) | (a[0] != a[0])
    return (np.where(keep, a[0], b[0]), np.where(keep, a[1], b[1]))


def fma(a, b, c):
    """a * b + c of finite numbers, rounded once. Every engine puts its own multiply-add in the place of this, one instruction."""
    # Imported here: `import upsweep` does without it.
    from fractions import Fraction

    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if not exact:
        # The plain sum gives zero its sign.
        return a * b + c
    near = type(c)(float(exact))
    if float(near) == float(exact):
        return near
    # A float32 has been rounded twice by now, so that a neighbour may be nearer.
    with np.errstate(over="ignore"):
        around = near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf)
    return min(filter(np.isfinite, around), key=lambda x: abs(Fraction(float(x)) - exact))


def horner(terms, x):
    """A polynomial from its coefficients, the highest first."""
    total = terms[0]
    for term in terms[1:]:
        total = fma(total, x, term)
    return total


class LogAddExp(NamedTuple):
    """The numbers that logaddexp computes with in one precision. A GPU's text is given the same ones."""

    real: type
    integer: type
    mantissa: int
    far: float
    """exp(-far) is still a normal number."""
    exp2: tuple[float, ...]
    """2^x on [-1/2, 1/2], the highest power first, in the polynomial whose relative error is least (Remez)."""
    log1p: tuple[float, ...]
    """log(1 + x) / x on [0, 1]."""


def logaddexp_in(numbers: LogAddExp) -> Callable[[Any, Any], Any]:
    """log(exp(a) + exp(b)) in arithmetic of one precision, so that every machine gives the same bits.

    `max + log1p(u)`, `u = exp(-|a - b|) = 2^k 2^f` with k an integer and |f| <= 1/2: 2^f and log1p(u) / u are polynomials,
    k is added to the exponent's bits. Beyond `far` the larger operand stays as it is.
    """
    far, decay, log1p = numbers.real(numbers.far), decay_in(numbers), tuple(map(numbers.real, numbers.log1p))
    real = numbers.real

    def logaddexp(a, b):
        top = real(a if a >= b or a != a else b)
        gap = abs(a - b)
        u = decay(gap if gap < far else far)
        return fma(u, horner(log1p, u), top) if gap < far else top

    return logaddexp


def decay_in(numbers: LogAddExp) -> Callable[[Any], Any]:
    """exp(-d) by that polynomial, for d from 0 to `far`."""
    real, integer, mantissa, *_ = numbers
    # The lowest bits of k + magic are the integer k.
    magic, shift = real(1.5 * 2.0**mantissa), integer(mantissa)
    log2e, exp2 = real(-1.4426950408889634), tuple(map(real, numbers.exp2))

    def decay(d):
        k = fma(d, log2e, magic)
        e = horner(exp2, fma(d, log2e, magic - k))
        return integer(real(e).view(integer) + (real(k).view(integer) << shift)).view(real)

    return decay


def inverse_in(numbers: LogAddExp) -> Callable[[Any], Any]:
    """1 / (1 + u) for u from 0 to 1, to a unit in the last place, without a division's ways for other numbers.

    Newton's steps from the line whose relative error is least, 1 / 17, which each of them squares.
    """
    real = numbers.real
    one, slope, line, steps = real(1), real(8 / 17), real(24 / 17), 3 if real is np.float32 else 4

    def inverse(u):
        minus = -one - u
        near = fma(minus, slope, line)
        for _ in range(steps):
            near = fma(fma(minus, near, one), near, near)
        return near

    return inverse


def exp_in(numbers: LogAddExp) -> Callable[[Any], Any]:
    """exp(x) by the same polynomial, between the smallest normal number and the largest power of two."""
    real, integer, mantissa, *_ = numbers
    magic, shift = real(1.5 * 2.0**mantissa), integer(mantissa)
    log2e, low, high = real(1.4426950408889634), real(-numbers.far), real(numbers.far + 1)
    exp2 = tuple(map(real, numbers.exp2))

    def exp(x):
        d = real(high if x > high else x)
        d = real(low if d < low else d)
        k = fma(d, log2e, magic)
        e = horner(exp2, fma(d, log2e, magic - k))
        u = integer(real(e).view(integer) + (real(k).view(integer) << shift)).view(real)
        return real(u if x == x else x)

    return exp


LOG_ADD_EXP = {
    "f4": LogAddExp(
        np.float32, np.int32, 23, 87.0,
        (0.0013269242, 0.009671294, 0.055507116, 0.24022247, 0.693147, 1.0),
        (0.005365469, -0.030068422, 0.07920893, -0.1375419, 0.19153848, -0.24857217, 0.3332133, -0.49999648, 1.0),
    ),
    "f8": LogAddExp(
        np.float64, np.int64, 52, 708.0,
        (4.4388307050791056e-10, 7.073223022993752e-09, 1.0178160220124894e-07, 1.321543889358282e-06,
         1.5252733633669384e-05, 0.00015403530448929197, 0.0013333558146546493, 0.009618129107601668,
         0.05550410866482172, 0.24022650695910108, 0.6931471805599453, 1.0),
        (2.534774016028628e-05, -0.00029191951101911664, 0.0015963902236000502, -0.005544739238736748,
         0.013841399207179726, -0.02674748896701748, 0.04230345199123158, -0.05750444827172063,
         0.07035680955537463, -0.08081274152550591, 0.09013176133559883, -0.0998102132947269,
         0.11107507436240097, -0.12499479864799866, 0.14285658930803735, -0.16666662501785096,
         0.19999999791543915, -0.24999999993685879, 0.33333333333235254, -0.4999999999999946, 1.0),
    ),
}  # fmt: skip
"""Beside each function's own rounding, f4 is off by 1.3e-7 of log1p(exp(-d)) and f8 by 2e-17, and both by log2(e)'s rounding
times d: 1e-6 and 1e-14 at the far end, where only a `top` of zero shows it."""
