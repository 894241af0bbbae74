"""Tile shapes side by side: how the numbers in gpu/shapes.py were chosen.

python benchmarks/gpu_tune.py CASE[,CASE...]
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import gpu_check as check
from upsweep.gpu import launch, layout
from upsweep.gpu.shapes import Shape
from upsweep.operators import ops

G = 1 << 30
STATES = [False, True]  # the components that are stored
CASES = {  # what rate() takes
    "f4": (ops.ADD, ["f4"], (G // 4,)),
    "f8": (ops.ADD, ["f8"], (G // 8,)),
    "i2": (ops.ADD, ["i2"], (G // 2,)),
    "f2": (ops.ADD, ["f2"], (G // 2,)),
    "i1": (ops.ADD, ["i1"], (G,)),
    "c16": (ops.ADD, ["c16"], (G // 16,)),
    "max": (ops.MAX, ["f4"], (G // 4,)),
    "affine": (ops.AFFINE, ["f4", "f4"], (G // 8,), 0, None, STATES),
    "rows": (ops.ADD, ["f4"], (65536, 4096), 1),
    "rows4096": (ops.AFFINE, ["f4", "f4"], (12288, 4096), 1, None, STATES),
    "rows5000": (ops.AFFINE, ["f4", "f4"], (12288, 5000), 1, None, STATES),
    "segments": (ops.ADD, ["f4"], (G // 4,), 0, 0.01),
    "matrix": (check.MATRIX, ["f8"] * 4, (G // 32,)),
    "eight": (check.EIGHT, ["f8"] * 8, (G // 64,)),
    "columns": (ops.ADD, ["f4"], (65536, 4096), 0),
    "tall": (ops.ADD, ["f4"], (1 << 20, 256), 0),
    "logaddexp": (ops.LOGADDEXP, ["f4"], (G // 4,)),
}
SHAPES = {
    "f4": list(itertools.product((32, 16), (8, 4), (2, 3, 4, 5, 6), (1, 2, 4))),
    "f8": list(itertools.product((16, 8), (8, 4), (2, 3, 4, 5, 6), (1, 2, 4))),
    "i2": list(itertools.product((32, 16), (8, 4), (2, 3, 4), (1, 2, 4))),
    "i1": list(itertools.product((32, 16), (8, 4), (2, 3, 4), (2, 4, 8))),
    "c16": list(itertools.product((8, 4), (8, 4), (2, 3, 4), (1, 2))),
    "affine": list(itertools.product((16, 8), (8, 4), (2, 3, 4, 5), (1, 2))),
    "segments": list(itertools.product((32, 16), (8, 4), (2, 3, 4, 5), (1, 2))),
    "matrix": list(itertools.product((8, 4, 2), (8, 4), (1, 2, 3), (1, 2))),
    "eight": list(itertools.product((4, 2), (8, 4), (1, 2, 3), (1, 2))),
    "columns": list(itertools.product((32, 16), (8, 4, 16), (1, 2, 3, 4, 5), (1,))),
}
LIKE = {
    "f2": "i2",
    "rows4096": "affine",
    "rows5000": "affine",
    "tall": "columns",
    "max": "f4",
    "rows": "f4",
    "logaddexp": "f4",
}


def tune(name: str) -> None:
    shapes = SHAPES[LIKE.get(name, name)]
    chosen, results = layout.choose, []
    for items, warps, blocks, strips in shapes:

        def choose(plan, laid):
            first = chosen(plan, laid)
            if first.shape.together and 32 * items * warps < laid.n:
                raise ValueError("the block does not hold a row")
            tried = replace(first.shape, items=items, warps=warps, blocks=blocks, strips=strips)
            return replace(first, shape=tried)

        if warps * strips > 32 or blocks * (warps + 2) > 64:
            continue
        launch.choose = choose
        launch._launches.clear()
        try:
            got = check.rate(name, *CASES[name], quiet=True)
        except Exception as error:
            print(name, items, warps, blocks, strips, str(error)[:100])
            continue
        results.append((got["fraction"], items, warps, blocks, strips))
    launch.choose = chosen
    for fraction, *numbers in sorted(results, reverse=True)[:6]:
        print(
            f"{name:10s} items {numbers[0]:2d} warps {numbers[1]:2d} blocks {numbers[2]} strips {numbers[3]}: {fraction:.3f}",
            flush=True,
        )
    print(f"{name:10s} worst {min(results)}", flush=True)


def small(n: int) -> None:
    """Microseconds a scan of n f4 items, launched back to back behind a kernel that sleeps."""
    import torch

    from upsweep.plan import Plan

    f = check.np.dtype("f4")
    x = torch.rand(n, device="cuda")
    y = torch.empty_like(x)
    views = [check.gpu.view(x)], [check.gpu.view(y)], None, None
    chosen = layout.choose
    for items, warps, blocks in itertools.product((32, 16, 8), (8, 4), (2, 4)):

        def choose(plan, laid):
            return layout.Tiles(Shape(items, warps, blocks, small=True), laid)

        launch.choose = choose
        plan = Plan(ops.ADD, (f,), (f,), (f,), (n,), 0, threads=items * 100 + warps * 10 + blocks)
        check.gpu.run(plan, *views)
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        torch.cuda._sleep(10_000_000)
        a.record()
        for _ in range(200):
            check.gpu.run(plan, *views)
        b.record()
        torch.cuda.synchronize()
        print(
            f"n {n} items {items} warps {warps} blocks {blocks}: {a.elapsed_time(b) * 5:.2f} us",
            flush=True,
        )
    launch.choose = chosen


if __name__ == "__main__":
    if sys.argv[1] == "once":
        op, dtypes, shape, *axis = CASES[sys.argv[2]]
        extra = (
            {"segments": 0.01}
            if sys.argv[2] == "segments"
            else {"stores": [False, True]}
            if op is ops.AFFINE
            else {}
        )
        check.timed = lambda f, reps=1: [f() for _ in range(3)] and 1.0
        check.rate(sys.argv[2], op, dtypes, shape, *axis, quiet=True, **extra)
        sys.exit()
    if sys.argv[1] == "small":
        small(int(sys.argv[2]))
        sys.exit()
    for case in sys.argv[1].split(","):
        if case:
            tune(case)
