"""Sorts by passes over eight bits of the keys, the lowest first, and by NumPy where that is faster and gives the same bits."""

from __future__ import annotations

from functools import cache, partial
from timeit import repeat, timeit
from typing import Any

import numpy as np

from upsweep import cores, sort_keys
from upsweep.cpu.chunked import each_chunk, share_of
from upsweep.cpu.jitted import jitted

FEW = {1: 1 << 16, 2: 1 << 16, 4: 6000, 8: 8000}
"""Keys, by their bytes, of which NumPy sorts fewer. NumPy's time over that of passes here (two threads): 4000 of 4 bytes .5, of 8
.5; 8000 of 4 1.0, of 8 1.0; 32,000 of 1 .7, of 2 .8; 64,000 of 1 1.0, of 2 1.0. A benchmark must draw other keys for each call: a
processor learns the branches of a thousand that it sees again, and a stable sort of float64 then takes 11 us instead of 39."""
FAST = 1.5e-9
"""Seconds a byte, of 4096 keys, below which NumPy sorts in vectors. Of 4096 float64, int32 and int16 NumPy took 2.7, 1.5 and 1.3
ns an item with AVX-512, and takes some 30 without vectors; two threads' passes take 15, 6 and 3, from 2^14 to 2^22 items."""

ORDERED = {1: 1 << 16, 2: 1 << 16, 4: 2500, 8: 4500}
"""Keys of which fewer are ordered by NumPy. us, AMD with AVX2, other keys in each call: int32 a stable order, words and passes
1000 keys 32, 17, 39, 2000 72, 39, 45, 5900 257, 143, 64; int64 1000 32, 21, 72, 2000 72, 43, 84, 5900 260, 149, 127; float64 a
stable order, any order and passes 1000 48, 27, 86, 2000 109, 58, 107, 5900 390, 205, 171."""
WORDS = 400
"""Keys from which on words of a key and its place are faster than a stable order: 300 int32 5.9 and 8.0 us, int64 9.6 and 8.3."""
DIFFERENT = range(250, 1 << 17)
"""Keys, of float64, that NumPy orders in vectors where none equals another. Time over that of a stable order, AMD with AVX-512,
loaded: 4000 keys .65, 16,000 .6, 100,000 .5, 2^20 .9; AMD with AVX2: 200 keys 1.0, 300 .8, 1000 .6. In vain, as two keys are
equal, 1.2 to 2."""

_njit = jitted()
# Places have no sign: see moves.py.
_ONE = np.uint64(1)


def radix_sort(
    x: np.ndarray, values: np.ndarray | None, falling: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Keys in stable order, and values with them. Without values, and where the keys tell all of it, the keys alone are
    sorted.
    """
    few = len(x) < FEW[x.itemsize] and (x.itemsize >= 4 or x.dtype.kind in "biu")
    if values is None and (few or _numpy_is_faster(x.dtype)):
        # `np.sort`, which does the same, takes half a microsecond more. Its stable sort goes by digits of at most two bytes.
        ordered = x.copy()
        ordered.sort(kind=None if x.itemsize >= 4 or _numpy_is_faster(x.dtype) else "stable")
        if _as_if_stable(x, ordered):
            return ordered[::-1].copy() if falling else ordered, None
    if values is not None:
        order = argsort(x, falling)
        return x[order], values[order]
    keys = sort_keys.keys(np, x, falling)
    if np.array_equal(sort_keys.unkeyed(keys, x, falling), sort_keys.bits(np, x)):
        return sort_keys.unkeyed(_sorted(keys), x, falling).view(x.dtype), None
    return x[_order(keys)], None


@cache
def _numpy_is_faster(dtype: np.dtype) -> bool:
    """Whether NumPy sorts in vectors on this processor, and passes have no more than four threads. NumPy does not tell, so it is
    timed once.
    """
    if cores.wanted() > 4 or dtype.kind not in "iuf":
        return False
    some = np.random.default_rng(0).integers(0, 1 << 15, 4096).astype(dtype)
    return min(repeat(lambda: np.sort(some), number=1, repeat=5)) < FAST * some.nbytes


def _as_if_stable(x: np.ndarray, ordered: np.ndarray) -> bool:
    """Whether a sort that was not stable shows nothing of it: items that are equal have the same bits, but for zeros and NaNs. Of
    zeros of both signs NumPy's vectors may make one sign, so the keys themselves tell."""
    if ordered.dtype.kind != "f" or not len(ordered):
        return True
    if ordered[-1] != ordered[-1]:
        return False
    # NumPy would convert the whole array to the dtype of another zero.
    zero = ordered.dtype.type(0)
    first = ordered.searchsorted(zero)
    if first == len(ordered) or ordered[first] != zero:
        return True
    signs = np.signbit(x[x == zero])
    return bool(signs.all() or not signs.any())


def argsort(x: np.ndarray, falling: bool) -> np.ndarray:
    """The order that keys sort into, as int64."""
    few = len(x) < ORDERED[x.itemsize] and (x.itemsize >= 4 or x.dtype.kind in "biu")
    if few and len(x) >= WORDS and x.itemsize >= 4:
        order = _order_of_words(x, falling)
        if order is not None:
            return order
    if (
        len(x) in DIFFERENT
        and x.dtype == np.float64
        and (_in_vectors() if few else _numpy_is_faster(x.dtype))
    ):
        order = _order_of_different(x)
        if order is not None:
            return order[::-1].copy() if falling else order
    if few:
        # Falling is rising from the last item to the first: equal keys keep their order, and NaNs come first.
        return len(x) - 1 - x[::-1].argsort(kind="stable")[::-1] if falling else x.argsort(kind="stable")
    return _order(sort_keys.keys(np, x, falling))


def _order_of_words(x: np.ndarray, falling: bool) -> np.ndarray | None:
    """The order of keys as words that NumPy sorts in vectors: of a key and its place, so that no two are equal. None where a word
    has no room for both."""
    places = (len(x) - 1).bit_length()
    if x.dtype == np.float64:
        return None
    words = sort_keys.keys(np, x, falling).astype(np.int64)
    if x.itemsize == 8:
        low = words.min()
        if int(words.max()) - int(low) >= 1 << 63 - places:
            return None
        words -= low
    words <<= places
    words |= np.arange(len(x))
    words.sort()
    words &= (1 << places) - 1
    return words


@cache
def _in_vectors() -> bool:
    """Whether NumPy orders float64 in vectors on this processor. NumPy does not tell: it is timed once, beside a stable sort, and
    on other keys each time: a processor learns the branches of a sort that it sees again."""
    rows = np.random.default_rng(0).random((8, 1000))
    quick = min(timeit(row.argsort, number=1) for row in rows)
    return quick < 0.7 * min(timeit(partial(row.argsort, kind="stable"), number=1) for row in rows)


def _order_of_different(x: np.ndarray) -> np.ndarray | None:
    """The order of keys of which no two are equal, which any sort finds; None where two are, or one is NaN."""
    if not _rise(np.sort(x[:64])):
        return None
    order = x.argsort()
    return order if _rise(x[order]) else None


def _rise(keys: np.ndarray) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def _sorted(keys: np.ndarray) -> np.ndarray:
    """Keys in rising order: passes over 8 bits, the lowest first, without the bytes that all keys share."""
    if len(keys) < FEW[keys.itemsize]:
        # Equal keys have equal bits. NumPy's stable sort goes by digits where keys have at most two bytes.
        return np.sort(keys, kind="stable" if keys.itemsize < 4 else None)
    moved = _unsigned(keys)
    for shift in _useful_shifts(moved):
        moved = _pass(moved, shift, moved, moved.dtype)
    return (moved ^ _top(moved)).view(keys.dtype)


def _order(keys: np.ndarray) -> np.ndarray:
    """The stable order of keys, as int64."""
    if len(keys) < ORDERED[keys.itemsize]:
        return np.argsort(keys, kind="stable")
    if _rising(keys):
        return np.arange(len(keys))
    order = np.arange(len(keys), dtype=np.uint32 if len(keys) < 1 << 32 else np.uint64)
    moved = _unsigned(keys)
    *shifts, last = _useful_shifts(moved)
    for shift in shifts:
        moved, order = _pair_pass(moved, order, shift)
    return _pass(moved, last, order, np.int64)


@_njit
def _rising(keys):
    """Whether keys are in order as they lie; of keys in no order, the first few tell."""
    i = 1
    while i < len(keys) and keys[i - 1] <= keys[i]:
        i += 1
    return i >= len(keys)


def _unsigned(keys: np.ndarray) -> np.ndarray:
    return keys.view(f"u{keys.itemsize}") ^ _top(keys)


def _top(keys: np.ndarray) -> np.unsignedinteger[Any]:
    """The highest bit of unsigned integers of the keys' size."""
    return np.dtype(f"u{keys.itemsize}").type(1 << (8 * keys.itemsize - 1))


def _pass(keys: np.ndarray, shift: int, moved: np.ndarray, dtype: Any) -> np.ndarray:
    """The array that is moved with the keys, or the keys themselves, in the order of a digit."""
    out, share = np.empty(len(keys), dtype), share_of(len(keys))
    starts = _bucket_starts(keys, shift, share)
    each_chunk(
        len(keys), lambda lo, hi: _scatter(keys, moved, shift, lo, hi, starts[lo // share], out), share
    )
    return out


def _pair_pass(keys: np.ndarray, order: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
    out, order_out, share = np.empty_like(keys), np.empty_like(order), share_of(len(keys))
    starts = _bucket_starts(keys, shift, share)

    def move(lo: int, hi: int) -> None:
        _scatter_pairs(keys, order, shift, lo, hi, starts[lo // share], out, order_out)

    each_chunk(len(keys), move, share)
    return out, order_out


def _useful_shifts(keys: np.ndarray) -> list[int]:
    if len(keys) < 2:
        return []
    varies = np.bitwise_or.reduce(keys) ^ np.bitwise_and.reduce(keys)
    return [shift for shift in range(0, 8 * keys.itemsize, 8) if int(varies) >> shift & 255]


def _bucket_starts(keys: np.ndarray, shift: int, share: int) -> np.ndarray:
    """The places of each chunk's keys of each digit: digits first, then chunks, which keeps the sort stable."""
    counts = np.zeros((-(-len(keys) // share), 256), np.int64)
    each_chunk(len(keys), lambda lo, hi: _digits(keys, shift, lo, hi, counts[lo // share]), share)
    by_digit = counts.T.ravel()
    return np.ascontiguousarray((np.cumsum(by_digit) - by_digit).reshape(256, -1).T)


@_njit
def _digits(keys, shift, lo, hi, counts):
    shift = keys.dtype.type(shift)
    for i in range(np.uint64(lo), np.uint64(hi)):
        counts[np.uint64((keys[i] >> shift) & 255)] += 1


@_njit
def _scatter(keys, moved, shift, lo, hi, starts, out):
    shift = keys.dtype.type(shift)
    for i in range(np.uint64(lo), np.uint64(hi)):
        digit = np.uint64((keys[i] >> shift) & 255)
        at = np.uint64(starts[digit])
        out[at] = moved[i]
        starts[digit] = at + _ONE


@_njit
def _scatter_pairs(keys, order, shift, lo, hi, starts, out, order_out):
    shift = keys.dtype.type(shift)
    for i in range(np.uint64(lo), np.uint64(hi)):
        digit = np.uint64((keys[i] >> shift) & 255)
        at = np.uint64(starts[digit])
        out[at] = keys[i]
        order_out[at] = order[i]
        starts[digit] = at + _ONE
