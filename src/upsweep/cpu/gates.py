"""The gates of layers, as in gpu/kernels/gates.cuh: the decay a and the input b of an item, for `h = a h + b`. Also the gradients
of the item's inputs and of the parameter, from the state before and the gradient s of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from upsweep.arithmetic import LogAddExp, exp_in, fma, horner


class Gates(NamedTuple):
    """The functions of a layer. They take a tuple of inputs and a parameter, in one precision."""

    arrays: int
    make: Callable[..., Any]
    """(inputs, parameter) -> (a, b)."""
    back: Callable[..., Any]
    """(inputs, parameter, before, s) -> (gradients of the inputs, gradient of the parameter)."""
    taken: Callable[[Any], Any]
    """The parameter as the other functions take it, from the parameter that is given."""
    gradient: Callable[[Any, Any], Any]
    """(the parameter that is given, gradient of the parameter) -> the gradient of the parameter that is given."""


def gates_of(layer: str, numbers: LogAddExp, compiled: Callable[[Any], Any]) -> Gates:
    """The functions of a layer; `compiled` makes one that others may call."""
    real = numbers.real
    one, zero, two, quarter, minus_eight = real(1), real(0), real(2), real(-0.25), real(-8)
    exp = compiled(exp_in(numbers))
    terms = tuple(real(1 / factorial(k)) for k in range(7 if real is np.float32 else 13, 0, -1))
    poly, multiply_add, log1p = compiled(horner), compiled(fma), tuple(map(real, numbers.log1p))

    @compiled
    def sigmoid(x):
        return one / (one + exp(-x))

    @compiled
    def one_less(x, e):
        """1 - exp(x), given exp(x), for x <= 0: near zero by the series of exp, where the difference would lose digits."""
        return -x * poly(terms, x) if x > quarter else one - e

    @compiled
    def softplus(x):
        """log(1 + exp(x)), with all its digits where it is small."""
        u = exp(-abs(x))
        return multiply_add(u, poly(log1p, u), x if x > zero else zero)

    def rate_of(decay):
        return minus_eight * softplus(decay)

    def rate_back(decay, drate):
        return minus_eight * sigmoid(decay) * drate

    def as_given(parameter):
        return parameter

    def back_as_given(_, dparameter):
        return dparameter

    def rg_lru(x, rate):
        decay = rate * sigmoid(x[2])
        a = exp(decay)
        return a, np.sqrt(one_less(two * decay, a * a)) * (sigmoid(x[1]) * x[0])

    def rg_lru_back(x, rate, before, s):
        into, open_ = sigmoid(x[1]), sigmoid(x[2])
        decay = rate * open_
        a = exp(decay)
        square = a * a
        scale = np.sqrt(one_less(two * decay, square))
        slope = square / scale if scale > zero else zero
        ddecay = s * (a * before - slope * into * x[0])
        inside = s * scale
        return (
            inside * into,
            inside * x[0] * into * (one - into),
            ddecay * decay * (one - open_),
        ), ddecay * open_

    def min_gru(x, _):
        return sigmoid(-x[1]), sigmoid(x[1]) * x[0]

    def min_gru_back(x, _, before, s):
        open_ = s * sigmoid(x[1])
        return (open_, open_ * (x[0] - before) * sigmoid(-x[1])), zero

    def hgrn(x, least):
        shut = (one - least) * sigmoid(-x[1])
        return one - shut, shut * x[0]

    def hgrn_back(x, least, before, s):
        shut, df = sigmoid(-x[1]), s * (before - x[0])
        part = (one - least) * shut
        return (s * part, df * part * sigmoid(x[1])), df * shut

    arrays, *functions = {
        "rg_lru": (3, rg_lru, rg_lru_back, rate_of, rate_back),
        "min_gru": (2, min_gru, min_gru_back, as_given, back_as_given),
        "hgrn": (2, hgrn, hgrn_back, as_given, back_as_given),
    }[layer]
    return Gates(arrays, *map(compiled, functions))
