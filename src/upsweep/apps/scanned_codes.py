"""Codes of varying length written and read by scans and whole arrays: what engines without loops of their own do."""

from __future__ import annotations

import numpy as np

from upsweep import api
from upsweep.apps.counting import histogram

_PAIR = np.uint32((1 << 24) - 1)


def write_codes(
    x: np.ndarray, codes: np.ndarray, lengths: np.ndarray, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """`upsweep.moves.Loops.write_codes`. Of four bytes, which have at most 48 bits, one number is made."""
    pair = np.arange(1 << 16)
    low, high = pair & 255, pair >> 8
    both = codes[low] | codes[high] << lengths[low].astype(
        np.uint64
    )  # at most 24 bits: the length goes on top
    entries = (both | (lengths[low] + lengths[high]).astype(np.uint64) << 24).astype(np.uint32)[x.view("<u2")]
    first, second = entries[0::2], entries[1::2]
    widths = first >> 24
    values = (first & _PAIR).astype(np.uint64)
    values |= (second & _PAIR).astype(np.uint64) << widths.astype(np.uint64)
    words, offsets = _write(values, (widths + (second >> 24)).astype(np.int64))
    return words, np.diff(np.append(offsets[:-1][:: block // 4], offsets[-1:]))


def read_codes(
    words: np.ndarray, table: np.ndarray, starts: np.ndarray, n: int, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """`upsweep.moves.Loops.read_codes`: a byte of each block at a time, all blocks side by side."""
    halves = words.astype("<u8").view("<u2").astype(np.uint32)
    windows = halves[:-1] | halves[1:] << np.uint32(
        16
    )  # at each 16 bits the next 32, which hold any code from there
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


def write_numbers(x: np.ndarray, block: int) -> tuple[np.ndarray, np.ndarray]:
    """`upsweep.moves.Loops.write_numbers`."""
    steps = np.diff(x, prepend=np.int64(0))
    zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    blocks = np.concatenate([zigzag, np.zeros(-len(x) % block, np.uint64)]).reshape(-1, block)
    bits = _bits(np.bitwise_or.reduce(blocks, axis=1))
    return _write(zigzag, np.repeat(bits, block)[: len(x)])[0], bits


def read_numbers(words: np.ndarray, bits: np.ndarray, n: int, block: int) -> np.ndarray:
    """`upsweep.moves.Loops.read_numbers`."""
    zigzag = _read(words, np.repeat(bits, block)[:n])
    return (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)


def _bits(x: np.ndarray) -> np.ndarray:
    """The bits that each number needs."""
    bits = np.zeros(len(x), np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        more = x >> np.uint64(step) > 0
        bits += step * more
        x = np.where(more, x >> np.uint64(step), x)
    return bits + (x > 0)


def _write(values: np.ndarray, widths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers one after another, the lowest bit first, each in its width; and the start of each, in bits.

    Within a word the numbers share no bit, so that their sum is their union, and that is a difference of prefix sums.
    """
    offsets = api.cumulative_sum(widths, include_initial=True)
    word, shift = offsets[:-1] >> 6, (offsets[:-1] & 63).astype(np.uint64)
    low, high = values << shift, values >> 1 >> (63 - shift)
    size = -(-int(offsets[-1]) // 64)
    edges = api.cumulative_sum(histogram(word, size + 1), include_initial=True)[: size + 1]
    lows, highs = (
        api.cumulative_sum(part.view(np.int64), include_initial=True)[edges] for part in (low, high)
    )
    words = np.diff(lows)
    words[1:] += np.diff(highs)[:-1]
    return words.view(np.uint64), offsets


def _read(words: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The numbers that `_write` wrote."""
    offsets = api.cumulative_sum(widths, include_initial=True)[:-1]
    word, shift = offsets >> 6, (offsets & 63).astype(np.uint64)
    high = words[word + 1] << 1 << (63 - shift)
    return (words[word] >> shift | high) & _MASKS[widths]


_MASKS = np.array([(1 << width) - 1 for width in range(65)], np.uint64)
