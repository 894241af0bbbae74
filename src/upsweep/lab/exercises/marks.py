"""The four marks of an answer: on values, races, work and banks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from upsweep.lab.checks import wanted
from upsweep.lab.costs import counts
from upsweep.lab.exercises import Exercise
from upsweep.lab.findings import Report
from upsweep.lab.reading import Spot
from upsweep.lab.sync import barriers
from upsweep.lab.traces import Trace
from upsweep.lab.traffic import accesses
from upsweep.textbook import KERNELS

POINTS = {"values": 40, "races": 30, "work": 15, "banks": 15}
"""The points of each kind of mark. A run without races counts if its values are right, work and banks once all values are."""
VALUES = ("wrong value", "never written")
SLOWER = 2
"""How many times the model's steps an answer may take: what one thread does alone is not parallel."""


@dataclass(frozen=True)
class Mark:
    """The points for one of the four, and what is to be said about them."""

    what: str
    points: int
    of: int
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = "".join(f"\n    {line}" for remark in self.remarks for line in remark.split("\n"))
        return f"{self.what:>7} {self.points:>3} of {self.of}{said}"


def _share(what: str, good: list[bool], remarks: list[str]) -> Mark:
    points = POINTS[what] * sum(good) // len(good)
    return Mark(what, points, POINTS[what], tuple(dict.fromkeys(remarks)))


def of_values(
    exercise: Exercise, runs: list[tuple[Trace, Trace]], reports: list[Report], right: list[bool]
) -> Mark:
    """The mark for results: points for each run whose result is right, and what is wrong in the first one that is not."""
    remarks = []
    for (run, _), report, good in zip(runs, reports, right):
        if good or remarks:
            continue
        found = [f for f in report if f.kind in VALUES]
        remarks = [f"{_setting(run)}: {f}{_because(exercise, f.kind)}" for f in found]
        remarks = remarks or [f"{_setting(run)}: y is {_short(run.values)} and must be {_short(wanted(run))}"]
        remarks += _blamed(exercise, run, found[0].words[0]) if found and found[0].words else []
    return _share("values", right, remarks)


def _blamed(exercise: Exercise, run: Trace, place: str) -> list[str]:
    """The line of the answer that combined what this word of the result holds, or else the line that stored it."""
    word = next(k for k in range(run.result.size) if run.place(run.result.base + k) == place)
    node = getattr(run.result.words[word], "node", -1)
    combined, stored = (
        run.at("op") & (run.node == node),
        run.at("store") & (run.word == run.result.base + word),
    )
    spots = [run.spot(int(site)) for events in (combined, stored) for site in run.site[events][-1:]]
    own = [spot for spot in spots if spot.kernel in exercise.takes_over.values()]
    return [f"{place} was made in {_quoted(run, own[0])}"] if own else []


def of_races(
    exercise: Exercise, runs: list[tuple[Trace, Trace]], reports: list[Report], right: list[bool]
) -> Mark:
    """The mark for runs without races and other findings, which counts only where the result is right."""
    good, remarks = [], []
    for (run, _), report, values in zip(runs, reports, right):
        # The first finding of each kind stays.
        found = {f.kind: f for f in reversed(report) if f.kind not in VALUES}
        good.append(not found and values)
        if remarks:
            continue
        for finding in reversed(found.values()):
            said = [f"{_setting(run)}: {finding}{_because(exercise, finding.kind)}"]
            said += [_quoted(run, spot) for spot in dict.fromkeys(finding.spots)]
            if finding.kind == "race" and (missing := barriers(run).missing):
                said.append(f"a barrier before {' and before '.join(map(str, missing[0]))} would order them")
            remarks.append("\n".join(said))
    return _share("races", good, remarks or ([] if all(good) else ["counted where the values are right"]))


def of_work(exercise: Exercise, runs: list[tuple[Trace, Trace]]) -> Mark:
    """The mark for operations, steps and barriers, beside those of the model answer."""
    good, remarks = [], []
    for run, model in runs:
        mine, least = counts(run), counts(model)
        said = []
        if mine.work > least.work + exercise.spare:
            form = KERNELS[exercise.like].work
            rule = f" ({form.text})" if form else ""
            most = f"{mine.work} operations where {least.work} are enough{rule}; {_busiest(run)}"
            said.append(most + _because(exercise, "operations"))
        if mine.steps > SLOWER * least.steps:
            long = f"{mine.steps} operations one after the other where {least.steps} steps are enough"
            said.append(f"{long}: let the threads share them")
        if exercise.lean and mine.barriers > least.barriers:
            many = f"{mine.barriers} barriers where {least.barriers} are enough{'' if remarks else _needless(run)}"
            said.append(many + _because(exercise, "barriers"))
        good.append(not said)
        remarks = remarks or [f"{_setting(run)}: {one}" for one in said]
    return _share("work", good, remarks)


def _busiest(run: Trace) -> str:
    """The line that combines most often."""
    spots = Counter(map(run.spot, run.site[run.at("op")].tolist()))
    ((spot, times),) = spots.most_common(1)
    return f"{times} of them in {_quoted(run, spot)}"


def _needless(run: Trace) -> str:
    found = barriers(run)
    said = [f"the one in {spot}" for spot in found.redundant]
    said += [f"the one in {spot} in pass {k} of {of}" for spot, k, of in found.idle]
    return f"; {' or '.join(said[:3])} separates nothing" if said else ""


def of_banks(exercise: Exercise, runs: list[tuple[Trace, Trace]]) -> Mark:
    """The mark for bank conflicts: the worst access of a run may ask one bank for no more words than the model answer's."""
    good, remarks = [], []
    for run, model in runs:
        mine, least = counts(run), counts(model)
        good.append(mine.degree <= least.degree)
        if good[-1] or remarks:
            continue
        worst = max(accesses(run), key=lambda row: row.degree)
        asked = f"{worst.degree} words of one bank asked for at once, {least.degree} would do"
        where = f"{worst.text} in {_quoted(run, worst.spot)}, pass {worst.iteration + 1}"
        remarks = [f"{_setting(run)}: {asked}: {where}{_because(exercise, 'banks')}"]
    return _share("banks", good, remarks)


# --- how it is said -----------------------------------------------------------------------------------------------------


def _setting(run: Trace) -> str:
    held = run.case.schedule.resident
    strings = " strings" if isinstance(run.case.x[0], str) else ""
    return f"n = {run.n}{strings}" + (f", {held} blocks at a time, the last ones first" if held else "")


def _because(exercise: Exercise, kind: str) -> str:
    return f"\n  why: {exercise.why[kind]}" if kind in exercise.why else ""


def _quoted(run: Trace, spot: Spot) -> str:
    source = next(kernel.source for kernel in run.kernels if kernel.source.name == spot.kernel)
    return f"{spot}, `{source.line(spot.line)}`"


def _short(values: list[Any] | None) -> str:
    shown = ["unwritten" if v is None else str(v) for v in (values or [])[:8]]
    return ", ".join(shown) + (" ..." if len(values or []) > 8 else "")
