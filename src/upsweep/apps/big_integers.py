"""Sums of integers that are as long as you like."""

from __future__ import annotations

from typing import Any

from upsweep import api, homes
from upsweep.apps.kinds import enter
from upsweep.arguments import ShapeError
from upsweep.dtypes import kind_of
from upsweep.engine import DTypeError
from upsweep.operator import Operator

# 1 kills a carry, 0 propagates it.
_GENERATES = 2


def _later(a, b):
    return b if b != 0 else a


LAST_NONZERO = Operator(_later, 0, "last non-zero")
"""The later of two signs, or the earlier one where the later is zero."""


@homes.apart
def carry_lookahead_add(a: Any, b: Any) -> Any:
    """The sum of non-negative integers given as digits, lowest first, in the base that the digits' dtype just holds.

    A pair of digits generates a carry, kills one, or, where its sum is base - 1, propagates it. So the last pair before a digit
    that does not propagate decides the carry into the digit. It takes five passes where Python's own addition takes one, which
    two cores do not make up for.

    Args:
        a, b: arrays of one unsigned dtype and shape (..., digits), each row an integer; base 2^8 to 2^64.

    Returns:
        Digits of shape (..., digits + 1), of the same dtype and kind.

    Raises:
        DTypeError: digits that are not unsigned integers. ShapeError: different shapes.

    >>> from upsweep import apps
    >>> import numpy as np
    >>> apps.carry_lookahead_add(np.array([255, 255], np.uint8), np.array([1, 0], np.uint8)).tolist()
    [0, 0, 1]

    Source: Blelloch (1990), section 1.1; Brent and Kung (1982).
    """
    xp, (a, b), give = enter(a, b)
    if a.dtype != b.dtype or kind_of(a.dtype) != "u":
        raise DTypeError(f"digits must be unsigned integers of one dtype, got {a.dtype} and {b.dtype}")
    if a.shape != b.shape or a.ndim == 0:
        raise ShapeError(
            f"a has shape {tuple(a.shape)} and b {tuple(b.shape)}: both need one shape, digits along the last axis"
        )
    total = xp.zeros((*a.shape[:-1], a.shape[-1] + 1), dtype=a.dtype, device=a.device)
    total[..., :-1] = sums = a + b
    says = xp.astype(sums != xp.iinfo(a.dtype).max, xp.int8)
    says += sums < a
    total[..., 1:] += api.scan(says, LAST_NONZERO, axis=-1) == _GENERATES
    return give(total)
