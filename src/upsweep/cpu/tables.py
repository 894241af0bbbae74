"""The tables of a launch: the words of its components, outputs, inputs and folded arrays, with their places in scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from upsweep.cpu.code import address
from upsweep.cpu.cuts import Cut
from upsweep.cpu.demands import passes_short, past_cache
from upsweep.cpu.rows import Rows, Strides, backward, lanes_abreast, lanes_of, side_by_side
from upsweep.cpu.units import bring as bring_unit
from upsweep.cpu.units import hand as hand_unit
from upsweep.cpu.units import restart, stream, turn_in, turn_out
from upsweep.cpu.words import (
    FOLD_WORDS,
    LEVELS,
    LINE,
    LINE_WORDS,
    PANELS,
    PART_WORDS,
    ROW,
    SINK_WORDS,
    WHOLE,
    Fold,
    Line,
    Part,
    Sink,
)
from upsweep.plan import Plan


class Scratch:
    """Scratch memory, one region after the other, each on cache lines of its own."""

    size = 0

    def take(self, size: int) -> int:
        start, self.size = self.size, self.size + -(-size // LINE) * LINE + LINE
        return start


class Facts(NamedTuple):
    """All that the words of a launch are made of."""

    plan: Plan
    cuts: Cut
    lie: Rows
    strides: tuple[Strides, ...]
    """Of inputs, flags, outputs and starts; of folded arrays those that they have while they are near."""
    reads: tuple[np.dtype, ...]
    """The dtypes of inputs and flags."""
    sums: tuple[np.dtype, ...]
    """The dtypes of a block sum: of its components and its flag."""
    writes: list[tuple[int, np.dtype]]
    """The component and the dtype of each output."""
    side: int
    """The dimension in which the lanes of a chunk are neighbours; along a row, that of its items."""
    beside: int
    """The dimension in which the items of a line are neighbours."""
    lanes: int
    pitch: int
    """Items from row to row of a panel."""
    room: int
    """The items of a chunk that scratch memory has room for."""
    backward: bool
    """Whether the items of rows that lie turned stand from the last to the first."""
    past: bool
    """Whether prefixes are written past the cache from where they are made."""


def facts_of(plan: Plan, cuts: Cut, strides: tuple[Strides, ...]) -> Facts:
    flag = (np.dtype(np.uint8),) if plan.segmented else ()
    sums, lie = (*plan.accumulators, *flag), cuts.rows
    lanes = lanes_abreast(plan, lie.side_by_side) if lie.abreast else lanes_of(plan, cuts.along)
    side = plan.axis if cuts.along or lie.inner is None else lie.inner
    pitch = -(-cuts.width // 32) * 32 + LINE // min(d.itemsize for d in sums)
    room = cuts.chunk + ROW * lanes if cuts.along else ROW * (pitch + 32)
    if lie.abreast:
        room = max(room, 2 * (cuts.chunk * lie.side_by_side + 4 * LINE))
    return Facts(
        plan,
        cuts,
        lie,
        strides,
        (*plan.loads, *flag),
        sums,
        [(c, dtype) for c, dtype in enumerate(plan.stores) if dtype is not None],
        side,
        plan.axis if lie.turned else side,
        lanes,
        pitch,
        room,
        lie.turned and backward(plan, strides),
        past_cache(plan) and not (lie.turned or cuts.staged or lie.folded),
    )


def flat(facts: Facts) -> tuple[bool, ...]:
    """Of each input, whether one item stands for a whole line."""
    axis, side, all_one = facts.plan.axis, facts.side, facts.lie.turned or facts.lie.abreast
    inputs = facts.strides[: len(facts.plan.loads)]
    return tuple(array[side] == 0 and (not all_one or array[axis] == 0) for array in inputs)


def parts_of(facts: Facts, scratch: Scratch) -> np.ndarray:
    """The words of the components of a block sum."""
    plan, cuts = facts.plan, facts.cuts
    stored = facts.reads if plan.map is None else facts.sums
    whole = plan.reduce or plan.finish is not None
    wanted = range(len(facts.sums)) if whole else {c for c, _ in facts.writes}
    parts = np.zeros((len(facts.sums), PART_WORDS), np.int64)
    for c, (part, there, computed) in enumerate(zip(parts, stored, facts.sums)):
        size = computed.itemsize
        part[Part.SIZE], part[Part.BLOCK], part[Part.WANTED] = size, WHOLE // size, c in wanted
        part[Part.COME] = part[Part.BRING] = address(bring_unit(there, computed))
        near = computed if cuts.staged else there
        if near != there:
            part[Part.BRING] = address(bring_unit(near, computed))
        part[Part.TURN_IN], part[Part.TURN_OUT] = address(turn_in(size)), address(turn_out(size))
        if plan.segmented and plan.exclusive:
            part[Part.RESTART] = address(restart(size))
        # Few columns that have gaps between them, or come through a map, cannot be swept where they lie.
        dense = not facts.lie.abreast or (plan.map is None and facts.strides[c][facts.side] == size)
        part[Part.PLAIN] = near == computed and dense
        part[Part.SINK] = next((o for o, (of, _) in enumerate(facts.writes) if of == c), -1)
        _place(part, size, facts, scratch)
    return parts


def _place(part: np.ndarray, size: int, facts: Facts, scratch: Scratch) -> None:
    """Give a component its regions of scratch memory."""
    cuts, lie, lanes = facts.cuts, facts.lie, facts.lanes
    part[Part.SPARE] = scratch.take(size * facts.room)
    part[Part.STACK] = scratch.take(size * LEVELS * cuts.width)
    part[Part.FOLDS] = scratch.take(size * LEVELS * cuts.width)
    for region in (Part.TOTAL, Part.START, Part.BASE, Part.BEFORE, Part.END, Part.TAIL):
        part[region] = scratch.take(size * cuts.width)
    part[Part.HEAD] = scratch.take(size * ROW)
    line = size * (facts.plan.n if lie.turned else lie.side_by_side)
    # Lines may have gaps, and the last 16 items of a row are read as a whole.
    part[Part.STAGE] = scratch.take(cuts.staged * (line + LINE) + size * ROW)
    if cuts.along:
        # An item stands before the others, and the last items are padded.
        for level in range(1, PANELS):
            sums = (cuts.chunk >> 4 * level) + ROW * lanes
            part[Part.PANEL + level] = LINE + scratch.take(LINE + size * sums)
        return
    part[Part.PANEL] = scratch.take(size * (ROW + 1) * facts.pitch)


def lines_of_map(facts: Facts, scratch: Scratch) -> np.ndarray:
    """The words of a map's inputs."""
    inputs = () if facts.plan.map is None else facts.plan.loads
    lines = np.zeros((len(inputs), LINE_WORDS), np.int64)
    for line, stored, constant in zip(lines, inputs, flat(facts)):
        line[Line.SIZE], line[Line.FLAT] = stored.itemsize, constant
        line[Line.BRING] = address(bring_unit(stored, stored))
        line[Line.SPARE] = scratch.take(stored.itemsize * facts.room)
        line[Line.AT] = scratch.take(16)
    return lines


def sinks_of(facts: Facts, scratch: Scratch) -> np.ndarray:
    """The words of the outputs."""
    plan, cuts = facts.plan, facts.cuts
    along, finish = cuts.along, plan.finish is not None
    restarts = along and plan.segmented and plan.exclusive
    sinks = np.zeros((len(facts.writes), SINK_WORDS), np.int64)
    for sink, (c, there), array in zip(sinks, facts.writes, facts.strides[len(facts.reads) :]):
        given = there if finish else facts.sums[c]
        whole = array[facts.beside] == (-there.itemsize if facts.backward else there.itemsize)
        out = past_cache(plan) and there == given and whole
        sink[Sink.GO] = address(stream(there.itemsize) if out else hand_unit(given, there))
        near = given if cuts.staged and not plan.reduce else there
        size, same = near.itemsize, near == given
        streamed = facts.past and not cuts.straight and same and array[facts.side] == size
        sink[Sink.COMPONENT], sink[Sink.SIZE] = c, size
        sink[Sink.HAND] = address(stream(size) if streamed else hand_unit(given, near))
        sink[Sink.PLAIN] = same and not ((streamed and finish) or restarts or (along and plan.reduce))
        sink[Sink.SPARE] = scratch.take(size * facts.room if finish else 0)
    return sinks


def direct(facts: Facts, parts: np.ndarray) -> bool:
    """Whether rows side by side are swept where they lie, from array to array."""
    plan, cuts = facts.plan, facts.cuts
    if cuts.along or facts.lie.inner is None or (plan.segmented and plan.exclusive and not cuts.staged):
        return False
    if plan.map is not None or plan.finish is not None or not parts[:, Part.PLAIN].all():
        return False
    written = () if plan.reduce else tuple(d for _, d in facts.writes)
    near = side_by_side(facts.strides, (*facts.reads, *written), facts.beside, facts.lie.turned)
    same = plan.reduce or all(stored == facts.sums[c] for c, stored in facts.writes)
    return bool(cuts.staged or (near and same))


def short(facts: Facts) -> bool:
    """Whether the last rows of columns that are swept where they lie have code of their own."""
    return not (facts.lie.turned or facts.lie.abreast) and passes_short(facts.plan)


def through_cache(facts: Facts) -> bool:
    """Whether results of narrow columns stay in the cache for a chunk, and are then handed out: those past the cache, and lines
    that are shorter than a group, as the code stores whole groups.
    """
    return facts.past or facts.lie.side_by_side < facts.lanes


def folds_of(facts: Facts, scratch: Scratch) -> np.ndarray:
    """The words of arrays whose columns are folded, inputs and outputs."""
    plan, width = facts.plan, facts.cuts.width
    dtypes = (*facts.reads, *[d for _, d in facts.writes])
    folds = np.zeros((len(dtypes) if facts.lie.folded else 0, FOLD_WORDS), np.int64)
    large = len(folds) and past_cache(plan)
    stretch = scratch.take(width * plan.n * max(d.itemsize for d in dtypes)) if large else 0
    for a, (fold, dtype) in enumerate(zip(folds, dtypes)):
        size, comes = dtype.itemsize, a < len(facts.reads)
        lines = plan.n if comes or not plan.reduce else 1
        fold[Fold.SIZE], fold[Fold.BLOCK] = size, WHOLE // size
        fold[Fold.LINES], fold[Fold.NEAR] = lines, scratch.take(size * width * lines)
        fold[Fold.TURN] = address(turn_in(size) if comes else turn_out(size))
        fold[Fold.LINE] = address((bring_unit if comes else hand_unit)(dtype, dtype))
        if large:
            fold[Fold.MOVE] = address(bring_unit(dtype, dtype) if comes else stream(size))
            fold[Fold.STRETCH] = stretch
    return folds


def while_near(facts: Facts) -> Facts:
    """The facts with the strides that folded arrays have while they are near."""
    if not facts.lie.folded:
        return facts
    dtypes: Sequence[np.dtype] = (*facts.reads, *[d for _, d in facts.writes])
    strides = []
    for array, dtype in zip(facts.strides, dtypes):
        near = {facts.lie.inner: dtype.itemsize, facts.plan.axis: facts.cuts.width * dtype.itemsize}
        strides.append(tuple(near.get(d, stride) for d, stride in enumerate(array)))
    return facts._replace(strides=tuple(strides))
