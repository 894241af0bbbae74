"""A run like one before: what was checked, planned and prepared for that one serves again.

What is left depends on where the arrays lie: whether they overlap, and how far from a multiple of 16 they begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from upsweep.engine import Again, Operands
from upsweep.gpu import driver, reduction
from upsweep.gpu.launch import launch_of, start, value_bytes
from upsweep.gpu.marks import Marks
from upsweep.gpu.view import View
from upsweep.plan import Plan


def again(plan: Plan, views: Operands, given: Sequence[Any]) -> Again | None:
    """What runs this plan on arrays like these, and says whether it did: not where one that is written overlaps another, unless
    item for item, nor where their alignment is another. None where a plan is more than one launch."""
    kind, device = views.outputs[0].kind, views.outputs[0].device
    if plan.n == 0 or 0 in plan.row_shape or kind is None or reduction.divided(plan, views.inputs):
        return None
    marks = next((heads for heads in views.heads if isinstance(heads, Marks)), None)
    with driver.on_device(device):
        launch = launch_of(plan, views.inputs, views.outputs, views.starts, *(views.heads or [None]))
    seen = [*views.inputs, *views.heads, *views.outputs, *views.starts]
    inputs, first = len(views.inputs), len(views.inputs) + len(views.heads)
    last = first + len(views.outputs)
    if any(x is not None and kind.pointer(x) != v.ptr for x, v in zip(given, seen)):
        # An array that has been brought elsewhere must be brought there in each call.
        return None
    numbers = [k for k, v in enumerate(seen) if isinstance(v, View) and v.on_host]
    told = [(k, plan.loads[k]) for k in numbers if k < inputs]
    held = [(k, d if k in numbers else None) for k, d in zip(range(last, len(seen)), plan.accumulators)]
    pointers: list[Callable[[Any], int]] = [
        _nowhere if k in numbers else _of_view if x is None and not first <= k < last else kind.pointer
        for k, x in enumerate(given)
    ]
    phases = [0 if k in numbers else v.place[1] for k, v in enumerate(seen)]
    pairs = [
        (k, w, *_reach(seen[k], seen[w]), not first <= k < last and seen[k].lie[1:] == seen[w].lie[1:])
        for w in range(first, last)
        for k in range(len(seen))
        if k != w and given[w] is not None and given[k] is not None
    ]
    heads = [inputs] if views.heads else [_NONE]
    order = [*range(inputs), *range(first, last), *heads, *range(last, len(seen))]
    order += [_NONE] * (len(launch.offsets) - len(order))
    slots = [(k, 0 if k == _NONE else offset) for k, offset in zip(order, launch.offsets)]
    at_first = next(k for k, x in enumerate(given) if x is not None)
    itself = seen[at_first] is given[at_first]
    # This view keeps no memory alive.
    place = View(0, (), (), seen[at_first].dtype, device, kind, None)

    def run(arrays: tuple[Any, ...]) -> bool:
        at = [pointer(x) for pointer, x in zip(pointers, arrays)]
        if [a & 15 for a in at] != phases:
            return False
        for k, w, low, high, alike in pairs:
            apart = at[w] - at[k]
            if low < apart < high and not (alike and apart == 0):
                return False
        values = launch.values
        if numbers:
            if held:
                values = b"".join([bytes(16) if d is None else value_bytes(arrays[k], d) for k, d in held])
            values += b"".join([value_bytes(arrays[k], d) for k, d in told])
        # The last place is that of arrays that are not there.
        at.append(0)
        where = [at[k] + offset for k, offset in slots]
        stream = kind.stream(arrays[at_first] if itself else place)
        if driver.is_current(device):
            start(launch, where, values, stream, device)
        else:
            with driver.on_device(device):
                start(launch, where, values, stream, device)
        return True

    if marks is None:
        return run

    def run_marked(arrays: tuple[Any, ...]) -> bool:
        heads = arrays[inputs].bits() if launch.bits else arrays[inputs].flags()
        return run((*arrays[:inputs], heads, *arrays[first:]))

    return run_marked


_NONE = -1


def _nowhere(number: Any) -> int:
    return 0


def _of_view(view: View) -> int:
    return view.ptr


def _reach(x: View, y: View) -> tuple[int, int]:
    """Two arrays overlap where one begins more bytes after the other than the first of these and fewer than the second."""
    (x_low, x_high), (y_low, y_high) = [(a.extent()[0] - a.ptr, a.extent()[1] - a.ptr) for a in (x, y)]
    return x_low - y_high, x_high - y_low
