"""Selection of items, which are brought side by side: by flags, by a function, or at the starts of runs of equal items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep.engine import EngineError
from upsweep.function import Function
from upsweep.gpu import driver, mailbox
from upsweep.gpu.arrays import view
from upsweep.gpu.functions import Linked, memory_type, value_type
from upsweep.gpu.one_pass import (
    INT64,
    RAW,
    empty,
    items_of,
    kernel,
    movable,
    nodes,
    start,
    stream_of,
    zeros,
)
from upsweep.gpu.view import View

SHAPES = {1: (256, 32, 16, 5), 2: (256, 16, 8, 5), 4: (256, 16, 4, 5), 8: (128, 16, 2, 7), 16: (128, 8, 1, 6)}
"""Threads of a block, items of a thread, how many of these touch, and blocks of a multiprocessor, by the bytes of an item. 2^26
items on an H200, half kept, both kernels as fractions of a copy: of 4 bytes (256, 16) .89, (128, 32) .91, (128, 16) .73; of 8
(128, 16) .86, (256, 8) .77; of 1 (256, 32) .74, (256, 16) .63."""
TOGETHER = 4
"""Tiles whose flags a block marks and counts."""
WRITES = {True: 8192, False: 16384}
"""Items of the tiles that a block writes, by whether these are kept by flags. Of a copy (H200), 8192 and 16384: compaction .915
and .90, where .79 and .75, runs of a hundred int32 .61 and .64."""


@dataclass(frozen=True)
class Select:
    """The rule by which items are kept, and the values that are written of them."""

    key: str
    """The C type of an item."""
    size: int
    test: Linked | None = None
    runs: bool = False
    values: bool = True
    places: bool = False
    lengths: bool = False
    rest: bool = False

    @cached_property
    def spec(self) -> dict[str, Any]:
        threads, items, vector, blocks = SHAPES[self.size]
        by_flags = not self.runs and self.test is None
        types = [value_type(d) for d in self.test.parts()] if self.test else ["u8", "u8"]
        return {
            "KEY": self.key, "THREADS": threads, "ITEMS": items, "VECTOR": vector, "BLOCKS": blocks,
            "EVEN": True, "TEST": self.test is not None, "ITEM": types[0], "ANSWER": types[1],
            "TOGETHER": TOGETHER, "WRITES": max(1, WRITES[by_flags] // (threads * items)), "RUNS": self.runs,
            "VALUES": self.values, "PLACES": self.places, "LENGTHS": self.lengths, "REST": self.rest,
        }  # fmt: skip

    def kept(self, x: View | None, flags: View | None) -> tuple[int, list[View]]:
        """The number of kept items, and new memory that has room for all. The memory holds them when the device has come so
        far.
        """
        like = x or flags
        assert like is not None
        wanted = [(self.values, x.dtype if x else INT64), (self.places, INT64), (self.lengths, INT64)]
        outputs = [empty(like, like.shape, dtype) if wants else None for wants, dtype in wanted]
        written = [v for v in outputs if v]
        if not like.shape[0]:
            return 0, written
        box = mailbox.box(like.device)
        self.into(x, flags, outputs, box.ptr)
        return box.wait(stream_of(like)), written

    def cut(self, x: View | None, flags: View | None) -> list[Any]:
        """Arrays of just the kept items."""
        count, written = self.kept(x, flags)
        return [_cut(whole, count) for whole in written]

    def into(self, x: View | None, flags: View | None, outputs: Sequence[View | None], count: int) -> None:
        """Writes as many kept items as there is room for into the given memory, and their full number to the address `count`."""
        like = x or flags
        assert like is not None
        (n,), room = like.shape, min(v.shape[0] for v in outputs if v)
        threads, items, vector, _ = SHAPES[self.size]
        skip = (flags.ptr & 15) if flags else like.ptr % 16 // self.size
        tile = threads * items
        tiles = -(-(n + skip) // tile)
        levels, words = nodes(tiles)
        # The slots begin at a multiple of 16 bytes.
        words += words % 2
        mark, cleared = 4 if items > 16 else 2, words * (1 + self.lengths)
        slots = tiles * tile // 2 * self.size if self.values and not flags else 0
        work = zeros(like, cleared, (slots + tiles * threads * mark) // 8)
        slots_at = work.ptr + 8 * cleared
        firsts = [work.ptr + 8 * first for first in levels]
        x_at, flags_at, *outputs_at = [v.ptr if v else 0 for v in (x, flags, *outputs)]
        numbers = [
            x_at,
            flags_at,
            n,
            skip,
            tiles,
            room,
            *outputs_at,
            slots_at + slots,
            slots_at,
            count,
            *firsts,
            words,
        ]
        even = x is None or (x.ptr - skip * self.size) % min(16, vector * self.size) == 0
        marking = -(-tiles // TOGETHER) if flags else tiles
        writing = -(-tiles // self.spec["WRITES"])
        for ready, blocks in zip(_kernels(self, even, like.device), (marking, writing), strict=True):
            start(ready, like, (blocks, threads), numbers)


@lru_cache(256)
def _kernels(how: Select, even: bool, device: int) -> list[Any]:
    """The two kernels of a selection."""
    spec, python = how.spec | {"EVEN": even}, (how.test,) if how.test else ()
    return [kernel("select", name, spec, device, python=python) for name in ("upsweep_mark", "upsweep_write")]


def _cut(whole: View, kept: int) -> Any:
    """The first `kept` items. They are copied where the rest of the memory would be fifteen times as large."""
    if 16 * kept >= whole.shape[0]:
        return whole.owner[:kept]
    made = empty(whole, (kept,), whole.dtype)
    if kept:
        with driver.on_device(whole.device):
            driver.copy(made.ptr, whole.ptr, kept * whole.dtype.itemsize, stream_of(whole))
    return made.owner


_select = lru_cache(256)(Select)


def pack(x: Any, keep: Any) -> Any:
    """The items or rows of `x` where `keep`, flags or a function of an item, is true."""
    if isinstance(keep, Function):
        items = items_of(x)
        return _testing(items, keep).cut(items, None)[0]
    if not movable(x):
        return x[where(keep)]
    items = items_of(x)
    return _moving(items).cut(items, items_of(keep))[0]


def select(x: Any, keep: Any, values: Any, places: Any, lengths: Any) -> Any:
    """As many kept items as there is room for, and their full number, without waiting for it."""
    items = items_of(x)
    outputs = [None if out is None else view(out) for out in (values, places, lengths)]
    if any(v and v.strides != (v.dtype.itemsize,) and v.shape[0] > 1 for v in outputs):
        raise EngineError(
            "the cuda engine brings items together in memory without gaps; pass a contiguous out"
        )
    flags = None if keep is None or isinstance(keep, Function) else items_of(keep)
    how = _moving(items) if flags else _comparing(items) if keep is None else _testing(items, keep)
    wanted = {"values": values is not None, "places": places is not None, "lengths": lengths is not None}
    count = zeros(items, 1)
    if items.shape[0]:
        replace(how, **wanted).into(items, flags, outputs, count.ptr)
    return count.owner.reshape(())


def partition(x: Any, keep: Any) -> tuple[Any, int]:
    """The kept items, then the others, each in their order; and the number of kept items."""
    if movable(x):
        items = items_of(x)
        count, written = _moving(items, rest=True).kept(items, items_of(keep))
        return written[0].owner, count
    first, rest = where(keep), where(~keep)
    seen = view(x)
    both, middle = empty(seen, seen.shape, seen.dtype).owner, len(first)
    both[:middle], both[middle:] = x[first], x[rest]
    return both, middle


def where(keep: Any) -> Any:
    """The places where `keep` is true, as int64."""
    return _select("u8", 1, values=False, places=True).cut(None, items_of(keep))[0]


def found(x: Any, keep: Any) -> tuple[Any, Any]:
    """The kept items of a 1-D array, and their places."""
    items = items_of(x)
    values, places = replace(_moving(items), places=True).cut(items, items_of(keep))
    return values, places


def unique(x: Any) -> Any:
    """The first item of each run of equal items."""
    items = items_of(x)
    return _comparing(items).cut(items, None)[0]


def runs(x: Any) -> tuple[Any, Any]:
    """The first item of each run of equal items, and the lengths of the runs (int64)."""
    items = items_of(x)
    values, lengths = _comparing(items, lengths=True).cut(items, None)
    return values, lengths


def _moving(items: View, rest: bool = False) -> Select:
    return _select(RAW[items.dtype.itemsize], items.dtype.itemsize, rest=rest)


def _comparing(items: View, lengths: bool = False) -> Select:
    # Small integers are equal where their bytes are, which are compared four at a time.
    key = "u8" if items.dtype == np.int8 else memory_type(items.dtype)
    return _select(key, items.dtype.itemsize, runs=True, lengths=lengths)


def _testing(items: View, test: Function) -> Select:
    given = ((dtypes.accumulator(items.dtype),),)
    linked = Linked("upsweep_test", test, given, (np.dtype(bool),))
    return Select(memory_type(items.dtype), items.dtype.itemsize, linked)
