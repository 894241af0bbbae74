"""The sums of boxes by a table of sums."""

from __future__ import annotations

from typing import Any

from upsweep.gpu.functions import value_type
from upsweep.gpu.one_pass import INT64, empty, items_of, kernel, start

THREADS = 256


def boxes(table: Any, starts: Any, stops: Any) -> tuple[Any, Any]:
    """The sums of boxes, and how many items each has; -1 where a box is not within the table."""
    n, dims = starts.shape
    sums_of, *corners = (items_of(x.reshape(-1)) for x in (table, starts, stops))
    sums, items = empty(sums_of, (n,), sums_of.dtype), empty(sums_of, (n,), INT64)
    if n:
        pointers = [v.ptr for v in (sums_of, *corners)]
        numbers = [*pointers, n, sums.ptr, items.ptr, *table.shape]
        ready = kernel("boxes", "upsweep_boxes", spec(value_type(sums_of.dtype), dims), sums_of.device)
        start(ready, sums_of, (-(-n // THREADS), THREADS), numbers)
    return sums.owner, items.owner


def spec(value: str, dims: int) -> dict[str, Any]:
    """The constants of the kernel for a table of so many dimensions, whose sums have a C type."""
    return {"VALUE": value, "DIMS": dims, "THREADS": THREADS}
