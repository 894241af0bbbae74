"""What flags keep, in one launch: kernels/flagged.cu."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from upsweep.gpu import driver
from upsweep.gpu.one_pass import Kernel, kernel
from upsweep.gpu.workspaces import workspace

THREADS, BLOCKS, PIECES = 512, 2, 4
"""Threads of a block, blocks of a multiprocessor, and pieces of 16 flags of a lane in a group. Whole calls, 2^26 flags, H200, us:
places of 1 %, of half, of a tenth in one place (512, 2) 44, 106, 79; (512, 3) 42, 109, 64; (1024, 1) 43, 105, 112."""
MOST = 1 << 16
"""Flags at most for which a kernel whose blocks do not meet is as fast: kernels/select_few.cu."""
GROUP = 32 * 16 * PIECES
SPOTS = 2 * 32 * 34
"""Bytes in which a warp brings places within 1024 flags side by side."""
STATIC = 2048
"""Bytes of shared memory of a block that it does not ask for, at most."""


class Course(NamedTuple):
    """All that a launch needs but addresses."""

    kernel: Kernel
    blocks: int
    groups: int
    share: int
    """Groups of a block at most."""
    shared: int


def spec(key: str, values: bool, places: bool) -> dict[str, Any]:
    return {
        "KEY": key,
        "VALUES": values,
        "PLACES": places,
        "THREADS": THREADS,
        "BLOCKS": BLOCKS,
        "PIECES": PIECES,
    }


@lru_cache(1024)
def course(key: str, values: bool, places: bool, n: int, skip: int, device: int) -> Course | None:
    """That of n flags, the first of which lies so many bytes behind a multiple of 16; None where their bits have no room."""
    most = driver.attribute(device, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR") // BLOCKS - STATIC
    groups = -(-(n + skip) // GROUP)
    blocks = min(BLOCKS * driver.attribute(device, "MULTIPROCESSOR_COUNT"), groups)
    share = -(-groups // blocks)
    shared = share * (GROUP // 8 + 4) + THREADS // 32 * SPOTS
    if shared > most:
        return None
    return Course(
        kernel("flagged", "upsweep_flagged", spec(key, values, places), device, most),
        blocks,
        groups,
        share,
        shared,
    )


def start(
    course: Course, x: int, flags: int, n: int, device: int, stream: int, small: Sequence[int], large: Sequence[int], count: int
) -> None:  # fmt: skip
    """Writes the kept items and their places to the small memory if it takes them all, else to the large one, and their number to
    `count`. Memory is how many it takes, and the addresses for values, places and lengths.
    """
    work = workspace(0, course.blocks, stream, device)
    parameter = _NUMBERS.pack(
        work.control, work.nodes, work.node_words, x, flags, n, flags & 15, course.groups, course.share, *small, *large, count
    )  # fmt: skip
    driver.launch(
        course.kernel.loaded, course.blocks, THREADS, course.shared, stream, parameter, together=True
    )


_NUMBERS = Struct("<18q")
