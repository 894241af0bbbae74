"""From a plan that goes item by item to the words of a launch: rows side by side are cut into strips, which threads take by
ticket."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from upsweep.cpu import tuning
from upsweep.cpu.code import address, callable_at
from upsweep.cpu.cuts import goes_in_turn
from upsweep.cpu.demands import past_cache, wanted_threads, worth_code
from upsweep.cpu.launch import Launch
from upsweep.cpu.rows import Rows, Strides, item_size, line_size, lines_of, plain, rows_of, side_by_side
from upsweep.cpu.units import walk
from upsweep.cpu.words import LINE, Form, regions
from upsweep.operators import free
from upsweep.plan import Plan


def walks(plan: Plan, strides: tuple[Strides, ...]) -> bool:
    """Whether a scan goes item by item. Scans in order of columns and of few rows do. Where every order gives the same bits,
    columns go item by item if that is faster: they have no gaps between them, their results stay in the cache, and there are
    enough columns for all threads. Of 200 columns with gaps, 32 MiB of uint8 were reduced in 2.1 ns an item so and are in .25, of
    int32 in 2.6 and .70; 256 KiB of uint8 were scanned in .71 and are in .32, of int32 in .97 and .56. Where one flag of segments
    stands for a whole line they go so in any memory: 1000 columns of int32 .42 and .11, 2000 in 32 MiB .55 and .25.
    """
    lie = rows_of(plan, strides)
    if lie.folded:
        return False
    if not free(plan.op, plan.accumulators):
        # One item has the same bits in each order, and so have three with nothing before them.
        few = plan.n <= (1 if plan.initial else 3) and worth_code(plan)
        in_order = plan.order == "sequential" and not goes_in_turn(plan, lie)
        return (in_order or few) and not lie.turned
    threads = wanted_threads(plan, strides)
    enough = threads == 1 or lie.side_by_side * prod(lie.sizes) >= 2 * LINE * threads
    columns = lie.near * item_size(plan) >= tuning.WALKED_BYTES
    if lie.inner is not None:
        # Lines of so many bytes that go through a map or a finish are walked too, as both stand in the loop.
        line = line_size(plan, lie.side_by_side)
        walked = line > LINE if plain(plan) else line >= tuning.WALKED_BYTES
        columns = (walked or not lie.abreast) and _lines_without_gaps(plan, strides, lie)
    return (
        columns and not lie.turned and enough and (_flag_a_line(plan, strides, lie) or not past_cache(plan))
    )


def _lines_without_gaps(plan: Plan, strides: tuple[Strides, ...], lie: Rows) -> bool:
    """Whether neighbours lie without a gap, but for flags that are one for a whole line."""
    reads, writes = lines_of(plan)
    assert lie.inner is not None
    if _flag_a_line(plan, strides, lie):
        flags = len(plan.loads)
        reads, strides = reads[:flags], strides[:flags] + strides[flags + 1 :]
    return side_by_side(strides, (*reads, *writes), lie.inner, False)


def _flag_a_line(plan: Plan, strides: tuple[Strides, ...], lie: Rows) -> bool:
    """Whether one flag of segments stands for a whole line of rows side by side."""
    return plan.segmented and lie.inner is not None and strides[len(plan.loads)][lie.inner] == 0


def launch_of(plan: Plan, arrays: Sequence[np.ndarray]) -> Launch:
    """The launch of a plan on arrays of these strides."""
    return _launch(plan, tuple([a.strides for a in arrays]))


@lru_cache(4096)
def _launch(plan: Plan, strides: tuple[Strides, ...]) -> Launch:
    rows = rows_of(plan, strides)
    inner, count = rows.inner, rows.side_by_side
    outer, sizes = [*rows.outer], [*rows.sizes]
    across = inner is not None
    if not across and outer:
        # Where the axis itself runs along memory, the longest dimension is walked side by side.
        longest = sizes.index(max(sizes))
        inner, count = outer.pop(longest), sizes.pop(longest)
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
    strip = _strip(count, others, wanted, tuning.STRIP if beside else tuning.STRIP_OF_ROWS)
    strips = -(-count // strip)
    words = [
        plan.n,
        count,
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
