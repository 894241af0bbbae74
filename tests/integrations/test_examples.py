"""The examples run, and the model that is trained learns."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from portions import every

EXAMPLES = Path(__file__).parents[2] / "examples"
OTHERS = {
    "determinism": (), "irregular_average": (), "compiled_model": ("torch",), "rain": ("xarray", "dask.array"),
    "advantages": ("torch",),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("default")
def test_examples_hold_what_they_say(name, capsys):
    for needed in OTHERS[name]:
        pytest.importorskip(needed)
    runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert capsys.readouterr().out


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*OTHERS, "selective_scan", "language_model"}


@pytest.mark.slow
def test_the_selective_scan_learns_to_select():
    pytest.importorskip("torch")
    losses = runpy.run_path(str(EXAMPLES / "selective_scan.py"))["train"](steps=80, length=32)
    assert min(losses[:3]) > 1.0
    assert sum(losses[-10:]) / 10 < 0.5


@pytest.mark.parametrize("name", every(3, ["rg_lru", "min_gru", "hgrn", "s5", "selective_scan"]))
def test_a_language_model_learns_and_writes_as_it_reads(name):
    pytest.importorskip("torch")
    example = runpy.run_path(str(EXAMPLES / "language_model.py"))
    assert set(example["LAYERS"]) == {"rg_lru", "min_gru", "hgrn", "s5", "selective_scan"}
    model, losses = example["train"](name, steps=12, length=40)
    assert losses[-1] < losses[0] - 1
    text, equal = example["write"](model, "    def ", 12)
    assert len(text) == 20
    assert equal
