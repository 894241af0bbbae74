"""Rational filters as sections of a pole, or of a pair of them, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from upsweep.apps.roots import roots

Polynomial = tuple[float, ...]
"""In powers of the delay, the lowest first."""


class Section(NamedTuple):
    """`y[t] = now x[t] + before[0] Re z[t-1] + before[1] Im z[t-1]`, where `z[t] = pole z[t-1] + x[t]`.

    A pole that is not real stands for its conjugate too: with `p = r + i w` both alone make Im(p z) / w, and the value
    before that is Im(z) / w.
    """

    pole: complex
    now: float
    before: tuple[float, float]


@lru_cache(256)
def sectioned(b: tuple[complex, ...], a: tuple[complex, ...]) -> tuple[Polynomial, tuple[Section, ...]]:
    """A filter of real coefficients, a[0] = 1: the shifted sums in front of the sections, and these, the smallest poles first.

    A section of one pole takes one zero, a section of two takes two, so that nothing but sections is left of a filter whose zeros
    are no more than its poles; zeros that fit no section stay in front, all of them where there are more than poles.

    >>> front, (section,) = sectioned((1.0, 0.5), (1.0, -0.25))
    >>> front, section.now, section.before
    ((1.0,), 1.0, (0.75, 0.0))
    """
    poles = [p for p in roots(a) if p.imag >= 0]
    real = tuple(v.real for v in b)
    front, pairs, singles = _factors(real, sum(1 + bool(p.imag) for p in poles))
    made = []
    for pole in poles:
        zeros: Polynomial = (1.0,)
        if pole.imag and pairs:
            zeros = pairs.pop(0)
        else:
            for _ in range(min(1 + bool(pole.imag), len(singles))):
                zeros = _product(zeros, singles.pop(0))
        made.append((pole, zeros))
    for rest in (*pairs, *singles):
        front = _product(front, rest)
    if len(front) == 1 and made:
        made[0], front = (made[0][0], _product(front, made[0][1])), (1.0,)
    return front, tuple(_section(pole, zeros) for pole, zeros in made)


def _factors(b: Polynomial, most: int) -> tuple[Polynomial, list[Polynomial], list[Polynomial]]:
    """A polynomial as a number and factors, of pairs of zeros and of one zero; the whole where it has more than so many."""
    some = [k for k, c in enumerate(b) if c]
    if not some or some[-1] > most:
        return b, [], []
    zeros = roots(tuple(map(complex, b[some[0] :])))
    pairs = [(1.0, -2 * z.real, z.real * z.real + z.imag * z.imag) for z in zeros if z.imag > 0]
    singles = [(1.0, -z.real) for z in zeros if not z.imag]
    return (b[some[0]],), pairs, [*singles, *[(0.0, 1.0)] * some[0]]


def _product(p: Sequence[float], q: Sequence[float]) -> Polynomial:
    terms = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, x in enumerate(p):
        for j, y in enumerate(q):
            terms[i + j] += Fraction(x) * Fraction(y)
    return tuple(map(float, terms))


def _section(pole: complex, zeros: Polynomial) -> Section:
    """The section of a pole. The item takes its own part of the zeros; the rest goes to the states before, without a division."""
    now, first, second = (Fraction(c) for c in (*zeros, 0.0, 0.0)[:3])
    r, w = Fraction(pole.real), Fraction(pole.imag)
    if not w:
        return Section(pole, float(now), (float(first + now * r), 0.0))
    first, second = first + 2 * r * now, second - (r * r + w * w) * now
    return Section(pole, float(now), (float(first), float((first * r + second) / w)))
