"""What items keep because of their values, in one launch: kernels/gathered.cu."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from upsweep.gpu import driver
from upsweep.gpu.functions import Linked
from upsweep.gpu.one_pass import Kernel, kernel
from upsweep.gpu.workspaces import workspace

THREADS, BLOCKS = 384, 2
"""Threads of a block, and blocks of a multiprocessor."""
ITEMS = {1: (16, 16), 2: (16, 8), 4: (16, 4), 8: (8, 2)}
"""Items of a lane in a group, and how many of these touch, by the bytes of an item."""
LEAST, MOST = 1 << 20, 1 << 30
"""Items from which on this is faster than two launches, and for which counts have room."""
STATIC = 2048
"""Bytes of shared memory of a block that it does not ask for, at most."""


class Course(NamedTuple):
    """All that a launch needs but addresses."""

    kernel: Kernel
    blocks: int
    groups: int
    share: int
    """Groups of a block at most."""
    held: int
    """Items for which a block has shared memory."""
    aside: int
    """Bytes of memory aside."""


def spec(what: dict[str, Any], size: int) -> dict[str, Any]:
    items, vector = ITEMS[size]
    stage = 32 * items * max(2 * what["LENGTHS"], size // 2 or 1)
    return what | {
        "THREADS": THREADS,
        "BLOCKS": BLOCKS,
        "ITEMS": items,
        "VECTOR": vector,
        "EVEN": True,
        "STAGE": stage,
    }


@lru_cache(256)
def _ready(what: tuple[tuple[str, Any], ...], python: tuple[Linked, ...], shared: int, device: int) -> Kernel:
    return kernel("gathered", "upsweep_gathered", dict(what), device, shared, python)


def course(
    what: dict[str, Any], size: int, python: tuple[Linked, ...], n: int, skip: int, device: int
) -> Course | None:
    """That of n items, the first of which lies so many behind a multiple of 16 bytes; None where counts have no room."""
    made, shared = (
        spec(what, size),
        driver.attribute(device, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR") // BLOCKS - STATIC,
    )
    group = 32 * made["ITEMS"]
    groups = -(-(n + skip) // group)
    blocks = min(BLOCKS * driver.attribute(device, "MULTIPROCESSOR_COUNT"), groups)
    share = -(-groups // blocks)
    known = 4 * (3 * share + 1) + 32 * (4 if made["ITEMS"] > 16 else 2) * share * made["LENGTHS"]
    held = (shared - THREADS // 32 * made["STAGE"] - known) // 16 * 16
    if held < 0 or n > MOST:
        return None
    ready = _ready(tuple(made.items()), python, shared, device)
    return Course(ready, blocks, groups, share, held // size, groups * group // 2 * size)


def start(
    course: Course, x: int, n: int, skip: int, device: int, stream: int, aside: int, small: Sequence[int], large: Sequence[int],
    count: int,
) -> None:  # fmt: skip
    """Writes the kept items to the small memory if it takes them all, else to the large one, and their number to `count`. Memory
    is how many it takes, and the addresses for values, places and lengths.
    """
    work = workspace(0, 2 * course.blocks, stream, device)
    parameter = _NUMBERS.pack(
        work.control, work.nodes, work.node_words, x, n, skip, course.groups, course.share, course.held, aside, *small, *large,
        count,
    )  # fmt: skip
    driver.launch(
        course.kernel.loaded, course.blocks, THREADS, course.kernel.shared, stream, parameter, together=True
    )


_NUMBERS = Struct("<19q")
