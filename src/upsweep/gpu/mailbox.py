"""A number that a kernel sends to this machine's memory while it still runs: the receiver need not wait for the kernel, nor
for the driver, which takes some 50 microseconds to say that a stream has come so far.
"""

from __future__ import annotations

import ctypes
from time import perf_counter
from typing import Any

from cuda.bindings import driver as cu  # pyright: ignore[reportAttributeAccessIssue]

from upsweep.gpu import driver

MISSING = -1
PATIENCE = 0.002
"""Seconds of asking, after which the driver is asked: a stream with much other work must not keep a core busy."""


class Box:
    """Eight bytes of memory that this machine and its GPUs share, for one number of 0 or more at a time."""

    def __init__(self) -> None:
        portable = cu.CU_MEMHOSTALLOC_PORTABLE | cu.CU_MEMHOSTALLOC_DEVICEMAP
        self.ptr = int(driver.check(cu.cuMemHostAlloc(8, portable)))
        self.number = ctypes.c_int64.from_address(self.ptr)

    def wait(self, stream: int) -> int:
        """The number, once it has arrived. The box is free again then."""
        until = perf_counter() + PATIENCE
        while self.number.value == MISSING:
            if perf_counter() > until:
                driver.synchronize(stream)
                break
        number = self.number.value
        _FREE.append(self)
        return number


_FREE: list[Any] = []


def box(device: int) -> Box:
    """An empty box. The device's context must be the current one."""
    try:
        found = _FREE.pop()
    except IndexError:
        with driver.on_device(device):
            found = Box()
    found.number.value = MISSING
    return found
