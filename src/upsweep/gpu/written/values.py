"""The values that a function runs on: they write down in C++ what is done with them, and their dtypes follow NumPy's rules."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep.scalars.rules import Kind, dtype_of, weak

LINES = 256
"""The most lines of a path that are written: more of them are a loop, which is shorter as one."""
SCOPE = f"{__name__}.function"
"""The name of the module that the functions that are run stand in."""


class Unwritten(BaseException):
    """The function does something that is not written as C++."""


class Question(BaseException):
    """The function asks whether a value is true, and has been told no answer yet."""

    def __init__(self, condition: str) -> None:
        self.condition = condition


class Writer:
    """The instructions of a function, on the paths that have been taken so far."""

    def __init__(self, wanted: Sequence[np.dtype]) -> None:
        self.wanted = wanted
        self.operands: dict[Any, Any] = {}
        """The operands of each instruction, on every path."""
        self.results: list[set[Kind]] = [set() for _ in wanted]
        self.paths = 0
        self.lines: list[str] = []
        self.answers: list[bool] = []
        self.asked = 0

    def path(self, fn: Any, operands: Any) -> list[str]:
        """The results of one path, in the dtypes that are wanted."""
        given = [tuple(Value(self, dtype, text) for dtype, text in parts) for parts in operands]
        result = fn(*(parts[0] if len(parts) == 1 else parts for parts in given))
        parts = result if isinstance(result, tuple) else (result,)
        if isinstance(result, tuple) != (len(self.wanted) > 1) or len(parts) != len(self.wanted):
            raise Unwritten
        ends = []
        for part, wanted, kinds in zip(parts, self.wanted, self.results):
            kind = kind_of(part)
            if _RANKS[dtype_of(kind).kind] > _RANKS[wanted.kind]:
                raise Unwritten
            kinds.add(kind)
            ends.append(text_in(part, wanted))
        return ends

    def line(self, dtype: np.dtype, text: str) -> Value:
        name = f"t{len(self.lines)}"
        if len(self.lines) == LINES:
            raise Unwritten
        self.lines.append(f"const {cxx(dtype)} {name} = {text};")
        return Value(self, dtype, name)

    def took(self, kinds: Sequence[Kind], dtypes: Sequence[Any]) -> None:
        """Unwritten, where an instruction takes operands of other kinds than on an earlier path. A number of Python's takes the
        dtype of the value that stands there on another path."""
        taken = dtypes if all(weak(k) or k == d for k, d in zip(kinds, dtypes)) else kinds
        place, frame = [], sys._getframe(1)
        while frame is not None and frame.f_code is not Writer.path.__code__:
            if frame.f_globals.get("__name__") == SCOPE:
                place.append((id(frame.f_code), frame.f_lasti))
            frame = frame.f_back
        if self.operands.setdefault(tuple(place), tuple(taken)) != tuple(taken):
            raise Unwritten

    def answer(self, condition: str) -> bool:
        if self.asked == len(self.answers):
            raise Question(condition)
        self.asked += 1
        return self.answers[self.asked - 1]


class Number:
    """A number of Python's that stands in a function."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self.value = value

    def __index__(self) -> int:
        if type(self.value) is not int:
            raise Unwritten
        return self.value

    def __neg__(self) -> Number:
        if isinstance(self.value, np.integer):
            raise Unwritten
        return Number(-self.value)

    def __bool__(self) -> bool:
        raise Unwritten

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Value):
            return NotImplemented
        raise Unwritten


class Value:
    """A scalar of NumPy's, by the name of a variable of C++."""

    # With this, NumPy's scalars leave operators with a Value to the Value.
    __array_ufunc__ = None
    __slots__ = ("kind", "text", "writer")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, writer: Writer, kind: np.dtype, text: str) -> None:
        self.writer, self.kind, self.text = writer, kind, text

    def __bool__(self) -> bool:
        return self.writer.answer(self.text)


_RANKS = {"b": 1, "i": 1, "u": 1, "f": 2}
"""A result may not lose what its kind of number has; of complex numbers nothing is written."""


# --- in C++ ---------------------------------------------------------------------------------------------------------------


def cxx(dtype: np.dtype) -> str:
    """The type in C++."""
    known = dtypes.row(dtype)
    if known is None or dtype.kind not in _RANKS or known.accumulator != known.name:
        raise Unwritten
    return known.value


def kind_of(x: Any) -> Kind:
    """The type that a value has in NumPy's rules."""
    if isinstance(x, Value):
        return x.kind
    x = number(x)
    return type(x) if type(x) in (int, float) else np.asarray(x).dtype


def text_in(x: Any, dtype: np.dtype) -> str:
    """A value as one of a dtype."""
    name = cxx(dtype)
    if isinstance(x, Value):
        if x.kind.kind == "f" and dtype.kind != "f":
            raise Unwritten
        return x.text if x.kind == dtype else f"({name})({x.text})"
    x = number(x)
    fraction = isinstance(x, (float, np.floating))
    if dtype.kind == "f":
        # A larger whole number would be rounded twice.
        if math.isnan(x) or (abs(x) > 2**53 and not fraction):
            raise Unwritten
        with np.errstate(over="ignore"):
            value = float(dtype.type(x))
        text = value.hex() if math.isfinite(value) else f"__longlong_as_double({_BITS[value]}ll)"
        return f"({name}){text}"
    if fraction or not (dtype.kind == "b" or np.iinfo(dtype).min <= x <= np.iinfo(dtype).max):
        raise Unwritten
    return f"({name}){int(x) % (1 << 64)}ull"


_BITS = {math.inf: "0x7ff0000000000000", -math.inf: "0xfff0000000000000"}


def writer_of(operands: Sequence[Any]) -> Writer:
    """The writer of the values among operands."""
    writer = next((x.writer for x in operands if isinstance(x, Value)), None)
    # Numbers of Python's among themselves are the compiler's business.
    if writer is None:
        raise Unwritten
    return writer


def number(value: Any) -> Any:
    """A number of Python's or NumPy's."""
    value = value.value if isinstance(value, Number) else value
    if isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        return value
    raise Unwritten
