"""Functions of which NumPy's own have other bits than those that compiled code calls.

NumPy's exp, log and pow may differ from the C library's in the last place. Of float32 the C library's are computed in float64
here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def by_item(fn: Callable[..., float]) -> Callable[..., np.ndarray]:
    """A function of `math` on arrays of one floating dtype, one item after the other."""
    like = getattr(np, {"pow": "power"}.get(fn.__name__, fn.__name__), None)

    def one(*args: float) -> float:
        try:
            return fn(*args)
        # C gives an infinity or a NaN there.
        except (OverflowError, ValueError):
            return float(like(*map(np.float64, args))) if like else math.nan

    each: Any = np.frompyfunc(one, *_ARITY.get(fn.__name__, (1, 1)))
    return lambda *arrays: np.asarray(each(*(x.astype(np.float64) for x in arrays))).astype(arrays[0].dtype)


_ARITY = {"pow": (2, 1), "atan2": (2, 1), "hypot": (2, 1), "fmod": (2, 1), "remainder": (2, 1)}
EXTREMES: dict[Any, Callable[..., Any]] = {
    np.maximum: lambda a, b: np.where((a >= b) | (a != a), a, b),
    np.minimum: lambda a, b: np.where((a <= b) | (a != a), a, b),
    np.fmax: lambda a, b: np.where((a >= b) | (b != b), a, b),
    np.fmin: lambda a, b: np.where((a <= b) | (b != b), a, b),
}
"""Of two zeros compiled code gives the first."""
