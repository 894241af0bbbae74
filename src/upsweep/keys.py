"""The key of a function, by its content: its code, its defaults, its closure and the globals it uses."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dis import get_instructions
from functools import lru_cache
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class OperatorError(TypeError):
    """The operator cannot do what the call asks: a wrong dtype, a missing identity, an unusable function."""


def freeze(value: Any, within: tuple[Any, ...] = (), names: Sequence[str] = ()) -> Any:
    """A hashable picture of a value by content; 1, 1.0 and True stay apart, and so do 0.0 and -0.0. `within` are the functions
    and the modules that the value was met in. Of a module only the attributes of these `names` count."""
    value = getattr(value, "py_func", value)
    if is_named(value):
        # `floor` of math gives an integer, that of NumPy a float.
        return ("named", getattr(value, "__module__", None), value.__name__)
    if isinstance(value, (types.FunctionType, types.ModuleType)):
        if value in within:
            return ("itself", within.index(value))
        within = (*within, value)
        if isinstance(value, types.FunctionType):
            return _freeze_function(value, within)
        attributes = [(name, freeze(part, within, names)) for name, part in attributes_of(value, names)]
        return ("module", value.__name__, *attributes)
    if isinstance(value, types.CodeType):
        consts = tuple(freeze(c, within, names) for c in value.co_consts)
        takes = (value.co_argcount, value.co_kwonlyargcount, value.co_flags & (CO_VARARGS | CO_VARKEYWORDS))
        return ("code", value.co_code, value.co_names, value.co_varnames, takes, consts)
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *(freeze(part, within, names) for part in value))
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return (type(value).__name__, repr(value.dtype), value.shape, value.tobytes())
    if type(value) in (type(None), bool, int, float, complex, str, bytes):
        return (type(value).__name__, repr(value))
    if not within and callable(value):
        raise OperatorError(
            f"{value!r} of type {type(value).__name__} cannot be compiled in; use a function of Python, one of NumPy's such as "
            "np.maximum, or the name of an operator"
        )
    called = [f"{f.__module__}.{f.__name__}" for f in within[1:] if isinstance(f, types.FunctionType)]
    user = f"{called[-1]}, which an operator calls," if called else "an operator"
    raise OperatorError(
        f"{user} uses {value!r} of type {type(value).__name__}, which cannot be compiled in; "
        "use numbers, tuples, NumPy arrays and functions"
    )


def _freeze_function(fn: types.FunctionType, within: tuple[Any, ...]) -> tuple[Any, ...]:
    names = names_in(fn.__code__)

    def frozen(value: Any) -> Any:
        return freeze(value, within, names)

    return (
        "function",
        frozen(fn.__code__),
        frozen(fn.__defaults__),
        tuple((name, frozen(value)) for name, value in (fn.__kwdefaults__ or {}).items()),
        tuple(map(frozen, cells_of(fn))),
        tuple((name, frozen(value)) for name, value in globals_of(fn).items()),
    )


def is_named(value: Any) -> bool:
    """Whether a value is known by its name: functions of NumPy, functions written in C, the dtypes of scalars, types of Python's,
    and the modules of NumPy and Python."""
    if isinstance(value, types.ModuleType):
        package = value.__name__.partition(".")[0]
        return package == "numpy" or package in sys.stdlib_module_names
    if isinstance(value, type):
        return issubclass(value, np.generic) or value.__module__ == "builtins"
    if isinstance(value, types.BuiltinFunctionType):
        # A method of an object of C's hangs on the object.
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    return callable(value) and getattr(np, getattr(value, "__name__", ""), None) is value


def is_numpys(value: Any) -> bool:
    """Whether a function or an object belongs to NumPy. A function that `exec` made may have no module."""
    return any((getattr(of, "__module__", None) or "").startswith("numpy") for of in (value, type(value)))


@lru_cache(4096)
def names_in(code: types.CodeType) -> Sequence[str]:
    """The names of globals and attributes that code asks for, that of functions within it included."""
    return sorted({*code.co_names, *(name for inner in _inner(code) for name in names_in(inner))})


@lru_cache(4096)
def _globals_in(code: types.CodeType) -> Sequence[str]:
    """The names of globals alone: an attribute may have the name of a global that the code does not use."""
    # Most operators name nothing; to list their instructions would take longer than all else that is done to import them.
    listed = get_instructions(code) if code.co_names else ()
    asked = (i.argval for i in listed if "GLOBAL" in i.opname or i.opname == "LOAD_NAME")
    return sorted({*asked, *(name for inner in _inner(code) for name in _globals_in(inner))})


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [c for c in code.co_consts if isinstance(c, types.CodeType)]


def globals_of(fn: types.FunctionType) -> dict[str, Any]:
    """The globals that a function, and functions defined within it, name."""
    there = fn.__globals__
    return {name: there[name] for name in _globals_in(fn.__code__) if name in there}


def attributes_of(module: types.ModuleType, names: Sequence[str]) -> list[tuple[str, Any]]:
    """The attributes of a module that have one of these names."""
    return [(name, getattr(module, name)) for name in names if hasattr(module, name)]


def cells_of(fn: types.FunctionType) -> list[Any]:
    """The values of the variables that a function takes from the functions around it."""
    try:
        return [cell.cell_contents for cell in fn.__closure__ or ()]
    except ValueError as error:
        raise OperatorError(f"{fn.__name__} uses a variable before it has a value") from error


class Uses:
    """Everything that a function's behaviour hangs on, functions that it calls included, as it is now."""

    def __init__(self, fn: Any) -> None:
        # As long as a value is kept, no other value gets its id.
        self.values = _uses_of(fn)
        self.ids = [*map(id, self.values)]
        self.constant = all(isinstance(use, CONSTANT) for use in self.values)
        code = self.values[0]
        self.alone = len(self.values) == 1 and isinstance(code, types.CodeType) and not _globals_in(code)

    def still(self, fn: Any) -> bool:
        """Whether a function uses these same values, of which none can change in place."""
        if self.alone and isinstance(fn, types.FunctionType):
            others = fn.__defaults__ or fn.__kwdefaults__ or fn.__closure__
            return fn.__code__ is self.values[0] and not others
        return self.constant and [*map(id, _uses_of(fn))] == self.ids


def _uses_of(fn: Any) -> list[Any]:
    """Code, defaults, closures, globals, and attributes of modules; for a function that is met, its number."""
    functions: list[Any] = [getattr(fn, "py_func", fn)]
    if not isinstance(functions[0], types.FunctionType):
        return functions
    found: list[Any] = []
    # Both lists grow while they are gone over.
    for each in functions:
        found.append(each.__code__)
        used = [*(each.__defaults__ or ()), *(each.__kwdefaults__ or {}).values(), *cells_of(each)]
        there = each.__globals__
        used += [there[name] for name in _globals_in(each.__code__) if name in there]
        opened: list[Any] = []
        for value in used:
            called = getattr(value, "py_func", value)
            if isinstance(called, types.FunctionType):
                if called not in functions:
                    functions.append(called)
                found.append(functions.index(called))
                continue
            found.append(value)
            if isinstance(value, types.ModuleType) and not is_named(value) and value not in opened:
                opened.append(value)
                used += [part for _, part in attributes_of(value, names_in(each.__code__))]
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
    found = {name: value for name, value in (known or {}).items() if name in _globals_in(fn.__code__)}
    used = {name: taken(value) for name, value in {**found, **globals_of(fn)}.items()}
    cells = tuple(types.CellType(taken(value)) for value in cells_of(fn))
    code, defaults = _without_keywords(fn)
    # The function that is made below takes the name of its module from its globals.
    scope = {**used, "__name__": module}
    return types.FunctionType(code, scope, fn.__name__, tuple(map(taken, defaults)), cells)


def _without_keywords(fn: types.FunctionType) -> tuple[types.CodeType, tuple[Any, ...]]:
    """Code and defaults of a function, with parameters that go by keyword alone as ordinary ones: numba has no others."""
    code, keywords = fn.__code__, fn.__kwdefaults__ or {}
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[code.co_argcount : count]
    if not names or code.co_flags & CO_VARARGS or not all(name in keywords for name in names):
        return code, fn.__defaults__ or ()
    made = code.replace(co_argcount=count, co_kwonlyargcount=0)
    return made, (*(fn.__defaults__ or ()), *(keywords[name] for name in names))


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
    known: dict[types.CodeType, tuple[Uses, T]] = {}

    def made(fn: types.FunctionType) -> T:
        found = known.get(fn.__code__)
        if found is None or not found[0].still(fn):
            found = (Uses(fn), make(fn))
            # A value that can change in place is looked at in every call.
            if found[0].constant:
                known[fn.__code__] = found
        return found[1]

    return made
