"""Operators: a function of two operands and the laws that it promises.

Associativity is assumed of every operator; an identity and commutativity are promised by name, never guessed. The left
operand is always the earlier one. Built-in operators are plain Python functions like any user's, so that the oracle,
the CPU and the tracer run the very same lines.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

NAT = np.int64(np.iinfo(np.int64).min)
"""datetime64 and timedelta64 keep not-a-time in the smallest int64."""


class OperatorError(TypeError):
    """The operator cannot do what the call asks: a wrong dtype, a missing identity, an unusable function."""


@dataclass(frozen=True, eq=False)
class Operator:
    """An associative function of two operands, the left one the earlier.

    Args:
        fn: `fn(a, b)` on two scalars; for a tuple of arrays, on two tuples of scalars, returning such a tuple. It is
            compiled for the engine that runs it, so it uses arithmetic, comparisons, `math` and NumPy scalars.
            It must return for every two operands: a GPU calls it on some that are no neighbours, and drops the result.
        identity: the value e with `fn(e, x) == x`, a tuple for tuples. Only an exclusive scan without `initial` and a
            reduction of nothing need it.
        name: what error messages and plans call it.
        commutative: whether `fn(a, b) == fn(b, a)`. No engine relies on it; `upsweep.check` tests it.

    The key of an operator is its code, defaults, closure and the globals it uses: two operators of one key share their
    compiled code, and an edited function never meets the old one.

    >>> import upsweep as up
    >>> left_or_right = up.Operator(lambda a, b: b if b >= 0 else a, name="last valid")
    >>> up.scan([3, -1, -1, 5, -1], left_or_right).tolist()
    [3, 3, 3, 5, 5]
    """

    fn: Callable[[Any, Any], Any]
    identity: Any = None
    name: str | None = None
    commutative: bool = False
    kinds: str = ""
    """NumPy kind codes that the operator takes ("" for any)."""
    special: dict[str, Operator] = field(default_factory=dict, repr=False)
    """The operator that stands in for a dtype such as "b1" or "f4", as logical or does for the sum of booleans."""
    key: tuple[Any, ...] = field(init=False, repr=False)
    """What tells this operator from every other, by value, as it was when the operator was made."""
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise OperatorError(f"an operator needs a function of two operands, got {self.fn!r}")
        object.__setattr__(self, "key", (freeze(self.fn), freeze(self.identity)))
        object.__setattr__(self, "_hash", hash(self.key))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Operator) and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:  # the closures among the built-in operators travel by name
        for name, op in BUILTIN.items():
            for kind, variant in [("", op), *op.special.items()]:
                if variant is self:
                    return (_builtin, (name, kind))
        return (Operator, (self.fn, self.identity, self.name, self.commutative, self.kinds, self.special))

    def __str__(self) -> str:
        return self.name or getattr(self.fn, "__name__", "operator")


def freeze(value: Any) -> Any:
    """A hashable picture of a value by content; 1, 1.0 and True stay apart, and so do 0.0 and -0.0."""
    value = getattr(value, "py_func", value)
    if isinstance(value, types.FunctionType):
        return _freeze_function(value)
    if isinstance(value, types.CodeType):
        return ("code", value.co_code, value.co_names, value.co_varnames, tuple(map(freeze, value.co_consts)))
    if isinstance(value, (tuple, list)):
        return (type(value).__name__, *map(freeze, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc)):
        return (getattr(value, "__module__", ""), value.__name__)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return (type(value).__name__, repr(value))
    raise OperatorError(
        f"an operator uses {value!r} of type {type(value).__name__}, which cannot be compiled in; "
        "use numbers, tuples, NumPy arrays and functions"
    )


def _freeze_function(fn: types.FunctionType) -> tuple[Any, ...]:
    if fn in _freezing:  # a recursive function names itself
        return ("itself", fn.__name__)
    _freezing.append(fn)
    try:
        code = fn.__code__
        cells = tuple(freeze(c.cell_contents) for c in fn.__closure__ or ())
        used = tuple((n, freeze(fn.__globals__[n])) for n in names_in(code) if n in fn.__globals__)
        return ("function", freeze(code), freeze(fn.__defaults__), cells, used)
    finally:
        _freezing.pop()


def names_in(code: types.CodeType) -> Sequence[str]:
    """The names that code asks for, that of functions within it included."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return sorted({*code.co_names, *(name for c in inner for name in names_in(c))})


def rebuilt(fn: Any, compiled: Callable[[Any], Any], module: str) -> types.FunctionType:
    """A function over again, as one of `module`, in which `compiled` has taken the functions that it calls."""

    def taken(value: Any) -> Any:
        return compiled(value) if isinstance(getattr(value, "py_func", value), types.FunctionType) else value

    fn = getattr(fn, "py_func", fn)
    used = {name: taken(fn.__globals__[name]) for name in names_in(fn.__code__) if name in fn.__globals__}
    cells = tuple(types.CellType(taken(cell.cell_contents)) for cell in fn.__closure__ or ())
    scope = {**used, "__name__": module}  # before the function is made, which takes its module from it
    return types.FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, cells)


_freezing: list[types.FunctionType] = []


def as_operator(op: Operator | str | Callable[[Any, Any], Any]) -> Operator:
    """An operator from its name, a Python function, or itself.

    >>> as_operator("max") is ops.MAX
    True
    """
    if isinstance(op, Operator):
        return op
    if isinstance(op, str):
        if op not in BUILTIN:
            raise OperatorError(
                f"no operator is called {op!r}; there are {', '.join(BUILTIN)}, or pass a function"
            )
        return BUILTIN[op]
    if isinstance(op, np.ufunc) and op.__name__ in _UFUNCS:
        return BUILTIN[_UFUNCS[op.__name__]]
    return _operator_of(op) if isinstance(op, types.FunctionType) else Operator(op)


def _operator_of(fn: types.FunctionType) -> Operator:
    """The operator of a function that may have been met before: its key is worth 100 us."""
    uses = _uses(fn)
    known = _known.get(fn.__code__)
    if known is None or len(known[0]) != len(uses) or any(a is not b for a, b in zip(known[0], uses)):
        known = (uses, Operator(fn))
        if all(
            isinstance(use, _CONSTANT) for use in uses
        ):  # what can change in place is looked at every time
            _known[fn.__code__] = known
    return known[1]


def _uses(fn: types.FunctionType) -> list[Any]:
    """Everything that a function's behaviour hangs on: its code, defaults, closure and the globals that it names."""
    cells = [cell.cell_contents for cell in fn.__closure__ or ()]
    used = [fn.__globals__[name] for name in fn.__code__.co_names if name in fn.__globals__]
    return [fn.__code__, *(fn.__defaults__ or ()), *cells, *used]


_CONSTANT = (
    types.CodeType,
    types.ModuleType,
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
_known: dict[types.CodeType, tuple[list[Any], Operator]] = {}


def _builtin(name: str, kind: str) -> Operator:
    return BUILTIN[name].special[kind] if kind else BUILTIN[name]


def resolve(op: Operator, dtypes: Sequence[np.dtype]) -> Operator:
    """The operator that runs for these dtypes, or an OperatorError that says why there is none."""
    for dtype in dtypes:
        kind = "f" if dtype.name == "bfloat16" else dtype.kind
        if op.kinds and kind not in op.kinds:
            raise OperatorError(f"{op} is not defined for {dtype}")
    takes = arity(op)
    if takes is not None and len(dtypes) != takes:
        raise OperatorError(
            f"{op} takes a tuple of {takes} arrays, got {len(dtypes)}"
            if takes > 1
            else f"{op} takes one array, got a tuple of {len(dtypes)}"
        )
    first = dtypes[0] if dtypes[0].kind in "bmM" else accumulator(dtypes[0])
    return op.special.get(f"{first.kind}{first.itemsize}", op)


def arity(op: Operator) -> int | None:
    """How many arrays a built-in operator takes; of others only the data tell.

    >>> arity(ops.ADD), arity(ops.AFFINE)
    (1, 2)
    """
    return _ARITY[op.name] if op.name and BUILTIN.get(op.name) is op else None


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype that a scan computes in: half precision sums in float32, times in int64, all else in itself."""
    if dtype.name in ("float16", "bfloat16"):
        return np.dtype(np.float32)
    return np.dtype(np.int64) if dtype.kind in "mM" else dtype


def identity_of(op: Operator, dtypes: Sequence[np.dtype]) -> tuple[Any, ...] | None:
    """The identity as one scalar for each accumulator, or None where the operator has none."""
    value = op.identity(dtypes[0]) if callable(op.identity) else op.identity
    if value is None:
        return None
    values = value if isinstance(value, tuple) else (value,)
    if len(values) != len(dtypes):
        raise OperatorError(f"the identity of {op} has {len(values)} parts, the data has {len(dtypes)}")
    return tuple(np.dtype(d).type(v) for d, v in zip(dtypes, values))


def exact(op: Operator, dtypes: Sequence[np.dtype]) -> bool:
    """Whether every order of evaluation gives the same bits: built-in operators on integers, which wrap."""
    return op in (ops.ADD, ops.MIN, ops.MAX, ops.AND, ops.OR, ops.XOR) and all(d.kind in "iu" for d in dtypes)


def segmented(op: Operator, parts: int = 1, start: tuple[Any, ...] | None = None) -> Operator:
    """The lifted operator on (flag, value) pairs whose scan is the segmented scan (Schwartz 1980; Blelloch 1990).

    `(f1, v1) + (f2, v2) = (f1 | f2, v2 if f2 else v1 + v2)`: it is associative where `op` is, and never commutative. An
    operator on tuples of several `parts` is lifted to (flag, part, part, ...). With `start` every segment starts from it; what
    is folded from it has the flag SEEDED.

    >>> lifted = segmented(ops.ADD)
    >>> lifted.fn((True, 3), (False, 4)), lifted.fn((True, 3), (True, 4))
    ((True, 7), (True, 4))
    """
    fn = op.fn
    values, made = (_only, _with_one) if parts == 1 else (_rest, _with_rest)
    first = start[0] if start and parts == 1 else start

    def lifted(a, b):
        return made(a[0] | b[0], values(b) if b[0] else fn(values(a), values(b)))

    def seeded(a, b):
        if b[0] and a[0] >= SEEDED:
            return made(a[0] | b[0], fn(first, values(b)))
        return made(a[0] | b[0], values(b) if b[0] else fn(values(a), values(b)))

    return Operator(seeded if start else lifted, name=f"segmented {op}")


SEEDED = 256
"""Set in the flag, beside the 8 bits that flags have, of what is folded from a `start`."""


def _only(block):
    return block[1]


def _rest(block):
    return block[1:]


def _with_one(flag, value):
    return (flag, value)


def _with_rest(flag, values):
    return (flag, *values)


# --- the built-in operators -----------------------------------------------------------------------------------------


def _add(a, b):
    return a + b


def _mul(a, b):
    return a * b


def _min(a, b):  # the first NaN wins, of Python's floats; those of arrays have _extremes_in
    return a if a <= b or a != a else b


def _max(a, b):
    return a if a >= b or a != a else b


def _extremes_in(real: type, integer: type) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """IEEE 754-2019's `minimum` and `maximum`: NaN where either operand is one, and -0 below 0.

    Both operands are chosen where they are equal or one is NaN, one alone elsewhere; what both choices have of bits makes a
    NaN of a NaN and anything, and the sign of two zeros. Against `a if a >= b or a != a else b` scans run at .95 to 1.07 of
    the speed, by llvm.maximum at .95.
    """
    size = integer(2 ** (8 * real().itemsize - 1) - 1)  # all bits but the sign

    def minimum(a, b):
        one, other = real(a if a < b else b).view(integer), real(b if b < a else a).view(integer)
        return integer(one | other).view(real)

    def maximum(a, b):
        one, other = real(a if a > b else b).view(integer), real(b if b > a else a).view(integer)
        return integer((one | other) & (one & other | size)).view(real)

    return minimum, maximum


def _and(a, b):
    return a & b


def _or(a, b):
    return a | b


def _xor(a, b):
    return a ^ b


def _add_times(a, b):
    return NAT if a == NAT or b == NAT else a + b


def _max_times(a, b):
    return a if (a >= b and b != NAT) or a == NAT else b


def _affine(a, b):
    return (a[0] * b[0], a[1] * b[0] + b[1])


def _argmax(a, b):
    keep = a[0] >= b[0] or a[0] != a[0]
    return (a[0] if keep else b[0], a[1] if keep else b[1])


def _argmin(a, b):
    keep = a[0] <= b[0] or a[0] != a[0]
    return (a[0] if keep else b[0], a[1] if keep else b[1])


def fma(a, b, c):
    """a * b + c of finite numbers, rounded once. Every engine has its own, of one instruction, for this one."""
    from fractions import Fraction  # import upsweep does without it

    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if not exact:
        return a * b + c  # with the sign of zero
    near = type(c)(float(exact))
    if float(near) == float(exact):
        return near
    with np.errstate(over="ignore"):  # a float32 has been rounded twice by now
        around = near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf)
    return min(filter(np.isfinite, around), key=lambda x: abs(Fraction(float(x)) - exact))


def horner(terms, x):
    """A polynomial from its coefficients, the highest first."""
    total = terms[0]
    for term in terms[1:]:
        total = fma(total, x, term)
    return total


class LogAddExp(NamedTuple):
    """What logaddexp computes with in one precision. A GPU's text is given the same numbers."""

    real: type
    integer: type
    mantissa: int
    far: float
    """exp(-far) is still a normal number."""
    exp2: tuple[float, ...]
    """2^x on [-1/2, 1/2], the highest power first, in the polynomial whose relative error is least (Remez)."""
    log1p: tuple[float, ...]
    """log(1 + x) / x on [0, 1]."""


def _logaddexp_in(numbers: LogAddExp) -> Callable[[Any, Any], Any]:
    """log(exp(a) + exp(b)) in arithmetic of one precision, so that every machine gives the same bits.

    `max + log1p(u)`, `u = exp(-|a - b|) = 2^k 2^f` with k an integer and |f| <= 1/2: 2^f and log1p(u) / u are polynomials,
    k is added to the exponent's bits. Beyond `far` the larger operand stays as it is.
    """
    real, integer, mantissa, *_ = numbers
    magic = real(1.5 * 2.0**mantissa)  # k + magic has the integer k in its lowest bits
    log2e, far, shift = real(-1.4426950408889634), real(numbers.far), integer(mantissa)
    exp2, log1p = tuple(map(real, numbers.exp2)), tuple(map(real, numbers.log1p))

    def logaddexp(a, b):
        top = real(a if a >= b or a != a else b)
        gap = abs(a - b)
        d = gap if gap < far else far
        k = fma(d, log2e, magic)
        e = horner(exp2, fma(d, log2e, magic - k))
        u = integer(real(e).view(integer) + (real(k).view(integer) << shift)).view(real)
        return fma(u, horner(log1p, u), top) if gap < far else top

    return logaddexp


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def _ones(dtype: np.dtype) -> Any:
    return True if dtype.kind == "b" else ~dtype.type(0)


LOG_ADD_EXP = {
    "f4": LogAddExp(
        np.float32, np.int32, 23, 87.0,
        (0.0013269242, 0.009671294, 0.055507116, 0.24022247, 0.693147, 1.0),
        (0.005365469, -0.030068422, 0.07920893, -0.1375419, 0.19153848, -0.24857217, 0.3332133, -0.49999648, 1.0),
    ),
    "f8": LogAddExp(
        np.float64, np.int64, 52, 708.0,
        (4.4388307050791056e-10, 7.073223022993752e-09, 1.0178160220124894e-07, 1.321543889358282e-06,
         1.5252733633669384e-05, 0.00015403530448929197, 0.0013333558146546493, 0.009618129107601668,
         0.05550410866482172, 0.24022650695910108, 0.6931471805599453, 1.0),
        (2.534774016028628e-05, -0.00029191951101911664, 0.0015963902236000502, -0.005544739238736748,
         0.013841399207179726, -0.02674748896701748, 0.04230345199123158, -0.05750444827172063,
         0.07035680955537463, -0.08081274152550591, 0.09013176133559883, -0.0998102132947269,
         0.11107507436240097, -0.12499479864799866, 0.14285658930803735, -0.16666662501785096,
         0.19999999791543915, -0.24999999993685879, 0.33333333333235254, -0.4999999999999946, 1.0),
    ),
}  # fmt: skip
"""Beside each function's own rounding, f4 is off by 1.3e-7 of log1p(exp(-d)) and f8 by 2e-17, and both by log2(e)'s rounding
times d: 1e-6 and 1e-14 at the far end, where only a `top` of zero shows it."""


_EXTREMES = {"f4": _extremes_in(np.float32, np.int32), "f8": _extremes_in(np.float64, np.int64)}


class ops:
    """The built-in operators."""

    AND = Operator(_and, _ones, "and", True, "biu")
    OR = Operator(_or, 0, "or", True, "biu")
    XOR = Operator(_xor, 0, "xor", True, "biu")
    ADD = Operator(_add, 0, "add", True, "biufcm", {"b1": OR, "m8": Operator(_add_times, 0, "add", True)})
    MUL = Operator(_mul, 1, "mul", True, "biufc", {"b1": AND})
    MIN = Operator(_min, _highest, "min", True, "biufmM", {"b1": AND})
    MAX = Operator(_max, _lowest, "max", True, "biufmM", {"b1": OR})
    MAX.special.update({kind: Operator(_max_times, _lowest, "max", True) for kind in ("m8", "M8")})
    MIN.special.update(
        {kind: Operator(fn, _highest, "min", True, "f") for kind, (fn, _) in _EXTREMES.items()}
    )
    MAX.special.update({kind: Operator(fn, _lowest, "max", True, "f") for kind, (_, fn) in _EXTREMES.items()})
    LOGADDEXP = Operator(_logaddexp_in(LOG_ADD_EXP["f8"]), -np.inf, "logaddexp", True, "f")
    LOGADDEXP.special["f4"] = Operator(_logaddexp_in(LOG_ADD_EXP["f4"]), -np.inf, "logaddexp", True, "f")
    AFFINE = Operator(_affine, (1, 0), "affine", False, "iufc")
    ARGMAX = Operator(_argmax, None, "argmax", False, "iuf")
    ARGMIN = Operator(_argmin, None, "argmin", False, "iuf")


BUILTIN: dict[str, Operator] = {str(op): op for op in vars(ops).values() if isinstance(op, Operator)}
_ARITY = {name: 2 if name in ("affine", "argmax", "argmin") else 1 for name in BUILTIN}
_UFUNCS = {
    "add": "add", "multiply": "mul", "minimum": "min", "maximum": "max", "logaddexp": "logaddexp",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "logical_and": "and", "logical_or": "or",
}  # fmt: skip
