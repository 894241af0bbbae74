"""The exercises on the page: marks for a text, hints in stages, and the run that shows the mistake."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upsweep.lab.checks import check
from upsweep.lab.exercises import EXERCISES, Exercise
from upsweep.lab.exercises.grade import Grade
from upsweep.lab.exercises.grade import grade as graded
from upsweep.lab.page.dials import Dials, first
from upsweep.lab.page.played import built
from upsweep.textbook import KERNELS

LARGER = ((70, None), (70, 32))
"""(n, block) of runs that are tried where those of the task show nothing."""


def exercises() -> list[dict[str, Any]]:
    """The table of exercises as the page shows it."""
    rows = []
    for row in EXERCISES.values():
        head, _, task = row.task.partition("\n")
        title, _, source = head.partition(": ")[2].rstrip(".").partition(" (")
        flowing = re.sub(r"(?<!\n)\n(?!\n)", " ", task.strip())
        rows.append({
            "number": row.number, "title": _sentence(title), "source": source.removesuffix(")"), "task": flowing,
            "starter": row.starter, "kernel": row.like if row.like in KERNELS else "",
        })  # fmt: skip
    return rows


def grade(given: Mapping[str, Any]) -> dict[str, Any]:
    """The marks of a text, hints from the general to the particular, and the dials of the run that the page plays.

    That is a run that fails; of a right answer the first run that the task names; of an answer that was stopped none.
    """
    exercise, text = EXERCISES[int(given["number"])], str(given["text"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{exercise.name}.py"
        path.write_text(text, encoding="utf-8")
        result = graded(path, exercise.number)
    played = None if result.stopped else next(_runs_of(exercise, text, every=result.passed), None)
    return {
        "points": result.points, "of": sum(mark.of for mark in result.marks), "passed": result.passed,
        "marks": [{"what": mark.what, "points": mark.points, "of": mark.of} for mark in result.marks],
        "hints": hints(exercise, result), "dials": played and vars(played),
    }  # fmt: skip


def hints(exercise: Exercise, result: Grade) -> list[str]:
    """The hints: the mistake, its reason, its line, and at last the kernel that does it right. The page shows them one by one,
    when asked.
    """
    lost = next((mark for mark in result.marks if mark.points < mark.of and mark.remarks), None)
    if lost is None:
        return []
    lines = [line.strip() for remark in lost.remarks for line in remark.split("\n")]
    why = [line for line in lines if line.startswith("why: ")]
    rest = [line for line in lines[1:] if line not in why]
    model = [f"The textbook's {exercise.like} does it right: compare."] if exercise.like in KERNELS else []
    return [
        lines[0],
        *(_sentence(line[5:]) for line in why[:1]),
        *(["\n".join(rest)] if rest else []),
        *model,
    ]


def _sentence(text: str) -> str:
    """With a capital first letter, and names as they are."""
    return text[:1].upper() + text[1:]


def _runs_of(exercise: Exercise, text: str, every: bool) -> Iterator[Dials]:
    """The runs of this answer, every one or those in which it fails; none of a text that is no Python or has other functions."""
    try:
        module = ast.parse(text)
    except SyntaxError:
        return
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    if exercise.like not in KERNELS or not set(exercise.takes_over.values()) <= set(functions):
        return
    for dials in _runs(exercise):
        names = [launch.kernel.__name__ for launch in built(dials).setup.launches if callable(launch.kernel)]
        # as many empty lines as stand before it, so that each line keeps its number
        edits = {
            names[k]: "\n" * (functions[name].lineno - 1)
            + (ast.get_source_segment(text, functions[name]) or "")
            for k, name in exercise.takes_over.items()
        }
        posed = replace(dials, edits=edits)
        if every or _fails(posed):
            yield posed


def _fails(dials: Dials) -> bool:
    try:
        return not check(built(dials).run(), witness=False).ok
    except Exception:
        # The player shows the exception that the kernel raises.
        return True


def _runs(exercise: Exercise) -> Iterator[Dials]:
    start = first(exercise.like)
    sums = KERNELS[exercise.like].answer is not None
    for held in exercise.held:
        order = {"resident": held, "issue": "descending"} if held else {}
        for n in exercise.sizes:
            yield replace(start, n=n, block=exercise.block, **order)
        if not sums:
            yield replace(start, n=exercise.sizes[0], block=exercise.block, op="concat", **order)
    yield from (replace(start, n=n, block=block) for n, block in LARGER)
