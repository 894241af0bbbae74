"""Sharded scans against a copy: `torchrun --nproc-per-node=N benchmarks/distributed.py [--items 268435456]`.

Every rank holds a part of one sequence on its GPU (on the CPU with gloo where there is no GPU). First the bits: the ranks'
parts together are compared with one device's. Then the time, as the ratio to the copy bandwidth summed over ranks:
reduce-then-scan reads twice and writes once, so .67 is the most that is possible.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

import upsweep as up
import upsweep.torch.distributed as ud


def mixed(a, b):
    """Neither associative nor commutative: equal output means an equal tree."""
    c = a * 0x1E3779B97F4A7C15
    return ((c << 7) | ((c >> 57) & 127)) ^ (b * 0x42B2AE3D27D4EB4F + 0x165667B19E3779F9)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--items", type=int, default=1 << 28, help="items of each rank")
    options.add_argument("--output", help="where rank 0 writes its results as JSON")
    args = options.parse_args()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
        # Not every machine has multicast.
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    dist.init_process_group("nccl" if gpu else "gloo")
    check_bits(device)
    rows = [measure(name, run, args.items, device) for name, run in cases(args.items, device).items()]
    if dist.get_rank() == 0:
        result = {
            "device": torch.cuda.get_device_name() if gpu else "CPU", "ranks": dist.get_world_size(),
            "items_per_rank": args.items, "rows": rows,
        }  # fmt: skip
        print(json.dumps(result, indent=1))
        if args.output:
            with open(args.output, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
    dist.destroy_process_group()


def check_bits(device: torch.device) -> None:
    """Shards of different lengths, and an operator that shows every wrong order."""
    rank, world = dist.get_rank(), dist.get_world_size()
    whole = torch.randint(-(2**62), 2**62, (100_003,), generator=torch.Generator().manual_seed(0))
    cuts = [100_003 * r * r // world**2 for r in range(world + 1)]
    op = up.Operator(mixed)
    for reverse in (False, True):
        got = ud.scan(whole[cuts[rank] : cuts[rank + 1]].to(device), op, reverse=reverse)
        wanted = up.scan(whole, op, reverse=reverse)[cuts[rank] : cuts[rank + 1]]
        if not torch.equal(got.cpu(), wanted):
            raise SystemExit(f"rank {rank}: the bits differ from one device's (reverse={reverse})")
    values = torch.randn(100_003, generator=torch.Generator().manual_seed(1))
    got = ud.scan(values[cuts[rank] : cuts[rank + 1]].to(device))
    if not torch.equal(got.cpu(), up.scan(values)[cuts[rank] : cuts[rank + 1]]):
        raise SystemExit(f"rank {rank}: the bits of a float32 sum differ from one device's")


def cases(items: int, device: torch.device) -> dict[str, tuple[Callable[[], object], int]]:
    """The scans that are timed, with the bytes of their inputs and outputs."""
    x = torch.randn(items, device=device)
    a = torch.rand(items // 2, device=device)
    b = torch.randn(items // 2, device=device)
    return {
        "add float32": (lambda: ud.scan(x), 8 * items),
        "recurrence float32": (lambda: ud.linear_recurrence(a, b), 12 * (items // 2)),
    }


def measure(
    name: str, case: tuple[Callable[[], object], int], items: int, device: torch.device
) -> dict[str, object]:
    run, moved = case
    x = torch.randn(items, device=device)
    y = torch.empty_like(x)
    copy = 8 * items / best(lambda: y.copy_(x), device)
    rate = moved / best(run, device)
    rates = torch.tensor([rate, copy], device=device, dtype=torch.float64)
    dist.all_reduce(rates)
    return {"name": name, "ratio": float(rates[0] / rates[1]), "summed_copy_GB_per_s": float(rates[1]) / 1e9}


def best(run: Callable[[], object], device: torch.device, times: int = 10) -> float:
    """Seconds of the slowest rank, the best of some runs."""
    found = float("inf")
    for _ in range(times):
        dist.barrier()
        synchronize(device)
        begin = time.perf_counter()
        run()
        synchronize(device)
        seconds = torch.tensor([time.perf_counter() - begin], device=device, dtype=torch.float64)
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
        found = min(found, float(seconds))
    return found


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
