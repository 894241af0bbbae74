"""The course says what runs show: its counts, its table, its exercises, and its pictures."""

import re
import runpy
from pathlib import Path

import pytest

from upsweep import lab
from upsweep.lab.exercises import EXERCISES

DOCS = Path(__file__).parents[2] / "docs"
TEXT = re.sub(r"\s+", " ", (DOCS / "course.md").read_text(encoding="utf-8"))
COUNTS = re.findall(r"\*\*Counts\.\*\* `([\w-]+)`: (\d+) operations in (\d+) steps, (\d+) barriers", TEXT)
TABLE = re.findall(r"\| `([\w-]+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) (?=\|)", TEXT)


def test_every_rung_has_its_counts():
    assert len(COUNTS) == TEXT.count("**Counts.**") == 14
    assert len(TABLE) == 8


@pytest.mark.parametrize(("kernel", "work", "steps", "barriers"), COUNTS)
def test_counts(kernel, work, steps, barriers):
    counts = lab.trace(kernel, n=16).counts()
    assert (counts.work, counts.steps, counts.barriers) == (int(work), int(steps), int(barriers))


@pytest.mark.parametrize(("kernel", *("size", "depth", "fan_out", "deficiency")), TABLE)
def test_circuits(kernel, size, depth, fan_out, deficiency):
    found = lab.trace(kernel, n=16).identify()
    assert (found.size, found.depth, found.fan_out, found.deficiency) == tuple(
        map(int, (size, depth, fan_out, deficiency))
    )


def test_traffic_and_banks():
    requests, padded, plain = map(
        int,
        re.search(
            r"its (\d+) requests take (\d+) wavefronts, where those of `blelloch` take (\d+)", TEXT
        ).groups(),
    )
    counts = {name: lab.trace(name, n=512).counts() for name in ("blelloch", "blelloch-padded")}
    assert (counts["blelloch-padded"].requests, counts["blelloch-padded"].wavefronts) == (requests, padded)
    assert counts["blelloch"].wavefronts == plain
    single, several = map(
        int, re.search(r"(\d+) accesses to global memory, .* where `hierarchical` makes (\d+)", TEXT).groups()
    )
    for name, said in (("domino-dynamic", single), ("hierarchical", several)):
        made = lab.trace(name, n=256).counts()
        assert made.global_loads + made.global_stores == said, name


def test_every_exercise_has_its_rung():
    assert sorted(set(map(int, re.findall(r"[Ee]xercise (\d+), ", TEXT)))) == list(EXERCISES)


def test_pictures_are_what_the_script_draws():
    drawn = runpy.run_path(str(DOCS / "course_pictures.py"))["pictures"]()
    assert set(re.findall(r"course/([\w-]+)\.svg", TEXT)) == set(drawn)
    for name, svg in drawn.items():
        assert (DOCS / "course" / f"{name}.svg").read_text(encoding="utf-8") == svg, (
            f"run docs/course_pictures.py: {name} has changed"
        )
