"""A race as a film: the two threads alone, in the one order and in the other, and what comes of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from upsweep.lab.checks import same, wanted
from upsweep.lab.findings import Finding
from upsweep.lab.play import text
from upsweep.lab.schedule import Schedule
from upsweep.lab.traces import Trace


@dataclass(frozen=True)
class Shot:
    """One access to the word that two threads race for."""

    block: int
    thread: int
    line: int
    kind: str
    """load, store or atomic"""
    value: str
    """What the load saw, or what the store or atomic left."""


@dataclass(frozen=True)
class Order:
    """One of the two orders: what the two threads did to the word, what it held in the end, and what became of the result."""

    schedule: Schedule
    shots: tuple[Shot, ...]
    ends: str
    wrong: tuple[str, str, str] | None
    """The first word of the result that is wrong, what it holds, and what it must hold."""


@dataclass(frozen=True)
class Film:
    """A race in both orders."""

    word: str
    orders: tuple[Order, Order]

    def to_dict(self) -> dict[str, Any]:
        """Ready for `json.dumps`: `{"word": "xy[3]", "orders": [{"schedule": ..., "shots": [{"block": 0, "thread": 4,
        "line": 21, "kind": "load", "value": "7"}, ...], "ends": "7", "wrong": ["y[4]", "9", "15"] or null}, ...]}`."""
        return {"word": self.word, "orders": [
            {"schedule": str(o.schedule), "shots": [vars(shot) for shot in o.shots], "ends": o.ends,
             "wrong": None if o.wrong is None else list(o.wrong)}
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


def film(trace: Trace, finding: Finding) -> Film | None:
    """Run a race in both orders; None for a finding that is no race.

    The two threads, or the two blocks, come first: the one in the first order, the other in the second.
    """
    if finding.events is None:
        return None
    a, b = finding.events
    word = trace.place(int(trace.word[a]))
    return Film(word, (_order(trace, a, b), _order(trace, b, a)))


def _order(trace: Trace, first: int, then: int) -> Order:
    blocks = [trace.machine.blocks[int(trace.block[e])].index for e in (first, then)]
    threads = [int(trace.thread[e]) for e in (first, then)]
    held = trace.case.schedule
    if blocks[0] == blocks[1]:
        schedule = Schedule(tuple(threads), held.resident, held.issue)
    else:
        grid = trace.case.setup.launches[int(trace.launch[first])].grid
        schedule = Schedule(issue=(*blocks, *(k for k in range(grid) if k not in blocks)), resident=1)
    run = trace.case.run(schedule, trace.without, trace.before)
    if any(f.kind == "deadlock" for f in run.machine.faults):
        run = trace.case.run(Schedule(issue=schedule.issue), trace.without, trace.before)
    shots, ends = _shots(run, trace, first, set(blocks), set(threads))
    return Order(run.case.schedule, shots, ends, _first_wrong(run))


def _shots(
    run: Trace, trace: Trace, event: int, blocks: set[int], threads: set[int]
) -> tuple[tuple[Shot, ...], str]:
    """What the two did to the word between the same two barriers, each with its value."""
    array, offset = trace.owner(int(trace.word[event]))
    mine = [
        a
        for a in run.arrays
        if a.name == array.name and a.space == array.space and _block(run, a) == _block(trace, array)
    ]
    if not mine:
        return (), "?"
    word = mine[0].base + offset
    writes = np.flatnonzero(run.at("store", "atomic"))
    left = dict(zip(writes.tolist(), run.machine.stored))
    now = text(run.case.x[offset]) if array.name == "x" and array.space == "global" else "?"
    shots = []
    crosses = len(blocks) > 1
    for e in np.flatnonzero((run.space > 0) & (run.word == word)).tolist():
        now = text(left[e]) if e in left else now
        index, thread = run.machine.blocks[int(run.block[e])].index, int(run.thread[e])
        same_stretch = crosses or run.epoch[e] == trace.epoch[event]
        if index in blocks and thread in threads and same_stretch and run.launch[e] == trace.launch[event]:
            site = run.sites[int(run.site[e])]
            shots.append(Shot(index, thread, site.line, site.kind, now))
    return tuple(shots), now


def _block(run: Trace, array: Any) -> tuple[int, int] | None:
    block = run.machine.blocks[array.block] if array.block >= 0 else None
    return None if block is None else (block.launch, block.index)


def _first_wrong(run: Trace) -> tuple[str, str, str] | None:
    for place, (got, want) in enumerate(zip(run.values, wanted(run) or ())):
        if not same(got, want):
            return run.place(run.result.base + place), text(got), text(want)
    return None
