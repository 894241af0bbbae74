"""Numbers that only change the speed, each with the measurement that chose it."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Sizes of one class of kernels, in bytes of a row's items over all components; powers of two."""

    chunk: int
    """Items along the axis that are swept at once: a power of four."""
    width: int
    """Columns that are swept side by side; 1 where neighbours lie in a row."""
    tile: int
    """Bytes of a tile; it is read twice and must stay in L2 in between."""


# Stores that go around the cache gained nothing with two threads (.83 of a copy either way) and lost a third with one.
# ns an item, float32 add, one thread in L2: chunks of 1024 .37, 4096 .33, 16384 .36; 1-byte items .096, .063, .053.
ROWS = Tuning(chunk=4096, width=1, tile=1 << 18)
# Of a copy, float32 add along axis 0 of 8192x8192: 64 rows by 256 columns .57, 64 by 1024 .61, 16 by 1024 .68.
COLUMNS = Tuning(chunk=16, width=256, tile=1 << 18)

SHORT = 1024
"""Rows of fewer items are scanned side by side, each in a lane of its own."""
PARALLEL_BYTES = 1 << 19
"""Less than this is scanned by the calling thread: waking another costs 20 us."""
TICKET_BYTES = 1 << 16
"""Short rows are taken in batches of about this size."""
NEAR_BYTES = 1 << 18
"""Columns narrower than a cache line are scanned one by one while all of them fit a near cache."""

STRIP, STRIP_OF_ROWS = 1024, 16
"""Rows that a scan in order walks side by side: where neighbours are rows, so many that their states stay in the nearest
cache; where the axis itself runs along memory, so few that their cache lines do."""
