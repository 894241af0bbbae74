"""Which items a selection keeps, and the launches that bring these together: kernels/select.cu, select_few.cu and flagged.cu."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from upsweep.gpu import driver, flagged, mailbox
from upsweep.gpu.functions import Linked, value_type
from upsweep.gpu.one_pass import INT64, Kernel, kernel, nodes
from upsweep.gpu.view import View

SHAPES = {1: (256, 32, 16, 5), 2: (256, 16, 8, 5), 4: (256, 16, 4, 5), 8: (128, 16, 2, 7), 16: (128, 8, 1, 6)}
"""Threads of a block, items of a thread, how many of these touch, and blocks of a multiprocessor, by the bytes of an item. 2^26
items on an H200, half kept, both kernels as fractions of a copy: of 4 bytes (256, 16) .89, (128, 32) .91, (128, 16) .73; of 8
(128, 16) .86, (256, 8) .77; of 1 (256, 32) .74, (256, 16) .63."""
TOGETHER = 4
"""Tiles whose flags a block marks and counts."""
ALONE = 32
"""Tiles of a selection in one launch at most: each block counts them all by itself."""
FEW = 16
"""A result of at most this part of the items lies in memory of that size, and only there: the rest of larger memory is not kept
for it."""
LITTLE = 1 << 16
"""Memory of at most so many bytes is kept for any result."""
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
            "TOGETHER": TOGETHER, "WRITES": self.writes, "RUNS": self.runs,
            "VALUES": self.values, "PLACES": self.places, "LENGTHS": self.lengths, "REST": self.rest,
        }  # fmt: skip

    @property
    def by_flags(self) -> bool:
        return not self.runs and self.test is None

    @property
    def straight(self) -> bool:
        """Whether one launch is faster, in which blocks wait once for all others (kernels/flagged.cu).

        Whole calls of 2^26 items on an H200, by two launches and by one, of 1, 10, 50 and 99 % kept, us: places 51 67 105 186 and
        54 57 108 187; 2^25 items of 16 bytes 93 121 224 312 and 35 84 217 300; of 8 bytes 91 128 227 312 and 49 115 230 323; of 4
        bytes 77 95 126 162 and 44 83 132 184.
        """
        if not self.by_flags or self.rest or self.lengths:
            return False
        return self.size == 16 and not self.places if self.values else self.places

    @property
    def writes(self) -> int:
        """Tiles that a block writes."""
        threads, items, _, _ = SHAPES[self.size]
        return max(1, WRITES[self.by_flags] // (threads * items))


class Course(NamedTuple):
    """All that the launches of a selection need but addresses."""

    launches: list[tuple[Kernel, int]]
    """The kernels, and the blocks of each."""
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
    """Of all levels, or 0 where blocks share no memory."""


@lru_cache(256)
def _kernels(how: Select, even: bool, device: int, alone: bool) -> list[Kernel]:
    """The two kernels of a selection, or the one that selects from few tiles."""
    spec, python = how.spec | {"EVEN": even}, (how.test,) if how.test else ()
    names = ["upsweep_select"] if alone else ["upsweep_mark", "upsweep_write"]
    return [kernel("select_few" if alone else "select", name, spec, device, python=python) for name in names]


@lru_cache(1024)
def _course(how: Select, n: int, skip: int, even: bool, device: int) -> Course:
    """That of n items; `skip` and `even` say how these lie: kernels/kept.cuh."""
    threads, items, _, _ = SHAPES[how.size]
    tile = threads * items
    tiles = -(-(n + skip) // tile)
    if tiles <= ALONE:
        (one,) = _kernels(how, even, device, alone=True)
        return Course([(one, tiles)], threads, tiles, 0, 0, 0, [0] * 4, 0)
    levels, words = nodes(tiles)
    # The slots begin at a multiple of 16 bytes.
    words += words % 2
    cleared, mark = words * (1 + how.lengths), 4 if items > 16 else 2
    slots = tiles * tile // 2 * how.size if how.values and not how.by_flags else 0
    blocks = -(-tiles // TOGETHER) if how.by_flags else tiles, -(-tiles // how.writes)
    return Course(
        list(zip(_kernels(how, even, device, alone=False), blocks, strict=True)), threads, tiles, cleared,
        (slots + tiles * threads * mark) // 8, 8 * cleared + slots, [8 * first for first in levels], words,
    )  # fmt: skip


class Selection:
    """Selections by a rule from so many items of a dtype, which a library holds on a device: all but where the items lie."""

    def __init__(self, how: Select, x: View | None, flags: View | None) -> None:
        like = x or flags
        assert like is not None
        assert like.kind is not None
        assert like.kind.likeness is not None
        self.how, self.kind, self.device, (self.n,) = how, like.kind, like.device, like.shape
        # This view keeps no memory alive.
        self.place = View(0, (), (), INT64, like.device, like.kind, None)
        self.courses: dict[tuple[int, bool], tuple[Course, Any]] = {}
        self.maker = like.kind.likeness.ways["cuda"].maker
        results = (how.values, x.dtype if x else INT64), (how.places, INT64), (how.lengths, INT64)
        wanted = [(k, dtype) for k, (wants, dtype) in enumerate(results, 1) if wants]
        little = self.n * max(dtype.itemsize for _, dtype in wanted) <= LITTLE
        self.few = -1 if how.rest or little else self.n // FEW
        self.large, self.small = (
            [(k, self.maker(like.owner, (size,), dtype)) for k, dtype in wanted if size >= 0]
            for size in (self.n, self.few)
        )

    def kept(self, like: Any, at: tuple[int, int]) -> tuple[int, list[Any]]:
        """The number of kept items, and new arrays that begin with them when the device has come so far.

        `at` is the addresses of the items and of their flags, 0 where there are none, and `like` an array of one of them.
        """
        large, all_room = self._new(like, self.n, self.large)
        if not self.n:
            return 0, large
        small, few_room = self._new(like, self.few, self.small)
        box = mailbox.box(self.device)
        self.into(like, at, all_room, box.ptr, few_room)
        count = box.wait(self.kind.stream(self.place))
        return count, small if count <= self.few else large

    def cut(self, like: Any, at: tuple[int, int]) -> list[Any]:
        """Arrays of just the kept items."""
        count, written = self.kept(like, at)
        return [y[:count] for y in written]

    def _new(self, like: Any, size: int, makers: list[tuple[int, Any]]) -> tuple[list[Any], list[int]]:
        """New arrays for results of so many items, and what `into` is told of them."""
        made, room = [make(like) for _, make in makers], [size, 0, 0, 0]
        for (k, _), y in zip(makers, made):
            room[k] = self.kind.pointer(y)
        return made, room

    def into(
        self, like: Any, at: tuple[int, int], large: list[int], count: int, small: Sequence[int] = (-1, 0, 0, 0)
    ) -> None:  # fmt: skip
        """Writes as many kept items as there is room for into the given memory, the small one where it takes them all, and their
        full number to the address `count`. Memory is how many items it takes, and the addresses for values, places and lengths.
        """
        if driver.is_current(self.device):
            self._start(like, *at, large, count, small)
        else:
            with driver.on_device(self.device):
                self._start(like, *at, large, count, small)

    def _start(
        self, like: Any, x: int, flags: int, large: list[int], count: int, small: Sequence[int]
    ) -> None:
        if self.how.straight and self.n > flagged.MOST:
            how = self.how
            straight = flagged.course(how.key, how.values, how.places, self.n, flags & 15, self.device)
            if straight:
                stream = self.kind.stream(self.place)
                flagged.start(straight, x, flags, self.n, self.device, stream, small, large, count)
                return
        size, vector = self.how.size, SHAPES[self.how.size][2]
        skip = flags & 15 if flags else x % 16 // size
        even = not x or (x - skip * size) % min(16, vector * size) == 0
        known = self.courses.get((skip, even))
        if known is None:
            course = _course(self.how, self.n, skip, even, self.device)
            known = course, self.maker(like, (course.cleared + course.more,), INT64)
            self.courses[skip, even] = known
        course, make = known
        stream, start = self.kind.stream(self.place), 0
        if course.words:
            # The name keeps the memory until the launches are in their stream.
            work = make(like)
            start = self.kind.pointer(work)
            driver.fill_words(start, 0, 2 * course.cleared, stream)
        parameter = _NUMBERS.pack(
            x, flags, self.n, skip, course.tiles, *small, *large,
            start + course.marks, start + 8 * course.cleared, count, *[start + level for level in course.levels], course.words,
        )  # fmt: skip
        for ready, blocks in course.launches:
            driver.launch(ready.loaded, blocks, course.threads, 0, stream, parameter)


_NUMBERS = Struct("<21q")
