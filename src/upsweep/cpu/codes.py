"""Keys as codes: by a table of all values, or by hashing them. The loops are in `numbering`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep import cores
from upsweep.cpu import threads
from upsweep.cpu.array_loops import loop
from upsweep.host.codes import Codes, numbered

_ROOMY = 4
"""A table of all values from the least to the greatest has at most so many entries an item; beyond that a hash table is used."""
_SLOTS = 1 << 12
PARALLEL_ITEMS = 1 << 16
"""One thread numbers, and scans, fewer items: joining what several did costs as much as it saves."""

members = loop("numbering", "members")
_by_table, _by_hash, _by_text, _into_larger, _renamed, _short = (
    loop("numbering", name) for name in ("by_table", "by_hash", "by_text", "into_larger", "renamed", "short")
)


def codes_of(keys: tuple[Any, ...], n: int, most: int | None = None) -> Codes:
    """The group of each of n items, int32, and how many items each group has. Items are of one group where all keys agree."""
    return numbered(keys, n, _dense, lambda data, offsets: _of_texts(data, offsets, most or cores.wanted()))


def _dense(numbers: np.ndarray) -> Codes:
    """Codes from 0 on, and how often each occurs."""
    n = len(numbers)
    codes = np.empty(n, np.int32)
    if not n:
        return codes, np.zeros(0, np.int64)
    low, high = numbers.min(), numbers.max()
    values = int(high) - int(low) + 1
    if values <= max(_ROOMY * n, _SLOTS):
        known, counts = np.full(values, -1, np.int32), np.zeros(min(n, values), np.int64)
        # As int64 the greatest numbers without a sign are below 0, and so is the least: their distance stays.
        groups = _by_table(numbers, int(low.astype(np.int64)), known, codes, counts)
    else:
        numbers, counts = numbers.astype(np.int64), np.zeros(n, np.int64)
        groups = _hashed(_by_hash, (numbers,), codes, counts, np.empty(n, np.int64))
    return codes, counts[:groups]


def _hashed(
    number: Callable[..., int],
    keys: tuple[np.ndarray, ...],
    codes: np.ndarray,
    counts: np.ndarray,
    first: np.ndarray,
) -> int:
    """Number keys by a hash table, which grows when it is full by half; how many groups there are."""
    table, groups, done = np.zeros((_SLOTS, 2), np.uint64), np.zeros(1, np.int64), 0
    while True:
        # A loop that made larger tables would look the table itself up for each item: four times the time.
        done = number(table, *keys, done, codes, counts, first, groups)
        if done == len(codes):
            return int(groups[0])
        larger = np.zeros((4 * len(table), 2), np.uint64)
        _into_larger(table, larger)
        table = larger


def _of_texts(data: np.ndarray, offsets: np.ndarray, most: int) -> Codes:
    """Each thread numbers a stretch by itself. The first items of its groups are numbered again, in order, with those of the
    other threads.
    """
    n, starts, stops = len(offsets) - 1, offsets[:-1], offsets[1:]
    wanted = most if n >= PARALLEL_ITEMS else 1
    codes, parts = np.empty(n, np.int32), [(n * k // wanted, n * (k + 1) // wanted) for k in range(wanted)]
    found: list[Any] = [None] * wanted

    def number(k: int) -> None:
        here = slice(*parts[k])
        found[k] = _numbered(data, starts[here], stops[here], codes[here])

    threads.each(number, range(wanted), wanted)
    if wanted == 1:
        return codes, found[0][1]
    first = np.concatenate([low + places for (low, _), (places, _) in zip(parts, found)])
    known = np.empty(len(first), np.int32)
    merged, _ = _numbered(data, starts[first], stops[first], known)
    counts = np.zeros(len(merged), np.int64)
    np.add.at(counts, known, np.concatenate([counted for _, counted in found]))
    own = np.split(known, np.cumsum([len(places) for places, _ in found])[:-1])

    def rename(k: int) -> None:
        _renamed(codes[slice(*parts[k])], own[k])

    threads.each(rename, range(1, wanted), wanted)
    return codes, counts


def _numbered(data: np.ndarray, starts: np.ndarray, stops: np.ndarray, codes: np.ndarray) -> Any:
    """Number texts; where each group appears first, and how many items it has."""
    first, counts = np.empty(len(codes), np.int64), np.zeros(len(codes), np.int64)
    words = np.empty(len(codes), np.int64)
    if _short(data, starts, stops, words):
        groups = _hashed(_by_hash, (words,), codes, counts, first)
    else:
        groups = _hashed(_by_text, (data, starts, stops), codes, counts, first)
    return first[:groups].copy(), counts[:groups].copy()
