"""The methods that `upsweep.pandas`, `upsweep.polars` and `upsweep.xarray` give to other libraries' objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

FUNCTIONS = (
    "scan", "cumulative_sum", "cumulative_prod", "cummax", "cummin", "cumlogsumexp", "ema", "discounted_sum",
)  # fmt: skip
"""The functions whose first operand is scanned."""

OPERATORS = {
    "cumulative_sum": "add", "cumulative_prod": "mul", "cummax": "max", "cummin": "min", "cumlogsumexp": "logaddexp",
}  # fmt: skip
"""The functions that are a scan under an operator, with its name."""

_Class = TypeVar("_Class", bound=type)


def methods(cls: _Class) -> _Class:
    """Give a class a method for each of the functions, which calls `self._call(name, ...)`."""
    for name in FUNCTIONS:
        setattr(cls, name, _method(name))
    return cls


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        return self._call(name, *args, **keywords)

    method.__name__ = name
    method.__doc__ = f"`upsweep.{name}` of this object."
    return method
