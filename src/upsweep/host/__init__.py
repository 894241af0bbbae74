"""Memory of this machine, in NumPy alone: arrays of every library as NumPy's, and segments as flags.

The engines that work here share this half of the protocol (see `upsweep.engine_protocol.Engine`).
"""

from upsweep.host.arrays import (
    TORCH_LIKENESS,
    apart,
    broadcast,
    copied,
    cut,
    empty,
    give,
    numbers,
    of_nothing,
    place,
    shifted,
    start,
    view,
    without_ahead,
    writable,
)
from upsweep.host.heads import flags_of, heads, marked, offsets, spread, starts

__all__ = [
    "TORCH_LIKENESS",
    "apart",
    "broadcast",
    "copied",
    "cut",
    "empty",
    "flags_of",
    "give",
    "heads",
    "marked",
    "numbers",
    "of_nothing",
    "offsets",
    "place",
    "shifted",
    "spread",
    "start",
    "starts",
    "view",
    "without_ahead",
    "writable",
]
