"""The faults of a kernel: races with a schedule that shows them, wild accesses, wrong results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from upsweep.lab.findings import Finding, Report, Witness, ordered
from upsweep.lab.intervals import Intervals, flaw, spoken
from upsweep.lab.machine import Fault
from upsweep.lab.races import by_cause, races
from upsweep.lab.reading import Spot
from upsweep.lab.schedule import Schedule
from upsweep.lab.traces import Case, Trace, of_run
from upsweep.lab.values import Item, Poison, plain

SEARCHED = 8
"""Random schedules that are tried before a race is reported without a witness."""


@of_run
def check(trace: Trace, witness: bool = True) -> Report:
    """All findings of a trace, causes first, races with a schedule that shows a wrong value where one is found.

    >>> from upsweep import lab
    >>> print(lab.check(lab.trace("kogge-stone", n=8)))
    nothing is wrong
    >>> sorted(lab.check(lab.trace("ks-no-second-barrier")).kinds)
    ['race', 'wrong value']
    """
    raw = races(trace)
    raced = {word for f in raw for word in f.words}
    found = [*_limits(trace), *by_cause(trace, raw), *_faults(trace), *_coverage(trace), *_wrong(trace)]
    if witness and raw:
        seen = find_witness(trace)
        unseen = "" if seen else "; no schedule of whole accesses shows it, a GPU that reorders them may"
        found = [replace(f, text=f.text + unseen, witness=seen) if f.kind == "race" else f for f in found]
    return ordered(found, raced)


# --- witnesses --------------------------------------------------------------------------------------------------------


def wanted(trace: Trace) -> list[object] | None:
    """The right result, as the definition of a scan gives it; None where the kernel promises nothing."""
    case = trace.case
    if case.answer is not None:
        return list(case.answer(case.x))
    if case.expected is None:
        return None
    return _folds(case, [case.expected(i) for i in range(trace.result.size)])


def _folds(case: Case, asked: list[Intervals | None]) -> list[object]:
    """The fold from the left of each stretch of the input, every prefix of a stretch made once."""
    made: dict[int, list[object]] = {}
    out: list[object] = []
    for intervals in asked:
        if not intervals:
            out.append(case.identity)
            continue
        ((low, high),) = intervals
        prefixes = made.setdefault(low, [case.x[low]])
        while len(prefixes) <= high - low:
            prefixes.append(case.op(prefixes[-1], case.x[low + len(prefixes)]))
        out.append(prefixes[high - low])
    return out


def find_witness(trace: Trace) -> Witness | None:
    """A schedule under which the result differs from the right one, or from that of another schedule."""
    right = wanted(trace)
    for schedule in schedules(trace):
        other = trace.case.run(schedule, trace.without, trace.before)
        if right is None:
            right = trace.values
        for place, (got, want) in enumerate(zip(other.values, right)):
            if not same(got, want):
                return Witness(schedule, other.place(other.result.base + place), _shown(got), _shown(want))
    return None


def same(got: object, want: object) -> bool:
    """Whether two values are equal; floats, as far as another order of additions may move them."""
    if isinstance(got, float) and isinstance(want, float):
        return bool(np.isclose(got, want, rtol=1e-6, equal_nan=True))
    return bool(np.all(np.asarray(got == want)))


def _shown(value: object) -> str:
    return "unwritten" if value is None else str(plain(value))


def schedules(trace: Trace) -> Iterator[Schedule]:
    """Orders of threads and blocks of all sorts."""
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


def _limits(trace: Trace) -> list[Finding]:
    """The demands of a launch that no GPU can meet."""
    out = []
    for launch, text in trace.machine.limits:
        source = trace.kernels[launch].source
        out.append(
            Finding("launch limit", f"{source.name} asks for {text}", (Spot(source.name, source.first),))
        )
    return out


def _faults(trace: Trace) -> list[Finding]:
    """The faults that the machine noticed as it ran: one finding a kind and site, and one an array that is read unwritten."""
    groups: dict[tuple[str, object], list[int]] = {}
    for k, fault in enumerate(trace.machine.faults):
        where = fault.text.split("[")[0] if fault.kind == "uninitialised" else fault.site
        groups.setdefault((fault.kind, where), []).append(k)
    return [_fault(trace, kind, which) for (kind, _), which in groups.items()]


def _fault(trace: Trace, kind: str, which: list[int]) -> Finding:
    faults = [trace.machine.faults[k] for k in which]
    first, where = faults[0], trace.sites[faults[0].site]
    spots = tuple(dict.fromkeys(trace.spot(fault.site) for fault in faults))
    verb = "reads" if where.kind == "load" else "writes" if where.kind == "store" else "meets"
    who = f"thread {first.thread} of block {trace.machine.blocks[first.block].index}"
    more = f" ({len(which)} times)" if len(which) > 1 else ""
    others = ", ".join(str(s.line) for s in spots[1:])
    also = f", and so {'does line' if len(spots) == 2 else 'do lines'} {others}" if others else ""
    text = {
        "uninitialised": f"line {where.line} reads {first.text}, which nobody has written{also}: {who}{more}",
        "out of bounds": f"line {where.line} {verb} {where.text} outside of {first.text}: {who}{_overlap(trace, first)}{more}",
        "overflow": f"line {where.line}: {where.text} is {first.text}, which no int32 holds, and an int of CUDA C is one: "
        f"{who}{more}",
    }.get(kind, f"line {where.line}: {first.text}{more}")
    words = tuple(dict.fromkeys(fault.text for fault in faults))[:64]
    return Finding(kind, text, spots, words=words)


def _overlap(trace: Trace, fault: Fault) -> str:
    """Where a place outside of a shared array lies on a GPU, which puts the arrays of a block side by side."""
    mine = [a for a in trace.arrays if a.space == "shared" and a.block == fault.block]
    array = next((a for a in mine if a.name == fault.text), None)
    index = fault.index[0] if isinstance(fault.index, tuple) and len(fault.index) == 1 else fault.index
    if array is None or isinstance(index, (tuple, Poison)):
        return ""
    place, begin = int(index) * array.itemsize, 0
    starts = []
    for a in mine:
        starts.append((begin, a))
        begin += a.size * a.itemsize
    place += next(start for start, a in starts if a is array)
    for start, a in starts:
        if start <= place < start + a.size * a.itemsize:
            return f", place {int(index)}, which overlaps {a.place((place - start) // a.itemsize)}"
    return f", place {int(index)}"


def _coverage(trace: Trace) -> list[Finding]:
    """Every word of the result is written once."""
    y = trace.result
    if any(f.kind == "deadlock" for f in trace.machine.faults):
        return []
    stores = trace.at("store") & (trace.word >= y.base) & (trace.word < y.base + y.size)
    launch_and_word = zip(trace.launch[stores].tolist(), trace.word[stores].tolist())
    times = Counter(launch_and_word)
    out = []
    never = [trace.place(y.base + k) for k, word in enumerate(y.words) if word is None]
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
    right = wanted(trace)
    bad = [] if right is None else [
        place for place, (item, want) in enumerate(zip(trace.result.words, right))
        if item is not None and (not _made_right(trace, place, item) or not same(plain(item), want))
    ]  # fmt: skip
    if not bad:
        return []
    words = tuple(trace.place(trace.result.base + place) for place in bad)
    more = f" ({len(bad)} words are wrong)" if len(bad) > 1 else ""
    if trace.case.answer is not None:
        return [Finding("wrong value", f"{_list(list(words))} of the result{more}", words=words)]
    first = next((p for p in bad if not _made_right(trace, p, trace.result.words[p])), bad[0])
    assert right is not None
    why, spots = _why(trace, first, right[first])
    text = f"{trace.place(trace.result.base + first)} holds {why}{more}"
    return [Finding("wrong value", text, spots, words=words)]


def _made_right(trace: Trace, place: int, item: object) -> bool:
    """Whether a word of the result is made of the inputs that it must be made of."""
    want = trace.case.expected(place) if trace.case.expected else None
    made = trace.intervals[item.node] if isinstance(item, Item) else ()
    spoilt = isinstance(plain(item), Poison)
    # a value that no item is part of is judged as a value: an operator may have been written in another way
    known = isinstance(item, Item)
    return want is None or (not spoilt and (not known or _accepted(made, want, trace.case.needs)))


def _why(trace: Trace, place: int, want: object) -> tuple[str, tuple[Spot, ...]]:
    """The fault of a word of the result, told by the operands that it was made of, and the line that is to blame, if there is
    one.
    """
    item, case = trace.result.words[place], trace.case
    asked = (case.expected(place) if case.expected else None) or ()
    made = trace.intervals[item.node] if isinstance(item, Item) else ()
    if not _made_right(trace, place, item):
        how = {"order": "in the wrong order", "gap": "with a gap", "overlap": "with something twice"}.get(
            flaw(made) or "", ""
        )
        how = "and what nobody has written" if isinstance(plain(item), Poison) else how
        return f"{spoken(made)} {how} and not {spoken(asked)}".replace("  ", " "), ()
    values = f"{_shown(item)} and not {_shown(want)}"
    if not isinstance(item, Item):
        return f"{values}, which is not made by the operator", ()
    line, said = _changed(trace, item)
    if line is not None:
        return f"{values}, though it is made of {spoken(made)}: {said}", (line,)
    law = {"commutative": "commute", "idempotent": "be idempotent"}.get(case.needs, "be associative")
    return f"{values}, though it is made of {spoken(made)}: {case.op_name} would have to {law}", ()


def _changed(trace: Trace, item: Item) -> tuple[Spot | None, str]:
    """The line where a value is changed by something else than the operator, or meets a constant that is no identity."""
    machine, case = trace.machine, trace.case
    true: dict[int, object] = {}
    for k in (k for k in range(item.node + 1) if k in _below(trace, item.node)):
        a, b = machine.left[k], machine.right[k]
        if a < 0:
            true[k] = machine.values[k]
            continue
        at = np.flatnonzero(trace.at("op") & (trace.node == k))
        spot = trace.spot(int(trace.site[at[0]])) if len(at) else None
        true[k] = case.op(true[a], true[b])
        for constant, other in ((a, b), (b, a)):
            if machine.left[constant] < 0 and constant >= trace.n and not trace.intervals[constant] and not same(
                true[k], true[other]
            ):  # fmt: skip
                return spot, f"{spot} takes {_shown(true[constant])} for an identity, which it is not"
        if not same(true[k], machine.values[k]):
            where = next((s for c in (a, b) if (s := _first_change(trace, c, true[c]))), spot)
            return where, f"{where} changes a value by something else than the operator"
    if not same(true[item.node], item.value):
        spot = _first_change(trace, item.node, true[item.node])
        return spot, f"{spot} changes a value by something else than the operator"
    return None, ""


def _first_change(trace: Trace, node: int, value: object) -> Spot | None:
    """The line that first stores a node's value as something else."""
    writes = np.flatnonzero(trace.at("store", "atomic")).tolist()
    changed = (
        e
        for e, left in zip(writes, trace.machine.stored)
        if trace.node[e] == node and not same(plain(left), value)
    )
    return next((trace.spot(int(trace.site[e])) for e in changed), None)


def _below(trace: Trace, node: int) -> set[int]:
    """The nodes that a node is made of, itself among them."""
    found: set[int] = set()
    stack = [node]
    while stack:
        k = stack.pop()
        if k >= 0 and k not in found:
            found.add(k)
            stack += (trace.machine.left[k], trace.machine.right[k])
    return found


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
