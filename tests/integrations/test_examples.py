"""The example that trains does learn."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLE = Path(__file__).parents[2] / "examples" / "selective_scan.py"


def test_the_selective_scan_learns_to_select():
    losses = runpy.run_path(str(EXAMPLE))["train"](steps=80, length=32)
    assert min(losses[:3]) > 1.0
    assert sum(losses[-10:]) / 10 < 0.5
