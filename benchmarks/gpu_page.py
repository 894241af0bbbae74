"""The page of gpu_table.py's results, all machines side by side.

python benchmarks/gpu_page.py    makes gpu.md and gpu.png in benchmarks/results of the gpu-*.json that lie there
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from gpu_bounds import BOUNDS

RESULTS = Path(__file__).parent / "results"
COLOURS = "#3a6ea5", "#9cbcd9", "#d5e3ef"

Row = dict[str, Any]
Table = dict[str, Any]
"""What gpu_table.py writes: the name of the device, and the rows."""


def stored() -> list[Table]:
    """The tables of all machines."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("gpu-*.json"))]


def missed(row: Row) -> bool:
    """Whether a row is below its goal, or behind a peer."""
    if "us" in row:
        return row["us"] > row["goal"]
    return row["fraction"] < max(row["goal"], *row["peers"].values(), 0)


def markdown(tables: list[Table]) -> str:
    """The tables for people, with their worst rows first."""
    return "\n\n".join(
        [
            "Scans on a GPU, as fractions of a device copy of what must be moved, in the same run: the median of five places "
            "in memory, each the median of 9 calls, whose launches are there before the device begins. "
            "A figure with * misses its goal, or is behind another library.",
            *map(_summary, tables),
            _side_by_side(tables, [r for r in tables[0]["rows"] if "us" not in r]),
            "Small scans of float32, in microseconds of a CUDA graph of forty of them.",
            _side_by_side(tables, [r for r in tables[0]["rows"] if "us" in r]),
        ]
    ) + "\n"  # fmt: skip


def _summary(table: Table) -> str:
    """The median and the worst rows of one machine."""
    rows = table["rows"]
    large = [r for r in rows if "us" not in r]
    worst = sorted(large, key=lambda r: r["fraction"] / r["goal"])[:8]
    return (
        f"{table['device']}: the median of {len(large)} rows is {statistics.median(r['fraction'] for r in large):.3f}; "
        f"{sum(map(missed, rows))} of {len(rows)} miss. The worst: "
        + ", ".join(f"{r['name']} {r['fraction']:.2f}" for r in worst)
        + "."
    )


def _side_by_side(tables: list[Table], rows: list[Row]) -> str:
    """A line for each row, and in it a figure and its peers for each machine, and what bounds it."""
    places = [{r["name"]: r for r in table["rows"]} for table in tables]
    head = ["scan", "goal", *(x for table in tables for x in (table["device"], "others")), "what bounds it"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [row["name"], str(row["goal"])]
        for place in places:
            cells += _cells(place[row["name"]]) if row["name"] in place else ["", ""]
        cells.append(BOUNDS.get(row["name"], ""))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    figure = f"{row['us']:.2f}" if "us" in row else f"{row['fraction']:.3f}"
    peers = ", ".join(f"{name} {value:.2g}" for name, value in row["peers"].items())
    return [figure + "*" * missed(row), peers]


def draw(tables: list[Table], path: Path) -> None:
    """A bar for each row and machine, and the peers of the last machine."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    names = [r["name"] for r in tables[-1]["rows"] if "us" not in r]
    figure, axes = pyplot.subplots(figsize=(9, 0.24 * len(names) + 1.2), layout="constrained")
    high = 0.8 / len(tables)
    for i, table in enumerate(tables):
        found = {r["name"]: r["fraction"] for r in table["rows"] if "us" not in r}
        at = [k + high * (i - (len(tables) - 1) / 2) for k in range(len(names))]
        axes.barh(at, [found.get(n, 0) for n in names], high, color=COLOURS[i], label=table["device"])
    rows = {r["name"]: r for r in tables[-1]["rows"]}
    for name, mark, colour in (("CUB", "D", "#d1495b"), ("torch", "o", "#edae49"), ("cupy", "s", "#66a182"),
                               ("cuda.compute", "v", "#5b5b5b"), ("JAX", "^", "#8d6cab")):  # fmt: skip
        found = [(rows[n]["peers"][name], i) for i, n in enumerate(names) if name in rows[n]["peers"]]
        if found:
            axes.scatter(*zip(*found), marker=mark, color=colour, label=name, zorder=3, s=22)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(f"fraction of a device copy; other libraries on {tables[-1]['device']}")
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    (RESULTS / "gpu.md").write_text(markdown(stored()))
    draw(stored(), RESULTS / "gpu.png")
