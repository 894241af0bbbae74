"""Items that are kept, brought side by side: by flags, or where runs of equal items start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from upsweep.gpu import driver
from upsweep.gpu.arrays import View, view
from upsweep.gpu.compile import memory_type
from upsweep.gpu.one_pass import (
    INT64,
    RAW,
    empty,
    items_of,
    launch,
    movable,
    number,
    resident,
    stream_of,
    zeros,
)

SHAPES = {1: (256, 32), 2: (256, 32), 4: (256, 16), 8: (256, 16), 16: (256, 8)}
"""Threads of a block and items of a thread, by the bytes of an item."""


class Kept(NamedTuple):
    """What is kept: as many items as `count`, an int64 on the device, says, of each array that was wanted."""

    count: View
    written: list[View]

    def cut(self) -> list[Any]:
        """The arrays of just these items, once their number is known."""
        count = number(self.count, self.count)
        return [_cut(whole, count) for whole in self.written]


@dataclass(frozen=True)
class Select:
    """Which items are kept and what is written of them."""

    key: str
    """The C type of an item."""
    size: int
    runs: bool = False
    values: bool = True
    places: bool = False
    lengths: bool = False
    rest: bool = False

    @property
    def spec(self) -> dict[str, Any]:
        threads, items = SHAPES[self.size]
        return {
            "KEY": self.key, "THREADS": threads, "ITEMS": items, "RUNS": self.runs, "VALUES": self.values,
            "PLACES": self.places, "LENGTHS": self.lengths, "REST": self.rest,
        }  # fmt: skip

    @property
    def tile(self) -> int:
        threads, items = SHAPES[self.size]
        return threads * items

    def run(
        self, x: View | None, flags: View | None, values: View | None = None, room: int | None = None
    ) -> Kept:
        """Into `values`, or new memory for `room` items, or for all."""
        like = x or flags
        assert like is not None
        (n,) = like.shape
        if values is not None:
            room = values.shape[0]
        elif room is None:
            room = n
        if self.values and values is None:
            assert x is not None
            values = empty(like, (room,), x.dtype)
        places = empty(like, (room,), INT64) if self.places else None
        lengths = empty(like, (room,), INT64) if self.lengths else None
        tiles = -(-n // self.tile)
        work, count = zeros(like, 2 + (1 + self.lengths) * tiles), empty(like, (), INT64)
        total = flags_set(flags) if self.rest and flags is not None else None
        ticket, counts = work.ptr, work.ptr + 16
        if tiles == 0:
            with driver.on_device(like.device):
                driver.fill_words(count.ptr, 0, 2, stream_of(like))
        else:
            arrays = [(v.ptr, v.strides[0]) if v else (0, 0) for v in (x, flags)]
            outputs = [v.ptr if v else 0 for v in (values, places, lengths)]
            numbers = [*arrays[0], *arrays[1], n, room, *outputs, ticket, counts, counts + 8 * tiles,
                       total.ptr if total else 0, count.ptr]  # fmt: skip
            launch("select", "upsweep_select", self.spec, like, (tiles, SHAPES[self.size][0]), numbers)
        return Kept(count, [v for v in (values, places, lengths) if v])


def flags_set(flags: View) -> View:
    """How many flags are set, on the device."""
    found = zeros(flags, 1)
    spec = {"KEY": "u8", "THREADS": 512, "ITEMS": 16}
    numbers = [flags.ptr, flags.strides[0], flags.shape[0], found.ptr]
    if flags.shape[0]:
        launch("count", "upsweep_flags", spec, flags, (resident(flags, 4), 512), numbers)
    return found


def _cut(whole: View, kept: int) -> Any:
    """The first `kept` items; copied where the rest of the memory would be thrice as large."""
    if 4 * kept >= whole.shape[0]:
        return whole.owner[:kept]
    made = empty(whole, (kept,), whole.dtype)
    if kept:
        with driver.on_device(whole.device):
            driver.copy(made.ptr, whole.ptr, kept * whole.dtype.itemsize, stream_of(whole))
    return made.owner


def pack(x: Any, keep: Any) -> Any:
    """The items or rows of `x` where `keep` is true."""
    if not movable(x):
        return x[where(keep)]
    items = items_of(x)
    return _moving(items).run(items, items_of(keep)).cut()[0]


def partition(x: Any, keep: Any) -> tuple[Any, int]:
    """Those, then the others, each in their order; and how many are kept."""
    if movable(x):
        items = items_of(x)
        kept = _moving(items, rest=True).run(items, items_of(keep))
        return kept.written[0].owner, number(kept.count, items)
    first, rest = where(keep), where(~keep)
    seen = view(x)
    both, middle = empty(seen, seen.shape, seen.dtype).owner, len(first)
    both[:middle], both[middle:] = x[first], x[rest]
    return both, middle


def where(keep: Any) -> Any:
    """The places where `keep` is true, as int64."""
    return Select("u8", 8, values=False, places=True).run(None, items_of(keep)).cut()[0]


def unique(x: Any) -> Any:
    """The first of each run of equal items."""
    items = items_of(x)
    return _comparing(items).run(items, None).cut()[0]


def runs(x: Any) -> tuple[Any, Any]:
    """The same, and the lengths of the runs (int64)."""
    items = items_of(x)
    values, lengths = _comparing(items, lengths=True).run(items, None).cut()
    return values, lengths


def _moving(items: View, rest: bool = False) -> Select:
    return Select(RAW[items.dtype.itemsize], items.dtype.itemsize, rest=rest)


def _comparing(items: View, lengths: bool = False) -> Select:
    return Select(memory_type(items.dtype), items.dtype.itemsize, runs=True, lengths=lengths)
