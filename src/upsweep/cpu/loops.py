"""Loops for applications: the protocol of `upsweep.moves`."""

from __future__ import annotations

from upsweep.cpu.cascades import filtered
from upsweep.cpu.chains import best_path_in_order, forward_in_order
from upsweep.cpu.codecs import read_codes, read_numbers, write_numbers
from upsweep.cpu.polynomials import horner
from upsweep.cpu.shifts import feed_forward, last_state

__all__ = [
    "best_path_in_order", "feed_forward", "filtered", "forward_in_order", "horner", "last_state",
    "read_codes", "read_numbers", "write_numbers",
]  # fmt: skip
