"""Segments of an output filled from one item each, and bins counted."""

from __future__ import annotations

from typing import Any

from upsweep.gpu.arrays import View
from upsweep.gpu.functions import value_type
from upsweep.gpu.one_pass import INT64, RAW, empty, items_of, launch, movable, number, resident, zeros

THREADS, ITEMS = 256, 16
"""Of the merge of ends and items."""


def spec(value: str | None) -> dict[str, Any]:
    """Of the kernel that repeats items of a C type or, without one, writes whose they are."""
    return {
        "VALUE": value or "u8",
        "VALUES": bool(value),
        "OWNERS": not value,
        "THREADS": THREADS,
        "ITEMS": ITEMS,
    }


def fill(
    offsets: View, items: int, x: View | None, values: View | None, owners: View | None, ranks: View | None
) -> None:
    segments = offsets.shape[0] - 1
    tiles = -(-(segments + items) // (THREADS * ITEMS))
    if items == 0:
        return
    cuts = empty(offsets, (tiles + 1,), INT64)
    text = spec(RAW[x.dtype.itemsize] if x else None)
    pointers = [v.ptr if v else 0 for v in (x, values, owners, ranks)]
    numbers = [offsets.ptr, segments, items, tiles, cuts.ptr, *pointers]
    launch("repeat", "upsweep_cuts", text, offsets, (tiles // THREADS + 1, THREADS), numbers)
    launch("repeat", "upsweep_repeat", text, offsets, (tiles, THREADS), numbers)


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
    """Of the kernel that counts items of a C type."""
    return {"KEY": key, "THREADS": 512, "ITEMS": 8}


def _room(bins: int) -> int:
    """Bytes of shared memory for so many counts: a power of two, since a kernel is loaded for each; 0 where they do not fit."""
    room = 1 << max(10, (4 * bins - 1).bit_length())
    return room if room <= SHARED else 0
