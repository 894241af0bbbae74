"""What is wrong with a kernel: races with a schedule that shows them, wild accesses, barriers too few or too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from upsweep.lab.rewrite import Spot
from upsweep.lab.schedule import Schedule
from upsweep.lab.traces import Intervals, Trace, flaw, spoken
from upsweep.lab.values import POISON, Item, plain

SEARCHED = 8
"""Random schedules that are tried before a race is reported without a witness."""


@dataclass(frozen=True)
class Witness:
    """A schedule under which the result is wrong, and the first word that shows it."""

    schedule: Schedule
    word: str
    got: str
    wanted: str

    def __str__(self) -> str:
        return f"schedule {self.schedule}: {self.word} becomes {self.got} instead of {self.wanted}"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and where."""

    kind: str
    """race, uninitialised, out of bounds, divergent barrier, divergent shuffle, deadlock, written twice, never written,
    or wrong value"""
    text: str
    spots: tuple[Spot, ...] = ()
    hazard: str = ""
    """RAW, WAR or WAW, by the order in the program of the two accesses that race."""
    words: tuple[str, ...] = ()
    """Some of the words that it is about."""
    witness: Witness | None = field(default=None, compare=False)

    @property
    def lines(self) -> tuple[int, ...]:
        return tuple(spot.line for spot in self.spots)

    def __str__(self) -> str:
        shown = f"\n    {self.witness}" if self.witness else ""
        return f"{self.kind}: {self.text}{shown}"


class Report(tuple[Finding, ...]):
    """The findings of a check; empty where nothing is wrong."""

    @property
    def ok(self) -> bool:
        return not self

    @property
    def kinds(self) -> set[str]:
        return {finding.kind for finding in self}

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "nothing is wrong"

    __repr__ = __str__


def check(trace: Trace, witness: bool = True) -> Report:
    """All findings of a trace, races with a schedule that shows a wrong value where one is found."""
    found = [*races(trace), *_faults(trace), *_coverage(trace), *_wrong(trace)]
    if witness and any(f.kind == "race" for f in found):
        seen = find_witness(trace, [f for f in found if f.kind == "race"])
        unseen = "" if seen else "; no schedule of whole accesses shows it, a GPU that reorders them may"
        found = [replace(f, text=f.text + unseen, witness=seen) if f.kind == "race" else f for f in found]
    return Report(found)


# --- races ------------------------------------------------------------------------------------------------------------


def races(trace: Trace, epoch: np.ndarray | None = None) -> list[Finding]:
    """Pairs of accesses to one word, one of them a write, that nothing orders; `epoch` as it would be with fewer barriers."""
    epoch = trace.epoch if epoch is None else epoch
    pairs: dict[tuple[int, int, str], list[tuple[int, int]]] = {}
    for a, b in _unordered(trace, epoch):
        if trace.block[a] == trace.block[b]:  # by the program; between blocks, as it happened
            a, b = sorted((a, b), key=lambda e: (trace.tick[e], trace.site[e]))
        else:
            a, b = sorted((a, b))
        hazard = _hazard(trace, a, b)
        pairs.setdefault((int(trace.site[a]), int(trace.site[b]), hazard), []).append((a, b))
    return [_race(trace, hazard, found) for (_, _, hazard), found in pairs.items()]


def _hazard(trace: Trace, a: int, b: int) -> str:
    writes = [trace.sites[int(trace.site[e])].kind != "load" for e in (a, b)]
    return "WAW" if all(writes) else "RAW" if writes[0] else "WAR"


def _race(trace: Trace, hazard: str, found: list[tuple[int, int]]) -> Finding:
    words = sorted({int(trace.word[a]) for a, _ in found})
    a, b = found[0]
    spots = (trace.spot(int(trace.site[a])), trace.spot(int(trace.site[b])))
    place = trace.place(int(trace.word[a]))
    more = f" ({len(words)} words race here)" if len(words) > 1 else ""
    apart = (
        "with nothing between them"
        if trace.block[a] == trace.block[b]
        else "and no fenced flag orders the two"
    )
    text = f"{hazard} on {place}: {_who(trace, a)} and {_who(trace, b)}, {apart}{more}"
    return Finding("race", text, spots, hazard, tuple(trace.place(w) for w in words[:8]))


def _who(trace: Trace, e: int) -> str:
    site = trace.sites[int(trace.site[e])]
    verb = {"load": "reads", "store": "writes", "atomic": "updates"}[site.kind]
    block = trace.machine.blocks[int(trace.block[e])]
    where = f" of block {block.index}" if trace.case.setup.launches[block.launch].grid > 1 else ""
    return f"thread {trace.thread[e]}{where} {verb} it in line {site.line}"


def _unordered(trace: Trace, epoch: np.ndarray) -> Iterator[tuple[int, int]]:
    touching = np.flatnonzero(trace.space > 0)
    within = _groups(trace, touching, [trace.word, trace.block, epoch], trace.thread)
    for events in within:
        yield from _pairs(trace, events, trace.thread, lambda a, b: _warp_ordered(trace, a, b))
    crossing = touching[trace.space[touching] == 1]
    across = _groups(trace, crossing, [trace.launch, trace.word], trace.block)
    if across:
        known = _knowledge(trace, epoch, {int(e) for events in across for e in events})
        for events in across:
            yield from _pairs(trace, events, trace.block, lambda a, b: _released(trace, epoch, known, a, b))


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
    """Whether a meeting of their warp, a `syncwarp` or a shuffle, lies between two events."""
    size = trace.case.warp
    return bool(
        trace.thread[a] // size == trace.thread[b] // size and trace.warp_epoch[a] != trace.warp_epoch[b]
    )


Known = dict[tuple[int, ...], int]
"""What a thread knows of the others: (block,) -> all epochs before this one; (block, thread) -> its events up to this."""


def _merge(into: Known, other: Known) -> None:
    for key, value in other.items():
        into[key] = max(into.get(key, -1), value)


def _knowledge(trace: Trace, epoch: np.ndarray, asked: set[int]) -> dict[int, Known]:
    """What each of the events asked about knows of other blocks: by an atomic that saw another's, with fences on both sides."""
    own: dict[tuple[int, int], Known] = {}
    taken: dict[tuple[int, int], Known] = {}
    given: dict[tuple[int, int], Known] = {}
    words: dict[int, Known] = {}
    learned: dict[int, list[tuple[int, Known]]] = {}
    answer: dict[int, Known] = {}
    kinds = [s.kind for s in trace.sites]
    marked = trace.at("atomic", "fence")
    marked[list(asked)] = True
    for e in np.flatnonzero(marked).tolist():
        block, thread, now = int(trace.block[e]), int(trace.thread[e]), int(epoch[e])
        me, kind = (block, thread), kinds[trace.site[e]]
        if kind == "fence":
            news = taken.pop(me, {})
            _merge(own.setdefault(me, {}), news)
            learned.setdefault(block, []).append((now, news))
        if kind == "fence" or e in asked:
            known = dict(own.get(me, {}))
            for when, news in learned.get(block, []):
                if when < now:
                    _merge(known, news)
            if e in asked:
                answer[e] = known
            if kind == "fence":
                given[me] = {**known, (block,): now, me: e}
        if kind == "atomic":
            word = words.setdefault(int(trace.word[e]), {})
            _merge(taken.setdefault(me, {}), word)
            _merge(word, given.get(me, {}))
    return answer


def _released(trace: Trace, epoch: np.ndarray, known: dict[int, Known], a: int, b: int) -> bool:
    a, b = min(a, b), max(a, b)
    block, thread = int(trace.block[a]), int(trace.thread[a])
    return known[b].get((block,), -1) > epoch[a] or known[b].get((block, thread), -1) >= a


# --- witnesses --------------------------------------------------------------------------------------------------------


def wanted(trace: Trace) -> list[object] | None:
    """The right result, as the definition of a scan gives it; None where the kernel promises nothing."""
    case = trace.case
    if case.answer is not None:
        return list(case.answer(case.x))
    if case.expected is None:
        return None
    return [_folded(trace, case.expected(i)) for i in range(trace.result.size)]


def _folded(trace: Trace, intervals: Intervals | None) -> object:
    items = [trace.case.x[i] for low, high in intervals or () for i in range(low, high + 1)]
    if not items:
        return trace.case.identity
    total = items[0]
    for item in items[1:]:
        total = trace.case.op(total, item)
    return total


def find_witness(trace: Trace, found: list[Finding]) -> Witness | None:
    """A schedule under which the result differs from the right one, or from that of another schedule."""
    right = wanted(trace)
    for schedule in _schedules(trace):
        other = trace.case.run(schedule, trace.without, trace.before)
        if right is None:
            right = trace.values
        for place, (got, want) in enumerate(zip(other.values, right)):
            if not _same(got, want):
                return Witness(schedule, other.place(other.result.base + place), _shown(got), _shown(want))
    return None


def _same(got: object, want: object) -> bool:
    if isinstance(got, float) and isinstance(want, float):
        return bool(np.isclose(got, want, rtol=1e-3))
    return bool(np.all(np.asarray(got == want)))


def _shown(value: object) -> str:
    return "unwritten" if value is None else str(plain(value))


def _schedules(trace: Trace) -> Iterator[Schedule]:
    held = trace.case.schedule
    block = max(launch.block for launch in trace.case.setup.launches)
    warp = trace.case.warp
    by_warp = [t for w in reversed(range(0, block, warp)) for t in range(w, min(w + warp, block))]
    names = ["ascending", "descending", "lockstep", by_warp, *(f"random-{k}" for k in range(SEARCHED))]
    for name in names:
        yield Schedule(name, held.resident, held.issue)
    if trace.case.setup.launches[0].grid > 1:
        for name in names:
            yield Schedule(name, held.resident, "descending")


# --- everything else --------------------------------------------------------------------------------------------------


def _faults(trace: Trace) -> list[Finding]:
    """What the machine noticed while it ran, one finding for each site and kind."""
    groups: dict[tuple[str, int], list[int]] = {}
    for k, fault in enumerate(trace.machine.faults):
        groups.setdefault((fault.kind, fault.site), []).append(k)
    out = []
    for (kind, site), which in groups.items():
        first, where = trace.machine.faults[which[0]], trace.sites[site]
        verb = "reads" if where.kind == "load" else "writes" if where.kind == "store" else "meets"
        who = f"thread {first.thread} of block {trace.machine.blocks[first.block].index}"
        more = f" ({len(which)} times)" if len(which) > 1 else ""
        text = {
            "uninitialised": f"line {where.line} reads {first.text}, which nobody has written: {who}{more}",
            "out of bounds": f"line {where.line} {verb} {where.text} outside of {first.text}: {who}{more}",
        }.get(kind, f"line {where.line}: {first.text}{more}")
        words = tuple(dict.fromkeys(trace.machine.faults[k].text for k in which))[:64]
        out.append(Finding(kind, text, (trace.spot(site),), words=words))
    return out


def _coverage(trace: Trace) -> list[Finding]:
    """Every word of the result is written once."""
    y = trace.result
    if any(f.kind == "deadlock" for f in trace.machine.faults):
        return []
    stores = trace.at("store") & (trace.word >= y.base) & (trace.word < y.base + y.size)
    launch_and_word = zip(trace.launch[stores].tolist(), trace.word[stores].tolist())
    times = Counter(launch_and_word)
    written = {word for _, word in times}
    out = []
    never = [trace.place(w) for w in range(y.base, y.base + y.size) if w not in written]
    if never and not y.written:
        out.append(
            Finding("never written", f"{_list(never)} of the result: nobody writes there", words=tuple(never))
        )
    twice = [trace.place(word) for (_, word), count in times.items() if count > 1]
    if twice and any(launch.grid * launch.block > 1 for launch in trace.case.setup.launches):
        spots = tuple(sorted({trace.spot(site) for site in trace.site[stores].tolist()}))
        out.append(Finding("written twice", f"{_list(twice)} of the result", spots, words=tuple(twice)))
    return out


def _wrong(trace: Trace) -> list[Finding]:
    """The result is made of the right inputs in the right order, and has the right values."""
    out: list[Finding] = []
    bad: list[str] = []
    for place, item in enumerate(trace.result.words):
        want = trace.case.expected(place) if trace.case.expected else None
        if item is None or want is None:
            continue
        made = trace.intervals[item.node] if isinstance(item, Item) else ()
        spoilt = plain(item) is POISON
        if not spoilt and _accepted(made, want, trace.case.needs):
            continue
        bad.append(trace.place(trace.result.base + place))
        if len(bad) == 1:
            why = (
                "and what nobody has written"
                if spoilt
                else {
                    "order": "in the wrong order",
                    "gap": "with a gap",
                    "overlap": "with something twice",
                }.get(flaw(made) or "", "")
            )
            out.append(
                Finding(
                    "wrong value",
                    f"{bad[0]} holds {spoken(made)} {why} and not {spoken(want)}".replace("  ", " "),
                )
            )
    if trace.case.answer is not None:
        right = wanted(trace) or []
        bad = [
            f"{trace.result.name}[{k}]"
            for k, (got, want) in enumerate(zip(trace.values, right))
            if not _same(got, want)
        ]
        out += [Finding("wrong value", f"{_list(bad)} of the result")] if bad else []
    more = f" ({len(bad)} words are wrong)" if len(bad) > 1 else ""
    return [replace(f, text=f.text + more, words=tuple(bad)) for f in out]


def _accepted(made: Intervals, want: Intervals, needs: str) -> bool:
    if made == want:
        return True
    ours = Counter(i for low, high in made for i in range(low, high + 1))
    theirs = Counter(i for low, high in want for i in range(low, high + 1))
    if needs == "commutative":
        return ours == theirs
    return needs == "idempotent" and set(ours) == set(theirs)


def _list(words: list[str]) -> str:
    return ", ".join(words[:6]) + (f" and {len(words) - 6} more" if len(words) > 6 else "")


# --- barriers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Barriers:
    """Which barriers a kernel needs, by kernel and line."""

    needed: tuple[Spot, ...]
    redundant: tuple[Spot, ...]
    """Each of these can go while the others stay."""
    minimal: tuple[Spot, ...]
    """A set from which none can be taken, and which is enough."""
    idle: tuple[tuple[Spot, int, int], ...]
    """(where, pass, passes): a single pass of a needed barrier, counted from 1, that separates nothing."""
    missing: tuple[tuple[Spot, ...], ...]
    """Where a race is: sets of lines before which barriers mend it."""
    racing: bool = False

    def __str__(self) -> str:
        said = [f"needed: {', '.join(map(str, self.needed)) or 'none'}"]
        said += [f"redundant: {spot}" for spot in self.redundant]
        said += [f"separates nothing: {spot}, pass {k} of {of}" for spot, k, of in self.idle]
        said += [
            f"missing: a barrier before {' and before '.join(map(str, spots))}" for spots in self.missing
        ]
        said += (
            ["there is a race that no barrier between two statements mends"]
            if self.racing and not self.missing
            else []
        )
        return "\n".join(said)


def barriers(trace: Trace) -> Barriers:
    """The barriers that can go, found by removal, and those that are missing, found by insertion.

    Races are a matter of epochs, so that a removal is a renumbering of the one trace; an insertion is a new run.
    """
    passes: Passes = {}
    for block, epoch, site in trace.machine.passed:
        passes.setdefault(trace.spot(site), set()).add((block, epoch))
    spots = tuple(sorted(passes))
    if races(trace):
        return Barriers(spots, (), spots, (), tuple(_missing(trace)), racing=True)
    can_go = tuple(s for s in spots if not races(trace, _epochs_without(trace, passes[s])))
    gone: list[Spot] = []
    for s in can_go:
        if not races(trace, _epochs_without(trace, set().union(*(passes[g] for g in [*gone, s])))):
            gone.append(s)
    needed = tuple(s for s in spots if s not in can_go)
    minimal = tuple(s for s in spots if s not in gone)
    return Barriers(needed, can_go, minimal, tuple(_idle(trace, {s: passes[s] for s in needed})), ())


Passes = dict[Spot, set[tuple[int, int]]]
"""Where a barrier stands -> the block and the epoch of each pass."""


def _epochs_without(trace: Trace, removed: set[tuple[int, int]]) -> np.ndarray:
    """The epoch of each event if these passes of barriers, by block and epoch, were not there."""
    most = 2 + max((e for _, e, _ in trace.machine.passed), default=0)
    lost = np.zeros((len(trace.machine.blocks), most), np.int64)
    for block, epoch in removed:
        lost[block, epoch + 1] += 1
    return trace.epoch - np.cumsum(lost, axis=1)[trace.block, trace.epoch]


def _idle(trace: Trace, passes: Passes) -> Iterator[tuple[Spot, int, int]]:
    for spot, passed in passes.items():
        epochs: dict[int, list[int]] = {}
        for block, epoch in sorted(passed):
            epochs.setdefault(block, []).append(epoch)
        most = max(map(len, epochs.values()))
        for k in range(most):
            chosen = {(block, own[k]) for block, own in epochs.items() if k < len(own)}
            if not races(trace, _epochs_without(trace, chosen)):
                yield spot, k + 1, most


def _missing(trace: Trace) -> list[tuple[Spot, ...]]:
    places = sorted(
        {Spot(kernel.source.name, line) for kernel in trace.kernels for line in kernel.statements}
    )
    sets: list[tuple[Spot, ...]] = [(spot,) for spot in places]
    mends: list[tuple[Spot, ...]] = []
    for _ in range(3):
        left = {}
        for spots in sets:
            other = trace.case.run(trace.case.schedule, trace.without, trace.before | set(spots))
            bad = len(races(other)) + 100 * any(f.kind.startswith("divergent") for f in other.machine.faults)
            left[spots] = bad
        mends = [spots for spots, bad in left.items() if not bad]
        if mends or not left:
            return mends
        best = min(left, key=lambda spots: left[spots])
        sets = [(*best, spot) for spot in places if spot not in best]
    return mends
