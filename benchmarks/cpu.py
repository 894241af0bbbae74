"""The CPU's figures: printed, kept in results/ by machine, and drawn for the README. `make bench`"""

from __future__ import annotations

import json
import os
import platform
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
import numba
import numpy as np

from upsweep import bench

RESULTS = Path(__file__).parent / "results"


def processor() -> str:
    """The processor's name, as the system knows it."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def save(rows: list[bench.Row], machine: str, cores: int) -> None:
    record = {
        "machine": machine,
        "cores": cores,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "rows": [_rounded(asdict(row)) for row in rows],
    }
    name = re.sub(r"[^a-z0-9]+", "-", f"cpu {machine} {cores} cores".lower()).strip("-")
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """No more digits than a second run would give again."""
    return {key: float(f"{value:.3g}") if isinstance(value, float) else value for key, value in row.items()}


def draw(rows: list[bench.Row], machine: str, cores: int) -> None:
    """Bars of what moves as many bytes as a copy does; the copy is the line at 1."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [row for row in rows if row.against.startswith("copy")][::-1]
    places = np.arange(len(shown))
    figure, axes = plt.subplots(figsize=(8, 0.5 * len(shown) + 1.2), layout="constrained")
    ours = axes.barh(places + 0.2, [row.ratio for row in shown], 0.38, color="#1f6f8b", label="upsweep")
    theirs = axes.barh(
        places - 0.2, [row.numpy or 0 for row in shown], 0.38, color="#c9b79c", label="np.cumsum"
    )
    axes.bar_label(ours, [f"{row.ratio:.2f}" for row in shown], padding=3)
    axes.bar_label(
        theirs, [f"{row.numpy:.2f}" if row.numpy else "" for row in shown], padding=3, color="#7a6a50"
    )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(places, [row.name for row in shown])
    axes.set_xlim(0, 1.08)
    axes.set_xlabel("speed beside a parallel copy of the same bytes (the line at 1)")
    axes.set_title(f"256 MiB arrays, {cores} cores of {machine}", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", bbox_to_anchor=(0.9, 0), frameon=False)
    figure.savefig(RESULTS / "cpu.png", dpi=110)


def main() -> None:
    machine, cores = processor(), os.cpu_count() or 1
    print(f"{machine}, {cores} cores")
    rows = []
    for row in bench.measure():
        print(row, flush=True)
        rows.append(row)
    save(rows, machine, cores)
    draw(rows, machine, cores)


if __name__ == "__main__":
    main()
