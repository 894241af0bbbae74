"""Segments of a file: where they start, chunk by chunk, and the stream that starts anew there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import upsweep as up
from upsweep.cli.work import Options
from upsweep.operator import Operator, accumulator, as_operator, identity_of, resolve
from upsweep.segments import SegmentError, Segments
from upsweep.stream import Stream
from upsweep.tree import Carry

SPELLINGS = {
    "flags": up.segments.flags,
    "offsets": up.segments.offsets,
    "lengths": up.segments.lengths,
    "keys": up.segments.keys,
}


def spelt(text: str) -> tuple[str, str]:
    """What stands before and after the `=` of --segments.

    >>> spelt("keys=city")
    ('keys', 'city')
    """
    spelling, equals, where = text.partition("=")
    if not equals or spelling not in SPELLINGS:
        raise ValueError(
            f"--segments {text}: pass flags=, offsets=, lengths= or keys=, then a .npy file or a column"
        )
    return spelling, where


@dataclass(frozen=True)
class Heads:
    """Where segments start, 1-D along the scanned axis; values may lie in a file."""

    spelling: str
    values: np.ndarray
    turned: int = 0
    """Items of the axis where it is walked from the end, else 0."""

    @classmethod
    def of(cls, text: str | None, column: np.ndarray | None) -> Heads | None:
        """Those that --segments names: a file, or the flags that a table's column has become."""
        if text is None:
            return None
        spelling, where = spelt(text)
        if where.endswith(".npy"):
            values = np.load(where, mmap_mode="r", allow_pickle=False)
            return (
                cls("offsets", np.append(0, np.cumsum(values)))
                if spelling == "lengths"
                else cls(spelling, values)
            )
        if column is None:
            raise ValueError(f"--segments {text}: an array has no columns, pass a .npy file")
        return cls("flags", column)

    def whole(self) -> Segments:
        return SPELLINGS[self.spelling](self.values)

    def check(self, n: int) -> None:
        """What `upsweep.scan` would find wrong."""
        values = self.values
        if values.ndim != 1:
            raise SegmentError(
                f"segments of a file are 1-D along the axis; these {self.spelling} have shape {values.shape}"
            )
        if self.spelling != "offsets":
            if values.size != n:
                raise SegmentError(f"there are {values.size} {self.spelling} for {n} items")
        elif not values.size or values[0] != 0 or values[-1] != n or np.any(values[1:] < values[:-1]):
            raise SegmentError(f"offsets must rise from 0 to {n}, the length of the axis")

    def reversed(self, n: int) -> Heads:
        return replace(self, turned=n)

    def between(self, start: int, stop: int) -> np.ndarray:
        """Flags of the items `[start, stop)` in the order of the walk; the walk's first item has one."""
        if not self.turned:
            return self._forward(start, stop)
        # Walked from the end, a segment starts at the item before the next one's head.
        behind = self._forward(self.turned - stop + 1, min(self.turned - start + 1, self.turned))[::-1]
        return behind if start else np.append(True, behind)

    def _forward(self, start: int, stop: int) -> np.ndarray:
        values = self.values
        if self.spelling == "flags":
            flags = values[start:stop] != 0
        elif self.spelling == "keys":
            flags = np.ones(stop - start, bool)
            first = max(start, 1)
            flags[first - start :] = values[first:stop] != values[first - 1 : stop - 1]
        else:
            flags = np.zeros(stop - start, bool)
            low, high = np.searchsorted(values, (start, stop))
            flags[values[low:high] - start] = True
        if not start:
            flags[:1] = True
        return flags


class Segmented:
    """A stream of the lifted operator on (kind, value) tuples; see `upsweep.operator.segmented`.

    A block is of kind 1 where a segment starts in it. What is folded from `initial` is of kind 2, so that a segment which
    starts in the next block starts from `initial` as well.
    """

    def __init__(
        self, options: Options, axis: int, heads: Heads, xs: tuple[np.ndarray, ...], carry: Carry | None
    ) -> None:
        if xs[0].dtype.names:
            raise ValueError("--segments does not go with an array of records; pass the columns of a table")
        self.axis, self.heads, self.done = axis, heads, carry.count if carry else 0
        dtypes = tuple(np.dtype(options.dtype) if options.dtype else x.dtype for x in xs)
        accumulators = tuple(accumulator(d) for d in dtypes)
        op = resolve(as_operator(options.op), dtypes)
        start = None
        if options.initial is not None:
            parts = options.initial if isinstance(options.initial, tuple) else (options.initial,)
            start = tuple(d.type(part) for d, part in zip(accumulators, parts))
        self.empty = (start or identity_of(op, accumulators)) if options.exclusive else None
        before = (
            None
            if self.empty is None and start is None
            else (2 if start else 0, *(start or self.empty or ()))
        )
        lifted = Operator(_lifted(op.fn, len(xs), start), name=f"segmented {op}")
        wanted = (np.dtype(np.uint8), *dtypes)
        self.stream = Stream(
            lifted, axis=axis, exclusive=options.exclusive, initial=before, dtype=wanted, state=carry
        )

    @property
    def state(self) -> Carry:
        return self.stream.state

    def push(self, chunk: Any, *, out: Any) -> None:
        chunk, out = (parts if isinstance(parts, tuple) else (parts,) for parts in (chunk, out))
        shape = chunk[0].shape
        flags = self.heads.between(self.done, self.done + shape[self.axis])
        self.done += flags.size
        kinds = np.broadcast_to(
            flags.view(np.uint8).reshape([-1 if d == self.axis else 1 for d in range(len(shape))]), shape
        )
        self.stream.push((kinds, *chunk), out=(np.empty(shape, np.uint8), *out))
        if self.empty is not None:  # nothing stands before the first item of a segment
            for y, value in zip(out, self.empty):
                np.moveaxis(y, self.axis, 0)[flags] = value


def _lifted(
    fn: Callable[[Any, Any], Any], parts: int, start: tuple[Any, ...] | None
) -> Callable[[Any, Any], Any]:
    """The operator on tuples of a kind and a value (several values for an operator on tuples)."""
    values, made = (_only, _with_one) if parts == 1 else (_rest, _with_rest)
    first = start[0] if start and parts == 1 else start

    def lifted(a, b):
        return made(a[0] | b[0], values(b) if b[0] else fn(values(a), values(b)))

    def seeded(a, b):
        if b[0] and a[0] >= 2:
            return made(a[0] | b[0], fn(first, values(b)))
        return made(a[0] | b[0], values(b) if b[0] else fn(values(a), values(b)))

    return seeded if start else lifted


def _only(block):
    return block[1]


def _rest(block):
    return block[1:]


def _with_one(kind, value):
    return (kind, value)


def _with_rest(kind, values):
    return (kind, *values)
