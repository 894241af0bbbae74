"""The applications against the tools that users would pick instead: every result is checked, then both are timed in turns.

`python benchmarks/apps.py` prints all of it and keeps it in results/ by machine. With words behind it, it runs the races that
they name.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
import os
import platform
import re
import sys
import sysconfig
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pandas as pd
import scipy
import zstandard
from scipy import linalg, ndimage, signal

import upsweep as up
from cpu import RESULTS, by_machine, processor
from upsweep import apps

N = 1 << 22
ROUNDS = 5


class Race(NamedTuple):
    name: str
    rival: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    check: Callable[[Any, Any], Any] = np.testing.assert_array_equal
    """Raises where the two results differ."""


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-9 * max(1.0, float(np.max(np.abs(want)))))


def each(check: Callable[[Any, Any], Any]) -> Callable[[Any, Any], None]:
    def all_of(got: Any, want: Any) -> None:
        for a, b in zip(got, want, strict=True):
            check(a, b)

    return all_of


def low_pass(order: int) -> Any:
    """The coefficients of a filter."""
    return signal.butter(order, 0.2)


def recurrences(rng: np.random.Generator) -> Iterator[Race]:
    x = rng.standard_normal(N)
    rows = x.reshape(2048, -1)
    yield Race(
        "ema",
        "pandas ewm",
        lambda: up.ema(x, 0.1),
        lambda: pd.Series(x).ewm(alpha=0.1, adjust=False).mean(),
        close,
    )
    for order in (1, 2, 8):
        b, a = low_pass(order)
        yield Race(f"lfilter, order {order}", "scipy lfilter", lambda b=b, a=a: up.lfilter(b, a, x),
                   lambda b=b, a=a: signal.lfilter(b, a, x), close)  # fmt: skip
    b, a = low_pass(2)
    yield Race("lfilter, order 2, axis 0", "scipy lfilter", lambda: up.lfilter(b, a, rows, 0),
               lambda: signal.lfilter(b, a, rows, 0), close)  # fmt: skip
    dones = rng.random(rows.shape) < 0.01

    def loop() -> np.ndarray:
        out, g = np.empty_like(rows), np.zeros(rows.shape[1])
        for t in reversed(range(len(rows))):
            out[t] = g = rows[t] + np.where(dones[t], 0, 0.99 * g)
        return out

    yield Race(
        "discounted_sum, axis 0",
        "loop over time",
        lambda: up.discounted_sum(rows, 0.99, dones, axis=0),
        loop,
        close,
    )


def in_turn(f: Callable[[Any], Any], keys: np.ndarray) -> Callable[[], Any]:
    """A function that sorts the next row in each call: a processor learns the branches of few keys that it sees again."""
    rows = itertools.cycle(keys)
    return lambda: f(next(rows))


def moves(rng: np.random.Generator) -> Iterator[Race]:
    x, keep = rng.standard_normal(N), rng.random(N) < 0.5
    runs = np.repeat(rng.integers(0, 1000, N // 4), 4)
    lengths = rng.integers(0, 9, N // 4)
    yield Race("compact", "x[keep]", lambda: apps.compact(x, keep), lambda: x[keep])
    yield Race(
        "partition",
        "two x[keep]",
        lambda: apps.partition(x, keep)[0],
        lambda: np.concatenate([x[keep], x[~keep]]),
    )
    yield Race("where", "np.flatnonzero", lambda: apps.where(keep), lambda: np.flatnonzero(keep))
    few = rng.random(N) < 0.01
    yield Race("compact, 1 % kept", "x[keep]", lambda: apps.compact(x, few), lambda: x[few])
    yield Race("where, 1 % kept", "np.flatnonzero", lambda: apps.where(few), lambda: np.flatnonzero(few))

    def firsts() -> np.ndarray:
        s: Any = pd.Series(runs)
        return s[s != s.shift()].to_numpy()

    yield Race("unique_consecutive", "pandas shift", lambda: apps.unique_consecutive(runs), firsts)

    def encoded() -> tuple[np.ndarray, np.ndarray]:
        starts = np.flatnonzero(np.concatenate(([True], runs[1:] != runs[:-1])))
        return runs[starts], np.diff(starts, append=N)

    yield Race("run_length_encode", "np.flatnonzero, diff", lambda: apps.run_length_encode(runs), encoded,
               each(np.testing.assert_array_equal))  # fmt: skip
    yield Race("run_length_decode", "np.repeat", lambda: apps.run_length_decode(x[: N // 4], lengths),
               lambda: np.repeat(x[: N // 4], lengths))  # fmt: skip
    codes = rng.integers(0, 256, N // 4).astype(np.uint8)
    yield Race("run_length_decode of bytes", "np.repeat", lambda: apps.run_length_decode(codes, lengths),
               lambda: np.repeat(codes, lengths))  # fmt: skip
    longer = rng.integers(0, 401, N // 200)
    yield Race("run_length_decode, long runs of bytes", "np.repeat", lambda: apps.run_length_decode(codes[: len(longer)], longer),
               lambda: np.repeat(codes[: len(longer)], longer))  # fmt: skip

    yield Race(
        "allocate", "np.cumsum", lambda: apps.allocate(lengths), lambda: np.append(0, np.cumsum(lengths))
    )

    def owners() -> tuple[np.ndarray, np.ndarray]:
        owner = np.repeat(np.arange(len(lengths)), lengths)
        return owner, np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    yield Race(
        "expand",
        "np.repeat, arange",
        lambda: apps.expand(lengths),
        owners,
        each(np.testing.assert_array_equal),
    )
    for dtype in ("int32", "int64", "float32", "float64"):
        keys = (rng.standard_normal(N) * 1e8).astype(dtype)
        yield Race(
            f"radix_sort {dtype}", "np.sort", lambda k=keys: apps.radix_sort(k), lambda k=keys: np.sort(k)
        )
        yield Race(f"argsort {dtype}", "np.argsort stable", lambda k=keys: apps.argsort(k),
                   lambda k=keys: np.argsort(k, kind="stable"))  # fmt: skip
    for n in (1000, 30_000):
        many = rng.standard_normal((64, n))
        yield Race(
            f"radix_sort of {n} float64", "np.sort", in_turn(apps.radix_sort, many), in_turn(np.sort, many)
        )
        stable = partial(np.argsort, kind="stable")
        yield Race(
            f"argsort of {n} float64", "np.argsort stable", in_turn(apps.argsort, many), in_turn(stable, many)
        )
    yield Race(
        "quicksort",
        "np.sort stable",
        lambda: apps.quicksort(x[: N // 16]),
        lambda: np.sort(x[: N // 16], kind="stable"),
    )


def tables(rng: np.random.Generator) -> Iterator[Race]:
    codes, image = rng.integers(0, 1024, N), rng.integers(0, 256, (2048, 2048)).astype(np.uint8)
    yield Race(
        "histogram",
        "np.bincount",
        lambda: apps.histogram(codes, 1024),
        lambda: np.bincount(codes, minlength=1024),
    )
    counts, low = apps.RangeHistogram(codes, 1024), rng.integers(0, 512, 1000)
    ordered = np.sort(codes).tolist()
    yield Race("1000 range counts", "bisect", lambda: counts.count(low, low + 500), lambda: [
        bisect.bisect_right(ordered, v + 500) - bisect.bisect_left(ordered, v) for v in low.tolist()])  # fmt: skip
    yield Race("SummedAreaTable", "np.cumsum twice", lambda: apps.SummedAreaTable(image).table[1:, 1:],
               lambda: image.cumsum(0, dtype=np.int64).cumsum(1))  # fmt: skip
    table, r = apps.SummedAreaTable(image), 31
    start = np.stack(np.meshgrid(np.arange(1986), np.arange(1986), indexing="ij"), -1)
    yield Race("means of 63 x 63 boxes", "scipy uniform_filter", lambda: table.mean(start, start + 2 * r + 1),
               lambda: ndimage.uniform_filter(image.astype(float), 2 * r + 1)[r:-r, r:-r], close)  # fmt: skip


def texts(rng: np.random.Generator) -> Iterator[Race]:
    here = Path(sysconfig.get_path("stdlib"))
    source = b"\n".join(f.read_bytes() for f in sorted(here.glob("*.py")))
    data = json.dumps(
        [{"id": k, "name": f"item {k}", "size": k / 7, "tags": ["a", None, True]} for k in range(30_000)]
    ).encode()
    for name, lexer, text in (("Python", apps.python_lexer(), source), ("JSON", apps.json_lexer(), data)):
        pattern = re.compile("|".join(f"({rule})" for _, rule in lexer.rules).encode("latin-1"))
        yield Race(f"tokenize {name}", "re", lambda t=text, x=lexer: apps.tokenize(t, x)[2],
                   lambda t=text, p=pattern: [(m.lastindex, m.end()) for m in p.finditer(t)],
                   lambda got, want: np.testing.assert_array_equal(got, [end for _, end in want]))  # fmt: skip
    words = sorted(set(source.decode("utf-8", "replace").split()))
    a, b = (rng.choice(words, 200_000).tolist() for _ in range(2))
    p, q = np.array(a[:20_000]), np.array(b[:20_000])
    yield Race("compare_strings, arrays", "np comparisons", lambda: apps.compare_strings(p, q),
               lambda: (p > q).astype(np.int8) - (p < q).astype(np.int8))  # fmt: skip
    yield Race(
        "compare_strings",
        "Python",
        lambda: apps.compare_strings(a, b),
        lambda: [(p > q) - (p < q) for p, q in zip(a, b)],
    )
    for name, sample in (("source", source), ("counters", np.cumsum(rng.integers(0, 100, N // 4)))):
        ours = apps.compress(sample)
        for rival, press, expand in (
            ("zlib", lambda s: zlib.compress(s, 1), zlib.decompress),
            ("zstd", zstandard.ZstdCompressor(level=1).compress, zstandard.ZstdDecompressor().decompress),
        ):
            raw = bytes(sample)
            theirs = press(raw)
            size = f"{len(ours) / len(raw):.2f} of the size, {rival} {len(theirs) / len(raw):.2f}"
            yield Race(f"compress {name} ({size})", f"{rival} level 1", lambda s=sample: apps.compress(s),
                       lambda s=sample, press=press: press(bytes(s)),
                       lambda got, want, s=sample: np.testing.assert_array_equal(bytes(apps.decompress(got)), bytes(s)))  # fmt: skip
            yield Race(f"decompress {name}", f"{rival} level 1", lambda f=ours: apps.decompress(f),
                       lambda f=theirs, expand=expand: expand(f),
                       lambda got, want: np.testing.assert_array_equal(bytes(got), want))  # fmt: skip


def algebra(rng: np.random.Generator) -> Iterator[Race]:
    n = N // 4
    a, c, d = rng.standard_normal((3, n))
    b = np.abs(a) + np.abs(c) + 0.1
    bands = np.stack([np.roll(c, 1), b, np.roll(a, -1)])
    for order, how in (("tree", ""), ("sequential", ", in order")):
        yield Race(f"solve_tridiagonal{how}", "scipy solve_banded",
                   lambda order=order: apps.solve_tridiagonal(a, b, c, d, order=order),
                   lambda: linalg.solve_banded((1, 1), bands, d), close)  # fmt: skip
    p, points = rng.standard_normal(200), rng.uniform(-1, 1, 20_000)
    yield Race(
        "polyval, degree 199",
        "np.polyval",
        lambda: apps.polyval(p, points),
        lambda: np.polyval(p, points),
        close,
    )
    long = rng.standard_normal(n)
    yield Race(
        "polyval, degree 1048575",
        "np.polyval",
        lambda: apps.polyval(long, 0.9),
        lambda: np.polyval(long, 0.9),
        close,
    )
    digits = rng.integers(0, 2**64, (2, n), dtype=np.uint64)
    numbers = [int.from_bytes(v.tobytes(), "little") for v in digits]
    yield Race("carry_lookahead_add", "Python int", lambda: apps.carry_lookahead_add(*digits), lambda: numbers[0] + numbers[1],
               lambda got, want: np.testing.assert_equal(int.from_bytes(got.tobytes(), "little"), want))  # fmt: skip
    parents = np.append(-1, (rng.random(n // 4 - 1) * np.arange(1, n // 4)).astype(int))

    def depths() -> list[int]:
        found = [0]
        for parent in parents[1:].tolist():
            found.append(found[parent] + 1)
        return found

    yield Race("Tree and depths", "Python, parents first", lambda: apps.Tree(parents).depths(), depths)
    initial, transition, seen = (
        rng.dirichlet(np.ones(4)),
        rng.dirichlet(np.ones(4), 4),
        rng.random((50_000, 4)),
    )

    def forward() -> np.ndarray:
        out, v = np.empty_like(seen), initial
        for t in range(len(seen)):
            v = (v @ transition if t else v) * seen[t]
            out[t] = v = v / v.sum()
        return out

    yield Race(
        "hmm_forward", "loop in NumPy", lambda: apps.hmm_forward(initial, transition, seen)[0], forward, close
    )
    logs = np.log(initial), np.log(transition), np.log(seen)

    def best_path() -> np.ndarray:
        score, came = logs[0] + logs[2][0], np.empty((len(seen), 4), int)
        for t in range(1, len(seen)):
            reached = score[:, None] + logs[1]
            came[t] = reached.argmax(0)
            score = reached.max(0) + logs[2][t]
        path = [int(score.argmax())]
        for t in range(len(seen) - 1, 0, -1):
            path.append(came[t, path[-1]])
        return np.array(path[::-1])

    for order, how in (("tree", ""), ("sequential", ", in order")):
        yield Race(
            f"viterbi{how}",
            "loop in NumPy",
            lambda order=order: apps.viterbi(*logs, order=order)[0],
            best_path,
        )
    f, h, q, r = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]]), np.eye(2) * 0.01, np.eye(1)
    y = np.cumsum(rng.standard_normal((20_000, 1)), 0)

    def kalman() -> np.ndarray:
        m, p, out = np.zeros(2), np.eye(2), np.empty((len(y), 2))
        for t in range(len(y)):
            m, p = f @ m, f @ p @ f.T + q
            gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
            out[t] = m = m + gain @ (y[t] - h @ m)
            p = p - gain @ h @ p
        return out

    yield Race(
        "kalman_filter",
        "loop in NumPy",
        lambda: apps.kalman_filter(y, f, h, q, r, np.zeros(2), np.eye(2))[0],
        kalman,
        close,
    )


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def run(race: Race) -> float:
    """The speed of the application, as a multiple of its rival's, each at its best."""
    race.check(race.ours(), race.theirs())
    ours = theirs = math.inf
    for _ in range(ROUNDS):
        ours, theirs = min(ours, timed(race.ours)), min(theirs, timed(race.theirs))
    return theirs / ours


def save(rows: list[dict[str, Any]]) -> None:
    machine, cores = processor(), os.cpu_count() or 1
    versions = {library.__name__: library.__version__ for library in (np, numba, scipy, pd)}
    record = {
        "machine": machine,
        "cores": cores,
        "python": platform.python_version(),
        **versions,
        "rows": rows,
    }
    (RESULTS / f"{by_machine('apps')}.json").write_text(json.dumps(record, indent=1) + "\n")


def main(names: list[str]) -> None:
    print(f"{'':58} {'against':24} times as fast")
    rows = []
    for family in (recurrences, moves, tables, texts, algebra):
        for race in family(np.random.default_rng(0)):
            if names and not any(name in race.name for name in names):
                continue
            ratio = run(race)
            rows.append({"name": race.name, "against": race.rival, "times_as_fast": float(f"{ratio:.2g}")})
            print(f"{race.name:58} {race.rival:24} {ratio:8.2f}", flush=True)
    if not names:
        save(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
