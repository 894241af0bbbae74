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
from upsweep.cpu import group_again, threads
from upsweep.cpu.arrange import arranged
from upsweep.cpu.array_loops import unit
from upsweep.cpu.code import Unit, address, callable_at
from upsweep.cpu.objects import DATA, ITEMS, READABLE
from upsweep.cpu.units import entry
from upsweep.cpu.words import Entry, Made, Operand
from upsweep.engine import Again, Operands
from upsweep.host import flags_of, place, shifted, without_ahead
from upsweep.plan import Plan
from upsweep.segments import LISTS, Segments

MADE_ITEMS = 1 << 16
"""Items of which at most compiled code makes the flags, in the scratch memory of a thread, which stays."""
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
    lies over another, where segments do not fit, nor where the operator raises an exception. None where a plan is more than one
    thread's work.
    """
    if plan.n == 0 or plan.rows == 0 or not READABLE:
        return None
    if plan.ahead is not None:
        return _again_ahead(plan, views, given)
    told = next((x for x in given if isinstance(x, Segments)), None)
    if told is not None and not _makes(told, plan):
        return None
    groups = told is not None and told.spelling == "groups"
    if groups:
        views = views._replace(heads=[np.empty(plan.n, np.int32)])
    seen = [*views.inputs, *views.heads, *views.outputs, *views.starts]
    # An array whose view lies elsewhere is copied first.
    if any(isinstance(x, np.ndarray) and x.ctypes.data != v.ctypes.data for x, v in zip(given, seen)):
        return None
    one = groups and group_again.chooses(plan, views)
    if groups:
        launch, arrays = group_again.launch_of(plan, views, one)
    else:
        heads = views.heads[0] if views.heads else None
        _, launch, arrays = arranged(plan, views.inputs, views.outputs, views.starts or None, heads)
    if launch.threads > 1 or launch.sync_words:
        return None
    first = len(views.inputs) + len(views.heads)
    last = first + len(views.outputs)
    bounds = [np.lib.array_utils.byte_bounds(v) for v in seen]
    bases = [v.ctypes.data for v in seen]
    turned = bool(views.heads) and _by(plan) != 0
    # Flags that are turned or made lie elsewhere.
    if turned or told is not None:
        bounds[first - 1] = np.lib.array_utils.byte_bounds(arrays[first - 1])
        bases[first - 1] = bounds[first - 1][0]
    places = np.arange(len(launch.words))[launch.addresses]
    operands = np.zeros((len(seen), len(Operand)), np.int64)
    for k, (operand, base, (low, high)) in enumerate(zip(operands, bases, bounds)):
        operand[Operand.AT], operand[Operand.FROM] = 8 * places[k], arrays[k].ctypes.data - base
        operand[Operand.LOW], operand[Operand.HIGH] = low - base, high - base
        if not first <= k < last:
            alike = [place(seen[k])[1:] == place(y)[1:] for y in views.outputs]
            operand[Operand.ALIKE] = sum(bit << w for w, bit in enumerate(alike))
    words, starts = launch.words.copy(), arrays[len(seen) :]
    words[places[len(seen) :]] = [s.ctypes.data for s in starts]
    head = np.zeros(len(Entry), np.int64)
    for word, value in {
        Entry.BYTES: words.nbytes, Entry.RUN: launch.address, Entry.WORDS_AT: launch.scratch, Entry.ITEMS: ITEMS,
        Entry.DATA: DATA, Entry.OPERANDS: len(seen), Entry.FIRST: first, Entry.LAST: last,
    }.items():  # fmt: skip
        head[word] = value
    make = [] if told is None else _making(told, plan, head)
    table = np.concatenate([head, operands.ravel(), words, np.array(make, np.int64)])
    made = make[Made.ITEMS] * make[Made.BYTES] if make else 0
    scratch, keep = launch.scratch + words.nbytes + 8 * len(make) + made, (table, starts)
    if short_way.part is None:
        run = _launched(address(entry()), table.ctypes.data, scratch, launch.results, keep)
    else:
        large = sum(v.nbytes for v in seen) >= LARGE
        listed = told is not None and told.spelling in LISTS
        run = short_way.part.Launch(address(entry()), table.ctypes.data, scratch, large, listed, keep)

    def run_turned(arrays: tuple[np.ndarray, ...]) -> bool:
        return run((*arrays[: first - 1], flags_of(plan, arrays[first - 1]), *arrays[first:]))

    def run_chosen(arrays: tuple[np.ndarray, ...]) -> bool:
        return group_again.chosen(plan, arrays[: first - 1], arrays[last:]) and run(arrays)

    return run_turned if turned and told is None else run_chosen if one else run


def _makes(told: Segments, plan: Plan) -> bool:
    """Whether compiled code makes flags of segments like these; some are flags that are read as they lie."""
    if told.spelling == "groups":
        return (
            group_again.is_small(plan)
            and told.values[0].dtype.kind in "biumM"
            and told.values[0].dtype.isnative
        )
    values, kinds = told.values, {"keys": "iuf", "flags": "biu", "ends": "biu"}.get(told.spelling, "i")
    if values.ndim > 1 or plan.n > MADE_ITEMS or not values.dtype.isnative or values.dtype.kind not in kinds:
        return False
    if told.spelling in ("flags", "ends"):
        return values.dtype.itemsize > 1 or _by(plan) != 0
    return values.dtype.kind != "f" or values.dtype.itemsize in (4, 8)


def _by(plan: Plan) -> int:
    """How many places from where a segment was told to start its flag stands."""
    return 0 if plan.reverse == plan.ends else 1 if plan.ends else -1


def making(spelling: str, dtype: np.dtype) -> Unit:
    """The code that makes flags of segments that are told so, or codes of groups."""
    loop = "flags" if spelling == "ends" else spelling
    made = np.dtype("i4" if spelling == "groups" else "u1")
    return unit(
        "told", loop, ((np.dtype("i8") if dtype.kind in "mM" else dtype, 1, False), (made, 1, True), None)
    )


def _making(told: Segments, plan: Plan, head: np.ndarray) -> list[int]:
    """The words of the loop that makes flags or codes, whose address goes into the head of the table."""
    groups = told.spelling == "groups"
    loop = making(told.spelling, (told.values[0] if groups else told.values).dtype)
    words = [0] * len(Made)
    words[Made.ITEMS], words[Made.BYTES], words[Made.BY] = plan.n, 1, _by(plan)
    if groups:
        words[Made.ITEMS], words[Made.BYTES], words[Made.BY] = group_again.items_of_codes(plan.n), 4, plan.n
    head[Entry.MAKE], head[Entry.MADE] = address(loop), head[Entry.BYTES]
    head[Entry.BYTES] += 8 * len(words)
    return words


def _launched(where: int, table: int, scratch: int, results: int, keep: Any) -> Again:
    """The function that runs the launch behind a table, whose memory is in `keep`."""
    call, own = callable_at(where, 3), threads.scratch

    def run(arrays: tuple[np.ndarray, ...]) -> bool:
        memory = own(scratch)
        return not call(memory + results, memory + results + 8, table, memory, id(arrays))

    run.keep = keep  # type: ignore[attr-defined]
    return run
