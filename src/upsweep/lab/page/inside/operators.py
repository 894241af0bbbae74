"""The operators that the page's dial offers, without the dtypes, engines and gradients of `upsweep.operators`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class OperatorError(TypeError):
    """The operator cannot do what is asked."""


@dataclass(frozen=True)
class Operator:
    """A function of two operands, the left one the earlier, and its identity."""

    fn: Callable[[Any, Any], Any]
    identity: Any = None
    name: str = ""

    def __str__(self) -> str:
        return self.name or getattr(self.fn, "__name__", "operator")


_ROWS = (
    Operator(operator.add, 0, "add"), Operator(operator.mul, 1, "mul"), Operator(max, None, "max"),
    Operator(min, None, "min"), Operator(operator.xor, 0, "xor"), Operator(operator.or_, 0, "or"),
    Operator(operator.and_, -1, "and"),
)  # fmt: skip
OPERATORS = {row.name: row for row in _ROWS}


def as_operator(op: Any) -> Operator:
    """The operator that a name or a function means."""
    if isinstance(op, str):
        if op not in OPERATORS:
            raise OperatorError(f"in this page there are {', '.join(OPERATORS)}, and no {op}")
        return OPERATORS[op]
    return op if isinstance(op, Operator) else Operator(op)
