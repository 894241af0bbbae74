"""When things happen: the loops around an event, and the steps in which a trace is played."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from upsweep.lab.traces import Trace


def position(trace: Trace) -> np.ndarray:
    """A number for the iterations of the loops around an event, and for the loops passed by: threads at one position
    run it together, those that a loop was not for with those that have left it."""
    order, start = trace.by_thread
    position = np.zeros(len(order), np.int64)
    for number, site in enumerate(trace.sites):
        if site.kind != "loop":
            continue
        after = trace.site[order] - number
        own = np.array([s is trace.machine.site_source[number] for s in trace.machine.site_source])[
            trace.site[order]
        ]
        iteration = np.where(trace.word & 1, trace.word // 2 + 3, 2)[order]
        last = np.maximum.accumulate(np.where(after == 0, np.arange(len(order)), -1)) if len(order) else start
        state = np.where(last >= start, iteration[last], 2)
        left = ((after > site.inside) & own) | ((after == 0) & (iteration == 2))
        state[after < 0] = 0
        state[left] = 1
        state = np.unique(position[order] * (state.max(initial=0) + 1) + state, return_inverse=True)[1]
        position[order] = state
    return position


def steps(trace: Trace) -> np.ndarray:
    """When an event happens: steps lie between barriers and, without one, between iterations of a loop.

    Blocks run side by side; a step that reads what another block wrote in the same launch comes after that. In a run
    that races, a thread's step is put off until after the accesses that its own met in memory.
    """
    key = np.stack([trace.launch, trace.block, trace.epoch, trace.position])
    _, group = np.unique(key, axis=1, return_inverse=True)
    group = group.reshape(-1)
    groups = int(group.max(initial=-1)) + 1
    last = np.zeros(groups, np.int64)
    np.maximum.at(last, group, trace.tick)
    some = np.zeros(groups, np.int64)
    some[group] = np.arange(len(group))
    order = np.lexsort((last, trace.epoch[some], trace.block[some], trace.launch[some]))
    time = _times(trace, order, some, group)[group]
    if not _plays(trace, time):
        time = _as_it_ran(trace, time, group)
    # A step in which threads only test belongs to the next one.
    busy = np.unique(time[~trace.at("branch", "loop")])
    return np.minimum(np.searchsorted(busy, time), max(len(busy) - 1, 0))


def _times(trace: Trace, order: np.ndarray, some: np.ndarray, group: np.ndarray) -> np.ndarray:
    after = _waits(trace, group)
    time = np.zeros(len(order), np.int64)
    begin = 0
    for launch in range(trace.machine.launches):
        mine = [g for g in order if trace.launch[some[g]] == launch]
        # a fixed point: waiting for another block moves a step, and all of its block's later ones
        for _ in range(len(mine) + 1):
            pending, previous, clock = False, -1, begin
            for g in mine:
                block = trace.block[some[g]]
                clock = begin if block != previous else clock + 1
                previous = block
                clock = max([clock, *(time[h] + 1 for h in after.get(g, ()))])
                pending |= bool(time[g] != clock)
                time[g] = clock
            if not pending:
                break
        begin = 1 + max((int(time[g]) for g in mine), default=begin - 1)
    return time


def _waits(trace: Trace, group: np.ndarray) -> dict[int, set[int]]:
    """For each group of events, those of other blocks whose words it reads."""
    writer: dict[int, int] = {}
    after: dict[int, set[int]] = {}
    if len(trace.machine.blocks) == trace.machine.launches:
        return after
    writes = trace.at("store", "atomic")
    for e in np.flatnonzero(trace.space == 1):
        word = int(trace.word[e])
        w = writer.get(word)
        reads = not writes[e] or trace.node[e] < 0
        if (
            reads
            and w is not None
            and trace.block[w] != trace.block[e]
            and trace.launch[w] == trace.launch[e]
        ):
            after.setdefault(int(group[e]), set()).add(int(group[w]))
        if writes[e]:
            writer[word] = int(e)
    return after


def _plays(trace: Trace, time: np.ndarray) -> bool:
    """Whether these times keep the order of every two accesses to one word of which one writes, and put a load after the
    store of another thread that it sees."""
    events = np.flatnonzero(trace.space > 0)
    events = events[np.argsort(trace.word[events], kind="stable")]
    if not len(events):
        return True
    word, when, place = trace.word[events], time[events], np.arange(len(events))
    writes, loads = trace.at("store", "atomic")[events], trace.at("load")[events]
    # Later words begin far above, so that one running maximum serves for all.
    far = int(time.max()) + 2
    lift = np.unique(word, return_inverse=True)[1] * far
    earlier = np.maximum.accumulate(when + lift)
    written = np.maximum.accumulate(np.where(writes, when + lift, lift - 1))
    if (written > when + lift).any() or (writes & (earlier > when + lift)).any():
        return False
    last = np.maximum.accumulate(np.where(writes, place, -1))
    seen = loads & (last >= 0) & (word[last] == word) & (when[last] == when)
    who = trace.block * (1 + int(trace.thread.max())) + trace.thread
    return not (seen & (who[events[last]] != who[events])).any()


def _as_it_ran(trace: Trace, time: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The earliest times, none before the given ones, that keep each thread's order, the barriers, and what memory showed."""
    kinds = [site.kind for site in trace.sites]
    out = time.copy()
    last: dict[tuple[int, int], tuple[int, int]] = {}
    wrote: dict[int, tuple[int, tuple[int, int]]] = {}
    touched: dict[int, int] = {}
    # For each block: its epoch, the first time of the epoch, the last time so far.
    floors: dict[int, tuple[int, int, int]] = {}
    columns = (
        trace.site,
        trace.block,
        trace.thread,
        trace.epoch,
        trace.word,
        trace.space,
        trace.launch,
        group,
        time,
    )
    launched, begin, end = 0, 0, -1
    for e, (site, block, thread, epoch, word, space, launch, g, t) in enumerate(
        zip(*(c.tolist() for c in columns))
    ):
        if launch != launched:
            launched, begin = launch, end + 1
        me, kind = (block, thread), kinds[site]
        was, before = last.get(me, (-1, g))
        at, floor, top = floors.get(block, (epoch, begin, -1))
        if epoch > at:
            at, floor = epoch, top + 1
        t = max(t, floor, begin, was + (g != before))
        if space and kind == "load" and word in wrote:
            when, who = wrote[word]
            t = max(t, when + (who != me))
        elif space and kind != "load":
            t = max(t, touched.get(word, 0))
            wrote[word] = (t, me)
        if space:
            touched[word] = max(touched.get(word, 0), t)
        last[me] = (t, g)
        floors[block] = (at, floor, max(top, t))
        end = max(end, t)
        out[e] = t
    return out
