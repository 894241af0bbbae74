"""Marks for an answer: on values, races, work and banks, each with the line that is to blame and the reason."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from upsweep.lab.cases import case
from upsweep.lab.checks import Report, wanted
from upsweep.lab.exercises import EXERCISES, Exercise
from upsweep.lab.machine import Schedule
from upsweep.lab.rewrite import KernelError, Spot
from upsweep.lab.traces import Case, Trace
from upsweep.textbook import KERNELS

POINTS = {"values": 40, "races": 30, "work": 15, "banks": 15}
"""What each kind of mark is worth. A run without races counts if its values are right, work and banks once all values are."""
VALUES = ("wrong value", "never written")
SLOWER = 2
"""How many times the model's steps an answer may take: what one thread does alone is not parallel."""

Functions = Mapping[int, Callable[..., None]]


@dataclass(frozen=True)
class Mark:
    """The points for one of the four, and what is to be said about them."""

    what: str
    points: int
    of: int
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = "".join(f"\n    {line}" for remark in self.remarks for line in remark.split("\n"))
        return f"{self.what:>6} {self.points:>3} of {self.of}{said}"


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
        return self.points == sum(POINTS.values())

    def __str__(self) -> str:
        head = (
            f"exercise {self.exercise.number}, {self.exercise.name}: {self.points} of {sum(POINTS.values())}"
        )
        return "\n".join([head, *map(str, self.marks)])


def grade(path: str | Path) -> Grade:
    """Grade a file that answers one of the exercises; its functions say which.

    The file is imported: grade what you would run.

    Raises:
        ValueError: where the file answers none.
    """
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    try:
        blanks = sorted(
            node.lineno
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and node.value is ...
        )
        module = _loaded(path)
    except SyntaxError as error:
        raise ValueError(f"{path.name}:{error.lineno}: {error.msg}") from error
    exercise = _answered(path, module)
    if blanks:
        return _none(exercise, [f"line {line} still has a blank" for line in blanks])
    functions = {launch: getattr(module, name) for launch, name in exercise.takes_over.items()}
    return graded(exercise, functions)


def _loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"answer_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _answered(path: Path, module: Any) -> Exercise:
    for exercise in EXERCISES.values():
        if all(hasattr(module, name) for name in exercise.takes_over.values()):
            return exercise
    names = "; ".join(f"{e.number}: {', '.join(e.takes_over.values())}" for e in EXERCISES.values())
    raise ValueError(f"{path.name} holds the function of no exercise ({names})")


def graded(exercise: Exercise, functions: Functions) -> Grade:
    """Grade functions, by the launch that each takes over."""
    try:
        runs = [(posed.run(), model.run()) for posed, model in cases(exercise, functions)]
    except KernelError as error:
        return _none(exercise, [str(error)])
    except Exception as error:  # whatever the student's code raises is shown to the student
        return _none(exercise, [f"{type(error).__name__}: {error}{_raised_in(error, functions)}"])
    reports = [run.check() for run, _ in runs]
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


def _raised_in(error: BaseException, functions: Functions) -> str:
    """The line of the student's file that raised."""
    names = {function.__code__.co_filename for function in functions.values()}
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename in names]
    return f", in line {lines[-1]}" if lines else ""


def _none(exercise: Exercise, remarks: list[str]) -> Grade:
    first = Mark("values", 0, POINTS["values"], tuple(remarks))
    return Grade(exercise, (first, *(Mark(what, 0, POINTS[what]) for what in list(POINTS)[1:])))


def cases(exercise: Exercise, functions: Functions) -> Iterator[tuple[Case, Case]]:
    """What an answer is run on, each beside the textbook's kernel on the same items: sums, and strings put together."""
    for held in exercise.held:
        for n in exercise.sizes:
            yield _posed(exercise, functions, held, {"n": n})
        letters = [chr(97 + k % 26) for k in range(exercise.sizes[0])]
        yield _posed(exercise, functions, held, {"x": letters, "op": lambda a, b: a + b, "identity": ""})


def _posed(
    exercise: Exercise, functions: Functions, held: int | None, given: dict[str, Any]
) -> tuple[Case, Case]:
    model = case(exercise.like, block=exercise.block, **given)
    if held:
        model = replace(model, schedule=Schedule(resident=held, issue="descending"))
    launches = [
        replace(launch, kernel=functions.get(k, launch.kernel))
        for k, launch in enumerate(model.setup.launches)
    ]
    for k, function in functions.items():
        needed, taken = len(launches[k].args), len(inspect.signature(function).parameters)
        if needed != taken:
            raise KernelError(
                f"{function.__name__} is launched with {needed} arguments and takes {taken}: keep its first line"
            )
    return replace(model, name=exercise.name, setup=replace(model.setup, launches=tuple(launches))), model


# --- the four marks -----------------------------------------------------------------------------------------------------


def _share(what: str, good: list[bool], remarks: list[str]) -> Mark:
    return Mark(what, POINTS[what] * sum(good) // len(good), POINTS[what], tuple(dict.fromkeys(remarks)))


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
        found = {f.kind: f for f in reversed(report) if f.kind not in VALUES}  # the first one of each kind
        good.append(not found and values)
        if remarks:
            continue
        for finding in reversed(found.values()):
            said = [f"{_setting(run)}: {finding}{_because(exercise, finding.kind)}"]
            said += [_quoted(run, spot) for spot in dict.fromkeys(finding.spots)]
            if finding.kind == "race" and (missing := run.barriers().missing):
                said.append(f"a barrier before {' and before '.join(map(str, missing[0]))} would order them")
            remarks.append("\n".join(said))
    return _share("races", good, remarks or ([] if all(good) else ["counted where the values are right"]))


def _work(exercise: Exercise, runs: list[tuple[Trace, Trace]]) -> Mark:
    good, remarks = [], []
    for run, model in runs:
        mine, least = run.counts(), model.counts()
        said = []
        if mine.work > least.work:
            form = KERNELS[exercise.like].work
            rule = f" ({form.text})" if form else ""
            most = f"{mine.work} operations where {least.work} are enough{rule}; {_busiest(run)}"
            said.append(most + _because(exercise, "operations"))
        if mine.steps > SLOWER * least.steps:
            long = f"{mine.steps} operations one after the other where {least.steps} steps are enough"
            said.append(f"{long}: let the threads share them")
        if exercise.lean and mine.barriers > least.barriers:
            many = f"{mine.barriers} barriers where {least.barriers} are enough{_needless(run)}"
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
    found = run.barriers()
    said = [f"the one in {spot}" for spot in found.redundant]
    said += [f"the one in {spot} in pass {k} of {of}" for spot, k, of in found.idle]
    return f"; {' or '.join(said[:3])} separates nothing" if said else ""


def _banks(exercise: Exercise, runs: list[tuple[Trace, Trace]]) -> Mark:
    good, remarks = [], []
    for run, model in runs:
        mine, least = run.counts(), model.counts()
        good.append(mine.degree <= least.degree)
        if good[-1] or remarks:
            continue
        worst = max(run.accesses(), key=lambda row: row.degree)
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
