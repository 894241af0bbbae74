"""The public API on a GPU: every library's arrays, segments, in place, streams, graphs, many items, time on the host."""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1] / "src")]

import cupy as cp
import torch

import upsweep as up

CHECKS = []


def check(f):
    CHECKS.append(f)
    return f


def same(got, want):
    got = (
        got.get()
        if isinstance(got, cp.ndarray)
        else got.cpu().numpy()
        if isinstance(got, torch.Tensor)
        else np.asarray(got)
    )
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)


RNG = np.random.default_rng(1)
X = (RNG.random(100_003) - 0.5).astype(np.float32)
M = (RNG.random((37, 211, 53)) - 0.5).astype(np.float32)


@check
def host_time():
    """The host's time for a call. This check comes first, because the others leave streams and plans behind."""
    for make in (lambda: torch.rand(4096, device="cuda"), lambda: cp.zeros(4096, np.float32)):
        x = make()
        y = up.scan(x)
        for _ in range(200):
            up.scan(x, out=y)
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(2000):
            up.scan(x, out=y)
        spent = (time.perf_counter() - began) / 2000
        torch.cuda.synchronize()
        print(f"    host time a call, {type(x).__module__}: {spent * 1e6:.1f} us")
    import upsweep.gpu as gpu
    from upsweep.plan import Plan

    f = np.dtype(np.float32)
    plan = Plan(up.ops.ADD, (f,), (f,), (f,), (4096,), 0)
    v, w = gpu.view(x), gpu.view(y)
    gpu.run(plan, [v], [w], None, None)
    began = time.perf_counter()
    for _ in range(2000):
        gpu.run(plan, [v], [w], None, None)
    print(f"    of which engine.run: {(time.perf_counter() - began) / 2000 * 1e6:.1f} us")
    big = torch.rand(1 << 20, device="cuda")
    out = torch.empty_like(big)
    up.scan(big, out=out)
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    vb, wb = gpu.view(big), gpu.view(out)
    plan = Plan(up.ops.ADD, (f,), (f,), (f,), (1 << 20,), 0)
    times = []
    for _ in range(5):
        torch.cuda._sleep(20_000_000)
        a.record()
        for _ in range(200):
            gpu.run(plan, [vb], [wb], None, None)
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) / 200 * 1e3)
    print(
        f"    2^20 f32 items, back to back behind a sleeping kernel: {', '.join(f'{t:.2f}' for t in times)} us each"
    )


@check
def libraries():
    import jax
    import numba.cuda

    want = up.scan(X)
    for make in (torch.tensor, cp.asarray, jax.numpy.asarray, numba.cuda.to_device):
        x = make(X, device="cuda") if make is torch.tensor else make(X)
        y = up.scan(x)
        assert type(y) is type(x), (type(y), type(x))
        same(y.copy_to_host() if hasattr(y, "copy_to_host") else y, want)


@check
def axes_and_flags():
    for axis in (0, 1, 2):
        for extra in (
            {},
            {"reverse": True},
            {"exclusive": True},
            {"initial": 0.5},
            {"reverse": True, "exclusive": True},
        ):
            same(up.scan(cp.asarray(M), axis=axis, **extra), up.scan(M, axis=axis, **extra))
            same(
                up.scan(torch.tensor(M, device="cuda").transpose(0, 2), axis=axis, **extra),
                up.scan(M.transpose(2, 1, 0), axis=axis, **extra),
            )
        same(up.reduce(cp.asarray(M), axis=axis), up.reduce(M, axis=axis))
        rows = np.delete(M.shape, axis)
        start = RNG.random(rows).astype(np.float32)
        same(
            up.scan(cp.asarray(M), axis=axis, initial=cp.asarray(start)), up.scan(M, axis=axis, initial=start)
        )


@check
def halves():
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.tensor(X).to(dtype)
        got, want = up.scan(x.cuda()), up.scan(x)
        assert got.dtype == dtype
        assert torch.equal(got.cpu().view(torch.int16), want.view(torch.int16))


@check
def segments():
    lengths = RNG.integers(0, 700, 400)
    n = int(lengths.sum())
    x = RNG.integers(-9, 9, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    keys = RNG.integers(0, 3, n).astype(np.float32)
    flags = RNG.random(n) < 0.01
    for spelt in (
        (up.segments.lengths, lengths),
        (up.segments.offsets, offsets),
        (up.segments.keys, keys),
        (up.segments.flags, flags),
    ):
        make, values = spelt
        for extra in ({}, {"reverse": True}, {"exclusive": True, "initial": 3}):
            want = up.scan(x, segments=make(values), **extra)
            same(up.scan(cp.asarray(x), segments=make(cp.asarray(values)), **extra), want)
            same(up.scan(cp.asarray(x), segments=make(values), **extra), want)
    k2 = RNG.integers(0, 2, M.shape)
    same(
        up.scan(cp.asarray(M), axis=1, segments=up.segments.keys(cp.asarray(k2))),
        up.scan(M, axis=1, segments=up.segments.keys(k2)),
    )


@check
def tuples_and_operators():
    a, b = RNG.random((2, 64, 3000)).astype(np.float32)
    for axis in (0, 1):
        want = up.scan((a, b), "affine", axis=axis)
        for g, w in zip(up.scan((cp.asarray(a), cp.asarray(b)), "affine", axis=axis), want):
            same(g, w)
        same(
            up.linear_recurrence(cp.asarray(a), cp.asarray(b), axis=axis),
            up.linear_recurrence(a, b, axis=axis),
        )
    same(up.scan(cp.asarray(X), lambda p, q: p * 0.5 + q), up.scan(X, lambda p, q: p * 0.5 + q))
    same(up.cummax(cp.asarray(X)), up.cummax(X))
    same(up.cumulative_sum(cp.asarray(X.astype(np.int8))), up.cumulative_sum(X.astype(np.int8)))


@check
def in_place_and_overlap():
    x = cp.asarray(X)
    want = up.scan(X)
    y = x.copy()
    assert up.scan(y, out=y) is y
    same(y, want)
    z = cp.concatenate([x, cp.zeros(3, np.float32)])
    up.scan(z[:-3], out=z[3:])
    same(z[3:], want)


@check
def empties():
    for shape, axis in (((0,), 0), ((0, 3), 0), ((3, 0), 1), ((3, 0), 0)):
        x = np.zeros(shape, np.float32)
        same(up.scan(cp.asarray(x), axis=axis), up.scan(x, axis=axis))
        same(up.reduce(cp.asarray(x), axis=axis), np.asarray(up.reduce(x, axis=axis)))
    same(up.reduce(cp.zeros(0, np.float32), initial=4), np.asarray(np.float32(4)))


@check
def graphs():
    x = torch.rand(3_000_000, device="cuda")
    y = torch.empty_like(x)
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        up.scan(x, out=y)
    torch.cuda.synchronize()
    want = y.clone()
    g = torch.cuda.CUDAGraph()
    # Threads of other libraries, such as those of JAX, must not break the recording: by default any thread may.
    with torch.cuda.graph(g, capture_error_mode="thread_local"):
        up.scan(x, out=y)
        up.scan(y, "max", out=y)
    for _ in range(20):
        y.zero_()
        g.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, up.scan(want, "max"))


@check
def epochs_that_wrap():
    """A launch tells its own sums by a tag. The tags repeat after 2^31 launches."""
    from upsweep.gpu import workspaces

    x = cp.asarray(X)
    want = up.scan(X)
    up.scan(x)
    # One tag for each stream that has scanned.
    works = [
        cp.ndarray(3, np.uint32, cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(work.control, 12, work), 0))
        for work in workspaces._workspaces.values()
    ]
    for tags in works:
        tags[2] = 2**31 - 3
    for _ in range(6):
        same(up.scan(x), want)
    assert any(0 < int(tags[2]) < 10 for tags in works), works


@check
def several_devices():
    """Work runs where the arrays are, whichever device is current. On one device this check shows nothing."""
    want = up.scan(X)
    for device in range(cp.cuda.runtime.getDeviceCount()):
        x = torch.tensor(X, device=f"cuda:{device}")
        with cp.cuda.Device(device):
            c = cp.asarray(X)
        for _ in range(3):
            y, z = up.scan(x), up.scan(c)
            assert (y.device.index, z.device.id) == (device, device)
            same(y, want)
            same(z, want)


@check
def streams_and_a_full_machine():
    x = torch.rand(1 << 26, device="cuda")
    want = up.scan(x)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    a = torch.rand(8192, 8192, device="cuda")
    for _ in range(25):
        outs = []
        for i, s in enumerate(streams):
            with torch.cuda.stream(s):
                if i == 3:
                    a @ a
                else:
                    outs.append(up.scan(x))
    torch.cuda.synchronize()
    for o in outs:
        assert torch.equal(o, want)


@check
def repeats_under_load():
    x = torch.rand(50_000_017, device="cuda")
    want = up.scan(x)
    side = torch.cuda.Stream()
    a = torch.rand(4096, 4096, device="cuda")
    for _ in range(200):
        with torch.cuda.stream(side):
            a = (a @ a).clamp(0, 1)
        assert torch.equal(up.scan(x), want)


@check
def more_than_2_to_31():
    n = (1 << 31) + 12_345
    x = torch.ones(n, dtype=torch.int8, device="cuda")
    y = up.scan(x, dtype=torch.int64)
    assert int(y[-1]) == n and int(y[1 << 31]) == (1 << 31) + 1 and bool((y[1:1000] - y[:999] == 1).all())
    del y
    z = up.scan(x.view(3, -1)[:, :700_000_000] if n % 3 == 0 else x[: n // 3 * 3].view(3, -1), axis=1)
    assert z.shape[0] == 3
    del x, z
    torch.cuda.empty_cache()


@check
def errors():
    try:
        up.scan(X, engine="cuda")
    except up.engine.EngineError as error:
        print("   ", error)
    else:
        raise AssertionError("a NumPy array on the cuda engine")


def main():
    failed = 0
    only = sys.argv[1:] or None
    for f in CHECKS:
        if only and f.__name__ not in only:
            continue
        began = time.time()
        try:
            f()
            print(f"ok    {f.__name__} {time.time() - began:.1f} s", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL  {f.__name__}\n{traceback.format_exc()[-4000:]}", flush=True)
    print(f"{len(CHECKS)} checks, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
