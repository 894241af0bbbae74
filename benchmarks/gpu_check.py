"""One call on a machine with a GPU: bits against the canonical tree, then bandwidth as fractions of a copy.

python benchmarks/gpu_check.py FOLDER           everything: bits, the public API, compute-sanitizer, the table with peers
python benchmarks/gpu_check.py bits  FOLDER     every call of tests/conformance; exit 1 on any difference
python benchmarks/gpu_check.py speed FOLDER     the table, as JSON, Markdown and PNG
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import cupy as cp
import numpy as np

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src"), str(TESTS)]
import upsweep as up
import upsweep.gpu as gpu
from conformance.cases import eight, matrices
from upsweep.dtypes import accumulator
from upsweep.operator import Operator, resolve
from upsweep.operators import form_of, ops
from upsweep.plan import Plan

MATRIX = Operator(matrices, (1, 0, 0, 1), name="matrix")
EIGHT = Operator(eight, (0,) * 8, name="eight")
CAST = Operator(
    lambda a, b: b + a, 0, name="python add"
)  # `a + b` would be recognised, and run as the built-in one
assert form_of(CAST, [np.dtype("f4")]) is None


def bits(folder, parts=12):
    """The conformance suite, in processes of their own: a fault in one leaves the others their say."""
    suite = [sys.executable, str(TESTS / "conformance" / "everything.py"), "cuda"]
    jobs = [
        subprocess.Popen(
            [*suite, f"{i}/{parts}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for i in range(parts)
    ]
    said = [job.communicate()[0] for job in jobs]
    lines = [line for text in said for line in text.splitlines() if "wrong" in line or "Error" in line]
    (folder / "bits.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines), flush=True)
    return any(job.returncode for job in jobs)


def timed(f, reps=15):
    for _ in range(3):
        f()
    times = []
    for _ in range(reps):
        a, b = cp.cuda.Event(), cp.cuda.Event()
        a.record()
        f()
        b.record()
        b.synchronize()
        times.append(cp.cuda.get_elapsed_time(a, b))
    return sorted(times)[len(times) // 2]


def rate(name, op, dtypes, shape, axis=0, segments=None, stores=None, quiet=False, **extra):
    """Milliseconds, bytes a second, and the fraction of a copy of the same bytes."""
    loads = tuple(np.dtype(d) for d in dtypes)
    accumulators = tuple(accumulator(d) for d in loads)
    op = resolve(op, accumulators)
    stored = tuple(d if s else None for d, s in zip(loads, stores or [True] * len(loads)))
    plan = Plan(op, loads, accumulators, stored, shape, axis, segmented=segments is not None, **extra)
    xs = [cp.random.randint(0, 1 << 30, int(np.prod(shape)) * d.itemsize // 4, dtype=np.int32).view(d) if d.kind in "iu"
          else (cp.random.random(shape, dtype=np.float32) - 0.5).astype(d) for d in loads]  # fmt: skip
    xs = [x.reshape(shape) for x in xs]
    rows = plan.row_shape if plan.reduce else shape
    ys = [cp.empty(rows, d) if d is not None else None for d in stored]
    heads = (
        None if segments is None else (cp.random.random(shape, dtype=np.float32) < segments).astype(np.uint8)
    )
    moved = sum(
        a.nbytes for a in (*xs, *(y for y in ys if y is not None), *([heads] if heads is not None else []))
    )
    views = (
        [gpu.view(x) for x in xs],
        [None if y is None else gpu.view(y) for y in ys],
        None,
        heads is not None and gpu.view(heads) or None,
    )
    return beside_a_copy(name, lambda: gpu.run(plan, *views), moved, quiet)


def beside_a_copy(name, call, moved, quiet=False):
    places = [cp.empty(moved // 2, np.uint8) for _ in range(4)]
    copy = min(  # a tenth lies between one place in memory and another
        timed(lambda: cp.cuda.runtime.memcpyAsync(b.data.ptr, a.data.ptr, moved // 2, 3, 0))
        for a, b in (places[:2], places[2:])
    )
    del places
    ms = timed(call)
    if not quiet:
        print(
            f"{name:44s} {ms:9.4f} ms {moved / ms / 1e6:8.1f} GB/s  {copy / ms:6.3f} of a copy ({copy:.4f} ms)",
            flush=True,
        )
    cp.get_default_memory_pool().free_all_blocks()
    return {"name": name, "ms": ms, "gbs": moved / ms / 1e6, "fraction": copy / ms}


ONE = np.float32(1)
EMA, LAST = (lambda a, x: (ONE - a, a * x)), (lambda prefix: prefix[1])
FUSED = {
    "squares f4": ("add", ["f4"], {"map": lambda x: x * x}),
    "differences f4": ("add", ["f4"], {"finish": lambda p, x: p - x}),
    "drawdown f4": ("max", ["f4"], {"finish": lambda p, x: (p - x) / p}),
    "variance f4": ("add", ["f4"], {"map": lambda x: x * x, "finish": lambda p, x, i: p / np.float32(i + 1) - x * x}),
    "average f4": ("affine", [0.25, "f4"], {"map": EMA, "finish": LAST}),
    "averages f4 65536x4096 axis 1": ("affine", [0.25, "f4"], {"map": EMA, "finish": LAST, "axis": 1}),
    "averages f4 65536x4096 axis 0": ("affine", [0.25, "f4"], {"map": EMA, "finish": LAST, "axis": 0}),
    "averages f4 axis 0 in order": ("affine", [0.25, "f4"], {"map": EMA, "finish": LAST, "axis": 0, "order": "sequential"}),
    "rewards f4, ends ?": (
        "affine", ["f4", "?", 0.99],
        {"map": lambda r, end, g: (g * np.float32(not end), r), "finish": LAST, "reverse": True},
    ),
}  # fmt: skip
"""Maps and finishes: operator, arrays and numbers, keywords."""


def fused(name, items):
    """A row of FUSED, checked against its three steps on the CPU for a part of the items, then timed."""
    op, inputs, how = FUSED[name]
    shape = (items // 4096, 4096) if "axis" in how else (items,)

    def of(dtype):
        x = cp.random.random(shape, dtype=np.float32) + np.float32(0.5)
        return x > 1.4 if dtype == "?" else x

    arrays = [of(x) if isinstance(x, str) else np.float32(x) for x in inputs]
    part = tuple(x[: len(x) // 64] if isinstance(x, cp.ndarray) else x for x in arrays)
    host = tuple(x.get() if isinstance(x, cp.ndarray) else x for x in part)
    assert np.array_equal(up.scan(part, op, **how).get(), up.scan(host, op, engine="numpy", **how)), name
    out = cp.empty(shape, np.float32)
    moved = out.nbytes + sum(x.nbytes for x in arrays if isinstance(x, cp.ndarray))
    return beside_a_copy(name, lambda: up.scan(tuple(arrays), op, out=out, **how), moved)


def speed(folder):
    G = 1 << 30
    rows = []

    def add(*args, by=rate, **kw):
        try:
            rows.append(by(*args, **kw))
        except Exception as error:
            print(f"{args[0]}: {type(error).__name__}: {str(error)[:300]}", flush=True)

    for _ in range(20):  # until the clocks have risen
        rate("warm", ops.ADD, ["f4"], (G // 4,), quiet=True)
    for dt in ("f4", "i4", "f8", "i8", "i2", "f2", "i1"):
        add(f"add {dt}", ops.ADD, [dt], (G // np.dtype(dt).itemsize,))
    add("max f4", ops.MAX, ["f4"], (G // 4,))
    add("add f4 exclusive", ops.ADD, ["f4"], (G // 4,), exclusive=True)
    add("add f4 reverse", ops.ADD, ["f4"], (G // 4,), reverse=True)
    add("reduce f4", ops.ADD, ["f4"], (G // 4,), reduce=True)
    add("logaddexp f4", ops.LOGADDEXP, ["f4"], (G // 4,))
    add("python add f4", CAST, ["f4"], (G // 4,))
    add("affine f4 one row", ops.AFFINE, ["f4", "f4"], (G // 8,), stores=[False, True])
    add("affine f4 12288x4096", ops.AFFINE, ["f4", "f4"], (12288, 4096), 1, stores=[False, True])
    add("affine f4 12288x5000", ops.AFFINE, ["f4", "f4"], (12288, 5000), 1, stores=[False, True])
    add("add f4 65536x4096 axis 1", ops.ADD, ["f4"], (65536, 4096), 1)
    add("add f4 65536x4096 axis 0", ops.ADD, ["f4"], (65536, 4096), 0)
    add("add f4 1048576x256 axis 0", ops.ADD, ["f4"], (1 << 20, 256), 0)
    add("add f4 1048576x256 axis 1", ops.ADD, ["f4"], (1 << 20, 256), 1)
    add("add i1 1048576x1024 axis 0", ops.ADD, ["i1"], (1 << 20, 1024), 0)
    add("add f8 262144x512 axis 0", ops.ADD, ["f8"], (1 << 18, 512), 0)
    add("add f4 segments 1 %", ops.ADD, ["f4"], (G // 4,), segments=0.01)
    add("add f4 3 rows of 10^8", ops.ADD, ["f4"], (3, 10**8), 1)
    add("matrix f8 (4 parts)", MATRIX, ["f8"] * 4, (G // 32,))
    add("eight f8 (64 bytes)", EIGHT, ["f8"] * 8, (G // 64,))
    add("add c16", ops.ADD, ["c16"], (G // 16,))
    add("add f4 2^20 items", ops.ADD, ["f4"], (1 << 20,))
    for name in FUSED:
        add(name, G // 4, by=fused)
    from gpu_peers import everyone

    peers = everyone(timed)
    for row in rows:
        row["goal"] = GOALS.get(row["name"])
        row["peers"] = {name: table[row["name"]] for name, table in peers.items() if row["name"] in table}
    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    (folder / "gpu.json").write_text(json.dumps({"device": device, "rows": rows}, indent=1))
    (folder / "gpu.md").write_text(markdown(device, rows))
    draw(device, rows, folder / "gpu.png")
    print(markdown(device, rows))


GOALS = {
    "add f4": 0.93, "add i4": 0.93, "add f8": 0.90, "add i8": 0.90, "add i2": 0.92, "add f2": 0.92, "add i1": 0.85,
    "max f4": 0.93, "logaddexp f4": 0.75, "affine f4 one row": 0.90, "affine f4 12288x4096": 0.95,
    "affine f4 12288x5000": 0.90, "add f4 65536x4096 axis 1": 0.90, "add f4 65536x4096 axis 0": 0.90,
    "add f4 1048576x256 axis 0": 0.90, "add f4 segments 1 %": 0.85,
    "squares f4": 0.90, "differences f4": 0.90, "drawdown f4": 0.90, "variance f4": 0.90, "average f4": 0.85,
    "averages f4 65536x4096 axis 1": 0.85, "averages f4 65536x4096 axis 0": 0.85, "averages f4 axis 0 in order": 0.85,
    "rewards f4, ends ?": 0.85,
}  # fmt: skip


def markdown(device, rows):
    lines = [
        f"Scans on one {device}, as fractions of a device copy of the same bytes in the same run (1 GiB in). Medians of 15.",
        "", "| scan | GB/s | of a copy | goal | others |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for r in rows:
        peers = ", ".join(
            f"{name} {value:.2f}" if value >= 0.01 else f"{name} {value:.4f}"
            for name, value in r["peers"].items()
        )
        lines.append(f"| {r['name']} | {r['gbs']:.0f} | {r['fraction']:.3f} | {r['goal'] or ''} | {peers} |")
    return "\n".join(lines) + "\n"


def draw(device, rows, path):
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.32 * len(rows) + 1.2), layout="constrained")
    places = range(len(rows))
    axes.barh(places, [r["fraction"] for r in rows], color="#3a6ea5", label="upsweep")
    for name, mark, colour in (("CUB", "D", "#d1495b"), ("torch", "o", "#edae49"), ("cupy", "s", "#66a182"),
                               ("cuda.compute", "v", "#5b5b5b"), ("JAX", "^", "#8d6cab")):  # fmt: skip
        found = [(r["peers"][name], i) for i, r in enumerate(rows) if name in r["peers"]]
        if found:
            axes.scatter(*zip(*found), marker=mark, color=colour, label=name, zorder=3, s=22)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_yticks(places, [r["name"] for r in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"fraction of a device copy ({device}, 1 GiB in)")
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=150)


def everything(folder):
    """Each part in processes of its own: a fault in one leaves the others their say."""
    here, python = Path(__file__).parent, sys.executable
    failed = int(bits(folder))
    report = (folder / "bits.txt").read_text().splitlines()
    commands = {"api": [python, str(here / "gpu_api.py")]}
    if shutil.which("compute-sanitizer"):
        commands["memcheck"] = [
            "compute-sanitizer",
            "--tool",
            "memcheck",
            "--report-api-errors",
            "no",
            python,
            str(here / "gpu_sanitize.py"),
        ]
    for name, command in commands.items():
        done = subprocess.run(command, capture_output=True, text=True)
        failed += done.returncode != 0
        report += [
            f"--- {name}: exit {done.returncode}",
            *[x for x in done.stdout.splitlines() if "upsweep: compiling" not in x][-40:],
        ]
    (folder / "checks.txt").write_text("\n".join(report) + "\n")
    print("\n".join(report), flush=True)
    speed(folder)
    return failed


if __name__ == "__main__":
    what, folder = (sys.argv[1], Path(sys.argv[2])) if len(sys.argv) > 2 else ("", Path(sys.argv[1]))
    folder.mkdir(parents=True, exist_ok=True)
    if what == "bits":
        sys.exit(bits(folder))
    sys.exit(speed(folder) if what == "speed" else everything(folder))
