"""The races on a GPU: recurrences, tables, texts and models, beside the same written with PyTorch's or CuPy's own operations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cupy as cp
import numpy as np
import torch

import upsweep as up
from upsweep import apps

N = 1 << 26
CUDA = torch.device("cuda")


class Race(NamedTuple):
    name: str
    moved: int
    """The bytes that must be read and written once."""
    ours: Callable[[], Any]
    torch: Callable[[], Any] | None = None
    cupy: Callable[[], Any] | None = None
    near: float = 0
    """How far results may lie apart, relative to the largest; 0 allows no bit."""
    want: Callable[[], Any] | None = None
    """The reference for the result; by default the first rival's result."""
    bound: str = ""
    """The reason for the distance from a copy, where it is known."""


def nbytes(*arrays: torch.Tensor) -> int:
    return sum(a.numel() * a.itemsize for a in arrays)


def recurrences() -> Iterator[Race]:
    x = torch.randn(N, device=CUDA)
    rows, few = x.reshape(4096, -1), x.reshape(-1, 4096)
    led = x.clone()
    # The filter's output for the first item, with nothing before it.
    led[0] *= 10

    def averaged(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        out[0] = y = x[0]
        for t in range(1, len(x)):
            out[t] = y = torch.lerp(y, x[t], 0.1)
        return out

    yield Race(
        "ema, one row",
        2 * nbytes(x),
        lambda: up.ema(x, 0.1),
        cupy=lambda: filtered([0.1], [1, -0.9], led),
        near=1e-5,
    )
    for axis, over_time in ((1, lambda: averaged(rows.T).T), (0, lambda: averaged(rows))):
        yield Race(
            f"ema, axis {axis}",
            2 * nbytes(x),
            lambda axis=axis: up.ema(rows, 0.1, axis=axis),
            over_time,
            near=1e-5,
        )

    def discounted(x: torch.Tensor, alive: torch.Tensor) -> torch.Tensor:
        out, g = torch.empty_like(x), torch.zeros_like(x[0])
        for t in reversed(range(len(x))):
            out[t] = g = x[t] + alive[t] * g
        return out

    dones = torch.rand(rows.shape, device=CUDA) < 0.01
    alive = torch.full_like(rows, 0.99)
    yield Race("discounted_sum, axis 0", 2 * nbytes(rows), lambda: up.discounted_sum(rows, 0.99, axis=0),
               lambda: discounted(rows, alive), near=1e-5)  # fmt: skip
    yield Race("discounted_sum, axis 0, dones", 2 * nbytes(rows) + nbytes(dones),
               lambda: up.discounted_sum(rows, 0.99, dones, axis=0), lambda: discounted(rows, 0.99 * ~dones), near=1e-5)  # fmt: skip
    yield Race("discounted_sum, axis 1, dones", 2 * nbytes(rows) + nbytes(dones),
               lambda: up.discounted_sum(rows, 0.99, dones, axis=1), lambda: discounted(rows.T, 0.99 * ~dones.T).T, near=1e-5,
               bound="tiles wait for pairs of a weight and a sum: a tenth faster if none waited")  # fmt: skip
    values = torch.randn((len(rows) + 1, rows.shape[1]), device=CUDA)
    v, later, factors = values[:-1], values[1:], {"gamma": 0.99, "lam": 0.95}

    def advantages() -> torch.Tensor:
        return discounted(rows + 0.99 * later * ~dones - v, 0.99 * 0.95 * ~dones)

    yield Race("gae, axis 0, dones", 3 * nbytes(rows) + nbytes(dones),
               lambda: up.gae(rows, v, values[-1], dones, axis=0, **factors), advantages, near=1e-5,
               bound="rewards and values are read again with the prefix, so that a tile has half the items")  # fmt: skip
    yield Race("gae, axis 0, dones, next_values", 3 * nbytes(rows) + nbytes(dones),
               lambda: up.gae(rows, v, dones=dones, next_values=later, axis=0, **factors), advantages, near=1e-5,
               bound="values and flags are read twice, from the cache; five arrays leave a tile half the items")  # fmt: skip
    doubles = x.double()
    second, eighth = (
        ([0.0675, 0.1349, 0.0675], [1.0, -1.143, 0.4128]),
        (np.ones(9) / 512, np.poly(np.tile([0.6 + 0.3j, 0.6 - 0.3j], 4)).real),
    )
    heavy = "block sums of a complex pole do not fit where its items lay, so that they are swept up twice"
    for name, (b, a), data, order, bound in (
        ("lfilter, order 2, one row", second, doubles, "tree", heavy),
        ("lfilter, order 2, one row, float32", tuple(map(np.float32, second)), x, "tree", heavy),
        (
            "lfilter, order 2, 4096 rows",
            second,
            doubles.reshape(4096, -1),
            "tree",
            "27 operations an item in double precision",
        ),
        ("lfilter, order 2, 4096 rows, in order", second, doubles.reshape(4096, -1), "sequential", ""),
        (
            "lfilter, order 2, axis 0",
            second,
            doubles.reshape(few.shape),
            "tree",
            "registers of the look-back spill",
        ),
        ("lfilter, order 2, axis 0, in order", second, doubles.reshape(few.shape), "sequential", ""),
        (
            "lfilter, order 8, one row",
            eighth,
            doubles,
            "tree",
            "four sections in one launch, each of 27 operations an item in double precision and a look-back of its own",
        ),
    ):
        axis = 0 if "axis 0" in name else -1
        yield Race(name, 2 * nbytes(data), lambda b=b, a=a, x=data, axis=axis, order=order: up.lfilter(b, a, x, axis, order=order),
                   cupy=lambda b=b, a=a, x=data, axis=axis: filtered(b, a, x, axis=axis), near=1e-6, bound=bound)  # fmt: skip


def filtered(b: Any, a: Any, x: torch.Tensor, axis: int = -1) -> torch.Tensor:
    from cupyx.scipy import signal

    b, a = (cp.asarray(c, dtype=cp.asarray(x).dtype) for c in (b, a))
    return torch.as_tensor(signal.lfilter(b, a, cp.asarray(x), axis), device=CUDA)


def tables() -> Iterator[Race]:
    image = torch.randint(0, 256, (8192, 8192), dtype=torch.uint8, device=CUDA)
    yield Race("SummedAreaTable", nbytes(image) + 16 * image.numel(), lambda: apps.SummedAreaTable(image).table[1:, 1:],
               lambda: image.cumsum(0, dtype=torch.int64).cumsum(1), bound="two scans, with sums of four bytes between them")  # fmt: skip
    table = apps.SummedAreaTable(image)
    start = torch.randint(0, 8129, (1 << 22, 2), device=CUDA)
    stop, sums = start + 63, table.table

    def means() -> torch.Tensor:
        (a, c), (b, d) = start.T, stop.T
        return (sums[b, d] - sums[a, d] - sums[b, c] + sums[a, c]) / ((b - a) * (d - c)).double()

    yield Race(
        "means of 63 x 63 boxes",
        nbytes(start, stop) + 5 * 8 * len(start),
        lambda: table.mean(start, stop),
        means,
        bound="the table is read at random, a sector for each corner",
    )


def texts() -> Iterator[Race]:
    data = [{"id": k, "name": f"item {k}", "size": k / 7, "tags": ["a", None, True]} for k in range(30_000)]
    once = np.frombuffer(json.dumps(data).encode(), np.uint8)
    source = np.frombuffer(
        b"\n".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py"))), np.uint8
    )
    for name, lexer, text in (("JSON", apps.json_lexer(), once), ("Python", apps.python_lexer(), source)):
        text = np.tile(text, (1 << 24) // len(text))
        there = torch.from_numpy(text).to(CUDA)
        yield Race(f"tokenize {name}", len(text), lambda t=there, x=lexer: apps.tokenize(t, x),
                   want=lambda t=text, x=lexer: tuple(torch.from_numpy(v).to(CUDA) for v in apps.tokenize(t, x)))  # fmt: skip
    made = "the host makes the tree of codes, and sums and joins the frame"
    read = "frames are bytes of the host, whose cores decode them"
    counters = np.cumsum(np.random.default_rng(0).integers(0, 100, N // 64))
    for name, x in (("text", once), ("counters", counters)):
        there = torch.from_numpy(x.copy()).to(CUDA)
        frame = apps.compress(there)
        yield Race(f"compress {name}", x.nbytes, lambda x=there: len(apps.compress(x)), want=lambda frame=frame: len(frame),
                   bound=made)  # fmt: skip
        yield Race(f"decompress {name}", x.nbytes, lambda frame=frame, x=x: np.frombuffer(apps.decompress(frame), x.dtype),
                   want=lambda x=x: x, bound=read)  # fmt: skip


def algebra() -> Iterator[Race]:
    a, c, d = torch.randn(3, 4096, 4096, dtype=torch.float64, device=CUDA)
    b = a.abs() + c.abs() + 1

    def thomas() -> torch.Tensor:
        """Thomas' elimination of all systems side by side."""
        upper, right = torch.empty_like(c.T), torch.empty_like(d.T)
        upper[0], right[0] = c[:, 0] / b[:, 0], d[:, 0] / b[:, 0]
        for i in range(1, len(upper)):
            pivot = b[:, i] - a[:, i] * upper[i - 1]
            upper[i], right[i] = c[:, i] / pivot, (d[:, i] - a[:, i] * right[i - 1]) / pivot
        for i in reversed(range(len(upper) - 1)):
            right[i] -= upper[i] * right[i + 1]
        return right.T

    for order, how in (("tree", ""), ("sequential", ", in order")):
        yield Race(f"solve_tridiagonal, 4096 systems{how}", 5 * nbytes(a),
                   lambda order=order: apps.solve_tridiagonal(a, b, c, d, order=order), thomas, near=1e-9)  # fmt: skip
    p, points = torch.randn(200, device=CUDA), torch.rand(1 << 24, device=CUDA)

    def horner() -> torch.Tensor:
        h = torch.zeros_like(points)
        for coefficient in p:
            h = torch.addcmul(coefficient, h, points)
        return h

    yield Race("polyval, degree 199", 2 * nbytes(points), lambda: apps.polyval(p, points), horner, near=1e-4)
    long = torch.randn(N, dtype=torch.float64, device=CUDA)
    powers = torch.arange(N - 1, -1, -1, dtype=torch.float64, device=CUDA)
    yield Race("polyval, degree 2^26 - 1", nbytes(long), lambda: apps.polyval(long, 0.9999999),
               lambda: (long * 0.9999999**powers).sum(), near=1e-7)  # fmt: skip
    n = 1 << 22
    nodes = torch.arange(n, device=CUDA)
    bushy = (torch.rand(n, dtype=torch.float64, device=CUDA) * nodes).long() - (nodes == 0).long()
    for name, parents in (("bushy", bushy), ("a path", nodes - 1)):
        yield Race(f"Tree and depths, {name}", nbytes(parents) * 2, lambda p=parents: apps.Tree(p).depths(),
                   lambda p=parents: depths_of(p), bound="links, which are read at random")  # fmt: skip


def depths_of(parents: torch.Tensor) -> torch.Tensor:
    """Pointers are doubled until all of them have reached the root."""
    # -1, the last item, stands above the root.
    above = torch.cat([parents, parents.new_full((1,), -1)])
    depth = (above >= 0).long()
    while bool((above >= 0).any()):
        depth, above = depth + depth[above], above[above]
    return depth[:-1]


def models() -> Iterator[Race]:
    t, double = 4096, {"dtype": torch.float64, "device": CUDA}
    start, switch = torch.rand(4, **double).softmax(0), torch.rand(4, 4, **double).softmax(1)
    for name, shape in (("one sequence", (t, 4)), ("256 sequences", (256, t, 4))):
        seen = torch.rand(shape, **double)

        def forward(seen: torch.Tensor = seen) -> torch.Tensor:
            out, v = torch.empty_like(seen), start
            for k in range(t):
                v = (v @ switch if k else v) * seen[..., k, :]
                out[..., k, :] = v = v / v.sum(-1, keepdim=True)
            return out

        yield Race(f"hmm_forward, {name}", 2 * nbytes(seen), lambda seen=seen: apps.hmm_forward(start, switch, seen)[0], forward,
                   near=1e-9)  # fmt: skip
    f, h = torch.tensor([[1.0, 1.0], [0.0, 1.0]], **double), torch.tensor([[1.0, 0.0]], **double)
    q, r, m, p = (torch.eye(k, **double) * by for k, by in ((2, 0.01), (1, 1), (2, 0), (2, 1)))
    m = m[0]
    for name, shape in (("one sequence", (t, 1)), ("256 sequences", (256, t, 1))):
        y = torch.randn(shape, **double).cumsum(-2)

        def kalman(y: torch.Tensor = y) -> torch.Tensor:
            out, mean, spread = y.new_empty((*y.shape[:-1], 2)), m, p
            for k in range(t):
                mean, spread = mean @ f.T, f @ spread @ f.T + q
                gain = spread @ h.T / (h @ spread @ h.T + r)
                mean = mean + (y[..., k, :] - mean @ h.T) @ gain.T
                spread = spread - gain @ h @ spread
                out[..., k, :] = mean
            return out

        yield Race(f"kalman_filter, {name}", 2 * nbytes(y) + 6 * nbytes(y), lambda y=y: apps.kalman_filter(y, f, h, q, r, m, p)[0],
                   kalman, near=1e-9)  # fmt: skip
