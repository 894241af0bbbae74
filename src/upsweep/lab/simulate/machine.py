"""The simulated GPU: blocks of threads as generators, and their accesses to each other's memory."""

from __future__ import annotations

import contextlib
import math
import types
from collections.abc import Callable, Generator
from itertools import product
from typing import Any

import numpy as np

from upsweep.lab.simulate.dialect import generator, surroundings
from upsweep.lab.simulate.meetings import meet_block, meet_grid, meet_warps
from upsweep.lab.simulate.memory import Memory, Root, Stamp, Word
from upsweep.lab.simulate.threads import SCOPES, Block, Dim3, Known, Request, Thread, merge, newer

RESIDENT = 1 << 16
"""Threads that are held at once; where they all wait for the whole grid, all are."""
PATIENCE = 100_000
"""Rounds in which nobody gets any further, after which it is a deadlock."""
MOST_READERS = 64
"""Readers of a word that are remembered before those are forgotten that the next one comes after."""
WHOLE = -1
"""Stands for all threads of a block, and for all blocks."""
VERBS = {"load": "read", "store": "written", "atomic": "updated"}
GONE: Generator = (_ for _ in ())
"""The run of a thread that has left the kernel."""


class SimulationError(AssertionError):
    """A finding in a launch: a race, a divergent barrier, an uninitialised read, an access out of bounds."""


class Stop(Exception):
    """Ends a launch whose memory cannot be gone on with."""


class Simulator:
    """One simulated device: its memory, and the launches on it."""

    def __init__(self) -> None:
        self.roots: list[Root] = []
        self.stop = Stop()
        self.now: Thread
        self.reset()

    def reset(self) -> None:
        self.words: dict[int, Word] = {}
        self.signals: dict[tuple[int, int], Known] = {}
        self.reports: dict[tuple[str, Any], str] = {}
        self.grid_epoch = 0

    # --- findings ---------------------------------------------------------------------------------------------------

    def found(self, kind: str, line: int, text: str, key: Any = None) -> None:
        t = self.now
        where = f"thread {tuple(t.index)} of block {tuple(t.block.index)}"
        self.reports.setdefault((kind, key or line), f"{kind}: {self.file}:{line}: {text} ({where})")

    def touched(self, memory: Memory, address: int, where: tuple[int, ...], kind: str, line: int) -> None:
        """Record an access, and report the one that it races with."""
        me = self.now.now(self.grid_epoch)
        word = self.words.get(address)
        if word is None:
            word = self.words[address] = Word()
        wrote, reads = word.write, word.reads
        if (
            wrote is not None
            and wrote is not me
            and not (word.kind == kind == "atomic")
            and not self.ordered(wrote, me)
        ):
            self.raced(memory, where, kind, line, wrote, word.kind, word.line)
        if kind == "load":
            if me not in reads and len(reads) >= MOST_READERS:
                word.reads = reads = {r: at for r, at in reads.items() if not self.ordered(r, me)}
            reads[me] = line
            return
        for other, at in reads.items():
            if other is not me and not self.ordered(other, me):
                self.raced(memory, where, kind, line, other, "load", at)
        word.write, word.kind, word.line = me, kind, line
        if reads:
            word.reads = {}

    def raced(
        self, memory: Memory, where: tuple[int, ...], kind: str, line: int, other: Stamp, did: str, at: int
    ) -> None:
        name = f"{memory.name}[{', '.join(map(str, where))}]"
        text = f"{name} is {VERBS[kind]} by this thread and {VERBS[did]} in line {at} by thread {other.thread} of block " \
               f"{other.block}, and nothing orders the two"  # fmt: skip
        self.found("race", line, text, frozenset((line, at)))

    def ordered(self, a: Stamp, b: Stamp) -> bool:
        """Whether an access of `b`, the thread that runs now, comes after one of `a` on every GPU."""
        if a.block == b.block and (a.thread == b.thread or a.epoch < b.epoch):
            return True
        known = self.now.known
        return (
            a.grid_epoch < b.grid_epoch
            or known.get((a.block, a.thread), -1) >= a.clock
            or known.get((a.block, WHOLE), -1) > a.epoch
        )

    def fence(self, scope: str) -> None:
        """A fence. From here on the thread knows all that its atomics have read, and its atomics hand on all that it knows."""
        t = self.now
        inside = SCOPES[: SCOPES.index(scope) + 1]
        for narrow in inside:
            t.known = {**t.known, **newer(t.taken[narrow], t.known)}
        here = {**t.known, (t.block.number, t.number): t.stamp.clock, (t.block.number, WHOLE): t.block.epoch}
        t.given.update(dict.fromkeys(inside, here))
        t.ticks()

    def signalled(self, address: int) -> None:
        """An atomic: it takes the knowledge that others released to this word, and releases the knowledge that was fenced before.

        A fence of the block's scope hands on within the block alone.
        """
        t = self.now
        for scope in SCOPES:
            word = self.signals.setdefault((address, t.block.number if scope == "block" else WHOLE), {})
            merge(t.taken[scope], word)
            merge(word, t.given[scope])

    # --- launches ---------------------------------------------------------------------------------------------------

    def launch(
        self, function: Callable[..., Any], grid: Any, block: Any, args: tuple[Any, ...], shared: int, on: Any
    ) -> None:
        self.reset()
        self.grid, self.shape, self.dynamic = _dim3(grid), _dim3(block), shared
        self.file = function.__code__.co_filename.rsplit("/", 1)[-1]
        if math.prod(self.shape) > 1024:
            raise ValueError(f"a block of {math.prod(self.shape)} threads: no GPU runs more than 1024")
        self.device, self.made = on, {}
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        values = [self.wrapped(value, name) for value, name in zip(args, names)]
        thread = self.generator(function)
        with contextlib.suppress(Stop):
            self.run(thread, values, everyone="this_grid" in function.__code__.co_names)
        if self.reports:
            raise SimulationError("\n".join(self.reports.values()))

    def generator(self, function: Callable[..., Any]) -> Callable[..., Generator]:
        """The rewritten function, with this device in the place of numba's."""
        key = function
        if key not in self.made:
            swapped = {name: self.device.instead(value) for name, value in surroundings(function).items()}
            around = {name: value for name, value in swapped.items() if value is not None}
            self.made[key] = generator(
                function, {**around, "_load": self.load, "_store": self.store, "_call": self.call}
            )
        return self.made[key]

    def wrapped(self, value: Any, name: str) -> Any:
        if isinstance(value, tuple):
            return tuple(self.wrapped(v, f"{name}[{k}]") for k, v in enumerate(value))
        array = getattr(value, "array", value)
        if isinstance(array, np.ndarray) and array.ndim:
            start = array.__array_interface__["data"][0]
            return Memory(
                self, array.view(np.ndarray), name, next((r for r in self.roots if start in r), None)
            )
        return value.item() if isinstance(value, (np.integer, np.float64, np.bool_)) else value

    def run(self, thread: Callable[..., Generator], args: list[Any], everyone: bool) -> None:
        places = [Dim3(x, y, z) for z, y, x in product(*(range(n) for n in reversed(self.grid)))]
        most = len(places) if everyone else max(1, RESIDENT // math.prod(self.shape))
        queue, active, idle = list(enumerate(places)), [], 0
        while queue or active:
            while queue and len(active) < most:
                number, index = queue.pop(0)
                active.append(Block(number, index, self.shape))
                for t in active[-1].threads:
                    t.run = thread(*args)
            moved = [self.round(block) for block in active]
            active = [block for block in active if block.threads]
            if everyone and all(
                t.waits is not None and t.waits.kind == "grid" for b in active for t in b.threads
            ):
                meet_grid(self, active)
                continue
            idle = 0 if any(moved) else idle + 1
            if idle > PATIENCE or (
                idle and not any(t.waits and t.waits.kind == "turn" for b in active for t in b.threads)
            ):
                self.now = active[0].threads[0] if active else self.now
                self.found("deadlock", self.now.line, "all threads wait, and nobody is left to release them")
                return

    def round(self, block: Block) -> bool:
        """Let all threads of a block that can run do so until they wait."""
        moved, left = False, False
        for t in block.threads:
            if t.waits is not None and t.waits.kind != "turn":
                continue
            self.now = t
            try:
                asked = t.run.send(t.waits.value if t.waits is not None else t.sends)
            except StopIteration:
                t.run, moved, left = GONE, True, True
                continue
            moved |= asked.kind != "turn"
            t.waits, t.sends = asked, None
        if left:
            block.threads = [t for t in block.threads if t.run is not GONE]
        meet_warps(self, block)
        waiting = [t for t in block.threads if t.waits is not None and t.waits.kind == "barrier"]
        if waiting and len(waiting) == len(block.threads):
            meet_block(self, block, waiting)
            moved = True
        return moved

    # --- what rewritten kernels call ----------------------------------------------------------------------------------

    def load(self, array: Any, index: Any, line: int) -> Any:
        return array.load(index, line) if isinstance(array, Memory) else array[index]

    def store(self, array: Any, index: Any, value: Any, line: int) -> None:
        if isinstance(array, Memory):
            array.store(index, value, line)
        else:
            array[index] = value

    def call(self, function: Any, line: int, *args: Any, **keywords: Any) -> Generator:
        """A call within a kernel: of the device's own, of a device function, or of Python's."""
        self.now.line = line
        # Most of the device's own functions are methods.
        if function.__class__ is not types.MethodType:
            plain = getattr(function, "py_func", function)
            ours = isinstance(plain, types.FunctionType) and (plain.__module__ or "").startswith(
                "upsweep.lab.simulate."
            )
            if isinstance(plain, types.FunctionType) and not ours:
                try:
                    inner = self.generator(plain)
                except (OSError, TypeError):
                    # A function without a source is Python's own.
                    return plain(*args, **keywords)
                return (yield from inner(*args, **keywords))
        made = function(*args, **keywords)
        if isinstance(made, Request):
            return (yield made)
        return made


def _dim3(size: Any) -> Dim3:
    return Dim3(*(int(n) for n in (size if isinstance(size, (tuple, list)) else (size,))))
