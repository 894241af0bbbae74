"""Links followed to their ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep.gpu.functions import memory_type
from upsweep.gpu.one_pass import INT64, empty, items_of, kernel, start

THREADS, SPREAD = 256, 1 << 16
"""Threads of a block; and fours of items that are taken first, about as many as a GPU holds threads for."""


def distances(links: Any) -> Any:
    """How many links lead from each item to one whose link is -1; -1 where none does."""
    seen = items_of(links)
    n = seen.shape[0]
    found, words = (empty(seen, (n,), INT64) for _ in range(2))
    if n:
        bits = max(0, (-(-n // 4) - 1).bit_length() - SPREAD.bit_length() + 1)
        numbers = [seen.ptr, n, words.ptr, found.ptr, bits]
        for name, threads in ("link", n), ("climb", 4 * SPREAD << bits):
            ready = kernel("links", f"upsweep_{name}", spec(seen.dtype), seen.device)
            start(ready, seen, (-(-threads // THREADS), THREADS), numbers)
    return found.owner


def spec(dtype: np.dtype) -> dict[str, Any]:
    """The names that the kernels for links of this dtype are compiled with."""
    return {"LINK": memory_type(dtype), "THREADS": THREADS, "SPREAD": SPREAD}
