"""The same scans by other libraries on this GPU: rows of a table, fractions of a device copy of the same bytes."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

G = 1 << 30


def cub() -> dict[str, float]:
    """CUB, compiled here by nvcc: its fraction of a copy by dtype."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "peer"
        source = Path(__file__).with_name("peer_cub.cu")
        subprocess.run(
            ["nvcc", "-O3", "-std=c++17", "-arch=native", str(source), "-o", str(program)], check=True
        )
        lines = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split("\n")
    return {name: float(copy) / float(scan) for name, scan, copy in (line.split() for line in lines if line)}


def torch_rows(timed: Any) -> dict[str, float]:
    import torch

    found = {}
    x = torch.rand(G // 4, device="cuda")
    y = torch.empty_like(x)
    copy = timed(lambda: y.copy_(x))
    found["add f4"] = copy / timed(lambda: torch.cumsum(x, 0, out=y))
    found["logaddexp f4"] = copy / timed(lambda: torch.logcumsumexp(x, 0))
    for rows, columns in ((65536, 4096), (1 << 20, 256)):
        for axis in (0, 1):
            z, w = x.view(rows, columns), y.view(rows, columns)
            found[f"add f4 {rows}x{columns} axis {axis}"] = copy / timed(
                lambda: torch.cumsum(z, axis, out=w), 3
            )
    d = torch.rand(G // 8, device="cuda", dtype=torch.float64)
    e = torch.empty_like(d)
    found["add f8"] = copy / timed(lambda: torch.cumsum(d, 0, out=e))
    return found


def cupy_rows(timed: Any) -> dict[str, float]:
    import cupy as cp

    x = cp.random.random(G // 4, dtype=cp.float32)
    y = cp.empty_like(x)
    copy = timed(lambda: cp.copyto(y, x))
    z = x.reshape(65536, 4096)
    return {
        "add f4": copy / timed(lambda: cp.cumsum(x, out=y)),
        "add f4 65536x4096 axis 1": copy / timed(lambda: cp.cumsum(z, axis=1), 3),
        "add f4 65536x4096 axis 0": copy / timed(lambda: cp.cumsum(z, axis=0), 3),
    }


def everyone(timed: Any) -> dict[str, dict[str, float]]:
    """Whoever is here; whoever is not says why."""
    found: dict[str, dict[str, float]] = {}
    for name, rows in (("CUB", lambda: {f"add {k}": v for k, v in cub().items()}), ("torch", lambda: torch_rows(timed)),
                       ("cupy", lambda: cupy_rows(timed))):  # fmt: skip
        try:
            found[name] = rows()
        except Exception as missing:
            print(f"{name} is not compared: {type(missing).__name__}: {str(missing)[:200]}", flush=True)
    return found
