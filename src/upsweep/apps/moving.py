"""Moves of data to the places that a scan gives: by the engine's own moves where it has them, else by a scan and a scatter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from upsweep import api
from upsweep.arguments import ShapeError
from upsweep.engine import choose, on_gpu
from upsweep.function import as_function
from upsweep.moves import Moves, heads, moves
from upsweep.moves import select as scattered
from upsweep.recall import MOST, never, seen


def fast(x: Any) -> Moves | None:
    """The moves of the engine that holds x."""
    return moves(choose((x,)))


def recalled(move: str, first: Callable[..., Any], *arrays: Any) -> Any:
    """The result of `first(*arrays)`, which checks the arrays and makes a move of them. On a GPU later arrays that are alike go a
    shorter way.
    """
    if not on_gpu(arrays[0]):
        return first(*arrays)
    like = (move, *[seen(x) for x in arrays])
    try:
        known = known_moves.get(like)
    except TypeError:
        # One of them may differ from the next one of its type.
        return first(*arrays)
    if known is not None:
        y = known(*arrays)
        if y is not None:
            return y
    y = first(*arrays)
    if known is None:
        if len(known_moves) >= MOST:
            known_moves.clear()
        moves = fast(arrays[0])
        known_moves[like] = (moves.again(move, *arrays) if moves else None) or never
    return y


known_moves: dict[Any, Callable[..., Any]] = {}
"""The functions that move arrays which are alike."""


def places(xp: Any, counts: Any, what: str = "counts") -> Any:
    """The starts of some variable-sized outputs, and last their total size: the exclusive sums of the counts."""
    n = counts.shape[0]
    # No count has a bit that this lacks, so one pass tells that all of them are small and none is negative.
    bits = int(api.last_prefix(counts, "or")) if n else 0
    if bits < 0:
        raise ShapeError(f"{what} must not be negative, got {int(xp.min(counts))}")
    if bits * n >= 2**63 and int(xp.max(counts)) * n >= 2**63:
        raise ShapeError(f"{what} up to {int(xp.max(counts))} add up to more items than any memory holds")
    starts = xp.empty(n + 1, dtype=xp.int64, device=counts.device)
    starts[:1] = 0
    api.scan(counts, "add", dtype=xp.int64, out=starts[1:])
    return starts


def predicate(xp: Any, arrays: Sequence[Any], keep: Callable[..., Any]) -> Any:
    """A predicate on an item, one of each array: a function where an engine evaluates it as it moves the items, else flags."""
    if any(x.shape != arrays[0].shape[:1] for x in arrays):
        shapes = ", ".join(str(tuple(x.shape)) for x in arrays)
        raise ShapeError(f"a function of items needs 1-D arrays of one length, got {shapes}")
    if len(arrays) == 1 and on_gpu(arrays[0]) and fast(arrays[0]):
        return replace(as_function(keep).taking([1]), results=(np.dtype(bool),))
    # The last flag up to an item is the item's own.
    return api.scan(tuple(arrays), "last", map=lambda *items: bool(keep(*items)), dtype="bool")


def pack(xp: Any, x: Any, keep: Any) -> Any:
    """The items of x where keep (flags, or a function from `predicate`) is true, in their order."""
    moves = fast(x)
    if moves:
        return moves.pack(x, keep)
    offsets = api.cumulative_sum(keep, include_initial=True)
    total = int(offsets[-1])
    y = xp.empty((total + 1, *x.shape[1:]), dtype=x.dtype, device=x.device)
    # All dropped items land in one extra item.
    y[xp.where(keep, offsets[:-1], total)] = x
    return y[:total]


def select(xp: Any, x: Any, keep: Any, values: Any = None, places: Any = None, lengths: Any = None) -> Any:
    """The kept items, as many as there is room for, and how many there are in all: `Moves.select`."""
    moves = fast(x)
    if moves:
        return moves.select(x, keep, values, places, lengths)
    starts = where(xp, heads(xp, x) if keep is None else keep)
    return scattered(xp, starts, x, values, places, lengths)


def partition(xp: Any, x: Any, keep: Any) -> tuple[Any, int]:
    """The items of x where keep is true, then the others; and the number of kept ones."""
    moves = fast(x)
    if moves:
        return moves.partition(x, keep)
    kept = pack(xp, x, keep)
    return xp.concat([kept, pack(xp, x, ~keep)]), int(kept.shape[0])


def where(xp: Any, keep: Any) -> Any:
    """The places where keep is true."""
    moves = fast(keep)
    return moves.where(keep) if moves else pack(xp, indices(xp, keep.shape[0], keep), keep)


def found(xp: Any, x: Any, keep: Any) -> tuple[Any, Any]:
    """The items of 1-D x where keep is true, and their places."""
    moves = fast(x)
    if moves:
        return moves.found(x, keep)
    at = where(xp, keep)
    return x[at], at


def unique(xp: Any, x: Any) -> Any:
    """The first item or row of each run of equal ones."""
    moves = fast(x) if x.ndim == 1 else None
    return moves.unique(x) if moves else pack(xp, x, heads(xp, x))


def runs(xp: Any, x: Any) -> tuple[Any, Any]:
    """The first item or row of each run of equal ones, and the lengths of the runs."""
    moves = fast(x) if x.ndim == 1 else None
    if moves:
        return moves.runs(x)
    n = x.shape[0]
    starts = where(xp, heads(xp, x))
    ends = xp.concat([starts[1:], xp.full((min(n, 1),), n, dtype=xp.int64, device=x.device)])
    return x[starts], ends - starts


def indices(xp: Any, n: int, like: Any) -> Any:
    return xp.arange(n, dtype=xp.int64, device=like.device)


def repeat(xp: Any, x: Any, counts: Any, what: str = "counts") -> Any:
    """x[s] counts[s] times, for every s."""
    moves = fast(x)
    if moves:
        return moves.repeat(x, counts, lambda: places(xp, counts, what))
    return x[owners(xp, counts, what)[0]]


def fill(xp: Any, x: Any, counts: Any, out: Any, what: str = "counts") -> Any:
    """The items of `repeat`, as many as there is room for, and how many there are in all: `Moves.fill`."""
    if (moves := fast(x)) and on_gpu(x):
        return moves.fill(x, counts, out)
    made = repeat(xp, x, counts, what)
    room = min(out.shape[0], made.shape[0])
    out[:room] = made[:room]
    return xp.asarray(made.shape[0], dtype=xp.int64, device=x.device)


def owners(xp: Any, counts: Any, what: str = "counts") -> tuple[Any, Any]:
    """For each item of such an output: the s that it belongs to, and its place among the items of s."""
    moves = fast(counts)
    if moves:
        return moves.owners(counts, lambda: places(xp, counts, what))
    offsets = places(xp, counts, what)
    marks = xp.zeros(int(offsets[-1]), dtype=xp.int64, device=offsets.device)
    used = where(xp, offsets[1:] > offsets[:-1])
    marks[offsets[used]] = used
    owner = api.cummax(marks)
    return owner, indices(xp, owner.shape[0], owner) - offsets[owner]


def distances(xp: Any, links: Any) -> Any:
    """How many links lead from each item to one whose link is -1: `Moves.distances`.

    By doubling where the engine has no way of its own. Behind the items stands the end, which follows itself; that number and the
    place share a word, so that each round reads memory at random once.
    """
    moves = fast(links)
    if moves:
        return moves.distances(links)
    n = links.shape[0]
    places = xp.where((links >= -1) & (links < n), xp.astype(links, xp.int64), indices(xp, n, links))
    words = xp.concat(
        [xp.where(places < 0, n, places) | 1 << 32, xp.full((1,), n, dtype=xp.int64, device=links.device)]
    )
    for _ in range(n.bit_length()):
        next = words[words & _PLACE]
        words = next + (words & ~_PLACE)
    return xp.where(words[:n] & _PLACE == n, (words[:n] >> 32) - 1, -1)


_PLACE = (1 << 32) - 1


def boxes(xp: Any, table: Any, starts: Any, stops: Any) -> tuple[Any, Any]:
    """The sums of boxes by a table, and the items of each box: `Moves.boxes`."""
    moves = fast(table)
    if moves:
        return moves.boxes(table, starts, stops)
    shape = xp.asarray(np.array(table.shape), device=table.device)
    within = xp.all((starts >= 0) & (starts <= stops) & (stops < shape), axis=1)
    starts, sides = (xp.where(within[:, None], x, 0) for x in (starts, stops - starts))
    steps = [math.prod(table.shape[d + 1 :]) for d in range(table.ndim)]
    flat, sums = xp.reshape(table, (-1,)), xp.zeros(starts.shape[0], dtype=table.dtype, device=table.device)
    for corner in product((0, 1), repeat=table.ndim):
        places = sum(((starts[:, d] + c * sides[:, d]) * steps[d] for d, c in enumerate(corner)))
        sums = sums - flat[places] if (table.ndim - sum(corner)) % 2 else sums + flat[places]
    return sums, xp.where(within, xp.prod(sides, axis=1), -1)
