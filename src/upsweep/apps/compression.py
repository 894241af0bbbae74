"""Compression whose every step is parallel: differences, bit-packing and Huffman codes, placed by scans.

A frame is a header (magic, kind of data, items, CRC-32 of the rest) and a body. Bytes are coded by canonical Huffman codes of
at most 12 bits, in blocks. The lengths of the blocks in bits stand in front, and their prefix sums say where each block starts,
so all blocks are decoded side by side. Wider integers become differences, which are zig-zagged to small non-negative numbers. A
block's differences are packed by the bits that its largest one needs.
"""

from __future__ import annotations

import heapq
import struct
import zlib
from typing import Any

import numpy as np

from upsweep import api
from upsweep.apps.counting import histogram
from upsweep.apps.kinds import enter, host
from upsweep.arguments import ShapeError
from upsweep.engine import DTypeError

_HEADER = struct.Struct("<4s2sQI")
_MAGIC = b"ups1"
_BLOCK = 512
_LONGEST = 12
_PACK = 128
_PAIR = np.uint32((1 << 24) - 1)


class CompressionError(ValueError):
    """The bytes to decompress are damaged, cut short, or no frame at all."""


def compress(x: Any) -> bytes:
    """A frame that `decompress` turns back into x.

    Args:
        x: bytes, or a 1-D array of integers of any width.

    Raises:
        DTypeError: an array of another dtype. ShapeError: not 1-D.

    >>> from upsweep import apps
    >>> text = b"to be or not to be, that is the question" * 50
    >>> frame = apps.compress(text)
    >>> len(frame) < 0.6 * len(text), apps.decompress(frame) == text
    (True, True)

    Source: Deutsch, RFC 1951, for canonical codes; Lemire and Boytsov, "Decoding billions of integers per second" (2015), for
    packing; Blelloch (1990) for the offsets.
    """
    if isinstance(x, (bytes, bytearray, memoryview)):
        kind, values = b"by", np.frombuffer(x, np.uint8)
    else:
        _, (values,), _ = enter(x)
        values = host(values)
        if values.ndim != 1:
            raise ShapeError(f"only 1-D arrays are compressed, got shape {values.shape}")
        if values.dtype.kind not in "iu":
            raise DTypeError(f"only bytes and integers are compressed, got {values.dtype}")
        kind = values.dtype.str[1:].encode()
    body = _coded(values.view(np.uint8)) if values.itemsize == 1 else _packed(values)
    head = _HEADER.pack(_MAGIC, kind, len(values), 0)
    return _HEADER.pack(_MAGIC, kind, len(values), zlib.crc32(body, zlib.crc32(head))) + body


def decompress(frame: Any) -> Any:
    """The argument that `compress` was given: bytes, or a NumPy array of the same dtype.

    Bytes are decoded one of each block of 512 at a time, by NumPy on one core: half the speed of zlib.

    Raises:
        CompressionError: anything but a whole and undamaged frame.
    """
    frame = bytes(frame)
    if len(frame) < _HEADER.size:
        raise CompressionError(f"a frame has at least {_HEADER.size} bytes, this has {len(frame)}")
    magic, kind, n, checksum = _HEADER.unpack_from(frame)
    body = frame[_HEADER.size :]
    if magic != _MAGIC or kind not in _KINDS:
        raise CompressionError("this is no frame of upsweep's")
    if zlib.crc32(body, zlib.crc32(_HEADER.pack(magic, kind, n, 0))) != checksum:
        raise CompressionError("the frame is damaged or cut short: its checksum is wrong")
    dtype = _KINDS[kind]
    x = _decoded(body, n).view(dtype) if dtype.itemsize == 1 else _unpacked(body, n, dtype)
    return x.tobytes() if kind == b"by" else x


_KINDS = {
    b"by": np.dtype(np.uint8),
    **{f"{k}{size}".encode(): np.dtype(f"{k}{size}") for k in "iu" for size in (1, 2, 4, 8)},
}


def _coded(x: np.ndarray) -> bytes:
    """Code lengths of the 256 bytes, lengths of the blocks in bits, codes."""
    lengths = _code_lengths(histogram(x, 256).tolist())
    codes = _codes(lengths)
    padded = np.concatenate([x, np.repeat(x[-1:], -len(x) % 4)]).view("<u2")
    pair = np.arange(1 << 16)
    low, high = pair & 255, pair >> 8
    # Lengths of at most 24 bits: the next length goes on top.
    pair_codes = codes[low] | codes[high] << lengths[low].astype(np.uint64)
    entries = (pair_codes | (lengths[low] + lengths[high]).astype(np.uint64) << 24).astype(np.uint32)[padded]
    first, second = entries[0::2], entries[1::2]
    widths = first >> 24
    # Four bytes have at most 48 bits and are written as one number.
    values = (first & _PAIR).astype(np.uint64)
    values |= (second & _PAIR).astype(np.uint64) << widths.astype(np.uint64)
    words, offsets = _write(values, (widths + (second >> 24)).astype(np.int64))
    starts = np.append(offsets[:-1][:: _BLOCK // 4], offsets[-1:])
    return (
        lengths.astype(np.uint8).tobytes()
        + np.diff(starts).astype("<u2").tobytes()
        + words.astype("<u8").tobytes()
    )


def _decoded(body: bytes, n: int) -> np.ndarray:
    blocks = -(-n // _BLOCK)
    where = 256 + 2 * blocks
    if len(body) < where or (len(body) - where) % 8:
        raise CompressionError("the frame is cut short")
    lengths = np.frombuffer(body, np.uint8, 256).astype(np.int64)
    if lengths.max() > _LONGEST or (n and np.ldexp(1.0, -lengths[lengths > 0]).sum() > 1):
        raise CompressionError("the frame's codes are none")
    offsets = api.cumulative_sum(
        np.frombuffer(body, "<u2", blocks, 256).astype(np.int64), include_initial=True
    )
    halves = np.frombuffer(body, "<u2", offset=where).astype(np.uint32)
    if not 0 <= 16 * len(halves) - offsets[-1] < 64:
        raise CompressionError("the frame's blocks do not fill it")
    halves = np.concatenate([halves, np.zeros(_BLOCK, np.uint32)])
    # At each 16 bits the next 32 bits, which hold any code from there.
    windows = halves[:-1] | halves[1:] << np.uint32(16)
    out, at = _all_blocks(windows, _table(lengths), offsets[:-1], (n - 1) % _BLOCK // 4 * 4 + 4)
    if (at != offsets[1:]).any():
        raise CompressionError("the frame's blocks do not end where they should")
    return np.ascontiguousarray(out.T).ravel()[:n]


def _all_blocks(
    windows: np.ndarray, table: np.ndarray, at: np.ndarray, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """One symbol of each block at a time, all blocks side by side; and the end of each block. The last block ends after `last`
    symbols.
    """
    at, end = at.copy(), at[-1:]
    out = np.empty((_BLOCK if len(at) else 0, len(at)), np.uint8)
    word, entry = np.empty(len(at), np.uint32), np.empty(len(at), np.uint16)
    for k, row in enumerate(out):
        if k == last:
            end = at[-1:].copy()
        np.take(windows, at >> 4, out=word, mode="clip")
        word >>= (at & 15).astype(np.uint32)
        word &= np.uint32((1 << _LONGEST) - 1)
        np.take(table, word, out=entry, mode="clip")
        np.right_shift(entry, 4, out=row, casting="unsafe")
        at += entry & 15
    if last < _BLOCK:
        at[-1:] = end
    return out, at


def _code_lengths(counts: list[int]) -> np.ndarray:
    """Lengths of Huffman's codes (1952), flattened until the longest fits."""
    while True:
        heap = [(count, symbol, symbol) for symbol, count in enumerate(counts) if count]
        leaves = [symbol for _, symbol, _ in heap]
        heapq.heapify(heap)
        # The parent of each node of the tree: symbols first, then sums in the order in which they were made.
        above = [0] * 512
        made = 256
        while len(heap) > 1:
            a, b = heapq.heappop(heap), heapq.heappop(heap)
            above[a[2]] = above[b[2]] = made
            heapq.heappush(heap, (a[0] + b[0], min(a[1], b[1]), made))
            made += 1
        depths = [0] * made
        for node in (*range(made - 2, 255, -1), *leaves):
            depths[node] = depths[above[node]] + 1
        if max(depths, default=0) <= _LONGEST:
            return np.array(depths[:256])
        counts = [(count + 1) // 2 for count in counts]


def _codes(lengths: np.ndarray) -> np.ndarray:
    """Canonical codes, the first bit lowest."""
    codes, code, last = np.zeros(256, np.uint64), 0, 0
    for symbol in sorted(np.flatnonzero(lengths).tolist(), key=lambda s: (lengths[s], s)):
        code <<= int(lengths[symbol]) - last
        last = int(lengths[symbol])
        codes[symbol] = int(f"{code:0{last}b}"[::-1], 2)
        code += 1
    return codes


def _table(lengths: np.ndarray) -> np.ndarray:
    """For any next 12 bits: the symbol that they start with, times 16, plus its length."""
    table, codes = np.zeros(1 << _LONGEST, np.uint16), _codes(lengths)
    for symbol in np.flatnonzero(lengths).tolist():
        table[int(codes[symbol]) :: 1 << int(lengths[symbol])] = symbol * 16 + int(lengths[symbol])
    return table


def _packed(x: np.ndarray) -> bytes:
    """Bits of each block of differences, then the differences."""
    wide = x.astype(np.int64) if x.dtype.kind == "i" else x.astype(np.uint64).view(np.int64)
    steps = np.diff(wide, prepend=np.int64(0))
    zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    blocks = np.concatenate([zigzag, np.zeros(-len(x) % _PACK, np.uint64)]).reshape(-1, _PACK)
    bits = _bits(np.bitwise_or.reduce(blocks, axis=1))
    words, _ = _write(zigzag, np.repeat(bits, _PACK)[: len(x)])
    return bits.astype(np.uint8).tobytes() + words.astype("<u8").tobytes()


def _unpacked(body: bytes, n: int, dtype: np.dtype) -> np.ndarray:
    blocks = -(-n // _PACK)
    if len(body) < blocks or (len(body) - blocks) % 8:
        raise CompressionError("the frame is cut short")
    bits = np.frombuffer(body, np.uint8, blocks).astype(np.int64)
    words = np.frombuffer(body, "<u8", offset=blocks).astype(np.uint64)
    sizes = np.full(blocks, _PACK, np.int64)
    sizes[blocks - 1 :] = n - _PACK * (blocks - 1)
    total = int((bits * sizes).sum())
    if (bits > 64).any() or len(words) != -(-total // 64):
        raise CompressionError("the frame's blocks do not fill it")
    zigzag = _read(words, np.repeat(bits, sizes))
    steps = (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)
    return api.scan(steps).astype(dtype) if n else np.empty(0, dtype)


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
    words = np.concatenate([words, np.zeros(2, np.uint64)])
    high = words[word + 1] << 1 << (63 - shift)
    return (words[word] >> shift | high) & _MASKS[widths]


_MASKS = np.array([(1 << width) - 1 for width in range(65)], np.uint64)
