"""Roots of polynomials with as many digits as it takes, in Python's own decimals: LAPACK's last bits vary by machine."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from functools import lru_cache

Number = tuple[Decimal, Decimal]


def quotient(a: complex, b: complex) -> complex:
    """a / b, each part rounded once.

    >>> quotient(1 + 2j, 0.5)
    (2+4j)
    """
    with localcontext(Context(prec=80)):
        re, im = _divide(_number(a), _number(b))
        return complex(float(re), float(im))


@lru_cache(256)
def roots(coefficients: tuple[complex, ...]) -> tuple[complex, ...]:
    """All roots but zeros of a polynomial, highest power first, each to the last place, smallest first.

    Aberth's iteration. The roots of real coefficients come in exactly conjugate pairs.

    >>> roots((1, -3, 2))
    ((1+0j), (2+0j))
    >>> roots((1, -1.5, 0.75, -0.125, 0.0))
    ((0.5+0j), (0.5+0j), (0.5+0j))
    """
    kept = _stripped(coefficients)
    order = len(kept) - 1
    # A root of multiplicity m keeps 1/m of the digits.
    with localcontext(Context(prec=30 + 20 * order)):
        p = [_number(complex(c)) for c in kept]
        found = _aberth(p) if order else []
        if all(c[1] == 0 for c in p):
            found = _conjugate(found)
        values = [complex(float(re), float(im)) for re, im in found]
    return tuple(sorted(values, key=lambda z: (z.real * z.real + z.imag * z.imag, z.real, z.imag)))


def _stripped(coefficients: Sequence[complex]) -> Sequence[complex]:
    last = max(k for k, c in enumerate(coefficients) if c)
    return coefficients[: last + 1]


def _aberth(p: list[Number]) -> list[Number]:
    order = len(p) - 1
    derivative = [_scale(c, order - k) for k, c in enumerate(p[:-1])]
    radius = (_size(p[-1]) / _size(p[0])) ** (1 / Decimal(order))
    z, turn = [], (Decimal("0.8"), Decimal("0.6"))
    point = (radius, radius / 8)
    for _ in range(order):
        z.append(point)
        point = _multiply(point, turn)
    for _ in range(400 + 200 * order):
        steps = []
        for k in range(order):
            step = _step(p, derivative, z, k)
            z[k] = _minus(z[k], step)
            steps.append(_size(step) <= _size(z[k]) * Decimal("1e-24"))
        if all(steps):
            return z
    raise ArithmeticError(f"the roots of a polynomial of order {order} were not found")


def _step(p: list[Number], derivative: list[Number], z: list[Number], k: int) -> Number:
    value, slope = _horner(p, z[k]), _horner(derivative, z[k])
    if not any(value):
        return value
    pull: Number = (Decimal(0), Decimal(0))
    for j, other in enumerate(z):
        gap = _minus(z[k], other)
        if j != k and any(gap):
            pull = _plus(pull, _divide((Decimal(1), Decimal(0)), gap))
    below = _minus(slope, _multiply(value, pull))
    return _divide(value, below) if any(below) else _scale(z[k], Decimal("1e-3"))


def _conjugate(z: list[Number]) -> list[Number]:
    """Roots of a real polynomial: real ones made exactly real, each other one with its exact conjugate."""
    real = [(re, Decimal(0)) for re, im in z if abs(im) <= Decimal("1e-18") * _size((re, im))]
    upper = [(re, im) for re, im in z if im > Decimal("1e-18") * _size((re, im))]
    if len(real) + 2 * len(upper) != len(z):
        raise ArithmeticError("the roots of a real polynomial are not in conjugate pairs")
    return real + upper + [(re, -im) for re, im in upper]


def _number(value: complex) -> Number:
    value = complex(value)
    return Decimal(value.real), Decimal(value.imag)


def _horner(p: Sequence[Number], z: Number) -> Number:
    value = p[0]
    for c in p[1:]:
        value = _plus(_multiply(value, z), c)
    return value


def _plus(a: Number, b: Number) -> Number:
    return a[0] + b[0], a[1] + b[1]


def _minus(a: Number, b: Number) -> Number:
    return a[0] - b[0], a[1] - b[1]


def _multiply(a: Number, b: Number) -> Number:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _scale(a: Number, by: Decimal | int) -> Number:
    return a[0] * by, a[1] * by


def _divide(a: Number, b: Number) -> Number:
    size = b[0] * b[0] + b[1] * b[1]
    re, im = _multiply(a, (b[0], -b[1]))
    return re / size, im / size


def _size(a: Number) -> Decimal:
    return (a[0] * a[0] + a[1] * a[1]).sqrt()
