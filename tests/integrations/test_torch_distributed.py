"""Sequences that are sharded over processes have the bits of one process, on 1, 2 and 3 ranks, with gradients."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pytest

import upsweep as up

torch = pytest.importorskip("torch")
WORLDS = (1, 2, 3)
ADDED = ("aFalse", "bFalse", "aTrue", "bTrue")
"""Gradients that are summed in another order."""


def hashing(a, b):
    c = a * 0x1E3779B97F4A7C15
    return ((c << 7) | ((c >> 57) & 127)) ^ (b * 0x42B2AE3D27D4EB4F + 0x165667B19E3779F9)


def drawn():
    g = torch.Generator().manual_seed(0)
    words = torch.randint(-(2**62), 2**62, (1000,), generator=g)
    a, b, w = (torch.rand((2, 300), dtype=torch.float64, generator=g) for _ in range(3))
    return words, a, b, w


def parts(n, world):
    # One shard is empty.
    return {1: [0, n], 2: [0, n // 3, n], 3: [0, n // 5, n // 5, n]}[world]


def work(rank, folder):
    """What each of three processes does: it takes part in the groups of the first one, two and three processes."""
    import torch.distributed as dist

    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=max(WORLDS))
    for world in WORLDS:
        group = None if world == max(WORLDS) else dist.new_group(range(world))
        if rank < world:
            torch.save(scanned(rank, world, group), f"{folder}/{rank} of {world}.pt")
    dist.destroy_process_group()


def scanned(rank, world, group):
    import upsweep.torch.distributed as ud

    scan, recurrence = partial(ud.scan, group=group), partial(ud.linear_recurrence, group=group)
    words, a, b, w = drawn()
    op = up.Operator(hashing)
    lo, hi = parts(1000, world)[rank : rank + 2]
    out = {
        "in": scan(words[lo:hi], op),
        "back": scan(words[lo:hi], op, reverse=True),
        "ex": scan(words[lo:hi], op, exclusive=True, initial=7),
    }
    lo, hi = parts(300, world)[rank : rank + 2]
    start = torch.tensor([0.5, 2.0], dtype=torch.float64)
    for reverse in (False, True):
        x, y = (v[:, lo:hi].clone().requires_grad_() for v in (a, b))
        h = recurrence(x, y, initial=start, axis=1, reverse=reverse)
        (h * w[:, lo:hi]).sum().backward()
        out[f"h{reverse}"], out[f"a{reverse}"], out[f"b{reverse}"] = h.detach(), x.grad, y.grad
    x = b[:, lo:hi].clone().requires_grad_()
    (scan(x, axis=1) * w[:, lo:hi]).sum().backward()
    out["sum"] = x.grad
    return out


@pytest.mark.skipif(sys.platform == "win32", reason="gloo over fork-free processes is tested on Unix")
def test_ranks_give_the_bits_of_one(tmp_path):
    """One comes first: three processes that find none of the code would each compile it."""
    import torch.multiprocessing as mp

    wanted = of_one()
    mp.spawn(work, (str(tmp_path),), nprocs=max(WORLDS))
    for world in WORLDS:
        ranks = [torch.load(tmp_path / f"{r} of {world}.pt") for r in range(world)]
        assert ranks[0].keys() == wanted.keys()
        for name, want in wanted.items():
            got = torch.cat([rank[name] for rank in ranks], -1).numpy()
            if name in ADDED:
                np.testing.assert_allclose(got, want, rtol=1e-12)
            else:
                np.testing.assert_array_equal(got, want)


@pytest.mark.skipif(sys.platform == "win32", reason="gloo over fork-free processes is tested on Unix")
def test_a_second_gradient_is_refused(tmp_path):
    """It would be missing from the gradients of what else the loss has."""
    import torch.distributed as dist

    import upsweep.torch.distributed as ud

    dist.init_process_group("gloo", f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        a, b = (torch.rand(2, 7, dtype=torch.float64, requires_grad=True) for _ in range(2))
        for x in (a, b):
            h = ud.linear_recurrence(a, b, axis=1)
            (first,) = torch.autograd.grad(h.sum(), x, create_graph=True)
            with pytest.raises(up.OperatorError, match="no second gradients"):
                torch.autograd.grad(first.sum() + a.square().sum(), a)
    finally:
        dist.destroy_process_group()


def of_one():
    """The same of one process, by the names of `scanned`."""
    import upsweep.torch as ut

    words, a, b, w = drawn()
    op, x = up.Operator(hashing), words.numpy()
    out = {
        "in": up.scan(x, op),
        "back": up.scan(x, op, reverse=True),
        "ex": up.scan(x, op, exclusive=True, initial=7),
    }
    start = torch.tensor([0.5, 2.0], dtype=torch.float64)
    for reverse in (False, True):
        x, y = (v.clone().requires_grad_() for v in (a, b))
        h = ut.linear_recurrence(x, y, initial=start, axis=1, reverse=reverse)
        (h * w).sum().backward()
        out |= {
            f"h{reverse}": h.detach().numpy(),
            f"a{reverse}": x.grad.numpy(),
            f"b{reverse}": y.grad.numpy(),
        }
    x = b.clone().requires_grad_()
    (ut.scan(x, axis=1) * w).sum().backward()
    return out | {"sum": x.grad.numpy()}
