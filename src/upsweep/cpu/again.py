"""Runs of one thread like one before: all that was checked, planned and prepared for the earlier run serves again.

A thousand items are scanned in a microsecond, and the checks and the launch from Python take ten; of a map of seven arrays and
numbers they take 200, as long as its scan of 100,000 items. They hang on dtypes, shapes and strides alone, but for where the
arrays lie; that is left to compiled code (`entry`), which reads it from the array objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from upsweep import short_way
from upsweep.cpu import threads
from upsweep.cpu.arrange import arranged
from upsweep.cpu.code import address, callable_at
from upsweep.cpu.objects import DATA, ITEMS, READABLE
from upsweep.cpu.units import entry
from upsweep.cpu.words import Entry, Operand
from upsweep.engine import Again, Operands
from upsweep.host import flags_of, place, shifted, without_ahead
from upsweep.plan import Plan

LARGE = 1 << 15
"""Bytes of arrays from which on the C part lets other threads run meanwhile, which takes .06 us. The scan of as many takes a
microsecond."""


def _again_ahead(plan: Plan, views: Operands, given: Sequence[Any]) -> Again | None:
    """The function that `again` gives, for a plan without segments whose component is read ahead: that component is moved in each
    call.
    """
    count, last = len(views.inputs), len(views.inputs) + len(views.outputs)
    xs = shifted(plan, views.inputs, views.starts)
    known = again(without_ahead(plan), Operands(xs, [], views.outputs, []), [*xs, *given[count:last]])
    if known is None:
        return None

    dtypes = [x.dtype for x in views.inputs]

    def run(arrays: tuple[np.ndarray, ...]) -> bool:
        # A reader may show the bits of a dtype that NumPy lacks, and what moves is converted by NumPy.
        read = [x.view(dtype) for x, dtype in zip(arrays[:count], dtypes)]
        return known((*shifted(plan, read, arrays[last:]), *arrays[count:last]))

    return run


def again(plan: Plan, views: Operands, given: Sequence[Any]) -> Again | None:
    """The function that runs this plan on arrays like these, and says whether it did. It does not where an array that is written
    lies over another, nor where the operator raises an exception. None where a plan is more than one thread's work.
    """
    if plan.n == 0 or plan.rows == 0 or not READABLE:
        return None
    if plan.ahead is not None:
        return _again_ahead(plan, views, given)
    seen = [*views.inputs, *views.heads, *views.outputs, *views.starts]
    # An array whose view lies elsewhere is copied first.
    if any(x is not None and x.ctypes.data != v.ctypes.data for x, v in zip(given, seen)):
        return None
    heads = views.heads[0] if views.heads else None
    _, launch, arrays = arranged(plan, views.inputs, views.outputs, views.starts or None, heads)
    if launch.threads > 1 or launch.sync_words:
        return None
    first = len(views.inputs) + len(views.heads)
    last = first + len(views.outputs)
    bounds = [np.lib.array_utils.byte_bounds(v) for v in seen]
    bases = [v.ctypes.data for v in seen]
    turned = bool(views.heads) and plan.reverse != plan.ends
    # Turned flags are a copy.
    if turned:
        bounds[first - 1] = np.lib.array_utils.byte_bounds(arrays[first - 1])
        bases[first - 1] = bounds[first - 1][0]
    places = [8 * at for at in range(launch.addresses.start, launch.addresses.stop, launch.addresses.step)]
    operands = np.zeros((len(seen), len(Operand)), np.int64)
    for k, (operand, base, (low, high)) in enumerate(zip(operands, bases, bounds)):
        operand[Operand.AT], operand[Operand.FROM] = places[k], arrays[k].ctypes.data - base
        operand[Operand.LOW], operand[Operand.HIGH] = low - base, high - base
        if not first <= k < last:
            alike = [place(seen[k])[1:] == place(y)[1:] for y in views.outputs]
            operand[Operand.ALIKE] = sum(bit << w for w, bit in enumerate(alike))
    words, starts = launch.words.copy(), arrays[len(seen) :]
    words[launch.addresses][len(seen) :] = [s.ctypes.data for s in starts]
    head = np.zeros(len(Entry), np.int64)
    for word, value in {
        Entry.BYTES: words.nbytes, Entry.RUN: launch.address, Entry.WORDS_AT: launch.scratch, Entry.ITEMS: ITEMS,
        Entry.DATA: DATA, Entry.OPERANDS: len(seen), Entry.FIRST: first, Entry.LAST: last,
    }.items():  # fmt: skip
        head[word] = value
    table = np.concatenate([head, operands.ravel(), words])
    scratch, keep = launch.scratch + words.nbytes, (table, starts)
    if short_way.part is None:
        run = _launched(address(entry()), table.ctypes.data, scratch, launch.results, keep)
    else:
        large = sum(v.nbytes for v in seen) >= LARGE
        run = short_way.part.Launch(address(entry()), table.ctypes.data, scratch, large, keep)

    def run_turned(arrays: tuple[np.ndarray, ...]) -> bool:
        return run((*arrays[: first - 1], flags_of(plan, arrays[first - 1]), *arrays[first:]))

    return run_turned if turned else run


def _launched(where: int, table: int, scratch: int, results: int, keep: Any) -> Again:
    """The function that runs the launch behind a table, whose memory is in `keep`."""
    call, own = callable_at(where, 3), threads.scratch

    def run(arrays: tuple[np.ndarray, ...]) -> bool:
        memory = own(scratch)
        return not call(memory + results, memory + results + 8, table, memory, id(arrays))

    run.keep = keep  # type: ignore[attr-defined]
    return run
