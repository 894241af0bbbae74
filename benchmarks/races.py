"""Runs are timed in turns, so that all of them share the load of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def race(*runs: Callable[[], Any], repeats: int = 40) -> list[float]:
    """The least seconds of each run, taken in turns."""
    best = [float("inf")] * len(runs)
    for _ in range(repeats):
        for k, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - start)
    return best
