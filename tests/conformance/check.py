"""Runs one call on an engine and compares every byte with the oracle's: results, the bytes between and around them, inputs."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

import upsweep as up
from conformance.cases import SUBJECTS, Call, Fused, other
from conformance.memory import POISON, Host, Place, place
from oracle import oracle
from upsweep.dtypes import accumulator
from upsweep.numpy_engine.operators import on_arrays
from upsweep.operator import identity_of, resolve
from upsweep.recall import run


class Drawn:
    """The data of a call, and the results that are right."""

    def __init__(self, call: Call, draw: int) -> None:
        subject = SUBJECTS[call.subject]
        rng = np.random.default_rng([zlib.crc32(repr(call).encode()), draw])
        self.items = subject.draw(call.shape, call.axis, rng)
        if call.inside == "broadcast":
            self.items = [np.broadcast_to(x[:1], x.shape) for x in self.items]
        if call.shared:
            self.items[0] = np.broadcast_to(self.items[0][_shared(call)], call.shape)
        self.fused = subject.fused
        operands = self.items
        if self.fused is not None:
            with np.errstate(all="ignore"):
                operands = self.fused.map_arrays(*self.items, _places(call))
        dtypes, arrays = [x.dtype for x in operands], subject.arrays
        if call.out == "last" and subject.op is up.ops.AFFINE and dtypes[0] != dtypes[1]:
            # A recurrence is computed in its addend's dtype.
            dtypes = dtypes[-1:] * 2
            arrays = on_arrays(subject.op, [accumulator(d) for d in dtypes])
        self.computed = [other(call.dtype, d) or d for d in dtypes] if call.dtype else dtypes
        sums = [accumulator(d) for d in self.computed]
        self.stored = [other("wider", d) or d for d in dtypes] if call.out == "wide" else self.computed
        rows = (*call.shape[: call.axis], *call.shape[call.axis + 1 :])
        self.shape = rows if call.reduce else call.shape
        self.starts = self._starts(call, rows, sums, rng)
        self.lengths, self.heads = _segments(call, rng)
        want = oracle(
            arrays, [_numbers(x).astype(d) for x, d in zip(operands, sums)], axis=call.axis,
            exclusive=call.exclusive, reverse=call.reverse, initial=self.starts, heads=self.heads, order=call.order,
            identity=None if self.starts else identity_of(resolve(subject.op, tuple(self.computed)), sums),
        )  # fmt: skip
        if call.reduce:
            want = self._last(call, want, sums)
        if self.fused is not None:
            want = self._finished(call, self.fused, want)
            self.stored = [w.dtype for w in want]
        with np.errstate(all="ignore"):
            self.want = [np.asarray(w).astype(_plain(d)).view(d) for w, d in zip(want, self.stored)]

    def _starts(
        self, call: Call, rows: tuple[int, ...], sums: list[np.dtype], rng: np.random.Generator
    ) -> list[np.ndarray] | None:
        if not call.initial:
            return None
        shape = rows if call.initial == "rows" else ()
        drawn = SUBJECTS[call.subject].draw((*shape, 1), len(shape), rng)
        if self.fused is not None:
            drawn = self.fused.map_arrays(*drawn, np.int64(0))
        return [_numbers(x)[..., 0].astype(d) for x, d in zip(drawn, sums)]

    def _finished(self, call: Call, fused: Fused, want: Any) -> Any:
        if call.reduce:
            return fused.finish_arrays(want)
        return fused.finish_arrays(want, *self.items, _places(call))

    def _last(self, call: Call, want: Any, sums: list[np.dtype]) -> list[np.ndarray]:
        if call.n:
            return [np.take(w, 0 if call.reverse else -1, call.axis) for w in want]
        op = SUBJECTS[call.subject].op
        nothing = self.starts or identity_of(resolve(op, tuple(self.computed)), sums)
        assert nothing is not None
        return [np.broadcast_to(e, self.shape) for e in nothing]


def _places(call: Call) -> np.ndarray:
    return np.arange(call.n).reshape([-1 if d == call.axis else 1 for d in range(len(call.shape))])


def _shared(call: Call) -> tuple[slice, ...]:
    """The items of the first input that serve others, too."""
    along = call.shared == "line"
    beside = call.shared == "rows"
    return tuple(slice(None if (along if d == call.axis else beside) else 1) for d in range(len(call.shape)))


def _segments(call: Call, rng: np.random.Generator) -> tuple[Any, np.ndarray | None]:
    """The lengths of segments that hold for all rows, and the flags at their starts."""
    n = call.n
    if not call.segments:
        return None, None
    if call.segments in ("flags", "ends", "keys"):
        return None, rng.random(call.shape) < rng.choice([0.01, 0.3])
    cuts = np.sort(rng.integers(0, n + 1, rng.integers(0, 1 + n // 4 + 2)))
    offsets = np.concatenate([[0], cuts, [n]])
    heads = np.zeros(n + 1, bool)
    heads[offsets] = True
    return np.diff(offsets), heads[:n]


def _spelt(call: Call, drawn: Drawn, device: Host) -> Any:
    if drawn.heads is None:
        return None
    if call.segments in ("flags", "line"):
        return up.segments.flags(device.value(drawn.heads))
    if call.segments == "ends":
        return up.segments.ends(device.value(np.roll(drawn.heads, -1, call.axis)))
    if call.segments == "keys":
        return up.segments.keys(device.value(np.cumsum(drawn.heads, call.axis)))
    if call.segments == "lengths":
        return up.segments.lengths(device.value(drawn.lengths))
    # Those of a host.
    return up.segments.offsets(np.concatenate([[0], np.cumsum(drawn.lengths)]).astype(np.int64))


def known(call: Call, device: Host) -> bool:
    """Whether the libraries of a device have the dtypes of a call."""
    dtypes = [np.dtype(d) for d in SUBJECTS[call.subject].dtypes]
    return all(map(device.knows, dtypes))


def wrong(call: Call, device: Host, draws: int = 2) -> str | None:
    """How the results of this call differ from the oracle's; None where they do not. It runs several times, each time on other
    data in other memory, because a call that is like one before goes a shorter way. A large call keeps its data, for which the
    oracle takes seconds.
    """
    large = math.prod(call.shape) > 1 << 20
    drawn = Drawn(call, 0)
    for draw in range(draws):
        if draw and not large:
            drawn = Drawn(call, draw)
        text = _wrong(call, drawn, device)
        if text:
            return text
    return None


def _wrong(call: Call, drawn: Drawn, device: Host) -> str | None:
    laid = drawn.items
    if call.shared:
        laid = [laid[0][_shared(call)], *laid[1:]]
    inside = [_laid(call.inside, x, device.aligned) for x in laid]
    given = [device.put(memory) for memory, _ in inside]
    xs = [device.array(memory, at) for memory, (_, at) in zip(given, inside)]
    if call.shared == "number" and laid[0].size:
        xs[0] = laid[0].flat[0]
    places, outside = _outside(call, drawn, inside, device.aligned)
    if call.out in ("in place", "shifted", "swapped"):
        memories = given[::-1] if call.out == "swapped" else given
    else:
        memories = [device.put(memory) for memory in outside]
    ys = (
        None
        if call.out in ("new", "last")
        else [device.array(memory, at) for memory, at in zip(memories, places)]
    )
    got = _run(call, drawn, device, xs, ys)
    if ys is None:
        for c, (y, want) in enumerate(zip(got, drawn.want[-1:] if call.out == "last" else drawn.want)):
            if (y.shape, y.dtype) != (want.shape, want.dtype):
                return f"component {c} is {y.dtype} of shape {y.shape}, not {want.dtype} of {want.shape}"
            difference = _differences(device.host(y), want)
            if difference:
                return f"component {c}: {difference}"
    else:
        for c, (memory, at, expected) in enumerate(zip(memories, places, outside)):
            found = np.array(device.get(memory))
            at.on(expected)[...] = drawn.want[c]
            difference = _differences(at.on(found), at.on(expected))
            if difference:
                return f"component {c}: {difference}"
            at.on(found)[...] = at.on(expected)
            if not np.array_equal(found, expected):
                return f"component {c}: {np.count_nonzero(found != expected)} bytes around the results have changed"
    if call.out not in ("in place", "shifted", "swapped"):
        for c, (memory, (before, _)) in enumerate(zip(given, inside)):
            if not np.array_equal(device.get(memory), before):
                return f"input {c} has changed"
    return None


def _run(call: Call, drawn: Drawn, device: Host, xs: list[Any], ys: list[Any] | None) -> list[Any]:
    subject, one = SUBJECTS[call.subject], len(xs) == 1
    how: dict[str, Any] = {
        "axis": call.axis,
        "reverse": call.reverse,
        "order": call.order,
        "threads": call.threads,
    }
    if drawn.starts is not None:
        starts = tuple(s.view(d) if d.kind in "mM" else s for s, d in zip(drawn.starts, drawn.computed))
        if call.initial == "rows":
            starts = tuple(map(device.value, starts))
        how["initial"] = starts[0] if len(starts) == 1 else starts
    if call.dtype:
        how["dtype"] = drawn.computed[0]
    if ys is not None:
        how["out"] = ys[0] if len(ys) == 1 else tuple(ys)
    if drawn.fused is not None:
        how |= {"map": drawn.fused.map, "finish": drawn.fused.last if call.reduce else drawn.fused.finish}
    segments = _spelt(call, drawn, device)
    if call.out == "last":
        return [run(
            tuple(xs), subject.op, call.axis, call.exclusive, call.reverse, how.get("initial"), None, None, segments,
            device.engine, call.threads, call.reduce, (len(xs) - 1,), call.order,
        )]  # fmt: skip
    if not call.reduce:
        how.update(exclusive=call.exclusive, segments=segments)
    got = (up.reduce if call.reduce else up.scan)(
        xs[0] if one else tuple(xs), subject.op, engine=device.engine, **how
    )
    return list(got) if isinstance(got, tuple) else [got]


def _laid(layout: str, x: np.ndarray, aligned: bool) -> tuple[np.ndarray, Place]:
    """Memory that holds the items of x, and where."""
    at = place(layout, x.shape, x.dtype, aligned)
    memory = np.full(at.nbytes, POISON, np.uint8)
    there = at.on(memory)
    if layout == "broadcast":
        there[:1] = x[:1]
    else:
        there[...] = x
    return memory, at


def _outside(call: Call, drawn: Drawn, inside: Any, aligned: bool) -> tuple[list[Place], list[np.ndarray]]:
    """The memory for the results, and a copy of it from before the call."""
    if call.out in ("in place", "shifted", "swapped"):
        turned = inside[::-1] if call.out == "swapped" else inside
        step = drawn.items[0].itemsize if call.out == "shifted" else 0
        places = [at._replace(offset=at.offset + step) for _, at in turned]
        return places, [memory.copy() for memory, _ in turned]
    places = [place(call.outside, drawn.shape, d, aligned) for d in drawn.stored]
    return places, [np.full(at.nbytes, POISON, np.uint8) for at in places]


def _differences(got: np.ndarray, want: np.ndarray) -> str | None:
    """Where the bits differ; a NaN is a NaN, whatever its bits."""
    same = (_bits(got) == _bits(want)).all(-1)
    if want.dtype.kind not in "biumM":
        with np.errstate(invalid="ignore"):
            same |= np.isnan(got.astype(np.complex128)) & np.isnan(want.astype(np.complex128))
    if same.all():
        return None
    at = tuple(map(int, np.argwhere(~same)[0]))
    return (
        f"{np.count_nonzero(~same)} of {same.size} differ, the first at {at}: {got[at]!r}, not {want[at]!r}"
    )


def _bits(x: np.ndarray) -> np.ndarray:
    return np.frombuffer(x.tobytes(), np.uint8).reshape(*x.shape, x.itemsize)


def _numbers(x: np.ndarray) -> np.ndarray:
    return x.view(np.int64) if x.dtype.kind in "mM" else x


def _plain(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.int64) if dtype.kind in "mM" else dtype
