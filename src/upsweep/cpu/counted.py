"""Scans of a few items behind others: the kernel of `counter.py`, on the block sums of all items so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from upsweep.cpu.code import address, callable_at
from upsweep.cpu.launch import with_map
from upsweep.cpu.objects import address_of
from upsweep.cpu.sets import by_row, sets_of
from upsweep.cpu.units import counting
from upsweep.cpu.words import Counter
from upsweep.host.arrays import numbers
from upsweep.operator import OperatorError, identity_of
from upsweep.plan import Plan
from upsweep.tree import Carry


class Counted(Carry):
    """A carry whose block sums stand in one array a component, behind each other by the bits of the count."""

    def __init__(self, count: int, held: list[np.ndarray]) -> None:
        self.count, self.held = count, held

    @property
    def sums(self) -> list[tuple[Any, ...]]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The block sums as every carry lists them, the largest block first."""
        bits = range(self.count.bit_length() - 1, -1, -1)
        return [tuple([a[..., b].copy() for a in self.held]) for b in bits if self.count >> b & 1]

    @property
    def parts(self) -> int:
        return len(self.held)


class Behind:
    """Scans items behind others: those of arrays like these, with the same starts and as many bits of their count; see
    `upsweep.engine_protocol.Counting`."""

    def __init__(
        self, plan: Plan, xs: Sequence[np.ndarray], ys: Sequence[np.ndarray], initial: Sequence[np.ndarray] | None, count: int
    ) -> None:  # fmt: skip
        self.plan = plan = with_map(plan)
        self.bits = (count + plan.n).bit_length()
        starts = initial or identity_of(plan.op, plan.accumulators) or [0] * len(plan.accumulators)
        self.starts = [np.asarray(s, d) for s, d in zip(starts, plan.accumulators)]
        held = self._room()
        ins, outs = [by_row(numbers(x), plan) for x in xs], [by_row(numbers(y), plan) for y in ys]
        sets = sets_of(ins, outs, [*self.starts, *held])
        bases = [address_of(a) for a in (*xs, *ys, *self.starts, *held)]
        self.apart = sets.places - np.array(bases)[:, None]
        self.places, self.prefixes = sets.places, [np.empty(self.bits, d) for d in plan.accumulators]
        words = [plan.n, 0, 0, address_of(self.places), self.places.shape[1], sets.rows, *sets.steps]
        self.words = np.array([*words, *map(address_of, self.prefixes)], np.int64)
        self.result = np.zeros(2, np.int64)
        at = address_of(self.result)
        self.run = partial(_loop(plan, initial is not None), at, at + 8, address_of(self.words))

    def _room(self) -> list[np.ndarray]:
        return [np.empty((*self.plan.row_shape, self.bits), d) for d in self.plan.accumulators]

    def scan(self, xs: Sequence[np.ndarray], ys: Sequence[np.ndarray], carry: Carry) -> Carry | None:
        count, held = carry.count, self._room()
        if (count + self.plan.n).bit_length() != self.bits:
            return None
        if isinstance(carry, Counted):
            for a, before in zip(held, carry.held):
                a[..., : before.shape[-1]] = before
        else:
            bits = [b for b in range(count.bit_length() - 1, -1, -1) if count >> b & 1]
            for b, block in zip(bits, carry.sums):
                for a, s in zip(held, block):
                    a[..., b] = s
        bases = [address_of(a) for a in (*xs, *ys, *self.starts, *held)]
        np.add(self.apart, np.array(bases)[:, None], out=self.places)
        self.words[Counter.COUNT], self.words[Counter.BITS] = count, count.bit_length()
        if self.run():
            raise OperatorError(f"operator {self.plan.op} raised an exception")
        return Counted(count + self.plan.n, held)


@lru_cache(1024)
def _loop(plan: Plan, initial: bool) -> Callable[..., int]:
    """The compiled loop over the items of all rows."""
    return callable_at(address(counting(plan, initial)), 1)
