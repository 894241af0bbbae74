"""The NumPy engine: Python functions give the types and the bits of compiled ones, and numba and threads are not needed."""

import math
import os
import subprocess
import sys

import ml_dtypes
import numba
import numpy as np
import pytest

import upsweep as up
from portions import every
from upsweep import numpy_engine
from upsweep.arithmetic import fma
from upsweep.cpu.memory import NUMBA, adopted
from upsweep.function import Function
from upsweep.numpy_engine import fma as vectorised
from upsweep.numpy_engine.operators import on_arrays
from upsweep.plan import Plan

SEVEN, TABLE = np.uint64(7), np.array([3, 1, 2, 0])
INTEGERS = [
    lambda a, b: (a + b) >> 1,
    lambda a, b: a * 3 - b // 2,
    lambda a, b: a % b,
    lambda a, b: a if a > b else b,
    lambda a, b: min(a, b) ^ max(a, 3),
    lambda a, b: (a ^ b) + (5 & b) | ~a,
    lambda a, b: -a + abs(b),
    lambda a, b: a**3 + b,
    lambda a, b: np.maximum(a, b) - 1,
    lambda a, b: np.int32(a) * np.int32(b),
    lambda a, b: TABLE[a & 3] + b,
    lambda a, b: 1 if 0 < a < b else 0,
    lambda a, b: not a,
    lambda a, b: ((np.uint64(a) * SEVEN) >> SEVEN) ^ np.uint64(b),
    lambda a, b: int(float(a) / 3) + b,
]
REALS = [
    lambda a, b: (a + b) * 0.5,
    lambda a, b: math.sqrt(a * a + b * b),
    lambda a, b: a * 2 - b,
    lambda a, b: math.exp(-abs(a)) + b / 3 if b > 0 else a**2 + b,
    lambda a, b: abs(a) ** 3 + np.float32(1.1) * a,
    lambda a, b: a % b,
    lambda a, b: a // b,
    lambda a, b: np.maximum(a, b) + np.sqrt(abs(b)),
    lambda a, b: int(a) % 7 + round(b),
    lambda a, b: max(a, b),
    lambda a, b: min(max(a, -1.0), 1.0) + b,
    lambda a, b: a * np.int32(3) + b,
    lambda a, b: a * np.int8(3) + b,
    lambda a, b: a * np.uint16(3) + b,
    lambda a, b: math.floor(a) + b,
    lambda a, b: b if math.isnan(a) else a,
    lambda a, b: math.copysign(a, b),
    lambda a, b: np.float32(a) + np.float32(b),
    lambda a, b: a if a <= b or a != a else b,
]
COMPLEX = [
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: (a * b).conjugate() + b.real,
    lambda a, b: abs(a) * b,
]
CASES = [
    *((fn, d) for fn in INTEGERS for d in ("i1", "u4", "i8") if not (fn is INTEGERS[-1] and d == "?")),
    *((fn, d) for fn in REALS for d in ("f4", "f8")),
    *((fn, "c8") for fn in COMPLEX),
]


def draw(dtype, rng):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 200, dtype, endpoint=True)
    x = rng.normal(size=200) * 10.0 ** rng.integers(-3, 4, 200)
    if dtype.kind == "c":
        return (x + 1j * rng.normal(size=200)).astype(dtype)
    x[rng.integers(0, 200, 20)] = rng.choice([0.0, -0.0, np.nan, np.inf, 1.0], 20)
    return x.astype(dtype)


@pytest.mark.parametrize(("fn", "dtype"), every(3, CASES), ids=[f"{i}-{d}" for i, (_, d) in enumerate(CASES)])
def test_a_function_on_arrays_is_the_compiled_one_on_items(fn, dtype):
    rng = np.random.default_rng(0)
    a, b = draw(dtype, rng), draw(dtype, rng)
    made, stored = adopted(fn), NUMBA.returned([a.dtype], bare=True)
    want, compiled = np.empty_like(a), numba.njit(lambda p, q: stored(made(p, q)))
    for i, (p, q) in enumerate(zip(a, b)):
        want[i] = np.asarray(compiled(p, q)).astype(dtype)
    with np.errstate(all="ignore"):
        (got,) = on_arrays(up.Operator(fn), (a.dtype,))([a], [b])
    assert got.dtype == want.dtype
    # Every NaN is alike, whatever its bits.
    np.testing.assert_array_equal(got, want)
    size = a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1)
    ordinary = ~np.isnan(np.stack([want.real, want.imag]))
    pairs = [np.stack([x.real, x.imag])[ordinary].view(f"u{size}") for x in (got, want)]
    # The sign of zero counts.
    np.testing.assert_array_equal(*pairs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_multiply_add_rounds_once(dtype):
    rng, n = np.random.default_rng(1), 3000
    a, b = ((rng.normal(size=n) * 2.0 ** rng.integers(-30, 30, n)).astype(dtype) for _ in range(2))
    # The rest is the error of the product.
    near = -(a.astype("f8") * b).astype(dtype)
    far = (rng.normal(size=n) * 2.0 ** rng.integers(-200, 100, n)).astype(dtype)
    for c in (near, far, np.zeros(n, dtype), near * dtype(1 + 2.0**-20)):
        got = vectorised.fma(a, b, c)
        np.testing.assert_array_equal(got, np.array([fma(*each) for each in zip(a, b, c)], dtype))
    small = np.full(3, 2.0**-120, dtype) ** 5
    assert vectorised.fma(small, small, small).tolist() == small.tolist()


def test_half_precision_of_float64_is_rounded_once():
    tie = 1 + 2.0**-8
    x = np.array([tie, np.nextafter(tie, 2), np.nextafter(tie, 1), -np.nextafter(tie, 2), np.inf, 1e300])
    out = np.zeros(6, ml_dtypes.bfloat16)
    up.scan(x.reshape(6, 1), axis=1, out=out.reshape(6, 1), engine="numpy")
    up_, down = 1 + 2.0**-7, 1.0
    assert out.astype("f8").tolist() == [down, up_, down, -up_, np.inf, np.inf]


@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_a_plan_may_finish_its_prefixes(order):
    x, f8 = np.random.default_rng(0).normal(size=(70, 3)), np.dtype("f8")
    root = Function(lambda p: p if p < 0 else math.sqrt(p), 1, (f8,))
    for reduce in (False, True):
        y = np.empty(3 if reduce else (70, 3))
        plan = Plan(up.ops.ADD, (f8,), (f8,), (f8,), (70, 3), 0, reduce=reduce, order=order, finish=root)
        numpy_engine.run(plan, [x], [y], None, None)
        bare = up.reduce(x, axis=0, order=order) if reduce else up.scan(x, axis=0, order=order)
        np.testing.assert_array_equal(y, np.where(bare < 0, bare, np.sqrt(abs(bare))))


def in_a_process(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=True
    ).stdout


ALONE = (
    "import sys, threading\n"
    "sys.modules['numba'] = sys.modules['llvmlite'] = None\n"
    "def never(*_): raise RuntimeError('no thread can be started')\n"
    "threading.Thread.start = never\n"
    "import numpy as np, upsweep as up\n"
)


def test_neither_numba_nor_threads_are_needed():
    code = (
        "x = np.arange(100_000.0)\n"
        "assert up.scan(x)[-1] == x.sum()\n"
        "assert up.engine.choose((x,)) == 'numpy'\n"
        "assert up.reduce(x, lambda a, b: a if a > b else b) == 99_999\n"
        "assert up.apps.radix_sort(np.array([3, 1, 2])).tolist() == [1, 2, 3]\n"
        "assert up.ema(x, alpha=.5).shape == x.shape\n"
        "from upsweep import lab\n"
        "print(lab.check(lab.trace('brent-kung', n=8)))\n"
        "try: up.scan(x, engine='cpu')\n"
        "except up.EngineError as error: print(error)"
    )
    said = in_a_process(ALONE + code)
    assert said.startswith("nothing is wrong\nthe cpu engine needs a package that is not here")
    assert "pip install numba" in said


def test_a_broken_numba_is_worth_a_word(tmp_path):
    code = (
        "import importlib.abc, warnings\n"
        "class Broken(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'numba': raise ImportError('numba needs NumPy 2.9 or less')\n"
        "del sys.modules['numba'], sys.modules['llvmlite']; sys.meta_path.insert(0, Broken())\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    print(up.scan([1, 2])[-1], [str(w.message) for w in said])"
    )
    assert "NumPy 2.9 or less): pip install numba; until then" in in_a_process(
        ALONE + code, UPSWEEP_CACHE_DIR=str(tmp_path)
    )


class OnAMD:
    is_cuda = True

    def __init__(self, kind):
        if kind is not None:
            del type(self).is_cuda
        self.kind = kind

    def __dlpack_device__(self):
        return (self.kind, 0)


def test_arrays_on_an_amd_gpu_are_refused(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.version, "hip", "6.2")
    with pytest.raises(up.EngineError, match="AMD GPU"):
        up.scan(OnAMD(None))
    with pytest.raises(up.EngineError, match="AMD GPU"):
        up.scan(OnAMD(10))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_functions_of_complex_numbers_see_their_imaginary_parts(dtype):
    """The C library's functions take real numbers: exp, log and the like of the real parts stood for the whole."""
    rng = np.random.default_rng(5)
    x = (rng.normal(size=50) + 1j * rng.normal(size=50)).astype(dtype)

    def mapped(fn):
        return up.scan(x, up.ops.LAST, map=lambda a: fn(a), engine="numpy")

    for fn in (np.exp, np.log, np.log1p, np.expm1, np.tanh, np.sin, np.arctan, np.arcsinh):
        np.testing.assert_array_equal(mapped(fn), fn(x), strict=True)
    with pytest.raises(up.OperatorError, match="math takes no complex numbers"):
        mapped(math.exp)


@pytest.mark.parametrize(
    "segments", [None, up.segments.lengths([2, 4]), up.segments.groups([0, 1, 0, 1, 1, 0])]
)
@pytest.mark.parametrize("op", ["or", "and", "max", "last"])
def test_truths_of_other_bytes_are_truths(op, segments):
    x = np.array([2, 0, 3, 1, 0, 255], "u1").view(bool)
    made = up.scan(x, op, segments=segments, engine="numpy")
    assert np.array_equal(
        made.view("u1"), up.scan(x.view("u1") != 0, op, segments=segments, engine="numpy").view("u1")
    )
