"""Segments of an output filled from one item each, and bins counted."""

from __future__ import annotations

from typing import Any

from upsweep.gpu.arrays import View
from upsweep.gpu.compile import value_type
from upsweep.gpu.one_pass import INT64, RAW, empty, items_of, launch, movable, number, resident, zeros

THREADS, ITEMS = 256, 17
"""Of the merge of ends and items; odd, so that the threads of a warp write to different banks of shared memory."""


def fill(
    offsets: View, items: int, x: View | None, values: View | None, owners: View | None, ranks: View | None
) -> None:
    segments = offsets.shape[0] - 1
    tiles = -(-(segments + items) // (THREADS * ITEMS))
    if items == 0:
        return
    cuts = empty(offsets, (tiles + 1,), INT64)
    spec = {
        "VALUE": RAW[x.dtype.itemsize] if x else "u8", "VALUES": values is not None, "OWNERS": owners is not None,
        "THREADS": THREADS, "ITEMS": ITEMS,
    }  # fmt: skip
    outputs = [v.ptr if v else 0 for v in (values, owners, ranks)]
    numbers = [
        offsets.ptr,
        segments,
        items,
        tiles,
        cuts.ptr,
        *((x.ptr, x.strides[0]) if x else (0, 0)),
        *outputs,
    ]
    launch("repeat", "upsweep_cuts", spec, offsets, (tiles // THREADS + 1, THREADS), numbers)
    launch("repeat", "upsweep_repeat", spec, offsets, (tiles, THREADS), numbers)


def repeat(x: Any, offsets: Any) -> Any:
    """`x[s]` in `[offsets[s], offsets[s + 1])`, for every s."""
    if not movable(x):
        return x[owners(offsets)[0]]
    starts, items = items_of(offsets), items_of(x)
    count = last_of(starts)
    values = empty(items, (count,), items.dtype)
    fill(starts, count, items, values, None, None)
    return values.owner


def owners(offsets: Any) -> tuple[Any, Any]:
    """For each item of the output its s, and its place within that."""
    starts = items_of(offsets)
    count = last_of(starts)
    owner, rank = (empty(starts, (count,), INT64) for _ in range(2))
    fill(starts, count, None, None, owner, rank)
    return owner.owner, rank.owner


def last_of(offsets: View) -> int:
    end = offsets.over(offsets.ptr + (offsets.shape[0] - 1) * 8, (), (), INT64)
    return number(end, offsets)


def count(x: Any, bins: int) -> Any:
    """How often each of 0 ... bins - 1 occurs in `x`; items outside are left out."""
    items = items_of(x)
    counts = zeros(items, bins)
    if items.shape[0]:
        shared = _room(bins)
        blocks = max(1, min(4, SHARED // (shared or 1)))
        spec = {"KEY": value_type(items.dtype), "THREADS": 512, "ITEMS": 8}
        numbers = [items.ptr, items.strides[0], items.shape[0], bins, shared, counts.ptr]
        launch("count", "upsweep_count", spec, items, (resident(items, blocks), 512), numbers, shared)
    return counts.owner


SHARED = 98304
"""Bytes of shared memory that a block may ask for on every GPU since 2020."""


def _room(bins: int) -> int:
    """Bytes of shared memory for so many counts: a power of two, since a kernel is loaded for each; 0 where they do not fit."""
    room = 1 << max(10, (4 * bins - 1).bit_length())
    return room if room <= SHARED else 0
