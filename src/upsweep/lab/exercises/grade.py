"""Marks for an answer: on values, races, work and banks, each with the line that is to blame and the reason."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from upsweep.lab.cases import case
from upsweep.lab.checks import check, wanted
from upsweep.lab.exercises import EXERCISES, Exercise
from upsweep.lab.exercises.answers import Answer, read
from upsweep.lab.exercises.marks import POINTS, VALUES, Mark, of_banks, of_races, of_values, of_work
from upsweep.lab.findings import Report
from upsweep.lab.limits import MEMORY, environment
from upsweep.lab.machine import scope
from upsweep.lab.reading import KernelError
from upsweep.lab.schedule import Schedule
from upsweep.lab.traces import Case, Trace
from upsweep.textbook import KERNELS

WITNESSED = 33
"""The largest n at which a race is shown by a schedule; beyond, its lines are enough."""

STRINGS = "; the items are strings in this run: only `op` combines them, and only `identity` stands for none"
"""The words for a kernel that does something else with its items."""
SECONDS = 60
"""The seconds that a solution may take, in a process of its own."""


@dataclass(frozen=True)
class Grade:
    """All marks of one answer."""

    exercise: Exercise
    marks: tuple[Mark, ...]
    stopped: bool = False
    """Whether the answer took too much time or memory: it is not run a second time to be shown."""

    @property
    def points(self) -> int:
        return sum(mark.points for mark in self.marks)

    @property
    def passed(self) -> bool:
        return self.points == sum(mark.of for mark in self.marks)

    def __str__(self) -> str:
        head = f"exercise {self.exercise.number}, {self.exercise.name}: {self.points} of {sum(m.of for m in self.marks)}"
        return "\n".join([head, *map(str, self.marks)])


def grade(path: str | Path, number: int | None = None) -> Grade:
    """Grade a file that answers one of the exercises; its functions, or its constants, say which, where no number does.

    The file is read and not run: its kernels are traced in a process of their own, with a limit of time and of memory,
    and nothing else in it counts. Where there are no processes, as in a browser, they are traced in this one.

    Raises:
        ValueError: where the file answers none, or another one than the number says.
    """
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    here = sys.platform in ("emscripten", "wasi")
    return graded(text, path.name, number) if here else _apart(text, path.name, number)


def _apart(text: str, file: str, number: int | None) -> Grade:
    """`graded` in a child process."""
    answer = read(text, file)
    exercise = _answered(answer, number)
    asked = json.dumps({"text": text, "file": file, "number": exercise.number})
    # In an empty folder Python finds no module of the student's.
    with tempfile.TemporaryDirectory() as empty:
        try:
            done = subprocess.run([sys.executable, "-m", "upsweep.lab.exercises.child"], input=asked, text=True, timeout=SECONDS,
                                  capture_output=True, cwd=empty, env=environment())  # fmt: skip
        except subprocess.TimeoutExpired:
            why = f"after {SECONDS} seconds: something in it does not end, or this machine is busy"
            return _stopped(exercise, f"{file} was stopped {why}")
    # The mistake is ours or Python's: its last line is shown.
    if done.returncode > 0:
        last = (done.stderr.strip().splitlines() or ["it ended"])[-1]
        return _stopped(exercise, f"{file} was stopped: {last}")
    if done.returncode < 0:
        why = f"it took more than {MEMORY >> 30} GiB, or more than {SECONDS} seconds"
        return _stopped(exercise, f"{file} was stopped: {why}")
    said = json.loads(done.stdout)
    return Grade(exercise, tuple(Mark(m["what"], m["points"], m["of"], tuple(m["remarks"])) for m in said))


def graded(text: str, file: str = "answer.py", number: int | None = None) -> Grade:
    """Grade the text of an answer in this process.

    Raises:
        ValueError: where it answers no exercise, or another one than the number says.
    """
    answer = read(text, file)
    exercise = _answered(answer, number)
    if answer.blanks:
        return _none(exercise, [f"line {line} still has a blank" for line in answer.blanks])
    return _asked(exercise, answer) if exercise.questions else _traced(exercise, answer)


def _answered(answer: Answer, number: int | None) -> Exercise:
    if number is not None:
        if _answers(answer, EXERCISES[number]):
            return EXERCISES[number]
        names = _names(EXERCISES[number])
        raise ValueError(
            f"{answer.file} does not hold {names}: exercise {number} is answered under this name"
        )
    for exercise in EXERCISES.values():
        if _answers(answer, exercise):
            return exercise
    names = "; ".join(f"{e.number}: {', '.join(e.takes_over.values()) or e.name}" for e in EXERCISES.values())
    raise ValueError(f"{answer.file} holds neither the function of an exercise nor its constants ({names})")


def _answers(answer: Answer, exercise: Exercise) -> bool:
    """Whether it holds the functions of an exercise, or one of its constants."""
    constants = [q.name for q in exercise.questions]
    if constants:
        return any(name in answer.constants for name in constants)
    return all(name in answer.functions for name in exercise.takes_over.values())


def _names(exercise: Exercise) -> str:
    return ", ".join([q.name for q in exercise.questions] or exercise.takes_over.values())


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
    strings = False
    try:
        runs: list[tuple[Trace, Trace]] = []
        reports: list[Report] = []
        for posed, model, named in cases(exercise, answer):
            if not named and any(reports):
                # Other sizes are run once those that the task names are right.
                break
            strings = isinstance(posed.x[0], str)
            runs.append((posed.run(), model.run()))
            reports.append(check(runs[-1][0], witness=posed.setup.tile <= WITNESSED))
            if runs[-1][0].machine.stopped:
                # A kernel that never ends here will not end elsewhere.
                break
    except KernelError as error:
        return _none(exercise, [f"{error}{STRINGS if strings else ''}"])
    except MemoryError:
        return _none(exercise, [f"{answer.file} takes too much memory"])
    right = [
        run.values == wanted(run) and not report.kinds & {*VALUES, "deadlock"}
        for (run, _), report in zip(runs, reports)
    ]
    values = of_values(exercise, runs, reports, right)
    marks = [values, of_races(exercise, runs, reports, right)]
    if values.points < values.of:
        marks += [
            Mark(what, 0, POINTS[what], ("counted once the values are right",)) for what in ("work", "banks")
        ]
    else:
        marks += [of_work(exercise, runs), of_banks(exercise, runs)]
    return Grade(exercise, tuple(marks))


def _none(exercise: Exercise, remarks: list[str]) -> Grade:
    if exercise.questions:
        return Grade(exercise, (Mark("answers", 0, 100, tuple(remarks)),))
    first = Mark("values", 0, POINTS["values"], tuple(remarks))
    return Grade(exercise, (first, *(Mark(what, 0, POINTS[what]) for what in list(POINTS)[1:])))


def _stopped(exercise: Exercise, why: str) -> Grade:
    return replace(_none(exercise, [why]), stopped=True)


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


def to_json(result: Grade) -> str:
    """The marks, for the process that asked for them."""
    return json.dumps([asdict(mark) for mark in result.marks])
