"""Scans raced against a copy of the same bytes, in the same run; every result is checked before it is timed.

A ratio is the time of the other over our own: 1.00 is as fast, 2.00 twice as fast.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import upsweep as up

Work = Callable[[], object]

CALL_ALLOWANCE = 10e-6
"""Seconds that a warm call of 1,000 items may take beyond NumPy's."""
IMPORT_ALLOWANCE = 20e-3
"""Seconds that `import upsweep` may take beyond `import numpy`."""


@dataclass(frozen=True)
class Row:
    """One measurement. `numpy` is NumPy's own ratio against the copy, where NumPy has such a function."""

    name: str
    against: str
    ratio: float
    target: float
    numpy: float | None = None

    @property
    def met(self) -> bool:
        return self.ratio >= self.target

    def __str__(self) -> str:
        beside = "" if self.numpy is None else f"  (NumPy {self.numpy:.2f})"
        verdict = "met" if self.met else "MISSED"
        return f"{self.name:<34} {self.ratio:8.2f} x {self.against:<20} target {self.target:6.2f} {verdict:>6}{beside}"


def measure(size: int = 1 << 28, rounds: int = 5) -> Iterator[Row]:
    """All rows, as they come; `size` is the bytes of an array.

    >>> for row in measure(size=1 << 16, rounds=1):  # too small to mean anything
    ...     assert row.ratio > 0
    """
    copy = _Copy(size)
    yield from _add("float32", copy, rounds)
    for name in ("float64", "int32", "int64"):
        yield next(_add(name, copy, rounds))
    for axis in (0, 1):
        yield _plane(axis, copy, rounds)
    yield _affine(copy, rounds)
    yield _segmented(copy, rounds)
    for layout in _LAYOUTS:
        yield _laid_out(layout, copy, rounds)
    yield _reduced(copy, rounds)
    yield _python_operator(size, rounds)
    for name in ("float32", "float64", "int64"):
        yield _million(name)
    yield _call()
    yield _import()
    yield _error(size // 4)


class _Copy:
    """A copy by all cores: `np.copyto` in one thread for each, on equal shares of the arrays that the scan works on, since
    where memory lies decides how fast it is."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.pool = ThreadPoolExecutor(self.cores)

    def read(self, source: np.ndarray) -> Work:
        """A read by all cores: each thread takes the maximum of its share."""
        shares = np.array_split(source.reshape(-1), self.cores)

        def read() -> None:
            for done in [self.pool.submit(np.max, share) for share in shares]:
                done.result()

        return read

    def of(self, target: np.ndarray, source: np.ndarray) -> Work:
        halves = (np.array_split(array.reshape(-1), self.cores) for array in (target, source))
        shares = list(zip(*halves))

        def copy() -> None:
            for done in [self.pool.submit(np.copyto, *share) for share in shares]:
                done.result()

        return copy


class _Race(NamedTuple):
    """The best times of us and of the other, taken in turns."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def _race(ours: Work, theirs: Work, rounds: int) -> _Race:
    times = [(_time(ours), _time(theirs)) for _ in range(rounds)]
    return _Race(*(min(column) for column in zip(*times)))


def _time(work: Work, calls: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


def _steps(n: int, dtype: Any, seed: int = 1) -> np.ndarray:
    """Steps of -1, 0 and 1: every partial sum is exact in every dtype, so that results can be compared for equality."""
    block = np.random.default_rng(seed).integers(-1, 2, min(n, 999_999), np.int8)
    return np.resize(block, n).astype(dtype)


def _must_equal(got: np.ndarray, expected: np.ndarray) -> None:
    if not np.array_equal(got, expected):
        wrong = np.flatnonzero(got.ravel() != expected.ravel())
        raise AssertionError(f"{wrong.size} of {got.size} items are wrong, the first at {wrong[0]}")


def _add(name: str, copy: _Copy, rounds: int) -> Iterator[Row]:
    """The row beside the copy, then the one beside NumPy."""
    x = _steps(copy.size // np.dtype(name).itemsize, name)
    y, expected = np.full_like(x, 77), np.full_like(x, 78)
    numpy = _time(lambda: np.cumsum(x, dtype=x.dtype, out=expected))
    up.scan(x, out=y)
    _must_equal(y, expected)
    race = _race(lambda: up.scan(x, out=y), copy.of(y, x), rounds)
    yield Row(f"add {name}", "copy", race.ratio, 0.85, race.theirs / numpy)
    yield Row(f"add {name}", "np.cumsum", numpy / race.ours, 4.0)


def _plane(axis: int, copy: _Copy, rounds: int) -> Row:
    side = math.isqrt(copy.size // 4)
    x = _steps(side * side, np.float32).reshape(side, side)
    y, expected = np.full_like(x, 77), np.full_like(x, 78)
    numpy = _time(lambda: np.cumsum(x, axis=axis, out=expected))
    up.scan(x, axis=axis, out=y)
    _must_equal(y, expected)
    race = _race(lambda: up.scan(x, axis=axis, out=y), copy.of(y, x), rounds)
    target = (0.80, 0.85)[axis]
    return Row(f"add float32, axis {axis} of 2-D", "copy", race.ratio, target, race.theirs / numpy)


def _affine(copy: _Copy, rounds: int) -> Row:
    """`h = a h + b` with a in {-1, 0, 1}: exact, and known from cumulative products and sums between the zeros."""
    b = _steps(copy.size // 4, np.float32)
    a = np.where(_steps(b.size, np.int8, seed=2) > 0, np.float32(1), np.float32(-1))
    a[::1000] = 0
    h = np.full_like(b, np.nan)
    up.linear_recurrence(a, b, out=h)
    signs = np.where(a == 0, np.float32(1), a)
    np.cumprod(signs, out=signs)
    b *= signs
    sums = np.cumsum(b)
    sums -= np.repeat((sums - b)[::1000], 1000)[: b.size]
    sums *= signs
    _must_equal(h, sums)
    race = _race(lambda: up.linear_recurrence(a, b, out=h), copy.of(h, b), rounds)
    return Row("affine recurrence float32", "copy of 3 arrays", 1.5 * race.ratio, 0.80)


def _segmented(copy: _Copy, rounds: int) -> Row:
    x = _steps(copy.size // 4, np.float32)
    flags = np.resize(np.random.default_rng(3).random(999_999) < 0.01, x.size)
    flags[0] = True
    segments, y = up.segments.flags(flags), np.full_like(x, np.nan)
    up.scan(x, segments=segments, out=y)
    sums, heads = np.cumsum(x), np.flatnonzero(flags)
    sums -= np.repeat((sums - x)[heads], np.diff(heads, append=x.size))
    _must_equal(y, sums)
    race = _race(lambda: up.scan(x, segments=segments, out=y), copy.of(y, x), rounds)
    moved = (2 * x.nbytes + flags.nbytes) / (2 * copy.size)
    return Row("segmented add float32 by flags", "copy", moved * race.ratio, 0.80)


class _Layout(NamedTuple):
    """Rows of so many items, of which every `step`-th counts, or as many columns."""

    name: str
    dtype: str
    items: int
    step: int = 1
    axis: int = 1
    reverse: bool = False
    order: str = "tree"


_LAYOUTS = (
    _Layout("add float32, rows of 100", "float32", 100),
    _Layout("add float32, rows of 100, reverse", "float32", 100, reverse=True),
    _Layout("add float64, rows of 100, in order", "float64", 100, order="sequential"),
    _Layout("add float16, rows of 500, [:, ::2]", "float16", 500, step=2),
    _Layout("add bool, rows of 2", "bool", 2),
    _Layout("add float32, 3 columns", "float32", 3, axis=0),
)
"""The layouts that lie farthest from a copy's speed."""


def _laid_out(layout: _Layout, copy: _Copy, rounds: int) -> Row:
    dtype, step, axis = np.dtype(layout.dtype), layout.step, layout.axis
    lines = copy.size // (step * layout.items * dtype.itemsize)
    x = _steps(lines * layout.items * step, dtype).reshape(lines, -1)[:, ::step]
    y, way = np.zeros(x.shape, dtype), slice(None, None, -1 if layout.reverse else 1)

    def scan() -> None:
        up.scan(x, axis=axis, out=y, reverse=layout.reverse, order=layout.order)

    scan()
    sums = np.logical_or.accumulate if dtype.kind == "b" else np.add.accumulate
    _must_equal(y, sums(x[:, way], axis)[:, way])
    race = _race(scan, copy.of(y, np.zeros_like(y)), rounds)
    return Row(layout.name, "copy", race.ratio, 0.70)


def _reduced(copy: _Copy, rounds: int) -> Row:
    x = _steps(copy.size // 4, np.float32)
    _must_equal(np.asarray(up.reduce(x)), x.sum(dtype=np.float64))
    race = _race(lambda: up.reduce(x), copy.read(x), rounds)
    return Row("reduce float32", "np.max in threads", race.ratio, 0.95)


def _python_operator(size: int, rounds: int) -> Row:
    x = _steps(size // 4, np.float32)
    y, expected = np.full_like(x, np.nan), np.full_like(x, np.inf)
    plus = up.Operator(lambda left, right: left + right, identity=0, name="plus")
    up.scan(x, plus, out=y)
    up.scan(x, "add", out=expected)
    _must_equal(y, expected)
    race = _race(lambda: up.scan(x, plus, out=y), lambda: up.scan(x, "add", out=expected), rounds)
    return Row("Python operator float32", "built-in add", race.ratio, 0.90)


def _million(name: str) -> Row:
    x = _steps(1_000_000, name)
    _must_equal(up.scan(x), np.cumsum(x))
    race = _race(lambda: up.scan(x), lambda: np.cumsum(x), 50)
    return Row(f"1,000,000 {name}", "np.cumsum", race.ratio, 1.0)


def _call() -> Row:
    x = _steps(1_000, np.float64)
    _must_equal(up.scan(x), np.cumsum(x))
    ours = min(_time(lambda: up.scan(x), 200) for _ in range(20))
    theirs = min(_time(lambda: np.cumsum(x), 200) for _ in range(20))
    return Row("1,000 float64, one call", "np.cumsum + 10 us", (theirs + CALL_ALLOWANCE) / ours, 1.0)


def _import() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        # Installed packages are compiled, whatever the environment says of new ones.
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}

        def imported(module: str) -> Work:
            return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True, env=env)

        race = _race(imported("upsweep"), imported("numpy"), 8)
    return Row("import upsweep", "import numpy + 20 ms", (race.theirs + IMPORT_ALLOWANCE) / race.ours, 1.0)


def _error(n: int) -> Row:
    """The worst error of float32 sums. The numbers are multiples of 2**-24, so that sums of integers are exact."""
    x = np.random.default_rng(4).random(n, np.float32)
    exact = np.cumsum((x * np.float32(1 << 24)).astype(np.int64)) * 2.0**-24
    for k in (1, n // 300, n // 30):
        if exact[k - 1] != math.fsum(x[:k].tolist()):
            raise AssertionError(f"the reference for {k} items is not exact")
    ours, theirs = np.abs(up.scan(x) - exact).max(), np.abs(np.cumsum(x) - exact).max()
    return Row("float32 sums, smaller worst error", "np.cumsum", float(theirs / ours), 100.0)
