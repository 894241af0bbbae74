"""Applications beside the library that a user would take on one machine without a GPU: the peer's time over ours.

    pip install hmmlearn opencv-python-headless scipy statsmodels && python benchmarks/rivals.py [FILE]

Every result is checked before it is timed; both sides are timed in turn, and the least time of each counts. Above 1 we are faster.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
from hmmlearn.hmm import GaussianHMM
from scipy import linalg, signal, stats
from statsmodels.tsa.statespace.structural import UnobservedComponents

import upsweep as up
from races import race
from upsweep import apps
from upsweep.cores import cores

REPEATS = 5
RNG = np.random.default_rng(0)
Row = tuple[str, str, Callable[[], np.ndarray], Callable[[], np.ndarray]]


def polynomials() -> Iterator[Row]:
    for points, degree in ((1 << 20, 8), (1 << 20, 32), (1 << 14, 32), (64, 1000), (1, 100_000)):
        p, x = RNG.random(degree + 1), RNG.random(points)
        name = f"polyval, degree {degree}, {points} points"
        yield name, "np.polyval", lambda p=p, x=x: apps.polyval(p, x), lambda p=p, x=x: np.polyval(p, x)


def filters() -> Iterator[Row]:
    for order in (1, 2, 4):
        b, a = signal.butter(order, 0.2)
        for x in (RNG.random(1 << 20), RNG.random((64, 1 << 14))):
            name = f"lfilter, order {order}, {' x '.join(map(str, x.shape))}"
            yield (
                name,
                "scipy.signal.lfilter",
                lambda a=a, b=b, x=x: up.lfilter(b, a, x, axis=-1),
                lambda a=a, b=b, x=x: signal.lfilter(b, a, x),
            )


def thomas(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Elimination of many systems side by side, one step at a time."""
    up_, x = np.empty_like(d), np.empty_like(d)
    up_[:, 0], x[:, 0] = c[:, 0] / b[:, 0], d[:, 0] / b[:, 0]
    for i in range(1, d.shape[1]):
        pivot = b[:, i] - a[:, i] * up_[:, i - 1]
        up_[:, i], x[:, i] = c[:, i] / pivot, (d[:, i] - a[:, i] * x[:, i - 1]) / pivot
    for i in range(d.shape[1] - 2, -1, -1):
        x[:, i] -= up_[:, i] * x[:, i + 1]
    return x


def systems() -> Iterator[Row]:
    for m, n in ((1, 1 << 18), (100, 4096), (10_000, 64)):
        a, c, d = RNG.random((3, m, n))
        b = 3 + RNG.random((m, n))
        bands = np.stack([np.roll(c[0], 1), b[0], np.roll(a[0], -1)])
        peer = (lambda bands=bands, d=d: linalg.solve_banded((1, 1), bands, d[0])[None]) if m == 1 else None
        yield (
            f"solve_tridiagonal in order, {m} of {n}",
            "scipy.linalg.solve_banded" if m == 1 else "a loop of NumPy's",
            lambda a=a, b=b, c=c, d=d: apps.solve_tridiagonal(a, b, c, d, order="sequential"),
            peer or (lambda a=a, b=b, c=c, d=d: thomas(a, b, c, d)),
        )


def models() -> Iterator[Row]:
    for states, n in ((2, 20_000), (4, 20_000), (20, 2000)):
        peer, seen = GaussianHMM(states), RNG.standard_normal(n)
        peer.startprob_, peer.transmat_ = (RNG.dirichlet(np.ones(states), size) for size in (None, states))
        peer.means_, peer.covars_ = RNG.standard_normal((states, 1)), np.ones((states, 1))
        likelihood = stats.norm.logpdf(seen[:, None], peer.means_[:, 0])
        logs = [np.log(peer.startprob_), np.log(peer.transmat_), likelihood]
        yield (
            f"viterbi in order, {states} states, {n} steps",
            "hmmlearn",
            lambda logs=logs: apps.viterbi(*logs, order="sequential")[0],
            lambda peer=peer, seen=seen: peer.decode(seen[:, None])[1],
        )
    y, one = np.cumsum(RNG.standard_normal(20_000)), np.eye(1)
    model = UnobservedComponents(y, "llevel")
    # Before the first step, our filter has one step's noise less.
    model.ssm.initialize_known(np.zeros(1), 2 * one)
    model.update([1.0, 1.0])
    yield (
        "kalman_filter, 1 state, 20000 steps",
        "statsmodels",
        lambda: apps.kalman_filter(y[:, None], one, one, one, one, np.zeros(1), one)[0][:, 0],
        lambda: model.ssm.filter().filtered_state[0],
    )


def boxes() -> Iterator[Row]:
    image = RNG.random((1024, 1024)).astype(np.float32)
    low = np.stack(np.meshgrid(*[np.arange(1016)] * 2, indexing="ij"), -1)
    table = apps.SummedAreaTable(image)
    yield (
        "means of all boxes of 9 x 9, 1024 x 1024",
        "cv2.blur",
        lambda: apps.SummedAreaTable(image).mean(low, low + 9),
        lambda: cv2.blur(image, (9, 9))[4:-4, 4:-4],
    )
    places = RNG.integers(0, 700, (1000, 2))
    far = places + RNG.integers(1, 300, (1000, 2))
    yield (
        "means of 1000 boxes of any size, 1024 x 1024, the table known",
        "a loop of cv2.mean",
        lambda: table.mean(places, far),
        lambda: np.array([cv2.mean(image[i:k, j:m])[0] for (i, j), (k, m) in zip(places, far)]),
    )


def main() -> None:
    lines = [f"{platform.machine()}, {cores()} cores; the peer's time over ours, the least of {REPEATS}"]
    for rows in (polynomials, filters, systems, boxes, models):
        for name, peer, ours, theirs in rows():
            np.testing.assert_allclose(ours(), theirs(), rtol=2e-4, atol=1e-6, err_msg=name)
            a, b = race(ours, theirs, repeats=REPEATS)
            lines.append(f"{name:62} {b / a:8.2f} x {peer}")
            print(lines[-1], flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
