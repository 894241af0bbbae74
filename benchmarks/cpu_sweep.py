"""Random calls on one core, none of them from a table: where the slow ones are.

python benchmarks/cpu_sweep.py FOLDER [SEED [CALLS]]    the calls of a seed, worst first, as text and JSON by machine

`draws.py` draws the calls; their arrays have 1 byte to 64 MiB. The results are those of the NumPy engine, or the call is listed as
wrong; where that engine would take an hour, those of the same items laid out plainly. Times are of the processor, the least of
several, so that the machine may be busy. A call's peers are NumPy's copy of the bytes that must be moved and, where numba has
the dtype, the loop that a user would write.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from functools import cache
from math import prod
from pathlib import Path
from time import process_time
from typing import Any

import numba
import numpy as np

import upsweep as up
from cpu import by_machine, processor
from draws import CPU, DTYPES, SPELLINGS, Call, drawn, laid, multiplier
from upsweep.operator import identity_of
from upsweep.operators import as_operator

OPERATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda p, a, x: p + x, "mul": lambda p, a, x: p * x, "max": lambda p, a, x: max(p, x),
    "min": lambda p, a, x: min(p, x), "and": lambda p, a, x: p & x, "or": lambda p, a, x: p | x, "xor": lambda p, a, x: p ^ x,
    "last": lambda p, a, x: x, "logaddexp": lambda p, a, x: np.logaddexp(p, x), "affine": lambda p, a, x: a * p + x,
}  # fmt: skip
"""A step from the prefix p by a multiplier and an item."""
SLOW_LOOP, SLOW_LAST = 1 << 12, ("logaddexp",)
"""The NumPy engine takes steps of more than so many items in order one by one, and has other last bits of these operators."""


@cache
def loop(op: str, kind: str, exclusive: bool, reverse: bool) -> Callable[..., None]:
    """A loop over x and y of shape (before, items, behind), of which there is one behind for rows: f(a, x, y, start, heads, codes,
    states). `heads` start segments, `codes` are groups, of which each has a state."""
    step = numba.njit(OPERATORS[op])

    def rows(a, x, y, start, heads, codes, states):
        for r in range(len(x)):
            p = start
            for k in range(x.shape[1]):
                i = x.shape[1] - 1 - k if reverse else k
                if kind == "segments" and heads[i]:
                    p = start
                q = step(p, a[r, i, 0], x[r, i, 0])
                if kind != "reduce":
                    y[r, i, 0] = p if exclusive else q
                p = q
            if kind == "reduce":
                y[r, 0, 0] = p

    def columns(a, x, y, start, heads, codes, states):
        for r in range(len(x)):
            states[:] = start
            for k in range(x.shape[1]):
                i = x.shape[1] - 1 - k if reverse else k
                state = states[codes[i] if kind == "groups" else 0]
                if kind == "segments" and heads[i]:
                    state[:] = start
                for c in range(x.shape[2]):
                    q = step(state[c], a[r, i, c], x[r, i, c])
                    if kind != "reduce":
                        y[r, i, c] = state[c] if exclusive else q
                    state[c] = q
            if kind == "reduce":
                y[r, 0] = states[0]

    compiled = numba.njit(rows), numba.njit(columns)
    return lambda a, x, *others: compiled[x.shape[2] > 1 or kind == "groups"](a, x, *others)


class Ready:
    """A call with its arrays: `run`, the same `plainly`, the bytes that must be `moved`, and the `loop`, if there is one."""

    def __init__(self, call: Call) -> None:
        self.call, self.forms = call, dict(call.forms)
        rng = np.random.default_rng(1)
        shape, seen = laid(call)
        whole = _items(rng, call.dtype, shape)
        x = seen(whole)
        self.a = self.x = np.broadcast_to(x, call.shape)
        self.moved = (x if call.lies == "cut" else whole).nbytes
        if call.kind == "recurrence":
            self.a = _items(rng, call.dtype, multiplier(call))
            self.a = np.clip(abs(self.a), 0, 0.9).astype(self.a.dtype) if call.dtype != "c8" else self.a / 4
            self.moved += self.a.nbytes
        self.flags = np.append(True, rng.random(call.shape[call.axis]) < 0.01)[:-1]
        self.codes = rng.integers(0, max(1, len(self.flags) // 100), len(self.flags))
        told = self._segments()
        self.moved += 0 if told is None else np.asarray(told.values).nbytes
        self.run = self._call(self.x, self.a, told, "auto")
        self.y = np.asarray(self.run(None))
        self.moved += self.y.nbytes

    def _call(self, x: np.ndarray, a: np.ndarray, told: Any, engine: str) -> Callable[[Any], np.ndarray]:
        call, axis, forms = self.call, self.call.axis, self.forms
        if call.kind == "reduce":
            return lambda y: up.reduce(x, call.op, axis=axis, out=y, engine=engine, **forms)
        if call.kind == "scan":
            return lambda y: up.scan(x, call.op, axis=axis, out=y, segments=told, engine=engine, **forms)
        if engine == "auto":
            return lambda y: up.linear_recurrence(a, x, axis=axis, out=y, segments=told, **forms)
        wide = np.broadcast_to(a, x.shape).astype(x.dtype)
        return lambda y: up.scan(
            (wide, x), "affine", axis=axis, out=None, segments=told, engine=engine, **forms
        )[1]

    def _segments(self) -> Any:
        """Segments or groups of some hundred items, for all rows."""
        lengths = np.diff(np.append(np.flatnonzero(self.flags), len(self.flags)))
        spelt = {
            "flags": lambda: up.segments.flags(self.flags), "keys": lambda: up.segments.keys(self.flags.cumsum()),
            "lengths": lambda: up.segments.lengths(lengths), "groups": lambda: up.segments.groups(self.codes),
            "offsets": lambda: up.segments.offsets(np.append(0, lengths.cumsum())),
        }  # fmt: skip
        return spelt[self.call.segments]() if self.call.segments else None

    def plainly(self) -> np.ndarray:
        call = self.call
        slow = self.forms.get("order") and call.shape[call.axis] > SLOW_LOOP
        engine = "auto" if slow or call.op in SLOW_LAST else "numpy"
        return self._call(np.array(self.x, order="C"), np.array(self.a), self._segments(), engine)(None)

    def loop(self) -> Callable[[], np.ndarray] | None:
        """The plain loop of the call, which gives its results; None where numba has no such floats, or the dimensions are not
        three for it."""
        call, reduced = self.call, self.call.kind == "reduce"
        if call.dtype == "f2":
            return None
        y = np.empty_like(np.expand_dims(self.y, call.axis) if reduced else self.y)
        like = self.x if reduced else y
        by = sorted(range(y.ndim), key=lambda d: -like.strides[d])
        three = [_three(v, by, call.axis) for v in (np.broadcast_to(self.a, self.x.shape), self.x, y)]
        if any(v is None for v in three):
            return None
        kind = "reduce" if reduced else "segments" if call.segments in SPELLINGS else call.segments
        start = identity_of(as_operator(call.op), (y.dtype,) * (1 + (call.op == "affine")))
        start = y.dtype.type(self.forms.get("initial", start[-1] if start else 0))
        back = self.forms.get("reverse", False)
        # Backwards, a segment starts at its last item.
        heads = np.append(self.flags[1:], True) if back else self.flags
        states = np.empty((self.codes.max() + 1 if kind == "groups" else 1, three[1].shape[2]), y.dtype)
        found = loop(call.op, kind, self.forms.get("exclusive", False), back)

        def run() -> np.ndarray:
            found(*three, start, heads, self.codes, states)
            return y.reshape(self.y.shape)

        return run


def _items(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    sort = DTYPES[dtype][0]
    if sort == "?":
        return rng.random(shape) < 0.5
    if sort == "i":
        return rng.integers(0, 4, shape).astype(dtype)
    real = rng.standard_normal(shape)
    return np.asarray(real + 1j * rng.standard_normal(shape) if sort == "c" else real).astype(dtype)


def _three(x: np.ndarray, by: list[int], axis: int) -> np.ndarray | None:
    """A view of x with three dimensions, of which the second is the axis; None where x has no such view."""
    at = by.index(axis)
    x = x.transpose(by)
    shape = prod(x.shape[:at]), x.shape[at], prod(x.shape[at + 1 :])
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        return None


def times(*runs: Callable[[], Any]) -> list[float]:
    """Seconds of the processor that each run takes: the least of several, in turns, of some tenth of a millisecond and more."""
    counts = [max(1, int(2e-4 / max(_spent(run, 1), 1e-7))) for run in runs]
    repeats = max(5, min(100, int(0.3 / sum(_spent(run, k) for run, k in zip(runs, counts)))))
    return [
        min(t) for t in zip(*([_spent(run, k) / k for run, k in zip(runs, counts)] for _ in range(repeats)))
    ]


def _spent(run: Callable[[], Any], count: int) -> float:
    start = process_time()
    for _ in range(count):
        run()
    return process_time() - start


def measured(call: Call) -> dict[str, Any]:
    """A row: the time of a copy and of a loop over ours, or what was wrong."""
    row: dict[str, Any] = {"call": str(call)}
    try:
        ready = Ready(call)
        if not np.array_equal(ready.y, ready.plainly(), equal_nan=call.dtype[0] in "fc"):
            return row | {"wrong": "other bits than the plain ones"}
    except Exception as error:
        return row | {"wrong": f"{type(error).__name__}: {error}"[:300]}
    peer = ready.loop()
    if peer and DTYPES[call.dtype][0] in "i?":
        assert np.array_equal(ready.y, peer()), f"the loop is another one than {call}"
    source, y = np.ones(ready.moved // 2 + 1, np.uint8), ready.y if ready.y.ndim else None
    target = np.zeros_like(source)
    ours, copy, *loops = times(
        lambda: ready.run(y), lambda: np.copyto(target, source), *([peer] if peer else [])
    )
    beside = {"loop": loops[0] / ours} if peer else {}
    return row | {"copy": copy / ours, **beside, "us": 1e6 * ours, "ns": 1e9 * ours / prod(call.shape)}


def text(machine: str, seed: int, rows: list[dict[str, Any]]) -> str:
    wrong = [row for row in rows if "wrong" in row]
    right = sorted((row for row in rows if "copy" in row), key=lambda row: row.get("loop", row["copy"]))
    lines = [f"{machine}, one core: {len(rows)} random calls of seed {seed}, {len(wrong)} wrong."]
    lines += [f"wrong: {row['call']}: {row['wrong']}" for row in wrong]
    for peer in ("loop", "copy"):
        tenths = statistics.quantiles([row[peer] for row in right if peer in row], n=10)
        told = ", ".join(f"{10 * (k + 1)} % below {q:.2f}" for k, q in enumerate(tenths))
        lines.append(f"time of a {peer} over ours: {told}")
    lines += ["", "  loop   copy         us   ns an item"]
    for row in right:
        beside = f"{row['loop']:6.2f}" if "loop" in row else "     -"
        lines.append(f"{beside} {row['copy']:6.3f} {row['us']:10.1f} {row['ns']:9.2f}  {row['call']}")
    return "\n".join(lines) + "\n"


def main(folder: Path, seed: int = 1, count: int = 200) -> None:
    with up.set_threads(1):
        rows = [measured(call) for call in drawn(seed, count, CPU)]
    folder.mkdir(parents=True, exist_ok=True)
    record = {"machine": processor(), "seed": seed, "rows": rows}
    (folder / f"{by_machine('sweep')}.json").write_text(json.dumps(record, indent=1) + "\n")
    (folder / f"{by_machine('sweep')}.txt").write_text(text(processor(), seed, rows))
    print(text(processor(), seed, rows), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
