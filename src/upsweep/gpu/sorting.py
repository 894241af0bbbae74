"""Radix sorts of keys, of keys with values, and the order that keys sort into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep.gpu.one_pass import INT64, RAW, empty, items_of, launch, launcher, movable, resident, zeros
from upsweep.gpu.view import View

DIGITS = 256
SHAPES = {1: (512, 16, 2), 2: (512, 16, 2), 4: (512, 16, 2), 8: (384, 16, 2)}
"""Threads of a block, items of a thread, and blocks of a multiprocessor, by the bytes of a key or of what goes along with it.
2^26 keys on an H200, against these. Of 4 bytes, keys alone and in argsort: (512, 20, 2) 1.04 and .77, (512, 18, 2) 1.03 and .88,
(384, 16, 2) .90 and .95, (512, 24, 1) .87 and .90. Of 8 bytes: (512, 12, 2) .99 and 1.00, (384, 14, 2) .98 and 1.01,
(512, 10, 2) .96 and 1.01, (384, 12, 2) .95 and .99, (512, 16, 1) .88 and 1.02."""


Two = tuple[View | None, View | None]


@dataclass(frozen=True)
class Sort:
    """The order of keys, and the values that go along with them."""

    key: int
    """Bytes of a key."""
    order: str
    """The order of its bits, by the table of dtypes."""
    nan_above: int
    """The largest bits of a float, without the sign, that are no NaN."""
    falling: bool
    value: int
    """Bytes of a value that goes along with a key; 0 where there is none."""
    count: int
    """Bytes of a word that counts keys; two bits of it are to spare."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return SHAPES[max(self.key, self.value)]

    @property
    def tile(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def shared(self) -> int:
        return max(
            self.shape[0] // 32 * DIGITS * 8,
            self.tile * max(self.key, self.value),
        )

    @property
    def spec(self) -> dict[str, Any]:
        threads, items, blocks = self.shape
        return {
            "KEY": RAW[self.key], "VALUE": RAW[self.value or 1], "VALUES": self.value > 0, "COUNT": RAW[self.count],
            "ORDER": self.order.upper(), "NAN_ABOVE": f"{self.nan_above}ull", "FALLING": self.falling,
            "THREADS": threads, "ITEMS": items, "BLOCKS": blocks, "SHARED_BYTES": self.shared,
        }  # fmt: skip

    def run(self, x: View, keys: Two, source: View | None, values: Two, places: bool) -> None:
        """`keys` and `values` are the memory of the result, and other memory that passes write in turn with it. The first pass
        reads x and `source`, or takes the places. The last one writes no keys if `places` alone are wanted, and these as int64.
        """
        (n,) = x.shape
        tiles = -(-n // self.tile)
        rows, passes, threads, spec = tiles + 1, self.key, self.shape[0], self.spec
        sums = rows * DIGITS * self.count // 8
        work, together = zeros(x, passes * (DIGITS + 1 + sums)), resident(x, self.shape[2])
        tickets = work.ptr + 8 * passes * DIGITS
        first = tickets + 8 * passes
        launch("sort", "upsweep_digits", spec, x, (min(tiles, together), threads), [x.ptr, n, work.ptr])
        launch("sort", "upsweep_starts", spec, x, (passes, DIGITS), [work.ptr, n, tickets, first, rows])
        go = launcher("sort", "upsweep_pass", spec, x, self.shared)
        result, *others = [v.ptr if v else 0 for v in (*keys, source, *values)]
        for i in range(passes):
            last = places and i == passes - 1
            numbers = [
                x.ptr, n, 0 if last else result, *others, last, tickets + 8 * i, first + 8 * sums * i, 8 * i, together,
            ]  # fmt: skip
            go((tiles, threads), numbers)


def radix_sort(x: Any, values: Any, falling: bool) -> tuple[Any, Any]:
    """Keys in order, and values with them. Values that are rows, or larger than a key may be, follow the order afterwards."""
    items = items_of(x)
    (n,) = items.shape
    if values is not None and not (movable(values) and values.itemsize in SHAPES):
        order = argsort(x, falling)
        return radix_sort(x, None, falling)[0], values[order]
    carried = None if values is None else items_of(values)
    sort = sort_of(items, carried.dtype.itemsize if carried else 0, falling)
    several = sort.key > 1
    keys, moved = _two(items, True, several), _two(carried, True, several) if carried else (None, None)
    if n:
        sort.run(items, keys, carried, moved, places=False)
    ordered, follows = keys[0], moved[0]
    assert ordered is not None
    return ordered.owner, follows.owner if follows else None


def argsort(x: Any, falling: bool) -> Any:
    """The stable order of keys, as int64."""
    items = items_of(x)
    (n,) = items.shape
    place = np.dtype(np.uint32 if n < 1 << 32 else np.uint64)
    sort = sort_of(items, place.itemsize, falling)
    order, other = empty(items, (n,), INT64), empty(items, (n * place.itemsize,), np.dtype(np.uint8))
    if n:
        sort.run(items, _two(items, sort.key > 2, sort.key > 1), None, (order, other), places=True)
    return order.owner


def _two(like: View, result: bool, other: bool) -> Two:
    """Memory for as many items, as far as it is wanted."""
    first, second = (empty(like, like.shape, like.dtype) if wanted else None for wanted in (result, other))
    return first, second


def sort_of(x: View, value: int, falling: bool) -> Sort:
    known = dtypes.row(x.dtype)
    assert known is not None
    count = 4 if x.shape[0] < 1 << 30 else 8
    return Sort(
        x.dtype.itemsize,
        known.order,
        nan_above(x.dtype) if known.order == "float" else 0,
        falling,
        value,
        count,
    )


def nan_above(dtype: np.dtype) -> int:
    """The bits of infinity, or of the largest number where there is no infinity."""
    narrow = dtypes.narrow(dtype)
    if narrow is not None:
        return narrow.largest + narrow.infinite
    return int(np.array(np.inf, dtype).view(f"u{dtype.itemsize}"))
