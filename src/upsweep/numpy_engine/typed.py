"""A Python function of two scalars, on whole arrays, as NumPy computes with scalars.

A `Value` is one variable of the function for many items at once. Its arithmetic is that of NumPy's scalars, in which Python's
numbers take the dtype of the other operand; a Value may also be a number of Python's that differs from item to item.
Where the function asks whether a Value is true, and items differ, it runs again for those of each answer: every path is taken by
whole arrays.

A compiler gives a name one dtype of NumPy's on all paths; here a path keeps its own, and what all paths return has one dtype at
the end. A float32 that is a float64 on another path may so differ in its last bit.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from upsweep.arithmetic import mul_arrays
from upsweep.numpy_engine.library import by_item
from upsweep.scalars.rules import Kind, Refused, compared, dtype_of, fitting, power, resolved, weak

Columns = Sequence[Any]


ANSWER: ContextVar[Callable[[Any], bool] | None] = ContextVar("answer", default=None)
"""The function that says whether a Value is true, where the items do not say so themselves."""


class Fork(BaseException):
    """Items differ in the answer to a question of the function: those where `here` holds take one path, the others another."""

    def __init__(self, here: Any) -> None:
        self.here = here


CACHED = 1 << 16
"""Items that are taken at once. A million of logaddexp: 2^12 9.3 s, 2^14 6.4 s, 2^16 5.7 s, all at once 10.3 s."""


def evaluate(
    fn: Callable[..., Any], arguments: Sequence[Columns], columns: Callable[[Any], Columns], count: int
) -> list[Any]:
    """fn on the items of arrays of one shape: each argument is one array, or one a component. `columns` makes `count` arrays
    of the returned values.
    """
    shape, size = arguments[0][0].shape, arguments[0][0].size
    flat = [[x.ravel() for x in argument] for argument in arguments]
    paths: list[Any] = [slice(first, min(first + CACHED, size)) for first in range(0, size, CACHED)]
    taken: list[tuple[Any, Columns]] = []
    while paths:
        items = paths.pop()
        try:
            result = fn(*(operand([x[items] for x in argument]) for argument in flat))
            taken.append((items, columns(result)))
        except Fork as fork:
            numbers = np.arange(items.start, items.stop) if isinstance(items, slice) else items
            paths += [numbers[fork.here], numbers[~fork.here]]
    return [_gathered(c, taken, size).reshape(shape) for c in range(count)]


def _gathered(c: int, taken: Sequence[tuple[Any, Columns]], size: int) -> Any:
    """Component c of all paths, in a dtype that holds the returned values of each of them."""
    made = np.empty(size, np.result_type(*(columns[c].dtype for _, columns in taken)) if taken else bool)
    for items, columns in taken:
        made[items] = columns[c]
    return made


def operand(columns: Columns) -> Any:
    return Value(columns[0]) if len(columns) == 1 else tuple(map(Value, columns))


class Value:
    """One variable of a function, for many items: an array with one value for each item, or without items for a constant."""

    # With this, NumPy's scalars leave operators with a Value to the Value.
    __array_ufunc__ = None
    __slots__ = ("data", "pythons")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: Any, pythons: bool = False) -> None:
        self.data: Any = np.asarray(data)
        self.pythons = pythons
        """Whether its items are numbers of Python's."""

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def real(self) -> Value:
        return Value(self.data.real)

    @property
    def imag(self) -> Value:
        return Value(self.data.imag)

    def conjugate(self) -> Value:
        return Value(self.data.conj())

    def view(self, dtype: Any) -> Value:
        return Value(self.data.view(getattr(dtype, "dtype", dtype)))

    def __repr__(self) -> str:
        return repr(self._known(self._plain))

    def __str__(self) -> str:
        return str(self._known(self._plain))

    def __format__(self, spec: str) -> str:
        return format(self._known(self._plain), spec)

    def _plain(self, item: np.generic) -> Any:
        return item.item() if self.pythons else item

    def __bool__(self) -> bool:
        told = ANSWER.get()
        return self._one(self.data != 0) if told is None else told(self.data)

    def __index__(self) -> int:
        return self._known(operator.index)

    def _known(self, kind: Callable[[Any], Any]) -> Any:
        """The one value of all items: Python needs it as a number of its own."""
        first = self.data.flat[0]
        self._one((self.data == first) | ((self.data != self.data) & (first != first)))
        return kind(first)

    @staticmethod
    def _one(answers: Any) -> bool:
        """The answer of all items."""
        if answers.all():
            return True
        if answers.any():
            raise Fork(answers)
        return False

    def __pow__(self, other: Any) -> Value:
        return _raised(self, other)

    def __rpow__(self, other: Any) -> Value:
        return _raised(other, self)

    def __divmod__(self, other: Any) -> tuple[Value, Value]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Value, Value]:
        return other // self, other % self


def data_of(x: Any) -> Any:
    """The array of a Value, or of a constant."""
    return x.data if isinstance(x, Value) else np.asarray(x)


def kind_of(x: Any) -> Kind:
    """The type that a Value or a constant has in NumPy's rules."""
    if isinstance(x, (int, float, complex)) and not isinstance(x, (bool, np.generic)):
        return type(x)
    if isinstance(x, Value) and x.pythons:
        return {"i": int, "u": int, "f": float, "c": complex}[x.dtype.kind]
    return data_of(x).dtype


def taken(operands: Sequence[Any], dtypes: Sequence[np.dtype]) -> list[Any]:
    """The arrays of operands in these dtypes."""
    for x, dtype in zip(operands, dtypes):
        if isinstance(x, int) and not isinstance(x, bool):
            fitting(x, dtype)
    return [data_of(x).astype(dtype) for x, dtype in zip(operands, dtypes)]


def applied(ufunc: np.ufunc, *operands: Any, fn: Callable[..., Any] | None = None) -> Value:
    """A ufunc of Values and constants. `fn` computes it where NumPy itself does not."""
    kinds = tuple(map(kind_of, operands))
    pythons = all(map(weak, kinds))
    dtypes = resolved(ufunc, tuple(map(dtype_of, kinds)) if pythons else kinds)
    made = (fn or ufunc)(*taken(operands, dtypes))
    return Value(np.asarray(made).astype(dtypes[-1], copy=False), pythons)


def _compared(ufunc: np.ufunc, *operands: Any) -> Any:
    for x in operands:
        if isinstance(x, int) and not isinstance(x, bool):
            fitting(x, np.dtype(np.uint64 if x > 0 else np.int64))
    arrays, kinds = [data_of(x) for x in operands], tuple(map(kind_of, operands))
    dtypes = compared(ufunc, kinds, tuple([x.dtype for x in arrays]))
    made = Value(ufunc(*[x.astype(d) for x, d in zip(arrays, dtypes)]))
    # Python's numbers compare to a truth of Python's: a sum of two counts them.
    return bool(made) if all(map(weak, kinds)) else made


def _raised(base: Any, exponent: Any) -> Value:
    kinds = kind_of(base), kind_of(exponent)
    pythons = all(map(weak, kinds))
    made, squares = power(dtype_of(kinds[0]) if pythons else kinds[0], kinds[1])
    if made.kind in "iu" and isinstance(exponent, int) and exponent < 0:
        raise Refused("NumPy has no integers to negative powers")
    if not squares:
        return powered(base, exponent)
    x, n = data_of(base).astype(made), data_of(exponent)
    if isinstance(exponent, int):
        return Value(_squares(x, exponent), pythons)
    raised = _power(x, n)
    if made.kind == "f" and isinstance(exponent, Value) and (far := abs(n) > _BY_SQUARES).any():
        raised = np.where(far, _REAL_POWER(*np.broadcast_arrays(x, n)), raised)
    return Value(raised, pythons)


def powered(base: Any, exponent: Any) -> Value:
    """`np.power`: of floats the C library's, also with whole exponents."""
    made = resolved(np.power, (kind_of(base), kind_of(exponent)))[-1]
    if made.kind in "iu":
        return _raised(base, exponent)
    return applied(np.power, base, exponent, fn=None if made.kind == "c" else _REAL_POWER)


def _quotient(x: Any, y: Any) -> Any:
    """x / y; complex numbers divide by Smith's method (1962), as compiled code does."""
    if x.dtype.kind != "c":
        return x / y
    wide = abs(y.real) >= abs(y.imag)
    large, small = np.where(wide, y.real, y.imag), np.where(wide, y.imag, y.real)
    ratio = small / large
    below = large + small * ratio
    z = np.empty(np.broadcast(x, y).shape, x.dtype)
    z.real = np.where(wide, x.real + x.imag * ratio, x.real * ratio + x.imag) / below
    z.imag = np.where(wide, x.imag - x.real * ratio, x.imag * ratio - x.real) / below
    return z


def _squares(base: Any, exponent: int) -> Any:
    """base to a power that stands in the function: no product has the factor 1, which makes NaN of infinite complex numbers."""
    one, made, left = np.ones_like(base), None, abs(exponent)
    while left:
        if left & 1:
            made = base if made is None else mul_arrays(made, base)
        left >>= 1
        base = mul_arrays(base, base) if left else base
    made = one if made is None else made
    return made if exponent >= 0 else _quotient(one, made)


_REAL_POWER = by_item(math.pow)
_BY_SQUARES = 1 << 16
"""The largest exponent that the compiler goes to by squares where it does not stand in the function."""


def _power(base: Any, exponent: Any) -> Any:
    """base to an integer power, by squares: the same products as compiled code makes."""
    made, inverse = np.ones(np.broadcast(base, exponent).shape, base.dtype), exponent < 0
    if base.dtype.kind in "iu":
        # As in compiled code, 1 and -1 alone have an inverse.
        base = np.where(inverse & (abs(base) != 1), 0, base).astype(base.dtype)
    with np.errstate(over="ignore"):
        left = abs(exponent).astype(np.uint64)
    while left.any():
        made = np.where(left & np.uint64(1) != 0, mul_arrays(made, base), made)
        left, base = left >> np.uint64(1), mul_arrays(base, base)
    if made.dtype.kind not in "iu" and inverse.any():
        return np.where(inverse, _quotient(np.ones_like(made), made).astype(made.dtype), made)
    return made


def _magnitude(x: Any) -> Any:
    return np.hypot(x.real, x.imag) if x.dtype.kind == "c" else abs(x)


_OPERATORS: dict[str, tuple[np.ufunc, Callable[..., Any] | None]] = {
    "add": (np.add, None), "sub": (np.subtract, None), "mul": (np.multiply, mul_arrays),
    "truediv": (np.true_divide, _quotient), "floordiv": (np.floor_divide, None), "mod": (np.remainder, None),
    "and": (np.bitwise_and, None), "or": (np.bitwise_or, None), "xor": (np.bitwise_xor, None),
    "lshift": (np.left_shift, None), "rshift": (np.right_shift, None),
}  # fmt: skip
_SIGNS = {
    "neg": (np.negative, None), "pos": (np.positive, None), "invert": (np.invert, None), "abs": (np.absolute, _magnitude),
}  # fmt: skip
_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
for _name, (_ufunc, _fn) in _OPERATORS.items():
    setattr(Value, f"__{_name}__", lambda a, b, u=_ufunc, f=_fn: applied(u, a, b, fn=f))
    setattr(Value, f"__r{_name}__", lambda b, a, u=_ufunc, f=_fn: applied(u, a, b, fn=f))
for _name, (_ufunc, _fn) in _SIGNS.items():
    setattr(Value, f"__{_name}__", lambda a, u=_ufunc, f=_fn: applied(u, a, fn=f))
for _name, _ufunc in _COMPARISONS.items():
    setattr(Value, f"__{_name}__", lambda a, b, u=_ufunc: _compared(u, a, b))
