"""The applications on a GPU beside PyTorch, CuPy and a copy: every result is checked first, then all are timed in one run.

`python benchmarks/gpu_apps.py FOLDER` writes apps.json and apps.md. With words behind it, it runs the races that they name. A
fraction of a copy compares with a copy of all bytes that the application must read and write once. Applications and rivals that
wait for the device to learn the length of a result pay for that wait here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np
import torch

sys.path[:0] = [str(Path(__file__).parents[1] / "src")]
from gpu_races import CUDA, N, Race, algebra, models, nbytes, recurrences, tables, texts
from upsweep import apps

TOLD = "the host, which makes the result once it knows the length"
TWICE = "what a tile keeps is written twice, side by side and at its place: {} if both launches ran as fast as a copy; one launch was no faster than {}"
"""Of runs of four int32, 20 bytes must move, and 28 do; with lengths 28, and 37 with the marks of the items."""


def moves() -> Iterator[Race]:
    x = torch.randint(-(2**31), 2**31 - 1, (N,), dtype=torch.int32, device=CUDA)
    keep = torch.rand(N, device=CUDA) < 0.5
    kept = nbytes(x[keep])
    yield Race("compact", nbytes(x, keep) + kept, lambda: apps.compact(x, keep), lambda: x[keep],
               lambda: cp.asarray(x)[cp.asarray(keep)])  # fmt: skip
    room = torch.empty_like(x)
    yield Race("compact, size known", nbytes(x, keep) + kept, lambda: apps.compact(x, keep, out=room)[0][: kept // 4],
               lambda: x[keep])  # fmt: skip
    yield Race(
        "partition",
        nbytes(x, keep, x),
        lambda: apps.partition(x, keep)[0],
        lambda: torch.cat([x[keep], x[~keep]]),
    )
    yield Race("where", nbytes(keep) + 2 * kept, lambda: apps.where(keep), lambda: keep.nonzero()[:, 0],
               lambda: cp.flatnonzero(cp.asarray(keep)))  # fmt: skip
    few = torch.rand(N, device=CUDA) < 0.01
    yield Race("compact, 1 % kept", nbytes(x, few, x[few]), lambda: apps.compact(x, few), lambda: x[few],
               lambda: cp.asarray(x)[cp.asarray(few)], bound=TOLD)  # fmt: skip
    yield Race("where, 1 % kept", nbytes(few) + 2 * nbytes(x[few]), lambda: apps.where(few), lambda: few.nonzero()[:, 0],
               lambda: cp.flatnonzero(cp.asarray(few)), bound=TOLD)  # fmt: skip
    some = int(few.count_nonzero())
    sparse = torch.empty(N // 16, dtype=torch.int64, device=CUDA)
    yield Race("where, 1 % kept, size known", nbytes(few) + 2 * nbytes(x[few]),
               lambda: apps.where(few, out=sparse)[0][:some], lambda: few.nonzero()[:, 0])  # fmt: skip
    runs = torch.randint(0, 1000, (N // 4,), dtype=torch.int32, device=CUDA).repeat_interleave(4)
    firsts = torch.unique_consecutive(runs)
    yield Race("unique_consecutive", nbytes(runs, firsts), lambda: apps.unique_consecutive(runs),
               lambda: torch.unique_consecutive(runs), bound=TWICE.format(0.71, 0.66))  # fmt: skip
    yield Race("run_length_encode", nbytes(runs, firsts) + 8 * len(firsts), lambda: apps.run_length_encode(runs),
               lambda: torch.unique_consecutive(runs, return_counts=True), bound=TWICE.format(0.76, 0.63))  # fmt: skip
    lengths, few = torch.randint(0, 9, (N // 4,), device=CUDA), x[: N // 4]
    out = int(lengths.sum())
    yield Race("run_length_decode", nbytes(few, lengths) + 4 * out, lambda: apps.run_length_decode(few, lengths),
               lambda: torch.repeat_interleave(few, lengths),
               bound="between its kernels the host learns the length and makes room: see the next row")  # fmt: skip
    written = torch.empty(out, dtype=few.dtype, device=CUDA)
    yield Race("run_length_decode, size known", nbytes(few, lengths) + 4 * out,
               lambda: apps.run_length_decode(few, lengths, out=written)[0], lambda: torch.repeat_interleave(few, lengths, output_size=out))  # fmt: skip
    narrow = few.to(torch.uint8)
    yield Race("run_length_decode of bytes", nbytes(narrow, lengths) + out, lambda: apps.run_length_decode(narrow, lengths),
               lambda: torch.repeat_interleave(narrow, lengths),
               bound="the second kernel, which takes as long as for items of four bytes: by itself at 0.29 of a copy of its bytes")  # fmt: skip

    def owners() -> tuple[torch.Tensor, torch.Tensor]:
        owner = torch.repeat_interleave(torch.arange(len(lengths), device=CUDA), lengths)
        return owner, torch.arange(len(owner), device=CUDA) - (lengths.cumsum(0) - lengths)[owner]

    yield Race("expand", nbytes(lengths) + 16 * out, lambda: apps.expand(lengths), owners)
    codes = torch.randint(0, 1000, (N,), device=CUDA)
    yield Race("histogram", nbytes(codes), lambda: apps.histogram(codes, 1000), lambda: torch.bincount(codes, minlength=1000),
               lambda: cp.bincount(cp.asarray(codes), minlength=1000))  # fmt: skip


def sorts() -> Iterator[Race]:
    wide = torch.randint(-(2**63), 2**63 - 1, (N,), dtype=torch.int64, device=CUDA)
    keys = {
        "int32": wide.to(torch.int32),
        "float32": torch.randn(N, device=CUDA),
        "int64": wide,
        "float16": torch.randn(N, device=CUDA).half(),
        "uint8": wide.to(torch.uint8),
    }
    for name, x in keys.items():
        passes = x.element_size()
        yield Race(f"radix_sort {name}", 2 * nbytes(x), lambda x=x: apps.radix_sort(x), lambda x=x: torch.sort(x)[0],
                   lambda x=x: cp.sort(cp.asarray(x)),
                   bound=f"keys are read {passes + 1} times and written {passes} times: {2 / (2 * passes + 1):.2f} at a copy's speed")  # fmt: skip
    for name in ("int32", "int64"):
        x = keys[name]
        yield Race(f"argsort {name}", nbytes(x) + 8 * N, lambda x=x: apps.argsort(x),
                   lambda x=x: torch.sort(x, stable=True)[1], lambda x=x: cp.argsort(cp.asarray(x), kind="stable"))  # fmt: skip
    for bits in (10, 13, 16, 18):
        few = keys["int32"][: 1 << bits]
        yield Race(f"argsort of 2^{bits} int32", nbytes(few) + 8 * len(few), lambda x=few: apps.argsort(x),
                   lambda x=few: torch.sort(x, stable=True)[1], lambda x=few: cp.argsort(cp.asarray(x), kind="stable"),
                   bound="steps that follow one another, not memory")  # fmt: skip
    x, values = keys["int32"], torch.arange(N, dtype=torch.int32, device=CUDA)

    def pairs() -> tuple[torch.Tensor, torch.Tensor]:
        ordered, order = torch.sort(x, stable=True)
        return ordered, values[order]

    yield Race("radix_sort int32 with values", 4 * nbytes(x), lambda: apps.radix_sort(x, values), pairs)


SLOW = 500
"""Milliseconds. A race that takes longer is not timed once more."""


def timed(call: Callable[[], Any], rounds: int = 7) -> float:
    """Milliseconds, the median. A pause on the device hides the host's work before the first kernel."""
    call()
    times = []
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    # An event is made when it is first recorded.
    end.record()
    for _ in range(rounds):
        torch.cuda._sleep(2_000_000)
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
        if sum(times) > SLOW:
            break
    return sorted(times)[len(times) // 2]


def copied(count: int) -> float:
    """Milliseconds of a copy that reads and writes so many bytes in total."""
    a, b = (torch.empty(count // 2, dtype=torch.uint8, device=CUDA) for _ in range(2))
    return timed(lambda: b.copy_(a))


def check(race: Race) -> None:
    expected = next(call for call in (race.want, race.torch, race.cupy) if call)
    got, want = (v if isinstance(v, tuple) else (v,) for v in (race.ours(), expected()))
    for a, b in zip(got, want, strict=True):
        if not isinstance(b, torch.Tensor):
            np.testing.assert_array_equal(a, b)
            continue
        worst = race.near * float(b.abs().max()) if race.near else 0
        torch.testing.assert_close(a, b, rtol=0, atol=worst, equal_nan=True)


def run(race: Race) -> dict[str, Any]:
    check(race)
    ours = timed(race.ours)
    rivals = {"torch": race.torch, "cupy": race.cupy}
    beside = {name: timed(call, 3) / ours for name, call in rivals.items() if call}
    return {
        "name": race.name,
        "of_a_copy": copied(race.moved) / ours,
        "GB_a_second": race.moved / ours / 1e6,
        "bound": race.bound,
        **beside,
    }


def markdown(device: str, rows: list[dict[str, Any]]) -> str:
    lines = [
        f"Applications on one {device}, {N} items. How many times as fast as PyTorch and CuPy, and the time of a copy of the "
        "bytes that must move over theirs, all in one run; results were compared first. GB/s are of the bytes that must move, of "
        "texts and frames those of the text.",
        "", "| application | of a copy | GB/s | x PyTorch | x CuPy | what bounds it |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        beside = [f"{row[name]:.2g}" if name in row else "" for name in ("torch", "cupy")]
        figures = f"{row['of_a_copy']:.2g}", f"{row['GB_a_second']:.3g}", *beside
        lines.append(f"| {row['name']} | {' | '.join(figures)} | {row['bound']} |")
    return "\n".join(lines) + "\n"


def main(folder: Path, words: list[str]) -> int:
    torch.manual_seed(0)
    rows, failed = [], 0
    folder.mkdir(parents=True, exist_ok=True)
    for family in (moves, sorts, recurrences, tables, texts, algebra, models):
        for race in family():
            if words and not any(word in race.name for word in words):
                continue
            try:
                rows.append(run(race))
                save(folder, rows)
                print({k: v if isinstance(v, str) else round(v, 3) for k, v in rows[-1].items()}, flush=True)
            # The other races are still worth running.
            except Exception as error:
                failed += 1
                print(f"{race.name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    return failed


def save(folder: Path, rows: list[dict[str, Any]]) -> None:
    device = torch.cuda.get_device_name()
    (folder / "apps.json").write_text(json.dumps({"device": device, "rows": rows}, indent=1) + "\n")
    (folder / "apps.md").write_text(markdown(device, rows))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
