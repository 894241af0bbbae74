"""Codes of bytes, written one behind the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep.gpu import mailbox
from upsweep.gpu.one_pass import INT64, empty, items_of, kernel, nodes, start, stream_of, zeros

THREADS = 128
_BYTES = 16
_LONGEST = 12


def spec(block: int, even: bool) -> dict[str, Any]:
    return {"THREADS": THREADS, "BLOCK": block, "EVEN": even}


def write_codes(x: Any, codes: np.ndarray, lengths: np.ndarray, block: int) -> tuple[Any, Any]:
    """The codes of bytes one behind the other, in words of 64 bits (int64); and the bits of each block."""
    items = items_of(x)
    (n,) = items.shape
    sizes = empty(items, (-(-n // block),), INT64)
    words = zeros(items, -(-n * _LONGEST // 64) + 1)
    if n == 0:
        return words.owner[:0], sizes.owner
    tiles = -(-n // (THREADS * _BYTES))
    levels, count = nodes(tiles)
    work, box = zeros(items, 1 + count), mailbox.box(items.device)
    entries = (codes.astype(np.uint16) << 4 | lengths.astype(np.uint16)).view(np.int64)
    firsts = [work.ptr + 8 + 8 * first for first in levels]
    numbers = [
        items.ptr, n, tiles, words.ptr, sizes.ptr, box.ptr, work.ptr, *firsts, count, *entries.tolist(),
    ]  # fmt: skip
    ready = kernel("codes", "upsweep_codes", spec(block, items.ptr % 16 == 0), items.device)
    start(ready, items, (tiles, THREADS), numbers)
    total = box.wait(stream_of(items))
    return words.owner[: -(-total // 64)], sizes.owner
