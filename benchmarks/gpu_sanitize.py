"""Small scans of every kernel for compute-sanitizer: memcheck and racecheck.

compute-sanitizer --tool memcheck python benchmarks/gpu_sanitize.py
"""

from __future__ import annotations

import gpu_check as check
from upsweep.operators import ops

CASES = [
    (ops.ADD, ["f4"], (100_003,), 0, {}),
    (
        ops.ADD,
        ["f4"],
        (70_001,),
        0,
        {"place": "offset", "reverse": True, "segments": (0.01, "full"), "initial": "device"},
    ),
    (ops.ADD, ["i1"], (300_001,), 0, {"place": "offset"}),
    (ops.ADD, ["f8"], (1100, 5001), 1, {}),
    (ops.ADD, ["f4"], (777, 37), 1, {}),
    (ops.ADD, ["f4"], (5000, 77), 0, {"exclusive": True}),
    (ops.ADD, ["i2"], (3000, 100), 0, {"place": "stepped"}),
    (ops.AFFINE, ["f4", "f4"], (40_000,), 0, {"stores": [False, True]}),
    (ops.ADD, ["f4"], (40_000,), 0, {"reduce": True}),
]

for op, dtypes, shape, axis, extra in CASES:
    print(
        op, dtypes, shape, axis, extra, check.check(op, dtypes, shape, axis, **extra) or "right", flush=True
    )
