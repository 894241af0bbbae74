"""Small scans of every kernel for compute-sanitizer: memcheck and racecheck.

compute-sanitizer --tool memcheck python benchmarks/gpu_sanitize.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("tests", "src")]
from conformance.cases import Call
from conformance.check import wrong
from conformance.memory import device

CALLS = [
    Call("add-float32", ((100_003,), 0)),
    Call("add-float32", ((70_001,), 0), inside="offset", reverse=True, segments="flags", initial="rows"),
    Call("add-int8", ((300_001,), 0), inside="offset", outside="offset", out="given"),
    Call("add-float64", ((1100, 5001), 1)),
    Call("add-float32", ((777, 37), 1)),
    Call("add-float32", ((5000, 77), 0), exclusive=True),
    Call("add-int16", ((3000, 100), 0), inside="stepped", outside="stepped", out="given"),
    Call("affine-float32-float32", ((40_000,), 0), out="last"),
    Call("add-float32", ((40_000,), 0), reduce=True),
    Call("add-float32", ((5000, 77), 0), reverse=True, segments="flags"),
    Call("fused-both", ((40_000,), 0)),
    Call("fused-both", ((3000, 100), 0), segments="flags"),
    Call("fused-finish", ((777, 300), 1)),
    Call("fused-pairs", ((50, 64), 0), order="sequential"),
    Call("fused-map", ((40_000,), 0), reduce=True),
    Call("add-float32", ((1030, 20, 8), 1), reverse=True, segments="flags"),
    Call("add-int16", ((4200, 64, 2), 1), initial="rows"),
    Call("add-float32", ((3000, 64), 0), inside="stepped", segments="lengths"),
    Call("add-int8", ((9000, 31), 1), inside="stepped", segments="line"),
]

for call in CALLS:
    print(call, wrong(call, device("cuda")) or "right", flush=True)
