"""The random calls of the benchmarks' sweeps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "benchmarks"
# The folder holds a distributed.py, which would hide Dask's package from other tests.
with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sys, "path", [str(ROOT), *sys.path])
    import draws

STORED = sorted((ROOT / "results").glob("sweep-*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_seed_draws_the_calls_of_the_stored_results(path: Path) -> None:
    stored = json.loads(path.read_text())
    of = draws.GPU if "device" in stored else draws.CPU
    calls = draws.drawn(stored["seed"], len(stored["rows"]), of)
    assert [row["call"] for row in stored["rows"]] == [str(call) for call in calls]
