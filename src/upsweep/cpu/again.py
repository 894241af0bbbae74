"""Small scans like one before: what was checked, planned and prepared for that one serves again.

A thousand items are scanned in a microsecond, and the checks and the launch from Python took ten. They hang on dtypes, shapes
and strides alone, but for where the arrays lie; that is left to compiled code (`entry`), which reads it from the array objects.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from upsweep.cpu import threads
from upsweep.cpu.code import address, callable_at
from upsweep.cpu.launch import launch_of, starts_of, turned_round
from upsweep.cpu.pieces import entry
from upsweep.cpu.words import Entry
from upsweep.plan import Plan

_DATA = object.__basicsize__
_probe = np.zeros(1)
_readable = ctypes.c_int64.from_address(id(_probe) + _DATA).value == _probe.ctypes.data
"""Whether an array object holds the address of its memory first of all, as NumPy's C headers promise to every extension."""


def again(plan: Plan, x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray, np.ndarray], bool] | None:
    """What runs this plan on arrays like x and y, and says whether it did: not where they overlap, nor where the operator
    raises an exception. None where a plan is more than one thread's work on one array."""
    if plan.n == 0 or plan.rows == 0 or plan.order != "tree" or not _readable:
        return None
    starts = starts_of(plan, None)
    launch = launch_of(plan, [turned_round(plan, x), turned_round(plan, y), *starts])
    if launch.threads > 1 or launch.sync_words:
        return None
    table = np.zeros(len(Entry) + launch.words.size, np.int64)
    at = 8 * launch.addresses.start, 8 * (launch.addresses.start + launch.addresses.step)
    same = x.dtype == y.dtype and x.strides == y.strides
    ends = np.lib.array_utils.byte_bounds(x), np.lib.array_utils.byte_bounds(y)
    for word, value in {
        Entry.BYTES: launch.words.nbytes, Entry.RUN: launch.address, Entry.WORDS_AT: launch.scratch, Entry.DATA: _DATA,
        Entry.X_AT: at[0], Entry.X_FROM: turned_round(plan, x).ctypes.data - x.ctypes.data,
        Entry.X_FIRST: ends[0][0] - x.ctypes.data, Entry.X_END: ends[0][1] - x.ctypes.data,
        Entry.Y_AT: at[1], Entry.Y_FROM: turned_round(plan, y).ctypes.data - y.ctypes.data,
        Entry.Y_FIRST: ends[1][0] - y.ctypes.data, Entry.Y_END: ends[1][1] - y.ctypes.data, Entry.ALIKE: same,
    }.items():  # fmt: skip
        table[word] = value
    table[len(Entry) :] = launch.words
    table[len(Entry) :][launch.addresses][2:] = [s.ctypes.data for s in starts]
    call, here = callable_at(address(entry()), 4), table.ctypes.data
    scratch, own, results = launch.scratch + launch.words.nbytes, threads.scratch, launch.results

    def run(x: np.ndarray, y: np.ndarray) -> bool:
        memory = own(scratch)
        return not call(memory + results, memory + results + 8, here, memory, id(x), id(y))

    run.keep = table, starts  # type: ignore[attr-defined]  # their addresses are all that `run` has of them
    return run
