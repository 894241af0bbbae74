"""Codes of varying length written and read by scans and whole arrays: what engines without loops of their own do."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep import api, reductions
from upsweep.apps import moving
from upsweep.apps.kinds import enter

_PAIR = (1 << 24) - 1


def write_codes(x: Any, codes: np.ndarray, lengths: np.ndarray, block: int) -> tuple[Any, Any]:
    """`upsweep.moves.Moves.write_codes`. Of four bytes, which have at most 48 bits, one number is made."""
    xp, (x, table), _ = enter(x, codes.astype(np.int32) | lengths.astype(np.int32) << 24)
    entries = table[xp.astype(x, xp.int64)]
    first, second = entries[0::2], entries[1::2]
    # A pair has two bytes in at most 24 bits: its length stays on top.
    entries = first + (second & ~_PAIR) | (second & _PAIR) << (first >> 24)
    first, second = entries[0::2], entries[1::2]
    widths = first >> 24
    values = xp.astype(second & _PAIR, xp.int64) << widths | first & _PAIR
    words, offsets = _write(xp, values, xp.astype(widths + (second >> 24), xp.int64))
    ends = xp.concat([offsets[:-1][:: block // 4], offsets[-1:]])
    return words, ends[1:] - ends[:-1]


def read_codes(
    words: np.ndarray, table: np.ndarray, starts: np.ndarray, n: int, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """`upsweep.moves.Loops.read_codes`: a byte of each block at a time, all blocks side by side."""
    halves = words.astype("<u8").view("<u2").astype(np.uint32)
    # A window of 32 bits at each 16 bits holds any code that begins in its first half.
    windows = halves[:-1] | halves[1:] << np.uint32(16)
    at, last = starts.copy(), (n - 1) % block + 1
    end, mask = at[-1:], np.uint32(len(table) - 1)
    out = np.empty((block if len(at) else 0, len(at)), np.uint8)
    word, entry = np.empty(len(at), np.uint32), np.empty(len(at), np.uint16)
    for k, row in enumerate(out):
        if k == last:
            end = at[-1:].copy()
        np.take(windows, at >> 4, out=word, mode="clip")
        word >>= (at & 15).astype(np.uint32)
        word &= mask
        np.take(table, word, out=entry, mode="clip")
        np.right_shift(entry, 4, out=row, casting="unsafe")
        at += entry & 15
    if last < block:
        at[-1:] = end
    return np.ascontiguousarray(out.T).ravel()[:n], at


def write_numbers(x: Any, block: int) -> tuple[Any, Any]:
    """`upsweep.moves.Loops.write_numbers`, on a GPU as well."""
    xp, (x,), _ = enter(x)
    n = x.shape[0]
    steps = x - xp.concat([xp.zeros((min(n, 1),), dtype=xp.int64, device=x.device), x[:-1]])
    zigzag = (steps << 1) ^ (steps >> 63)
    rest = xp.zeros((-n % block,), dtype=xp.int64, device=x.device)
    used = reductions.reduce(xp.reshape(xp.concat([zigzag, rest]), (-1, block)), "or", axis=1)
    powers = xp.asarray([1 << k for k in range(63)], dtype=xp.int64, device=x.device)
    # A number whose highest bit is set is below zero as int64.
    bits = xp.where(used < 0, 64, xp.searchsorted(powers, used, side="right"))
    widths = xp.reshape(xp.broadcast_to(bits[:, None], (bits.shape[0], block)), (-1,))[:n]
    return _write(xp, zigzag, widths)[0], bits


def read_numbers(words: np.ndarray, bits: np.ndarray, n: int, block: int) -> np.ndarray:
    """`upsweep.moves.Loops.read_numbers`."""
    zigzag = _read(words, np.repeat(bits, block)[:n])
    return (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)


def _write(xp: Any, values: Any, widths: Any) -> tuple[Any, Any]:
    """Numbers one after another, the lowest bit first, each in its width; and the start of each, in bits.

    Within a word the numbers share no bit, so that their sum is their union, and that is a difference of prefix sums. The last
    number that starts in a word may go on in the next one.
    """
    offsets = api.cumulative_sum(widths, include_initial=True)
    size = -(-int(offsets[-1]) // 64)
    word, shift = offsets[:-1] >> 6, offsets[:-1] & 63
    edges = xp.searchsorted(word, moving.indices(xp, size + 1, word))
    sums = api.cumulative_sum(values << shift, include_initial=True)[edges]
    words, last = sums[1:] - sums[:-1], edges[1:-1] - 1
    words[1:] += (values[last] >> 1 & _POSITIVE) >> (63 - shift[last])
    return words, offsets


def _read(words: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The numbers that `_write` wrote."""
    offsets = api.cumulative_sum(widths, include_initial=True)[:-1]
    word, shift = offsets >> 6, (offsets & 63).astype(np.uint64)
    high = words[word + 1] << 1 << (63 - shift)
    return (words[word] >> shift | high) & _MASKS[widths]


_POSITIVE = (1 << 63) - 1
_MASKS = np.array([(1 << width) - 1 for width in range(65)], np.uint64)
