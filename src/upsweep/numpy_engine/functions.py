"""A Python function made over to work on Values: so are the functions that it calls, of math and NumPy, dtypes, int and float."""

from __future__ import annotations

import builtins
import math
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from upsweep.arithmetic import fma
from upsweep.components import tupled
from upsweep.keys import globals_of, is_numpys
from upsweep.numpy_engine.conversions import converted
from upsweep.numpy_engine.fma import fma as exact_fma
from upsweep.numpy_engine.library import EXTREMES, by_item
from upsweep.numpy_engine.typed import Value, applied, data_of, kind_of, powered, taken
from upsweep.scalars.rules import Refused, convertible, dtype_of, joined, weak


def adopted(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, and the functions that it calls, made over."""
    return _taken(fn, {})


def _taken(value: Any, known: dict[Any, Any]) -> Any:
    value = getattr(value, "py_func", value)
    if type(getattr(value, "__self__", None)).__name__ in _DRAWING:
        raise TypeError("it draws a random number, which would be the same for all items")
    if value is fma:
        return lambda a, b, c: Value(exact_fma(data_of(a), data_of(b), data_of(c)))
    if isinstance(value, types.FunctionType) and not is_numpys(value):
        return _made_over(value, known)
    if isinstance(value, types.ModuleType):
        return _Module(value, known)
    if isinstance(value, type) and issubclass(value, np.generic):
        return _Kind(value)
    if isinstance(value, (type, types.BuiltinFunctionType)) and value in _PYTHONS:
        return _PYTHONS[value]
    if value is math.gcd:
        return _gcd
    if value is np.power:
        return _powered
    if getattr(value, "__module__", None) == "math":
        return _by_item(value) if value.__name__ not in _EXACT else _of_math(value)
    if callable(value) and is_numpys(value):
        return _of_numpy(value)
    return _Table(value) if isinstance(value, np.ndarray) else value


_DRAWING = ("Generator", "Random", "RandomState", "SystemRandom")
"""Types whose methods draw random numbers."""


def _made_over(fn: types.FunctionType, known: dict[Any, Any]) -> types.FunctionType:
    if fn not in known:
        cells = tuple(types.CellType() for _ in fn.__closure__ or ())
        scope: dict[str, Any] = {"__name__": __name__, "__builtins__": _BUILTINS}
        made = known[fn] = types.FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, cells)
        made.__kwdefaults__ = fn.__kwdefaults__
        for cell, given in zip(cells, fn.__closure__ or ()):
            cell.cell_contents = _taken(given.cell_contents, known)
        scope.update({name: _taken(value, known) for name, value in globals_of(fn).items()})
    return known[fn]


class _Module:
    """A module whose functions take Values."""

    def __init__(self, module: types.ModuleType, known: dict[Any, Any]) -> None:
        self._module, self._known = module, known

    def __getattr__(self, name: str) -> Any:
        return _taken(getattr(self._module, name), self._known)


class _Table:
    """An array that the function uses: Values look items up."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Any:
        parts = tupled(index)
        found = self.array[tuple(data_of(i) if isinstance(i, Value) else i for i in parts)]
        if any(isinstance(i, Value) for i in parts):
            return Value(found)
        return _Table(found) if isinstance(found, np.ndarray) else found


class _Kind:
    """A NumPy dtype that is called to convert."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self.dtype = dtype

    def __call__(self, x: Any = 0) -> Any:
        if not isinstance(x, Value):
            return self.dtype(x)
        convertible((x.dtype,), np.dtype(self.dtype))
        return Value(converted(x.data, np.dtype(self.dtype)))


_EXACT: dict[str, Callable[..., Any]] = {
    "sqrt": np.sqrt, "fabs": np.fabs, "copysign": np.copysign, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
}  # fmt: skip
"""Functions of math that NumPy computes with the same bits as the C library."""
_WHOLE = ("floor", "ceil", "trunc")
_NUMPYS = (*_EXACT, "gcd", "lcm", "remainder", "fmod")
"""Functions of math that NumPy itself computes: the C library's remainder is another one, and it has none of these for integers.
"""


def _of_math(fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        if not any(isinstance(x, Value) for x in args):
            return fn(*args)
        if fn.__name__ in _WHOLE:
            return _whole(args[0], _EXACT[fn.__name__])
        made = _EXACT[fn.__name__](*_reals(args))
        return Value(made, _pythons(args, made))

    return call


def _whole(x: Value, of_floats: Callable[[Any], Any]) -> Value:
    """A whole number of Python. A value that is one stays as it is."""
    if x.dtype.kind == "f":
        return Value(converted(of_floats(x.data), np.dtype(np.int64)), True)
    return _int(x)


def _gcd(a: Any, b: Any) -> Any:
    """A whole number of Python, as math's is."""
    if not (isinstance(a, Value) or isinstance(b, Value)):
        return math.gcd(a, b)
    return Value(applied(np.gcd, a, b).data, True)


def _powered(a: Any, b: Any) -> Any:
    return powered(a, b) if isinstance(a, Value) or isinstance(b, Value) else np.power(a, b)


def _of_numpy(fn: Any) -> Callable[..., Any]:
    """NumPy's exp, log and others differ in the last place from the C library's, which compiled code calls. Of two zeros NumPy
    gives either, as the processor has it, and compiled code the first."""
    name = fn.__name__
    standard = getattr(math, name, None) or getattr(math, name.replace("arc", "a", 1), None)
    ours = isinstance(fn, np.ufunc) and name not in _NUMPYS
    own = EXTREMES.get(fn) or (by_item(standard) if ours and standard else None)
    each = own and _of_reals(own, fn)

    def call(*args: Any) -> Any:
        if not any(isinstance(x, Value) for x in args):
            return fn(*args) if fn is np.array or not _values(args) else _of_each(fn, args)
        if isinstance(fn, np.ufunc) and fn.nout == 1 and len(args) == fn.nin:
            return Value(applied(fn, *args, fn=each).data)
        given = [x.array if isinstance(x, _Table) else x for x in args]
        values = {place: x for place, x in enumerate(given) if isinstance(x, Value)}
        each_item = fn in _OF_ARRAYS or [*values] == [_BESIDE_TABLES.get(fn)]
        if each_item and not any(x.pythons for x in values.values()):
            return Value(fn(*[x.data if isinstance(x, Value) else x for x in given]))
        return _of_each(fn, given)

    return call


def _of_reals(each: Callable[..., Any], fn: Any) -> Callable[..., Any]:
    """`each` on arrays of real numbers, and NumPy's own function on complex ones, of which the C library's would take the real
    parts alone."""
    return lambda *arrays: fn(*arrays) if arrays[0].dtype.kind == "c" else each(*arrays)


_OF_ARRAYS = (
    np.angle, np.around, np.clip, np.fix, np.imag, np.isclose, np.nan_to_num, np.real, np.round, np.sinc, np.where,
)  # fmt: skip
"""Functions that are no ufuncs and take each item of an array by itself."""
_BESIDE_TABLES = {np.digitize: 0, np.interp: 0, np.isin: 0, np.polyval: 1, np.searchsorted: 1, np.take: 1}
"""Functions of tables that take each item of the operand in this place by itself."""


def _of_each(fn: Callable[..., Any], args: Sequence[Any]) -> Value:
    """A function of one item after the other: `np.max` of an array is the largest item of all. Of a list of Values NumPy makes an
    array of objects, whose sum has another dtype and whose largest is another one beside NaN."""
    values = _values(args)
    columns = np.broadcast_arrays(*[x.data for x in values])
    items = [c.ravel().tolist() if x.pythons else c.ravel() for x, c in zip(values, columns)]
    made = []
    for own in zip(*items):
        given = iter(own)
        made.append(fn(*[_with_items(x, given) for x in args]))
    results = np.asarray(made)
    if results.ndim != 1:
        raise TypeError(f"np.{fn.__name__} gives no number here")
    return Value(results.reshape(columns[0].shape))


def _values(args: Any) -> list[Value]:
    """The Values among operands, and in their lists."""
    inside = [[x] if isinstance(x, Value) else _values(x) for x in args if isinstance(x, (Value, *_LISTS))]
    return [x for xs in inside for x in xs]


def _with_items(x: Any, items: Iterator[Any]) -> Any:
    """An operand in which the next of the items stand for Values."""
    if isinstance(x, _LISTS):
        return [_with_items(y, items) for y in x]
    return next(items) if isinstance(x, Value) else x


_LISTS = (list, tuple)


def _by_item(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the C library."""
    each = by_item(fn)

    def call(*args: Any) -> Any:
        if not any(isinstance(x, Value) for x in args):
            return fn(*args)
        made = each(*_reals(args))
        return Value(made, _pythons(args, made))

    return call


def _reals(args: Sequence[Any]) -> list[Any]:
    """The operands of a function of math in one dtype: that of NumPy's floats, where there are any among them."""
    kinds = [kind_of(x) for x in args]
    kind = joined(*kinds) if _floats(kinds) else float
    if dtype_of(kind).kind == "c":
        raise Refused("math takes no complex numbers: call NumPy's function")
    return [data_of(x).astype(dtype_of(kind)) for x in args]


def _pythons(args: Sequence[Any], made: Any) -> bool:
    """Whether a function of math gives numbers of Python's."""
    return made.dtype.kind == "f" and not _floats(map(kind_of, args))


def _floats(kinds: Iterable[Any]) -> bool:
    return any(not weak(k) and k.kind in "fc" for k in kinds)


def _int(x: Any = 0) -> Any:
    if not isinstance(x, Value):
        return int(x)
    return _number(x, np.dtype(np.uint64 if x.dtype == np.uint64 else np.int64))


def _float(x: Any = 0.0) -> Any:
    return _number(x, np.dtype(np.float64)) if isinstance(x, Value) else float(x)


def _number(x: Value, dtype: np.dtype) -> Value:
    """A number of Python's."""
    convertible((x.dtype,), dtype)
    return Value(converted(x.data, dtype), True)


def _complex(*args: Any) -> Any:
    if len(args) == 1 and isinstance(args[0], Value):
        return Value(args[0].data.astype(np.complex128), True)
    return complex(*args)


def _round(x: Any) -> Any:
    return _whole(x, np.rint) if isinstance(x, Value) else round(x)


def _extreme(better: Callable[[Any, Any], Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        if not any(isinstance(x, Value) for x in args):
            return plain(*args)
        kind = joined(*map(kind_of, args))
        best, *others = taken(args, [dtype_of(kind)] * len(args))
        for other in others:
            best = np.where(better(other, best), other, best)
        return Value(best, weak(kind))

    return call


_PYTHONS: dict[Any, Callable[..., Any]] = {
    int: _int,
    float: _float,
    complex: _complex,
    round: _round,
    min: _extreme(np.less, min),
    max: _extreme(np.greater, max),
}
_BUILTINS = {**vars(builtins), **{fn.__name__: made for fn, made in _PYTHONS.items()}}
