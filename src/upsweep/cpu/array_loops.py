"""Loops over arrays, called from Python: units of code that are given arrays and whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from upsweep.cpu.code import Unit, address, callable_at
from upsweep.cpu.objects import address_of

Kind = tuple[np.dtype, int, bool] | None
"""The dtype and the dimensions of an array, and whether its items lie one behind the other; none for a number."""


def loop(module: str, function: str) -> Callable[..., int]:
    """A function of this folder. It is called with arrays and int64, and returns an int64."""

    def run(*arguments: Any) -> int:
        words = [0]
        for a in arguments:
            words += (address_of(a), *a.shape, *a.strides) if isinstance(a, np.ndarray) else (a,)
        told, status = np.array(words, np.int64), np.empty(2, np.int64)
        at = address_of(status)
        _code(module, function, tuple(map(_kind, arguments)))(at, at + 8, address_of(told))
        return int(told[0])

    return run


def _kind(argument: Any) -> Kind:
    if not isinstance(argument, np.ndarray):
        return None
    return argument.dtype, argument.ndim, argument.flags.c_contiguous


@lru_cache(1024)
def _code(module: str, function: str, kinds: tuple[Kind, ...]) -> Callable[..., int]:
    return callable_at(address(unit(module, function, kinds)), 1)


def unit(module: str, function: str, kinds: tuple[Kind, ...]) -> Unit:
    """The code of a function for arguments of these kinds."""

    def make():
        from upsweep.cpu.array_views import over

        return over(getattr(import_module(f"upsweep.cpu.{module}"), function), kinds)

    what = tuple(k and (k[0].name, *k[1:]) for k in kinds)
    return Unit(("loop", module, function, what), 1, make, f"a loop, {function}")
