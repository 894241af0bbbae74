"""The threads of a simulated GPU: the place of each, the event that it waits for, and its knowledge of the others."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import product
from typing import Any, NamedTuple

from upsweep.lab.simulate.memory import Memory, Stamp

WARP = 32
SCOPES = ("block", "device")
"""The scopes of fences, the narrow one first."""
Known = dict[tuple[int, int], int]
"""A thread's knowledge of others: (block, thread) -> all that it did up to this clock; (block, WHOLE) -> all epochs before."""


class Dim3(NamedTuple):
    """Indices or extents in three dimensions."""

    x: int
    y: int = 1
    z: int = 1


class Request(NamedTuple):
    """The event that a thread waits for: `barrier`, `warp`, `grid`, or `turn`, the turn of other threads."""

    kind: str
    name: str = ""
    mask: int = 0
    value: Any = None
    by: Any = None


class Thread:
    """One thread: its place, and the event that it waits for."""

    __slots__ = (
        "block",
        "given",
        "index",
        "known",
        "line",
        "number",
        "run",
        "sends",
        "stamp",
        "taken",
        "waits",
    )

    def __init__(self, block: Block, number: int, index: Dim3):
        self.block, self.number, self.index = block, number, index
        self.stamp = Stamp(block.number, number)
        self.waits: Request | None = None
        self.sends: Any = None
        self.line = 0
        self.known: Known = {}
        self.taken = {scope: dict[tuple[int, int], int]() for scope in SCOPES}
        """Per scope: the knowledge that atomics have read. A fence of that scope makes it known."""
        self.given = {scope: dict[tuple[int, int], int]() for scope in SCOPES}
        """Per scope: the knowledge at the last fence of that scope or a wider one. Atomics hand it on."""
        self.run: Generator

    def ticks(self) -> None:
        """Begin a new stretch: accesses from now on are later than all that others have learned of this thread."""
        was = self.stamp
        self.stamp = Stamp(was.block, was.thread, was.epoch, was.grid_epoch, was.clock + 1)

    def now(self, grid_epoch: int) -> Stamp:
        """The stamp of what this thread does now."""
        stamp, epoch = self.stamp, self.block.epoch
        if stamp.epoch != epoch or stamp.grid_epoch != grid_epoch:
            stamp = self.stamp = Stamp(stamp.block, stamp.thread, epoch, grid_epoch, stamp.clock)
        return stamp


class Block:
    """The threads of one block, its shared memory and its epochs."""

    def __init__(self, number: int, index: Dim3, shape: Dim3):
        self.number, self.index, self.epoch = number, index, 0
        self.shared: dict[Any, Memory] = {}
        indices = [Dim3(x, y, z) for z, y, x in product(range(shape.z), range(shape.y), range(shape.x))]
        self.threads = [Thread(self, t, index) for t, index in enumerate(indices)]


def merge(into: Known, other: Known) -> None:
    """Add all that is known elsewhere to a knowledge."""
    into.update(newer(other, into))


def newer(news: Known, known: Known) -> Known:
    """The part of one knowledge that is newer than another."""
    return {key: value for key, value in news.items() if value > known.get(key, -1)}


def knowledge(threads: Sequence[Thread]) -> Known:
    """The knowledge of some threads together."""
    known: Known = {}
    for one in {id(t.known): t.known for t in threads}.values():
        merge(known, one)
    return known
