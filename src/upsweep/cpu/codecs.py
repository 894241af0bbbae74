"""Codes of varying length written and read, blocks of them side by side: the loops of `upsweep.apps.compression`, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep.cpu import threads
from upsweep.cpu.jitted import jitted

SHARE = 128
"""Blocks that a thread takes at once: 64 KiB of bytes, 16 Ki numbers."""
_TOGETHER = 5
"""Codes that the next 64 bits hold for sure, of at most 12 bits each."""

_njit = jitted()


def write_codes(
    x: np.ndarray, codes: np.ndarray, lengths: np.ndarray, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """The codes of bytes one behind the other, in words of 64 bits, the lowest bits first; and the bits of each block."""
    blocks = -(-len(x) // block)
    entries, sizes = codes << np.uint64(8) | lengths.astype(np.uint64), np.empty(blocks, np.int64)
    _shares(blocks, lambda lo, hi: _sizes(x, entries, block, lo, hi, sizes))
    starts = np.append(0, np.cumsum(sizes))
    words = np.zeros(-(-int(starts[-1]) // 64), np.uint64)
    rests = np.zeros(-(-blocks // SHARE), np.uint64)

    def write(lo: int, hi: int) -> None:
        rests[lo // SHARE] = _write(x[lo * block : hi * block], entries, starts[lo], words)

    _shares(blocks, write)
    # The last word of a share is also the first word of the next share, which wrote its other bits.
    for k in np.flatnonzero(rests):
        words[starts[min((k + 1) * SHARE, blocks)] >> 6] |= rests[k]
    return words, sizes


def read_codes(
    words: np.ndarray, table: np.ndarray, starts: np.ndarray, n: int, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """The n bytes of blocks that start at these bits, and the bit behind each block."""
    y, ends, whole = np.empty(n, np.uint8), np.empty_like(starts), n // block
    rows = y[: whole * block].reshape(whole, block)
    _shares(whole, lambda lo, hi: _read(words, table, starts[lo:hi], rows[lo:hi], ends[lo:hi]))
    _read(words, table, starts[whole:], y[whole * block :].reshape(-1, max(1, n % block)), ends[whole:])
    return y, ends


def write_numbers(x: np.ndarray, block: int) -> tuple[np.ndarray, np.ndarray]:
    """The differences of numbers (int64), zig-zagged, in the bits that the largest of a block needs; and how many these are."""
    blocks = -(-len(x) // block)
    bits = np.empty(blocks, np.uint8)
    _shares(blocks, lambda lo, hi: _widths(x, block, lo, hi, bits))
    starts = np.append(0, np.cumsum(bits.astype(np.int64) * (block // 64)))
    words = np.zeros(int(starts[-1]) + 1, np.uint64)
    _shares(blocks, lambda lo, hi: _pack(x, block, lo, hi, bits, starts, words))
    over = (-len(x) % block) * int(bits[-1]) if blocks else 0
    return words[: -(-(64 * int(starts[-1]) - over) // 64)], bits


def read_numbers(words: np.ndarray, bits: np.ndarray, n: int, block: int) -> np.ndarray:
    """The n differences that `write_numbers` wrote. Behind the words there is one more."""
    starts = np.append(0, np.cumsum(bits.astype(np.int64) * (block // 64)))
    steps = np.empty(n, np.int64)
    _shares(len(bits), lambda lo, hi: _unpack(words, block, lo, hi, bits, starts, steps))
    return steps


def _shares(blocks: int, work: Callable[[int, int], Any]) -> None:
    threads.each(lambda lo: work(lo, min(blocks, lo + SHARE)), range(0, blocks, SHARE))


@_njit
def _sizes(x, entries, block, lo, hi, sizes):
    for k in range(lo, hi):
        bits = np.uint64(0)
        for v in x[k * block : (k + 1) * block]:
            bits += entries[v] & np.uint64(255)
        sizes[k] = bits


@_njit
def _write(x, entries, start, words):
    """Write all words but the last, if the last word is not full: then it is returned."""
    at, have, word = start >> 6, np.uint64(start & 63), np.uint64(0)
    for v in x:
        entry = entries[v]
        code, length = entry >> np.uint64(8), entry & np.uint64(255)
        word |= code << have
        have += length
        if have >= np.uint64(64):
            words[at] = word
            at += 1
            have -= np.uint64(64)
            word = code >> (length - have)
    return word


@_njit
def _read(words, table, starts, y, ends):
    """Read four blocks at a time: while one block waits, the others go on."""
    count, block = y.shape
    whole = block // _TOGETHER * _TOGETHER
    for k in range(0, count, 4):
        p, q, r = min(k + 1, count - 1), min(k + 2, count - 1), min(k + 3, count - 1)
        at, rows = (starts[k], starts[p], starts[q], starts[r]), (y[k], y[p], y[q], y[r])
        for i in range(0, whole, _TOGETHER):
            at = _read_few(words, table, at, rows, i, _TOGETHER)
        ends[k], ends[p], ends[q], ends[r] = _read_few(words, table, at, rows, whole, block - whole)


@_njit
def _read_few(words, table, at, rows, first, count):
    """Read `count` bytes of each of four blocks, from the bits `at` on. Returns the bits behind these bytes."""
    mask = np.uint64(len(table) - 1)
    (a, b, c, d), (p, q, r, s) = at, rows
    v, w, x, y = _next(words, a), _next(words, b), _next(words, c), _next(words, d)
    for i in range(first, first + count):
        e, f, g, h = table[v & mask], table[w & mask], table[x & mask], table[y & mask]
        j = np.uint64(i)
        p[j], q[j], r[j], s[j] = e >> 4, f >> 4, g >> 4, h >> 4
        e, f, g, h = e & 15, f & 15, g & 15, h & 15
        v, w, x, y = v >> np.uint64(e), w >> np.uint64(f), x >> np.uint64(g), y >> np.uint64(h)
        a, b, c, d = a + e, b + f, c + g, d + h
    return a, b, c, d


@_njit
def _next(words, at):
    """The 64 bits from the bit `at` on."""
    word, shift = at >> 6, np.uint64(at & 63)
    return words[word] >> shift | words[word + 1] << np.uint64(1) << (np.uint64(63) - shift)


@_njit
def _widths(x, block, lo, hi, bits):
    for k in range(lo, hi):
        before = x[k * block - 1] if k else 0
        used = np.uint64(0)
        for v in x[k * block : (k + 1) * block]:
            used |= _zigzag(v - before)
            before = v
        width = 0
        while width < 64 and used >> np.uint64(width):
            width += 1
        bits[k] = width


@_njit
def _zigzag(step):
    return np.uint64((step << 1) ^ (step >> 63))


@_njit
def _pack(x, block, lo, hi, bits, starts, words):
    """A block fills whole words, but for the last one."""
    for k in range(lo, hi):
        before, width = x[k * block - 1] if k else 0, np.uint64(bits[k])
        at, have, word = starts[k], np.uint64(0), np.uint64(0)
        for v in x[k * block : (k + 1) * block]:
            value = _zigzag(v - before)
            before = v
            word |= value << have
            have += width
            if have >= np.uint64(64):
                words[at] = word
                at += 1
                have -= np.uint64(64)
                word = value >> (width - have) if have else np.uint64(0)
        if have:
            words[at] = word


@_njit
def _unpack(words, block, lo, hi, bits, starts, steps):
    for k in range(lo, hi):
        width = np.int64(bits[k])
        mask = ~np.uint64(0) >> np.uint64(64 - width) if width else np.uint64(0)
        at = starts[k] << 6
        for i in range(k * block, min((k + 1) * block, len(steps))):
            value = _next(words, at) & mask
            steps[i] = np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))
            at += width
