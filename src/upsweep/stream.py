"""Scanning what does not fit at once: chunks of any size, with the bits of one call over everything.

A chunk that does not start at an aligned place is cut into aligned pieces. A piece is an ordinary scan that starts from
the prefix at its first item; only its last item belongs to a larger block, and comes from the carry: the binary counter
of block sums in `upsweep.tree`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from upsweep import engine as engines
from upsweep.api import Op, reduce, scan
from upsweep.arguments import ShapeError, axis_of, dtypes_of, result_dtypes, shape_of
from upsweep.engine import DTypeError
from upsweep.operator import accumulator, as_operator
from upsweep.tree import Carry, blocks


def pieces(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut `[start, stop)` into parts that each lie within the aligned power-of-two block that they start.

    >>> list(pieces(3, 21))
    [(3, 4), (4, 8), (8, 16), (16, 21)]
    >>> list(pieces(0, 21))
    [(0, 21)]
    """
    while start < stop:
        room = start & -start or stop
        yield start, min(start + room, stop)
        start += room


class Stream:
    """A scan that is fed chunk by chunk: `push` returns the part of the result that belongs to the chunk.

    The results of all chunks, joined, are those of one `upsweep.scan` over the joined chunks, bit for bit, wherever the
    cuts are. Nothing is held back, and of what has gone by only the carry is kept: at most 64 sums a row.

    Args:
        op: as in `upsweep.scan`.
        axis: the axis that the chunks continue; it may be left out for 1-D chunks only.
        exclusive, initial, dtype: as in `upsweep.scan`.
        state: the `state` of an earlier stream of the same kind, to go on where it stood.

    Raises:
        ShapeError, DTypeError, OperatorError: as in `upsweep.scan`, and where a chunk does not continue the one before.

    >>> import upsweep as up
    >>> stream = up.Stream("add")
    >>> stream.push([3, 1, 7]).tolist(), stream.push([0, 4, 1, 6]).tolist()
    ([3, 4, 11], [11, 15, 16, 22])
    >>> up.Stream("add", state=stream.state).push([3]).tolist()
    [25]
    """

    def __init__(
        self,
        op: Op = "add",
        *,
        axis: int | None = None,
        exclusive: bool = False,
        initial: Any = None,
        dtype: Any = None,
        state: Carry | None = None,
    ) -> None:
        self._op, self._axis, self._exclusive, self._initial = as_operator(op), axis, exclusive, initial
        self._dtype = dtypes_of(dtype)
        self._kind: tuple[Any, ...] | None = None
        self._carry = Carry()
        self._folds: list[Any] = []  # the prefix at the end of each of the carry's blocks
        if state is not None:
            self._carry = Carry(state.count, list(state.sums))

    @property
    def state(self) -> Carry:
        """What is known of everything pushed so far: block sums in host memory, fit to be pickled."""
        sums = [tuple(_on_host(part) for part in block) for block in self._carry.sums]
        return Carry(self._carry.count, sums)

    def push(self, chunk: Any, *, out: Any = None) -> Any:
        """Scan the next chunk: an array (a tuple of arrays for a tuple of arrays), of any length.

        Returns an array of the chunk's shape, kind and device, or `out`.
        """
        return _Run(self, chunk, out, None).through()


def push_summed(stream: Stream, chunk: Any, sums: Iterable[tuple[Any, ...]]) -> Any:
    """`stream.push(chunk)` where the sums of the chunk's aligned blocks are known already: one pass over it less."""
    return _Run(stream, chunk, None, iter(sums)).through()


class _Run:
    """One chunk on its way through a stream: its views, its outputs, and how block sums are joined where they lie."""

    def __init__(self, stream: Stream, chunk: Any, out: Any, known: Iterator[tuple[Any, ...]] | None) -> None:
        given = chunk if isinstance(chunk, tuple) else (chunk,)
        self.stream, self.given, self.first, self.known = stream, given, stream._carry.count, known
        self.name = engines.choose(given)
        self.on = engines.load(self.name)
        self.views = [self.on.view(x) for x in given]
        self.shape = shape_of([v.shape for v in self.views])
        self.axis = axis_of(stream._axis, self.shape)
        self.n = self.shape[self.axis]
        computed = self._check()
        self.sums = tuple(carried(d) for d in computed)
        if out is None:
            self.out = None
            self.ys = [self.on.empty(x, v.shape, d) for x, v, d in zip(given, self.views, computed)]
        else:
            self.out = out
            self.ys = [self.on.view(y) for y in (out if isinstance(out, tuple) else (out,))]
        if self.first and not stream._folds:
            self._unfold(stream._carry)

    def _check(self) -> tuple[np.dtype, ...]:
        dtypes = tuple(v.dtype for v in self.views)
        kind = (self.axis, (*self.shape[: self.axis], *self.shape[self.axis + 1 :]), dtypes)
        known = self.stream._kind
        if known is not None and known[:2] != kind[:2]:
            raise ShapeError(
                f"this chunk has rows of shape {kind[1]} along axis {kind[0]}, the stream {known[1]}, {known[0]}"
            )
        if known is not None and known != kind:
            raise DTypeError(f"this chunk is of {_names(dtypes)}, the stream of {_names(known[2])}")
        computed = dtypes if dtypes[0].names else result_dtypes(dtypes, self.stream._dtype)
        self.stream._kind = kind
        return computed

    def through(self) -> Any:
        for start, stop in pieces(self.first, self.first + self.n):
            self.piece(start - self.first, stop - self.first)
        return self.result()

    def piece(self, start: int, stop: int) -> None:
        """Scan one piece and take its aligned blocks into the carry."""
        stream, carry = self.stream, self.stream._carry
        before = stream._folds[-1] if carry.sums else stream._initial
        self._scan([self.on.cut(x, self.axis, start, stop) for x in self.views], before, start, stop)
        for first, size in blocks(self.first + start, self.first + stop):
            self._push(size, self._sum(first - self.first, size))
        if not stream._exclusive:
            last = stream._carry.sums[-1]
            before = stream._folds[-2] if len(stream._folds) > 1 else stream._initial
            self._scan([self._item(part) for part in last], before, stop - 1, stop)

    def result(self) -> Any:
        if self.out is not None:
            return self.out
        ys: Any = tuple(self.on.give(x, y) for x, y in zip(self.given, self.ys))
        return ys if len(ys) > 1 else ys[0]

    def _scan(self, xs: list[Any], initial: Any, start: int, stop: int) -> None:
        scan(
            _bare(xs), self.stream._op, axis=self.axis, exclusive=self.stream._exclusive, initial=_bare(initial),
            dtype=self.stream._dtype, out=_bare([self.on.cut(y, self.axis, start, stop) for y in self.ys]), engine=self.name,
        )  # fmt: skip

    def _sum(self, start: int, size: int) -> tuple[Any, ...]:
        if self.known is not None:
            return next(self.known)
        return self._reduce([self.on.cut(x, self.axis, start, start + size) for x in self.views], None)

    def _join(self, left: Any, right: tuple[Any, ...]) -> tuple[Any, ...]:
        """`left ⊕ right` by the engine itself, which rounds as a scan does."""
        return right if left is None else self._reduce([self._item(part) for part in right], left)

    def _reduce(self, xs: list[Any], initial: Any) -> tuple[Any, ...]:
        dtype = None if self.sums[0].names else self.sums
        got = reduce(
            _bare(xs), self.stream._op, axis=self.axis, initial=_bare(initial), dtype=dtype, engine=self.name
        )
        return got if isinstance(got, tuple) else (got,)

    def _item(self, part: Any) -> Any:
        """A sum as one item along the axis, where the chunk lies."""
        shape = (*self.shape[: self.axis], 1, *self.shape[self.axis + 1 :])
        part = part.reshape(shape)
        if self.name == "cpu" or not _is_host(part):
            return part
        return self.on.broadcast(part, shape, part.dtype, self.given[0])  # handed over in host memory

    def _push(self, size: int, block: tuple[Any, ...]) -> None:
        stream = self.stream
        stream._carry = stream._carry.push(self._join, size, block)
        sums = stream._carry.sums
        del stream._folds[len(sums) - 1 :]
        before = stream._folds[-1] if stream._folds else stream._initial
        stream._folds.append(self._join(before, sums[-1]))

    def _unfold(self, carry: Carry) -> None:
        """A carry that was handed over knows its sums only."""
        for block in carry.sums:
            before = self.stream._folds[-1] if self.stream._folds else self.stream._initial
            self.stream._folds.append(self._join(before, block))


def _is_host(part: Any) -> bool:
    return isinstance(part, (np.ndarray, np.generic))


def _on_host(part: Any) -> np.ndarray:
    if _is_host(part):
        return np.asarray(part)
    return part.get() if hasattr(part, "get") else np.asarray(part.cpu() if hasattr(part, "cpu") else part)


def carried(dtype: np.dtype) -> np.dtype:
    """The dtype of block sums: that of the result, but for half precision, which is rounded at the store only."""
    return accumulator(dtype) if dtype.name in ("float16", "bfloat16") else dtype


def _bare(parts: Any) -> Any:
    """One component goes without its tuple."""
    return parts if not isinstance(parts, (list, tuple)) else parts[0] if len(parts) == 1 else tuple(parts)


def _names(dtypes: tuple[np.dtype, ...]) -> str:
    return ", ".join(map(str, dtypes))
