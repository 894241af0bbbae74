"""Moves of data on a GPU: the protocol of `upsweep.moves` by kernels that read and write once."""

from __future__ import annotations

from upsweep.gpu.boxes import boxes
from upsweep.gpu.codes import write_codes
from upsweep.gpu.links import distances
from upsweep.gpu.repeating import count, fill, owners, repeat
from upsweep.gpu.selecting import again, found, pack, partition, runs, select, unique, where
from upsweep.gpu.sorting import argsort, radix_sort

__all__ = [
    "again",
    "argsort",
    "boxes",
    "count",
    "distances",
    "fill",
    "found",
    "owners",
    "pack",
    "partition",
    "radix_sort",
    "repeat",
    "runs",
    "select",
    "unique",
    "where",
    "write_codes",
]
