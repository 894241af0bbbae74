"""One call on a machine with a GPU: bits against the canonical tree, then bandwidth as fractions of a copy.

python benchmarks/gpu_check.py FOLDER           everything: bits, the public API, compute-sanitizer, the table with peers
python benchmarks/gpu_check.py bits  FOLDER     every case; exit 1 on any difference
python benchmarks/gpu_check.py speed FOLDER     the table, as JSON, Markdown and PNG
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path

import cupy as cp
import numpy as np

np.row_stack = np.vstack  # numba-cuda up to 0.30 asks NumPy 2.5 for it

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]
import reference
import upsweep as up
import upsweep.gpu as gpu
from upsweep.dtypes import accumulator
from upsweep.operator import Operator, identity_of, resolve
from upsweep.operators import ops
from upsweep.plan import Plan

U = np.uint64


def _hash(a, b):
    x = a * U(0x9E3779B97F4A7C15)
    return ((x << U(7)) | (x >> U(57))) ^ (b * U(0xC2B2AE3D27D4EB4F) + U(12345))


HASH = Operator(_hash, U(0), name="hash")  # not associative: equal bits mean the same tree


def _hash2(a, b):
    x = a[0] * U(0x9E3779B97F4A7C15) + a[1]
    return (
        ((x << U(7)) | (x >> U(57))) ^ (b[0] * U(0xC2B2AE3D27D4EB4F) + U(12345)),
        a[1] * U(31) + b[1] ^ b[0],
    )


HASH2 = Operator(_hash2, (U(0), U(0)), name="hash2")


def _matrix(a, b):
    return (
        a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3],
    )  # fmt: skip


MATRIX = Operator(_matrix, (1, 0, 0, 1), name="matrix")


def _eight(a, b):
    return (
        a[0] * b[0] - b[1], a[1] + b[1] * a[0], a[2] - b[2], a[3] + b[3],
        a[4] * b[4], a[5] - b[5] * a[6], a[6] + b[6], b[7] - a[7],
    )  # fmt: skip


EIGHT = Operator(_eight, (0,) * 8, name="eight")
CAST = Operator(lambda a, b: a + b, 0, name="python add")


def whole(op):
    """An operator of scalars or tuples, on tuples of arrays."""

    def arrays(a, b):
        with np.errstate(all="ignore"):
            if len(a) > 1:
                return op.fn(a, b)
            x, y = a[0], b[0]
            name = str(op)
            if name in ("min", "max"):
                chosen = np.minimum(x, y) if name == "min" else np.maximum(x, y)
                if x.dtype.kind == "f":  # of zeros NumPy promises nothing
                    zero = -(-x - y) if name == "min" else x + y
                    chosen = np.where((x == 0) & (y == 0), zero, chosen)
                return (chosen,)
            if (
                name == "mul" and x.dtype.kind == "c"
            ):  # NumPy's own product contracts to FMA where the machine has it
                z = np.empty(np.broadcast(x, y).shape, x.dtype)
                z.real, z.imag = x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real
                return (z,)
            if name == "logaddexp":
                return (_logaddexp(x, y),)
            return (np.asarray(op.fn(x, y)).astype(x.dtype),)

    def arg(a, b):
        keep = (a[0] >= b[0] if str(op) == "argmax" else a[0] <= b[0]) | (a[0] != a[0])
        return np.where(keep, a[0], b[0]), np.where(keep, a[1], b[1])

    return arg if str(op) in ("argmax", "argmin") else arrays


def _logaddexp(a, b):
    if a.size > 10_000:  # one by one takes a millisecond an item
        return up.reduce(np.stack([a, b]), ops.LOGADDEXP, axis=0, engine="cpu")
    one = ops.LOGADDEXP.special["f4"].fn if a.dtype == np.float32 else ops.LOGADDEXP.fn
    return np.array([one(x, y) for x, y in zip(a.ravel(), b.ravel())], a.dtype).reshape(a.shape)


def data(dtype, shape, rng):
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        return (rng.random(shape) - 0.5 + 1j * (rng.random(shape) - 0.5)).astype(dtype)
    return (rng.random(shape) * 2 - 1).astype(dtype)


def check(op, dtypes, shape, axis=0, *, reverse=False, exclusive=False, initial=None, segments=None, reduce=False,
          place="plain", out_dtype=None, acc=None, seed=0, stores=None):  # fmt: skip
    """Run one case on poisoned memory and compare all bits. Returns None or what differs."""
    rng = np.random.default_rng(seed)
    loads = tuple(np.dtype(d) for d in dtypes)
    accumulators = tuple(np.dtype(a) for a in acc) if acc else tuple(accumulator(d) for d in loads)
    op = resolve(op, accumulators if loads[0].kind != "b" else loads)
    outs = tuple(np.dtype(d) for d in out_dtype) if out_dtype else loads
    stored = [s for s in (stores or [True] * len(loads))]
    plan = Plan(op, loads, accumulators, tuple(o if s else None for o, s in zip(outs, stored)), shape, axis, exclusive,
                reverse, initial is not None, segments is not None, reduce)  # fmt: skip
    xs = [data(d, shape, rng) for d in loads]
    n, rows = shape[axis], shape[:axis] + shape[axis + 1 :]
    starts = None
    if initial is not None:
        size = rows if initial == "rows" else ()
        starts = [data(a, size, rng) for a in accumulators]
    heads = None
    if segments is not None:
        density, form = segments
        heads = (rng.random((n,) if form == "1d" else shape) < density).astype(np.uint8)
    identity = identity_of(op, accumulators) if exclusive and initial is None else None
    want = reference.scan(whole(op), [x.astype(a) for x, a in zip(xs, accumulators)], axis, exclusive=exclusive,
                          reverse=reverse, initial=starts, identity=identity, heads=heads)  # fmt: skip
    if reduce:
        want = [np.take(w, 0 if reverse else n - 1, axis) for w in want]
    want = [w.astype(o) for w, o in zip(want, outs)]
    dx = [_put(x, place) for x in xs]
    out_shape = rows if reduce else shape
    dy = [_put(np.zeros(out_shape, o), place, poison=True) if s else None for o, s in zip(outs, stored)]
    dh = None if heads is None else gpu.view(cp.asarray(heads))
    di = None
    if starts is not None:
        di = [gpu.view(cp.asarray(s)) if initial != "host" else gpu.view(s) for s in starts]
    gpu.run(plan, [gpu.view(x) for x in dx], [y is not None and gpu.view(y) or None for y in dy], di, dh)
    for c, (y, w) in enumerate(zip(dy, want)):
        if y is None:
            continue
        got = cp.asnumpy(y)
        same = _bits(got) == _bits(w)
        if w.dtype.kind in "fc":
            same |= np.isnan(got) & np.isnan(w)
        if not same.all():
            bad = np.argwhere(~same)
            at = tuple(bad[0])
            return f"component {c}: {len(bad)} of {same.size} differ, first at {at}: got {got[at]!r}, want {w[at]!r}"
    return None


def _bits(x):
    x = np.ascontiguousarray(x)
    return x if x.dtype.kind in "biuc" else x.view(f"u{x.dtype.itemsize}")


def _put(x, place, poison=False):
    """A device array of the values of x, laid out as `place` says; outputs hold 0xA5 bytes before."""
    size = x.dtype.itemsize
    if place == "plain":
        base = cp.empty(x.nbytes, np.uint8)
        base[...] = 0xA5
        y = base.view(x.dtype).reshape(x.shape)
    elif place == "offset":  # one item off the start of an allocation
        base = cp.empty(x.nbytes + size + 3, np.uint8)
        base[...] = 0xA5
        y = base[size : size + x.nbytes].view(x.dtype).reshape(x.shape)
    elif place == "stepped":
        base = cp.empty(2 * x.nbytes, np.uint8)
        base[...] = 0xA5
        y = base.view(x.dtype).reshape(*x.shape[:-1], 2 * x.shape[-1])[..., ::2]
    elif place == "backwards":
        base = cp.empty(x.nbytes, np.uint8)
        base[...] = 0xA5
        y = base.view(x.dtype).reshape(x.shape)[tuple(slice(None, None, -1) for _ in x.shape)]
    elif place == "fortran":
        y = cp.empty(x.shape[::-1], x.dtype).T
        y.view(np.uint8) if False else None
    elif place == "padded":  # rows a few items longer than what is scanned
        y = cp.empty((*x.shape[:-1], x.shape[-1] + 3), x.dtype)[..., : x.shape[-1]]
    if not poison:
        y[...] = cp.asarray(x)
    return y


def cases():
    lengths = [1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 100, 255, 257, 511, 513, 1000, 1023, 1024, 1025, 2047, 2049, 4095, 4096,
               4097, 8191, 8192, 8193, 16384, 40000, 131071, 131072, 131073, 262143, 262144, 262145, 1 << 20, (1 << 20) + 77]  # fmt: skip
    for n in lengths:
        yield HASH, ["u8"], (n,), 0, {}
        yield ops.ADD, ["f4"], (n,), 0, {"exclusive": True}
        yield HASH, ["u8"], (n,), 0, {"reverse": True, "initial": "host"}
        yield HASH, ["u8"], (n,), 0, {"reduce": True}
        yield ops.ADD, ["i1"], (n,), 0, {"place": "offset"}
        yield (
            HASH,
            ["u8"],
            (n,),
            0,
            {"segments": (0.01, "full"), "reverse": n % 2 == 0, "exclusive": n % 3 == 0},
        )
    for n in (4_200_000, (1 << 23) + 4321):
        yield HASH, ["u8"], (n,), 0, {}
        yield ops.ADD, ["f4"], (n,), 0, {}
        yield HASH, ["u8"], (n,), 0, {"segments": (1e-5, "full")}
        yield ops.ADD, ["i1"], (n,), 0, {"reverse": True}
    yield HASH, ["u8"], ((1 << 24) + 999,), 0, {}  # thousands of tiles
    yield ops.ADD, ["f4"], ((1 << 25) + 777,), 0, {"exclusive": True}
    yield ops.AFFINE, ["f4", "f4"], ((1 << 24) + 333,), 0, {"segments": (1e-6, "full")}
    yield ops.AFFINE, ["f4", "f4"], ((1 << 23) + 333,), 0, {"reverse": True}
    yield ops.ADD, ["i2"], ((1 << 25) + 11,), 0, {}
    yield HASH2, ["u8", "u8"], ((1 << 22) + 3,), 0, {}
    yield MATRIX, ["f8"] * 4, ((1 << 21) + 9,), 0, {}
    yield EIGHT, ["f8"] * 8, ((1 << 20) + 7,), 0, {"exclusive": True}
    yield ops.LOGADDEXP, ["f4"], ((1 << 22) + 5,), 0, {}
    yield ops.LOGADDEXP, ["f8"], ((1 << 20) + 5,), 0, {"reverse": True, "initial": "host"}
    for dt in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"):
        for op in (ops.ADD, ops.MUL, ops.MIN, ops.MAX, ops.XOR):
            kind = np.dtype(dt).kind
            if op.kinds and kind not in op.kinds or (kind == "b" and op is ops.XOR):
                continue
            for n, extra in ((300, {}), (50_001, {}), (50_001, {"reverse": True, "place": "offset"})):
                yield op, [dt], (n,), 0, extra
    for op in (ops.ARGMAX, ops.ARGMIN):
        yield op, ["f4", "i8"], (70_001,), 0, {}
    yield ops.LOGADDEXP, ["f4"], (9000,), 0, {}
    yield ops.LOGADDEXP, ["f8"], (9000,), 0, {"reverse": True}
    flags = list(
        itertools.product((False, True), (False, True), (None, "host", "device"), (None, (0.02, "full")))
    )
    for reverse, exclusive, initial, segments in flags:
        extra = dict(reverse=reverse, exclusive=exclusive, initial=initial, segments=segments)
        for op, dts in ((HASH, ["u8"]), (ops.AFFINE, ["f4", "f4"]), (HASH2, ["u8", "u8"])):
            yield op, dts, (500,), 0, extra
            yield op, dts, (33_333,), 0, extra
        for place in ("offset", "stepped", "backwards"):
            yield ops.ADD, ["f4"], (20_011,), 0, {**extra, "place": place}
            yield ops.ADD, ["i2"], (700,), 0, {**extra, "place": place}
    shapes = [((7, 300), 1), ((1000, 8), 1), ((1000, 3), 1), ((5, 20_000), 1), ((3, 4, 500), 2), ((300, 7), 0), ((300, 64), 0),
              ((5000, 100), 0), ((70_000, 40), 0), ((4, 700, 33), 1), ((6, 5, 4, 257), 2), ((2, 33, 128), 1), ((1, 9), 0), ((9, 1), 0),
              ((1100, 1300), 1), ((1030, 4096), 1), ((1024, 5003), 1), ((1025, 9000), 1),
              ((1026, 16_500), 1)]  # fmt: skip
    for shape, axis in shapes:
        for op, dts in ((HASH, ["u8"]), (ops.ADD, ["f4"]), (ops.ADD, ["i1"]), (ops.AFFINE, ["f4", "f8"])):
            yield op, dts, shape, axis, {}
            yield op, dts, shape, axis, {"reverse": True, "exclusive": True, "initial": "rows"}
            yield op, dts, shape, axis, {"segments": (0.03, "full"), "initial": "rows"}
            yield op, dts, shape, axis, {"segments": (0.03, "1d"), "reverse": True}
            yield op, dts, shape, axis, {"reduce": True}
            for place in ("offset", "stepped", "backwards", "fortran", "padded"):
                yield op, dts, shape, axis, {"place": place, "reverse": len(place) % 2 == 0}
    for n in (900, 60_000):
        yield MATRIX, ["f8"] * 4, (n,), 0, {}
        yield MATRIX, ["f4"] * 4, (n,), 0, {"segments": (0.01, "full"), "initial": "device"}
        yield EIGHT, ["f8"] * 8, (n,), 0, {}
        yield EIGHT, ["f8"] * 8, (n,), 0, {"exclusive": True, "initial": "host", "reverse": True}
        yield CAST, ["f4"], (n,), 0, {}
        yield ops.ADD, ["i1"], (n,), 0, {"acc": ["i8"], "out_dtype": ["i8"]}
        yield ops.ADD, ["f4"], (n,), 0, {"acc": ["f8"], "out_dtype": ["f8"], "reverse": True}
        yield ops.AFFINE, ["f4", "f4"], (n,), 0, {"stores": [False, True]}
    yield EIGHT, ["f8"] * 8, (3000, 40), 0, {}
    yield MATRIX, ["f8"] * 4, (3000, 40), 0, {"reverse": True}
    yield MATRIX, ["f8"] * 4, (40, 3000), 1, {"reduce": True}


def bits(folder, limit):
    began, failed, count = time.time(), [], 0
    only = sys.argv[4] if len(sys.argv) > 4 else None
    part, parts = map(int, sys.argv[5].split("/")) if len(sys.argv) > 5 else (0, 1)
    for op, dts, shape, axis, extra in itertools.islice(cases(), part, None, parts):
        name = f"{op} {dts} {shape} axis {axis} {extra}"
        if only and only not in name:
            continue
        if time.time() - began > limit:
            print("out of time")
            break
        count += 1
        try:
            wrong = check(op, dts, shape, axis, **extra)
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error)[:600]}"
            if "CUDA:" in wrong or "illegal" in wrong:
                failed.append(f"{name}: {wrong}")
                print(failed[-1], flush=True)
                break
            if len(failed) < 2:
                print(traceback.format_exc()[-1500:])
        if wrong:
            failed.append(f"{name}: {wrong}")
            if len(failed) < 30:
                print(failed[-1], flush=True)
    print(f"{count} cases, {len(failed)} wrong, {time.time() - began:.0f} s", flush=True)
    (folder / f"bits{part}.txt").write_text("\n".join([f"{count} cases, {len(failed)} wrong", *failed]))
    return bool(failed)


def timed(f, reps=15):
    for _ in range(3):
        f()
    times = []
    for _ in range(reps):
        a, b = cp.cuda.Event(), cp.cuda.Event()
        a.record()
        f()
        b.record()
        b.synchronize()
        times.append(cp.cuda.get_elapsed_time(a, b))
    return sorted(times)[len(times) // 2]


def rate(name, op, dtypes, shape, axis=0, segments=None, stores=None, quiet=False, **extra):
    """Milliseconds, bytes a second, and the fraction of a copy of the same bytes."""
    loads = tuple(np.dtype(d) for d in dtypes)
    accumulators = tuple(accumulator(d) for d in loads)
    op = resolve(op, accumulators)
    stored = tuple(d if s else None for d, s in zip(loads, stores or [True] * len(loads)))
    plan = Plan(op, loads, accumulators, stored, shape, axis, segmented=segments is not None, **extra)
    xs = [cp.random.randint(0, 1 << 30, int(np.prod(shape)) * d.itemsize // 4, dtype=np.int32).view(d) if d.kind in "iu"
          else (cp.random.random(shape, dtype=np.float32) - 0.5).astype(d) for d in loads]  # fmt: skip
    xs = [x.reshape(shape) for x in xs]
    rows = plan.row_shape if plan.reduce else shape
    ys = [cp.empty(rows, d) if d is not None else None for d in stored]
    heads = (
        None if segments is None else (cp.random.random(shape, dtype=np.float32) < segments).astype(np.uint8)
    )
    moved = sum(
        a.nbytes for a in (*xs, *(y for y in ys if y is not None), *([heads] if heads is not None else []))
    )
    views = (
        [gpu.view(x) for x in xs],
        [None if y is None else gpu.view(y) for y in ys],
        None,
        heads is not None and gpu.view(heads) or None,
    )
    places = [cp.empty(moved // 2, np.uint8) for _ in range(4)]
    copy = min(  # a tenth lies between one place in memory and another
        timed(lambda: cp.cuda.runtime.memcpyAsync(b.data.ptr, a.data.ptr, moved // 2, 3, 0))
        for a, b in (places[:2], places[2:])
    )
    del places
    ms = timed(lambda: gpu.run(plan, *views))
    if not quiet:
        print(
            f"{name:44s} {ms:9.4f} ms {moved / ms / 1e6:8.1f} GB/s  {copy / ms:6.3f} of a copy ({copy:.4f} ms)",
            flush=True,
        )
    cp.get_default_memory_pool().free_all_blocks()
    return {"name": name, "ms": ms, "gbs": moved / ms / 1e6, "fraction": copy / ms}


def speed(folder):
    G = 1 << 30
    rows = []

    def add(*args, **kw):
        try:
            rows.append(rate(*args, **kw))
        except Exception as error:
            print(f"{args[0]}: {type(error).__name__}: {str(error)[:300]}", flush=True)

    for _ in range(20):  # until the clocks have risen
        rate("warm", ops.ADD, ["f4"], (G // 4,), quiet=True)
    for dt in ("f4", "i4", "f8", "i8", "i2", "f2", "i1"):
        add(f"add {dt}", ops.ADD, [dt], (G // np.dtype(dt).itemsize,))
    add("max f4", ops.MAX, ["f4"], (G // 4,))
    add("add f4 exclusive", ops.ADD, ["f4"], (G // 4,), exclusive=True)
    add("add f4 reverse", ops.ADD, ["f4"], (G // 4,), reverse=True)
    add("reduce f4", ops.ADD, ["f4"], (G // 4,), reduce=True)
    add("logaddexp f4", ops.LOGADDEXP, ["f4"], (G // 4,))
    add("python add f4", CAST, ["f4"], (G // 4,))
    add("affine f4 one row", ops.AFFINE, ["f4", "f4"], (G // 8,), stores=[False, True])
    add("affine f4 12288x4096", ops.AFFINE, ["f4", "f4"], (12288, 4096), 1, stores=[False, True])
    add("affine f4 12288x5000", ops.AFFINE, ["f4", "f4"], (12288, 5000), 1, stores=[False, True])
    add("add f4 65536x4096 axis 1", ops.ADD, ["f4"], (65536, 4096), 1)
    add("add f4 65536x4096 axis 0", ops.ADD, ["f4"], (65536, 4096), 0)
    add("add f4 1048576x256 axis 0", ops.ADD, ["f4"], (1 << 20, 256), 0)
    add("add f4 1048576x256 axis 1", ops.ADD, ["f4"], (1 << 20, 256), 1)
    add("add i1 1048576x1024 axis 0", ops.ADD, ["i1"], (1 << 20, 1024), 0)
    add("add f8 262144x512 axis 0", ops.ADD, ["f8"], (1 << 18, 512), 0)
    add("add f4 segments 1 %", ops.ADD, ["f4"], (G // 4,), segments=0.01)
    add("add f4 3 rows of 10^8", ops.ADD, ["f4"], (3, 10**8), 1)
    add("matrix f8 (4 parts)", MATRIX, ["f8"] * 4, (G // 32,))
    add("eight f8 (64 bytes)", EIGHT, ["f8"] * 8, (G // 64,))
    add("add c16", ops.ADD, ["c16"], (G // 16,))
    add("add f4 2^20 items", ops.ADD, ["f4"], (1 << 20,))
    from gpu_peers import everyone

    peers = everyone(timed)
    for row in rows:
        row["goal"] = GOALS.get(row["name"])
        row["peers"] = {name: table[row["name"]] for name, table in peers.items() if row["name"] in table}
    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    (folder / "gpu.json").write_text(json.dumps({"device": device, "rows": rows}, indent=1))
    (folder / "gpu.md").write_text(markdown(device, rows))
    draw(device, rows, folder / "gpu.png")
    print(markdown(device, rows))


GOALS = {
    "add f4": 0.93, "add i4": 0.93, "add f8": 0.90, "add i8": 0.90, "add i2": 0.92, "add f2": 0.92, "add i1": 0.85,
    "max f4": 0.93, "logaddexp f4": 0.75, "affine f4 one row": 0.90, "affine f4 12288x4096": 0.95,
    "affine f4 12288x5000": 0.90, "add f4 65536x4096 axis 1": 0.90, "add f4 65536x4096 axis 0": 0.90,
    "add f4 1048576x256 axis 0": 0.90, "add f4 segments 1 %": 0.85,
}  # fmt: skip


def markdown(device, rows):
    lines = [
        f"Scans on one {device}, as fractions of a device copy of the same bytes in the same run (1 GiB in). Medians of 15.",
        "", "| scan | GB/s | of a copy | goal | others |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for r in rows:
        peers = ", ".join(
            f"{name} {value:.2f}" if value >= 0.01 else f"{name} {value:.4f}"
            for name, value in r["peers"].items()
        )
        lines.append(f"| {r['name']} | {r['gbs']:.0f} | {r['fraction']:.3f} | {r['goal'] or ''} | {peers} |")
    return "\n".join(lines) + "\n"


def draw(device, rows, path):
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.32 * len(rows) + 1.2), layout="constrained")
    places = range(len(rows))
    axes.barh(places, [r["fraction"] for r in rows], color="#3a6ea5", label="upsweep")
    for name, mark, colour in (("CUB", "D", "#d1495b"), ("torch", "o", "#edae49"), ("cupy", "s", "#66a182"),
                               ("cuda.compute", "v", "#5b5b5b"), ("JAX", "^", "#8d6cab")):  # fmt: skip
        found = [(r["peers"][name], i) for i, r in enumerate(rows) if name in r["peers"]]
        if found:
            axes.scatter(*zip(*found), marker=mark, color=colour, label=name, zorder=3, s=22)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_yticks(places, [r["name"] for r in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"fraction of a device copy ({device}, 1 GiB in)")
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=150)


def everything(folder):
    """Each part in processes of its own: a fault in one leaves the others their say."""
    here, python, parts = Path(__file__).parent, sys.executable, 12
    mine = str(Path(__file__))
    jobs = [subprocess.Popen([python, mine, "bits", str(folder), "500", "", f"{i}/{parts}"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True) for i in range(parts)]  # fmt: skip
    report, failed = [], 0
    for job in jobs:
        text = job.communicate()[0]
        failed += job.returncode != 0
        report += [
            line for line in text.splitlines() if "wrong" in line or ": component" in line or "Error" in line
        ]
    for part in folder.glob("bits*.txt"):
        part.unlink()
    commands = {"api": [python, str(here / "gpu_api.py")]}
    if shutil.which("compute-sanitizer"):
        commands["memcheck"] = [
            "compute-sanitizer",
            "--tool",
            "memcheck",
            "--report-api-errors",
            "no",
            python,
            str(here / "gpu_sanitize.py"),
        ]
    for name, command in commands.items():
        done = subprocess.run(command, capture_output=True, text=True)
        failed += done.returncode != 0
        report += [
            f"--- {name}: exit {done.returncode}",
            *[x for x in done.stdout.splitlines() if "upsweep: compiling" not in x][-40:],
        ]
    (folder / "checks.txt").write_text("\n".join(report) + "\n")
    print("\n".join(report), flush=True)
    speed(folder)
    return failed


if __name__ == "__main__":
    what, folder = (sys.argv[1], Path(sys.argv[2])) if len(sys.argv) > 2 else ("", Path(sys.argv[1]))
    folder.mkdir(parents=True, exist_ok=True)
    if what == "bits":
        sys.exit(bits(folder, float(sys.argv[3]) if len(sys.argv) > 3 else 1e9))
    sys.exit(speed(folder) if what == "speed" else everything(folder))
