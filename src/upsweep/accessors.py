"""The methods that `upsweep.pandas`, `upsweep.polars` and `upsweep.xarray` give to other libraries' objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import upsweep as up


def recurrence_of(b: Any, a: Any, **keywords: Any) -> Any:
    """`upsweep.linear_recurrence(a, b)`: `h[t] = a[t] h[t-1] + b[t]`, where this object is b."""
    return up.linear_recurrence(a, b, **keywords)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(up, name)
    for name in (
        "scan", "cumulative_sum", "cumulative_prod", "cummax", "cummin", "cumlogsumexp", "ema", "discounted_sum",
    )
} | {"linear_recurrence": recurrence_of}  # fmt: skip
"""The functions whose first operand is scanned, by the names of the methods."""

_Class = TypeVar("_Class", bound=type)


def of_groups(name: str, x: Any, groups: Any, /, *args: Any, **keywords: Any) -> Any:
    """A function of each group by itself."""
    for taken, why in (
        ("segments", "groups are the segments"),
        ("out", "rows without a group are missing in the result"),
    ):
        if keywords.get(taken) is not None:
            raise ValueError(f"{why}: call it without {taken}=")
    function = _discounted_sum if name == "discounted_sum" else FUNCTIONS[name]
    return function(x, *args, segments=groups, **keywords)


def _discounted_sum(rewards: Any, gamma: Any, dones: Any = None, *, segments: Any, **keywords: Any) -> Any:
    """Groups are the episodes: each one's last sum is its last item. Integers are summed as floats."""
    if dones is not None:
        raise ValueError(
            "groups are the episodes here: call it without dones=, and group by the number of the episode as well"
        )
    return up.linear_recurrence(gamma, rewards * 1.0, reverse=True, segments=segments, **keywords)


def methods(cls: _Class) -> _Class:
    """Give a class a method for each of the functions, which calls `self._call(name, ...)`."""
    for name in FUNCTIONS:
        setattr(cls, name, _method(name))
    return cls


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **keywords: Any) -> Any:
        return self._call(name, *args, **keywords)

    method.__name__ = name
    own = FUNCTIONS[name] is recurrence_of
    method.__doc__ = recurrence_of.__doc__ if own else f"`upsweep.{name}` of this object."
    return method
