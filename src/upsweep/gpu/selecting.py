"""Items that are kept, brought side by side: by flags, or where runs of equal items start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from upsweep.engine import EngineError
from upsweep.gpu import driver
from upsweep.gpu.arrays import View, view
from upsweep.gpu.functions import memory_type
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

SHAPES = {1: (256, 16, 8), 2: (256, 32, 8), 4: (128, 16, 4), 8: (128, 16, 2), 16: (256, 8, 1)}
"""Threads of a block, items of a thread, and how many of these touch, by the bytes of an item. 2^26 items on an H200, as
fractions of a copy: (128, 16, 4) compacts .51, partitions .42, encodes runs .43; (256, 16, 4) .49, .40, .41; (128, 32, 4) .47,
.37, .37; (256, 8, 4) .43, .45, .32. Of 8 bytes (128, 16, 2) .56, (256, 16, 2) .50; of 1 (256, 16, 8) .34, (256, 32, 8) .26."""
AHEAD = 512
"""Tiles between a block's own and the one that it asks the cache for: 256 or 512 .52 of a copy, 1024 .49, 2048 .46, none .47."""


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
    vector: bool = True
    """Whether arrays lie so that one load takes neighbours."""

    @property
    def spec(self) -> dict[str, Any]:
        threads, items, vector = SHAPES[self.size]
        return {
            "KEY": self.key, "THREADS": threads, "ITEMS": items, "RUNS": self.runs, "VALUES": self.values,
            "PLACES": self.places, "LENGTHS": self.lengths, "REST": self.rest,
            "VECTOR": vector if self.vector else 1,
        }  # fmt: skip

    @property
    def tile(self) -> int:
        threads, items, _ = SHAPES[self.size]
        return threads * items

    def run(self, x: View | None, flags: View | None) -> Kept:
        """Into new memory, which has room for all."""
        like = x or flags
        assert like is not None
        wanted = [(self.values, x.dtype if x else INT64), (self.places, INT64), (self.lengths, INT64)]
        outputs = [empty(like, like.shape, dtype) if wants else None for wants, dtype in wanted]
        return self.into(x, flags, *outputs)

    def into(
        self,
        x: View | None,
        flags: View | None,
        values: View | None,
        places: View | None,
        lengths: View | None,
    ) -> Kept:
        """Into the memory given, as much as it has room for."""
        like = x or flags
        assert like is not None
        (n,), outputs = like.shape, (values, places, lengths)
        written = [v for v in outputs if v]
        room = min(v.shape[0] for v in written)
        tiles = -(-n // self.tile)
        work, count = zeros(like, 2 + (1 + self.lengths) * tiles), zeros(like, 1)
        ticket, counts = work.ptr, work.ptr + 16
        total = flags_set(flags) if self.rest and flags else None
        if tiles:
            pointers = [v.ptr if v else 0 for v in (x, flags)]
            numbers = [*pointers, n, room, *[v.ptr if v else 0 for v in outputs], ticket, counts, counts + 8 * tiles,
                       total.ptr if total else 0, count.ptr, AHEAD]  # fmt: skip
            even = all(v.ptr % (SHAPES[self.size][2] * v.dtype.itemsize) == 0 for v in (x, flags) if v)
            spec = replace(self, vector=even).spec
            launch("select", "upsweep_select", spec, like, (tiles, spec["THREADS"]), numbers)
        return Kept(count, written)


def flags_set(flags: View) -> View:
    """How many flags are set, on the device."""
    found = zeros(flags, 1)
    spec = {"KEY": "u8", "THREADS": 512, "ITEMS": 16}
    numbers = [flags.ptr, flags.shape[0], found.ptr]
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


def select(x: Any, keep: Any, values: Any, places: Any, lengths: Any) -> Any:
    """As much of what is kept as there is room for, and how much that would be, without waiting for it."""
    items = items_of(x)
    outputs = [None if out is None else view(out) for out in (values, places, lengths)]
    if any(v and v.strides != (v.dtype.itemsize,) and v.shape[0] > 1 for v in outputs):
        raise EngineError(
            "the cuda engine brings items together in memory without gaps; pass a contiguous out"
        )
    wanted = {"values": values is not None, "places": places is not None, "lengths": lengths is not None}
    how = replace(_comparing(items) if keep is None else _moving(items), **wanted)
    return how.into(items, None if keep is None else items_of(keep), *outputs).count.owner.reshape(())


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
    return Select("u8", 1, values=False, places=True).run(None, items_of(keep)).cut()[0]


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
