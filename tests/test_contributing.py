"""What the guides name exists, and ARCHITECTURE.md leaves no room out."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_every_path_that_a_recipe_names_exists():
    paths = re.findall(
        r"`((?:src|tests|benchmarks|docs|\.ci)/[^`]*)`", (ROOT / "CONTRIBUTING.md").read_text()
    )
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "name",
    sorted(
        p.name
        for p in (ROOT / "src/upsweep").iterdir()
        if p.name not in ("__init__.py", "__pycache__", "py.typed")
    ),
)
def test_the_architecture_names_every_room(name):
    rooms = (ROOT / "ARCHITECTURE.md").read_text().split("```")[1]
    assert re.search(rf"(^|[ |]){re.escape(name.removesuffix('.py'))}(/|\.py| )", rooms, re.MULTILINE)
