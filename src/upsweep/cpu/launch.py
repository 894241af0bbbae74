"""From a plan and the arrays' layout to the words of a launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from upsweep.cpu import tuning
from upsweep.cpu.code import Unit, address, callable_at
from upsweep.cpu.cuts import cut, nodes_of
from upsweep.cpu.demands import read_size
from upsweep.cpu.rows import Strides
from upsweep.cpu.tables import (
    Facts,
    Scratch,
    direct,
    facts_of,
    flat,
    folds_of,
    lines_of_map,
    parts_of,
    short,
    sinks_of,
    through_cache,
    while_near,
)
from upsweep.cpu.units import (
    blocks,
    extremes,
    finishing,
    kernel,
    mapping,
    runs,
    short_passes,
    steps,
    straight,
    sweep,
)
from upsweep.cpu.words import ARRAY_WORDS, FRAME_WORDS, LINE, ROW, WORDS, Word
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
    addresses: slice | np.ndarray
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
    cuts, scratch = cut(plan, strides, rows, columns), Scratch()
    scratch.take(8 * FRAME_WORDS)
    results = scratch.take(16)
    facts = facts_of(plan, cuts, strides)
    folds = folds_of(facts, scratch)
    facts = while_near(facts)
    places = scratch.take(48 * (len(facts.reads) + len(facts.writes)) + 24 * len(plan.accumulators))
    flags = scratch.take(facts.room if plan.segmented else 0)
    parts = parts_of(facts, scratch)
    lines, sinks = lines_of_map(facts, scratch), sinks_of(facts, scratch)
    sink_at = WORDS + parts.size
    line_at = sink_at + sinks.size
    folds_at = line_at + lines.size
    sizes_at = folds_at + folds.size
    arrays_at = sizes_at + len(cuts.rows.sizes)
    at = {
        Word.PLACES: places, Word.FLAGS: flags, Word.SINK_AT: sink_at, Word.LINE_AT: line_at,
        Word.FOLDS_AT: folds_at if cuts.rows.folded else 0, Word.SIZES_AT: sizes_at, Word.ARRAYS_AT: arrays_at,
    }  # fmt: skip
    words = [0] * WORDS
    for word, value in (_asked(plan) | _cut(facts) | _ways(facts, parts) | at).items():
        words[word] = int(value)
    rest = np.array([*cuts.rows.sizes, *_arrays(facts, strides)], np.int64)
    many = cuts.groups * nodes_of(cuts.tiles) if cuts.tiles > 1 else 0
    each = ARRAY_WORDS + len(cuts.rows.outer)
    code = address(kernel())
    return Launch(
        callable_at(code, 2),
        code,
        np.concatenate([*map(np.ravel, (words, parts, sinks, lines, folds, rest))]),
        slice(arrays_at, arrays_at + len(strides) * each, each),
        cuts.threads,
        scratch.size,
        results,
        many * LINE // 8,
        tuple(many * cuts.width * d.itemsize for d in facts.sums) if many else (),
    )


def _asked(plan: Plan) -> dict[Word, int]:
    """The words that say what was asked for."""
    return {
        Word.N: plan.n, Word.EXCLUSIVE: plan.exclusive, Word.INITIAL: plan.initial, Word.REDUCE: plan.reduce,
        Word.SEGMENTED: plan.segmented, Word.VALUES: len(plan.accumulators),
        Word.INDEX: plan.n - 1 if plan.reverse else 0, Word.STEP: -1 if plan.reverse else 1,
    }  # fmt: skip


def _cut(facts: Facts) -> dict[Word, int]:
    """The words that say how rows lie and how they are cut."""
    cuts, lie = facts.cuts, facts.lie
    return {
        Word.COLUMNS: lie.side_by_side, Word.STRIPS: cuts.strips, Word.GROUPS: cuts.groups, Word.BATCH: cuts.batch,
        Word.TILE: cuts.tile, Word.TILES: cuts.tiles, Word.EACH: nodes_of(cuts.tiles), Word.CHUNK: cuts.chunk,
        Word.WIDTH: cuts.width, Word.DIMS: len(lie.outer), Word.COMPONENTS: len(facts.sums),
        Word.SINKS: len(facts.writes), Word.INPUTS: len(facts.reads), Word.LANES: facts.lanes,
        Word.PITCH: facts.pitch, Word.FOLDED: max(1, lie.folded), Word.STAGED: cuts.staged, Word.BACKWARD: facts.backward,
        Word.CHAINED: cuts.chained,
    }  # fmt: skip


def _ways(facts: Facts, parts: np.ndarray) -> dict[Word, int]:
    """The words that say which way a chunk goes, and by which code."""
    plan, cuts, lie, lanes = facts.plan, facts.cuts, facts.lie, facts.lanes
    swept = direct(facts, parts)
    any_order = straight if cuts.straight else extremes if cuts.extremes else None
    return {
        Word.ALONG: cuts.along, Word.TURNED: lie.turned, Word.AGAIN: cuts.again, Word.STRAIGHT: cuts.straight,
        Word.IN_ORDER: cuts.in_order, Word.PAST: _later(facts), Word.ABREAST: lie.abreast,
        Word.DIRECT: swept and not (lie.turned or (lie.abreast and through_cache(facts))),
        Word.ACROSS: swept and lie.turned and cuts.tiles == 1,
        Word.SWEEP: address(_sweep(facts)),
        Word.ANY_ORDER: 0 if any_order is None else address(any_order(plan)),
        Word.SHORT: address(short_passes(plan, lanes)) if swept and short(facts) else 0,
        Word.MAP: 0 if plan.map is None else address(mapping(plan, flat(facts))),
        Word.FINISH: 0 if plan.finish is None else address(finishing(plan, flat(facts))),
    }  # fmt: skip


def _later(facts: Facts) -> int:
    """The items from those that are read to those that are fetched, one or more where results go past the cache: in scans from a
    tile to the one that its thread is likely to take next, unless many threads share the memory. Two tiles of several components
    would drive each other out of an AMD's second cache: recurrences of 256 MiB took 1.2 to 2 times as long. Of large columns that
    are reduced, 1: the next 16 rows are fetched.
    """
    plan, cuts = facts.plan, facts.cuts
    if plan.reduce:
        large = plan.n * plan.rows * read_size(plan, facts.strides) >= tuning.STREAM_BYTES
        return large and (tuning.AHEAD * facts.lanes * ROW if cuts.along else len(plan.accumulators) == 1)
    tiles = cuts.along and cuts.tiles > 1 and len(plan.accumulators) == 1
    fetched = tiles and cuts.threads <= tuning.FETCHING
    return facts.past and (cuts.tile * cuts.threads if fetched else 1)


def _sweep(facts: Facts) -> Unit:
    """The operator's code."""
    plan, cuts = facts.plan, facts.cuts
    if cuts.straight:
        return straight(plan)
    if cuts.along:
        return runs(plan, facts.lanes)
    if cuts.in_order:
        return steps(plan, facts.lanes, facts.backward)
    if facts.lie.abreast:
        return blocks(plan, facts.lanes)
    return sweep(plan, facts.lanes, facts.lie.turned, facts.backward)


def _arrays(facts: Facts, strides: tuple[Strides, ...]) -> list[int]:
    """The words of arrays, without their addresses; starts that are not given have strides of 0."""
    plan, lie = facts.plan, facts.lie
    has_starts = len(strides) > len(facts.reads) + len(facts.writes)
    none = () if has_starts else ((0,) * len(plan.shape),) * len(plan.accumulators)
    ends: list[int] = []
    for array in (*strides, *none):
        across, gap = (0 if d is None else array[d] for d in (lie.inner, lie.beside))
        ends += [0, array[plan.axis], across, gap, *(array[d] for d in lie.outer)]
    return ends
