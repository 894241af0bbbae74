"""Segments that cross chunks: scans of the lifted operator, whose carry knows whether a segment has started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from upsweep import engine as engines
from upsweep.api import scan
from upsweep.arguments import ShapeError, axis_of, check_starts, held, result_dtypes, shape_of
from upsweep.chunks import Standing, is_host
from upsweep.components import bare, tupled
from upsweep.dtypes import accumulator
from upsweep.host import heads as host_heads
from upsweep.operator import SEEDED, Operator, identity_of, resolve, segmented
from upsweep.segments import LISTS, Segments, differ, flags
from upsweep.tree import Carry


class Ends(NamedTuple):
    """Which segments ended with the last item of a chunk."""

    last: np.ndarray


class Lifted:
    """A scan of chunks with segments: a scan under the lifted operator, on tuples of a flag and the items.

    `keys` are the last ones of the chunk before, or its `Ends`.
    """

    def __init__(self, outer: Standing, keys: Any, chunk: Any) -> None:
        self.outer, self.keys = outer, keys
        given = tupled(chunk)
        on = engines.load(engines.choose(given))
        views = [on.view(x) for x in given]
        self.axis = axis_of(outer.axis, views[0].shape)
        dtypes = result_dtypes([v.dtype for v in views], outer.dtype)
        accumulators = tuple(map(accumulator, dtypes))
        op = resolve(outer.op, dtypes)
        rows = tuple(n for d, n in enumerate(views[0].shape) if d != self.axis)
        self.starts = starts_of(outer.initial, dtypes, rows)
        self.first = self.starts or identity_of(op, accumulators)
        lifted = segmented(op, len(given), bool(self.starts))
        if outer.exclusive and self.first and not self.starts:
            lifted = replace(lifted, identity=(0, *self.first))
        carry = outer.carry
        # The sums are of a stream in which no segment has started so far. In order they are folded from where it started.
        if carry.sums and len(carry.sums[0]) == len(given):
            seeded = bool(self.starts) and outer.order == "sequential"
            flag = np.full(rows, SEEDED if seeded else 0, np.uint16)
            starts = [np.broadcast_to(s, rows).copy() for s in self.starts]
            carry = Carry(carry.count, [(flag, *block, *starts) for block in carry.sums])
        initial = (SEEDED, *self.starts, *self.starts) if self.starts else None
        computed = (np.dtype(np.uint16), *dtypes, *[s.dtype for s in self.starts])
        self.at = Standing(lifted, self.axis, outer.exclusive, initial, computed, outer.order, carry)
        self.dtypes = dtypes

    def push(self, chunk: Any, segments: Segments | None, out: Any) -> Any:
        given = tupled(chunk)
        name = engines.choose(given)
        on = engines.load(name)
        views = [on.view(x) for x in given]
        shape = shape_of([v.shape for v in views])
        kind = self.outer.kind_of(self.axis, shape, tuple([v.dtype for v in views]))
        heads, keys = self._heads(on, given[0], shape, segments)
        ys = (
            [on.empty(x, shape, d) for x, d in zip(given, self.dtypes)]
            if out is None
            else [on.view(y) for y in tupled(out)]
        )
        starts = [
            on.broadcast(along(s, self.axis, len(shape)), shape, s.dtype, given[0]) for s in self.starts
        ]
        self.at.push((heads, *given, *starts), tuple(ys), tuple(range(1, 1 + len(ys))))
        if self.outer.exclusive and shape[self.axis]:
            self._restart((on.empty(given[0], shape, np.dtype(np.uint16)), *ys), heads, shape, name)
        self.keys, self.outer.kind = keys, kind
        return out if out is not None else bare([on.give(x, y) for x, y in zip(given, ys)])

    def _heads(
        self, on: Any, like: Any, shape: tuple[int, ...], segments: Segments | None
    ) -> tuple[Any, Any]:
        """Where segments start, and the last keys."""
        keys, n = self.keys, shape[self.axis]
        if isinstance(keys, Ends) and (segments is None or segments.spelling in ("flags", *LISTS)):
            told = segments or flags(np.zeros(n, bool))
            here = Segments(told.spelling, on_host(told.values))
            segments, keys = self._after_an_end(self._along(host_heads(here, shape, self.axis, None)), keys)
        if segments is None:
            return on.broadcast(np.zeros((1,) * len(shape), np.uint8), shape, np.dtype(np.uint8), like), keys
        if segments.spelling in ("ends", "keys"):
            after = self._after_ends if segments.spelling == "ends" else self._changes
            segments, keys = after(self._along(np.asarray(on_host(segments.values))), keys)
        return on.spread(on.heads(segments, shape, self.axis, like), shape, self.axis), keys

    def _along(self, values: np.ndarray) -> np.ndarray:
        """Values of each item, the axis first."""
        return np.moveaxis(values, self.axis if values.ndim > 1 else 0, 0)

    def _after_an_end(self, given: np.ndarray, before: Ends) -> tuple[Segments, Any]:
        """Flags in a chunk behind one that was told by ends; nothing of the ends is left behind it."""
        if not len(given):
            return self._flags(given), before
        return self._flags(_started(given != 0, before.last)), None

    def _changes(self, keys: np.ndarray, before: Any) -> tuple[Segments, Any]:
        """Flags where keys change, the axis first, seen from the last ones of the chunk before; and the last of this one."""
        changed = np.ones(keys.shape, bool)
        changed[1:] = differ(keys[:-1], keys[1:])
        if not len(keys):
            return self._flags(changed), before
        if before is not None and not isinstance(before, Ends):
            changed[:1] = False
            changed = _started(changed, differ(before, keys[:1]))
        return self._flags(changed), keys[-1:].copy()

    def _after_ends(self, ended: np.ndarray, before: Any) -> tuple[Segments, Any]:
        """Flags behind ends, the axis first, seen from the last end of the chunk before; and the last of this one."""
        started = np.zeros(ended.shape, bool)
        started[1:] = ended[:-1] != 0
        if not len(ended):
            return self._flags(started), before
        if isinstance(before, Ends):
            started = _started(started, before.last)
        return self._flags(started), Ends(ended[-1:] != 0)

    def _flags(self, started: np.ndarray) -> Segments:
        return flags(np.moveaxis(started, 0, self.axis if started.ndim > 1 else 0))

    def _restart(self, places: Any, heads: Any, shape: tuple[int, ...], engine: str) -> None:
        """Nothing stands before the first item of a segment: a scan of segments of one item puts that there."""
        each = flags(np.ones(shape[self.axis], bool))
        scan(
            (heads, *places[1:]), _RESTARTED, axis=self.axis, segments=each, initial=(0, *(self.first or ())),
            dtype=(np.uint16, *self.dtypes), out=places, engine=engine,
        )  # fmt: skip


def _started(flags: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Flags, the axis first, that are also set where `first` says so of the first item; each may be the same in all rows."""
    rank = max(flags.ndim, first.ndim)
    flags, first = (part.reshape(*part.shape, *(1,) * (rank - part.ndim)) for part in (flags, first))
    started = np.broadcast_to(
        flags, (len(flags), *np.broadcast_shapes(flags.shape[1:], first.shape[1:]))
    ).copy()
    started[:1] |= first
    return started


def _restarted(a, b):
    values = a if b[0] else b
    return (b[0], *values[1:])


_RESTARTED = Operator(_restarted, name="restart")


def starts_of(initial: Any, dtypes: tuple[np.dtype, ...], rows: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The values that every segment starts from, in host memory, in the accumulators' dtypes; none where `initial` is none."""
    if initial is None:
        return ()
    parts = tupled(initial)
    if len(parts) != len(dtypes):
        raise ShapeError(f"initial must be a tuple of {len(dtypes)}, one for each component, got {initial!r}")
    starts = tuple(_start_of(part, d) for d, part in zip(dtypes, parts))
    for s in starts:
        check_starts(s.shape, rows)
    return starts


def _start_of(part: Any, dtype: np.dtype) -> np.ndarray:
    part = on_host(part) if engines.on_gpu(part) else part
    if dtype.kind in "mM":
        return np.asarray(held(part, dtype)).view(np.int64)
    return np.asarray(held(part, accumulator(dtype)))


def along(start: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """The start of segments as an array that broadcasts to the items."""
    return np.expand_dims(start, axis) if start.ndim else start.reshape((1,) * rank)


def on_host(part: Any) -> np.ndarray:
    if is_host(part) or not engines.on_gpu(part):
        return np.asarray(part)
    return part.get() if hasattr(part, "get") else np.asarray(part.cpu() if hasattr(part, "cpu") else part)
