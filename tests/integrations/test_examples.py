"""The examples run, and the one that trains does learn."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
OTHERS = {
    "determinism": (), "irregular_average": (), "compiled_model": ("torch",), "rain": ("xarray", "dask.array"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("default")
def test_examples_hold_what_they_say(name, capsys):
    for needed in OTHERS[name]:
        pytest.importorskip(needed)
    runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert capsys.readouterr().out


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*OTHERS, "selective_scan"}


def test_the_selective_scan_learns_to_select():
    pytest.importorskip("torch")
    losses = runpy.run_path(str(EXAMPLES / "selective_scan.py"))["train"](steps=80, length=32)
    assert min(losses[:3]) > 1.0
    assert sum(losses[-10:]) / 10 < 0.5
