"""The one table of built-in operators: whatever knows an operator by name reads its row here."""

from __future__ import annotations

import copyreg
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import add, and_, mul, or_, xor
from typing import Any

import numpy as np

from upsweep import arithmetic as do
from upsweep import dtypes, elsewhere
from upsweep.function import Function, parameters, unchanged
from upsweep.keys import OperatorError, freeze, remembered
from upsweep.operator import Operator


@dataclass(frozen=True)
class Variant:
    """One way to compute an operator: the same arithmetic, operation by operation, for every engine."""

    fn: Callable[..., Any]
    """The function on two scalars (or tuples of scalars); the function that finishes a scan takes one."""
    functor: str
    """The C++ name in gpu/kernels/operators.cuh."""
    twin: Callable[..., Any] | None = None
    """On whole NumPy arrays (or tuples of them), with the same bits; None where only `fn` has them."""
    state: str = ""
    """The functor where a scan in order wants the last component alone, if that is another one."""
    identity: Any = None
    """Where it is not the row's."""
    numbers: do.LogAddExp | None = None
    """Constants that the functor is given as its template argument Numbers."""
    free: str = ""
    """Kinds of accumulators for which every order of evaluation gives the same bits: integers and booleans; floats where one of
    two pairs stays as it is. Such a variant has an instruction in `vector`."""
    vector: str = ""
    """For the kinds that are `free`, LLVM's instruction on whole vectors. Some words stand for no instruction: "<" and ">" take
    the smaller and the larger operand, "right" takes the later one. "<=" and ">=" take the earlier pair where its first component
    compares so or is NaN, else the later pair. Of floats, too, "<" and ">" give the same in every order, unless one is NaN.
    """
    functor_free: str = ""
    """Other kinds for which the functor gives the same bits in every order. Of NaNs, the least and the largest of floats keep the
    first one, or one that is always the same; the last of floats keeps the first, where all are."""


@dataclass(frozen=True)
class Row:
    """Everything that is known of one built-in operator."""

    name: str
    help: str
    """The result in words, one line."""
    kinds: str
    """NumPy kind codes of the dtypes that it takes."""
    variant: Variant
    identity: Any = None
    commutative: bool = True
    variants: Mapping[str, Variant] = field(default_factory=dict)
    """Other ways for dtypes by their code, such as "b1" or "f4"; "m8" and "M8" are times, computed as int64."""
    arity: int = 1
    alike: bool = False
    """Whether the functor wants one dtype for all components."""
    costly: bool = False
    """Whether it takes many instructions."""
    slopes: Callable[[Any, Any, Any], tuple[Any, Any]] | None = None
    """`slopes(xp, a, b)`: the derivatives of `a ⊕ b` by a and by b, in an array library; None: derived from the function."""
    ufuncs: tuple[str, ...] = ()
    """NumPy's names for it."""

    def operator(self) -> Operator:
        """The operator itself."""
        special = {
            code: Operator(
                variant.fn,
                self.identity if variant.identity is None else variant.identity,
                self.name,
                self.commutative,
                self.kinds,
                {},
                self.arity,
            )
            for code, variant in self.variants.items()
        }
        return Operator(
            self.variant.fn, self.identity, self.name, self.commutative, self.kinds, special, self.arity
        )


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind == "f" else dtype.kind != "b" and np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    return np.inf if dtype.kind == "f" else dtype.kind == "b" or np.iinfo(dtype).max


def _ones(dtype: np.dtype) -> Any:
    return True if dtype.kind == "b" else ~dtype.type(0)


def _not_a_number(dtype: np.dtype) -> Any:
    return np.nan if dtype.kind in "fc" else None


def _choice(xp: Any, later: Any, a: Any) -> tuple[Any, Any]:
    """The later one of equal items has the gradient, as with `torch.cummax`."""
    one, none = xp.ones_like(a), xp.zeros_like(a)
    return xp.where(later, none, one), xp.where(later, one, none)


def _of_logaddexp(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    # The gap of two equal infinities is 0, where their difference is NaN. That of equal numbers keeps its own derivatives.
    gap = a - b
    gap = xp.where((a == b) & (gap != gap), xp.zeros_like(a), gap)
    return xp.sigmoid(gap), xp.sigmoid(-gap)


_OR = Variant(do.bit_or, "Scalar<Or>", do.bit_or, free="biu", vector="or_")
_AND = Variant(do.bit_and, "Scalar<And>", do.bit_and, free="biu", vector="and_")
_REALS = {"f4": (np.float32, np.int32), "f8": (np.float64, np.int64)}
_EXTREMES = {code: do.extremes_in(*pair) + do.extreme_arrays_in(*pair) for code, pair in _REALS.items()}
_MAX_TIMES = Variant(do.maximum_times, "Scalar<MaxTimes>", do.maximum_times_arrays, identity=do.NAT + 1)
_LAST_TIMES = Variant(do.last_times, "Scalar<LastTimes>", do.last_times_arrays, functor_free="i")
_LOG_ADD_EXP = {
    code: Variant(do.logaddexp_in(numbers), "Scalar<LogAddExp<Numbers>>", numbers=numbers)
    for code, numbers in do.LOG_ADD_EXP.items()
}

ROWS = (
    Row(
        "add", "the sum; logical or of booleans; wraps in integers", "biufcm",
        Variant(do.add, "Scalar<Add>", do.add, free="iu", vector="add"), 0,
        variants={"b1": _OR, "m8": Variant(do.add_times, "Scalar<AddTimes>", do.add_times_arrays)},
        slopes=lambda xp, a, b: (xp.ones_like(a), xp.ones_like(b)), ufuncs=("add",),
    ),
    Row(
        "mul", "the product; logical and of booleans; wraps in integers", "biufc",
        Variant(do.mul, "Scalar<Mul>", do.mul_arrays, free="iu", vector="mul"), 1,
        variants={"b1": _AND}, slopes=lambda xp, a, b: (b, a), ufuncs=("multiply",),
    ),
    Row(
        "min", "the smaller; NaN where either is one, and -0 below 0", "biufmM",
        Variant(do.minimum, "Scalar<Min>", np.minimum, free="iu", vector="<"), _highest,
        variants={
            "b1": _AND,
            **{c: Variant(fs[0], "Scalar<Min>", fs[2], vector="<", functor_free="f") for c, fs in _EXTREMES.items()},
        },
        slopes=lambda xp, a, b: _choice(xp, (b <= a) | (b != b), a), ufuncs=("minimum",),
    ),
    Row(
        "max", "the larger; NaN where either is one, and -0 below 0", "biufmM",
        Variant(do.maximum, "Scalar<Max>", np.maximum, free="iu", vector=">"), _lowest,
        variants={
            "b1": _OR, "m8": _MAX_TIMES, "M8": _MAX_TIMES,
            **{c: Variant(fs[1], "Scalar<Max>", fs[3], vector=">", functor_free="f") for c, fs in _EXTREMES.items()},
        },
        slopes=lambda xp, a, b: _choice(xp, (b >= a) | (b != b), a), ufuncs=("maximum",),
    ),
    Row("and", "bitwise and", "biu", _AND, _ones, ufuncs=("bitwise_and",)),
    Row("or", "bitwise or", "biu", _OR, 0, ufuncs=("bitwise_or",)),
    Row(
        "xor", "bitwise exclusive or", "biu",
        Variant(do.bit_xor, "Scalar<Xor>", do.bit_xor, free="biu", vector="xor"), 0, ufuncs=("bitwise_xor",),
    ),
    Row(
        "logaddexp", "log(exp(a) + exp(b)) without overflow", "f", _LOG_ADD_EXP["f8"], -np.inf,
        variants={"f4": _LOG_ADD_EXP["f4"]}, costly=True, slopes=_of_logaddexp, ufuncs=("logaddexp",),
    ),
    Row(
        "affine", "x -> a x + b after another such map, of arrays (a, b)", "iufc",
        Variant(do.affine, "Affine", do.affine_arrays, "AffineState"), (1, 0), False, arity=2, alike=True,
    ),
    Row(
        "argmax", "the larger of (value, index), the first of equals; a NaN stays", "iuf",
        Variant(do.argmax, "ArgMax", do.argmax_arrays, free="iuf", vector=">="), None, False, arity=2,
    ),
    Row(
        "argmin", "the smaller of (value, index), the first of equals; a NaN stays", "iuf",
        Variant(do.argmin, "ArgMin", do.argmin_arrays, free="iuf", vector="<="), None, False, arity=2,
    ),
    Row(
        "last", "the last that is not NaN (or not-a-time): forward fill", "biufcmM",
        Variant(do.last, "Scalar<Last>", do.last_arrays, free="biu", vector="right", functor_free="fc"),
        _not_a_number, False,
        variants={"m8": _LAST_TIMES, "M8": _LAST_TIMES},
        slopes=lambda xp, a, b: _choice(xp, b == b, a),
    ),
)  # fmt: skip

ADJOINT_ROWS = (
    Row(
        "adjoint of a recurrence", "a step back through h = a h + b, on (gradient of h, a, h before)", "fc",
        Variant(do.adjoint, "Adjoint", do.adjoint), None, False, arity=3, alike=True,
    ),
    Row(
        "gradients of a recurrence", "of b and of a, from what the step back leaves", "fc",
        Variant(do.products, "Products", do.products), None, False, arity=3, alike=True,
    ),
)  # fmt: skip
"""The operators of a recurrence's gradient; the first is not associative, and runs in order alone."""

ADJOINT, PRODUCTS = (row.operator() for row in ADJOINT_ROWS)


def _of_parts(size: int) -> dict[tuple[str, str, int], Row]:
    parts, of = ("bytes", "BytesOf") if size == 1 else ("halves", "HalvesOf")
    (smaller, larger), (smaller_signed, larger_signed) = (
        do.extremes_of_parts(size, signed) for signed in (False, True)
    )
    lowest, added = (0x80808080, "AddBytes") if size == 1 else (0x80008000, "HalvesOf<__vadd2>")
    return {
        (vector, kinds, size): Row(
            f"{name} of {parts}", f"{what} of words", "u",
            Variant(fn, f"Scalar<{functor}>", fn, functor_free="u"), identity,
        )
        for vector, kinds, name, what, fn, functor, identity in (
            ("add", "iu", "add", "the sums of parts", do.sums_of_parts(size), added, 0),
            ("<", "u", "min u", "the smaller of parts", smaller, f"{of}<__vminu2>", 0xFFFFFFFF),
            ("<", "i", "min i", "the smaller of signed parts", smaller_signed, f"{of}<__vmins2>", 0xFFFFFFFF - lowest),
            (">", "u", "max u", "the larger of parts", larger, f"{of}<__vmaxu2>", 0),
            (">", "i", "max i", "the larger of signed parts", larger_signed, f"{of}<__vmaxs2>", lowest),
        )
    }  # fmt: skip


PARTS_ROWS = _of_parts(1) | _of_parts(2)
"""Operators on the bytes or halves of words, by the instruction, the kinds and the size of the operator on one of them."""

TABLE: dict[str, Row] = {row.name: row for row in ROWS}
BUILTIN: dict[str, Operator] = {name: row.operator() for name, row in TABLE.items()}


class ops:
    """The built-in operators, `ops.MAX` for instance, which the name "max" means too."""

    ADD = BUILTIN["add"]
    MUL = BUILTIN["mul"]
    MIN = BUILTIN["min"]
    MAX = BUILTIN["max"]
    AND = BUILTIN["and"]
    OR = BUILTIN["or"]
    XOR = BUILTIN["xor"]
    LOGADDEXP = BUILTIN["logaddexp"]
    AFFINE = BUILTIN["affine"]
    ARGMAX = BUILTIN["argmax"]
    ARGMIN = BUILTIN["argmin"]
    LAST = BUILTIN["last"]


# --- what computes with which row ---------------------------------------------------------------------------------------


@cache
def _by_function() -> dict[Any, list[tuple[Row, str, Variant]]]:
    """The rows and variants that a function computes, made by the first scan: an import need not wait for them."""
    found: dict[Any, list[tuple[Row, str, Variant]]] = {}
    for row in (*ROWS, *ADJOINT_ROWS, *PARTS_ROWS.values()):
        for code, variant in (("", row.variant), *row.variants.items()):
            found.setdefault(freeze(variant.fn), []).append((row, code, variant))
    return found


def variant_of(op: Operator | Function, accumulators: Sequence[np.dtype]) -> tuple[Row, Variant] | None:
    """The row and the variant whose function an operator computes with on these accumulators, whatever the operator is called;
    None for any other function.

    >>> f4 = np.dtype("f4")
    >>> variant_of(ops.ADD, [f4])[1].functor, variant_of(Operator(lambda a, b: a + b), [f4])[0].name
    ('Scalar<Add>', 'add')
    >>> variant_of(Operator(lambda a, b: a - b), [f4])
    """
    kinds = {d.kind for d in accumulators}
    for row, code, variant in _by_function().get(op.key[0], ()):
        computed = "i8" if code[:1] in ("m", "M") else code
        own = dtypes.code(accumulators[0])
        here = (
            computed == own if code else kinds <= set(row.kinds) and row.variants.get(own, variant) == variant
        )
        if here and len(accumulators) == row.arity and not (row.alike and len(set(accumulators)) > 1):
            return row, variant
    return None


def free(op: Operator, accumulators: Sequence[np.dtype]) -> bool:
    """Whether every order of evaluation gives the same bits: built-in operators on booleans and on integers, which wrap, and
    those that leave one of two pairs as it is."""
    known = variant_of(op, accumulators)
    return known is not None and all(d.kind in known[1].free for d in accumulators)


def extreme(op: Operator, accumulators: Sequence[np.dtype]) -> bool:
    """Whether it is the least or the largest of floats: one of the items, the same in every order, unless one is NaN, whose bits
    are mixed with those of others."""
    known = variant_of(op, accumulators)
    return known is not None and known[1].vector in ("<", ">") and accumulators[0].kind == "f"


@cache
def _on_words() -> dict[tuple[str, str, int], Operator]:
    rows = PARTS_ROWS.items()
    found = {(vector, kind, size): row.operator() for (vector, kinds, size), row in rows for kind in kinds}
    bits = {"and_": ops.AND, "or_": ops.OR, "xor": ops.XOR}
    return found | {
        (vector, kind, size): op for vector, op in bits.items() for kind in "biu" for size in (1, 2)
    }


def on_words(op: Operator, part: np.dtype) -> Operator | None:
    """The operator that computes all bytes or halves of a word at once, or None where there is none.

    >>> truth, byte = np.dtype(bool), np.dtype("i1")
    >>> on_words(ops.MAX.special["b1"], truth) is ops.OR, on_words(ops.MAX, byte).name, on_words(ops.MUL, byte)
    (True, 'max i of bytes', None)
    """
    known = variant_of(op, (part,))
    return known and _on_words().get((known[1].vector, part.kind, part.itemsize))


# --- operators by name, by ufunc, by function ---------------------------------------------------------------------------


def as_operator(op: Operator | str | Callable[[Any, Any], Any]) -> Operator:
    """An operator from its name, a Python function, or itself.

    >>> as_operator("max") is ops.MAX
    True
    """
    if isinstance(op, Operator):
        if op is not BUILTIN.get(op.name or ""):
            unchanged(op)
        return op
    if isinstance(op, str):
        if op not in BUILTIN:
            raise OperatorError(
                f"no operator is called {op!r}{elsewhere.said(op, elsewhere.OPERATORS)}; there are {', '.join(BUILTIN)}, "
                "or pass a function"
            )
        return BUILTIN[op]
    if isinstance(op, (np.ufunc, types.BuiltinFunctionType)):
        return _operator_of_c(op)
    return _operator_of(op) if isinstance(op, types.FunctionType) else Operator(op)


_OF_C: dict[Any, Operator] = {
    **{getattr(np, ufunc): BUILTIN[row.name] for row in ROWS for ufunc in row.ufuncs},
    max: ops.MAX, min: ops.MIN, add: ops.ADD, mul: ops.MUL, and_: ops.AND, or_: ops.OR, xor: ops.XOR,
    # NumPy makes truths of numbers here, so these operators take booleans alone.
    np.logical_and: Operator(do.bit_and, True, "logical_and", True, "b", {}, 1),
    np.logical_or: Operator(do.bit_or, False, "logical_or", True, "b", {}, 1),
    np.logical_xor: Operator(do.bit_xor, False, "logical_xor", True, "b", {}, 1),
}  # fmt: skip


@cache
def _operator_of_c(fn: Any) -> Operator:
    """The operator of a ufunc of NumPy, or of a function of Python's such as `max`, `operator.add` or `math.gcd`."""
    if isinstance(fn, np.ufunc) and fn.signature is not None:
        raise OperatorError(f"np.{fn.__name__} takes arrays; pass an operator of two numbers")
    if isinstance(fn, np.ufunc) and (fn.nin, fn.nout) != (2, 1):
        raise OperatorError(
            f"np.{fn.__name__} takes {fn.nin} operands and gives {fn.nout}; an operator takes 2 and gives 1"
        )
    return _OF_C.get(fn) or Operator(fn, getattr(fn, "identity", None), fn.__name__)


def _of_two(fn: types.FunctionType) -> Operator:
    least, most = parameters(fn)
    if not least <= 2 <= most:
        raise OperatorError(
            f"an operator takes two operands, and {fn.__name__} has {least} parameters without a default"
        )
    return Operator(fn)


_operator_of = remembered(_of_two)


def _reduced(op: Operator) -> tuple[Any, ...]:
    """Built-in operators travel by name: their functions are closures."""
    for name, row in BUILTIN.items():
        for code, variant in [("", row), *row.special.items()]:
            if variant is op:
                return _builtin, (name, code)
    return op.__reduce__()


def _builtin(name: str, code: str) -> Operator:
    return BUILTIN[name].special[code] if code else BUILTIN[name]


copyreg.pickle(Operator, _reduced)  # type: ignore[arg-type]
