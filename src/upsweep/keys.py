"""The key of a function, by its content: its code, its defaults, its closure and the globals it uses."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class OperatorError(TypeError):
    """The operator cannot do what the call asks: a wrong dtype, a missing identity, an unusable function."""


def freeze(value: Any, within: tuple[types.FunctionType, ...] = ()) -> Any:
    """A hashable picture of a value by content; 1, 1.0 and True stay apart, and so do 0.0 and -0.0. `within` are the functions
    that the value was met in."""
    value = getattr(value, "py_func", value)
    if isinstance(value, types.FunctionType):
        return ("itself", value.__name__) if value in within else _freeze_function(value, (*within, value))
    if isinstance(value, types.CodeType):
        consts = tuple(freeze(c, within) for c in value.co_consts)
        return ("code", value.co_code, value.co_names, value.co_varnames, consts)
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *(freeze(part, within) for part in value))
    if isinstance(value, (np.ndarray, np.generic)):
        return (value.dtype.name, value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc)):
        return (getattr(value, "__module__", ""), value.__name__)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return (type(value).__name__, repr(value))
    raise OperatorError(
        f"an operator uses {value!r} of type {type(value).__name__}, which cannot be compiled in; "
        "use numbers, tuples, NumPy arrays and functions"
    )


def _freeze_function(fn: types.FunctionType, within: tuple[types.FunctionType, ...]) -> tuple[Any, ...]:
    cells = tuple(freeze(c.cell_contents, within) for c in fn.__closure__ or ())
    used = tuple((name, freeze(value, within)) for name, value in globals_of(fn).items())
    return ("function", freeze(fn.__code__, within), freeze(fn.__defaults__, within), cells, used)


@lru_cache(4096)
def names_in(code: types.CodeType) -> Sequence[str]:
    """The names that code asks for, that of functions within it included."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return sorted({*code.co_names, *(name for c in inner for name in names_in(c))})


def globals_of(fn: types.FunctionType) -> dict[str, Any]:
    """The globals that a function, and functions defined within it, name."""
    return {name: fn.__globals__[name] for name in names_in(fn.__code__) if name in fn.__globals__}


def uses_of(fn: types.FunctionType) -> list[Any]:
    """Everything that a function's behaviour hangs on, functions that it calls included: code, defaults, closures, globals."""
    functions, found = [fn], []
    for each in functions:  # which grows meanwhile
        found.append(each.__code__)
        used = [*(each.__defaults__ or ()), *[cell.cell_contents for cell in each.__closure__ or ()]]
        there = each.__globals__
        used += [there[name] for name in names_in(each.__code__) if name in there]
        for value in used:
            called = getattr(value, "py_func", value)
            if not isinstance(called, types.FunctionType):
                found.append(value)
            elif called not in functions:
                functions.append(called)
    return found


CONSTANT = (
    types.CodeType,
    types.ModuleType,
    types.BuiltinFunctionType,
    type,
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    np.generic,
    np.ufunc,
)
"""Types whose values never change in place."""


def rebuilt(
    fn: Any, taken: Callable[[Any], Any], module: str, known: Mapping[str, Any] | None = None
) -> types.FunctionType:
    """A function over again, as one of `module`, with what `taken` makes of the values that it uses: globals, cells, defaults,
    and Python's own functions of those `known`."""
    fn = getattr(fn, "py_func", fn)
    fn = fn if isinstance(fn, types.FunctionType) else called_with(fn, 2)
    found = {name: value for name, value in (known or {}).items() if name in names_in(fn.__code__)}
    used = {name: taken(value) for name, value in {**found, **globals_of(fn)}.items()}
    cells = tuple(types.CellType(taken(cell.cell_contents)) for cell in fn.__closure__ or ())
    defaults = fn.__defaults__ and tuple(map(taken, fn.__defaults__))
    # The function that is made below takes the name of its module from its globals.
    scope = {**used, "__name__": module}
    return types.FunctionType(fn.__code__, scope, fn.__name__, defaults, cells)


def is_function(value: Any) -> bool:
    """Whether it is a function of Python, compiled or not."""
    return isinstance(getattr(value, "py_func", value), types.FunctionType)


def called_with(fn: Callable[..., Any], count: int) -> types.FunctionType:
    """A function of Python, of so many arguments, that calls one of NumPy's or of C's, which compilers know by name."""

    def one(a):
        return fn(a)

    def two(a, b):
        return fn(a, b)

    def three(a, b, c):
        return fn(a, b, c)

    calls = {1: one, 2: two, 3: three}
    if count not in calls:
        raise OperatorError(f"{fn} takes {count} arguments: pass a function of Python that calls it")
    return calls[count]


def remembered(make: Callable[[types.FunctionType], T]) -> Callable[[types.FunctionType], T]:
    """`make` for functions that may have been met before: a key is worth 100 us."""
    known: dict[types.CodeType, tuple[list[Any], list[int], T]] = {}

    def made(fn: types.FunctionType) -> T:
        uses = uses_of(fn)
        ids = [*map(id, uses)]
        found = known.get(fn.__code__)
        if found is None or found[1] != ids:
            found = (uses, ids, make(fn))  # what is kept keeps its id
            # A value that can change in place is looked at in every call.
            if all(isinstance(use, CONSTANT) for use in uses):
                known[fn.__code__] = found
        return found[2]

    return made
