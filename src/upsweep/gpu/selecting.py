"""Selection of items, which are brought side by side: by flags, by a function, or at the starts of runs of equal items."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

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
    Kernel,
    empty,
    items_of,
    kernel,
    movable,
    nodes,
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
FEW = 16
"""A result of at most this part of the items lies in memory of that size, and only there: the rest of larger memory is not kept
for it. Places that are so few are written straight from the marks."""
WRITES = {True: 8192, False: 16384}
"""Items of the tiles that a block writes, by whether these are kept by flags. Of a copy (H200), 8192 and 16384: compaction .915
and .90, where .79 and .75, runs of a hundred int32 .61 and .64."""


class Select(NamedTuple):
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

    @property
    def spec(self) -> dict[str, Any]:
        threads, items, vector, blocks = SHAPES[self.size]
        types = [value_type(d) for d in self.test.parts()] if self.test else ["u8", "u8"]
        return {
            "KEY": self.key, "THREADS": threads, "ITEMS": items, "VECTOR": vector, "BLOCKS": blocks,
            "EVEN": True, "TEST": self.test is not None, "ITEM": types[0], "ANSWER": types[1],
            "TOGETHER": TOGETHER, "WRITES": self.writes, "RUNS": self.runs, "FEW": FEW,
            "VALUES": self.values, "PLACES": self.places, "LENGTHS": self.lengths, "REST": self.rest,
        }  # fmt: skip

    @property
    def by_flags(self) -> bool:
        return not self.runs and self.test is None

    @property
    def writes(self) -> int:
        """Tiles that a block writes."""
        threads, items, _, _ = SHAPES[self.size]
        return max(1, WRITES[self.by_flags] // (threads * items))

    def kept(self, x: View | None, flags: View | None) -> tuple[int, list[View]]:
        """The number of kept items, and new memory that begins with them when the device has come so far."""
        like = x or flags
        assert like is not None
        (n,) = like.shape
        few = -1 if self.rest else n // FEW
        large, small = self._room(x, like, n), self._room(x, like, few)
        if not n:
            return 0, [v for v in large if v]
        box = mailbox.box(like.device)
        self.into(x, flags, (n, *map(_at, large)), box.ptr, (few, *map(_at, small)))
        count = box.wait(stream_of(like))
        return count, [v for v in (small if count <= few else large) if v]

    def _room(self, x: View | None, like: View, size: int) -> list[View | None]:
        """New memory for so many kept items, and none for fewer than none."""
        wanted = (self.values, x.dtype if x else INT64), (self.places, INT64), (self.lengths, INT64)
        return [empty(like, (size,), dtype) if wants and size >= 0 else None for wants, dtype in wanted]

    def cut(self, x: View | None, flags: View | None) -> list[Any]:
        """Arrays of just the kept items."""
        count, written = self.kept(x, flags)
        return [whole.owner[:count] for whole in written]

    def into(
        self,
        x: View | None,
        flags: View | None,
        large: tuple[int, ...],
        count: int,
        small: tuple[int, ...] = (-1, 0, 0, 0),
    ) -> None:
        """Writes as many kept items as there is room for into the given memory, the small one where it takes them all, and their
        full number to the address `count`. Memory is how many items it takes, and the addresses for values, places and lengths.
        """
        like = x or flags
        assert like is not None
        skip = flags.ptr & 15 if flags else like.ptr % 16 // self.size
        even = x is None or (x.ptr - skip * self.size) % min(16, SHAPES[self.size][2] * self.size) == 0
        course = _course(self, like.shape[0], skip, even, like.device)
        work = zeros(like, course.cleared, course.more)
        parameter = _NUMBERS.pack(
            x.ptr if x else 0, flags.ptr if flags else 0, like.shape[0], skip, course.tiles,
            *small, *large,
            work.ptr + course.marks, work.ptr + 8 * course.cleared, count, *[work.ptr + at for at in course.levels], course.words,
        )  # fmt: skip
        stream = stream_of(like)
        with driver.on_device(like.device):
            for ready, blocks in course.launches:
                driver.launch(ready.loaded, blocks, course.threads, 0, stream, parameter)


_NUMBERS = Struct("<21q")


class Course(NamedTuple):
    """All that the launches of a selection need but addresses."""

    launches: list[tuple[Kernel, int]]
    """The two kernels, and the blocks of each."""
    threads: int
    tiles: int
    cleared: int
    """Words of memory that are 0; behind them lie the slots."""
    more: int
    """Words behind those."""
    marks: int
    """The byte of that memory at which the marks begin."""
    levels: list[int]
    """The bytes at which the levels of nodes begin."""
    words: int


@lru_cache(256)
def _kernels(how: Select, even: bool, device: int) -> list[Kernel]:
    """The two kernels of a selection."""
    spec, python = how.spec | {"EVEN": even}, (how.test,) if how.test else ()
    return [kernel("select", name, spec, device, python=python) for name in ("upsweep_mark", "upsweep_write")]


@lru_cache(1024)
def _course(how: Select, n: int, skip: int, even: bool, device: int) -> Course:
    """That of n items; `skip` and `even` say how these lie: kernels/kept.cuh."""
    threads, items, _, _ = SHAPES[how.size]
    tile = threads * items
    tiles = -(-(n + skip) // tile)
    levels, words = nodes(tiles)
    # The slots begin at a multiple of 16 bytes.
    words += words % 2
    cleared, mark = words * (1 + how.lengths), 4 if items > 16 else 2
    slots = tiles * tile // 2 * how.size if how.values and not how.by_flags else 0
    blocks = -(-tiles // TOGETHER) if how.by_flags else tiles, -(-tiles // how.writes)
    return Course(
        list(zip(_kernels(how, even, device), blocks, strict=True)), threads, tiles, cleared,
        (slots + tiles * threads * mark) // 8, 8 * cleared + slots, [8 * first for first in levels], words,
    )  # fmt: skip


def _at(memory: View | None) -> int:
    return memory.ptr if memory else 0


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
        room = min(v.shape[0] for v in outputs if v)
        how._replace(**wanted).into(items, flags, (room, *map(_at, outputs)), count.ptr)
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
    return Select("u8", 1, values=False, places=True).cut(None, items_of(keep))[0]


def found(x: Any, keep: Any) -> tuple[Any, Any]:
    """The kept items of a 1-D array, and their places."""
    items = items_of(x)
    values, places = _moving(items)._replace(places=True).cut(items, items_of(keep))
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
    return Select(RAW[items.dtype.itemsize], items.dtype.itemsize, rest=rest)


def _comparing(items: View, lengths: bool = False) -> Select:
    # Small integers are equal where their bytes are, which are compared four at a time.
    key = "u8" if items.dtype == np.int8 else memory_type(items.dtype)
    return Select(key, items.dtype.itemsize, runs=True, lengths=lengths)


def _testing(items: View, test: Function) -> Select:
    given = ((dtypes.accumulator(items.dtype),),)
    linked = Linked("upsweep_test", test, given, (np.dtype(bool),))
    return Select(memory_type(items.dtype), items.dtype.itemsize, linked)
