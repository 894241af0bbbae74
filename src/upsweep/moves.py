"""Moves of data that go with scans: the protocol of what an engine may have of its own for applications."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from upsweep.engine import ENGINES


class Moves(Protocol):
    """What an engine moves by itself; without it applications scan and scatter. Arrays are those of a library, 1-D unless
    said otherwise."""

    def pack(self, x: Any, keep: Any) -> Any:
        """The items or rows of `x` where `keep` is true."""
        ...

    def partition(self, x: Any, keep: Any) -> tuple[Any, int]:
        """Those, then the others, each in their order; and how many are kept."""
        ...

    def where(self, keep: Any) -> Any:
        """The places where `keep` is true, as int64."""
        ...

    def unique(self, x: Any) -> Any:
        """The first of each run of equal items."""
        ...

    def runs(self, x: Any) -> tuple[Any, Any]:
        """The same, and the lengths of the runs (int64)."""
        ...

    def repeat(self, x: Any, offsets: Any) -> Any:
        """`x[s]`, an item or a row, in `[offsets[s], offsets[s + 1])` (int64), for every s."""
        ...

    def owners(self, offsets: Any) -> tuple[Any, Any]:
        """For each item of such an output its s, and its place among those of s (int64)."""
        ...

    def count(self, x: Any, bins: int) -> Any:
        """How often each of 0 ... bins - 1 occurs in `x`, integers; what lies outside is left out."""
        ...

    def radix_sort(self, x: Any, values: Any, falling: bool) -> tuple[Any, Any]:
        """Keys in stable order by `sort_keys`, and values (items or rows, or None) with them."""
        ...

    def argsort(self, x: Any, falling: bool) -> Any:
        """The order that keys sort into, as int64."""
        ...


class Automata(Protocol):
    """What an engine has to run automata over text."""

    def run_automaton(self, lexer: Any, text: Any) -> Any: ...


def moves(name: str) -> Moves | None:
    """The moves of the engine of that name, or None."""
    module = ENGINES[name].moves
    return cast(Moves, import_module(module)) if module else None


def automata(name: str) -> Automata | None:
    """What runs automata on the engine of that name, or None."""
    module = ENGINES[name].automata
    return cast(Automata, import_module(module)) if module else None


def heads(xp: Any, x: Any) -> Any:
    """True where an item or row differs from the one before it, and at the first."""
    differ = x[1:] != x[:-1]
    if x.ndim > 1:
        differ = xp.any(differ, axis=tuple(range(1, x.ndim)))
    return xp.concat([xp.ones((min(1, x.shape[0]),), dtype=xp.bool, device=x.device), differ])
