"""The parts of the site beside the pages: the tables of the textbook, the results of the benchmarks and of the lab on a GPU."""

from __future__ import annotations

import json
import re
import runpy
from importlib import import_module
from inspect import unwrap
from pathlib import Path
from types import FunctionType
from typing import Any

from mkdocs.structure.files import File, Files

from upsweep.accessors import FUNCTIONS
from upsweep.dtypes import TABLE as DTYPES
from upsweep.lab.sources import NOT_REPRODUCED
from upsweep.operators import TABLE as OPERATORS
from upsweep.textbook import KERNELS
from upsweep.textbook.mistakes import MISTAKES, NOT_KERNELS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def on_config(config: Any) -> Any:
    """The menu has the pages of the table of applications, in the order of the table."""
    index = (ROOT / "docs" / "applications" / "index.md").read_text()
    pages = re.findall(r"^\| \[(.*?)\]\(([\w-]+\.md)\)", index, re.M)
    (section,) = (part for part in config.nav if "Applications of scans" in part)
    section["Applications of scans"] += [{title: f"applications/{page}"} for title, page in pages]
    return config


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "benchmarks.md", content=benchmarks()))
    files.append(File.generated(config, "lab_gpu.md", content=(RESULTS / "lab_gpu.md").read_text()))
    files.append(File.generated(config, "kernels.md", content=kernels()))
    functions = runpy.run_path(str(ROOT / "docs" / "places.py"))["page"]()
    files.append(File.generated(config, "places.md", content=functions))
    for picture in sorted(RESULTS.glob("*.png")):
        files.append(File.generated(config, f"results/{picture.name}", content=picture.read_bytes()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The tables that a page asks for."""
    for asked, made in (
        ("<!-- the table of operators -->", operators),
        ("<!-- the table of dtypes -->", kinds),
        ("<!-- the table of rivals -->", rivals),
        ("<!-- the table of layers -->", layers),
        ("<!-- the methods of an accessor -->", methods),
    ):
        markdown = markdown.replace(asked, made()) if asked in markdown else markdown
    markdown = NAMES.sub(lambda asked: names(asked[1]), markdown)
    return COST.sub(lambda asked: costs(asked[1].split(", ")), markdown)


NAMES = re.compile(r"<!-- every name of (.*?) -->")
"""All that a module's `__all__` lists, where a page asks for it."""


def names(module: str) -> str:
    """A module and its public names for mkdocstrings, each under the name by which it is imported."""
    here, asked = import_module(module), [f"::: {module}\n    options: {{members: false}}"]
    for name in here.__all__:
        made = unwrap(getattr(here, name))
        home = made.__module__ if isinstance(made, (type, FunctionType)) else module
        asked.append(f"::: {home}.{name}\n    options: {{heading: {module}.{name}, toc_label: {name}}}")
    return "\n\n".join(asked)


def methods() -> str:
    return ", ".join(f"`{name}`" for name in FUNCTIONS)


def operators() -> str:
    lines = ["| name | what it gives | dtypes, as NumPy's kinds | arrays | NumPy |", "|" + " --- |" * 5]
    lines += [
        f"| `{r.name}` | {r.help} | {' '.join(r.kinds)} | {r.arity} | {', '.join(f'`{u}`' for u in r.ufuncs)} |"
        for r in OPERATORS.values()
    ]
    return "\n".join(lines)


COST = re.compile(r"<!-- the cost of (.*?) -->")
"""All measurements whose names begin so, where a page asks for them."""


def costs(names: list[str]) -> str:
    """Measurements of some functions: on a CPU beside the usual tool, on a GPU beside PyTorch and CuPy."""
    (path,) = RESULTS.glob("apps-*.json")
    on_cpu, on_gpu = (json.loads(p.read_text()) for p in (path, RESULTS / "gpu_apps.json"))
    machines = f"{on_cpu['machine']}, {on_cpu['cores']} cores | {on_gpu['device']}"
    lines = [f"| what | times as fast as | {machines} |", "|" + " --- |" * 4]
    found: dict[tuple[str, str], list[str]] = {}
    for row in on_cpu["rows"]:
        found.setdefault((row["name"], row["against"]), ["", ""])[0] = f"{row['times_as_fast']:.2g}"
    for row in on_gpu["rows"]:
        for peer in (p for p in ("torch", "cupy") if p in row):
            found.setdefault((row["name"], peer), ["", ""])[1] = f"{row[peer]:.2g}"
    asked = {k: v for k, v in found.items() if k[0].startswith(tuple(names))}
    lines += [f"| {name} | {peer} | {' | '.join(cells)} |" for (name, peer), cells in asked.items()]
    return "\n".join(lines) if asked else ""


def rivals() -> str:
    """The lines that benchmarks/rivals.py wrote: a name, a ratio and the peer in each line but the first."""
    (path,) = RESULTS.glob("rivals-*.txt")
    lines = ["| task | ratio | peer |", "|" + " --- |" * 3]
    for row in path.read_text().splitlines()[1:]:
        told, peer = row.rsplit(" x ", 1)
        name, ratio = told.rsplit(None, 1)
        lines.append(f"| {name} | {ratio} | {peer} |")
    return "\n".join(lines)


def layers() -> str:
    """The lines that benchmarks/layers.py wrote on a GPU."""
    return "\n\n".join(table(json.loads(path.read_text())) for path in sorted(RESULTS.glob("layers-*.json")))


def kinds() -> str:
    lines = ["| dtype | computed in | PyTorch has it | sorted by its bits |", "|" + " --- |" * 4]
    lines += [
        f"| `{r.name}` | `{r.accumulator}` | {'yes' if r.torch else 'no'} | {'yes' if r.order else 'no'} |"
        for r in DTYPES.values()
    ]
    return "\n".join(lines)


def kernels() -> str:
    """The page of kernels: the textbook's kernels, the mistakes with the lab's findings in each, and the mistakes that no run
    shows.
    """
    parts = ["# Every kernel", "The tables behind `upsweep lab` and `upsweep.textbook.run`."]
    parts += ["| kernel | what it is | for | operations |\n| --- | --- | --- | --- |"]
    parts[-1] += "".join(
        f"\n| `{row.name}` | {row.title} | {row.contract} | {row.work.text if row.work else ''} |"
        for row in KERNELS.values()
    )
    parts += ["## Mistakes", "As the sources print them, or as students write them; and what the lab finds."]
    parts += ["| kernel | what is wrong | found | instead |\n| --- | --- | --- | --- |"]
    parts[-1] += "".join(
        f"\n| `{row.name}` | {row.says} | {', '.join(sorted(row.finds)) or row.also} | `{row.instead}` |"
        for row in MISTAKES.values()
    )
    said = [f"* {key}: {text}." for key, text in NOT_REPRODUCED.items()] + [
        f"* {text}." for text in NOT_KERNELS.values()
    ]
    parts += ["## What the sources say and no run shows", "\n".join(said)]
    return "\n\n".join(parts) + "\n"


def benchmarks() -> str:
    """The page of results: every file that a benchmark wrote, as a table."""
    parts = [
        "# Benchmarks",
        "Ratios of the speed of a copy of the same bytes, or of what a row names. Run on the machines named, by the scripts "
        "in `benchmarks/`; nothing here is typed by hand.",
    ]
    # The lab's results on a GPU have a page of their own.
    for path in sorted(set(RESULTS.glob("*.json")) - {RESULTS / "lab_gpu.json"}):
        parts += [f"## {path.stem}", table(json.loads(path.read_text()))]
    for picture in sorted(RESULTS.glob("*.png")):
        parts.append(f"![{picture.stem}](results/{picture.name})")
    return "\n\n".join(parts) + "\n"


def table(result: dict[str, Any]) -> str:
    """The facts of a run, and its rows."""
    facts = "; ".join(f"{k} {v}" for k, v in result.items() if not isinstance(v, (list, dict)))
    rows = [row for row in result.get("rows", ()) if isinstance(row, dict)]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    lines += [f"| {' | '.join(cell(row.get(c)) for c in columns)} |" for row in rows]
    return facts + ("\n\n" + "\n".join(lines) if rows else "")


def cell(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else "" if value is None else str(value)
