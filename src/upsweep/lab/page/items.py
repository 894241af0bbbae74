"""The input of a scan: the items, the operators and their identities that the page's dials offer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from upsweep.lab.reading import KernelError

EXAMPLE = "3 1 7 0 4 1 6 3"
"""CS380's vector."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _joined(a: str, b: str) -> str:
    return a + b


OPERATORS: dict[str, Any] = {
    "add": "add", "max": "max", "min": "min", "xor": "xor", "concat": _joined, "own": None,
}  # fmt: skip
"""The operators that the dial offers; concat is the one that does not commute, own is the user's."""


def operator_of(op: str, own: str) -> str | Callable[[Any, Any], Any]:
    """The operator that a name means; for own, the function of an expression of a and b."""
    if op not in OPERATORS:
        raise ValueError(f"no operator is called {op}; there are {', '.join(OPERATORS)}")
    if op != "own":
        return OPERATORS[op]
    try:
        if not own.strip():
            raise SyntaxError("it is empty")
        code = compile(f"lambda a, b: ({own.strip()}\n)", "<operator>", "eval")
    except SyntaxError as error:
        raise ValueError(
            f"your operator must be an expression of a and b, such as a * 3 + b, not {own!r}: {error.msg}"
        ) from error
    return eval(code, {"math": math})


def own_operator(fn: Callable[[Any, Any], Any], text: str) -> Callable[[Any, Any], Any]:
    """The user's operator; where it fails, the message is about it and not about the kernel that applies it."""

    def own(a: Any, b: Any) -> Any:
        try:
            value = fn(a, b)
        except Exception as error:
            raise KernelError(
                f"your operator {text} fails for a = {a!r} and b = {b!r}: {type(error).__name__}: {error}"
            ) from error
        if value is None:
            raise KernelError(f"your operator {text} gives no value for a = {a!r} and b = {b!r}")
        return value

    return own


def items_of(x: str, op: str, n: int) -> list[Any]:
    """The n items that a text means: its words one after the other, from the beginning again where they end.

    >>> items_of("3 1 7", "add", 5)
    [3, 1, 7, 3, 1]
    """
    words = x.replace(",", " ").split()
    if not words and op == "concat":
        words = [chr(97 + k) for k in range(26)]
    if not words and op in ("add", "own"):
        words = [str(k) for k in range(1, n + 1)]
    given = [_item(word, op) for word in words or EXAMPLE.split()]
    return [given[k % len(given)] for k in range(n)]


def _item(word: str, op: str) -> Any:
    if op != "concat" and NUMBER.fullmatch(word):
        return float(word) if set(word) & set(".eE") else int(word)
    if op in ("concat", "own"):
        return word
    raise ValueError(f"{op} takes numbers, and {word!r} is none: choose the operator concat for words")


def identity_of(op: str, items: Sequence[Any], own: str) -> Any:
    """The identity, which leaves these items as they are; None where the operator brings its own or has none."""
    if op == "own":
        return _item(own.strip(), op) if own.strip() else None
    return {"max": min, "min": max, "xor": lambda _: 0, "concat": lambda _: ""}.get(op, lambda _: None)(items)
