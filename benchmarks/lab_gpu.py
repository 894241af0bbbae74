"""The lab's predictions beside a GPU: every textbook kernel run, its wavefronts counted, its races looked for.

    python benchmarks/lab_gpu.py FOLDER

runs every kernel of the textbook at several sizes against the definition of a scan; and, where Nsight Compute (`ncu`)
and `compute-sanitizer` are on the PATH, compares predicted shared memory wavefronts and findings with theirs. It writes
lab_gpu.json and lab_gpu.md into the folder. Needs numba-cuda and a GPU.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from upsweep import lab
from upsweep.lab.counts import accesses
from upsweep.operator import Operator, as_operator
from upsweep.textbook import KERNELS, gpu
from upsweep.textbook.mistakes import MISTAKES

SIZES = (1, 33, 1000, 1024, 5000)
COUNTED = 1024
"""The size whose wavefronts are counted."""
WIDE = (
    "hierarchical",
    "reduce-then-scan",
    "domino",
    "domino-dynamic",
    "kogge-stone",
    "brent-kung",
    "three-phase",
)
"""Kernels that are also run on 100000 items."""
LAST_VALID = Operator(lambda a, b: b if b >= 0 else a, identity=-1, name="last valid")
"""Associative, and not commutative."""
METRICS = {
    "load": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "store": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}
TOOLS = {
    "race": "racecheck",
    "divergent barrier": "synccheck",
    "out of bounds": "memcheck",
    "uninitialised": "initcheck",
}


# --- results ------------------------------------------------------------------------------------------------------------


def items(name: str, n: int) -> np.ndarray:
    """Integers with some invalid ones among them; bins where bins are counted."""
    x = (np.arange(n) * 7919 % 23).astype(np.int32)
    return (
        x % 8 if name in ("range-histogram", "range-query") else np.where(x % 5 == 0, -1, x).astype(np.int32)
    )


def wanted(name: str, x: np.ndarray, op: Any) -> list[int]:
    """The definition: each section folded from the left."""
    row = KERNELS[name]
    if row.answer is not None:
        return row.answer(x.tolist())
    tile = row.setup(len(x), row.block(len(x)), 32).tile
    operator = as_operator(op)
    sections = [list(accumulate(x[k : k + tile].tolist(), operator.fn)) for k in range(0, len(x), tile)]
    if row.result == "reduction":
        return [s[-1] for s in sections]
    if row.result == "exclusive":
        return [v for s in sections for v in [operator.identity, *s[:-1]]]
    return [v for s in sections for v in s]


def results() -> list[dict[str, Any]]:
    """Every kernel, size and operator: whether the GPU's result is the right one."""
    rows = []
    for name, row in KERNELS.items():
        usual = "max" if row.needs == "idempotent" else "add"
        runs = [(n, usual) for n in (*SIZES, *((100_000,) if name in WIDE else ()))]
        if row.result != "application" and not row.needs:
            runs.append((1000, LAST_VALID))
        for n, op in runs:
            if n > 1024 and ("one block" in row.contract or name == "summed-area-table"):
                continue
            x = items(name, n)
            got = gpu.run(row, x, op).tolist()
            rows.append(
                {"kernel": name, "n": n, "op": str(as_operator(op)), "right": got == wanted(name, x, op)}
            )
    return rows


# --- wavefronts ---------------------------------------------------------------------------------------------------------


def predicted(name: str) -> dict[str, int]:
    """Shared memory wavefronts of loads and of stores, from the trace."""
    rows = accesses(lab.trace(name, n=COUNTED))
    return {kind: sum(row.wavefronts for row in rows if row.kind == kind) for kind in METRICS}


def wavefronts() -> list[dict[str, Any]]:
    """Nsight Compute's count of each kernel beside the prediction, all launches of a kernel together."""
    command = ["ncu", "--csv", "--metrics", ",".join(METRICS.values()), sys.executable, __file__, "--count"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    start = done.stdout.find('"ID"')
    if start < 0:
        return [{"kernel": "ncu", "said": (done.stdout + done.stderr)[-500:]}]
    measured: dict[int, dict[str, int]] = {}
    for line in csv.DictReader(io.StringIO(done.stdout[start:])):
        value = int(float(line["Metric Value"].replace(",", "")))
        measured.setdefault(int(line["ID"]), {})[line["Metric Name"]] = value
    rows, launches = [], iter(measured[k] for k in sorted(measured))
    for name in counted():
        setup = KERNELS[name].setup(COUNTED, KERNELS[name].block(COUNTED), 32)
        seen = [next(launches) for _ in setup.launches]
        ncu = {kind: sum(one[metric] for one in seen) for kind, metric in METRICS.items()}
        rows.append({"kernel": name, "predicted": predicted(name), "ncu": ncu})
    return rows


def counted() -> list[str]:
    """Kernels that use shared memory and whose traffic does not depend on who waits for whom."""
    return [name for name in KERNELS if sum(predicted(name).values()) and not name.startswith("domino")]


def count() -> None:
    """What runs under Nsight Compute: one launch sequence of each counted kernel."""
    for name in counted():
        gpu.run(KERNELS[name], items(name, COUNTED), "max" if KERNELS[name].needs == "idempotent" else "add")


# --- findings -----------------------------------------------------------------------------------------------------------


def sanitized(name: str, kind: str) -> dict[str, Any]:
    """What compute-sanitizer says of one kernel, beside the lab's findings of that kind."""
    ours = [
        f
        for f in lab.trace(name, **({} if name in MISTAKES else {"n": COUNTED})).check(witness=False)
        if f.kind == kind
    ]
    command = ["compute-sanitizer", "--tool", TOOLS[kind], sys.executable, __file__, "--one", name]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    except subprocess.TimeoutExpired:
        said = "timeout"
    lines = sorted({int(found) for found in re.findall(r"\.py:(\d+)", said)})
    summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", said)
    return {"kernel": name, "kind": kind, "lab lines": sorted({line for f in ours for line in f.lines}), "tool": TOOLS[kind],
            "tool lines": lines, "tool says": summary[-1] if summary else said[-200:]}  # fmt: skip


def findings() -> list[dict[str, Any]]:
    """Mistakes under the tool that should see them, and the textbook under racecheck."""
    jobs = [
        (name, kind)
        for name, row in MISTAKES.items()
        for kind in TOOLS
        if kind in row.finds and "deadlock" not in row.finds
    ]
    jobs += [
        (name, "race")
        for name in ("kogge-stone", "brent-kung", "blelloch", "sklansky", "three-phase", "warp-shuffle")
    ]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda job: sanitized(*job), jobs))


def one(name: str) -> None:
    """What runs under the sanitizer: one kernel, right or wrong."""
    if name in MISTAKES:
        row = MISTAKES[name]
        x = np.array(row.x or range(1, row.n + 1), np.int32)
        gpu.launch(row.setup, x, as_operator("add"))
    else:
        gpu.run(KERNELS[name], items(name, COUNTED))


# --- report -------------------------------------------------------------------------------------------------------------


def report(found: dict[str, Any]) -> str:
    """The Markdown of all three."""
    right = [row for row in found["results"] if row["right"]]
    text = [
        f"# The lab beside {found['device']}",
        "",
        f"{len(right)} of {len(found['results'])} runs give the right result.",
        "",
    ]
    text += [
        f"* wrong: {row['kernel']}, n = {row['n']}, {row['op']}"
        for row in found["results"]
        if not row["right"]
    ]
    text += [
        "## Shared memory wavefronts, n = 1024",
        "",
        "| kernel | loads: lab / ncu | stores: lab / ncu |",
        "|---|---|---|",
    ]
    for row in found["wavefronts"]:
        if "ncu" in row:
            both = [f"{row['predicted'][kind]} / {row['ncu'][kind]}" for kind in METRICS]
            text.append(f"| {row['kernel']} | {both[0]} | {both[1]} |")
    text += [
        "",
        "## Findings",
        "",
        "| kernel | kind | lines: lab | lines: tool | tool |",
        "|---|---|---|---|---|",
    ]
    for row in found["findings"]:
        lines = [" ".join(map(str, row[key])) for key in ("lab lines", "tool lines")]
        text.append(
            f"| {row['kernel']} | {row['kind']} | {lines[0]} | {lines[1]} | {row['tool']}: {row['tool says']} |"
        )
    return "\n".join([*text, ""])


def main(folder: Path) -> None:
    from numba import cuda

    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"device": str(cuda.get_current_device().name), "results": results()}
    found["wavefronts"] = wavefronts() if shutil.which("ncu") else []
    found["findings"] = findings() if shutil.which("compute-sanitizer") else []
    (folder / "lab_gpu.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / "lab_gpu.md").write_text(report(found))
    print(report(found))
    if not all(row["right"] for row in found["results"]):
        raise SystemExit("some results are wrong")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--count"]:
        count()
    elif sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
    else:
        main(Path(sys.argv[1]))
