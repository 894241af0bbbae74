"""Names that Python, NumPy, pandas, PyTorch and JAX have for functions and operators here. Errors answer them with ours."""

from collections.abc import Callable, Mapping
from typing import NoReturn

FUNCTIONS = {
    "associative_scan": "scan",
    "cumsum": "cumulative_sum",
    "cumprod": "cumulative_prod",
    "logcumsumexp": "cumlogsumexp",
}
OPERATORS = {
    theirs: ours
    for ours, names in {
        "add": ("sum", "cumsum", "plus", "+"),
        "mul": ("prod", "product", "cumprod", "multiply", "*"),
        "min": ("minimum", "cummin"),
        "max": ("maximum", "cummax"),
        "and": ("all", "logical_and", "bitwise_and", "&"),
        "or": ("any", "logical_or", "bitwise_or", "|"),
        "xor": ("logical_xor", "bitwise_xor", "^"),
        "logaddexp": ("logsumexp", "logcumsumexp"),
        "last": ("ffill", "forward_fill"),
    }.items()
    for theirs in names
}


def said(theirs: str, ours: Mapping[str, str]) -> str:
    """The part of an error that says what a name is called here; empty where no table has the name."""
    return f": it is {ours[theirs]!r} here" if theirs in ours else ""


def absent(module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module that has the functions of `FUNCTIONS` under our names."""

    def missing(name: str) -> NoReturn:
        raise AttributeError(f"module {module!r} has no attribute {name!r}{said(name, FUNCTIONS)}")

    return missing
