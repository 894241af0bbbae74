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
from functools import reduce
from typing import Any

import numpy as np

from upsweep import api, homes
from upsweep.apps import moving, scanned_codes
from upsweep.apps.counting import histogram
from upsweep.apps.kinds import INTEGRAL, enter, host
from upsweep.arguments import ShapeError
from upsweep.dtypes import kind_of
from upsweep.engine import DTypeError, choose
from upsweep.moves import loops

_HEADER = struct.Struct("<4s2sQI")
_MAGIC = b"ups1"
_BLOCK = 512
_LONGEST = 12
_TURNED = np.sum([(np.arange(1 << _LONGEST) >> k & 1) << _LONGEST - 1 - k for k in range(_LONGEST)], axis=0)
"""Each number of 12 bits with its first bit last."""
_PACK = 128


class CompressionError(ValueError):
    """The bytes to decompress are damaged, cut short, or no frame at all."""


@homes.apart
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
        apart = isinstance(x, memoryview) and not x.c_contiguous
        kind, xp, values = b"by", np, np.frombuffer(bytes(x) if apart else x, np.uint8)
    else:
        xp, (values,), _ = enter(x)
        if values.ndim != 1:
            raise ShapeError(f"only 1-D arrays are compressed, got shape {tuple(values.shape)}")
        if kind_of(values.dtype) not in INTEGRAL:
            raise DTypeError(f"only bytes and integers are compressed, got {values.dtype}")
        kind = f"{kind_of(values.dtype)}{values.itemsize}".encode()
    parts = [part.data for part in (_coded if values.itemsize == 1 else _packed)(xp, values)]
    head = _HEADER.pack(_MAGIC, kind, len(values), 0)
    checksum = reduce(lambda so_far, part: zlib.crc32(part, so_far), parts, zlib.crc32(head))
    return b"".join([_HEADER.pack(_MAGIC, kind, len(values), checksum), *parts])


@homes.apart
def decompress(frame: Any) -> Any:
    """The argument that `compress` was given: bytes, or a NumPy array of the same dtype.

    Args:
        frame: what `compress` gave: bytes, or anything with a buffer of them.

    Raises:
        CompressionError: anything but a whole and undamaged frame.

    >>> from upsweep import apps
    >>> apps.decompress(apps.compress(b"a tale of a tub"))
    b'a tale of a tub'
    """
    try:
        frame = bytes(memoryview(frame))
    except TypeError as error:
        raise CompressionError(
            f"this {type(frame).__name__} is no frame: pass the bytes that compress gave"
        ) from error
    if len(frame) < _HEADER.size:
        raise CompressionError(f"a frame has at least {_HEADER.size} bytes, this one has {len(frame)}")
    magic, kind, n, checksum = _HEADER.unpack_from(frame)
    body = memoryview(frame)[_HEADER.size :]
    if magic != _MAGIC or kind not in _KINDS:
        raise CompressionError("these bytes are no frame: compress writes frames")
    if zlib.crc32(body, zlib.crc32(_HEADER.pack(magic, kind, n, 0))) != checksum:
        raise CompressionError("the frame is damaged or cut short: its checksum is wrong")
    dtype = _KINDS[kind]
    x = _decoded(body, n).view(dtype) if dtype.itemsize == 1 else _unpacked(body, n, dtype)
    return x.tobytes() if kind == b"by" else x


_KINDS = {
    b"by": np.dtype(np.uint8),
    **{f"{k}{size}".encode(): np.dtype(f"{k}{size}") for k in "iu" for size in (1, 2, 4, 8)},
}


def _coded(xp: Any, x: Any) -> tuple[np.ndarray, ...]:
    """Code lengths of the 256 bytes, lengths of the blocks in bits, codes. The last byte is repeated until they are fours."""
    x = xp.astype(x, xp.uint8, copy=False)
    lengths = _code_lengths(histogram(x, 256).tolist())
    padded = xp.concat([x, *[x[-1:]] * (-len(x) % 4)]) if len(x) % 4 else x
    moves = moving.fast(x) or scanned_codes
    words, sizes = moves.write_codes(padded, _codes(lengths), lengths, _BLOCK)
    return lengths.astype(np.uint8), host(sizes).astype("<u2"), _written(words)


def _written(words: Any) -> np.ndarray:
    return host(words).view(np.uint64).astype("<u8", copy=False)


def _decoded(body: memoryview, n: int) -> np.ndarray:
    blocks = -(-n // _BLOCK)
    where = 256 + 2 * blocks
    if len(body) < where or (len(body) - where) % 8:
        raise CompressionError("the frame is cut short")
    lengths = np.frombuffer(body, np.uint8, 256).astype(np.int64)
    if lengths.max() > _LONGEST or (n and np.ldexp(1.0, -lengths[lengths > 0]).sum() > 1):
        raise CompressionError("the frame is forged: its code lengths belong to no code")
    starts = api.cumulative_sum(
        np.frombuffer(body, "<u2", blocks, 256).astype(np.int64), include_initial=True
    )
    words = np.frombuffer(body, "<u8", offset=where)
    if not 0 <= 64 * len(words) - starts[-1] < 64:
        raise CompressionError("the frame is forged: its blocks have another length than the frame")
    # A forged block reads on behind the last word.
    words = np.concatenate([words, np.zeros(_BLOCK * _LONGEST // 64 + 1, np.uint64)])
    y, ends = _codecs().read_codes(words, _table(lengths), starts[:-1], -(-n // 4) * 4, _BLOCK)
    if (ends != starts[1:]).any():
        raise CompressionError("the frame is forged: a block does not end where the next one starts")
    return y[:n]


def _codecs(*arrays: Any) -> Any:
    """The loops of the engine that has these arrays, or scans of whole arrays."""
    return loops(choose(arrays)) or scanned_codes


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
    symbols, spans = _spans(lengths)
    codes = np.zeros(256, np.uint64)
    codes[symbols] = _TURNED[np.cumsum(spans) - spans]
    return codes


def _table(lengths: np.ndarray) -> np.ndarray:
    """For any next 12 bits: the symbol that they start with, times 16, plus its length."""
    symbols, spans = _spans(lengths)
    entries = np.repeat(symbols * 16 + lengths[symbols], spans)
    table = np.zeros(1 << _LONGEST, np.uint16)
    table[_TURNED[: len(entries)]] = entries
    return table


def _spans(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The symbols in the order of their codes, and how many numbers of 12 bits start with each code: from the code itself on."""
    symbols = np.argsort(lengths, kind="stable")[np.count_nonzero(lengths == 0) :]
    return symbols, 1 << _LONGEST - lengths[symbols]


def _packed(xp: Any, x: Any) -> tuple[np.ndarray, ...]:
    """Bits of each block of differences, then the differences."""
    words, bits = _codecs(x).write_numbers(xp.astype(x, xp.int64, copy=False), _PACK)
    return host(bits).astype(np.uint8), _written(words)


def _unpacked(body: memoryview, n: int, dtype: np.dtype) -> np.ndarray:
    blocks = -(-n // _PACK)
    if len(body) < blocks or (len(body) - blocks) % 8:
        raise CompressionError("the frame is cut short")
    bits = np.frombuffer(body, np.uint8, blocks).astype(np.int64)
    words = np.frombuffer(body, "<u8", offset=blocks)
    total = int(bits.sum()) * _PACK - (int(bits[-1]) * (-n % _PACK) if n else 0)
    if (bits > 64).any() or len(words) != -(-total // 64):
        raise CompressionError("the frame is forged: its blocks have another length than the frame")
    steps = _codecs().read_numbers(np.append(words, np.zeros(2, np.uint64)), bits, n, _PACK)
    return api.scan(steps, out=steps).astype(dtype, copy=False) if n else np.empty(0, dtype)
