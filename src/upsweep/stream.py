"""Scanning what does not fit at once: chunks of any size, with the bits of one call over everything.

A chunk that does not start at an aligned place is cut into aligned pieces. A piece is an ordinary scan that starts from
the prefix at its first item; only its last item belongs to a larger block, and comes from the carry: the binary counter
of block sums in `upsweep.tree`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from upsweep import engine as engines
from upsweep.api import Op, last_prefix, scan
from upsweep.arguments import OutputError, ShapeError, axis_of, dtypes_of, held, result_dtypes, shape_of
from upsweep.dtypes import accumulator, carried
from upsweep.engine import DTypeError
from upsweep.execution import execute
from upsweep.function import as_function
from upsweep.operator import SEEDED, Operator, identity_of, resolve, segmented
from upsweep.operators import as_operator
from upsweep.segments import Segments, checked, flags
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


@dataclass
class State(Carry):
    """What is known of everything pushed so far: the carry and, of a stream with segments by keys, the last keys."""

    keys: Any = None


class Stream:
    """A scan that is fed chunk by chunk: `push` returns the part of the result that belongs to the chunk.

    The results of all chunks, joined, are those of one `upsweep.scan` over the joined chunks, bit for bit, wherever the
    cuts are. Nothing is held back, and of what has gone by only the carry is kept: at most 64 sums a row.

    Args:
        op: as in `upsweep.scan`.
        axis: the axis that the chunks continue; it may be left out for 1-D chunks only.
        exclusive, initial, dtype, order: as in `upsweep.scan`. In order "sequential" the state is the last prefix alone.
        map, finish: as in `upsweep.scan`, in steps of their own; an index counts the items of all chunks.
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
        order: str = "tree",
        map: Callable[..., Any] | None = None,
        finish: Callable[..., Any] | None = None,
        state: Carry | None = None,
    ) -> None:
        self._op, self._axis, self._exclusive, self._initial = as_operator(op), axis, exclusive, initial
        self._dtype, self._order = dtypes_of(dtype), order
        self._map, self._finish = map, finish
        self._kind: tuple[Any, ...] | None = None
        self._carry = Carry()
        self._folds: list[Any] = []  # the prefix at the end of each of the carry's blocks
        self._lifted: _Lifted | None = None
        self._keys: Any = None
        if state is not None:
            self._carry = Carry(state.count, list(state.sums))
            self._keys = getattr(state, "keys", None)

    @property
    def state(self) -> State:
        """What is known of everything pushed so far: block sums in host memory, fit to be pickled."""
        carry = self._lifted.stream._carry if self._lifted else self._carry
        sums = [tuple(_on_host(part) for part in block) for block in carry.sums]
        return State(carry.count, sums, self._keys)

    def push(self, chunk: Any, *, segments: Segments | None = None, out: Any = None) -> Any:
        """Scan the next chunk: an array (a tuple of arrays for a tuple of arrays), of any length.

        Args:
            chunk: what continues the chunk before.
            segments: where segments start within this chunk, see `upsweep.segments`. Flags start one where they say so, else
                the chunk goes on with the segment before; keys go on where the last key before is the same; offsets and
                lengths start one with the chunk.
            out: where to put the result; it may be the chunk itself.

        Returns:
            An array of the chunk's shape, kind and device, or `out`; with `map` or `finish` as of `upsweep.scan`.
        """
        operands = chunk if self._map is None else _each(self._map, chunk, None)
        if self._finish is None:
            return self._push(operands, segments, out)
        return self._finished(operands, chunk, segments, out)

    def _finished(self, operands: Any, chunk: Any, segments: Segments | None, out: Any) -> Any:
        """What a finish makes of a chunk's prefixes, which it sees as they are computed."""
        assert self._finish is not None
        parts = operands if isinstance(operands, tuple) else (operands,)
        on = engines.load(engines.choose(parts))
        views = [on.view(x) for x in parts]
        computed = result_dtypes([v.dtype for v in views], self._dtype)
        self._dtype = tuple([d if d.kind in "mM" else accumulator(d) for d in computed])
        first = self._carry.count if self._lifted is None else self._lifted.stream._carry.count
        prefixes = self._push(operands, segments, None)
        given = chunk if isinstance(chunk, tuple) else (chunk,)
        finish = as_function(self._finish).taking([1, 1 + len(given), 2 + len(given)])
        shape, count = views[0].shape, len(parts)
        axis = axis_of(self._axis, shape)
        places = np.arange(first, first + shape[axis]).reshape(
            [-1 if d == axis else 1 for d in range(len(shape))]
        )
        index = on.broadcast(places, shape, places.dtype, parts[0])
        together = prefixes if count > 1 else (prefixes,)
        inputs = (*together, *given, index)[: count + finish.arity - 1]
        return _each(finish.fn if count == 1 else _on_tuple(finish.fn, count), inputs, out)

    def _push(self, chunk: Any, segments: Segments | None, out: Any) -> Any:
        parts = len(chunk) if isinstance(chunk, tuple) else 1
        if self._lifted is None:
            known = self._carry.sums
            if checked(segments) is None and not (known and len(known[0]) > parts):
                run = _Run(self, chunk, out, None)
                return run.through() if self._order == "tree" else run.in_order()
            self._lifted = _Lifted(self, chunk)
        return self._lifted.push(chunk, checked(segments), out)


def _each(fn: Callable[..., Any], xs: Any, out: Any) -> Any:
    """A function of every item: the scan of segments of one item each."""
    given = xs if isinstance(xs, tuple) else (xs,)
    shapes = [np.shape(x) for x in given]
    each = flags(np.ones(np.broadcast_shapes(*shapes)[-1], bool))
    return scan(xs, _LATER, axis=-1, segments=each, map=fn, out=out)


def _later(a, b):
    return b


_LATER = Operator(_later, name="the later one")


def _on_tuple(fn: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function of a tuple and more as one of all parts."""

    def call(*parts):
        return fn(parts[:count], *parts[count:])

    return call


def push_summed(stream: Stream, chunk: Any, sums: Iterable[tuple[Any, ...]], keep: int | None = None) -> Any:
    """`stream.push(chunk)` where the sums of the chunk's aligned blocks are known already: one pass over it less. `keep`
    names the one component that is wanted."""
    return _Run(stream, chunk, None, iter(sums), keep).through()


class _Run:
    """One chunk on its way through a stream: its views, its outputs, and how block sums are joined where they lie."""

    def __init__(
        self,
        stream: Stream,
        chunk: Any,
        out: Any,
        known: Iterator[tuple[Any, ...]] | None,
        keep: int | None = None,
    ) -> None:
        given = chunk if isinstance(chunk, tuple) else (chunk,)
        self.keep = keep
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
            wanted = range(len(given)) if keep is None else (keep,)
            self.ys = [self.on.empty(given[c], self.shape, computed[c]) for c in wanted]
        else:
            self.out = out
            self.ys = [self.on.view(y) for y in (out if isinstance(out, tuple) else (out,))]
            if any(y.shape != self.shape for y in self.ys):
                raise OutputError(f"out has shape {self.ys[0].shape}, the chunk has {self.shape}")
            self.views = [self.on.apart(x, self.ys) for x in self.views]
        if self.first and not stream._folds and stream._order == "tree":
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
        self.kind = kind
        return computed

    def through(self) -> Any:
        stream = self.stream
        stood = stream._carry, list(stream._folds)
        try:
            for start, stop in pieces(self.first, self.first + self.n):
                self.piece(start - self.first, stop - self.first)
        except BaseException:  # the stream stands where it stood
            stream._carry, stream._folds = stood
            raise
        stream._kind = self.kind
        return self.result()

    def in_order(self) -> Any:
        """Scan the chunk from the last prefix of the one before."""
        stream = self.stream
        before = stream._carry.sums[0] if stream._carry.sums else stream._initial
        last = (
            self._reduce(self.views, before) if self.n else None
        )  # before anything is written over the chunk
        self._scan(self.views, before, 0, self.n)
        if last is not None:
            stream._carry = Carry(self.first + self.n, [last])
        stream._kind = self.kind
        return self.result()

    def piece(self, start: int, stop: int) -> None:
        """Scan one piece and take its aligned blocks into the carry."""
        stream, carry = self.stream, self.stream._carry
        before = stream._folds[-1] if carry.sums else stream._initial
        parts = list(blocks(self.first + start, self.first + stop))
        sums = [
            self._sum(first - self.first, size) for first, size in parts
        ]  # before anything is written over them
        self._scan([self.on.cut(x, self.axis, start, stop) for x in self.views], before, start, stop)
        for (_, size), block in zip(parts, sums):
            self._push(size, block)
        if not stream._exclusive:
            last = stream._carry.sums[-1]
            before = stream._folds[-2] if len(stream._folds) > 1 else stream._initial
            self._scan([self._item(part) for part in last], before, stop - 1, stop)

    def result(self) -> Any:
        if self.out is not None:
            return self.out
        kinds = self.given if self.keep is None else (self.given[self.keep],)
        return _bare([self.on.give(x, y) for x, y in zip(kinds, self.ys)])

    def _scan(self, xs: list[Any], initial: Any, start: int, stop: int) -> None:
        out = _bare([self.on.cut(y, self.axis, start, stop) for y in self.ys])
        execute(
            _bare(xs), self.stream._op, self.axis, self.stream._exclusive, False, _bare(initial), self.stream._dtype, out,
            None, self.name, None, False, self.keep, self.stream._order,
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
        got = last_prefix(
            _bare(xs), self.stream._op, axis=self.axis, initial=_bare(initial), dtype=dtype, engine=self.name,
            order=self.stream._order,
        )  # fmt: skip
        return got if isinstance(got, tuple) else (got,)

    def _item(self, part: Any) -> Any:
        """A sum as one item along the axis, where the chunk lies."""
        shape = (*self.shape[: self.axis], 1, *self.shape[self.axis + 1 :])
        part = part.reshape(shape)
        # What a stream with segments is given first are flags as its engine sees them, which are no array.
        if not _is_host(part) or not engines.on_gpu(self.given[-1]):
            return part
        return self.on.broadcast(part, shape, part.dtype, self.given[-1])  # handed over in host memory

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


class _Lifted:
    """A stream with segments: one of the lifted operator on tuples of a flag and what is scanned."""

    def __init__(self, outer: Stream, chunk: Any) -> None:
        self.outer = outer
        given = chunk if isinstance(chunk, tuple) else (chunk,)
        on = engines.load(engines.choose(given))
        views = [on.view(x) for x in given]
        if views[0].dtype.names:
            raise DTypeError("a stream of structured data has no segments; push a tuple of its fields")
        self.axis = axis_of(outer._axis, views[0].shape)
        dtypes = result_dtypes([v.dtype for v in views], outer._dtype)
        accumulators = tuple(map(accumulator, dtypes))
        op = resolve(outer._op, dtypes)
        start = None if outer._initial is None else scalars(outer._initial, dtypes)
        self.first = start or identity_of(op, accumulators)
        lifted = segmented(op, len(given), start)
        if outer._exclusive and self.first and not start:
            lifted = replace(lifted, identity=(0, *self.first))
        carry = outer._carry
        if carry.sums and len(carry.sums[0]) == len(given):  # no segment has started so far
            flag = np.zeros(_on_host(carry.sums[0][0]).shape, np.uint16)
            carry = Carry(carry.count, [(flag, *block) for block in carry.sums])
        self.stream = Stream(
            lifted, axis=self.axis, exclusive=outer._exclusive, initial=(SEEDED, *start) if start else None,
            dtype=(np.uint16, *dtypes), order=outer._order, state=carry,
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
        self.stream.push((heads, *given), out=places)
        if self.outer._exclusive:
            self._restart(places, heads, shape, name)
        self.outer._keys = keys
        return out if out is not None else _bare([on.give(x, y) for x, y in zip(given, ys)])

    def _heads(
        self, on: Any, like: Any, shape: tuple[int, ...], segments: Segments | None
    ) -> tuple[Any, Any]:
        """Where segments start, and the last keys."""
        keys = self.outer._keys
        if segments is None:
            return on.broadcast(np.zeros((1,) * len(shape), np.uint8), shape, np.dtype(np.uint8), like), keys
        if segments.spelling in ("ends", "keys"):
            values = np.asarray(_on_host(segments.values))
            segments, keys = self._changes(values, keys, segments.spelling == "ends")
        return on.spread(on.heads(segments, shape, self.axis, like), shape, self.axis), keys

    def _changes(self, keys: np.ndarray, last: Any, ends: bool) -> tuple[Segments, Any]:
        """Flags where keys change, or follow `ends`, seen from the last ones of the chunk before; and the last of this one."""
        along = np.moveaxis(keys, self.axis if keys.ndim > 1 else 0, 0)
        changed = np.ones(keys.shape, bool)
        there = np.moveaxis(changed, self.axis if keys.ndim > 1 else 0, 0)
        there[1:] = along[:-1] != (0 if ends else along[1:])
        if len(along):
            if last is not None:
                there[:1] = last != (0 if ends else along[:1])
            last = along[-1:].copy()
        return flags(changed), last

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


def _is_host(part: Any) -> bool:
    return isinstance(part, (np.ndarray, np.generic))


def _on_host(part: Any) -> np.ndarray:
    if _is_host(part) or not engines.on_gpu(part):
        return np.asarray(part)
    return part.get() if hasattr(part, "get") else np.asarray(part.cpu() if hasattr(part, "cpu") else part)


def _bare(parts: Any) -> Any:
    """One component goes without its tuple."""
    return parts if not isinstance(parts, (list, tuple)) else parts[0] if len(parts) == 1 else tuple(parts)


def _names(dtypes: tuple[np.dtype, ...]) -> str:
    return ", ".join(map(str, dtypes))
