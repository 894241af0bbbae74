"""A race as a film: what its two threads do to the word, access by access, in the one order and in the other.

Each order is a real run, under a schedule in which the two come in that order. Of such schedules the film takes, for the order
of the program, one with the right result, and for the other order one with a wrong result, if there are any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from upsweep.lab.checks import same, schedules, wanted
from upsweep.lab.findings import Finding
from upsweep.lab.play import Cut, text, to_dict
from upsweep.lab.schedule import Schedule
from upsweep.lab.traces import Trace, of_run


@dataclass(frozen=True)
class Shot:
    """One access to the word that two threads race for."""

    block: int
    thread: int
    line: int
    kind: str
    """load, store or atomic"""
    value: str
    """The value that the load saw, or that the store or atomic left."""


@dataclass(frozen=True)
class Order:
    """One of the two orders: the accesses of both threads to the word, the word's last value, and the result."""

    schedule: Schedule
    shots: tuple[Shot, ...]
    ends: str
    wrong: tuple[str, str, str] | None
    """The first word of the result that is wrong, its value, and the right value."""
    run: Trace
    accesses: tuple[int, ...]
    """The shots as places in the run's columns."""

    def reel(self) -> dict[str, Any]:
        """The run for the page's player: a step for all that comes before, a step for each shot, and a step for the rest."""
        events = np.arange(len(self.run.site))
        first, *others = self.accesses
        cuts = np.array([first, *others, self.accesses[-1] + 1])
        return to_dict(
            self.run, cut=Cut(np.searchsorted(cuts, events, "right"), np.isin(events, self.accesses))
        )


@dataclass(frozen=True)
class Film:
    """A race in both orders."""

    word: str
    orders: tuple[Order, Order]

    def to_dict(self) -> dict[str, Any]:
        """Ready for `json.dumps`: `{"word": "xy[3]", "orders": [{"schedule": ..., "shots": [{"block": 0, "thread": 4,
        "line": 21, "kind": "load", "value": "7"}, ...], "ends": "7", "wrong": ["y[4]", "9", "15"] or null,
        "trace": {...}}, ...]}`; `trace` is a run as `upsweep.lab.play.to_dict` gives it, whose step k + 1 is shot k."""
        return {"word": self.word, "orders": [
            {"schedule": str(o.schedule), "shots": [vars(shot) for shot in o.shots], "ends": o.ends,
             "wrong": None if o.wrong is None else list(o.wrong), "trace": o.reel()}
            for o in self.orders
        ]}  # fmt: skip

    def __str__(self) -> str:
        said = [f"{self.word}, in both orders"]
        for order in self.orders:
            shots = ", then ".join(
                f"thread {s.thread} {'reads' if s.kind == 'load' else 'writes'} {s.value} in line {s.line}"
                for s in order.shots
            )
            end = "{} becomes {} instead of {}".format(*order.wrong) if order.wrong else "no wrong result"
            said.append(f"  {shots}: {end}")
        return "\n".join(said)


@of_run
def film(trace: Trace, finding: Finding) -> Film | None:
    """Run a race in both orders; None for a finding that is no race, and where only one order is ever seen.

    >>> from upsweep import lab
    >>> run = lab.trace("ks-no-second-barrier")
    >>> race, *_ = lab.check(run)
    >>> print(str(lab.film(run, race)).splitlines()[2].strip())
    thread 1 reads 2 in line 72, then thread 1 writes 3 in line 74, then thread 2 reads 3 in line 72: y[2] becomes 7 instead of 6
    """
    if finding.events is None:
        return None
    a, b = finding.events
    meant, other = _order(trace, a, b, right=True), _order(trace, b, a, right=False)
    if meant is None or other is None:
        return None
    return Film(trace.place(int(trace.word[a])), (meant, other))


def _order(trace: Trace, first: int, then: int, right: bool) -> Order | None:
    """A run in which the one access comes before the other, with a right, or a wrong, result if there is such a run."""
    found = None
    for schedule in (*_two_first(trace, first, then), *schedules(trace)):
        order = _filmed(trace.case.run(schedule, trace.without, trace.before), trace, first, then)
        if order is not None and (order.wrong is None) == right:
            return order
        found = found or order
    return found


def _two_first(trace: Trace, first: int, then: int) -> Iterator[Schedule]:
    """The two threads, or the two blocks, before all others."""
    (block, thread, *_), (next_block, next_thread, *_) = _access(trace, first), _access(trace, then)
    held = trace.case.schedule
    if block == next_block:
        yield Schedule((thread, next_thread), held.resident, held.issue)
        return
    grid = trace.case.setup.launches[int(trace.launch[first])].grid
    issue = (block, next_block, *(k for k in range(grid) if k not in (block, next_block)))
    yield Schedule(issue=issue, resident=1)
    yield Schedule(issue=issue)


def _access(trace: Trace, e: int) -> tuple[int, int, int, str]:
    """Who accessed a word, in which line, and how."""
    site = trace.sites[int(trace.site[e])]
    return trace.machine.blocks[int(trace.block[e])].index, int(trace.thread[e]), site.line, site.kind


def _filmed(run: Trace, trace: Trace, first: int, then: int) -> Order | None:
    """A run as a film of two accesses of a trace; None where they do not come in this order."""
    if any(fault.kind == "deadlock" for fault in run.machine.faults):
        return None
    events, shots, ends = _shots(run, trace, first, then)
    done = [(shot.block, shot.thread, shot.line, shot.kind) for shot in shots]
    asked = [_access(trace, e) for e in (first, then)]
    if not all(one in done for one in asked) or done.index(asked[0]) > done.index(asked[1]):
        return None
    return Order(run.case.schedule, tuple(shots), ends, _first_wrong(run), run, tuple(events))


def _shots(run: Trace, trace: Trace, first: int, then: int) -> tuple[list[int], list[Shot], str]:
    """The accesses of the two to the word between the same two barriers, each with its value; and the word's value in the end."""
    array, offset = trace.owner(int(trace.word[first]))
    mine = [
        a
        for a in run.arrays
        if (a.name, a.space, _block(run, a)) == (array.name, array.space, _block(trace, array))
    ]
    events: list[int] = []
    shots: list[Shot] = []
    if not mine:
        return events, shots, "?"
    word = mine[0].base + offset
    left = dict(zip(np.flatnonzero(run.at("store", "atomic")).tolist(), run.machine.stored))
    now = text(run.case.x[offset]) if array.name == "x" and array.space == "global" else "?"
    actors = [_access(trace, e)[:2] for e in (first, then)]
    crosses = actors[0][0] != actors[1][0]
    for e in np.flatnonzero((run.space > 0) & (run.word == word)).tolist():
        now = text(left[e]) if e in left else now
        block, thread, line, kind = _access(run, e)
        same_stretch = crosses or run.epoch[e] == trace.epoch[first]
        if (block, thread) in actors and same_stretch and run.launch[e] == trace.launch[first]:
            events.append(e)
            shots.append(Shot(block, thread, line, kind, now))
    return events, shots, now


def _block(run: Trace, array: Any) -> tuple[int, int] | None:
    block = run.machine.blocks[array.block] if array.block >= 0 else None
    return None if block is None else (block.launch, block.index)


def _first_wrong(run: Trace) -> tuple[str, str, str] | None:
    for place, (got, want) in enumerate(zip(run.values, wanted(run) or ())):
        if not same(got, want):
            return run.place(run.result.base + place), text(got), text(want)
    return None
