"""Fused scans beside the same in three steps, and beside a copy of one array to another: 2^24 float32.

    python benchmarks/maps.py [threads]

Every result is checked before it is timed. The first figure is a copy's time over ours, the second that of the three steps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import upsweep as up
from races import race

ITEMS, REPEATS = 1 << 24, 9
ONE = np.float32(1)


def averaged(x, a):
    return ONE - a, a * x


def rows(x: np.ndarray, z: np.ndarray, y: np.ndarray) -> dict[str, tuple[Callable, Callable]]:
    a, side = np.float32(0.1), int(x.size**0.5)
    square, out = x.reshape(side, side), y.reshape(side, side)

    def average(**how):
        return up.scan((square, a), "affine", map=averaged, finish=lambda p: p[1], out=out, **how)

    def recurrence(**how):
        return up.linear_recurrence(ONE - a, square * a, out=out, **how)

    def drawdown():
        peaks = up.scan(x, "max")
        return np.divide(np.subtract(peaks, x, out=y), peaks, out=y)

    counts = np.arange(1, x.size + 1, dtype=np.float32)
    return {
        "squares": (lambda: up.scan(x, map=lambda v: v * v, out=y), lambda: up.scan(x * x, out=y)),
        "products": (lambda: up.scan((x, z), map=lambda v, w: v * w, out=y), lambda: up.scan(x * z, out=y)),
        "norm (reduce)": (lambda: up.reduce(x, map=lambda v: v * v), lambda: up.reduce(x * x)),
        "drawdown": (lambda: up.scan(x, "max", finish=lambda p, v: (p - v) / p, out=y), drawdown),
        "mean": (
            lambda: up.scan(x, finish=lambda p, v, i: p / np.float32(i + 1), out=y),
            lambda: np.divide(up.scan(x), counts, out=y),
        ),
        "average of rows": (lambda: average(axis=1), lambda: recurrence(axis=1)),
        "average of columns": (lambda: average(axis=0), lambda: recurrence(axis=0)),
        "the same in order": (
            lambda: average(axis=0, order="sequential"),
            lambda: recurrence(axis=0, order="sequential"),
        ),
    }


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    up.set_threads(threads)
    rng, y = np.random.default_rng(0), np.zeros(ITEMS, np.float32)
    x, z = rng.random(ITEMS, np.float32), rng.random(ITEMS, np.float32)
    parts = list(zip(np.split(y, threads), np.split(x, threads)))
    with ThreadPoolExecutor(threads) as pool:

        def copy():
            list(pool.map(lambda part: np.copyto(*part), parts))

        for name, (fused, steps) in rows(x, z, y).items():
            want = np.array(steps())
            np.testing.assert_array_equal(fused(), want)
            alone, ours, theirs = race(copy, fused, steps, repeats=REPEATS)
            print(f"{name:20} {alone / ours:5.2f} of a copy {theirs / ours:5.2f} x three steps", flush=True)


if __name__ == "__main__":
    main()
