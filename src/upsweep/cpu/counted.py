"""Scans of a few items behind others: the kernel of `counter.py`, on the block sums of all items so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep.cpu.code import address, callable_at
from upsweep.cpu.launch import with_map
from upsweep.cpu.objects import address_of
from upsweep.cpu.sets import by_row, sets_of
from upsweep.cpu.units import counting
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


def scan_behind(
    plan: Plan,
    xs: Sequence[np.ndarray],
    ys: Sequence[np.ndarray],
    initial: Sequence[np.ndarray] | None,
    carry: Carry,
) -> Carry:
    """Run a plan for items behind those of a carry: see `upsweep.engine.Counting.scan_behind`."""
    plan = with_map(plan)
    count, behind = carry.count, (carry.count + plan.n).bit_length()
    held = [np.empty((*plan.row_shape, behind), d) for d in plan.accumulators]
    if isinstance(carry, Counted):
        for a, before in zip(held, carry.held):
            a[..., : before.shape[-1]] = before
    else:
        bits = [b for b in range(count.bit_length() - 1, -1, -1) if count >> b & 1]
        for b, block in zip(bits, carry.sums):
            for a, s in zip(held, block):
                a[..., b] = s
    starts = initial or identity_of(plan.op, plan.accumulators) or [0] * len(held)
    starts = [np.asarray(s, d) for s, d in zip(starts, plan.accumulators)]
    ins, outs = [by_row(numbers(x), plan) for x in xs], [by_row(numbers(y), plan) for y in ys]
    sets = sets_of(ins, outs, [*starts, *held])
    prefixes = [np.empty(behind, d) for d in plan.accumulators]
    words = [
        plan.n,
        count,
        count.bit_length(),
        address_of(sets.places),
        sets.places.shape[1],
        sets.rows,
        *sets.steps,
    ]
    told = np.array([*words, *map(address_of, prefixes)], np.int64)
    result = np.zeros(2, np.int64)
    at = address_of(result)
    if _loop(plan, initial is not None)(at, at + 8, address_of(told)):
        raise OperatorError(f"operator {plan.op} raised an exception")
    return Counted(count + plan.n, held)


@lru_cache(1024)
def _loop(plan: Plan, initial: bool) -> Callable[..., int]:
    """The compiled loop over the items of all rows."""
    return callable_at(address(counting(plan, initial)), 1)
