"""A run like one before: what was checked, planned and prepared for that one serves again.

What is left depends on where the arrays lie: whether they overlap, and how far from a multiple of 16 they begin, for which each
way to begin has launches of its own. Where the package has its C part, that part launches (`_short_way_gpu.c`), unless marks of
segments are written first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from upsweep import short_way
from upsweep.engine import Again, Operands
from upsweep.gpu import driver
from upsweep.gpu.launch import Launch, launch_of, start, value_bytes
from upsweep.gpu.marks import Marks
from upsweep.gpu.step import Step
from upsweep.gpu.steps import steps
from upsweep.gpu.view import View
from upsweep.gpu.workspaces import NOWHERE, workspace
from upsweep.plan import Plan


def again(plan: Plan, views: Operands, given: Sequence[Any]) -> Again | None:
    """A function that runs this plan on arrays like these, and says whether it did. It does not where an array that is written
    overlaps another, unless item for item."""
    kind, device = views.outputs[0].kind, views.outputs[0].device
    if plan.n == 0 or 0 in plan.row_shape or kind is None or kind.likeness is None:
        return None
    marks = next((heads for heads in views.heads if isinstance(heads, Marks)), None)
    seen = [*views.inputs, *views.heads, *views.outputs, *views.starts]
    inputs, first = len(views.inputs), len(views.inputs) + len(views.heads)
    last = first + len(views.outputs)
    brought = any(x is not None and kind.pointer(x) != v.ptr for x, v in zip(given, seen))
    if brought or any(x is None and not v.on_host for x, v in zip(given[last:], views.starts)):
        # An array that has been brought elsewhere must be brought there in each call. Starts of NumPy's with another dtype than
        # the accumulator's are converted first, so they are not given.
        return None
    numbers = [k for k, v in enumerate(seen) if isinstance(v, View) and v.on_host]
    told = [(k, plan.loads[k]) for k in numbers if k < inputs]
    held = [(k, d if k in numbers else None) for k, d in zip(range(last, len(seen)), plan.accumulators)]
    pointers: list[Callable[[Any], int]] = [
        _nowhere if k in numbers else _of_view if x is None and not first <= k < last else kind.pointer
        for k, x in enumerate(given)
    ]
    pairs = [
        (k, w, *_reach(seen[k], seen[w]), not first <= k < last and seen[k].lie[1:] == seen[w].lie[1:])
        for w in range(first, last)
        for k in range(len(seen))
        # Marks are written down before any tile is.
        if k != w and given[w] is not None and given[k] is not None and seen[k] is not marks
    ]
    at_first = next(k for k, x in enumerate(given) if x is not None)
    itself = seen[at_first] is given[at_first]
    # This view keeps no memory alive.
    place = View(0, (), (), seen[at_first].dtype, device, kind, None)
    maker, marked = kind.likeness.ways["cuda"].maker, marks is not None
    write = marks.write if marks is not None and given[inputs] is not None else None
    bare = Operands(*[[_bare(v) for v in part] for part in views])
    ways: dict[tuple[int, ...], Way] = {}
    part = None if marked else short_way.part

    def learn(phases: tuple[int, ...], like: Any) -> Way:
        launches, heads = _launches(plan, bare, phases)
        bits = any(known.launch.bits for known in launches)
        room = heads + sum(v.nbytes(bits) for v in bare.heads if isinstance(v, Marks))
        make = maker(like, (room,), np.dtype(np.uint8)) if room else None
        if len(ways) >= _MOST:
            ways.clear()
        packed = (
            tuple([_packed(launch, told, held if numbers else []) for launch in launches])
            if part is not None
            else ()
        )
        ways[phases] = Way(launches, make, heads, bits, packed)
        return ways[phases]

    with driver.on_device(device):
        context = int(driver.primary_context(device))
        learn(tuple([0 if k in numbers else v.place[1] for k, v in enumerate(seen)]), given[at_first])

    if part is not None:
        return part.Launches(
            driver.entries(), context, at_first, tuple([None if k in numbers else p for k, p in enumerate(pointers)]),
            b"".join([_PAIR.pack(*pair) for pair in pairs]), ways, learn, kind.stream, None if itself else place,
            partial(workspace, device=device), driver.fail,
        )  # fmt: skip

    def run(arrays: tuple[Any, ...]) -> bool:
        if not driver.is_current(device):
            with driver.on_device(device):
                return run(arrays)
        if marked and write is None and arrays[inputs].values.device != device:
            return False
        at = [pointer(x) for pointer, x in zip(pointers, arrays)]
        for k, w, low, high, alike in pairs:
            apart = at[w] - at[k]
            if low < apart < high and not (alike and apart == 0):
                return False
        phases = tuple([address & 15 for address in at])
        launches, make, heads, bits, _ = ways.get(phases) or learn(phases, arrays[at_first])
        if make is not None:
            memory = make(arrays[at_first])
            at.append(kind.pointer(memory))
            if at[-1] & 15:
                return False
        # The last place is that of arrays that are not there.
        at.append(0)
        stream = kind.stream(arrays[at_first] if itself else place)
        if marked:
            values, at[inputs] = at[inputs], at[-2] + heads
            (write or arrays[inputs].write)(values, at[inputs], bits, plan.reverse, stream, device)
        for launch, slots, takes in launches:
            values = launch.values
            if numbers and takes:
                values = b"".join([bytes(16) if d is None else value_bytes(arrays[k], d) for k, d in held])
            if launch.told:
                values += b"".join([value_bytes(arrays[k], d) for k, d in told])
            start(launch, [at[k] + offset for k, offset in slots], values, stream, device)
        return True

    return run


class Known(NamedTuple):
    """A launch, the places of its arrays, as numbers of arrays and bytes from there, and whether it takes the initial values."""

    launch: Launch
    slots: list[tuple[int, int]]
    takes: bool


class Way(NamedTuple):
    """The launches of arrays that begin so far from multiples of 16, and what makes the room that they share."""

    launches: list[Known]
    make: Callable[[Any], Any] | None
    heads: int
    """The place of marks in this room, as bytes or as bits."""
    bits: bool
    packed: tuple[bytes, ...]
    """The launches as the C part takes them."""


_PAIR = struct.Struct("<5q")
_MOST = 64
"""Ways that are kept for one kind of call; one more, and all are forgotten."""
_NONE = -1
_FAR = 1 << 64


def _launches(plan: Plan, views: Operands, phases: Sequence[int]) -> tuple[list[Known], int]:
    """The launches of a plan on arrays that begin at these remainders by 16, and the bytes of the room in which one leaves what
    another takes: the array behind the others."""
    # In place of each array stands one at a multiple of _FAR: so the address of what a launch takes says of which array it is.
    seen = [*views.inputs, *views.heads, *views.outputs, *views.starts]
    moved = [_moved(v, k, phase) for k, (v, phase) in enumerate(zip(seen, phases))]
    inputs, first = len(views.inputs), len(views.inputs) + len(views.heads)
    last, room = first + len(views.outputs), 0
    heads, starts = moved[inputs] if views.heads else None, moved[last:] or None
    stored = iter(moved[first:last])
    ys = [None if d is None else next(stored) for d in plan.stores]
    like = views.outputs[0]

    def part(nbytes: int) -> View:
        nonlocal room
        at, room = room, room + -(-nbytes // 16) * 16
        return like.over(len(seen) * _FAR + at, (nbytes,), (1,), np.dtype(np.uint8))

    made = []
    for step in steps(Step(plan, moved[:inputs], ys, starts, heads), part):
        written = [y for y in step.ys if y is not None]
        launch = launch_of(step.plan, step.xs, written, step.initial or (), step.heads)
        arrays = [*step.xs, *written, step.heads, *(step.initial or [None] * len(step.plan.accumulators))]
        slots = [_slot(v, inputs, phases, offset) for v, offset in zip(arrays, launch.offsets, strict=True)]
        made.append(Known(launch, slots, step.initial is starts is not None))
    return made, room


def _packed(known: Known, told: Sequence[tuple[int, Any]], held: Sequence[tuple[int, Any]]) -> bytes:
    """A launch as the C part takes it: its words, where its arrays begin, its numbers, and its parameters but for these."""
    launch, slots, takes = known
    values = bytes(16 * len(held)) if held and takes else launch.values
    pointers = launch.packer.pack(*[0] * (len(NOWHERE) + len(slots)))
    places = [(k, len(pointers) + 16 * at, d) for at, (k, d) in enumerate(held) if takes and d is not None]
    if launch.told:
        begin = len(pointers) + len(values)
        places += [(k, begin + 16 * at, d) for at, (k, d) in enumerate(told)]
        values += bytes(16 * len(told))
    words = [
        int(launch.kernel), launch.grid, launch.block, launch.shared, launch.meets, launch.arrivals, launch.nodes,
        len(slots), len(places),
        *chain(*slots),
        *chain(*[(k, at, d.itemsize) for k, at, d in places]),
    ]  # fmt: skip
    return struct.pack(f"<{len(words)}q", *words) + pointers + values + launch.frozen


def _bare(v: Any) -> Any:
    """The same without its array: a call that is remembered keeps no memory alive."""
    if isinstance(v, Marks):
        return replace(v, values=_bare(v.values))
    return v if v.on_host else View(v.ptr, v.shape, v.strides, v.dtype, v.device, v.kind, None)


def _moved(v: Any, k: int, phase: int) -> Any:
    """A view of memory as array k, so far from a multiple of 16."""
    if isinstance(v, Marks) or v.on_host:
        return v
    return v.over(k * _FAR + phase, v.shape, v.strides, v.dtype)


def _slot(v: Any, inputs: int, phases: Sequence[int], offset: int) -> tuple[int, int]:
    """The number of the array that a moved view is of, and the bytes from its start to where a launch begins."""
    if isinstance(v, Marks):
        return inputs, offset
    if v is None or v.on_host:
        return _NONE, 0
    k = (v.ptr + _FAR // 2) // _FAR
    begin = k * _FAR + (phases[k] if k < len(phases) else 0)
    return k, v.ptr - begin + offset


def _nowhere(number: Any) -> int:
    return 0


def _of_view(view: View) -> int:
    return view.ptr


def _reach(x: View, y: View) -> tuple[int, int]:
    """Two arrays overlap where one begins more bytes after the other than the first of these and fewer than the second."""
    (x_low, x_high), (y_low, y_high) = [(a.extent()[0] - a.ptr, a.extent()[1] - a.ptr) for a in (x, y)]
    return x_low - y_high, x_high - y_low
