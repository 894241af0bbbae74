"""The paths that the guides name exist, and ARCHITECTURE.md leaves no room out."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_every_path_that_a_recipe_names_exists():
    paths = re.findall(
        r"`((?:src|tests|benchmarks|docs|examples|conda|\.ci)/[^`]*|[\w.]+\.(?:py|md|toml|cff))`",
        (ROOT / "CONTRIBUTING.md").read_text(),
    )
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def the_rooms_there_are():
    source = ROOT / "src/upsweep"
    files = {p.stem for p in source.glob("*.py")} - {"__init__"}
    return files | {p.parent.name for p in source.glob("*/__init__.py")}


def test_the_architecture_names_every_room_and_no_other():
    rows = (ROOT / "ARCHITECTURE.md").read_text().split("```")[1].strip("\n").split("\n")
    named = [name for row in rows for name in re.split(r" {2,}", row)[0].split(" | ")]
    assert all(re.fullmatch(r"\w+(/|\.py)", name) for name in named)
    names = [name.removesuffix("/").removesuffix(".py") for name in named]
    assert sorted(names) == sorted(the_rooms_there_are())


SECTIONS = {
    "The CPU engine": ["cpu"], "The NumPy engine": ["numpy_engine"], "The GPU engine": ["gpu"],
    "PyTorch and JAX": ["torch", "jax"], "The lab": ["lab"],
}  # fmt: skip


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_names_every_file_and_folder_of_its_rooms(section):
    text = (ROOT / "ARCHITECTURE.md").read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    named = {
        name.split("/")[-1] or f"{name.split('/')[-2]}/" for name in re.findall(r"`([\w/]+(?:\.py|/))`", text)
    }
    there = set()
    for room in SECTIONS[section]:
        folder = ROOT / "src/upsweep" / room
        there |= {p.name for p in folder.glob("*.py")} | {
            f"{p.parent.name}/" for p in folder.glob("*/__init__.py")
        }
    assert there - named == {"__init__.py"}


def test_the_arrows_are_held_for_every_room():
    """A room that no layer names could import any other."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 has it")
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0][
        "layers"
    ]
    names = [name for layer in layers for name in re.findall(r"\w+", layer)]
    assert sorted(names) == sorted(the_rooms_there_are())
