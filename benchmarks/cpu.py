"""The CPU's figures: printed, kept in results/ by machine, and drawn for the README. `make bench`"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
import numba
import numpy as np

import upsweep as up
from races import race
from upsweep import bench, short_way

RESULTS = Path(__file__).parent / "results"


def processor() -> str:
    """The processor's name, as the system knows it, and whether it has AVX-512: machines with it and without bear one name."""
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        info = ""
    found = re.search(r"model name\s*:\s*(.+)", info)
    name = found[1].strip() if found else platform.processor() or platform.machine()
    return f"{name} with AVX-512" if "avx512f" in info else name


def by_machine(name: str) -> str:
    """The name of a file of results: this, the processor and its cores."""
    return re.sub(r"[^a-z0-9]+", "-", f"{name} {processor()} {os.cpu_count() or 1} cores".lower()).strip("-")


def save(rows: list[bench.Row], machine: str, cores: int) -> None:
    record = {
        "machine": machine,
        "cores": cores,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "rows": [_rounded(asdict(row)) for row in rows],
    }
    (RESULTS / f"{by_machine('cpu')}.json").write_text(json.dumps(record, indent=1) + "\n")


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """A figure with no more digits than a second run would repeat."""
    return {key: float(f"{value:.3g}") if isinstance(value, float) else value for key, value in row.items()}


def draw(rows: list[bench.Row], machine: str, cores: int) -> None:
    """Bars of the scans that move as many bytes as a copy does. The copy is the line at 1."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [row for row in rows if row.against.startswith("copy")][::-1]
    places = np.arange(len(shown))
    figure, axes = plt.subplots(figsize=(8, 0.5 * len(shown) + 1.2), layout="constrained")
    ours = axes.barh(places + 0.2, [row.ratio for row in shown], 0.38, color="#1f6f8b", label="upsweep")
    theirs = axes.barh(
        places - 0.2, [row.numpy or 0 for row in shown], 0.38, color="#c9b79c", label="np.cumsum"
    )
    axes.bar_label(ours, [f"{row.ratio:.2f}" for row in shown], padding=3)
    axes.bar_label(
        theirs, [f"{row.numpy:.2f}" if row.numpy else "" for row in shown], padding=3, color="#7a6a50"
    )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(places, [row.name for row in shown])
    axes.set_xlim(0, 1.08)
    axes.set_xlabel("speed beside a parallel copy of the same bytes (the line at 1)")
    axes.set_title(f"256 MiB arrays, {cores} cores of {machine}", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", bbox_to_anchor=(0.9, 0), frameon=False)
    figure.savefig(RESULTS / "cpu.png", dpi=110)


def one_core() -> None:
    """Scans on one core beside torch.cumsum and NumPy on one core: their time over ours."""
    import torch

    torch.set_num_threads(1)
    print("one core: ns an item, times torch.cumsum, times np.cumsum, of a copy")
    for dtype in ("f4", "f8", "i4", "i8"):
        for log in (10, 12, 14, 16, 18, 20, 24, 27):
            x = (np.arange(1 << log) % 7).astype(dtype)
            y = np.zeros_like(x)
            tx, ty = torch.from_numpy(x), torch.from_numpy(y)
            ours, torchs, numpys, copy = race(
                lambda: up.scan(x, out=y),
                lambda: torch.cumsum(tx, 0, dtype=tx.dtype, out=ty),
                lambda: np.cumsum(x, dtype=x.dtype, out=y),
                lambda: np.copyto(y, x),
                repeats=max(5, min(400, (1 << 24) >> log)),
            )
            print(
                f"  {dtype} 2^{log:<2} {1e9 * ours / len(x):7.3f} {torchs / ours:6.2f} {numpys / ours:6.2f} {copy / ours:6.2f}",
                flush=True,
            )


def layouts() -> None:
    """Rows of any length, columns of any width, strided and reversed, on one core in cache."""
    n = 1 << 18
    print("one core, 2^18 items: ns an item, of a copy, times np.cumsum")
    for dtype in ("f4", "f8", "i4", "i8"):
        items = np.arange(2 * n) % 7
        cases = {
            f"rows of {k}": (items[: n // k * k].reshape(-1, k), 1)
            for k in (2, 3, 4, 8, 16, 31, 100, 1000, 5000)
        }
        cases |= {
            f"{k} columns": (items[: n // k * k].reshape(-1, k), 0) for k in (2, 3, 4, 8, 16, 33, 100, 1000)
        }
        for name, (whole, axis) in cases.items():
            _beside(f"{dtype} {name}", whole.astype(dtype), axis)
        for name, place in {
            "[::2]": slice(None, None, 2),
            "[::-1]": slice(n, None, -1),
            "[1:]": slice(1, n),
        }.items():
            _beside(f"{dtype} x{name}", items.astype(dtype)[place], 0)


def _beside(name: str, x: np.ndarray, axis: int) -> None:
    y = np.zeros(x.shape, x.dtype)
    ours, numpys, copy = race(
        lambda: up.scan(x, axis=axis, out=y),
        lambda: np.cumsum(x, axis=axis, dtype=x.dtype, out=y),
        lambda: np.copyto(y, x),
    )
    print(f"  {name:16} {1e9 * ours / x.size:7.3f} {copy / ours:6.2f} {numpys / ours:6.2f}", flush=True)


def loops() -> None:
    """Operators of two or three operations beside the loop that numba makes of them, one core in cache."""
    operators: dict[str, Callable[[Any, Any], Any]] = {
        "max": lambda a, b: a if a > b else b,
        "a + b + a * b": lambda a, b: a + b + a * b,
        "a / 2 + b": lambda a, b: a * 0.5 + b,
    }
    x = np.random.default_rng(0).random(1 << 14).astype("f4")
    y = np.zeros_like(x)
    print("one core, float32, 2^14: times a numba loop of the same operator")
    for name, fn in operators.items():
        compiled = numba.njit(fn)

        @numba.njit
        def loop(x, y, compiled=compiled):
            p = x[0]
            y[0] = p
            for i in range(1, len(x)):
                p = np.float32(compiled(p, x[i]))
                y[i] = p

        op = up.Operator(fn)
        up.scan(x, op, out=y)
        loop(x, y)
        ours, theirs = race(lambda: up.scan(x, op, out=y), lambda: loop(x, y), repeats=400)
        print(f"  {name:16} {theirs / ours:6.2f}", flush=True)


def threads(size: int = 1 << 28) -> None:
    """Scans by one thread, two, four and so on, beside a copy by as many."""
    cores = os.cpu_count() or 1
    counts = [1 << k for k in range(cores.bit_length())]
    peers = onetbb(size, counts)
    print(
        "threads: speed of a scan beside one thread, and beside a copy by as many, and beside oneTBB's by as many"
    )
    for dtype in ("f4", "f8", "i4", "i8"):
        x = (np.arange(size // np.dtype(dtype).itemsize) % 7).astype(dtype)
        y, alone = np.zeros_like(x), 0.0
        for count in counts:
            with up.set_threads(count), ThreadPoolExecutor(count) as pool:
                shares = list(zip(np.array_split(y, count), np.array_split(x, count)))
                ours, copy = race(
                    lambda: up.scan(x, out=y),
                    lambda: list(pool.map(lambda share: np.copyto(*share), shares)),
                    repeats=15,
                )
            alone = alone or ours
            peer = f" {peers[dtype, count] / ours:6.2f}" if peers else ""
            print(f"  {dtype} {count:3} {alone / ours:6.2f} {copy / ours:6.2f}{peer}", flush=True)


def onetbb(size: int, counts: list[int]) -> dict[tuple[str, int], float]:
    """oneTBB's parallel_scan, compiled here: its seconds by dtype and threads. Empty where g++ or oneTBB is missing
    (`pip install tbb-devel`).
    """
    source = Path(__file__).with_name("peer_tbb.cpp")
    headers, library = f"-I{sys.prefix}/include", f"{sys.prefix}/lib"
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "peer")
        build = ["g++", "-O3", "-march=native", "-std=c++17", headers, str(source), "-o", program]
        try:
            subprocess.run(
                [*build, f"-L{library}", f"-Wl,-rpath,{library}", "-ltbb"], check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError):
            print("oneTBB is not compared: g++ cannot build its peer (`pip install tbb-devel`)", flush=True)
            return {}
        told = subprocess.run(
            [program, str(size), *map(str, counts)], check=True, capture_output=True, text=True
        )
    rows = [line.split() for line in told.stdout.splitlines()]
    return {(dtype, int(count)): float(seconds) for dtype, count, seconds in rows}


def calls() -> None:
    """Microseconds of small calls, and the time of NumPy and PyTorch over ours, with out= and without."""
    import torch

    torch.set_num_threads(1)
    way = "Python" if short_way.part is None else "C"
    print(
        f"small calls, which run in {way}: us, times np.cumsum, np.add.accumulate and torch.cumsum, with out= and without"
    )
    for dtype in ("f4", "f8", "i8"):
        for shape in ((1,), (10,), (100,), (1000,), (2000,), (4096,), (1 << 16,), (3, 100)):
            x = np.ones(shape, dtype)
            times = [
                each for y in (np.zeros_like(x), None) for each in race(*_small(torch, x, y), repeats=3000)
            ]
            (ours, *others), (made, *made_by) = times[:4], times[4:]
            with_out = " ".join(f"{t / ours:5.2f}" for t in others)
            without = " ".join(f"{t / made:5.2f}" for t in made_by)
            name = f"{dtype} {'x'.join(map(str, shape))}"
            print(f"  {name:10} {1e6 * ours:6.2f} {with_out}   {1e6 * made:6.2f} {without}", flush=True)


def _small(torch: Any, x: np.ndarray, y: np.ndarray | None) -> list[Callable[[], Any]]:
    """Scans of x, to y or to new memory, of ours, NumPy and PyTorch."""
    tx, ty = torch.from_numpy(x), None if y is None else torch.from_numpy(y)
    return [
        lambda: up.scan(x, axis=-1, out=y),
        lambda: np.cumsum(x, axis=-1, out=y),
        lambda: np.add.accumulate(x, axis=-1, out=y),
        lambda: torch.cumsum(tx, -1, out=ty),
    ]


def main() -> None:
    machine, cores = processor(), os.cpu_count() or 1
    print(f"{machine}, {cores} cores")
    calls()
    with up.set_threads(1):
        one_core()
        layouts()
    loops()
    threads()
    rows = []
    for row in bench.measure():
        print(row, flush=True)
        rows.append(row)
    save(rows, machine, cores)
    draw(rows, machine, cores)


if __name__ == "__main__":
    main()
