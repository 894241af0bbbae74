"""A map or a finish as a user writes it on the command line: an expression of columns, as a function of Python.

Only what computes may stand there: no attributes, no strings, no calls but of the functions below.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any

PREFIX, INDEX = "prefix", "index"
"""The names of the prefix and of the place of its item in a finish."""

_FUNCTIONS = {
    name: value for name, value in vars(math).items() if callable(value) and not name.startswith("_")
}
_FUNCTIONS |= {"abs": abs, "bool": bool, "float": float, "int": int, "max": max, "min": min}
_NUMBERS = {"inf": math.inf, "nan": math.nan, "pi": math.pi}
_NODES = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Name, ast.Constant, ast.Subscript,
    ast.Tuple, ast.Load, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


def columns_in(text: str) -> tuple[str, ...]:
    """The names in an expression that are neither called nor numbers, in the order in which they stand there.

    >>> columns_in("sqrt(price * units) + price")
    ('price', 'units')
    """
    return tuple(name for name in _names(_checked(text)) if name not in _NUMBERS)


def function_of(text: str, inputs: Sequence[str], *, finish: bool = False) -> Callable[..., Any]:
    """A function of the inputs by name or, for a finish, of the prefix, and of the inputs and the index if it names them.

    >>> function_of("max(x, 0) / 2", ["x"])(3)
    1.5
    >>> function_of("prefix / (index + 1)", ["x"], finish=True)(6, 4, 2)
    2.0
    """
    tree, taken = _checked(text), list(inputs)
    used, there = _names(tree), [PREFIX, *inputs, INDEX] if finish else inputs
    if finish:
        for name in (PREFIX, INDEX):
            if name in inputs:
                raise ValueError(
                    f"a column is called {name}, which means another thing in a finish: pass scan_file a function"
                )
        beside = bool({*used} & {*inputs, INDEX})
        taken = [PREFIX, *(inputs if beside else ()), *[INDEX] * (INDEX in used)]
    for name in used:
        if name not in (*there, *_NUMBERS):
            raise ValueError(f"{text!r} names {name!r}; there are {', '.join(there)}")
    arguments = ast.arguments([], [ast.arg(name) for name in taken], None, [], [], None, [])
    made = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, tree.body)))
    return eval(
        compile(made, text, "eval"), {**_FUNCTIONS, **_NUMBERS, "__builtins__": {}, "__name__": __name__}
    )


def _names(tree: ast.AST) -> list[str]:
    """The names that are not called, each once."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(node.id for node in found))


def _checked(text: str) -> ast.Expression:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{text!r} is no expression: {error.msg}") from None
    for node in ast.walk(tree):
        if not isinstance(node, _NODES) or (
            isinstance(node, ast.Constant) and not isinstance(node.value, (bool, int, float))
        ):
            raise ValueError(
                f"{text!r} may hold numbers, arithmetic, comparisons, `a if b else c` and calls, and nothing else"
            )
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        ):
            called = ast.unparse(node.func)
            raise ValueError(
                f"{text!r} calls {called}; there are abs, max, min, bool, float, int and Python's math"
            )
    return tree
