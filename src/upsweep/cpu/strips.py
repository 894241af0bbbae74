"""From a plan that goes item by item to the words of a launch: rows side by side are cut into strips, which threads take by
ticket."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from upsweep.cpu import tuning
from upsweep.cpu.code import address, callable_at
from upsweep.cpu.cuts import wanted_threads, worth_code
from upsweep.cpu.launch import Launch
from upsweep.cpu.rows import Strides, rows_of
from upsweep.cpu.units import walk
from upsweep.cpu.words import LINE, Form, regions
from upsweep.operators import free
from upsweep.plan import Plan


def launch_of(plan: Plan, arrays: Sequence[np.ndarray]) -> Launch:
    """The launch of a plan on arrays of these strides."""
    return _launch(plan, tuple([a.strides for a in arrays]))


@lru_cache(4096)
def _launch(plan: Plan, strides: tuple[Strides, ...]) -> Launch:
    rows = rows_of(plan, strides)
    inner, side_by_side = rows.inner, rows.side_by_side
    outer, sizes = [*rows.outer], [*rows.sizes]
    across = inner is not None
    if not across and outer:
        # Where the axis itself runs along memory, the longest dimension is walked side by side.
        longest = sizes.index(max(sizes))
        inner, side_by_side = outer.pop(longest), sizes.pop(longest)
    steps = [array[inner] if inner is not None else 0 for array in strides]
    flag = [np.dtype(np.uint8)] if plan.segmented else []
    dtypes = [*plan.loads, *flag, *[d for d in plan.stores if d is not None]]
    known = known_steps(steps, dtypes)
    starts = known_steps(steps[len(dtypes) :], plan.accumulators)
    # Other scans in order share one code for all steps. A number in an array's place has another step.
    beside = None not in known and inner is not None
    dense = beside and (free(plan.op, plan.accumulators) or worth_code(plan))
    form = Form(
        plan.segmented,
        plan.initial,
        plan.exclusive,
        plan.reduce,
        plan.reverse and bool(plan.map or plan.finish),
        known if dense else (None,) * len(known),
        starts if dense else (None,) * len(starts),
    )
    wanted = wanted_threads(plan, strides)
    others = prod(sizes)
    strip = _strip(side_by_side, others, wanted, tuning.STRIP if beside else tuning.STRIP_OF_ROWS)
    strips = -(-side_by_side // strip)
    words = [
        plan.n,
        side_by_side,
        strips,
        strips * others,
        strip,
        0,
        len(outer),
        *sizes,
    ]
    first, each = len(words), 3 + len(outer)
    for array, step in zip(strides, steps):
        words += [0, array[plan.axis], step, *(array[d] for d in outer)]
    code, results = address(walk(plan, form, tuning.STRIP)), regions(plan.accumulators, tuning.STRIP)[1]
    return Launch(
        callable_at(code, 2),
        code,
        np.array(words, np.int64),
        slice(first, first + len(strides) * each, each),
        max(1, min(wanted, strips * others)),
        results + LINE,
        results,
    )


def known_steps(steps: Sequence[int], dtypes: Sequence[np.dtype]) -> tuple[int | None, ...]:
    """The steps that are compiled in: those of neighbours, and of one item for all rows."""
    return tuple(step if step in (0, d.itemsize) else None for step, d in zip(steps, dtypes))


def _strip(rows: int, others: int, threads: int, most: int) -> int:
    """Rows of a strip: at most `most`, whole cache lines of them, and enough strips for all threads."""
    fair = -(-rows * others // (4 * threads)) if threads > 1 else rows
    return max(1, min(most, rows, max(fair, LINE)))
