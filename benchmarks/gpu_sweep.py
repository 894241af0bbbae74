"""Random calls on a GPU, none of them from a table: where the slow ones are.

python benchmarks/gpu_sweep.py FOLDER [SEED [CALLS]]    the calls of a seed, worst first, as text and JSON by machine
python benchmarks/gpu_sweep.py once PART/PARTS SEED CALLS    every PARTS-th call once, which compiles it

`draws.py` draws the calls; their arrays have 16 to 512 MB. The results are those of the same items laid out plainly, or the call
is listed as wrong. The unit is a device copy of the bytes that must be moved.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).parents[1] / "src")]
import upsweep as up
from draws import DTYPES, GPU, Call, drawn, laid, multiplier
from gpu_cases import NAMES
from gpu_table import PROCESSES, copied, timed


def ready(call: Call) -> tuple[Callable[[], Any], Callable[[], Any], int]:
    """The call, the same on plain arrays, and the bytes that it must move."""
    torch.manual_seed(1)
    forms = dict(call.forms)
    if call.kind == "recurrence":
        x = _items(call.dtype, call.shape)
        a = (
            _items(call.dtype, multiplier(call)).abs().clamp(max=0.9)
            if call.dtype != "c8"
            else _items("c8", multiplier(call)) / 4
        )
        full = a.expand(call.shape).contiguous() if a.ndim else a
        return (
            lambda: up.linear_recurrence(a, x, axis=call.axis, **forms),
            lambda: up.linear_recurrence(full, x, axis=call.axis, **forms),
            a.nbytes + 2 * x.nbytes,
        )
    x, moved = _laid(call)
    told, plain = _segments(call)
    moved += 0 if told is None else told.values.nbytes
    if call.kind == "reduce":
        rows = prod(call.shape) // call.shape[call.axis]
        return (
            lambda: up.reduce(x, call.op, axis=call.axis, **forms),
            lambda: up.reduce(x.contiguous(), call.op, axis=call.axis, **forms),
            moved + rows * x.itemsize,
        )
    return (
        lambda: up.scan(x, call.op, axis=call.axis, segments=told, **forms),
        lambda: up.scan(x.contiguous(), call.op, axis=call.axis, segments=plain, **forms),
        moved + prod(call.shape) * x.itemsize,
    )


def _items(dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    (kind, _), made = DTYPES[dtype], NAMES[dtype]
    if kind == "?":
        return torch.rand(shape, device="cuda") < 0.5
    if kind == "i":
        return torch.randint(0, 4, shape, dtype=made, device="cuda")
    return torch.randn(
        shape, device="cuda", dtype=made if kind == "c" or dtype == "f8" else torch.float32
    ).to(made)


def _laid(call: Call) -> tuple[torch.Tensor, int]:
    """The items, and how many bytes must be read: those between them, too, where every second one is taken."""
    shape, seen = laid(call)
    whole = _items(call.dtype, shape)
    x = seen(whole)
    return x.expand(call.shape), (x if call.lies == "cut" else whole).nbytes


def _segments(call: Call) -> tuple[Any, Any]:
    """Segments of some hundred items, for all rows, as they are spelt and as flags."""
    n = call.shape[call.axis]
    if not call.segments:
        return None, None
    flags = torch.rand(n, device="cuda") < 0.01
    flags[0] = True
    offsets = torch.cat([flags.nonzero()[:, 0], torch.tensor([n], device="cuda")])
    spelt = {
        "flags": lambda: up.segments.flags(flags), "keys": lambda: up.segments.keys(flags.cumsum(0).to(torch.int32)),
        "lengths": lambda: up.segments.lengths(offsets.diff()), "offsets": lambda: up.segments.offsets(offsets),
    }  # fmt: skip
    return spelt[call.segments](), up.segments.flags(flags)


def measured(call: Call) -> dict[str, Any]:
    """A row: a fraction of a copy, or what was wrong."""
    row: dict[str, Any] = {"call": str(call)}
    try:
        run, plainly, moved = ready(call)
        if not torch.equal(run().nan_to_num(), plainly().nan_to_num()):
            return row | {"wrong": "other bits than those of plain arrays"}
        ms = timed(run, 5)
        whole = max(moved >> 20 << 20, 1 << 20)
        return row | {"fraction": copied(whole) / whole * moved / ms, "us": 1e3 * ms, "mb": moved / 1e6}
    except Exception as error:
        return row | {"wrong": f"{type(error).__name__}: {error}"[:300]}


def text(device: str, seed: int, rows: list[dict[str, Any]]) -> str:
    wrong = [row for row in rows if "wrong" in row]
    right = sorted((row for row in rows if "fraction" in row), key=lambda row: row["fraction"])
    lines = [
        f"{device}: {len(rows)} random calls of seed {seed}, {len(wrong)} wrong. Fractions of a device copy:"
    ]
    lines += [f"wrong: {row['call']}: {row['wrong']}" for row in wrong]
    tenths = statistics.quantiles([row["fraction"] for row in right], n=10)
    lines += [", ".join(f"{10 * (k + 1)} % below {q:.2f}" for k, q in enumerate(tenths)), ""]
    lines += [
        f"{row['fraction']:6.3f} {row['us']:9.1f} us {row['mb']:7.1f} MB  {row['call']}" for row in right
    ]
    return "\n".join(lines) + "\n"


def main(folder: Path, seed: int = 1, count: int = 200) -> None:
    jobs = [
        subprocess.Popen([sys.executable, __file__, "once", f"{i}/{PROCESSES}", str(seed), str(count)])
        for i in range(PROCESSES)
    ]
    for job in jobs:
        job.wait()
    rows = []
    for call in drawn(seed, count, GPU):
        rows.append(measured(call))
        torch.cuda.empty_cache()
    device = torch.cuda.get_device_name()
    folder.mkdir(parents=True, exist_ok=True)
    name = f"sweep-{device.lower().replace(' ', '-')}"
    (folder / f"{name}.json").write_text(json.dumps({"device": device, "seed": seed, "rows": rows}, indent=1))
    (folder / f"{name}.txt").write_text(text(device, seed, rows))
    print(text(device, seed, rows), flush=True)


def once(part: int, parts: int, seed: int, count: int) -> None:
    for call in drawn(seed, count, GPU)[part::parts]:
        try:
            run, plainly, _ = ready(call)
            run(), plainly()
            torch.cuda.synchronize()
        except Exception as error:
            print(call, type(error).__name__, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    if sys.argv[1] == "once":
        once(*map(int, [*sys.argv[2].split("/"), *sys.argv[3:]]))
    else:
        main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
