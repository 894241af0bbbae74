"""A Python function of two scalars, on whole arrays, with the types and the bits of its compiled self.

A `Value` is one variable of the function for many items at once. Its arithmetic follows the compiler's rules for scalars,
which are not NumPy's for arrays: integers are widened to 64 bits, a Python float is a float64. Where the function asks
whether a Value is true, and items differ, it runs again for those of each answer: every path is taken by whole arrays.

The compiler gives a name one type on all paths; here a path keeps its own, and what all paths return has one type at the end.
A float32 that is a float64 on another path may so differ in its last bit.
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

Columns = Sequence[Any]

_INT, _UINT, _FLOAT = np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float64)
_NARROW = ("b1", "i1", "i2", "u1")
"""The integers that float32 takes in as they are; beside wider ones it becomes float64."""


ANSWER: ContextVar[Callable[[Any], bool] | None] = ContextVar("answer", default=None)
"""What says whether a Value is true, where that is not for its items to say."""


class Fork(BaseException):
    """Items differ in what the function asks: those where `here` holds go one way, the others another."""

    def __init__(self, here: Any) -> None:
        self.here = here


CACHED = 1 << 16
"""Items that are taken at once. A million of logaddexp: 2^12 9.3 s, 2^14 6.4 s, 2^16 5.7 s, all at once 10.3 s."""


def evaluate(
    fn: Callable[..., Any], arguments: Sequence[Columns], columns: Callable[[Any], Columns], count: int
) -> list[Any]:
    """fn on the items of arrays of one shape: of each argument one, or one a component. `columns` makes `count` arrays of what it
    returns."""
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
    """Component c of all paths, in the dtype that can hold what each of them returns."""
    made = np.empty(size, np.result_type(*(columns[c].dtype for _, columns in taken)) if taken else bool)
    for items, columns in taken:
        made[items] = columns[c]
    return made


def operand(columns: Columns) -> Any:
    return Value(columns[0]) if len(columns) == 1 else tuple(map(Value, columns))


class Value:
    """One variable of a compiled function, for many items: an array of theirs, or of none for a constant."""

    __array_ufunc__ = None  # NumPy's scalars leave operators with a Value to it
    __slots__ = ("data",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: Any) -> None:
        self.data: Any = np.asarray(data)

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

    def __bool__(self) -> bool:
        told = ANSWER.get()
        return self._one(self.data != 0) if told is None else told(self.data)

    def __index__(self) -> int:
        return self._known(operator.index)

    def _known(self, kind: Callable[[Any], Any]) -> Any:
        """The one value that all items have: Python needs it as a number of its own."""
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

    def __neg__(self) -> Value:
        return Value(-_widened(self.data))

    def __pos__(self) -> Value:
        return Value(_widened(self.data))

    def __invert__(self) -> Value:
        return Value(~self.data if self.dtype.kind == "b" else ~_widened(self.data))

    def __abs__(self) -> Value:
        if self.dtype.kind == "c":
            return Value(np.hypot(self.data.real, self.data.imag))
        return Value(abs(self.data) if self.dtype.kind != "b" else self.data.astype(np.int8))

    def __add__(self, other: Any) -> Value:
        return _arithmetic(np.add, self, other)

    def __sub__(self, other: Any) -> Value:
        return _arithmetic(np.subtract, self, other)

    def __mul__(self, other: Any) -> Value:
        return _arithmetic(mul_arrays, self, other)

    def __floordiv__(self, other: Any) -> Value:
        return _arithmetic(np.floor_divide, self, other)

    def __mod__(self, other: Any) -> Value:
        return _arithmetic(np.remainder, self, other)

    def __truediv__(self, other: Any) -> Value:
        return _arithmetic(_quotient, self, other, least=_FLOAT)

    def __pow__(self, other: Any) -> Value:
        a, b = data_of(self), data_of(other)
        if b.dtype.kind not in "biu":
            return _arithmetic(np.power if "c" in (a.dtype.kind, b.dtype.kind) else _REAL_POWER, self, other)
        kind = b.dtype if a.dtype.kind in "biu" else a.dtype
        return Value(_power(a.astype(common(a.dtype, kind)), b))

    def __and__(self, other: Any) -> Value:
        return _bitwise(np.bitwise_and, self, other)

    def __or__(self, other: Any) -> Value:
        return _bitwise(np.bitwise_or, self, other)

    def __xor__(self, other: Any) -> Value:
        return _bitwise(np.bitwise_xor, self, other)

    def __lshift__(self, other: Any) -> Value:
        return _shift(np.left_shift, self, other)

    def __rshift__(self, other: Any) -> Value:
        return _shift(np.right_shift, self, other)

    def __divmod__(self, other: Any) -> tuple[Value, Value]:
        return self // other, self % other

    def __radd__(self, other: Any) -> Value:
        return Value(other) + self

    def __rsub__(self, other: Any) -> Value:
        return Value(other) - self

    def __rmul__(self, other: Any) -> Value:
        return Value(other) * self

    def __rfloordiv__(self, other: Any) -> Value:
        return Value(other) // self

    def __rmod__(self, other: Any) -> Value:
        return Value(other) % self

    def __rtruediv__(self, other: Any) -> Value:
        return Value(other) / self

    def __rpow__(self, other: Any) -> Value:
        return Value(other) ** self

    def __rand__(self, other: Any) -> Value:
        return Value(other) & self

    def __ror__(self, other: Any) -> Value:
        return Value(other) | self

    def __rxor__(self, other: Any) -> Value:
        return Value(other) ^ self

    def __rlshift__(self, other: Any) -> Value:
        return Value(other) << self

    def __rrshift__(self, other: Any) -> Value:
        return Value(other) >> self

    def __lt__(self, other: Any) -> Value:
        return Value(self.data < data_of(other))

    def __le__(self, other: Any) -> Value:
        return Value(self.data <= data_of(other))

    def __gt__(self, other: Any) -> Value:
        return Value(self.data > data_of(other))

    def __ge__(self, other: Any) -> Value:
        return Value(self.data >= data_of(other))

    def __eq__(self, other: Any) -> Any:
        return Value(self.data == data_of(other))

    def __ne__(self, other: Any) -> Any:
        return Value(self.data != data_of(other))


def data_of(x: Any) -> Any:
    """The array of a Value, or of a constant: a Python number is an int64, a float64 or a complex128."""
    return x.data if isinstance(x, Value) else np.asarray(x)


def common(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype that the compiler computes `a + b` of two scalars in."""
    if "c" not in (a.kind, b.kind) and "f" not in (a.kind, b.kind):
        return _UINT if a.kind == b.kind == "u" else _INT
    narrow = all(d.str[1:] in (*_NARROW, "f4", "c8") for d in (a, b))
    if "c" in (a.kind, b.kind):
        return np.dtype(np.complex64 if narrow else np.complex128)
    return np.dtype(np.float32 if narrow else np.float64)


def _widened(x: Any) -> Any:
    return x.astype(common(x.dtype, x.dtype))


def _arithmetic(fn: Callable[..., Any], a: Any, b: Any, least: np.dtype | None = None) -> Value:
    x, y = data_of(a), data_of(b)
    dtype = common(x.dtype, y.dtype)
    if least is not None and dtype.kind in "iu":
        dtype = least
    return Value(fn(x.astype(dtype), y.astype(dtype)))


def _bitwise(fn: Callable[..., Any], a: Any, b: Any) -> Value:
    x, y = data_of(a), data_of(b)
    return Value(fn(x, y)) if x.dtype.kind == y.dtype.kind == "b" else _arithmetic(fn, a, b)


def _shift(fn: Callable[..., Any], a: Any, b: Any) -> Value:
    x = _widened(data_of(a))
    return Value(fn(x, data_of(b).astype(x.dtype)))


def _quotient(x: Any, y: Any) -> Any:
    """x / y; of complex numbers by Smith's method (1962), as compiled."""
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


_REAL_POWER = by_item(math.pow)


def _power(base: Any, exponent: Any) -> Any:
    """base to an integer power, by squares: the products that compiled code makes."""
    left, made = abs(exponent), np.ones(np.broadcast(base, exponent).shape, base.dtype)
    while left.any():
        made = np.where(left & 1 != 0, mul_arrays(made, base), made)
        left, base = left >> 1, mul_arrays(base, base)
    if (exponent < 0).any():
        return np.where(exponent < 0, _quotient(np.ones_like(made), made).astype(base.dtype), made)
    return made
