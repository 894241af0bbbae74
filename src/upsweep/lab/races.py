"""Races: pairs of accesses to one word, one of them a write, that nothing orders; and their causes, one for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from upsweep.lab.findings import Finding
from upsweep.lab.hooks import UNCHANGED
from upsweep.lab.knowledge import knowledge, released
from upsweep.lab.reading import Spot
from upsweep.lab.traces import Trace


def races(trace: Trace, epoch: np.ndarray | None = None) -> list[Finding]:
    """One finding for each pair of lines that race; `epoch` as it would be with other barriers."""
    epoch = trace.epoch if epoch is None else epoch
    pairs: dict[tuple[int, int, str], list[tuple[int, int]]] = {}
    for a, b in _unordered(trace, epoch):
        # Accesses of one block are told in the order of the program, those of two blocks as they happened.
        if trace.block[a] == trace.block[b]:
            a, b = sorted((a, b), key=lambda e: (trace.tick[e], trace.site[e]))
        else:
            a, b = sorted((a, b))
        pairs.setdefault((int(trace.site[a]), int(trace.site[b]), _hazard(trace, a, b)), []).append((a, b))
    return [_race(trace, hazard, found) for (_, _, hazard), found in pairs.items()]


def any_race(trace: Trace, epoch: np.ndarray) -> bool:
    """Whether there is one, with these epochs."""
    return first_race(trace, epoch) is not None


def first_race(trace: Trace, epoch: np.ndarray) -> tuple[int, int] | None:
    """Two accesses that race, with these epochs."""
    return next(_unordered(trace, epoch), None)


def _hazard(trace: Trace, a: int, b: int) -> str:
    writes = [trace.sites[int(trace.site[e])].kind != "load" for e in (a, b)]
    return "WAW" if all(writes) else "RAW" if writes[0] else "WAR"


def _race(trace: Trace, hazard: str, found: list[tuple[int, int]]) -> Finding:
    words = sorted({int(trace.word[a]) for a, _ in found})
    a, b = found[0]
    spots = (trace.spot(int(trace.site[a])), trace.spot(int(trace.site[b])))
    more = f" ({len(words)} words race here)" if len(words) > 1 else ""
    kinds = {trace.sites[int(trace.site[e])].kind for e in (a, b)}
    if trace.block[a] == trace.block[b]:
        apart = "with nothing between them"
    elif kinds == {"atomic"}:
        apart = "and what orders them are relaxed atomics on other words, without fences"
    else:
        apart = "and no fenced flag orders the two"
    text = (
        f"{hazard} on {trace.place(int(trace.word[a]))}: {_who(trace, a)} and {_who(trace, b)}, {apart}{more}"
    )
    return Finding("race", text, spots, hazard, tuple(trace.place(w) for w in words), events=(a, b))


def _who(trace: Trace, e: int) -> str:
    site = trace.sites[int(trace.site[e])]
    verb = {"load": "reads", "store": "writes", "atomic": "updates"}[site.kind]
    block = trace.machine.blocks[int(trace.block[e])]
    where = f" of block {block.index}" if trace.case.setup.launches[block.launch].grid > 1 else ""
    return f"thread {trace.thread[e]}{where} {verb} it in line {site.line}"


# --- one cause, one finding -------------------------------------------------------------------------------------------


def by_cause(trace: Trace, found: list[Finding]) -> list[Finding]:
    """Races that one barrier would order, or one fenced flag, made one finding: the first of them, with how many more."""
    within = [f for f in found if f.events and trace.block[f.events[0]] == trace.block[f.events[1]]]
    groups: list[list[Finding]] = []
    cuts = {id(f): _between(trace, f) for f in within}
    left = within
    while left:
        lines: dict[Spot, int] = {}
        for f in left:
            for spot in cuts[id(f)]:
                lines[spot] = lines.get(spot, 0) + 1
        best = max(lines, key=lambda spot: lines[spot]) if lines else None
        groups.append(
            [f for f in left if best in cuts[id(f)]]
            if best
            else [f for f in left if f.spots == left[0].spots]
        )
        left = [f for f in left if f not in groups[-1]]
    across: dict[str, list[Finding]] = {}
    for f in found:
        if f not in within:
            across.setdefault(f.words[0].split("[")[0], []).append(f)
    return [_one(group) for group in (*groups, *across.values())]


def _one(group: list[Finding]) -> Finding:
    first = group[0]
    words = tuple(dict.fromkeys(word for f in group for word in f.words))
    if len(group) == 1:
        return replace(first, words=words)
    lines = sorted({line for f in group[1:] for line in f.lines} - set(first.lines))
    where = f", also in line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""
    pairs = f"{len(group) - 1} more pair{'s' if len(group) > 2 else ''} of accesses for the same reason"
    return replace(first, text=f"{first.text}; {pairs}{where}", words=words)


def _between(trace: Trace, f: Finding) -> set[Spot]:
    """The lines before which a barrier would stand between the two accesses of a race."""
    assert f.events is not None
    p, q = (int(trace.site[e]) for e in f.events)
    kernel = next((k for k in trace.kernels if k.source is trace.machine.site_source[p]), None)
    if kernel is None or trace.machine.site_source[q] is not kernel.source:
        return set()
    start, end = trace.sites[p].line, trace.sites[q].line
    if trace.tick[f.events[0]] == trace.tick[f.events[1]]:
        lines = {line for line in kernel.places if start < line <= end}
    else:
        loop = _loop_around(trace, p, q)
        body = [s.line for s in trace.sites[loop : loop + trace.sites[loop].inside + 1]] if loop >= 0 else []
        inside = {line for line in kernel.places if body and body[0] < line <= max(body)} or set(
            kernel.places
        )
        lines = {line for line in inside if line > start or line <= end}
    return {Spot(kernel.source.name, line) for line in lines}


def _loop_around(trace: Trace, p: int, q: int) -> int:
    """The innermost loop that both sites lie in; -1 where there is none."""
    around = [
        s for s, site in enumerate(trace.sites)
        if site.kind == "loop" and all(s < other <= s + site.inside for other in (p, q))
    ]  # fmt: skip
    return max(around, default=-1)


# --- unordered accesses ------------------------------------------------------------------------------------------------


def _unordered(trace: Trace, epoch: np.ndarray) -> Iterator[tuple[int, int]]:
    touching = np.flatnonzero(trace.space > 0)
    within = _groups(trace, touching, [trace.word, trace.block, epoch], trace.thread)
    fenced = trace.at("fence").any() and trace.at("atomic").any()
    heard = (
        knowledge(trace, epoch, {int(e) for events in within for e in events}, "block")
        if within and fenced
        else None
    )
    for events in within:
        yield from _pairs(
            trace, events, trace.thread,
            lambda a, b: _warp_ordered(trace, a, b) or (heard is not None and released(trace, epoch, heard, a, b)),
        )  # fmt: skip
    crossing = touching[trace.space[touching] == 1]
    across = _groups(trace, crossing, [trace.launch, trace.word], trace.block)
    if across:
        known = knowledge(trace, epoch, {int(e) for events in across for e in events})
        for events in across:
            yield from _pairs(trace, events, trace.block, lambda a, b: released(trace, epoch, known, a, b))
    yield from _relaxed(trace, epoch)


def _groups(trace: Trace, events: np.ndarray, keys: list[np.ndarray], who: np.ndarray) -> list[np.ndarray]:
    """The events that agree on all keys, where different actors touch and one of them writes."""
    if not len(events):
        return []
    group = np.zeros(len(events), np.int64)
    for key in keys:
        group = np.unique(group * (int(key[events].max()) + 1) + key[events], return_inverse=True)[1]
    groups = int(group.max()) + 1
    low, high = np.full(groups, np.iinfo(np.int64).max), np.full(groups, -1)
    np.minimum.at(low, group, who[events])
    np.maximum.at(high, group, who[events])
    writes, plain_ones = np.zeros(groups, bool), np.zeros(groups, bool)
    np.logical_or.at(writes, group, ~trace.at("load")[events])
    np.logical_or.at(plain_ones, group, ~trace.at("atomic")[events])
    guilty = (low < high) & writes & plain_ones
    if not guilty.any():
        return []
    order = np.argsort(group, kind="stable")
    parts = np.split(events[order], np.cumsum(np.bincount(group))[:-1])
    return [parts[g] for g in np.flatnonzero(guilty)]


def _pairs(
    trace: Trace, events: np.ndarray, who: np.ndarray, ordered: Callable[[int, int], bool]
) -> Iterator[tuple[int, int]]:
    """For each pair of sites one pair of events by different actors that conflicts and is not ordered."""
    at: dict[int, list[int]] = {}
    for e in events.tolist():
        some = at.setdefault(int(trace.site[e]), [])
        if len(some) < 24:
            some.append(e)
    sites = sorted(at)
    for i, p in enumerate(sites):
        for q in sites[i:]:
            kinds = {trace.sites[p].kind, trace.sites[q].kind}
            if kinds in ({"load"}, {"atomic"}):
                continue
            for a, b in ((a, b) for a in at[p] for b in at[q] if who[a] != who[b]):
                if not ordered(a, b):
                    yield a, b
                    break


def _warp_ordered(trace: Trace, a: int, b: int) -> bool:
    """Whether a chain of meetings of their warp, each a `syncwarp`, leads from the one event to the other."""
    size = trace.case.warp
    warp = int(trace.thread[a]) // size
    if warp != int(trace.thread[b]) // size:
        return False
    a, b = sorted((a, b), key=lambda e: trace.warp_epoch[e])
    reached = {int(trace.thread[a])}
    meetings = trace.machine.blocks[int(trace.block[a])].meetings[warp]
    for met in meetings[int(trace.warp_epoch[a]) : int(trace.warp_epoch[b])]:
        if reached & met:
            reached |= met
    return int(trace.thread[b]) in reached


def _relaxed(trace: Trace, epoch: np.ndarray) -> Iterator[tuple[int, int]]:
    """Atomics of two blocks on one word that only atomics on other words order, without fences: the later one may read an
    old value. One that waits in a loop asks again, and is no such."""
    loops = " ".join(site.text for site in trace.sites if site.kind == "loop")
    atomics = np.flatnonzero(trace.at("atomic") & (trace.space == 1)).tolist()
    asked = {e for e in atomics if trace.sites[int(trace.site[e])].text not in loops}
    if (
        not asked
        or len({int(trace.word[e]) for e in atomics}) < 2
        or len(set(trace.block[atomics].tolist())) < 2
    ):
        return
    strong, known = (knowledge(trace, epoch, asked, scope) for scope in ("none", "device"))
    wrote: dict[int, dict[tuple[int, int], int]] = {}
    touched: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for e in atomics:
        word, me = int(trace.word[e]), (int(trace.block[e]), int(trace.thread[e]))
        seen = touched.setdefault((word, me[0]), [])
        for other, a in wrote.get(word, {}).items() if e in asked else ():
            again = any(at > a and (thread == me[1] or when < epoch[e]) for at, thread, when in seen)
            if other[0] == me[0] or again or trace.launch[a] != trace.launch[e]:
                continue
            if released(trace, epoch, strong, a, e) and not released(trace, epoch, known, a, e):
                yield a, e
        if trace.node[e] != UNCHANGED:
            wrote.setdefault(word, {})[me] = e
        seen.append((e, me[1], int(epoch[e])))
