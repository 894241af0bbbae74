"""Moves of data that go with scans: the protocol of what an engine may have of its own for applications."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from upsweep.engine import ENGINES


class Moves(Protocol):
    """What an engine moves by itself; without it applications scan and scatter."""

    def pack(self, x: Any, keep: Any) -> Any: ...
    def where(self, keep: Any) -> Any: ...
    def repeat(self, x: Any, offsets: Any) -> Any: ...
    def count(self, x: Any, bins: int) -> Any: ...
    def radix_sort(self, keys: Any) -> Any: ...
    def radix_argsort(self, keys: Any) -> Any: ...
    def run_automaton(self, lexer: Any, text: Any) -> Any: ...


def moves(name: str) -> Moves | None:
    """The moves of the engine of that name, or None."""
    module = ENGINES[name].moves
    return cast(Moves, import_module(module)) if module else None
