"""Items repeated as often as counts say, and bins counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from upsweep.gpu import mailbox
from upsweep.gpu.functions import memory_type, value_type
from upsweep.gpu.one_pass import (
    INT64,
    RAW,
    empty,
    items_of,
    launch,
    movable,
    nodes,
    resident,
    stream_of,
    zeros,
)
from upsweep.gpu.view import View

THREADS, COUNTS, CHUNK, PARTS = 128, 8, 4096, 8
"""Threads of a block, counts of a thread, items of the output in a part at most, and parts of a block. 2^24 counts of 0 to 8 on
an H200, by an older second kernel, both as fractions of a copy, values and owners: (128, 8, 4096, 8) .59 and .78, with 4 parts
.58 and .80, with 16 .58 and .76, (128, 8, 2048, 8) .57 and .80, (256, 8, 4096, 8) .55 and .78."""
TOGETHER = 4
"""Tiles whose counts a block sums."""


def spec(counts: np.dtype, value: str | None, even: bool = True) -> dict[str, Any]:
    """The constants of the kernel that repeats items of a C type. Without a type it writes the owners of the items."""
    return {
        "COUNT": memory_type(counts), "VALUE": value or "u8", "VALUES": bool(value), "OWNERS": not value,
        "THREADS": THREADS, "COUNTS": COUNTS, "CHUNK": CHUNK, "PARTS": PARTS, "TOGETHER": TOGETHER, "EVEN": even,
    }  # fmt: skip


@dataclass(frozen=True)
class Spread:
    """Counts, their sum (below zero where a count is), and what the kernels know of them: the numbers of a launch, and the memory
    that these point to.
    """

    counts: View
    total: int
    numbers: tuple[int, ...] = ()
    memory: tuple[View, ...] = ()

    def fill(self, x: View | None, *outputs: View | None) -> None:
        """Values, owners and places among an owner's, as many as the total."""
        if self.total:
            parts = _tiles(self.counts) - (-self.total // CHUNK)
            pointers = [v.ptr if v else 0 for v in (x, *outputs)]
            numbers = [*self.numbers[:9], *pointers, *self.numbers[13:]]
            even = _even(self.counts) and (x is None or _even(x))
            text = spec(self.counts.dtype, RAW[x.dtype.itemsize] if x else None, even)
            launch("repeat", "upsweep_fill", text, self.counts, (-(-parts // PARTS), THREADS), numbers)


def spread(counts: View) -> Spread:
    n, tiles = counts.shape[0], _tiles(counts)
    if n == 0:
        return Spread(counts, 0)
    levels, words = nodes(tiles)
    sums, box = zeros(counts, 3 + words), mailbox.box(counts.device)
    short = empty(counts, (tiles * THREADS + tiles // 8 + 1,), INT64)
    numbers = [
        counts.ptr, n, tiles, sums.ptr, sums.ptr + 8, sums.ptr + 16, box.ptr, short.ptr, short.ptr + 8 * tiles * THREADS,
        *[0] * 4, *(sums.ptr + 24 + 8 * first for first in levels), words,
    ]  # fmt: skip
    text = spec(counts.dtype, None, _even(counts))
    launch("repeat", "upsweep_sums", text, counts, (-(-tiles // TOGETHER), THREADS), numbers)
    return Spread(counts, box.wait(stream_of(counts)), tuple(numbers), (sums, short))


def _tiles(counts: View) -> int:
    return -(-counts.shape[0] // (THREADS * COUNTS))


def _even(x: View) -> bool:
    """Whether threads load their items of `x`, as many as they have counts, in whole pieces."""
    return x.ptr % min(16, COUNTS * x.dtype.itemsize) == 0


def repeat(x: Any, counts: Any, offsets: Callable[[], Any]) -> Any:
    """`x[s]`, an item or a row, repeated `counts[s]` times, for every s."""
    if not movable(x):
        return x[owners(counts, offsets)[0]]
    items, found = items_of(x), spread(items_of(counts))
    if found.total < 0:
        offsets()
    values = empty(items, (found.total,), items.dtype)
    found.fill(items, values, None, None)
    return values.owner


def owners(counts: Any, offsets: Callable[[], Any]) -> tuple[Any, Any]:
    """For each item of such an output its s, and its place among the items of s."""
    found = spread(items_of(counts))
    if found.total < 0:
        offsets()
    owner, rank = (empty(found.counts, (found.total,), INT64) for _ in range(2))
    found.fill(None, None, owner, rank)
    return owner.owner, rank.owner


def count(x: Any, bins: int) -> Any:
    """How often each of 0 ... bins - 1 occurs in `x`; items outside of these are left out."""
    items = items_of(x)
    counts = zeros(items, bins)
    if items.shape[0]:
        shared = _room(bins)
        blocks = max(1, min(4, SHARED // (shared or 1)))
        numbers = [items.ptr, items.shape[0], bins, shared, counts.ptr]
        launch(
            "count",
            "upsweep_count",
            counting(value_type(items.dtype)),
            items,
            (resident(items, blocks), 512),
            numbers,
            shared,
        )
    return counts.owner


SHARED = 98304
"""Bytes of shared memory that a block may ask for on every GPU since 2020."""


def counting(key: str) -> dict[str, Any]:
    """The constants of the kernel that counts items of a C type."""
    return {"KEY": key, "THREADS": 512, "ITEMS": 8}


def _room(bins: int) -> int:
    """Bytes of shared memory for so many counts. It is a power of two, because each size loads a kernel of its own; 0 where
    the counts do not fit.
    """
    room = 1 << max(10, (4 * bins - 1).bit_length())
    return room if room <= SHARED else 0
