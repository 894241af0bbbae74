"""A function made over, so that it runs on values that write down what is done with them."""

from __future__ import annotations

import types
from dis import get_instructions
from typing import Any

import numpy as np

from upsweep.gpu.written.operations import KNOWN, conversion
from upsweep.gpu.written.values import SCOPE, Number, Unwritten, number
from upsweep.keys import is_numpys, rebuilt

_BUILTINS = {fn.__name__: fn for fn in (abs, len, range, min, max)}


_REFUSED = {"SETUP_FINALLY", "SETUP_WITH", "PUSH_EXC_INFO", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR"}
"""Instructions of `try` and `with`, which would take our exceptions, and those that change what stays when a path has ended."""


def made_over(fn: Any) -> types.FunctionType:
    """The function, and the functions that it calls, on Values. It finds no builtins but those that are written."""
    made = rebuilt(fn, _taken, SCOPE, _BUILTINS)
    if any(i.opname in _REFUSED for i in get_instructions(made)):
        raise Unwritten
    code = made.__code__.replace(co_consts=tuple(map(_constant, made.__code__.co_consts)))
    scope = {**made.__globals__, "__builtins__": {}}
    return types.FunctionType(code, scope, made.__name__, made.__defaults__, made.__closure__)


def _taken(value: Any) -> Any:
    """The value that stands for one that a function uses."""
    value = getattr(value, "py_func", value)
    if isinstance(value, types.ModuleType):
        return _Module(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return conversion(np.dtype(value))
    if callable(value) and value in KNOWN:
        return KNOWN[value]
    if isinstance(value, types.FunctionType) and not is_numpys(value):
        return made_over(value)
    return tuple(map(_taken, value)) if isinstance(value, tuple) else Number(number(value))


def _constant(value: Any) -> Any:
    """The value that stands for one in a function's code."""
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    return Number(value) if isinstance(value, (int, float)) else _plain(value)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    raise Unwritten


class _Module:
    """A module whose functions take Values."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _taken(getattr(self._module, name))
