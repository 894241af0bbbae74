"""The course says what its kernels' runs show: its counts, its table, its exercises and its pictures."""

import re
import runpy
from itertools import pairwise
from pathlib import Path

import pytest
from printed import PRINTED_CYCLES, cycles

from upsweep import lab
from upsweep.lab.exercises import EXERCISES
from upsweep.lab.page.course import GLOSSARY
from upsweep.textbook import KERNELS

DOCS = Path(__file__).parents[2] / "docs"
SOURCE = (DOCS / "course.md").read_text(encoding="utf-8")
TEXT = re.sub(r"\s+", " ", SOURCE)
APPLICATIONS = (DOCS / "applications" / "index.md").read_text(encoding="utf-8")
COUNTS = re.findall(r"\*\*Counts\.\*\* `([\w-]+)`: (\d+) operations in (\d+) steps, (\d+) barriers", TEXT)
TABLE = re.findall(r"\| `([\w-]+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) (?=\|)", TEXT)


def test_every_rung_has_its_counts():
    assert len(COUNTS) == TEXT.count("**Counts.**") == 14
    assert len(TABLE) == 8


@pytest.mark.parametrize(("kernel", "work", "steps", "barriers"), COUNTS)
def test_counts(kernel, work, steps, barriers):
    counts = lab.counts(lab.trace(kernel, n=16))
    assert (counts.work, counts.steps, counts.barriers) == (int(work), int(steps), int(barriers))


@pytest.mark.parametrize(("kernel", *("size", "depth", "fan_out", "deficiency")), TABLE)
def test_circuits(kernel, size, depth, fan_out, deficiency):
    found = lab.identify(lab.trace(kernel, n=16))
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
    counts = {name: lab.counts(lab.trace(name, n=512)) for name in ("blelloch", "blelloch-padded")}
    assert (counts["blelloch-padded"].requests, counts["blelloch-padded"].wavefronts) == (requests, padded)
    assert counts["blelloch"].wavefronts == plain
    single, several, carries, atomics = map(
        int,
        re.search(
            r"(\d+) accesses to global memory, where `hierarchical` makes (\d+): 256 reads and 256 writes of items, "
            r"(\d+) of carries. Its (\d+) atomic operations",
            TEXT,
        ).groups(),
    )
    reduced = int(re.search(r"first only reduced, it is (\d+)", TEXT)[1])
    made = {
        name: lab.counts(lab.trace(name, n=256))
        for name in ("domino-dynamic", "hierarchical", "reduce-then-scan")
    }
    seen = [one.global_loads + one.global_stores for one in made.values()]
    assert seen == [single, several, reduced]
    assert single == 512 + carries
    assert made["domino-dynamic"].atomics == atomics
    parts = list(
        map(
            int,
            re.search(
                r"1280 accesses to global memory: (\d+) of items, .*? (\d+) of sums by .*? (\d+) of", TEXT
            ).groups(),
        )
    )
    assert sum(parts) == several


def test_which_warps_part():
    """Rung 6: how often the threads of a warp part at the test of the tree, in both forms."""
    said = re.search(
        r"come to that test (\d+) times, and in (\d+) of them .* a warp parts (\d+) times of (\d+)", TEXT
    )
    seen = []
    for name, test in (("reduction-modulo", "2 * stride"), ("reduction", "left < right")):
        run = lab.trace(name, n=1024)
        (row,) = (row for row in lab.divergence(run) if test in row.text)
        seen += [row.arrivals, row.divergent] if name == "reduction-modulo" else [row.divergent, row.arrivals]
    assert list(map(int, said.groups())) == seen


def test_the_cycle_table():
    rows = {
        int(n): tuple(map(int, rest))
        for n, *rest in re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", SOURCE, re.M)
    }
    assert rows == {leaves: cycles(leaves) for leaves in PRINTED_CYCLES}
    assert rows[128][2] == 112


# --- the text -----------------------------------------------------------------------------------------------------------


def test_words_come_before_they_are_used():
    defined = dict(re.findall(r"^\* \*\*([^*]+)\*\*: (.+)$", SOURCE, re.M))
    assert defined == {
        term: said for term, said in GLOSSARY.items() if not (term.endswith("s") and term[:-1] in GLOSSARY)
    }
    assert SOURCE.index("* **scan**") < SOURCE.index("**Work and time.**") < SOURCE.index("## 1. ")
    for name in ("RAW", "WAR", "WAW"):
        assert name in GLOSSARY


def test_installing_works_from_a_clone():
    project = (DOCS.parent / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r"^(\w+) = \[", project[project.index("[project.optional-dependencies]") :], re.M)
    lines = re.findall(r"pip install (\S+)", SOURCE)
    assert lines
    for what in lines:
        assert re.fullmatch(r"'\.\[(\w+)\]'", what)[1] in extras


def test_nothing_is_told_backwards():
    assert "hands on what it lacked" not in TEXT
    assert "takes in what its section lacked" in TEXT
    assert re.search(r"Hillis and Steele", TEXT[TEXT.index("## 3. ") : TEXT.index("## 4. ")])
    assert "W = P t" in TEXT
    assert "work-efficient" in TEXT
    assert "can likely be scanned" in TEXT


def test_every_question_has_an_answer():
    asked = list(map(int, re.findall(r"Question (\d+): ", TEXT)))
    answered = list(map(int, re.findall(r"^(\d+)\. ", SOURCE[SOURCE.index("## Answers") :], re.M)))
    assert asked == answered == list(range(1, len(asked) + 1))
    assert len(asked) >= 12


def test_the_nine_blanks():
    template, answers = re.findall(r"^```text\n(.*?)```", SOURCE, re.M | re.S)
    filled = dict(re.findall(r"^\[(\d)\] (.+)$", answers, re.M))
    assert [int(k) for k in filled] == list(range(1, 10))
    kernel = re.sub(r"\[(\d)\](?=$|[ :\],)])", lambda blank: filled[blank[1]], template, flags=re.M)
    for n in (16, 13):
        run = lab.trace(kernel, n=n, expect="inclusive", BLOCK=n)
        assert lab.check(run).ok
        assert run.values == [k * (k + 1) // 2 for k in range(1, n + 1)]


def test_the_page_of_applications():
    for name in (
        "radix sort", "quicksort", "string comparison", "lexical analysis", "compaction", "polynomial", "recurrences",
        "tree operations", "histogram", "summed-area table", "data compression", "resource allocation", "work assignment",
        "carries", "sequential section",
    ):  # fmt: skip
        assert name in APPLICATIONS.lower(), name
    for kernel in re.findall(r"`upsweep lab ([a-z-]+)`", APPLICATIONS):
        assert kernel in KERNELS, kernel
    rows = re.findall(r"^\| (?:flags|exclusive scan of the flags) \| ([\d ]+) \|$", APPLICATIONS, re.M)
    flags, places = ([int(k) for k in row.split()] for row in rows)
    assert places[0] == 0
    assert [b - a for a, b in pairwise(places)] == flags[:-1]


def test_every_exercise_has_its_place():
    listed = (DOCS / "exercises.md").read_text(encoding="utf-8")
    assert sorted(set(map(int, re.findall(r"[Ee]xercise (\d+), ", TEXT + listed)))) == list(EXERCISES)


def test_pictures_are_what_the_script_draws():
    drawn = runpy.run_path(str(DOCS / "course_pictures.py"))["pictures"]()
    assert set(re.findall(r"course/([\w-]+)\.svg", TEXT + APPLICATIONS)) == set(drawn)
    for name, svg in drawn.items():
        assert (DOCS / "course" / f"{name}.svg").read_text(encoding="utf-8") == svg, (
            f"run docs/course_pictures.py: {name} has changed"
        )
