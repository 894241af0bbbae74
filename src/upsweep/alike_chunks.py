"""The functions that scan chunks like one before, without checks, from the state behind the chunk before to that behind this
one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from upsweep import engine as engines
from upsweep import recall
from upsweep.api import last_prefix
from upsweep.components import bare, tupled
from upsweep.engine_protocol import Behind, Engine
from upsweep.tree import Carry

Again = Callable[[Any, Any], Any]
"""Scans one more chunk from where a `Standing` stands; gives None if it did not."""


def again_behind(
    behind: Behind, on: Engine, keep: Sequence[int] | None, results: Sequence[tuple[Any, Any]]
) -> Again:
    """In tree order, item by item. `results` are views of the results, each behind an array of its kind."""
    makers = [engines.memory(like, y.shape, y.dtype) for like, y in results]

    def again(at: Any, chunk: Any) -> Any:
        given = tupled(chunk)
        kinds = given if keep is None else [given[c] for c in keep]
        ys = [make(x) for make, x in zip(makers, kinds)]
        carry = behind.scan([on.view(x) for x in given], ys, at.carry)
        if carry is None:
            return None
        at.carry, at.folds = carry, []
        return bare([on.give(x, y) for x, y in zip(kinds, ys)])

    return again


def again_in_order(
    engine: str, axis: int, n: int, keep: tuple[int, ...] | None, sums: tuple[Any, ...] | None
) -> Again:
    """In order, from the last prefix. `sums` are the dtypes of that prefix; None where it is the last of the results."""
    end = (*[slice(None)] * axis, -1)

    def again(at: Any, chunk: Any) -> Any:
        xs, before, last = bare(tupled(chunk)), bare(at.carry.sums[0]), None
        if sums is not None:
            last = tupled(
                last_prefix(xs, at.op, axis=axis, initial=before, dtype=sums, engine=engine, order=at.order)
            )
        y = recall.run(
            xs, at.op, axis, at.exclusive, False, before, at.dtype, None, None, engine, None, False, keep, at.order
        )  # fmt: skip
        if last is None:
            last = tuple([part[end].copy() for part in tupled(y)])
        at.carry = Carry(at.carry.count + n, [last])
        return y

    return again
