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
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from upsweep import lab
from upsweep.lab.cases import case
from upsweep.lab.traffic import accesses
from upsweep.operator import Operator
from upsweep.operators import as_operator
from upsweep.textbook import KERNELS, gpu
from upsweep.textbook.mistakes import MISTAKES
from upsweep.textbook.table import Setup

SIZES = (1, 33, 1000, 1024, 5000)
COUNTED = 1024
"""The size at which wavefronts are counted."""
WIDE = (
    "hierarchical",
    "reduce-then-scan",
    "domino",
    "domino-dynamic",
    "decoupled-look-back",
    "matrix",
    "kogge-stone",
    "brent-kung",
    "three-phase",
)
"""Kernels that also run on 100000 items."""
LAST_VALID = Operator(lambda a, b: b if b >= 0 else a, identity=-1, name="last valid")
"""Associative, and not commutative."""
METRICS = {
    "load": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "store": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}
REPEATS = 3
"""Launches of each kernel under Nsight Compute: variation between them does not come from the kernel."""
_SECOND_LOAD = "the down-sweep's second load of xy[right], 191 wavefronts in all, is nearly always a register in the compiled code"
_CARRY = "before[0], just written by the same thread, is a register in the compiled code: a wavefront of each block but the first"
EXPLAINED = {
    "blelloch": _SECOND_LOAD,
    "blelloch-interleaved": _SECOND_LOAD,
    "domino": _CARRY,
    "domino-dynamic": _CARRY,
    "recurrence": _CARRY,
    "decoupled-look-back": "how far a block looks back is a matter of the moment",
    "hierarchical": "each block's sum, 32 wavefronts, is a register in the compiled code: the last thread has just loaded it",
}
"""Why a count may differ: the lab counts what the source says."""
TOOLS = {
    "race": "racecheck",
    "divergent barrier": "synccheck",
    "out of bounds": "memcheck",
    "uninitialised": "initcheck",
}


# --- results ------------------------------------------------------------------------------------------------------------


def items(name: str, n: int) -> np.ndarray:
    """Integers with some invalid ones among them, or bins where bins are counted."""
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
    """Every kernel, size and operator: whether the GPU's result is right."""
    rows = []
    for name, row in KERNELS.items():
        usual = "max" if row.needs == "idempotent" else "add"
        runs: list[tuple[int, Any]] = [(n, usual) for n in (*SIZES, *((100_000,) if name in WIDE else ()))]
        if row.result != "application" and not row.needs:
            runs.append((1000, LAST_VALID))
        for n, op in runs:
            if n > 1024 and ("one block" in row.contract or "rectangle" in row.contract):
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
    """Nsight Compute's counts of each kernel beside the prediction, with all launches of a kernel added up."""
    command = ["ncu", "--csv", "--metrics", ",".join(METRICS.values()), sys.executable, __file__, "--count"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    start = done.stdout.find('"ID"')
    if start < 0:
        raise SystemExit(f"ncu counted nothing: {(done.stdout + done.stderr)[-500:]}")
    measured: dict[int, dict[str, int]] = {}
    for line in csv.DictReader(io.StringIO(done.stdout[start:])):
        value = int(float(line["Metric Value"].replace(",", "")))
        measured.setdefault(int(line["ID"]), {})[line["Metric Name"]] = value
    rows, launches = [], iter(measured[k] for k in sorted(measured))
    for name in counted():
        setup = KERNELS[name].setup(COUNTED, KERNELS[name].block(COUNTED), 32)
        runs = [[next(launches) for _ in setup.launches] for _ in range(REPEATS)]
        ncu = {
            kind: sorted({sum(one[metric] for one in run) for run in runs})
            for kind, metric in METRICS.items()
        }
        rows.append({"kernel": name, "predicted": predicted(name), "ncu": ncu})
    return rows


def counted() -> list[str]:
    """Kernels that use shared memory."""
    return [name for name in KERNELS if sum(predicted(name).values())]


def count() -> None:
    """The program under Nsight Compute: each kernel's launches, several times."""
    for name in counted():
        for _ in range(REPEATS):
            gpu.run(
                KERNELS[name], items(name, COUNTED), "max" if KERNELS[name].needs == "idempotent" else "add"
            )


# --- findings -----------------------------------------------------------------------------------------------------------


def sanitized(name: str, kind: str) -> dict[str, Any]:
    """The report of compute-sanitizer on one kernel, beside the lab's findings of that kind."""
    posed = (
        replace(case(name), setup=posed_as(name), x=tuple(given(name).tolist()))
        if name in MISTAKES
        else case(name, n=COUNTED)
    )
    run = posed.run()
    ours = {line for f in lab.check(run, witness=False) if f.kind == kind for line in f.lines}
    command = ["compute-sanitizer", "--tool", TOOLS[kind], sys.executable, __file__, "--one", name]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    except subprocess.TimeoutExpired:
        said = "timeout"
    files = "|".join({re.escape(Path(kernel.source.file).name) for kernel in run.kernels})
    lines = {int(found) for found in re.findall(rf"\b(?:{files}):(\d+)", said)}
    summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", said)
    return {"kernel": name, "kind": kind, "lab lines": sorted(ours), "tool": TOOLS[kind],
            "tool lines": sorted(lines), "tool says": summary[-1] if summary else said[-200:]}  # fmt: skip


def findings() -> list[dict[str, Any]]:
    """Mistakes under the tool that should find them, and the textbook under racecheck."""
    jobs = [
        (name, kind)
        for name, row in MISTAKES.items()
        for kind in TOOLS
        if kind in row.finds and "deadlock" not in row.finds
    ]
    jobs += [(name, "race") for name in counted()]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda job: sanitized(*job), jobs))


def posed_as(name: str) -> Setup:
    """The setup of a mistake. Where a barrier diverges, the block has two warps, since one warp arrives as one."""
    setup = MISTAKES[name].setup
    if "divergent barrier" not in MISTAKES[name].finds:
        return setup
    (one,) = setup.launches
    by = 64 // one.block
    names = {
        key: value * by if key in ("BLOCK", "TILE", "WORDS") else value for key, value in one.names.items()
    }
    args = tuple(a if isinstance(a, str) else a * by for a in one.args)
    return replace(
        setup,
        launches=(replace(one, block=64, args=args, names=names),),
        buffers={"y": MISTAKES[name].n * by},
    )


def given(name: str) -> np.ndarray:
    """The number of items of a mistake."""
    row, setup = MISTAKES[name], posed_as(name)
    n = row.n * setup.launches[0].block // row.setup.launches[0].block
    return np.array(row.x or range(1, n + 1), np.int32)


def one(name: str) -> None:
    """The program under the sanitizer: one kernel, right or wrong."""
    if name in MISTAKES:
        gpu.launch(posed_as(name), given(name), as_operator("add"))
    else:
        gpu.run(KERNELS[name], items(name, COUNTED), "max" if KERNELS[name].needs == "idempotent" else "add")


# --- report -------------------------------------------------------------------------------------------------------------


NOTES = """
*same*: both name the same lines. *its first*: memcheck ends a block at its first wild access, and racecheck need not see every
pair; what it names is among the lab's. *lab alone*: the tool says nothing, for one of these reasons.

* racecheck watches shared memory alone: what fences order between blocks, and what blocks do without them, is the lab's to find.
* initcheck watches global memory alone: words of shared memory that nobody has written are the lab's to find.
* A negative index is out of bounds in CUDA C and in the lab; numba counts it from the end, so memcheck sees nothing wrong.
* synccheck is asked with two warps (64 threads), since the threads of one warp arrive at a barrier as one.
"""


def report(found: dict[str, Any]) -> str:
    """The Markdown of all three tables."""
    right = [row for row in found["results"] if row["right"]]
    wrong = [row for row in found["results"] if not row["right"]]
    exact = [
        row
        for row in found["wavefronts"]
        if all(row["ncu"][kind] == [row["predicted"][kind]] for kind in METRICS)
    ]
    text = [
        f"# The lab beside {found['device']}",
        "",
        f"{len(right)} of {len(found['results'])} runs give the right result.",
        "",
    ]
    text += [f"* wrong: {row['kernel']}, n = {row['n']}, {row['op']}" for row in wrong]
    text += ["## Shared memory wavefronts, n = 1024", ""]
    text += [
        f"The lab's count is Nsight Compute's for {len(exact)} of {len(found['wavefronts'])} kernels.",
        "",
    ]
    text += [
        "| kernel | loads: lab | loads: ncu | stores: lab | stores: ncu | |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["wavefronts"]:
        both = [f"{row['predicted'][kind]} | {' to '.join(map(str, row['ncu'][kind]))}" for kind in METRICS]
        text.append(
            f"| {row['kernel']} | {both[0]} | {both[1]} | {'' if row in exact else EXPLAINED.get(row['kernel'], '?')} |"
        )
    text += [
        "",
        "## Findings",
        "",
        "| kernel | kind | lines: lab | lines: tool | agree | tool |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["findings"]:
        lab_lines, tool_lines = (" ".join(map(str, row[key])) for key in ("lab lines", "tool lines"))
        agree = agreement(set(row["lab lines"]), set(row["tool lines"]))
        said = f"{row['tool']}: {row['tool says']}"
        text.append(f"| {row['kernel']} | {row['kind']} | {lab_lines} | {tool_lines} | {agree} | {said} |")
    return "\n".join([*text, NOTES])


def agreement(ours: set[int], theirs: set[int]) -> str:
    """How the lab's lines compare with a tool's lines."""
    if ours == theirs:
        return "same"
    if not theirs:
        return "lab alone"
    return "its first" if theirs < ours else "differ"


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
