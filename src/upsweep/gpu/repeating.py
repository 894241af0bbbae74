"""Items repeated as often as counts say, and bins counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any

import numpy as np

from upsweep.gpu import driver, mailbox, steps
from upsweep.gpu.arrays import view
from upsweep.gpu.functions import memory_type, value_type
from upsweep.gpu.one_pass import (
    INT64,
    RAW,
    Kernel,
    empty,
    items_of,
    kernel,
    movable,
    nodes,
    resident,
    side_by_side,
    start,
    stream_of,
    zeros,
)
from upsweep.gpu.view import View
from upsweep.operators import ops
from upsweep.plan import Plan

THREADS, COUNTS = 128, 8
"""Threads of a block, and counts of a thread. 2^24 counts of 0 to 8 on an H200, by an older second kernel, as fractions of a
copy, values and owners: 128 threads .59 and .78, 256 threads .55 and .78."""
SHAPES = {1: (8192, 4, 8), 2: (8192, 4, 8), 4: (8192, 4, 4), 8: (4096, 8, 4), 16: (4096, 8, 4)}
"""Items of the output in a part at most, parts of a block, and neighbours that a lane writes, by the bytes of an item; of owners
they are those of 8 bytes. Whole calls, 2^24 counts of 0 to 8 on an H200, as fractions of a copy: of 4 bytes (4096, 8, 4) .58,
(8192, 4, 4) .61, (16384, 4, 4) .63, but that one for counts of 0 to 200 .87 of the first one's speed; of 1 byte (4096, 8, 4) .30,
(4096, 8, 8) .30, (8192, 4, 8) .315; of 8 bytes (4096, 8, 4) .62, (8192, 4, 4) .57; owners .71 and .68."""
TOGETHER = 4
"""Tiles whose counts a block sums."""


@lru_cache(64)
def spec(counts: np.dtype, size: int, even: bool = True, touching: bool = True) -> dict[str, Any]:
    """The constants of the kernel that repeats items of so many bytes. For 0 it writes the owners of the items."""
    chunk, parts, neighbours = SHAPES[size or 8]
    return {
        "COUNT": memory_type(counts), "VALUE": RAW[size or 1], "VALUES": size > 0, "OWNERS": size == 0, "EVEN": even,
        "THREADS": THREADS, "COUNTS": COUNTS, "CHUNK": chunk, "PARTS": parts, "PER": neighbours, "TOGETHER": TOGETHER,
        "TOUCHING": touching,
    }  # fmt: skip


class Spread:
    """The repetitions that counts say, of the items of `x`, or of none. The sum of the counts goes to the address `total`, -2
    where a count is negative: all is made ready while the device adds the counts up."""

    def __init__(self, counts: View, x: View | None, total: int, touching: bool = True) -> None:
        self.counts, self.x, self.total, self.tiles = counts, x, total, _tiles(counts)
        levels, self.words = nodes(self.tiles)
        # The second kernel reads this memory.
        self.sums = zeros(counts, 3 + self.words, self.tiles * THREADS + self.tiles // 8 + 1)
        self.levels = [self.sums.ptr + 24 + 8 * first for first in levels]
        text = spec(counts.dtype, 0, _even(counts))
        summing = kernel("repeat_sums", "upsweep_sums", text, counts.device)
        self._launch(summing, -(-self.tiles // TOGETHER), 0, 0, 0, 0)
        even = _even(counts) and (x is None or _even(x))
        self.text = spec(counts.dtype, x.dtype.itemsize if x else 0, even, touching)
        self.filling = kernel("repeat", "upsweep_fill", self.text, counts.device)

    def fill(self, room: int, values: int, owners: int = 0, ranks: int = 0) -> None:
        """Writes so many items at most, their owners and their places among an owner's to these addresses."""
        if room > 0:
            blocks = -(-(self.tiles - (-room // self.text["CHUNK"])) // self.text["PARTS"])
            self._launch(self.filling, blocks, room, values, owners, ranks)

    def _launch(self, ready: Kernel, blocks: int, room: int, *outputs: int) -> None:
        counts, begin = self.counts, self.sums.ptr
        short = begin + 8 * (3 + self.words)
        parameter = _NUMBERS.pack(
            counts.ptr, counts.shape[0], self.tiles, begin, begin + 8, begin + 16, self.total, short,
            short + 8 * self.tiles * THREADS, self.x.ptr if self.x else 0, *outputs, room, *self.levels, self.words,
        )  # fmt: skip
        with driver.on_device(counts.device):
            driver.launch(ready.loaded, blocks, THREADS, 0, stream_of(counts), parameter)


def spread(counts: View, x: View | None) -> tuple[int, Callable[..., None]]:
    """The sum of counts, below zero where one is, and the function that writes each item of `x` as often as its count says.

    Without x it writes owners, and places among an owner's. It takes the addresses for values, owners and places.
    """
    if counts.shape[0] == 0:
        return 0, lambda *outputs: None
    box = mailbox.box(counts.device)
    made = Spread(counts, x, box.ptr)
    room = box.wait(stream_of(counts))
    return room, lambda *outputs: made.fill(room, *outputs)


def fill(x: Any, counts: Any, out: Any) -> Any:
    """As many of the items of `repeat` as there is room for, and their full number, without waiting for it."""
    items, given, to = items_of(x), items_of(counts), view(out)
    side_by_side(to)
    if not given.shape[0]:
        return zeros(items, 1).owner.reshape(())
    count, size = empty(items, (), INT64), to.dtype.itemsize
    made = Spread(given, items, count.ptr, touching=to.ptr % min(16, SHAPES[size][2] * size) == 0)
    made.fill(to.shape[0], to.ptr)
    return count.owner


_NUMBERS = Struct("<19q")


def _tiles(counts: View) -> int:
    return -(-counts.shape[0] // (THREADS * COUNTS))


def _even(x: View) -> bool:
    """Whether threads load their items of `x`, as many as they have counts, in whole pieces."""
    return x.ptr % min(16, COUNTS * x.dtype.itemsize) == 0


def repeat(x: Any, counts: Any, offsets: Callable[[], Any]) -> Any:
    """`x[s]`, an item or a row, repeated `counts[s]` times, for every s."""
    if not movable(x):
        return x[owners(counts, offsets)[0]]
    items = items_of(x)
    room, fill = spread(items_of(counts), items)
    if room < 0:
        offsets()
    values = empty(items, (room,), items.dtype)
    fill(values.ptr)
    return values.owner


def owners(counts: Any, offsets: Callable[[], Any]) -> tuple[Any, Any]:
    """For each item of such an output its s, and its place among the items of s."""
    like = items_of(counts)
    room, fill = spread(like, None)
    if room < 0:
        offsets()
    owner, rank = (empty(like, (room,), INT64) for _ in range(2))
    fill(0, owner.ptr, rank.ptr)
    return owner.owner, rank.owner


def count(x: Any, bins: int) -> tuple[Any, int]:
    """How often each of 0 ... bins - 1 occurs in `x`, and how many items that are; those outside are left out."""
    items = items_of(x)
    counts, size = zeros(items, bins), items.dtype.itemsize
    if items.shape[0]:
        n, skip, shared = items.shape[0], items.ptr % 16 // size, _room(items.device, bins)
        text = counting(value_type(items.dtype), size, shared > 0)
        threads, around = (
            text["THREADS"],
            driver.attribute(items.device, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        )
        blocks = resident(items, max(1, min(2048 // threads, around // (shared + 1024))))
        blocks = min(blocks, -(-(n + skip) * size // (16 * threads * text["PIECES"])))
        ready = kernel("count", "upsweep_count", text, items.device, shared)
        start(ready, items, (blocks, threads), [items.ptr, n, skip, bins, counts.ptr])
    return counts.owner, _sum(counts) if bins else 0


def _sum(counts: View) -> int:
    """The sum of counts, which is not waited for by way of the driver."""
    box = mailbox.box(counts.device)
    there = View(box.ptr, (), (), INT64, counts.device, counts.kind, None)
    steps.run(_summing(counts.shape), [counts], [there], None, None)
    return box.wait(stream_of(counts))


@lru_cache(256)
def _summing(shape: tuple[int, ...]) -> Plan:
    return Plan(ops.ADD, (INT64,), (INT64,), (INT64,), shape, 0, reduce=True)


PIECES = {1: 1, 2: 2, 4: 2, 8: 4}
"""Pieces of 16 bytes that a thread loads at once, by the bytes of an item. Of a copy (2^26 items, H200), before by eight items a
thread, each loaded by itself: 256 bins of bytes .20 -> .29, 1000 bins of 4 bytes .62 -> .65, of 8 bytes .82 -> .84."""


def counting(key: str, size: int, shared: bool) -> dict[str, Any]:
    """The constants of the kernel that counts items of a C type of so many bytes."""
    return {"KEY": key, "THREADS": 512, "PIECES": PIECES[size], "SHARED": shared}


def _room(device: int, bins: int) -> int:
    """Bytes of shared memory for so many counts: few sizes, because each loads a kernel of its own. 0 where they do not fit."""
    most = driver.attribute(device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    room = min(most, 1 << max(10, (4 * bins - 1).bit_length()))
    return room if 4 * bins <= room else 0
