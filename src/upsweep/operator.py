"""Operators: a function of two operands and the laws that it promises.

Associativity is assumed of every operator; an identity and commutativity are promised by name, never guessed. The left
operand is always the earlier one. Built-in operators (operators.py) are plain Python functions like any user's, so that the
oracle, the CPU and the tracer run the very same lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep.components import tupled
from upsweep.function import Function
from upsweep.keys import OperatorError, Uses, freeze

_OURS = "upsweep.arithmetic"


@dataclass(frozen=True, eq=False)
class Operator:
    """An associative function of two operands, the left one the earlier.

    Args:
        fn: `fn(a, b)` on two scalars; for a tuple of arrays, on two tuples of scalars, returning such a tuple. It is
            compiled for the engine that runs it, so it uses arithmetic, comparisons, `math` and NumPy scalars.
            It must return for every two operands: a GPU calls it on some that are no neighbours, and drops the result.
        identity: the value e with `fn(e, x) == x`, a tuple for tuples, or a function that gives it for a dtype. Only an
            exclusive scan without `initial` and a reduction of nothing need it.
        name: what error messages and plans call it.
        commutative: whether `fn(a, b) == fn(b, a)`. No engine relies on it; `upsweep.check` tests it.
        kinds: the kinds of dtypes that the operator takes, in NumPy's letters: "iu" for integers, "" for any.
        special: the operator that stands in for a dtype, by its name: `{"b1": ...}` for booleans.
        arity: the number of arrays that the operator takes at once; None for any number.

    Raises:
        OperatorError: where it is scanned, if it takes no such dtype or number of arrays, lacks an identity that is needed,
            cannot be compiled, or has changed.

    The key of an operator is its code, defaults, closure, and the globals and attributes of modules that it uses, with the laws
    that it promises. Two operators of one key share their compiled code, and an edited function never meets the old code. An
    operator is refused if such a value has changed since the operator was made. An operator may use numbers, texts, tuples,
    lists, NumPy arrays, modules and functions. A method or a `functools.partial` is refused, as it holds other values.

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
    special: Mapping[str, Operator] = field(default_factory=dict, repr=False)
    """The operator that stands in for a dtype such as "b1" or "f4", as logical or does for the sum of booleans."""
    arity: int | None = None
    """How many arrays the operator takes at once (None for any)."""

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise OperatorError(f"an operator needs a function of two operands, got {self.fn!r}")
        # The library's own functions never change: to look into all of them would take a quarter of its import.
        if getattr(self.fn, "__module__", None) != _OURS:
            self._look()

    def _look(self) -> tuple[Any, Uses]:
        """Keep the key and the values that the operator has now."""
        return self.key, self.uses

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """The key that tells this operator from every other, by its values when the operator was made; its function first."""
        special = tuple((code, op.key) for code, op in sorted(self.special.items()))
        return (freeze(self.fn), freeze(self.identity), self.commutative, self.kinds, self.arity, special)

    @cached_property
    def uses(self) -> Uses:
        """The values that its function used when it was made."""
        return Uses(self.fn)

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Operator) and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.fn, self.identity, self.name, self.commutative, self.kinds, self.special, self.arity)
        return (Operator, parts)

    def __str__(self) -> str:
        return self.name or getattr(self.fn, "__name__", "operator")


def resolve(op: Operator, given: Sequence[np.dtype]) -> Operator:
    """The operator that runs for these dtypes, or an OperatorError that says why there is none."""
    for dtype in given:
        if op.kinds and dtypes.kind(dtype) not in op.kinds:
            taken = ", ".join(dict.fromkeys(dtypes.KINDS[kind] for kind in op.kinds))
            raise OperatorError(f"{op} is not defined for {dtype}; it takes {taken}")
    if op.arity is not None and len(given) != op.arity:
        raise OperatorError(
            f"{op} takes a tuple of {op.arity} arrays, got {len(given)}"
            if op.arity > 1
            else f"{op} takes one array, got a tuple of {len(given)}"
        )
    return op.special.get(dtypes.code(given[0]), op)


def identity_of(op: Operator, accumulators: Sequence[np.dtype]) -> tuple[Any, ...] | None:
    """The identity as one scalar for each accumulator, or None where the operator has none."""
    value = op.identity(accumulators[0]) if callable(op.identity) else op.identity
    if value is None:
        return None
    values = tupled(value)
    if len(values) != len(accumulators):
        raise OperatorError(f"the identity of {op} has {len(values)} values, an item has {len(accumulators)}")
    return tuple(np.dtype(d).type(v) for d, v in zip(accumulators, values))


def uncompilable(op: Operator | Function, error: object) -> OperatorError:
    """The words of a compiler about the user's function, without the layers of the kernel around it."""
    text = re.sub(r"\x1b\[\d*m", "", str(error))
    # numba says first which of its own steps failed, and behind an empty line where the kernel calls the function.
    told = re.sub(r"Failed in .* pipeline \(step: .*\)\n", "", text).strip().partition("\n\n")[0]
    telling = (
        "the operator returns .*",
        "Python integer .*",
        "(?:NumPy|Python) has no .*",
        "NameError: .*",
        "Unknown attribute .*",
        "Invalid use .*",
        "Cannot bind .*",
    )
    found = next(filter(None, (re.search(words, text) for words in telling)), None)
    unknown = re.search(r"No implementation of function [\s\S]*?>>> (.*)", text)
    if found:
        told = found[0]
    elif unknown:
        told = f"there is no {unknown[1]}: scalars have arithmetic, comparisons, `math` and NumPy's functions of scalars"
    told = f"{type(op).__name__.lower()} {op} cannot be compiled: {told}"
    if isinstance(op, Operator) and not isinstance(op.fn, FunctionType):
        told = f"{told.rstrip(':')}; pass a function of two numbers, or the name of an operator"
    return OperatorError(told)


def segmented(op: Operator, parts: int = 1, seeded: bool = False) -> Operator:
    """The lifted operator on (flag, value) pairs whose scan is the segmented scan (Schwartz 1980; Blelloch 1990).

    `(f1, v1) + (f2, v2) = (f1 | f2, v2 if f2 else v1 + v2)`: it is associative where `op` is, and never commutative. An
    operator on tuples of several `parts` is lifted to (flag, part, part, ...). With `seeded` the value that every segment starts
    from stands behind the parts of each item, and a value that is folded from it has the flag SEEDED.

    >>> import upsweep as up
    >>> lifted = segmented(up.ops.ADD)
    >>> lifted.fn((True, 3), (False, 4)), lifted.fn((True, 3), (True, 4))
    ((True, 7), (True, 4))
    >>> segmented(up.ops.ADD, seeded=True).fn((SEEDED, 3, 100), (True, 4, 100))
    (257, 104, 100)
    """
    fn, behind = op.fn, 1 + parts

    def one(block):
        return block[1]

    def several(block):
        return block[1:behind]

    def rest(block):
        return block[behind:]

    def start_of(block):
        return block[2]

    def with_one(flag, value, start):
        return (flag, value, *start)

    def with_several(flag, values, start):
        return (flag, *values, *start)

    values, made = (one, with_one) if parts == 1 else (several, with_several)
    first = start_of if parts == 1 else rest

    def lifted(a, b):
        return made(a[0] | b[0], values(b) if b[0] else fn(values(a), values(b)), rest(b))

    # One call of the operator, and the later start: 2.7 ns an item on a CPU, where two calls and the earlier one take 7.7.
    def from_seed(a, b):
        joined = fn(first(b) if b[0] else values(a), values(b))
        return made(a[0] | b[0], values(b) if b[0] and a[0] < SEEDED else joined, rest(b))

    return Operator(from_seed if seeded else lifted, name=f"segmented {op}")


SEEDED = 256
"""A bit beside the 8 bits of a flag. It is set in the flag of a value that is folded from the start of a segment."""
