"""The operations that a function may do with values: operators, comparisons, NumPy's functions, each by its text in C++."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from upsweep.arithmetic import fma
from upsweep.gpu.written.values import (
    Number,
    Unwritten,
    Value,
    Writer,
    cxx,
    kind_of,
    number,
    text_in,
    writer_of,
)
from upsweep.scalars.rules import compared, joined, resolved


def _applied(ufunc: np.ufunc, forms: Sequence[str | None], *operands: Any) -> Value:
    """An operation, by its text for floats, integers and truths."""
    writer, kinds = writer_of(operands), tuple(map(kind_of, operands))
    *taken, made = resolved(ufunc, kinds)
    writer.took(kinds, taken)
    if any(d != taken[0] for d in taken):
        raise Unwritten
    return _formed(writer, made, forms, [text_in(x, d) for x, d in zip(operands, taken)])


def _formed(writer: Writer, dtype: np.dtype, forms: Sequence[str | None], texts: Sequence[str]) -> Value:
    form = forms["fib".index("i" if dtype.kind == "u" else dtype.kind)]
    if form is None:
        raise Unwritten
    return writer.line(dtype, form.format(*texts, T=cxx(dtype), U="u64" if dtype.itemsize == 8 else "u32"))


def _comparison(ufunc: np.ufunc, sign: str, *operands: Any) -> Value:
    writer, kinds = writer_of(operands), tuple(map(kind_of, operands))
    taken = compared(ufunc, kinds)
    writer.took(kinds, taken)
    if len({d.kind for d in taken}) > 1 or taken[0].kind not in "fiu":
        raise Unwritten
    wide = max(taken, key=lambda d: d.itemsize)
    return writer.line(np.dtype(bool), sign.join(text_in(x, wide) for x in operands))


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
        writer, kinds = writer_of(operands), tuple(map(kind_of, operands))
        kind = joined(*kinds)
        writer.took(kinds, [kind] * len(kinds))
        best, *others = (text_in(x, kind) for x in operands)
        for other in others:
            best = writer.line(kind, f"{other} {sign} {best} ? {other} : {best}").text
        return Value(writer, kind, best)

    return call


def conversion(dtype: np.dtype) -> Callable[[Any], Any]:
    """A dtype of NumPy's that is called."""

    def call(x: Any) -> Any:
        if not isinstance(x, Value):
            text_in(x, dtype)
            return Number(dtype.type(number(x)))
        x.writer.took([x.kind], [x.kind])
        return x.writer.line(dtype, text_in(x, dtype))

    call.dtype = dtype  # type: ignore[attr-defined]
    return call


def _view(x: Value, kind: Any) -> Value:
    """The bits of a float as an integer, or those of an integer as a float."""
    x.writer.took([x.kind], [x.kind])
    seen = _SEEN.get((x.kind.str[1:], kind.dtype.str[1:]))
    if seen is None:
        raise Unwritten
    return x.writer.line(kind.dtype, f"{seen}({x.text})")


_SEEN = {
    ("f4", "i4"): "__float_as_int",
    ("i4", "f4"): "__int_as_float",
    ("f8", "i8"): "__double_as_longlong",
    ("i8", "f8"): "__longlong_as_double",
}


def _shifted(x: Value, count: Any) -> Value:
    """An integer times a power of two, whose exponent stands in the function and is less than the integer's bits."""
    places = int(number(count)) if isinstance(count, Number) else -1
    if not 0 <= places < 8 * x.kind.itemsize:
        raise Unwritten
    return _applied(np.left_shift, (None, "({T})(({U})({0}) << {1})", None), x, count)


def _multiply_add(*operands: Any) -> Value:
    writer, kinds = writer_of(operands), tuple(map(kind_of, operands))
    writer.took(kinds, kinds)
    if len(set(kinds)) > 1 or kinds[0].kind != "f":
        raise Unwritten
    return writer.line(kinds[0], f"fma({', '.join(text_in(x, kinds[0]) for x in operands)})")


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


def _methods() -> Iterator[tuple[str, Callable[..., Value]]]:
    """The operators of a Value, by their names in Python."""
    yield "pow", _squares
    yield "lshift", _shifted
    for name, (ufunc, forms) in _OPERATORS.items():
        yield name, lambda a, b, u=ufunc, f=forms: _applied(u, f, a, b)
        yield f"r{name}", lambda b, a, u=ufunc, f=forms: _applied(u, f, a, b)
    for name, (ufunc, forms) in _SIGNS.items():
        yield name, lambda a, u=ufunc, f=forms: _applied(u, f, a)
    for name, (ufunc, sign) in _COMPARISONS.items():
        yield name, lambda a, b, u=ufunc, s=sign: _comparison(u, s, a, b)


for _name, _method in _methods():
    setattr(Value, f"__{_name}__", _method)
Value.view = _view  # type: ignore[attr-defined]


_NAN_FIRST = "{{0}} != {{0}} ? {{0}} : {{1}} != {{1}} ? {{1}} : {{0}} {0} {{1}} ? {{0}} : {{1}}"


def _of(ufunc: np.ufunc, *forms: str | None) -> Callable[..., Value]:
    return lambda *operands: _applied(ufunc, forms, *operands)


KNOWN: dict[Any, Callable[..., Any]] = {
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
