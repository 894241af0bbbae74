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

_by_table, _by_hash, _by_text, _near_by, _into_larger, _renamed, _short = (
    loop("numbering", name)
    for name in ("by_table", "by_hash", "by_text", "near", "into_larger", "renamed", "short")
)
in_line = loop("numbering", "in_line")


def codes_of(keys: tuple[Any, ...], n: int, most: int | None = None) -> Codes:
    """The group of each of n items, int32, by first appearance, and how many groups there are. Items are of one group where all
    keys agree."""
    return numbered(keys, n, _dense, lambda data, offsets: _of_texts(data, offsets, most or cores.wanted()))


def labels_of(keys: tuple[Any, ...], n: int, most: int | None = None) -> Codes:
    """The same, but for the order of the numbers, and there may be groups without items: to go without a table of integers that
    lie close together takes a fifth of the time."""
    return numbered(keys, n, _near, lambda data, offsets: _of_texts(data, offsets, most or cores.wanted()))


def _near(numbers: np.ndarray) -> Codes:
    """Codes that are distances from the least number, where these are fewer than the items."""
    codes = np.empty(len(numbers), np.int32)
    distance = _distances(numbers, codes)
    return (codes, distance[1] + 1) if distance[2] else _numbers(numbers, codes, *distance[:2])


def _dense(numbers: np.ndarray) -> Codes:
    """Codes from 0 on."""
    codes = np.empty(len(numbers), np.int32)
    return _numbers(numbers, codes, *_distances(numbers, codes[:0])[:2])


def _distances(numbers: np.ndarray, codes: np.ndarray) -> tuple[int, int, int]:
    """The least number, as int64, how far the greatest lies from it, and whether such distances are the codes now."""
    if not len(numbers):
        return 0, 0, 0
    told = np.empty(2, np.int64)
    made = _near_by(numbers.view(np.uint8) if numbers.dtype == bool else numbers, codes, told)
    return int(told[0]), int(told[1]), made


def _numbers(numbers: np.ndarray, codes: np.ndarray, low: int, distance: int) -> Codes:
    n = len(numbers)
    if not n:
        return codes, 0
    if 0 <= distance < max(_ROOMY * n, _SLOTS):
        return codes, _by_table(numbers, low, np.full(distance + 1, -1, np.int32), codes)
    return codes, _hashed(_by_hash, (numbers.astype(np.int64, copy=False),), codes, np.empty(n, np.int64))


def _hashed(
    number: Callable[..., int],
    keys: tuple[np.ndarray, ...],
    codes: np.ndarray,
    first: np.ndarray,
) -> int:
    """Number keys by a hash table, which grows when it is full by half; how many groups there are."""
    table, groups, done = np.zeros((_SLOTS, 2), np.uint64), np.zeros(1, np.int64), 0
    while True:
        # A loop that made larger tables would look the table itself up for each item: four times the time.
        done = number(table, *keys, done, codes, first, groups)
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
        return codes, len(found[0])
    first = np.concatenate([low + places for (low, _), places in zip(parts, found)])
    known = np.empty(len(first), np.int32)
    merged = _numbered(data, starts[first], stops[first], known)
    own = np.split(known, np.cumsum([len(places) for places in found])[:-1])

    def rename(k: int) -> None:
        _renamed(codes[slice(*parts[k])], own[k])

    threads.each(rename, range(1, wanted), wanted)
    return codes, len(merged)


def _numbered(data: np.ndarray, starts: np.ndarray, stops: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Number texts; where each group appears first."""
    first, words = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
    if _short(data, starts, stops, words):
        groups = _hashed(_by_hash, (words,), codes, first)
    else:
        groups = _hashed(_by_text, (data, starts, stops), codes, first)
    return first[:groups].copy()
