"""The launches of a scan of groups, and the memory that they work in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise, product

import numpy as np

from upsweep.cpu import threads
from upsweep.cpu.code import address, callable_at
from upsweep.cpu.group_words import (
    BLOCK,
    BUCKET_BYTES,
    BUCKETS,
    FEW,
    SORTED_STRETCH,
    STRETCH,
    Form,
    Phase,
    Way,
    Word,
)
from upsweep.cpu.objects import address_of
from upsweep.cpu.sets import Sets
from upsweep.cpu.units import grouping
from upsweep.cpu.words import LINE
from upsweep.operator import OperatorError
from upsweep.plan import Plan

_SUMS = 64
"""Block sums of the largest state there can be."""


def places_of(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where pieces of so many bytes begin, each on a cache line, and the bytes of all."""
    *places, end = accumulate([-(-size // LINE) * LINE for size in sizes], initial=0)
    return places, end


class Room:
    """Memory in pieces of so many bytes."""

    def __init__(self, sizes: Sequence[int]) -> None:
        places, size = places_of(sizes)
        self.memory, start = threads.on_a_line(size)
        self.at = [start + place for place in places]


class Run:
    """A scan of items whose groups are known."""

    def __init__(
        self, plan: Plan, form: Form, codes: np.ndarray, groups: int, sets: Sets, threads: int, strip: int
    ) -> None:
        self.plan, self.form, self.codes, self.groups, self.sets = plan, form, codes, groups, sets
        self.threads, self.strip, self.run = threads, strip, _loop(plan, form)
        few = groups <= FEW or plan.n <= STRETCH
        self.shift = 0 if few or form.way != Way.BROUGHT else _shift(groups, plan)
        self.buckets = -(-groups >> self.shift) if groups else 0
        self.stretch = STRETCH if few and threads == 1 else max(plan.n, 1)
        self.stretch = SORTED_STRETCH if form.way == Way.SORTED else self.stretch
        # The first word of the addresses of items.
        self.rooms = -5 * len(plan.accumulators)
        # Where there is one stretch, a group's state is not needed any more when the next group's begins.
        stays = self.stretch < plan.n if form.way == Way.BROUGHT else form.counted
        self.depth = depth_of(plan) if stays else 0

    def rows(self, rows: tuple[int, int, int, int]) -> None:
        """Scan rows: those from a first set to the one behind the last, and from a first row of these to the one behind the
        last."""
        room = Room(self.sizes())
        self._launch(self.words(rows, room.at))

    def together(self) -> None:
        """Scan rows one by one, each by all threads together."""
        for s, row in product(range(self.sets.places.shape[1]), range(self.sets.rows)):
            place = s, s + 1, row, row + 1
            if self.form.way == Way.SORTED:
                self._side_by_side(place)
            else:
                self._phase_by_phase(place)

    def _side_by_side(self, rows: tuple[int, int, int, int]) -> None:
        def scan(part: tuple[int, int]) -> None:
            room = Room(self.sizes())
            words = self.words(rows, room.at)
            words[Word.FROM], words[Word.BEHIND] = part
            self._launch(words)

        n, most = self.plan.n, self.threads
        cuts = [_start(self.codes, n * t // most) for t in range(most)]
        threads.each(scan, [(a, b) for a, b in pairwise([*cuts, n]) if a < b], most)

    def _phase_by_phase(self, rows: tuple[int, int, int, int]) -> None:
        room, most, n = Room(self.sizes()), self.threads, self.plan.n
        told, parts = self.words(rows, room.at), len(self.plan.accumulators)
        shares = [(n * t // most, n * (t + 1) // most) for t in range(most)]

        def launch(phase: Phase, thread: int, part: tuple[int, int], own: Room | None = None) -> None:
            words = told.copy()
            words[[Word.PHASE, Word.THREAD, Word.FROM, Word.BEHIND]] = phase, thread, *part
            if own is not None:
                words[Word.INNER] = own.at[0]
                words[self.rooms : self.rooms + 2 * parts] = own.at[1 : 2 * parts + 1]
                words[-parts:] = own.at[2 * parts + 1 :]
            self._launch(words)

        def each(phase: Phase) -> None:
            threads.each(lambda t: launch(phase, t, shares[t]), range(most), most)

        each(Phase.COUNT)
        launch(Phase.PLACE, 0, (0, 0))
        begins = np.frombuffer(
            room.memory, np.int64, self.buckets, room.at[2] - address_of(room.memory)
        ).copy()
        each(Phase.SPREAD)
        # Buckets in shares of about as many items.
        cuts = [*np.searchsorted(begins, n * np.arange(4 * most) // (4 * most)), self.buckets]
        largest = int(np.max(np.diff(begins, append=n))) if self.shift else 0
        threads.each(
            lambda part: launch(Phase.SCAN, 0, part, self._own(largest)),
            [(int(a), int(b)) for a, b in pairwise(cuts) if a < b],
            most,
        )
        each(Phase.RETURN)

    def words(self, rows: tuple[int, int, int, int], at: Sequence[int]) -> np.ndarray:
        """The words of a launch, whose memory is in pieces that begin at these addresses."""
        plan, sets = self.plan, self.sets
        return np.array([
            Phase.ALL, plan.n, address_of(self.codes), self.codes.strides[0], self.groups, self.shift, self.buckets,
            self.threads, 0, *at[:5], self.stretch, self.depth, 0, plan.n, plan.n - 1 if plan.reverse else 0,
            address_of(sets.places), sets.places.shape[1], *rows, self.strip, *sets.steps, *at[5:],
        ], np.int64)  # fmt: skip

    def _launch(self, words: np.ndarray) -> None:
        result = np.zeros(2, np.int64)
        at = address_of(result)
        if self.run(at, at + 8, address_of(words)):
            raise OperatorError(f"operator {self.plan.op} raised an exception")

    def sizes(self) -> list[int]:
        """The bytes of the memory of a thread that works alone, or of all together."""
        groups, n, wide = self.groups, min(self.plan.n, self.stretch), 1 << self.shift
        if self.form.counted:
            states = groups * self.depth * self.strip
            return [8 * groups, 0, 0, 0, 0, *self._items(states, states, 0, 0, 0)]
        if self.form.way == Way.IN_TURN:
            return [groups, 0, 0, 0, 0, *self._items(0, groups * self.strip, 0, 0, 0)]
        if self.form.way == Way.SORTED:
            return [0, 0, 0, 0, 0, *self._items(_SUMS, _SUMS, BLOCK, n + BLOCK, 0)]
        cursors, states = 8 * self.buckets * self.threads, groups * self.depth + _SUMS
        if not self.shift:
            waiting = BLOCK * groups if self.depth else 0
            items = self._items(states, states, waiting, n + BLOCK * groups, 0)
            return [8 * groups, cursors, cursors, 0, 0, *items]
        items = self._items(states, states, 0, n, n + wide if self.threads == 1 else 0)
        return [0, cursors, cursors, 4 * n, 8 * wide, *items]

    def _own(self, largest: int) -> Room:
        """The memory of a thread that scans buckets, which have at most so many items."""
        wide = 1 << self.shift
        return Room([8 * wide, *self._items(_SUMS, _SUMS, largest + wide)])

    def _items(self, *counts: int) -> list[int]:
        return [n * d.itemsize for n in counts for d in self.plan.accumulators]


def depth_of(plan: Plan) -> int:
    """The block sums of a group's state, at most: one for each bit of its items, and one more."""
    return plan.n.bit_length() + 1


def _shift(groups: int, plan: Plan) -> int:
    """How many bits of a group's number tell it from the others of its bucket."""
    size = plan.n * sum(d.itemsize for d in plan.accumulators)
    wanted = min(max(size // BUCKET_BYTES, 16), BUCKETS)
    return max(1, (groups - 1).bit_length() - (wanted.bit_length() - 1))


def _start(codes: np.ndarray, place: int) -> int:
    """Where the group of an item starts, of codes that never fall or never rise."""
    if codes[0] <= codes[-1]:
        return int(np.searchsorted(codes, codes[place]))
    return len(codes) - int(np.searchsorted(codes[::-1], codes[place], "right"))


@lru_cache(1024)
def _loop(plan: Plan, form: Form) -> Callable[..., int]:
    """The compiled loop over the items of a row."""
    return callable_at(address(grouping(plan, form)), 1)
