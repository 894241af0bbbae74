"""The value that a shuffle gives from a lane that is not there: harmless until it is used, and then a finding."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


class Undefined:
    """Stands for such a value; `used` reports it, and gives the thread's own value to go on with."""

    # With this NumPy's scalars leave arithmetic to the class.
    __array_ufunc__ = None

    def __init__(self, used: Callable[[], Any]):
        self.used = used

    def __bool__(self) -> bool:
        return bool(self.used())

    def __int__(self) -> int:
        return int(self.used())

    def __float__(self) -> float:
        return float(self.used())

    __index__ = __int__
    __hash__ = object.__hash__


def _left(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *other: fn(self.used(), *other)


def _right(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: fn(other, self.used())


_ALONE = ("neg", "pos", "abs", "invert")
_COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")
_COMBINED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor")
for _name in (*_ALONE, *_COMPARED, *_COMBINED):
    setattr(Undefined, f"__{_name}__", _left(getattr(operator, f"__{_name}__")))
for _name in _COMBINED:
    setattr(Undefined, f"__r{_name}__", _right(getattr(operator, f"__{_name}__")))
