"""Segments that cross chunks: scans of the lifted operator, whose carry knows whether a segment has started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from upsweep import engine as engines
from upsweep.api import scan
from upsweep.arguments import ShapeError, axis_of, held, result_dtypes, shape_of
from upsweep.chunks import Standing, bare, is_host
from upsweep.dtypes import accumulator
from upsweep.engine import DTypeError
from upsweep.operator import SEEDED, Operator, identity_of, resolve, segmented
from upsweep.segments import Segments, ends, flags
from upsweep.tree import Carry


class Ends(NamedTuple):
    """Which segments ended with the last item of a chunk."""

    last: np.ndarray


class Lifted:
    """A scan of chunks with segments: one of the lifted operator, on tuples of a flag and what is scanned.

    `keys` are the last ones of the chunk before, or its `Ends`.
    """

    def __init__(self, outer: Standing, keys: Any, chunk: Any) -> None:
        self.outer, self.keys = outer, keys
        given = chunk if isinstance(chunk, tuple) else (chunk,)
        on = engines.load(engines.choose(given))
        views = [on.view(x) for x in given]
        if views[0].dtype.names:
            raise DTypeError("a stream of structured data has no segments; push a tuple of its fields")
        self.axis = axis_of(outer.axis, views[0].shape)
        dtypes = result_dtypes([v.dtype for v in views], outer.dtype)
        accumulators = tuple(map(accumulator, dtypes))
        op = resolve(outer.op, dtypes)
        start = None if outer.initial is None else scalars(outer.initial, dtypes)
        self.first = start or identity_of(op, accumulators)
        lifted = segmented(op, len(given), start)
        if outer.exclusive and self.first and not start:
            lifted = replace(lifted, identity=(0, *self.first))
        carry = outer.carry
        # The sums are of a stream in which no segment has started so far.
        if carry.sums and len(carry.sums[0]) == len(given):
            flag = np.zeros(on_host(carry.sums[0][0]).shape, np.uint16)
            carry = Carry(carry.count, [(flag, *block) for block in carry.sums])
        self.at = Standing(
            lifted, self.axis, outer.exclusive, (SEEDED, *start) if start else None, (np.dtype(np.uint16), *dtypes), outer.order,
            carry,
        )  # fmt: skip
        self.dtypes = dtypes

    def push(self, chunk: Any, segments: Segments | None, out: Any) -> Any:
        given = chunk if isinstance(chunk, tuple) else (chunk,)
        name = engines.choose(given)
        on = engines.load(name)
        shape = shape_of([on.view(x).shape for x in given])
        heads, keys = self._heads(on, given[0], shape, segments)
        if out is None:
            ys = [on.empty(x, shape, d) for x, d in zip(given, self.dtypes)]
        else:
            ys = [on.view(y) for y in (out if isinstance(out, tuple) else (out,))]
        places = (on.empty(given[0], shape, np.dtype(np.uint16)), *ys)
        self.at.push((heads, *given), places)
        if self.outer.exclusive:
            self._restart(places, heads, shape, name)
        self.keys = keys
        return out if out is not None else bare([on.give(x, y) for x, y in zip(given, ys)])

    def _heads(
        self, on: Any, like: Any, shape: tuple[int, ...], segments: Segments | None
    ) -> tuple[Any, Any]:
        """Where segments start, and the last keys."""
        keys = self.keys
        if segments is None and isinstance(keys, Ends):  # none ends in this chunk
            segments = ends(np.zeros(shape if keys.last.ndim > 1 else shape[self.axis], bool))
        if segments is None:
            return on.broadcast(np.zeros((1,) * len(shape), np.uint8), shape, np.dtype(np.uint8), like), keys
        if segments.spelling in ("ends", "keys"):
            values = np.asarray(on_host(segments.values))
            after = self._after_ends if segments.spelling == "ends" else self._changes
            segments, keys = after(np.moveaxis(values, self.axis if values.ndim > 1 else 0, 0), keys)
        return on.spread(on.heads(segments, shape, self.axis, like), shape, self.axis), keys

    def _changes(self, keys: np.ndarray, before: Any) -> tuple[Segments, Any]:
        """Flags where keys change, the axis first, seen from the last ones of the chunk before; and the last of this one."""
        changed = np.ones(keys.shape, bool)
        changed[1:] = keys[:-1] != keys[1:]
        if not len(keys):
            return self._flags(changed), before
        if before is not None and not isinstance(before, Ends):
            changed[:1] = before != keys[:1]
        return self._flags(changed), keys[-1:].copy()

    def _after_ends(self, ended: np.ndarray, before: Any) -> tuple[Segments, Any]:
        """Flags after ends, likewise."""
        started = np.zeros(ended.shape, bool)
        started[1:] = ended[:-1] != 0
        if not len(ended):
            return self._flags(started), before
        if isinstance(before, Ends):
            started[:1] = before.last
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


def _restarted(a, b):
    values = a if b[0] else b
    return (b[0], *values[1:])


_RESTARTED = Operator(_restarted, name="restart")


def scalars(initial: Any, dtypes: tuple[np.dtype, ...]) -> tuple[Any, ...]:
    parts = initial if isinstance(initial, tuple) else (initial,)
    if len(parts) != len(dtypes) or any(np.ndim(part) for part in parts):
        raise ShapeError(f"initial={initial!r}: every segment of a stream starts from {len(dtypes)} scalars")
    return tuple(_scalar(part, d) for d, part in zip(dtypes, parts))


def _scalar(part: Any, dtype: np.dtype) -> Any:
    if dtype.kind in "mM":
        return held(part, dtype).view(np.int64)[()]
    return held(part, accumulator(dtype))[()]


def on_host(part: Any) -> np.ndarray:
    if is_host(part) or not engines.on_gpu(part):
        return np.asarray(part)
    return part.get() if hasattr(part, "get") else np.asarray(part.cpu() if hasattr(part, "cpu") else part)
