"""From a plan and the arrays' layout to the words of a launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from upsweep.cpu import tuning
from upsweep.cpu.code import address, callable_at
from upsweep.cpu.cuts import cut, nodes_of, passes_short, past_cache
from upsweep.cpu.rows import Rows, Strides, lanes_of
from upsweep.cpu.units import bring as bring_unit
from upsweep.cpu.units import (
    extremes,
    finishing,
    kernel,
    mapping,
    runs,
    short_passes,
    steps,
    straight,
    stream,
    sweep,
    turn_in,
    turn_out,
)
from upsweep.cpu.units import hand as hand_unit
from upsweep.cpu.words import (
    ARRAY_WORDS,
    FOLD_WORDS,
    FRAME_WORDS,
    LEVELS,
    LINE,
    LINE_WORDS,
    PANELS,
    PART_WORDS,
    ROW,
    SINK_WORDS,
    WHOLE,
    WORDS,
    Fold,
    Line,
    Part,
    Sink,
    Word,
)
from upsweep.dtypes import accumulator
from upsweep.function import Function
from upsweep.operator import identity_of
from upsweep.plan import Plan


class Launch(NamedTuple):
    """Everything about a call but the addresses of its arrays."""

    run: Callable[..., int]
    # The same function for compiled code.
    address: int
    words: np.ndarray
    # The words that take the arrays' addresses.
    addresses: slice
    threads: int
    # Bytes that each thread brings.
    scratch: int
    # The place in these bytes where a call leaves its result and an exception.
    results: int
    sync_words: int = 0
    node_bytes: tuple[int, ...] = ()


def launch_of(plan: Plan, arrays: Sequence[np.ndarray]) -> Launch:
    """The launch of a plan on arrays of these strides."""
    return _launch(plan, tuple([a.strides for a in arrays]), tuning.ROWS, tuning.COLUMNS)


@lru_cache(4096)
def with_map(plan: Plan) -> Plan:
    """A plan whose finish sees the items: they are read as the items of a map are."""
    if plan.map is not None or plan.finish is None or plan.finish.arity == 1:
        return plan
    seen = tuple(map(accumulator, plan.loads))
    return replace(plan, map=Function(_itself if len(seen) == 1 else _all, len(seen), seen))


def _itself(x):
    return x


def _all(*xs):
    return xs


def turned_round(plan: Plan, x: np.ndarray) -> np.ndarray:
    """An array in the order that its items are scanned in."""
    return np.flip(x, plan.axis) if plan.reverse else x


def starts_of(plan: Plan, initial: Sequence[np.ndarray] | None) -> list[np.ndarray]:
    """The starts of rows and segments, one value a row; without `initial`, an exclusive scan starts from the identity."""
    if initial is None and plan.exclusive:
        initial = [np.asarray(part) for part in identity_of(plan.op, plan.accumulators) or ()]
    return [np.expand_dims(np.broadcast_to(s, plan.row_shape), plan.axis) for s in initial or ()]


@lru_cache(4096)
def _launch(plan: Plan, strides: tuple[Strides, ...], rows: tuning.Tuning, columns: tuning.Tuning) -> Launch:
    flag = (np.dtype(np.uint8),) if plan.segmented else ()
    in_types, sums = (*plan.loads, *flag), (*plan.accumulators, *flag)
    out_types = [(c, d) for c, d in enumerate(plan.stores) if d is not None]
    cuts = cut(plan, strides, rows, columns)
    lie, along, through, width, chunk = cuts.rows, cuts.along, cuts.straight, cuts.width, cuts.chunk
    words = np.zeros(WORDS, np.int64)
    scratch = _Scratch()
    lanes = lanes_of(plan, along)
    side = plan.axis if along or lie.inner is None else lie.inner
    group = ROW * lanes
    pitch = -(-width // 32) * 32 + LINE // min(d.itemsize for d in sums)
    parts = np.zeros((len(sums), PART_WORDS), np.int64)
    scratch.take(8 * FRAME_WORDS)
    results = scratch.take(16)
    homes, out_dtypes = strides, [d for _, d in out_types]
    folds = _folds(plan, lie, width, (*in_types, *out_dtypes), scratch)
    if len(folds):
        strides = tuple(_folded(plan, lie, width, *array) for array in zip(strides, (*in_types, *out_dtypes)))
    words[Word.PLACES] = scratch.take(48 * (len(in_types) + len(out_types)) + 24 * len(plan.accumulators))
    room = chunk + group if along else ROW * (pitch + 32)
    if lie.abreast:
        room = max(room, 2 * (chunk * lie.side_by_side + 4 * LINE))
    words[Word.FLAGS] = scratch.take(room if plan.segmented else 0)
    wanted = range(len(parts)) if plan.reduce or plan.finish is not None else {c for c, _ in out_types}
    for c, (part, stored, computed) in enumerate(zip(parts, in_types if plan.map is None else sums, sums)):
        size = computed.itemsize
        part[Part.SIZE] = size
        part[Part.COME] = address(bring_unit(stored, computed))
        if cuts.staged:
            stored = computed
        part[Part.BRING] = address(bring_unit(stored, computed))
        part[Part.TURN_IN], part[Part.TURN_OUT] = address(turn_in(size)), address(turn_out(size))
        # Few columns with gaps between them cannot be swept where they lie.
        part[Part.PLAIN] = stored == computed and (not lie.abreast or strides[c][side] == size)
        part[Part.BLOCK] = WHOLE // size
        part[Part.SPARE] = scratch.take(size * room)
        part[Part.STACK] = scratch.take(size * LEVELS * width)
        part[Part.FOLDS] = scratch.take(size * LEVELS * width)
        for region in (Part.TOTAL, Part.START, Part.BASE, Part.BEFORE, Part.END, Part.TAIL):
            part[region] = scratch.take(size * width)
        part[Part.HEAD] = scratch.take(size * ROW)
        part[Part.WANTED] = c in wanted
        near = size * cuts.staged * (plan.n if lie.turned else lie.side_by_side)
        part[Part.STAGE] = scratch.take(near)
        part[Part.SINK] = next((o for o, (of, _) in enumerate(out_types) if of == c), -1)
        if along:
            # An item stands before the others, and the last items are padded.
            for level in range(1, PANELS):
                part[Part.PANEL + level] = LINE + scratch.take(LINE + size * ((chunk >> 4 * level) + group))
        else:
            part[Part.PANEL] = scratch.take(size * (ROW + 1) * pitch)
            # Each level of a step has its sums and its prefixes.
            for level, lines in enumerate((ROW * ROW, ROW, 1) if lie.abreast else (), 1):
                part[Part.PANEL + level] = scratch.take(size * lanes * (2 * lines + 1))
    flat = tuple(
        array[side] == 0 and (not lie.turned or array[plan.axis] == 0) for array in strides[: len(plan.loads)]
    )
    lines = np.zeros((0 if plan.map is None else len(plan.loads), LINE_WORDS), np.int64)
    for line, stored, constant in zip(lines, plan.loads, flat):
        line[Line.SIZE], line[Line.FLAT] = stored.itemsize, constant
        line[Line.BRING] = address(bring_unit(stored, stored))
        line[Line.SPARE], line[Line.AT] = scratch.take(stored.itemsize * room), scratch.take(16)
    sinks = np.zeros((len(out_types), SINK_WORDS), np.int64)
    past = past_cache(plan) and not (lie.turned or cuts.staged or lie.folded)
    restarts = along and plan.segmented and plan.exclusive
    beside = plan.axis if lie.turned else side
    for sink, (c, stored), array in zip(sinks, out_types, strides[len(in_types) :]):
        given = sums[c] if plan.finish is None else stored
        out = past_cache(plan) and stored == given and array[beside] == stored.itemsize
        sink[Sink.GO] = address(stream(stored.itemsize) if out else hand_unit(given, stored))
        if cuts.staged and not plan.reduce:
            stored = given
        streamed = past and not through and stored == given and array[side] == stored.itemsize
        sink[Sink.COMPONENT], sink[Sink.SIZE] = c, stored.itemsize
        sink[Sink.HAND] = address(stream(stored.itemsize) if streamed else hand_unit(given, stored))
        streamed_made = streamed and plan.finish is not None
        sink[Sink.PLAIN] = stored == given and not (streamed_made or restarts or (along and plan.reduce))
        sink[Sink.SPARE] = scratch.take(0 if plan.finish is None else stored.itemsize * room)
    plain = plan.map is None and plan.finish is None and all(part[Part.PLAIN] for part in parts)
    lines_of = in_types if plan.reduce else (*in_types, *out_dtypes)
    near = all(array[beside] == d.itemsize for array, d in zip(strides, lines_of))
    direct = (
        not (along or cuts.in_order or lie.inner is None)
        and plain
        and (cuts.staged or (near and (plan.reduce or all(stored == sums[c] for c, stored in out_types))))
        and not (plan.segmented and plan.exclusive)
    )
    short = direct and not (lie.turned or lie.abreast) and passes_short(plan)
    sink_at = WORDS + parts.size
    line_at = sink_at + sinks.size
    folds_at = line_at + lines.size
    sizes_at = folds_at + folds.size
    arrays_at = sizes_at + len(lie.sizes)
    for word, value in {
        Word.N: plan.n, Word.COLUMNS: lie.side_by_side, Word.STRIPS: cuts.strips, Word.GROUPS: cuts.groups,
        Word.BATCH: cuts.batch,
        Word.TILE: cuts.tile, Word.TILES: cuts.tiles, Word.EXCLUSIVE: plan.exclusive, Word.INITIAL: plan.initial,
        Word.REDUCE: plan.reduce, Word.SEGMENTED: plan.segmented, Word.DIMS: len(lie.outer), Word.EACH: nodes_of(cuts.tiles),
        Word.COMPONENTS: len(sums), Word.VALUES: len(plan.accumulators), Word.SINKS: len(out_types),
        Word.ALONG: along, Word.LANES: lanes, Word.PITCH: pitch, Word.TURNED: lie.turned,
        Word.CHUNK: chunk, Word.WIDTH: width,
        Word.SWEEP: address(
            straight(plan) if through else runs(plan, lanes) if along else steps(plan) if cuts.in_order
            else sweep(plan, lanes, lie.turned)
        ),
        Word.AGAIN: cuts.again, Word.STRAIGHT: through,
        Word.IN_ORDER: cuts.in_order, Word.PAST: past, Word.DIRECT: direct and not lie.turned,
        Word.ACROSS: direct and lie.turned and cuts.tiles == 1, Word.ABREAST: lie.abreast, Word.STAGED: cuts.staged,
        Word.ANY_ORDER: address(straight(plan)) if through else address(extremes(plan)) if cuts.extremes else 0,
        Word.SHORT: address(short_passes(plan, lanes)) if short else 0,
        Word.SINK_AT: sink_at, Word.SIZES_AT: sizes_at, Word.ARRAYS_AT: arrays_at,
        Word.INPUTS: len(in_types), Word.MAP: 0 if plan.map is None else address(mapping(plan, flat)),
        Word.FINISH: 0 if plan.finish is None else address(finishing(plan, flat)), Word.LINE_AT: line_at,
        Word.FOLDED: max(1, lie.folded), Word.FOLDS_AT: folds_at if lie.folded else 0,
        Word.INDEX: plan.n - 1 if plan.reverse else 0, Word.STEP: -1 if plan.reverse else 1,
    }.items():  # fmt: skip
        words[word] = int(value)
    ends: list[int] = []
    none = [(0,) * len(plan.shape)] * len(plan.accumulators)
    has_starts = len(homes) > len(in_types) + len(out_types)
    for array in homes if has_starts else (*homes, *none):
        across, gap = (0 if d is None else array[d] for d in (lie.inner, lie.beside))
        ends += [0, array[plan.axis], across, gap, *(array[d] for d in lie.outer)]
    many = cuts.groups * nodes_of(cuts.tiles) if cuts.tiles > 1 else 0
    each = ARRAY_WORDS + len(lie.outer)
    return Launch(
        callable_at(address(kernel()), 2),
        address(kernel()),
        np.concatenate(
            [*map(np.ravel, (words, parts, sinks, lines, folds)), np.array([*lie.sizes, *ends], np.int64)]
        ),
        slice(arrays_at, arrays_at + len(homes) * each, each),
        cuts.threads,
        scratch.size,
        results,
        many * LINE // 8,
        tuple(many * width * d.itemsize for d in sums) if many else (),
    )


def _folds(plan: Plan, lie: Rows, width: int, dtypes: Sequence[np.dtype], scratch: _Scratch) -> np.ndarray:
    """The words of arrays whose columns are folded, inputs and outputs."""
    folds = np.zeros((len(dtypes) if lie.folded else 0, FOLD_WORDS), np.int64)
    inputs = len(plan.loads) + plan.segmented
    large = len(folds) and past_cache(plan)
    stretch = scratch.take(width * plan.n * max(d.itemsize for d in dtypes)) if large else 0
    for a, (fold, dtype) in enumerate(zip(folds, dtypes)):
        size, comes = dtype.itemsize, a < inputs
        lines = plan.n if comes or not plan.reduce else 1
        fold[Fold.SIZE], fold[Fold.BLOCK] = size, WHOLE // size
        fold[Fold.LINES], fold[Fold.NEAR] = lines, scratch.take(size * width * lines)
        fold[Fold.TURN] = address(turn_in(size) if comes else turn_out(size))
        fold[Fold.LINE] = address((bring_unit if comes else hand_unit)(dtype, dtype))
        if large:
            fold[Fold.MOVE] = address(bring_unit(dtype, dtype) if comes else stream(size))
            fold[Fold.STRETCH] = stretch
    return folds


def _folded(plan: Plan, lie: Rows, width: int, home: Strides, dtype: np.dtype) -> Strides:
    """The strides of an array whose columns are folded, while it is near."""
    near = {lie.inner: dtype.itemsize, plan.axis: width * dtype.itemsize}
    return tuple(near.get(d, stride) for d, stride in enumerate(home))


class _Scratch:
    """Scratch memory, one region after the other, each on cache lines of its own."""

    size = 0

    def take(self, size: int) -> int:
        start, self.size = self.size, self.size + -(-size // LINE) * LINE + LINE
        return start
