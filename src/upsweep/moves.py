"""Moves of data that go with scans: the protocol of an engine's own functions for applications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol, cast

from upsweep.engine import ENGINES


class Moves(Protocol):
    """The moves that an engine makes by itself; without them applications scan and scatter.

    Arrays are those of a library, and 1-D unless said otherwise.
    """

    def again(self, move: str, *arrays: Any) -> Callable[..., Any] | None:
        """The function that makes the move of that name of other arrays like these, and gives None where it did not make it; None
        where no such function is known. Only a GPU's moves are asked for it.
        """
        ...

    def pack(self, x: Any, keep: Any) -> Any:
        """The items or rows of `x` where `keep` is true; on a GPU also the items of which a function of that name says so."""
        ...

    def select(self, x: Any, keep: Any, values: Any, places: Any, lengths: Any) -> Any:
        """The kept items, as many as there is room for. Gives how many there are in all, a 0-dimensional int64 array.

        An item is kept where `keep` is true or, without it, where a run of equal items starts. `values` takes the items, `places`
        their indices (int64), `lengths` the lengths of the runs (int64); each may be None.
        """
        ...

    def partition(self, x: Any, keep: Any) -> tuple[Any, int]:
        """The kept items, then the others, each in their order; and how many are kept."""
        ...

    def where(self, keep: Any) -> Any:
        """The places where `keep` is true, as int64."""
        ...

    def found(self, x: Any, keep: Any) -> tuple[Any, Any]:
        """The items of `x` where `keep` is true, and their places."""
        ...

    def unique(self, x: Any) -> Any:
        """The first of each run of equal items."""
        ...

    def runs(self, x: Any) -> tuple[Any, Any]:
        """The first of each run of equal items, and the lengths of the runs (int64)."""
        ...

    def repeat(self, x: Any, counts: Any, offsets: Callable[[], Any]) -> Any:
        """`x[s]`, an item or a row, `counts[s]` times, for every s.

        `offsets()` makes the exclusive sums of the counts (int64), and last their sum, for who goes by them; it raises where a
        count is negative, and who finds that calls it.
        """
        ...

    def fill(self, x: Any, counts: Any, out: Any) -> Any:
        """Writes the items of `repeat`, as many as there is room for. Gives how many there are in all, a 0-dimensional int64
        array, below zero where a count is. Only a GPU's moves are asked for it, which wait for nothing.
        """
        ...

    def owners(self, counts: Any, offsets: Callable[[], Any]) -> tuple[Any, Any]:
        """For each item of such an output its s, and its place among those of s (int64)."""
        ...

    def count(self, x: Any, bins: int) -> tuple[Any, int]:
        """How often each of 0 ... bins - 1 occurs in `x`, integers, and how many items that are; others are left out."""
        ...

    def radix_sort(self, x: Any, values: Any, falling: bool) -> tuple[Any, Any]:
        """Keys in stable order by `sort_keys`, and values (items or rows, or None) with them."""
        ...

    def argsort(self, x: Any, falling: bool) -> Any:
        """The order that keys sort into, as int64."""
        ...

    def distances(self, links: Any) -> Any:
        """How many links (int64) lead from each item to one whose link is -1; -1 where none does.

        A link is the place of another item, of fewer than 2^31; any other number leads nowhere.
        """
        ...

    def boxes(self, table: Any, starts: Any, stops: Any) -> tuple[Any, Any]:
        """The sums of boxes by a table of the sums of all boxes at the origin, and the items of each box (int64).

        A box has a row of `starts` and one of `stops` (int64), a place for each dimension. A box that is not within the table
        has -1 items. Corners are added in order, the first one first, the last dimension turning first.
        """
        ...

    def write_codes(self, x: Any, codes: Any, lengths: Any, block: int) -> tuple[Any, Any]:
        """The codes of bytes, as many as a multiple of 4, one behind the other in words of 64 bits; and the bits of each block.

        The first bit is the lowest. A code has at most 12 bits.
        """
        ...


class Automata(Protocol):
    """The functions by which an engine runs automata over text."""

    def run_automaton(self, lexer: Any, text: Any) -> tuple[Any, int] | None:
        """The code of the tokens that each byte of text ends, and the last configuration; None where a lexer is too large for the
        engine.
        """
        ...


class Cascades(Protocol):
    """The function by which an engine takes items through all sections of a filter at once."""

    def cascade(self, sections: Sequence[Any], dtype: str, order: str) -> Callable[[Any], Any]:
        """The function that gives the results, in `dtype`, of sections of a filter in series along the last axis of an array of
        real numbers; it gives None where the engine leaves rows that lie like these to scans.

        Each has the bits of a scan; `upsweep.apps.sections` says what a section is.
        """
        ...


class Loops(Protocol):
    """The loops that an engine has of its own for applications. The first bit of a code is the lowest of its word of 64 bits."""

    def feed_forward(self, b: Sequence[float], x: Any) -> Any:
        """`b[0] x[t] + b[1] x[t-1] + ...` along the last axis of float64, every product and sum rounded, from left to right."""
        ...

    def last_state(self, b: Sequence[float], a: Sequence[float], x: Any, y: Any, before: Any) -> Any:
        """The state of a filter's transposed direct form, along the last axis, behind the last items of float64: each product of
        `b` with an item of x is added, of `a` with one of y taken away, the last items first."""
        ...

    def filtered(
        self, sections: Sequence[Any], packed: Sequence[bytes], x: Any, before: Any, order: str
    ) -> tuple[Any, Any]:
        """One row of float64 through a filter that goes on from the state `before`: the results, and the state behind them.

        It is what `feed_forward`, the sections of `1 / a` and `last_state` make of it. `packed` holds b and a, float64 in bytes.
        """
        ...

    def horner(self, p: Any, x: Any) -> Any:
        """A polynomial at points of its dtype, float32 or wider, with the bits of `h = h x + p[k]` in order."""
        ...

    def forward_in_order(self, initial: Any, transition: Any, likelihood: Any) -> tuple[Any, Any]:
        """`upsweep.apps.trellis.forward_in_order`, with its bits."""
        ...

    def best_path_in_order(self, initial: Any, transition: Any, likelihood: Any) -> tuple[Any, Any]:
        """`upsweep.apps.trellis.best_path_in_order`, with its bits."""
        ...

    def read_codes(self, words: Any, table: Any, starts: Any, n: int, block: int) -> tuple[Any, Any]:
        """The n bytes of blocks that start at these bits, and the bit behind each block.

        The table has an entry for each value of the next 12 bits: 16 times the byte, plus the length of the byte's code, which is
        at most 12. Behind the last start there are words enough for a block of the longest codes.
        """
        ...

    def write_numbers(self, x: Any, block: int) -> tuple[Any, Any]:
        """The differences of numbers (int64), zig-zagged, each in the bits that the largest of its block needs; and these."""
        ...

    def read_numbers(self, words: Any, bits: Any, n: int, block: int) -> Any:
        """The n differences that these words hold; two more stand behind them."""
        ...


@cache
def moves(name: str) -> Moves | None:
    """The moves of the engine of that name, or None."""
    module = ENGINES[name].moves
    return cast(Moves, import_module(module)) if module else None


@cache
def automata(name: str) -> Automata | None:
    """The automata of the engine of that name, or None."""
    module = ENGINES[name].automata
    return cast(Automata, import_module(module)) if module else None


@cache
def cascades(name: str) -> Cascades | None:
    """The cascades of the engine of that name, or None."""
    module = ENGINES[name].cascades
    return cast(Cascades, import_module(module)) if module else None


@cache
def loops(name: str) -> Loops | None:
    """The loops of the engine of that name, or None."""
    module = ENGINES[name].loops
    return cast(Loops, import_module(module)) if module else None


def heads(xp: Any, x: Any) -> Any:
    """True where an item or row differs from the one before it, and at the first."""
    differ = x[1:] != x[:-1]
    if x.ndim > 1:
        differ = xp.any(differ, axis=tuple(range(1, x.ndim)))
    return xp.concat([xp.ones((min(1, x.shape[0]),), dtype=xp.bool, device=x.device), differ])


def select(xp: Any, starts: Any, x: Any, values: Any, places: Any, lengths: Any) -> Any:
    """`Moves.select` of the places `starts`."""
    n = x.shape[0]
    ends = xp.concat([starts[1:], xp.full((min(n, 1),), n, dtype=xp.int64, device=x.device)])
    for out, chosen in (
        (values, lambda: x[starts]),
        (places, lambda: starts),
        (lengths, lambda: ends - starts),
    ):
        if out is not None:
            room = min(out.shape[0], starts.shape[0])
            out[:room] = chosen()[:room]
    return xp.asarray(starts.shape[0], dtype=xp.int64, device=x.device)
