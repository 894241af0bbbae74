"""Moves of data that go with scans: packing, repeating, counting. Each thread works on whole chunks.

A chunk's place in the output comes from the exclusive prefix sums of the chunks' counts, so the result depends neither on the
threads nor on the chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np

from upsweep import moves
from upsweep.cpu.boxes import boxes as boxes
from upsweep.cpu.chunked import CHUNK, SHARE, each_chunk, share_of
from upsweep.cpu.codecs import write_codes as write_codes
from upsweep.cpu.jitted import jitted
from upsweep.cpu.links import distances as distances
from upsweep.cpu.sorting import argsort as argsort
from upsweep.cpu.sorting import radix_sort as radix_sort
from upsweep.moves import heads

FEW = 4096
"""Items of which NumPy brings fewer together, by their places. us, NumPy and here, flags that no branch foresees: 1000 items 2.9
and 7.6, 4000 items 5.0 and 6.1, 16,000 items 11.0 and 9.4; 3 % of 4000 3.6 and 8.1."""
SPARSE = 32
"""Items a run from which NumPy finds the runs' starts sooner. ms, NumPy and here, of 2^24 int32: runs of 2 36 and 29, of 4 19.5
and 19.3, of 100 5.9 and 9.4; of 2^22 int64, runs of 4 12.3 and 4.5."""
PARTED = 1500
"""Items of which NumPy parts fewer, by their places. us, NumPy and here, other flags in each call: 1000 items 4.1 and 4.6, 2000
5.8 and 5.3."""
REPEATED = 1 << 17
"""Items of which NumPy repeats fewer. us, NumPy and here, of float64: 1000 items 1.2 and 9.5, 10,000 4.4 and 12.6, 32,000 12 and
20, 64,000 330 and 32."""
_njit = jitted()
# Places have no sign. numba asks of a signed place whether it counts from the end, and the loop becomes no vector code.
_ONE, _EIGHT = np.uint64(1), np.uint64(8)


def pack(x: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """The items of `x` (1-D, or with rows) where `keep` is true, in their order."""
    if len(x) < FEW or not _words(x):
        return x.take(keep.nonzero()[0], 0)
    return _packed(x, *_flags(keep))


def _packed(x: np.ndarray, flags: np.ndarray, before: list[int]) -> np.ndarray:
    y = np.empty(before[-1], x.dtype)
    source, target = _raw(x), _raw(y)

    def bring(lo: int, hi: int) -> None:
        at, behind = before[lo // CHUNK : lo // CHUNK + 2]
        if at < behind:
            _pack_chunk(source, flags, lo, hi, target, at)

    each_chunk(len(x), bring)
    return y


def _flags(keep: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Flags as bytes, and how many of them are set before each chunk, and in all."""
    flags = np.ascontiguousarray(keep).view(np.uint8)
    counts = (int(np.count_nonzero(flags[lo : lo + CHUNK])) for lo in range(0, len(flags), CHUNK))
    return flags, list(accumulate(counts, initial=0))


def select(
    x: np.ndarray,
    keep: np.ndarray | None,
    values: np.ndarray | None,
    places: np.ndarray | None,
    lengths: np.ndarray | None,
) -> np.ndarray:
    """The kept items, as many as there is room for, and the number of all kept items."""
    starts = where(_heads(x) if keep is None else keep)
    return moves.select(np, starts, x, values, places, lengths)


def partition(x: np.ndarray, keep: np.ndarray) -> tuple[np.ndarray, int]:
    """The kept items, then the others, each in their order; and the number of kept items."""
    if len(x) < PARTED or not _words(x):
        kept = where(keep)
        return x.take(np.concatenate((kept, where(~keep))), 0), len(kept)
    flags, before = _flags(keep)
    y, total = np.empty(len(x), x.dtype), before[-1]
    source, target = _raw(x), _raw(y)

    def part(lo: int, hi: int) -> None:
        at = before[lo // CHUNK]
        _part_chunk(source, flags, lo, hi, target, at, total + lo - at)

    each_chunk(len(x), part)
    return y, total


def where(keep: np.ndarray) -> np.ndarray:
    """The places where `keep` is true, as int64."""
    return keep.nonzero()[0]


def found(x: np.ndarray, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The kept items and their places."""
    return pack(x, keep), where(keep)


def unique(x: np.ndarray) -> np.ndarray:
    """The first item of each run of equal items."""
    return pack(x, _heads(x))


def runs(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first item of each run of equal items, and the lengths of the runs."""
    keep = _heads(x)
    if len(x) >= FEW and _words(x):
        flags, before = _flags(keep)
        if before[-1] >= len(x) // SPARSE:
            lengths = np.empty(before[-1], np.int64)
            each_chunk(len(x), lambda lo, hi: _measure_chunk(flags, lo, hi, lengths, before[lo // CHUNK]))
            return _packed(x, flags, before), lengths
    starts = where(keep)
    lengths = np.append(starts, len(x))[1:]
    lengths -= starts
    return x[starts], lengths


def _heads(x: np.ndarray) -> np.ndarray:
    """`heads`, of numbers and times without arrays in between."""
    if x.dtype.kind not in "biufcmM":
        return heads(np, x)
    flags = np.empty(len(x), bool)
    flags[:1] = True

    def compare(lo: int, hi: int) -> None:
        lo = max(lo, 1)
        np.not_equal(x[lo:hi], x[lo - 1 : hi - 1], out=flags[lo:hi])

    each_chunk(len(x), compare)
    return flags


def repeat(x: np.ndarray, counts: np.ndarray, offsets: Callable[[], np.ndarray]) -> np.ndarray:
    """`x[s]` repeated `counts[s]` times, for every s. Each thread finds the start of its share of the output."""
    # No count has a bit that this lacks: none is larger, and none below zero where this is not.
    bits = int(np.bitwise_or.reduce(counts)) if len(counts) else 0
    if 0 <= bits * len(counts) < REPEATED:
        return x.repeat(counts.astype(np.intp, copy=False), 0)
    return _repeated(x, offsets())


def owners(counts: np.ndarray, offsets: Callable[[], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """For each item of such an output its s, and its place among the items of s."""
    bounds = offsets()
    owner, rank = np.empty((2, int(bounds[-1])), np.int64)
    each_chunk(len(owner), lambda lo, hi: _own_chunk(bounds, lo, hi, owner, rank))
    return owner, rank


def _repeated(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    if not _words(x):
        return np.take(x, _repeated(np.arange(len(x)), offsets), axis=0)
    y = np.empty(int(offsets[-1]), x.dtype)
    source, target = _raw(x), _raw(y)
    each_chunk(len(y), lambda lo, hi: _repeat_chunk(source, offsets, lo, hi, target))
    return y


def count(x: np.ndarray, bins: int) -> tuple[np.ndarray, int]:
    """The number of times that each of 0 ... bins - 1 occurs in `x`, and their sum; items outside of these are left out."""
    if len(x) <= SHARE:
        whole = np.zeros(bins, np.int64)
        return whole, _count_chunk(x, whole)
    share = max(share_of(len(x)), bins)
    counts = np.zeros((-(-len(x) // share), bins), np.int64)
    each_chunk(len(x), lambda lo, hi: _count_chunk(x[lo:hi], counts[lo // share]), share)
    whole = counts.sum(0) if len(counts) > 1 else counts[0]
    return whole, int(whole.sum())


def _words(x: np.ndarray) -> bool:
    """Whether items are moved as integers of their size. Python counts who holds its objects."""
    return x.ndim == 1 and x.itemsize in _RAW and not x.dtype.hasobject


_RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _raw(x: np.ndarray) -> np.ndarray:
    """Items as unsigned integers of their size, so that each size is compiled once."""
    return np.ascontiguousarray(x).view(_RAW[x.itemsize])


@_njit
def _pack_chunk(x, keep, lo, hi, y, at):
    # The chunk ends with an item that is kept, so the stores below never touch the items that the next chunk writes.
    while hi > lo and not keep[hi - 1]:
        hi -= 1
    i, hi, at = np.uint64(lo), np.uint64(hi), np.uint64(at)
    for word in keep[lo : hi - (hi - i) % _EIGHT].view(np.uint64):
        if word:
            # Bytes that were viewed as booleans may be other than 0 and 1: their lowest bits become what all of theirs tell.
            word |= word >> np.uint64(4)
            word |= word >> np.uint64(2)
            word |= word >> _ONE
            for j in range(_EIGHT):
                y[at] = x[i + j]
                at += word >> (_EIGHT * j) & _ONE
        i += _EIGHT
    while i < hi:
        y[at] = x[i]
        at += np.uint64(keep[i] != 0)
        i += _ONE


@_njit
def _measure_chunk(heads, lo, hi, lengths, at):
    # A head ends the run before it. The first item is one and ends none.
    if lo == 0:
        lo, at = 1, 1
    while hi > lo and not heads[hi - 1]:
        hi -= 1
    if lo == hi and lo > 1:
        return
    start = lo - 1
    while not heads[start]:
        start -= 1
    i, hi, at, start = np.uint64(lo), np.uint64(hi), np.uint64(at), np.uint64(start)
    # What is written before the run ends is written again.
    for word in heads[lo : hi - (hi - i) % _EIGHT].view(np.uint64):
        if word:
            for j in range(_EIGHT):
                lengths[at - _ONE] = i + j - start
                head = word >> (_EIGHT * j) & _ONE
                start = i + j if head else start
                at += head
        i += _EIGHT
    while i < hi:
        lengths[at - _ONE] = i - start
        start = i if heads[i] else start
        at += np.uint64(heads[i])
        i += _ONE
    if at == np.uint64(len(lengths)):
        lengths[at - _ONE] = len(heads) - start


@_njit
def _part_chunk(x, keep, lo, hi, y, at, rest):
    at, rest = np.uint64(at), np.uint64(rest)
    for i in range(np.uint64(lo), np.uint64(hi)):
        kept = np.uint64(keep[i] != 0)
        y[at if kept else rest] = x[i]
        at += kept
        rest += _ONE - kept


@_njit
def _repeat_chunk(x, offsets, lo, hi, y):
    s = np.uint64(np.searchsorted(offsets, lo, side="right") - 1)
    lo, hi = np.uint64(lo), np.uint64(hi)
    while lo < hi:
        s += _ONE
        end, value = min(np.uint64(offsets[s]), hi), x[s - _ONE]
        first = lo
        # A processor foresees few branches of short repetitions. Eight items are written without one, and those behind the
        # repetition are written again.
        if lo + _EIGHT <= hi:
            for j in range(_EIGHT):
                y[lo + j] = value
            first += _EIGHT
        for i in range(first, end):
            y[i] = value
        lo = end


@_njit
def _own_chunk(offsets, lo, hi, owner, rank):
    s = np.uint64(np.searchsorted(offsets, lo, side="right") - 1)
    lo, hi = np.uint64(lo), np.uint64(hi)
    while lo < hi:
        start, s = np.uint64(offsets[s]), s + _ONE
        end, first = min(np.uint64(offsets[s]), hi), lo
        # Eight items are written without a branch, as in _repeat_chunk.
        if lo + _EIGHT <= hi:
            for j in range(_EIGHT):
                owner[lo + j] = s - _ONE
                rank[lo + j] = lo + j - start
            first += _EIGHT
        for i in range(first, end):
            owner[i] = s - _ONE
            rank[i] = i - start
        lo = end


@_njit
def _count_chunk(x, counts):
    """Count items into bins, and return how many lay in one."""
    outside = 0
    for v in x:
        if 0 <= v < len(counts):
            counts[v] += 1
        else:
            outside += 1
    return len(x) - outside
