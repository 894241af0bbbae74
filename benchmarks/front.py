"""The table on the front page: the best and the worst rows of the times that the benchmarks wrote.

python benchmarks/front.py writes it into README.md.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
EACH = 3
BLOCK = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def rows() -> dict[str, list[tuple[str, str, float]]]:
    """For each kind of benchmark: what ran, beside what, and how many times as fast it was."""
    return {
        **{table["machine"]: _races(table["rows"], "ratio") for table in _tables("cpu-*.json")},
        **{table["device"]: _scans(table["rows"]) for table in _tables("gpu-*.json")},
        **{
            f"applications, {table['machine']}": _races(table["rows"], "times_as_fast")
            for table in _tables("apps-*.json")
        },
    }


def _races(rows: list[dict], ratio: str) -> list[tuple[str, str, float]]:
    return [(r["name"], r["against"], r[ratio]) for r in rows if "error" not in r["name"]]


def _scans(rows: list[dict]) -> list[tuple[str, str, float]]:
    return [(r["name"], "copy", r["fraction"]) for r in rows if "fraction" in r]


def _tables(pattern: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob(pattern))]


def table() -> str:
    lines = ["| | best | worst |", "| --- | --- | --- |"]
    for kind, found in rows().items():
        ordered = sorted(found, key=lambda row: -row[2])
        best, worst = (
            "<br>".join(f"{name}: {float(f'{ratio:.2g}'):g} x {peer}" for name, peer, ratio in part)
            for part in (ordered[:EACH], ordered[: -EACH - 1 : -1])
        )
        lines.append(f"| {kind}, {len(found)} rows | {best} | {worst} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    README.write_text(BLOCK.sub(lambda found: found[1] + table() + found[2], README.read_text()))
