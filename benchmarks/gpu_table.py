"""The table of gpu_cases.py: compiled by many processes at once, then measured one after the other.

python benchmarks/gpu_table.py FOLDER           the table with PyTorch and CUB, as JSON by machine; gpu_page.py makes the page
python benchmarks/gpu_table.py once PART/PARTS  every PARTS-th case once, which compiles it
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]

import torch

import upsweep as up
from gpu_cases import CASES, SMALL, Case, Small, ready
from gpu_page import markdown
from gpu_peers import everyone, left_out

PROCESSES = 14
WARM = 0.015
"""Seconds of work before a measurement. Memory that has been idle is slow at first: 1 GiB was copied in .56 ms then, and in .51 from
the tenth time on (H200).
"""
PLACES, GAP = 5, 13 << 20
"""Fresh arrays for each case, and bytes left free between them, times 1, 3, 5, ...: nobody chooses the place of an array."""
ASLEEP, LONGEST = 200_000, 6_400_000
"""Cycles that the device sleeps, .1 ms, and the most: a call that waits for the device never comes in time."""


def timed(f: Callable[[], Any], reps: int = 9) -> float:
    """The median of milliseconds on the device, whatever the host takes. The device sleeps until all of a call's launches are
    there: where it has woken up before, the measurement does not count, and the next sleep is longer.
    """
    f()
    end = perf_counter() + WARM
    while perf_counter() < end:
        f()
        torch.cuda.synchronize()
    times, cycles = [], ASLEEP
    while len(times) < reps:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(cycles)
        start.record()
        f()
        end.record()
        late = start.query()
        end.synchronize()
        if late and cycles < LONGEST:
            cycles *= 2
        else:
            times.append(start.elapsed_time(end))
    return statistics.median(times)


def in_places(make: Callable[[], Callable[[], Any]]) -> float:
    """The median of milliseconds of what `make` makes of fresh arrays, in several places in memory."""
    gaps = [(2 * k + 1) * GAP for k in range(PLACES)]
    made = [(make(), torch.empty(gap, dtype=torch.uint8, device="cuda")) for gap in gaps]
    return statistics.median(timed(f) for f, _ in made)


@cache
def copied(moved: int) -> float:
    """Milliseconds of a copy that moves so many bytes."""
    half = (moved // 2 + 3) // 4 * 4

    def copy() -> Callable[[], Any]:
        a, b = (torch.empty(half // 4, dtype=torch.int32, device="cuda") for _ in range(2))
        return lambda: b.copy_(a)

    return in_places(copy)


def measure(case: Case) -> dict[str, Any]:
    """A row of the table: fractions of a copy."""
    call = ready(case)
    fraction = copied(call.moved) / in_places(lambda: ready(case).run)
    row: dict[str, Any] = {"name": case.name, "goal": case.goal, "fraction": fraction}
    row |= {"gbs": fraction * call.moved / copied(call.moved) / 1e6, "peers": {}}
    if call.torch is not None:
        try:
            once = _clock(call.torch)
            row["peers"]["torch"] = copied(call.moved) / (once if once > 50 else timed(call.torch, 3))
        except (RuntimeError, TypeError) as error:
            left_out(f"torch, {case.name},", error)
    return row


def _clock(f: Callable[[], Any]) -> float:
    """Milliseconds of a first call, which may take seconds: PyTorch's first call does for some layouts."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    f()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def in_graph(f: Callable[[], Any], calls: int = 40) -> float:
    """Microseconds a call in a CUDA graph of many."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            f()
    return 1e3 * timed(graph.replay) / calls


def measure_small(small: Small) -> dict[str, Any]:
    """A row of the table: microseconds."""
    x = torch.rand(small.shape, device="cuda")
    y = torch.empty_like(x)
    axis = len(small.shape) - 1
    us = in_graph(lambda: up.scan(x, axis=axis, out=y))
    peers = {"torch": in_graph(lambda: torch.cumsum(x, axis, out=y)), "a copy": in_graph(lambda: y.copy_(x))}
    return {"name": small.name, "goal": small.goal, "us": us, "peers": peers}


def once(part: int, parts: int) -> None:
    """Some cases, each run once: their kernels are on disk from then on."""
    for case in CASES[part::parts]:
        try:
            ready(case).run()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except Exception as error:
            left_out(case.name, error)


def compiled() -> None:
    """All kernels of the table, compiled by processes side by side."""
    jobs = [
        subprocess.Popen([sys.executable, __file__, "once", f"{i}/{PROCESSES}"]) for i in range(PROCESSES)
    ]
    for job in jobs:
        job.wait()


def rows() -> list[dict[str, Any]]:
    """The table."""
    # Until the clocks have risen.
    for _ in range(20):
        copied.__wrapped__(1 << 31)
    made = []
    for case in (*CASES, *SMALL):
        try:
            made.append(measure(case) if isinstance(case, Case) else measure_small(case))
        except Exception as error:
            left_out(case.name, error)
        torch.cuda.empty_cache()
    by_name = {row["name"]: row for row in made}
    for peer, fractions in everyone(timed).items():
        for name, fraction in fractions.items():
            by_name.get(name, {"peers": {}})["peers"][peer] = fraction
    return made


def speed(folder: Path) -> None:
    """Measures everything and writes the results."""
    compiled()
    found = {"device": torch.cuda.get_device_name(), "rows": rows()}
    name = found["device"].lower().replace(" ", "-")
    (folder / f"gpu-{name}.json").write_text(json.dumps(found, indent=1))
    print(markdown([found]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "once":
        once(*map(int, sys.argv[2].split("/")))
    else:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        speed(Path(sys.argv[1]))
