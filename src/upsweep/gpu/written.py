"""A Python function of plain arithmetic, written as C++: the kernel is then compiled in one go, without numba-cuda.

The function runs on values that write down what is done with them, once for each of its paths. NumPy's rules say in which dtype
an operation computes. Where a compiler that gives each name one type on all paths could find another dtype, or where anything but
arithmetic is met, the function is `Unwritten`, and numba-cuda's business.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Sequence
from dis import get_instructions
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep.arithmetic import fma
from upsweep.keys import is_numpys, rebuilt
from upsweep.scalars.rules import Kind, compared, dtype_of, joined, resolved, weak

PATHS, LINES = 32, 256
"""The most paths of a function, and lines of a path, that are written: more of them are a loop, which is shorter as one."""


class Unwritten(BaseException):
    """The function does something that is not written as C++."""


class _Question(BaseException):
    """The function asks whether a value is true, and has been told no answer yet."""

    def __init__(self, condition: str) -> None:
        self.condition = condition


class _Writer:
    """What a function does, on the paths that have been taken so far."""

    def __init__(self, wanted: Sequence[np.dtype]) -> None:
        self.wanted = wanted
        self.operands: dict[Any, Any] = {}
        """What each instruction took, on every path."""
        self.results: list[set[Kind]] = [set() for _ in wanted]
        self.paths = 0
        self.lines: list[str] = []
        self.answers: list[bool] = []
        self.asked = 0

    def line(self, dtype: np.dtype, text: str) -> Value:
        name = f"t{len(self.lines)}"
        if len(self.lines) == LINES:
            raise Unwritten
        self.lines.append(f"const {_type(dtype)} {name} = {text};")
        return Value(self, dtype, name)

    def took(self, kinds: Sequence[Kind], dtypes: Sequence[Any]) -> None:
        """Unwritten, where an instruction takes operands of other kinds than on an earlier path. A number of Python's takes the
        dtype of the value that stands there on another path."""
        taken = dtypes if all(weak(k) or k == d for k, d in zip(kinds, dtypes)) else kinds
        place, frame = [], sys._getframe(1)
        while frame is not None and frame.f_code is not _run.__code__:
            if frame.f_globals.get("__name__") == _SCOPE:
                place.append((id(frame.f_code), frame.f_lasti))
            frame = frame.f_back
        if self.operands.setdefault(tuple(place), tuple(taken)) != tuple(taken):
            raise Unwritten

    def answer(self, condition: str) -> bool:
        if self.asked == len(self.answers):
            raise _Question(condition)
        self.asked += 1
        return self.answers[self.asked - 1]


_SCOPE = f"{__name__}.function"


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

    def __init__(self, writer: _Writer, kind: np.dtype, text: str) -> None:
        self.writer, self.kind, self.text = writer, kind, text

    def __bool__(self) -> bool:
        return self.writer.answer(self.text)

    def __pow__(self, exponent: Any) -> Value:
        return _squares(self, exponent)


def written(
    fn: Callable[..., Any],
    operands: Sequence[Sequence[tuple[np.dtype, str]]],
    results: Sequence[tuple[np.dtype, str]],
) -> str:
    """The lines of C++ that give the results of a function of these operands, a value or a tuple each: dtypes, and the
    variables that hold them. Unwritten, where the function is not plain arithmetic.
    """
    writer = _Writer([dtype for dtype, _ in results])
    try:
        text = _paths(_made_over(fn), operands, [place for _, place in results], writer, [])
    except Exception as error:  # the function's own, which the compiler tells in its words
        raise Unwritten from error
    for kinds, wanted in zip(writer.results, writer.wanted):
        if len(kinds) > 1 and joined(*kinds) != wanted:
            raise Unwritten
    return text


def _paths(
    fn: Any, operands: Any, places: Sequence[str], writer: _Writer, answers: list[bool], known: int = 0
) -> str:
    """The lines from the first one that is not `known`, of all paths that begin with these answers."""
    writer.answers, writer.asked, writer.lines = answers, 0, []
    try:
        ends = _run(fn, operands, writer)
    except _Question as question:
        lines = writer.lines
        yes, no = (
            _paths(fn, operands, places, writer, [*answers, told], len(lines)) for told in (True, False)
        )
        return " ".join([*lines[known:], f"if ({question.condition}) {{ {yes} }} else {{ {no} }}"])
    writer.paths += 1
    if writer.paths > PATHS:
        raise Unwritten
    return " ".join(
        [*writer.lines[known:], *(f"{place} = {end};" for place, end in zip(places, ends, strict=True))]
    )


def _run(fn: Any, operands: Any, writer: _Writer) -> list[str]:
    """The results of one path, in the dtypes that are wanted."""
    given = [tuple(Value(writer, dtype, text) for dtype, text in parts) for parts in operands]
    result = fn(*(parts[0] if len(parts) == 1 else parts for parts in given))
    parts = result if isinstance(result, tuple) else (result,)
    if isinstance(result, tuple) != (len(writer.wanted) > 1) or len(parts) != len(writer.wanted):
        raise Unwritten
    ends = []
    for part, wanted, kinds in zip(parts, writer.wanted, writer.results):
        kind = _kind(part)
        if _RANKS[dtype_of(kind).kind] > _RANKS[wanted.kind]:
            raise Unwritten
        kinds.add(kind)
        ends.append(_in(part, wanted))
    return ends


_RANKS = {"b": 1, "i": 1, "u": 1, "f": 2}
"""A result may not lose what its kind of number has; of complex numbers nothing is written."""


# --- values in C++ ------------------------------------------------------------------------------------------------------


def _type(dtype: np.dtype) -> str:
    known = dtypes.row(dtype)
    if known is None or dtype.kind not in _RANKS or known.accumulator != known.name:
        raise Unwritten
    return known.value


def _kind(x: Any) -> Kind:
    """The type that a value has in NumPy's rules."""
    if isinstance(x, Value):
        return x.kind
    x = _number(x)
    return type(x) if type(x) in (int, float) else np.asarray(x).dtype


def _in(x: Any, dtype: np.dtype) -> str:
    """A value as one of a dtype."""
    name = _type(dtype)
    if isinstance(x, Value):
        if x.kind.kind == "f" and dtype.kind != "f":
            raise Unwritten
        return x.text if x.kind == dtype else f"({name})({x.text})"
    x = _number(x)
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


def _writer_of(operands: Sequence[Any]) -> _Writer:
    writer = next((x.writer for x in operands if isinstance(x, Value)), None)
    # Numbers of Python's among themselves are the compiler's business.
    if writer is None:
        raise Unwritten
    return writer


def _applied(ufunc: np.ufunc, forms: Sequence[str | None], *operands: Any) -> Value:
    """An operation, by its text for floats, integers and truths."""
    writer, kinds = _writer_of(operands), tuple(map(_kind, operands))
    *taken, made = resolved(ufunc, kinds)
    writer.took(kinds, taken)
    if any(d != taken[0] for d in taken):
        raise Unwritten
    return _formed(writer, made, forms, [_in(x, d) for x, d in zip(operands, taken)])


def _formed(writer: _Writer, dtype: np.dtype, forms: Sequence[str | None], texts: Sequence[str]) -> Value:
    form = forms["fib".index("i" if dtype.kind == "u" else dtype.kind)]
    if form is None:
        raise Unwritten
    return writer.line(dtype, form.format(*texts, T=_type(dtype), U="u64" if dtype.itemsize == 8 else "u32"))


def _comparison(ufunc: np.ufunc, sign: str, *operands: Any) -> Value:
    writer, kinds = _writer_of(operands), tuple(map(_kind, operands))
    taken = compared(ufunc, kinds)
    writer.took(kinds, taken)
    if len({d.kind for d in taken}) > 1 or taken[0].kind not in "fiu":
        raise Unwritten
    wide = max(taken, key=lambda d: d.itemsize)
    return writer.line(np.dtype(bool), sign.join(_in(x, wide) for x in operands))


def _squares(base: Value, exponent: Any) -> Value:
    """A power by products, as the compiler makes one whose exponent stands in the function."""
    left = exponent.value if isinstance(exponent, Number) else 0
    if type(left) is not int or left < 1:
        raise Unwritten
    writer, made = base.writer, None
    writer.took((base.kind, left), (base.kind, left))

    def product(a: Value, b: Value) -> Value:
        return _formed(writer, a.kind, _OPERATORS["mul"][1], [a.text, b.text])

    while left:
        if left & 1:
            made = base if made is None else product(made, base)
        left >>= 1
        base = product(base, base) if left else base
    assert made is not None
    return made


def _extreme(sign: str) -> Callable[..., Value]:
    """min or max of Python's: the first of the operands that none of the later ones beats."""

    def call(*operands: Any) -> Value:
        writer, kinds = _writer_of(operands), tuple(map(_kind, operands))
        kind = joined(*kinds)
        writer.took(kinds, [kind] * len(kinds))
        best, *others = (_in(x, kind) for x in operands)
        for other in others:
            best = writer.line(kind, f"{other} {sign} {best} ? {other} : {best}").text
        return Value(writer, kind, best)

    return call


def _conversion(dtype: np.dtype) -> Callable[[Any], Any]:
    """A dtype of NumPy's that is called."""

    def call(x: Any) -> Any:
        if not isinstance(x, Value):
            _in(x, dtype)
            return Number(dtype.type(_number(x)))
        x.writer.took([x.kind], [x.kind])
        return x.writer.line(dtype, _in(x, dtype))

    return call


def _multiply_add(*operands: Any) -> Value:
    writer, kinds = _writer_of(operands), tuple(map(_kind, operands))
    writer.took(kinds, kinds)
    if len(set(kinds)) > 1 or kinds[0].kind != "f":
        raise Unwritten
    return writer.line(kinds[0], f"fma({', '.join(_in(x, kinds[0]) for x in operands)})")


def _wrapping(sign: str) -> str:
    """Of integers, which wrap."""
    return f"({{T}})(({{U}})({{0}}) {sign} ({{U}})({{1}}))"


_OPERATORS: dict[str, tuple[np.ufunc, Sequence[Any]]] = {
    "add": (np.add, ("{0} + {1}", _wrapping("+"), None)),
    "sub": (np.subtract, ("{0} - {1}", _wrapping("-"), None)),
    "mul": (np.multiply, ("{0} * {1}", _wrapping("*"), None)),
    "truediv": (np.true_divide, ("{0} / {1}", None, None)),
    "and": (np.bitwise_and, (None, _wrapping("&"), "{0} && {1}")),
    "or": (np.bitwise_or, (None, _wrapping("|"), "{0} || {1}")),
    "xor": (np.bitwise_xor, (None, _wrapping("^"), "{0} != {1}")),
}  # fmt: skip
_SIGNS: dict[str, tuple[np.ufunc, Sequence[Any]]] = {
    "neg": (np.negative, ("({T})-0.0 - {0}", "({T})(({U})0 - ({U})({0}))", None)),
    "pos": (np.positive, ("{0}", "{0}", None)),
    "invert": (np.invert, (None, "({T})~({U})({0})", "!{0}")),
    "abs": (np.absolute, ("fabs({0})", "{0} < 0 ? ({T})(({U})0 - ({U})({0})) : {0}", None)),
}
_COMPARISONS = {
    "lt": (np.less, " < "), "le": (np.less_equal, " <= "), "gt": (np.greater, " > "),
    "ge": (np.greater_equal, " >= "), "eq": (np.equal, " == "), "ne": (np.not_equal, " != "),
}  # fmt: skip
for _name, (_ufunc, _forms) in _OPERATORS.items():
    setattr(Value, f"__{_name}__", lambda a, b, u=_ufunc, f=_forms: _applied(u, f, a, b))
    setattr(Value, f"__r{_name}__", lambda b, a, u=_ufunc, f=_forms: _applied(u, f, a, b))
for _name, (_ufunc, _forms) in _SIGNS.items():
    setattr(Value, f"__{_name}__", lambda a, u=_ufunc, f=_forms: _applied(u, f, a))
for _name, (_ufunc, _sign) in _COMPARISONS.items():
    setattr(Value, f"__{_name}__", lambda a, b, u=_ufunc, s=_sign: _comparison(u, s, a, b))


# --- functions over again -----------------------------------------------------------------------------------------------

_NAN_FIRST = "{{0}} != {{0}} ? {{0}} : {{1}} != {{1}} ? {{1}} : {{0}} {0} {{1}} ? {{0}} : {{1}}"


def _of(ufunc: np.ufunc, *forms: str | None) -> Callable[..., Value]:
    return lambda *operands: _applied(ufunc, forms, *operands)


_KNOWN: dict[Any, Callable[..., Any]] = {
    abs: abs,
    len: len,
    range: range,
    min: _extreme("<"),
    max: _extreme(">"),
    fma: _multiply_add,
    np.absolute: abs,
    np.sqrt: _of(np.sqrt, "sqrt({0})", None, None),
    np.maximum: _of(np.maximum, _NAN_FIRST.format(">="), "{0} >= {1} ? {0} : {1}", None),
    np.minimum: _of(np.minimum, _NAN_FIRST.format("<="), "{0} <= {1} ? {0} : {1}", None),
}
_BUILTINS = {fn.__name__: fn for fn in (abs, len, range, min, max)}


_REFUSED = {"SETUP_FINALLY", "SETUP_WITH", "PUSH_EXC_INFO", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR"}
"""Instructions of `try` and `with`, which would take our exceptions, and those that change what stays when a path has ended."""


def _made_over(fn: Any) -> types.FunctionType:
    """The function, and the functions that it calls, on Values. It finds no builtins but those that are written."""
    made = rebuilt(fn, _taken, _SCOPE, _BUILTINS)
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
        return _conversion(np.dtype(value))
    if callable(value) and value in _KNOWN:
        return _KNOWN[value]
    if isinstance(value, types.FunctionType) and not is_numpys(value):
        return _made_over(value)
    return tuple(map(_taken, value)) if isinstance(value, tuple) else Number(_number(value))


def _constant(value: Any) -> Any:
    """The value that stands for one in a function's code."""
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    return Number(value) if isinstance(value, (int, float)) else _plain(value)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    raise Unwritten


def _number(value: Any) -> Any:
    """A number of Python's or NumPy's."""
    value = value.value if isinstance(value, Number) else value
    if isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        return value
    raise Unwritten


class _Module:
    """A module whose functions take Values."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _taken(getattr(self._module, name))
