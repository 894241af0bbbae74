"""Functions that are computed within a scan: the map, which makes the operands out of the inputs, and the finish, which makes the
results out of the prefixes."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from inspect import Parameter, signature
from math import inf
from typing import Any

import numpy as np

from upsweep.keys import OperatorError, Uses, called_with, freeze, remembered


@dataclass(frozen=True, eq=False)
class Function:
    """A function of scalars that gives a scalar, or a tuple of several. Two of one key share their compiled code."""

    fn: Callable[..., Any]
    arity: int = 0
    """How many arguments it is given: of a map the inputs of an item, then its index along the axis; of a finish the prefix (a
    tuple, where it has several components), then inputs of the item from the first on, then its index."""
    results: tuple[np.dtype, ...] = ()
    """The dtypes of the results: each value is rounded to its dtype, and only then to the dtype that it is computed with or
    stored as.
    """
    name: str | None = None
    key: tuple[Any, ...] = field(init=False, repr=False)
    """The key that tells this function from every other, by value; the function itself first."""
    uses: Uses = field(init=False, repr=False)
    """The values that the function used when it was made."""
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (freeze(self.fn), self.arity, self.results))
        object.__setattr__(self, "uses", Uses(self.fn))
        object.__setattr__(self, "_hash", hash(self.key))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Function) and self.key == other.key)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return (Function, (self.fn, self.arity, self.results, self.name))

    def __str__(self) -> str:
        return self.name or getattr(self.fn, "__name__", "function")

    def taking(self, counts: Sequence[int]) -> Function:
        """The function, with the first of these numbers of arguments that its parameters can take."""
        least, most = parameters(self.fn)
        fitting = [n for n in counts if least <= n <= most]
        if not fitting:
            wanted = " or ".join(map(str, counts))
            raise OperatorError(f"{self} has {least} parameters without a default, where {wanted} are given")
        return replace(self, arity=fitting[0])


def unchanged(op: Any) -> None:
    """An OperatorError where a value that the function of an Operator or a Function uses has changed since that was made."""
    if not op.uses.still(op.fn) and freeze(op.fn) != op.key[0]:
        raise OperatorError(
            f"a value that operator {op} uses has changed since the operator was made: make it anew, Operator(fn)"
        )


def as_function(fn: Any) -> Function:
    """A function as it is met in a call, the same again for the same code.

    >>> str(as_function(np.sqrt)), as_function(lambda x: x) == as_function(lambda y: y)
    ('sqrt', False)
    """
    if isinstance(fn, Function):
        unchanged(fn)
        return fn
    if not callable(fn):
        raise OperatorError(f"map and finish must be functions, got {fn!r}")
    fn = getattr(fn, "py_func", fn)
    if isinstance(fn, types.FunctionType):
        return _function_of(fn)
    return _constant_of_c(fn) if isinstance(fn, (types.BuiltinFunctionType, np.ufunc)) else _function_of_c(fn)


_function_of = remembered(Function)


def _function_of_c(fn: Any) -> Function:
    """A function of NumPy's or of C's, as a function of Python."""
    freeze(fn)
    count = fn.nin if isinstance(fn, np.ufunc) else max(1, parameters(fn)[0])
    return Function(called_with(fn, count), name=getattr(fn, "__name__", None))


_constant_of_c = lru_cache(1024)(_function_of_c)


def parameters(fn: Any) -> tuple[int, float]:
    """How many arguments a function needs, and how many it takes."""
    try:
        found = signature(fn).parameters.values()
    except ValueError as error:
        raise OperatorError(f"{fn} does not tell how many arguments it takes: pass a lambda") from error
    several = any(p.kind is Parameter.VAR_POSITIONAL for p in found)
    placed = [p for p in found if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is Parameter.empty for p in placed), inf if several else len(placed)
