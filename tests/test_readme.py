"""The README's five examples run, and its links lead somewhere."""

from __future__ import annotations

import doctest
import re
import runpy
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_examples_run() -> None:
    failed, tried = doctest.testfile(str(README), module_relative=False)
    assert failed == 0
    assert tried >= 10


def test_there_are_five_examples() -> None:
    assert len(re.findall(r"^```python$", README.read_text(), re.MULTILINE)) == 5


def test_links_lead_somewhere() -> None:
    for path, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", README.read_text()):
        page = README.parent / path if path else README
        assert page.exists(), path
        headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE) if heading else [heading]
        assert heading in {text.lower().replace(" ", "-") for text in headings}, (path, heading)


def test_the_figures_are_those_that_the_benchmarks_wrote() -> None:
    front = runpy.run_path(str(README.parent / "benchmarks" / "front.py"))
    assert front["table"]() in README.read_text(), "run python benchmarks/front.py"
