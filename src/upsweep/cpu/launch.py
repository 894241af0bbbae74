"""From a plan and the arrays' layout to the words of a launch; from those to threads at work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from upsweep.cpu import threads, tuning
from upsweep.cpu.carry import nodes_of
from upsweep.cpu.compile import item_size, kernel_for
from upsweep.cpu.kernel import Kernel, Word
from upsweep.cpu.memory import LINE
from upsweep.dtypes import raw
from upsweep.plan import Plan

Strides = tuple[int, ...]


class Launch(NamedTuple):
    """Everything about a call but the addresses of its arrays."""

    kernel: Kernel
    words: np.ndarray
    addresses: slice  # where the arrays' addresses go
    threads: int
    sync_words: int
    node_bytes: tuple[int, ...]


class Rows(NamedTuple):
    """How the rows lie: `inner` is the dimension across columns, None where rows are scanned one by one."""

    inner: int | None
    outer: tuple[int, ...]
    sizes: tuple[int, ...]


def run(
    plan: Plan, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray], starts: Sequence[np.ndarray]
) -> None:
    """Run a plan over its inputs (with flags, if segmented), outputs and starts (if any), all of them of full rank."""
    if plan.rows == 0:
        return
    arrays = [*ins, *outs, *starts]
    launch = _launch(plan, tuple([a.strides for a in arrays]), tuning.ROWS, tuning.COLUMNS)
    words, addresses = launch.words.copy(), [a.ctypes.data for a in arrays]
    words[launch.addresses] = addresses
    if not set(addresses[: len(ins)]).isdisjoint(addresses[len(ins) : len(ins) + len(outs)]):
        words[Word.STEP] = 0  # results would be written over items that are still read
    if launch.threads == 1:
        launch.kernel.run(words, threads.scratch(launch.kernel.scratch))
    else:
        _run_together(launch, words)


def _run_together(launch: Launch, words: np.ndarray) -> None:
    sync = np.zeros(launch.sync_words, np.int64)
    nodes = [np.empty(size, np.uint8) for size in launch.node_bytes]
    words[Word.SYNC] = sync.ctypes.data
    words[Word.NODES : Word.NODES + len(nodes)] = [node.ctypes.data for node in nodes]
    kernel = launch.kernel
    threads.together(lambda: kernel.run(words, threads.scratch(kernel.scratch)), launch.threads)


@lru_cache(4096)
def _launch(plan: Plan, strides: tuple[Strides, ...], rows: tuning.Tuning, columns: tuning.Tuning) -> Launch:
    flag = (np.dtype(np.uint8),) if plan.segmented else ()
    in_types = (*plan.loads, *flag)
    ins = strides[: len(in_types)]
    walk = rows_of(plan, strides)
    tuned = rows if walk.inner is None else columns
    kernel = kernel_for(plan, tuned)
    item = item_size(plan)
    side_by_side = 1 if walk.inner is None else plan.shape[walk.inner]
    strips = -(-side_by_side // kernel.width)
    groups = strips * int(np.prod(walk.sizes, dtype=np.int64))
    wanted = plan.threads or threads.available()
    if item * plan.n * plan.rows < tuning.PARALLEL_BYTES:
        wanted = 1
    largest = max(kernel.chunk, tuned.tile // (item * min(side_by_side, kernel.width)))
    tile = _tile(plan.n, groups, wanted, kernel, largest)
    tiles = max(1, -(-plan.n // tile))
    batch = _batch(tiles, groups, wanted, item * plan.n * min(side_by_side, kernel.width))
    head = {
        Word.N: plan.n, Word.COLUMNS: side_by_side, Word.STRIPS: strips, Word.GROUPS: groups, Word.BATCH: batch,
        Word.TILE: tile, Word.TILES: tiles, Word.EXCLUSIVE: plan.exclusive, Word.INITIAL: plan.initial,
        Word.REDUCE: plan.reduce,
        Word.PITCH: _pitch(plan, in_types, ins, walk.inner), Word.STEP: _step(plan, strides[len(ins) :], walk.inner),
        Word.DIMS: len(walk.outer), Word.TICKET: 0, Word.SYNC: 0, Word.EACH: nodes_of(tiles),
    }  # fmt: skip
    words = [int(head[word]) for word in list(Word)[: Word.NODES]]
    words += [0] * len(in_types) + list(walk.sizes)
    first = len(words)
    for array in strides if plan.initial else (*strides, *[(0,) * len(plan.shape)] * len(plan.accumulators)):
        across = 0 if walk.inner is None else array[walk.inner]
        words += [0, array[plan.axis], across, *(array[d] for d in walk.outer)]
    many = groups * nodes_of(tiles) if tiles > 1 else 0
    sums = (*plan.accumulators, *flag)
    return Launch(
        kernel,
        np.array(words, np.int64),
        slice(first, first + len(strides) * (3 + len(walk.outer)), 3 + len(walk.outer)),
        max(1, min(wanted, -(-groups // batch) * tiles)),
        2 * many,
        tuple(many * kernel.width * d.itemsize for d in sums) if many else (),
    )


def rows_of(plan: Plan, strides: tuple[Strides, ...]) -> Rows:
    """Rows one by one where the axis runs along memory; otherwise side by side along the dimension that does, unless
    that is shorter than a cache line and the rows are near each other: then the next row finds its lines in the cache.
    """
    steps = [max(abs(array[d]) for array in strides[: len(plan.loads)]) for d in range(len(plan.shape))]
    others = [d for d in range(len(plan.shape)) if d != plan.axis and plan.shape[d] > 1]
    others.sort(key=lambda d: -steps[d])
    inner = None
    if others and plan.n > 1 and steps[others[-1]] < steps[plan.axis]:
        line = plan.shape[others[-1]] * steps[others[-1]]
        if line >= LINE or line * plan.n > tuning.NEAR_BYTES:
            inner = others.pop()
    outer: list[int] = []
    sizes: list[int] = []
    for d in others:  # dimensions that lie as one become one
        if outer and all(a[outer[-1]] == a[d] * plan.shape[d] for a in strides):
            outer[-1], sizes[-1] = d, sizes[-1] * plan.shape[d]
        else:
            outer.append(d)
            sizes.append(plan.shape[d])
    return Rows(inner, tuple(outer), tuple(sizes))


def _tile(n: int, groups: int, wanted: int, kernel: Kernel, largest: int) -> int:
    """Rows are cut into tiles only where there are too few of them to keep all threads at work."""
    if wanted == 1 or groups >= 4 * wanted or n <= kernel.chunk:
        return max(n, 1)
    tile = kernel.chunk
    while tile * 2 <= largest and tile * 8 * wanted <= n * groups:
        tile *= 2
    return tile


def _batch(tiles: int, groups: int, wanted: int, size: int) -> int:
    """Groups to a ticket: several short ones, but enough tickets for all threads."""
    return 1 if tiles > 1 else max(1, min(tuning.TICKET_BYTES // max(1, size), groups // (4 * wanted)))


def _pitch(plan: Plan, dtypes: Sequence[np.dtype], strides: Sequence[Strides], inner: int | None) -> int:
    """The items from row to row where all components lie alike in the dtype computed with, and side by side; else 0."""
    computed = [*plan.accumulators, *dtypes[len(plan.accumulators) :]]
    return _items_apart(plan, dtypes, strides, inner) if [raw(d) for d in dtypes] == computed else 0


def _step(plan: Plan, strides: Sequence[Strides], inner: int | None) -> int:
    """The items from row to row of the results where all components lie alike and side by side; else 0."""
    dtypes = [d for d in plan.stores if d is not None]
    return 0 if plan.reduce else _items_apart(plan, dtypes, strides, inner)


def _items_apart(
    plan: Plan, dtypes: Sequence[np.dtype], strides: Sequence[Strides], inner: int | None
) -> int:
    along = plan.axis if inner is None else inner
    if any(s[along] != d.itemsize for s, d in zip(strides, dtypes)):
        return 0
    pitches = {s[plan.axis] / d.itemsize for s, d in zip(strides, dtypes)}
    pitch = pitches.pop()
    return int(pitch) if not pitches and pitch.is_integer() else 0
