"""Sequences that are sharded over processes have the bits of one process, on 1, 2 and 4 ranks, with gradients."""

from __future__ import annotations

import socket
import sys

import numpy as np
import pytest

import upsweep as up

torch = pytest.importorskip("torch")


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
    return {1: [0, n], 2: [0, n // 3, n], 4: [0, n // 5, n // 5, n // 2 + 1, n]}[world]


def work(rank, world, port, results):
    import torch.distributed as dist

    import upsweep.torch.distributed as ud

    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    words, a, b, w = drawn()
    op = up.Operator(hashing)
    lo, hi = parts(1000, world)[rank : rank + 2]
    out = {
        "in": ud.scan(words[lo:hi], op),
        "back": ud.scan(words[lo:hi], op, reverse=True),
        "ex": ud.scan(words[lo:hi], op, exclusive=True, initial=7),
    }
    lo, hi = parts(300, world)[rank : rank + 2]
    start = torch.tensor([0.5, 2.0], dtype=torch.float64)
    for reverse in (False, True):
        x, y = (v[:, lo:hi].clone().requires_grad_() for v in (a, b))
        h = ud.linear_recurrence(x, y, initial=start, axis=1, reverse=reverse)
        (h * w[:, lo:hi]).sum().backward()
        out[f"h{reverse}"], out[f"a{reverse}"], out[f"b{reverse}"] = h.detach(), x.grad, y.grad
    x = b[:, lo:hi].clone().requires_grad_()
    (ud.scan(x, axis=1) * w[:, lo:hi]).sum().backward()
    out["sum"] = x.grad
    torch.save(out, f"{results}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.skipif(sys.platform == "win32", reason="gloo over fork-free processes is tested on Unix")
def test_ranks_give_the_bits_of_one(world, tmp_path):
    import torch.multiprocessing as mp

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(work, (world, port, str(tmp_path)), nprocs=world)
    ranks = [torch.load(tmp_path / f"{r}.pt") for r in range(world)]
    got = {k: torch.cat([r[k] for r in ranks], -1).numpy() for k in ranks[0]}
    words, a, b, w = drawn()
    op = up.Operator(hashing)
    x = words.numpy()
    np.testing.assert_array_equal(got["in"], up.scan(x, op))
    np.testing.assert_array_equal(got["back"], up.scan(x, op, reverse=True))
    np.testing.assert_array_equal(got["ex"], up.scan(x, op, exclusive=True, initial=7))
    check_gradients(got, a, b, w)


def check_gradients(got, a, b, w):
    import upsweep.torch as ut

    start = torch.tensor([0.5, 2.0], dtype=torch.float64)
    for reverse in (False, True):
        x, y = (v.clone().requires_grad_() for v in (a, b))
        h = ut.linear_recurrence(x, y, initial=start, axis=1, reverse=reverse)
        (h * w).sum().backward()
        np.testing.assert_array_equal(got[f"h{reverse}"], h.detach().numpy())
        np.testing.assert_allclose(got[f"a{reverse}"], x.grad.numpy(), rtol=1e-12)
        np.testing.assert_allclose(got[f"b{reverse}"], y.grad.numpy(), rtol=1e-12)
    x = b.clone().requires_grad_()
    (ut.scan(x, axis=1) * w).sum().backward()
    np.testing.assert_array_equal(got["sum"], x.grad.numpy())
