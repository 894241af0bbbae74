"""Recurrences of models, forward and backward: fractions of a copy of the bytes that must be moved, in the same run.

python benchmarks/models.py [FOLDER]          on a GPU where there is one, else on the CPU; results by machine in FOLDER
python benchmarks/models.py once PART/PARTS   every PARTS-th case once, which compiles it

Forward reads a and b and writes h; backward reads the gradient, a and h and writes two gradients. Both together are timed as a
user runs them, through autograd. Every result is compared with the loop over time, bit for bit, before it is timed.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "src")]
import torch

import upsweep as up
import upsweep.torch as ut
from upsweep.adjoint import recurrence_gradients

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
SHAPES = (
    [
        (8, 4096, 1536),
        (64, 512, 2048),
        (1, 16384, 4096),
        (32, 2048, 4096),
        (2, 65536, 1024),
        (8, 4096, 1535),
        (8, 4096, 101),
        (8, 16384, 64),
    ]
    if GPU
    else [(4, 1024, 1024), (1, 4096, 1024), (16, 256, 1024)]
)
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
CASES = [(shape, dtype) for dtype in DTYPES for shape in SHAPES]
PROCESSES = 16
COLUMNS = ["forward", "add", "max", "tree", "backward", "both", "both_tree", "packed", "packed_tree"]


def median(run, repeats=7):
    """Seconds of device time, or of wall time on a CPU. On a CPU the least time counts, since other programs may run."""
    run()
    times = []
    for _ in range(repeats):
        if GPU:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            # The host is ahead when the first kernel starts.
            torch.cuda._sleep(4_000_000)
            begin.record()
            run()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        else:
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
    return statistics.median(times) if GPU else min(times)


@cache
def copying(size):
    """Seconds of a copy that moves so many bytes."""
    source = torch.ones(size // 8, device=DEVICE)
    target = torch.empty_like(source)
    return median(lambda: target.copy_(source))


def loop(a, b):
    states, h = [b[:, 0]], b[:, 0]
    for t in range(1, b.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, 1)


def check(dtype):
    """The bits of the loop, forward and backward, with states in the accumulator's dtype."""
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    a, b, g = (torch.rand(3, 131, 96, device=DEVICE).to(dtype) for _ in range(3))
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    h = ut.linear_recurrence(x, y, axis=1, order="sequential")
    p, q = a.to(wide).requires_grad_(), b.to(wide).requires_grad_()
    want = loop(p, q)
    assert torch.equal(h, want.to(dtype)), f"forward {dtype}"
    db = torch.autograd.grad(h, y, g)[0]
    assert torch.equal(db, torch.autograd.grad(want, q, g.to(wide))[0].to(dtype)), f"backward {dtype}"


def runs(shape, dtype):
    """By the name of a column: how many arrays are moved, and what is run."""
    a, b, g = (torch.rand(shape, device=DEVICE).mul_(0.9).to(dtype) for _ in range(3))
    out, how = torch.empty_like(b), {"axis": 1, "order": "sequential"}
    h = up.linear_recurrence(a, b, **how)
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()

    # Three sequences in each row, the first one short.
    packing = up.segments.offsets(torch.tensor([0, 100, shape[1] // 2, shape[1]], device=DEVICE))

    def both(order, segments=None):
        made = ut.linear_recurrence(x, y, axis=1, order=order, segments=segments)
        return torch.autograd.grad(made, (x, y), g)

    return {
        "forward": (3, lambda: up.linear_recurrence(a, b, out=out, **how)),
        "add": (2, lambda: up.scan(b, out=out, **how)),
        "max": (2, lambda: up.scan(b, "max", out=out, **how)),
        "tree": (3, lambda: up.linear_recurrence(a, b, axis=1, out=out)),
        "backward": (5, lambda: recurrence_gradients(g, a, h, axis=1)),
        "both": (8, lambda: both("sequential")),
        "both_tree": (8, lambda: both("tree")),
        "packed": (8, lambda: both("sequential", packing)),
        "packed_tree": (8, lambda: both("tree", packing)),
    }


def measured(shape, dtype):
    size = torch.empty(shape, dtype=dtype, device="meta").nbytes
    return {
        name: round(copying(arrays * size) / median(run), 3)
        for name, (arrays, run) in runs(shape, dtype).items()
    }


def once(part, parts):
    """Some cases, each run once: their kernels are on disk from then on."""
    for shape, dtype in CASES[part::parts]:
        check(dtype)
        for _, run in runs(shape, dtype).values():
            run()
        torch.cuda.empty_cache()


def compiled():
    """All kernels, compiled by processes side by side."""
    jobs = [
        subprocess.Popen([sys.executable, __file__, "once", f"{part}/{PROCESSES}"])
        for part in range(PROCESSES)
    ]
    for job in jobs:
        job.wait()


def main(folder):
    if GPU:
        compiled()
    machine = (
        torch.cuda.get_device_name() if GPU else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    rows = []
    print(f"{machine}: fractions of a copy of the same bytes")
    print(f"{'shape':>18} {'dtype':>9} " + " ".join(f"{c:>11}" for c in COLUMNS))
    for dtype in DTYPES:
        check(dtype)
    for shape, dtype in CASES:
        got = measured(shape, dtype)
        rows.append({"shape": shape, "dtype": str(dtype).removeprefix("torch."), **got})
        told = " ".join(f"{got[c]:11.3f}" for c in COLUMNS)
        print(f"{shape!s:>18} {rows[-1]['dtype']:>9} {told}", flush=True)
        if GPU:
            torch.cuda.empty_cache()
    folder.mkdir(parents=True, exist_ok=True)
    name = machine.lower().replace(" ", "-").replace(",", "")
    (folder / f"models-{name}.json").write_text(
        json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["once"]:
        once(*map(int, sys.argv[2].split("/")))
    else:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results")
