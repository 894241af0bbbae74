"""Marks for an answer: on values, races, work and banks, each with the line that is to blame and the reason."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from upsweep.lab.cases import case
from upsweep.lab.checks import check, wanted
from upsweep.lab.costs import accesses, counts
from upsweep.lab.exercises import EXERCISES, Exercise
from upsweep.lab.exercises.answers import Answer, read
from upsweep.lab.findings import Report
from upsweep.lab.machine import scope
from upsweep.lab.reading import KernelError, Spot
from upsweep.lab.schedule import Schedule
from upsweep.lab.sync import barriers
from upsweep.lab.traces import Case, Trace
from upsweep.textbook import KERNELS

POINTS = {"values": 40, "races": 30, "work": 15, "banks": 15}
"""The points of each kind of mark. A run without races counts if its values are right, work and banks once all values are."""
VALUES = ("wrong value", "never written")
WITNESSED = 33
"""The largest n at which a race is shown by a schedule; beyond, its lines are enough."""
SLOWER = 2
"""How many times the model's steps an answer may take: what one thread does alone is not parallel."""

SECONDS = 60
MEMORY = 3 << 30
"""The seconds and the bytes that a solution may take, in a process of its own."""


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


@dataclass(frozen=True)
class Grade:
    """All marks of one answer."""

    exercise: Exercise
    marks: tuple[Mark, ...]

    @property
    def points(self) -> int:
        return sum(mark.points for mark in self.marks)

    @property
    def passed(self) -> bool:
        return self.points == sum(mark.of for mark in self.marks)

    def __str__(self) -> str:
        head = f"exercise {self.exercise.number}, {self.exercise.name}: {self.points} of {sum(m.of for m in self.marks)}"
        return "\n".join([head, *map(str, self.marks)])


def grade(path: str | Path) -> Grade:
    """Grade a file that answers one of the exercises; its functions, or its constants, say which.

    The file is read and not run: its kernels are traced in a process of their own, with a limit of time and of memory,
    and nothing else in it counts. Where there are no processes, as in a browser, they are traced in this one.

    Raises:
        ValueError: where the file answers none.
    """
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    return graded(text, path.name) if sys.platform in ("emscripten", "wasi") else _apart(text, path.name)


def _apart(text: str, file: str) -> Grade:
    """`graded` in a child process."""
    answer = read(text, file)
    exercise = _answered(answer)
    asked = json.dumps({"text": text, "file": file})
    quiet = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    # In an empty folder Python finds no module of the student's.
    with tempfile.TemporaryDirectory() as empty:
        try:
            done = subprocess.run([sys.executable, "-m", "upsweep.lab.exercises.child"], input=asked, text=True, timeout=SECONDS,
                                  capture_output=True, cwd=empty, env=quiet)  # fmt: skip
        except subprocess.TimeoutExpired:
            return _none(
                exercise, [f"{file} was stopped after {SECONDS} seconds: something in it does not end"]
            )
    # The mistake is ours or Python's: its last line is shown.
    if done.returncode > 0:
        last = (done.stderr.strip().splitlines() or ["it ended"])[-1]
        return _none(exercise, [f"{file} was stopped: {last}"])
    if done.returncode < 0:
        return _none(
            exercise,
            [f"{file} was stopped: it took more than {MEMORY >> 30} GiB, or more than {SECONDS} seconds"],
        )
    said = json.loads(done.stdout)
    return Grade(exercise, tuple(Mark(m["what"], m["points"], m["of"], tuple(m["remarks"])) for m in said))


def graded(text: str, file: str = "answer.py") -> Grade:
    """Grade the text of an answer in this process.

    Raises:
        ValueError: where it answers no exercise.
    """
    answer = read(text, file)
    exercise = _answered(answer)
    if answer.blanks:
        return _none(exercise, [f"line {line} still has a blank" for line in answer.blanks])
    return _asked(exercise, answer) if exercise.questions else _traced(exercise, answer)


def _answered(answer: Answer) -> Exercise:
    for exercise in EXERCISES.values():
        named = [q.name for q in exercise.questions]
        if named and any(name in answer.constants for name in named):
            return exercise
        if not named and all(name in answer.functions for name in exercise.takes_over.values()):
            return exercise
    names = "; ".join(f"{e.number}: {', '.join(e.takes_over.values()) or e.name}" for e in EXERCISES.values())
    raise ValueError(f"{answer.file} holds the function of no exercise, nor its constants ({names})")


def _asked(exercise: Exercise, answer: Answer) -> Grade:
    """Marks for predictions: a share for each that the run agrees with."""
    right, remarks = 0, []
    for question in exercise.questions:
        said, is_so = answer.constants.get(question.name), question.answer()
        said = list(said) if isinstance(said, tuple) else said
        right += said == is_so
        if said != is_so:
            remarks.append(f"{question.name} is {is_so}, and not {said}\n  why: {question.why}")
    points = 100 * right // len(exercise.questions)
    return Grade(exercise, (Mark("answers", points, 100, tuple(remarks)),))


def _traced(exercise: Exercise, answer: Answer) -> Grade:
    """Marks for kernels, by what their runs show."""
    try:
        runs: list[tuple[Trace, Trace]] = []
        reports: list[Report] = []
        for posed, model, named in cases(exercise, answer):
            if not named and any(reports):
                # Other sizes are run once those that the task names are right.
                break
            runs.append((posed.run(), model.run()))
            reports.append(check(runs[-1][0], witness=posed.setup.tile <= WITNESSED))
            if runs[-1][0].machine.stopped:
                # A kernel that never ends here will not end elsewhere.
                break
    except KernelError as error:
        return _none(exercise, [str(error)])
    except MemoryError:
        return _none(exercise, [f"{answer.file} takes too much memory"])
    right = [
        run.values == wanted(run) and not report.kinds & {*VALUES, "deadlock"}
        for (run, _), report in zip(runs, reports)
    ]
    values = _values(exercise, runs, reports, right)
    marks = [values, _races(exercise, runs, reports, right)]
    if values.points < values.of:
        marks += [
            Mark(what, 0, POINTS[what], ("counted once the values are right",)) for what in ("work", "banks")
        ]
    else:
        marks += [_work(exercise, runs), _banks(exercise, runs)]
    return Grade(exercise, tuple(marks))


def _none(exercise: Exercise, remarks: list[str]) -> Grade:
    if exercise.questions:
        return Grade(exercise, (Mark("answers", 0, 100, tuple(remarks)),))
    first = Mark("values", 0, POINTS["values"], tuple(remarks))
    return Grade(exercise, (first, *(Mark(what, 0, POINTS[what]) for what in list(POINTS)[1:])))


def cases(exercise: Exercise, answer: Answer) -> Iterator[tuple[Case, Case, bool]]:
    """The cases that an answer is run on, each beside the textbook's kernel on the same items, and whether the task names it.

    Sums and strings put together at the sizes that the task names; then, on items in a random order, sizes that it does
    not name.
    """
    sums = KERNELS[exercise.like].answer is not None
    for held in exercise.held:
        for n in exercise.sizes:
            yield *_posed(exercise, answer, held, exercise.block, {"n": n}), True
        if not sums:
            letters = [chr(97 + k % 26) for k in range(exercise.sizes[0])]
            given = {"x": letters, "op": lambda a, b: a + b, "identity": ""}
            yield *_posed(exercise, answer, held, exercise.block, given), True
    for n, block in exercise.hidden:
        items = list(case(exercise.like, n=n).x)
        random.shuffle(items)
        yield *_posed(exercise, answer, exercise.held[-1], block, {"x": items}), False


def _posed(
    exercise: Exercise, answer: Answer, held: int | None, block: int | None, given: dict[str, Any]
) -> tuple[Case, Case]:
    model = case(exercise.like, block=block, **given)
    if held:
        model = replace(model, schedule=Schedule(resident=held, issue="descending"))
    launches = list(model.setup.launches)
    for k, name in exercise.takes_over.items():
        needed, taken = len(launches[k].args), answer.parameters[name]
        if needed != taken:
            raise KernelError(
                f"{name} is launched with {needed} arguments and takes {taken}: keep its first line"
            )
        sizes = {n: value for n, value in scope(launches[k].kernel).items() if n.isupper()}
        names = {**sizes, **answer.surroundings, **launches[k].names}
        launches[k] = replace(launches[k], kernel=answer.functions[name], names=names)
    return replace(model, name=exercise.name, setup=replace(model.setup, launches=tuple(launches))), model


# --- the four marks -----------------------------------------------------------------------------------------------------


def _share(what: str, good: list[bool], remarks: list[str]) -> Mark:
    points = POINTS[what] * sum(good) // len(good)
    return Mark(what, points, POINTS[what], tuple(dict.fromkeys(remarks)))


def _values(
    exercise: Exercise, runs: list[tuple[Trace, Trace]], reports: list[Report], right: list[bool]
) -> Mark:
    remarks = []
    for (run, _), report, good in zip(runs, reports, right):
        if good or remarks:
            continue
        found = [f for f in report if f.kind in VALUES]
        remarks = [f"{_setting(run)}: {f}{_because(exercise, f.kind)}" for f in found]
        remarks = remarks or [f"{_setting(run)}: y is {_short(run.values)} and must be {_short(wanted(run))}"]
        remarks += _blamed(run, found[0].words[0]) if found and found[0].words else []
    return _share("values", right, remarks)


def _blamed(run: Trace, place: str) -> list[str]:
    """The line that combined what this word of the result holds, or else the line that stored it."""
    word = next(k for k in range(run.result.size) if run.place(run.result.base + k) == place)
    node = getattr(run.result.words[word], "node", -1)
    where = np.flatnonzero(run.at("op") & (run.node == node))
    if not len(where):
        where = np.flatnonzero(run.at("store") & (run.word == run.result.base + word))
    return [f"{place} was made in {_quoted(run, run.spot(int(run.site[where[-1]])))}"] if len(where) else []


def _races(
    exercise: Exercise, runs: list[tuple[Trace, Trace]], reports: list[Report], right: list[bool]
) -> Mark:
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


def _work(exercise: Exercise, runs: list[tuple[Trace, Trace]]) -> Mark:
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


def _banks(exercise: Exercise, runs: list[tuple[Trace, Trace]]) -> Mark:
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


def to_json(result: Grade) -> str:
    """The marks, for the process that asked for them."""
    return json.dumps([asdict(mark) for mark in result.marks])
