"""Automata over text on a GPU: the tokens that each byte ends."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep.gpu import driver
from upsweep.gpu.one_pass import empty, items_of, kernel, resident, start, stream_of

THREADS, BLOCKS, CHUNK = 256, 4, 1024
"""Threads of a block; blocks of a multiprocessor, each of which brings the tables once; and bytes that a thread runs over."""
ROOM = 40960
"""Bytes of tables that a block holds: they fit the shared memory that every kernel has."""


def run_automaton(lexer: Any, text: Any) -> tuple[Any, int] | None:
    """The code of the tokens that each byte of text ends, and the last configuration; None where a lexer's tables are too
    large.
    """
    cells, code = tables(lexer)
    if cells.nbytes + 256 > ROOM:
        return None
    seen = items_of(text)
    n, lead = seen.shape[0], seen.ptr % 16
    if n == 0:
        return empty(seen, (0,), code).owner, 0
    states, chunks = len(cells), -(-(n + lead) // CHUNK)
    group = math.isqrt(chunks - 1) + 1
    groups = -(-chunks // group)
    told = np.concatenate([cells.ravel(), lexer.classes.view(np.uint32)])
    table, functions, starts, codes = (
        empty(seen, (count,), np.dtype(dtype))
        for count, dtype in (
            (told.size, "i4"),
            ((chunks + groups) * states, "i2"),
            (chunks + 1, "i2"),
            (chunks * CHUNK, code),
        )
    )
    with driver.on_device(seen.device):
        driver.upload(table.ptr, told, stream_of(seen))
    numbers = [
        seen.ptr,
        lead,
        n + lead,
        chunks,
        group,
        table.ptr,
        table.ptr + cells.nbytes,
        functions.ptr,
        starts.ptr,
        codes.ptr,
    ]
    blocks = {
        "functions": min(-(-32 * chunks // THREADS), resident(seen, BLOCKS)), "groups": -(-groups * states // THREADS),
        "starts": -(-groups // THREADS), "codes": -(-chunks // THREADS),
    }  # fmt: skip
    for name, count in blocks.items():
        ready = kernel("automaton", f"upsweep_{name}", spec(lexer), seen.device)
        start(ready, seen, (count, THREADS), numbers)
    return codes.owner[lead : lead + n], int(starts.owner[chunks])


def spec(lexer: Any) -> dict[str, Any]:
    """The constants of the kernels that run a lexer's automaton."""
    cells, code = tables(lexer)
    states, classes = cells.shape
    width = lexer.after.shape[1]
    return {
        "STATES": states, "CLASSES": classes, "OUTSIDE": width, "CHUNK": CHUNK, "THREADS": THREADS,
        "CODE": "u8" if code.itemsize == 1 else "i32",
    }  # fmt: skip


@lru_cache(16)
def tables(lexer: Any) -> tuple[np.ndarray, np.dtype]:
    """For each state and class: the next state and, in the upper half, the code; and the dtype of codes.

    One class more than the lexer's changes nothing, and an odd number of classes keeps the states' cells apart in shared
    memory.
    """
    states, width = lexer.after.shape
    idle = np.repeat(np.arange(states, dtype=np.uint32)[:, None], 1 + width % 2, axis=1)
    cells = lexer.after.astype(np.uint32) | lexer.emits.astype(np.uint32) << 16
    return np.concatenate([cells, idle], 1), np.dtype(np.uint8 if len(lexer.counts) <= 256 else np.int32)
