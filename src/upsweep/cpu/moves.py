"""Moves of data that go with scans: packing, repeating, counting, radix passes. Each thread works on whole chunks.

A chunk's place in the output comes from the exclusive prefix sums of the chunks' counts, so the result depends neither on the
threads nor on the chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from upsweep import cores, moves, sort_keys
from upsweep.cpu import threads
from upsweep.cpu.boxes import boxes as boxes
from upsweep.cpu.codecs import write_codes as write_codes
from upsweep.cpu.links import distances as distances
from upsweep.moves import heads

CHUNK = 1 << 17
"""Items that a thread takes at once. A million flags: 2^14 3.0 ms, 2^17 .9 ms, 2^20 1.4 ms (two threads)."""

_njit: Any = numba.njit(nogil=True, cache=True)


def pack(x: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """The items of `x` (1-D, or with rows) where `keep` is true, in their order."""
    if x.ndim > 1 or x.itemsize not in _RAW:
        return np.take(x, np.flatnonzero(keep), axis=0)
    counts = [int(np.count_nonzero(keep[lo : lo + CHUNK])) for lo in range(0, len(keep), CHUNK)]
    before = np.cumsum([0, *counts])
    y = np.empty(before[-1], x.dtype)
    source, target, flags = _raw(x), _raw(y), np.ascontiguousarray(keep).view(np.uint8)
    _each_chunk(len(x), lambda lo, hi: _pack_chunk(source, flags, lo, hi, target, before[lo // CHUNK]))
    return y


def select(
    x: np.ndarray,
    keep: np.ndarray | None,
    values: np.ndarray | None,
    places: np.ndarray | None,
    lengths: np.ndarray | None,
) -> np.ndarray:
    """As many kept items as there is room for, and their full number."""
    starts = where(heads(np, x) if keep is None else keep)
    return moves.select(np, starts, x, values, places, lengths)


def partition(x: np.ndarray, keep: np.ndarray) -> tuple[np.ndarray, int]:
    """The kept items, then the others, each in their order; and the number of kept items."""
    kept = pack(x, keep)
    return np.concatenate([kept, pack(x, ~keep)]), len(kept)


def where(keep: np.ndarray) -> np.ndarray:
    """The places where `keep` is true, as int64."""
    return np.flatnonzero(keep)


def found(x: np.ndarray, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The kept items and their places."""
    return pack(x, keep), where(keep)


def unique(x: np.ndarray) -> np.ndarray:
    """The first item of each run of equal items."""
    return pack(x, heads(np, x))


def runs(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first item of each run of equal items, and the lengths of the runs."""
    starts = where(heads(np, x))
    return x[starts], np.diff(starts, append=len(x))


def repeat(x: np.ndarray, counts: np.ndarray, offsets: Callable[[], np.ndarray]) -> np.ndarray:
    """`x[s]` repeated `counts[s]` times, for every s. Each thread finds the start of its share of the output."""
    return _repeated(x, offsets())


def owners(counts: np.ndarray, offsets: Callable[[], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """For each item of such an output its s, and its place among the items of s."""
    starts = offsets()
    owner = _repeated(np.arange(len(counts)), starts)
    rank = np.arange(len(owner))
    rank -= _repeated(starts[:-1], starts)
    return owner, rank


def _repeated(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    if x.ndim > 1 or x.itemsize not in _RAW:
        return np.take(x, _repeated(np.arange(len(x)), offsets), axis=0)
    y = np.empty(int(offsets[-1]), x.dtype)
    source, target, ends = _raw(x), _raw(y), offsets[1:]
    _each_chunk(len(y), lambda lo, hi: _repeat_chunk(source, ends, lo, hi, target))
    return y


def count(x: np.ndarray, bins: int) -> np.ndarray:
    """The number of times that each of 0 ... bins - 1 occurs in `x`; items outside of these are left out."""
    share = max(CHUNK, bins, -(-len(x) // cores.wanted()))
    counts = np.zeros((max(1, -(-len(x) // share)), bins), np.int64)
    _each_chunk(len(x), lambda lo, hi: _count_chunk(x[lo:hi], counts[lo // share]), share)
    return counts.sum(0)


def radix_sort(
    x: np.ndarray, values: np.ndarray | None, falling: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Keys in stable order, and values with them. Without values, and where the keys tell all of it, the keys alone are
    sorted.
    """
    keys = sort_keys.keys(np, x, falling)
    if values is None and np.array_equal(sort_keys.unkeyed(keys, x, falling), sort_keys.bits(np, x)):
        ordered = _sorted(_unsigned(keys)) ^ _top(keys)
        return sort_keys.unkeyed(ordered.view(keys.dtype), x, falling).view(x.dtype), None
    order = _order(_unsigned(keys))
    return x[order], None if values is None else values[order]


def argsort(x: np.ndarray, falling: bool) -> np.ndarray:
    """The order that keys sort into, as int64."""
    return _order(_unsigned(sort_keys.keys(np, x, falling)))


def _sorted(keys: np.ndarray) -> np.ndarray:
    """Unsigned keys in rising order: passes over 8 bits, the lowest first, without the bytes that all keys share."""
    for shift in _useful_shifts(keys):
        keys = _pass(keys, shift)
    return keys


def _order(keys: np.ndarray) -> np.ndarray:
    """The stable order of unsigned keys, as int64."""
    order = np.arange(len(keys), dtype=np.uint32 if len(keys) < 1 << 32 else np.uint64)
    for shift in _useful_shifts(keys):
        keys, order = _pair_pass(keys, order, shift)
    return order.astype(np.int64)


def _unsigned(keys: np.ndarray) -> np.ndarray:
    return keys.view(f"u{keys.itemsize}") ^ _top(keys)


def _top(keys: np.ndarray) -> np.unsignedinteger[Any]:
    """The highest bit of unsigned integers of the keys' size."""
    return np.dtype(f"u{keys.itemsize}").type(1 << (8 * keys.itemsize - 1))


def _pass(keys: np.ndarray, shift: int) -> np.ndarray:
    out, share = np.empty_like(keys), _share(len(keys))
    starts = _bucket_starts(keys, shift, share)
    _each_chunk(len(keys), lambda lo, hi: _scatter(keys, shift, lo, hi, starts[lo // share], out), share)
    return out


def _pair_pass(keys: np.ndarray, order: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
    out, order_out, share = np.empty_like(keys), np.empty_like(order), _share(len(keys))
    starts = _bucket_starts(keys, shift, share)

    def move(lo: int, hi: int) -> None:
        _scatter_pairs(keys, order, shift, lo, hi, starts[lo // share], out, order_out)

    _each_chunk(len(keys), move, share)
    return out, order_out


_RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _raw(x: np.ndarray) -> np.ndarray:
    """Items as unsigned integers of their size, so that each size is compiled once."""
    return np.ascontiguousarray(x).view(_RAW[x.itemsize])


def _each_chunk(n: int, work: Callable[[int, int], Any], size: int = CHUNK) -> None:
    threads.each(lambda k: work(k * size, min(n, (k + 1) * size)), range(-(-n // size)))


def _share(n: int) -> int:
    return max(CHUNK, -(-n // cores.wanted()))


def _useful_shifts(keys: np.ndarray) -> list[int]:
    if len(keys) < 2:
        return []
    varies = np.bitwise_or.reduce(keys) ^ np.bitwise_and.reduce(keys)
    return [shift for shift in range(0, 8 * keys.itemsize, 8) if int(varies) >> shift & 255]


def _bucket_starts(keys: np.ndarray, shift: int, share: int) -> np.ndarray:
    """The places of each chunk's keys of each digit: digits first, then chunks, which keeps the sort stable."""
    counts = np.zeros((-(-len(keys) // share), 256), np.int64)
    _each_chunk(len(keys), lambda lo, hi: _digits(keys, shift, lo, hi, counts[lo // share]), share)
    by_digit = counts.T.ravel()
    return np.ascontiguousarray((np.cumsum(by_digit) - by_digit).reshape(256, -1).T)


@_njit
def _pack_chunk(x, keep, lo, hi, y, at):
    # With this, the store below never touches the items that the next chunk writes.
    while hi > lo and not keep[hi - 1]:
        hi -= 1
    for i in range(lo, hi):
        y[at] = x[i]
        at += keep[i]


@_njit
def _repeat_chunk(x, ends, lo, hi, y):
    s = np.searchsorted(ends, lo, side="right")
    while lo < hi:
        end = min(ends[s], hi)
        value = x[s]
        while lo < end:
            y[lo] = value
            lo += 1
        s += 1


@_njit
def _count_chunk(x, counts):
    for v in x:
        if 0 <= v < len(counts):
            counts[v] += 1


@_njit
def _digits(keys, shift, lo, hi, counts):
    shift = keys.dtype.type(shift)
    for i in range(lo, hi):
        counts[(keys[i] >> shift) & 255] += 1


@_njit
def _scatter(keys, shift, lo, hi, starts, out):
    shift = keys.dtype.type(shift)
    for i in range(lo, hi):
        digit = (keys[i] >> shift) & 255
        out[starts[digit]] = keys[i]
        starts[digit] += 1


@_njit
def _scatter_pairs(keys, order, shift, lo, hi, starts, out, order_out):
    shift = keys.dtype.type(shift)
    for i in range(lo, hi):
        digit = (keys[i] >> shift) & 255
        at = starts[digit]
        out[at] = keys[i]
        order_out[at] = order[i]
        starts[digit] = at + 1
