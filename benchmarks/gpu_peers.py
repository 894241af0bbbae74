"""The same scans by other libraries on this GPU: rows of a table, fractions of a device copy of the same bytes."""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

G = 1 << 30
# Seconds for all cases of a peer that compiles each of them.
LIMIT = 25.0


def cub() -> dict[str, float]:
    """CUB, compiled here by nvcc: its fraction of a copy by dtype."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "peer"
        source = Path(__file__).with_name("peer_cub.cu")
        subprocess.run(
            ["nvcc", "-O3", "-std=c++17", "-arch=native", str(source), "-o", str(program)], check=True
        )
        lines = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split("\n")
    return {name: float(copy) / float(scan) for name, scan, copy in (line.split() for line in lines if line)}


def cupy_rows(timed: Any) -> dict[str, float]:
    import cupy as cp

    x = cp.random.random(G // 4, dtype=cp.float32)
    y = cp.empty_like(x)
    copy = timed(lambda: cp.copyto(y, x))
    z = x.reshape(65536, 4096)
    return {
        "add f4": copy / timed(lambda: cp.cumsum(x, out=y)),
        "add f4 rows of 4096": copy / timed(lambda: cp.cumsum(z, axis=1), 3),
        "add f4 65536x4096 axis 0": copy / timed(lambda: cp.cumsum(z, axis=0), 3),
    }


def attempt(peer: str, cases: Iterable[tuple[str, Callable[[], float]]]) -> dict[str, float]:
    """The fractions of the cases that end well. A line says why a case is left out; cases that begin after LIMIT are left out."""
    found: dict[str, float] = {}
    end = time.perf_counter() + LIMIT
    for name, case in cases:
        try:
            if time.perf_counter() > end:
                raise TimeoutError(f"those before it took {LIMIT:.0f} s")
            found[name] = case()
        except Exception as error:
            left_out(f"{peer}, {name},", error)
    return found


def left_out(what: str, error: Exception) -> None:
    print(f"{what} is not compared: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)


def affine(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
    a, h = np.moveaxis(a, axis, 0), np.moveaxis(b.copy(), axis, 0)
    for i in range(1, len(h)):
        h[i] += a[i] * h[i - 1]
    return np.moveaxis(h, 0, axis)


REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "add": lambda x, axis: np.cumsum(x, axis, dtype=x.dtype),
    "max": lambda x, axis: np.maximum.accumulate(x, axis),
    "logaddexp": lambda x, axis: np.logaddexp.accumulate(x.astype("f8"), axis),
    "affine": affine,
}


def check(scan: Callable[..., Any], name: str, dtypes: list[str], dims: int, axis: int) -> None:
    """Raise unless `scan` is right on a small input: -1, 0 and 1, whose sums every dtype and order has exactly."""
    rng = np.random.default_rng(0)
    xs = [rng.integers(-1, 2, (100_000,) if dims == 1 else (300, 500)).astype(d) for d in dtypes]
    np.testing.assert_allclose(scan(*xs), REFERENCES[name.split()[0]](*xs, axis), rtol=1e-4, atol=1e-4)


def jax_rows(platform: str = "gpu", part: int = 1) -> dict[str, float]:
    """JAX, compiled by XLA. Another platform and a part of the items serve to try this without a GPU."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp
    from jax import lax

    # This raises where there is no such device.
    jax.devices(platform)
    jax.config.update("jax_enable_x64", True)

    def clock(f: Any, *xs: Any) -> float:
        """Seconds a call. CUDA's events do not see XLA's stream, so the host's clock measures the wait for the last of a few
        calls on 1 GiB. The calls queue up, which hides the host's work on all but the first.
        """

        def mean(calls: int) -> float:
            began = time.perf_counter()
            for _ in range(calls):
                y = f(*xs)
            y.block_until_ready()
            return (time.perf_counter() - began) / calls

        # The first call compiles.
        mean(1)
        once = mean(1)
        if once > 1:
            raise TimeoutError(f"one call takes {once:.1f} s")
        return statistics.median(mean(8 if once < 0.02 else 1) for _ in range(5))

    def affine(a: Any, b: Any, axis: int) -> Any:
        return lax.associative_scan(lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1]), (a, b), axis=axis)[1]

    def add(x: Any, axis: int) -> Any:
        return jnp.cumsum(x, axis, dtype=x.dtype)

    x = jax.random.uniform(jax.random.key(0), (G // 4 // part,), "float32")

    def case(name: str, scan: Any, dtypes: list[str], shape: tuple[int, ...], axis: int) -> float:
        f = jax.jit(functools.partial(scan, axis=axis))
        check(f, name, dtypes, len(shape), axis)
        shape = (shape[0] // part, *shape[1:])
        n = int(np.prod(shape))
        xs = [x.view(d)[i * n : (i + 1) * n].reshape(shape) for i, d in enumerate(dtypes)]
        moved = sum(x.nbytes for x in (*xs, xs[0]))
        return clock(jax.jit(jnp.copy), jnp.zeros(moved // 2, "uint8")) / clock(f, *xs)

    cases: list[tuple[str, Any, list[str], tuple[int, ...], int]] = [
        ("add f4", add, ["f4"], (G // 4,), 0),
        ("affine f4 one row", affine, ["f4", "f4"], (G // 8,), 0),
        ("affine f4 12288x4096", affine, ["f4", "f4"], (12288, 4096), 1),
        ("affine f4 12288x5000", affine, ["f4", "f4"], (12288, 5000), 1),
        ("max f4", lax.cummax, ["f4"], (G // 4,), 0),
        ("logaddexp f4", lax.cumlogsumexp, ["f4"], (G // 4,), 0),
        ("add f4 rows of 4096", add, ["f4"], (65536, 4096), 1),
        ("add f4 65536x4096 axis 0", add, ["f4"], (65536, 4096), 0),
        ("add f4 1048576x256 axis 0", add, ["f4"], (1 << 20, 256), 0),
        ("add f4 rows of 256", add, ["f4"], (1 << 20, 256), 1),
        *(
            (f"add {d}", add, [d], (G // np.dtype(d).itemsize,), 0)
            for d in ("i4", "f8", "i8", "i2", "f2", "i1")
        ),
    ]
    return attempt("JAX", ((c[0], functools.partial(case, *c)) for c in cases))


AFFINE = """extern "C" __device__ void affine(void* a, void* b, void* c) {
  float *x = (float*)a, *y = (float*)b, p = x[0] * y[0], q = y[0] * x[1] + y[1];
  ((float*)c)[0] = p, ((float*)c)[1] = q;
}"""


def compute_rows(timed: Any) -> dict[str, float]:
    """cuda.compute, whose scans have one row. Pairs are zipped arrays. Only the second of each pair is written."""
    import cupy as cp
    from cuda import compute

    # In C++: operators in Python need another compiler beside it.
    def affine() -> Any:
        from cuda.compute.op import RawOp
        from cuda.core import Device, Program, ProgramOptions

        options = ProgramOptions(
            arch=f"sm_{Device().arch}", relocatable_device_code=True, link_time_optimization=True
        )
        return RawOp(ltoir=Program(AFFINE, "c++", options=options).compile("ltoir").code, name="affine")

    def ready(op: Any, xs: list[Any], y: Any) -> Callable[[], Any]:
        """A scan of xs into y that is ready to launch."""
        pairs = len(xs) > 1
        d_in = compute.ZipIterator(*xs) if pairs else xs[0]
        d_out = compute.ZipIterator(compute.DiscardIterator(y), y) if pairs else y
        scan = compute.make_inclusive_scan(d_in=d_in, d_out=d_out, op=op, init_value=None)
        given = dict(d_in=d_in, d_out=d_out, op=op, init_value=None, num_items=y.size)
        work = cp.empty(scan(temp_storage=None, **given), cp.uint8)
        return lambda: scan(temp_storage=work, **given)

    x = cp.random.random(G // 4, dtype=cp.float32)

    def case(name: str, operator: Callable[[], Any], dtypes: list[str]) -> float:
        op = operator()

        def scan(*small: np.ndarray) -> np.ndarray:
            xs = [cp.asarray(s) for s in small]
            y = cp.empty_like(xs[0])
            ready(op, xs, y)()
            return cp.asnumpy(y)

        check(scan, name, dtypes, 1, 0)
        xs = np.split(x.view(dtypes[0]), len(dtypes))
        y = cp.empty_like(xs[0])
        moved = sum(x.nbytes for x in (*xs, y))
        a, b = cp.empty(moved // 2, cp.uint8), cp.empty(moved // 2, cp.uint8)
        return timed(lambda: cp.copyto(b, a)) / timed(ready(op, xs, y))

    cases: list[tuple[str, Callable[[], Any], list[str]]] = [
        ("add f4", lambda: compute.OpKind.PLUS, ["f4"]),
        ("max f4", lambda: compute.OpKind.MAXIMUM, ["f4"]),
        ("affine f4 one row", affine, ["f4", "f4"]),
        *((f"add {d}", lambda: compute.OpKind.PLUS, [d]) for d in ("i4", "f8", "i8", "i2", "f2", "i1")),
    ]
    return attempt("cuda.compute", ((c[0], functools.partial(case, *c)) for c in cases))


def everyone(timed: Any) -> dict[str, dict[str, float]]:
    """Every peer that is installed. A line says why another one is missing."""
    found: dict[str, dict[str, float]] = {}
    for name, rows in (("CUB", lambda: {f"add {k}": v for k, v in cub().items()}), ("cupy", lambda: cupy_rows(timed)),
                       ("cuda.compute", lambda: compute_rows(timed)), ("JAX", jax_rows)):  # fmt: skip
        try:
            found[name] = rows()
        except Exception as missing:
            left_out(name, missing)
    return found
