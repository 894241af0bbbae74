"""Radix sorts of keys, of keys with values, and the order that keys sort into."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from upsweep import dtypes
from upsweep.gpu.one_pass import INT64, RAW, empty, items_of, kernel, movable, resident, start, zeros
from upsweep.gpu.view import View

DIGITS = 256
SHAPES = {1: (512, 16, 2), 2: (512, 16, 2), 4: (512, 16, 2), 8: (384, 16, 2)}
"""Threads of a block, items of a thread, and blocks of a multiprocessor, by the bytes of a key or of what goes along with it.
2^26 keys on an H200, against these. Of 4 bytes, keys alone and in argsort: (512, 20, 2) 1.04 and .77, (512, 18, 2) 1.03 and .88,
(384, 16, 2) .90 and .95, (512, 24, 1) .87 and .90. Of 8 bytes: (512, 12, 2) .99 and 1.00, (384, 14, 2) .98 and 1.01,
(512, 10, 2) .96 and 1.01, (384, 12, 2) .95 and .99, (512, 16, 1) .88 and 1.02."""


SMALL = {1024: (256, 4, 1), 4096: (512, 8, 1), 8192: (512, 16, 1), 1 << 17: (512, 4, 1), 1 << 18: (512, 8, 1)}
"""The same for so many keys at most, which are sorted in one launch: by one block, or by several that run at once. Times on an
H200 for 1024, 4096 and 8192 int32, of PyTorch's: .28, .43 and .44; with 1024 threads .38, .50 and .48. Microseconds on the device
for 2^14, 2^16 and 2^18 int32: (512, 4) 22, 21, 36; (512, 8) 26, 28, 33; (256, 8) 19, 23, 41; (1024, 4) 35, 41, 35; by a launch a
pass 36, 37, 41. For 2^19 int64 that takes 83, and one launch 89."""


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
    few: int = 0
    """The most keys that one launch is to sort; 0 where a launch a pass is."""

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        return SMALL[self.few] if self.few else SHAPES[max(self.key, self.value)]

    @cached_property
    def tile(self) -> int:
        return self.shape[0] * self.shape[1]

    @cached_property
    def several(self) -> bool:
        return self.few > self.tile

    @cached_property
    def shared(self) -> int:
        return max(
            self.shape[0] // 32 * DIGITS * 8,
            self.tile * max(self.key, self.value),
        )

    @cached_property
    def spec(self) -> dict[str, Any]:
        threads, items, blocks = self.shape
        return {
            "KEY": RAW[self.key], "VALUE": RAW[self.value or 1], "VALUES": self.value > 0, "COUNT": RAW[self.count],
            "ORDER": self.order.upper(), "NAN_ABOVE": f"{self.nan_above}ull", "FALLING": self.falling,
            "THREADS": threads, "ITEMS": items, "BLOCKS": blocks, "SHARED_BYTES": self.shared, "SEVERAL": self.several,
        }  # fmt: skip

    def run(self, x: View, keys: Two, source: View | None, values: Two, places: bool) -> None:
        """`keys` and `values` are the memory of the result, and other memory that passes write in turn with it. The first pass
        reads x and `source`, or takes the places. The last one writes no keys if `places` alone are wanted, and these as int64.
        """
        (result, aside), (moved, moved_aside) = ((v.ptr if v else 0 for v in two) for two in (keys, values))
        (n,), given = x.shape, source.ptr if source else 0
        tiles = -(-n // self.tile)
        if self.few:
            numbers = [x.ptr, n, 0 if places else result, given, moved, places]
            if self.several:
                # Twice the items, rounded up so that the values behind the keys are aligned.
                words, room = 1 + tiles * DIGITS, -(-n // 4) * 8
                work = zeros(x, words, room // 8 * (self.key + self.value))
                between = work.ptr + 8 * words
                numbers += [between, between + room * self.key, work.ptr + 8, work.ptr]
            else:
                numbers += [0] * 4
            blocks = tiles, self.shape[0]
            ready = kernel("sort_small", "upsweep_small", self.spec, x.device, self.shared)
            start(ready, x, blocks, numbers, self.several)
            return
        rows, passes, threads, spec = tiles + 1, self.key, self.shape[0], self.spec
        sums = rows * DIGITS * self.count // 8
        work, together = zeros(x, passes * (DIGITS + 1 + sums)), resident(x, self.shape[2])
        tickets = work.ptr + 8 * passes * DIGITS
        first = tickets + 8 * passes
        digits = kernel("sort", "upsweep_digits", spec, x.device)
        starts = kernel("sort", "upsweep_starts", spec, x.device)
        one = kernel("sort", "upsweep_pass", spec, x.device, self.shared)
        start(digits, x, (min(tiles, together), threads), [x.ptr, n, work.ptr])
        start(starts, x, (passes, DIGITS), [work.ptr, n, tickets, first, rows])
        for i in range(passes):
            last = places and i == passes - 1
            numbers = [
                x.ptr, n, 0 if last else result, aside, given, moved, moved_aside, last,
                tickets + 8 * i, first + 8 * sums * i, 8 * i, together,
            ]  # fmt: skip
            start(one, x, (tiles, threads), numbers)


def radix_sort(x: Any, values: Any, falling: bool) -> tuple[Any, Any]:
    """Keys in order, and values with them. Values that are rows, or larger than a key may be, follow the order afterwards."""
    items = items_of(x)
    (n,) = items.shape
    if values is not None and not (movable(values) and values.itemsize in SHAPES):
        order = argsort(x, falling)
        return radix_sort(x, None, falling)[0], values[order]
    carried = None if values is None else items_of(values)
    sort = sort_of(items, carried.dtype.itemsize if carried else 0, falling)
    several = sort.key > 1 and not sort.few
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
    order, other = empty(items, (n,), INT64), None
    if n:
        keys: Two = (None, None)
        if not sort.few:
            keys, other = (
                _two(items, sort.key > 2, sort.key > 1),
                empty(items, (n * place.itemsize,), np.dtype(np.uint8)),
            )
        sort.run(items, keys, None, (order, other), places=True)
    return order.owner


def _two(like: View, result: bool, other: bool) -> Two:
    """Memory for as many items, as far as it is wanted."""
    first, second = (empty(like, like.shape, like.dtype) if wanted else None for wanted in (result, other))
    return first, second


def sort_of(x: View, value: int, falling: bool) -> Sort:
    (n,) = x.shape
    return _sort_of(x.dtype, falling, value, 4 if n < 1 << 30 else 8, _few(x))


def _few(x: View) -> int:
    """The row of SMALL that sorts so many keys: its blocks must all run at once."""
    for most, (threads, items, blocks) in SMALL.items():
        if x.shape[0] <= most:
            return most if x.shape[0] <= threads * items * resident(x, blocks) else 0
    return 0


@lru_cache(256)
def _sort_of(dtype: np.dtype, falling: bool, value: int, count: int, few: int) -> Sort:
    known = dtypes.row(dtype)
    assert known is not None
    above = nan_above(dtype) if known.order == "float" else 0
    return Sort(dtype.itemsize, known.order, above, falling, value, count, few)


def nan_above(dtype: np.dtype) -> int:
    """The bits of infinity, or of the largest number where there is no infinity."""
    narrow = dtypes.narrow(dtype)
    if narrow is not None:
        return narrow.largest + narrow.infinite
    return int(np.array(np.inf, dtype).view(f"u{dtype.itemsize}"))
