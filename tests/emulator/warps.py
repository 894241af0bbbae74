"""Runs the threads of a kernel: warps take turns in a random order, and meet where the kernel says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from emulator.ptx import Kernel, State, Word

WARP = 32
_LANES = np.arange(WARP)
_BITS = np.int64(1) << _LANES
_ALL = (1 << WARP) - 1
# As plain numbers: warps have some hundred thousand turns in a test, and an enum's member takes longer than the look at a warp.
_STATE, _MASK, _PATIENCE, _RESULT, _TRUTH = map(
    int, (Word.STATE, Word.MASK, Word.PATIENCE, Word.RESULT, Word.TRUTH)
)
_A, _B, _C, _ARRIVALS = map(int, (Word.A, Word.B, Word.C, Word.ARRIVALS))
_RUNS, _ENDED, _ARRIVES, _BARRIER, _AWAITS_CLUSTER = map(
    int, (State.RUNS, State.ENDED, State.ARRIVES, State.BARRIER, State.AWAITS_CLUSTER)
)
_UP, _DOWN, _IDX = map(int, (State.SHUFFLE_UP, State.SHUFFLE_DOWN, State.SHUFFLE_IDX))
_ALL_TRUE, _ANY_TRUE, _BALLOT, _MATCH, _MEET = map(
    int, (State.VOTE_ALL, State.VOTE_ANY, State.BALLOT, State.MATCH, State.MEET)
)
_FIRST_MEETING = _UP
_WHERE = np.array([Word.PLACE, Word.STATE, Word.MASK])
_TURNS = 200_000
"""Turns without a block that ends, after which a kernel counts as waiting for ever."""


class Stuck(Exception):
    """No thread can go on."""


class Misaligned(Exception):
    """A thread read or wrote at an address that is no multiple of the size."""


class Block:
    """The threads of a block, their registers and the shared memory. The block begins late; then the memory is noise."""

    def __init__(
        self, kernel: Kernel, number: int, grid: int, threads: int, shared: int, rng: np.random.Generator
    ) -> None:
        self.kernel, self.threads = kernel, threads
        whole = -(-threads // WARP) * WARP
        self.words = np.zeros((whole, Word.END), np.int64)
        noise = bytearray(rng.bytes(8 * whole * kernel.registers))
        self.registers = np.frombuffer(noise, np.int64).reshape(whole, kernel.registers)
        room = np.empty(kernel.shared + shared + 256, np.uint8)
        self.shared = room[-room.ctypes.data % 128 :]
        self.rng, self.late = rng, int(rng.integers(1, 400))
        """How often others have their turns before the block begins."""
        self.words[:, Word.THREAD] = np.arange(whole)
        self.words[:, Word.BLOCK], self.words[:, Word.THREADS], self.words[:, Word.BLOCKS] = (
            number,
            threads,
            grid,
        )
        self.words[threads:, Word.STATE] = State.ENDED
        self.arrived: Counter[int] = Counter()
        self.states = self.words.reshape(-1, WARP, Word.END)[:, :, _STATE]
        self.places = [
            (self.words.ctypes.data + k * self.words.strides[0], self.registers.ctypes.data + k * self.registers.strides[0])
            for k in range(0, whole, WARP)
        ]  # fmt: skip
        """Where the words and the registers of each warp lie."""
        self.window = self.shared.ctypes.data

    def ended(self) -> bool:
        return bool((self.states == _ENDED).all())

    def ready(self) -> list[int]:
        """The warps with a lane that runs."""
        if self.late:
            self.late -= 1
            if self.late == 0:
                self.shared[:] = self.rng.integers(0, 256, self.shared.size, np.uint8)
            return []
        return np.flatnonzero((self.states == _RUNS).any(1)).tolist()

    def turn(self, warp: int, parameter: int, patience: int) -> None:
        """A turn of a warp's lanes, until each ends, waits, or has jumped back that often."""
        words, states = self.words[warp * WARP : (warp + 1) * WARP], self.states[warp]
        words[:, _PATIENCE] = patience
        self.kernel.run(*self.places[warp], _bits(states == _RUNS), self.window, parameter)
        found = states.tolist()
        if _ARRIVES in found or _BARRIER in found:
            self._at_barriers(words)
        if max(found) >= _FIRST_MEETING:
            while self._met(words):
                pass

    def _at_barriers(self, words: np.ndarray) -> None:
        for state in (_ARRIVES, _BARRIER):
            for lane in np.flatnonzero(words[:, _STATE] == state):
                barrier, count = int(words[lane, Word.A]), int(words[lane, Word.B]) or self.threads
                words[lane, _STATE] = State.RUNS if state == _ARRIVES else State.WAITS
                self.arrived[barrier] += 1
                if self.arrived[barrier] == count:
                    self.arrived[barrier] = 0
                    wait = (self.words[:, Word.STATE] == State.WAITS) & (self.words[:, Word.A] == barrier)
                    self.words[wait, Word.TRUTH] = self.words[wait, Word.C].any()
                    self.words[wait, Word.STATE] = State.RUNS

    @staticmethod
    def _met(words: np.ndarray) -> bool:
        """Lanes of a warp that meet, all of them at one place, exchange what they bring. Whether others wait then."""
        states = words[:, _STATE]
        where = words[:, _WHERE]
        if states[0] >= _FIRST_MEETING and where[0, -1] & _ALL == _ALL and (where == where[0]).all():
            words[:, _RESULT], words[:, _TRUTH] = _meeting(int(states[0]), words, _LANES)
            words[:, _STATE] = _RUNS
            return False
        waiting = np.flatnonzero(states >= _FIRST_MEETING)
        alive = _bits(states != _ENDED)
        for mask in {m & alive for m in words[waiting, _MASK].tolist()}:
            lanes = _LANES[(mask >> _LANES & 1).astype(bool)]
            there = words[lanes]
            if there[0, _STATE] >= _FIRST_MEETING and (there[:, _WHERE] == there[0, _WHERE]).all():
                results, truths = _meeting(int(there[0, _STATE]), there, lanes)
                words[lanes, _RESULT], words[lanes, _TRUTH] = results, truths
                words[lanes, _STATE] = _RUNS
                return len(waiting) > len(lanes)
        return False


def _bits(lanes: np.ndarray) -> int:
    return int.from_bytes(np.packbits(lanes, bitorder="little"), "little")


class Cluster:
    """Blocks that read each other's shared memory, and begin and go as one."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.windows = np.array([block.window for block in blocks])
        for block in blocks:
            block.words[:, Word.WINDOWS] = self.windows.ctypes.data

    def ended(self) -> bool:
        ended = all(block.ended() for block in self.blocks)
        if ended and any(block.words[:, Word.ASTRAY].any() for block in self.blocks):
            raise Misaligned("a GPU would end the launch: misaligned address")
        return ended

    def meet(self) -> None:
        """Threads that wait go on when all have arrived as often as they have; those that ended are not waited for."""
        words = np.concatenate([block.words[:, [_STATE, _ARRIVALS]] for block in self.blocks])
        arrivals = words[words[:, 0] != _ENDED, 1].min(initial=np.iinfo("i8").max)
        for block in self.blocks:
            waits = block.words[:, _STATE] == _AWAITS_CLUSTER
            block.words[waits & (block.words[:, _ARRIVALS] <= arrivals), _STATE] = _RUNS


def _meeting(state: int, words: np.ndarray, lanes: np.ndarray) -> tuple[np.ndarray | int, np.ndarray | int]:
    """What each lane takes away: a number, and for shuffles whether it comes from a lane in range."""
    brought = words[:, _A]
    if state in _REDUCTIONS:
        function, dtype = _REDUCTIONS[State(state)]
        return int(function.reduce(brought.astype(np.uint32).view(dtype))) & 0xFFFFFFFF, 0
    if state == _MEET:
        return 0, 0
    if state in (_ALL_TRUE, _ANY_TRUE):
        return int(brought.all() if state == _ALL_TRUE else brought.any()), 0
    if state == _BALLOT:
        return int((_BITS[lanes] * (brought != 0)).sum()), 0
    if state == _MATCH:
        return np.array([int(_BITS[lanes][brought == own].sum()) for own in brought]), 0
    by, limit, segments = words[:, _B] & 31, words[:, _C] & 31, words[:, _C] >> 8 & 31
    least, most = lanes & segments, (lanes & segments) | (limit & ~segments & 31)
    if state == _UP:
        source = lanes - by
        inside = source >= most
    elif state == _IDX:
        source = least | by & ~segments & 31
        inside = source <= most
    else:
        source = lanes + by if state == _DOWN else lanes ^ by
        inside = source <= most
    source = np.where(inside, source, lanes)
    held = np.zeros(WARP, np.int64)
    held[lanes] = brought
    return held[source], inside.astype(np.int64)


_REDUCTIONS = {
    State.REDUCE_ADD: (np.add, np.uint32), State.REDUCE_OR: (np.bitwise_or, np.uint32),
    State.REDUCE_AND: (np.bitwise_and, np.uint32), State.REDUCE_XOR: (np.bitwise_xor, np.uint32),
    State.REDUCE_MIN: (np.minimum, np.int32), State.REDUCE_MAX: (np.maximum, np.int32),
    State.REDUCE_UMIN: (np.minimum, np.uint32), State.REDUCE_UMAX: (np.maximum, np.uint32),
}  # fmt: skip


def run(
    kernel: Kernel,
    grid: int,
    threads: int,
    shared: int,
    parameter: bytes,
    resident: int,
    rng: np.random.Generator,
) -> None:
    """A launch. `resident` blocks, or two clusters, have their turns at a time; the next ones begin where some end."""
    held = np.frombuffer(parameter.ljust(4096, b"\0"), np.uint8).copy()
    given = held.ctypes.data
    most = resident if kernel.cluster == 1 else 2
    waiting: Iterator[int] = iter(range(0, grid, kernel.cluster))
    clusters: list[Cluster] = []
    turns = 0
    while True:
        while len(clusters) < most and (first := next(waiting, None)) is not None:
            numbers = range(first, first + kernel.cluster)
            clusters.append(Cluster([Block(kernel, n, grid, threads, shared, rng) for n in numbers]))
        if not clusters:
            return
        blocks = [block for cluster in clusters for block in cluster.blocks]
        late = any(block.late for block in blocks)
        ready = [(block, warp) for block in blocks for warp in block.ready()]
        if not (ready or late) or turns > _TURNS:
            raise Stuck(f"{len(clusters)} clusters of {kernel.cluster} blocks wait for ever")
        for k, patience in zip(rng.permutation(len(ready)), rng.integers(1, 60, len(ready)).tolist()):
            block, warp = ready[k]
            block.turn(warp, given, patience)
        turns += len(ready)
        if kernel.cluster > 1:
            for cluster in clusters:
                cluster.meet()
        if any(cluster.ended() for cluster in clusters):
            clusters, turns = [cluster for cluster in clusters if not cluster.ended()], 0
