"""What scans are for: applications on the public API alone, each for any array that a scan takes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "recurrences": ("discounted_sum", "ema", "lfilter", "linear_recurrence"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'upsweep.apps' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"upsweep.apps.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
