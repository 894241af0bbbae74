"""Scanning what does not fit at once: the stream that a user feeds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from upsweep import engine as engines
from upsweep.api import Op, scan
from upsweep.arguments import (
    axis_of,
    dtypes_of,
    fields_of,
    result_dtypes,
    starts_of_fields,
    written_fields,
)
from upsweep.chunks import Standing
from upsweep.components import tupled
from upsweep.dtypes import accumulator
from upsweep.function import as_function
from upsweep.homes import compiling, uncompiled
from upsweep.operator import Operator
from upsweep.operators import BUILTIN, as_operator
from upsweep.segmented_chunks import Lifted, on_host
from upsweep.segments import Segments, checked, flags
from upsweep.tree import Carry


@dataclass
class State(Carry):
    """The state after everything pushed so far: the carry and, of a stream with segments by keys, the last keys."""

    keys: Any = None
    chunks: tuple[Any, ...] | None = None
    """The axis, the shape of the rows and the dtypes of the chunks."""
    stream: tuple[str, ...] = ()
    """The arguments of the stream that a stream which goes on from its state must be given too."""


class Stream:
    """A scan that is fed chunk by chunk: `push` returns the part of the result that belongs to the chunk.

    The results of all chunks, joined, are those of one `upsweep.scan` over the joined chunks, bit for bit, wherever the
    cuts are. No result is held back, and of earlier chunks only the carry is kept: at most 64 sums a row.

    Args:
        op: as in `upsweep.scan`.
        axis: the axis that the chunks continue; it may be left out for 1-D chunks only.
        exclusive, initial, dtype, order: as in `upsweep.scan`. In order "sequential" the state is the last prefix alone.
        map, finish: as in `upsweep.scan`, in steps of their own; an index counts the items of all chunks.
        state: the `state` of an earlier stream of the same kind, to go on where that stream stood. The state holds the shape and
            the dtypes of the chunks, the `order`, the name of a built-in operator, and whether there was an `initial`; a stream
            of another kind refuses it.

    Raises:
        ShapeError, DTypeError, OperatorError: as in `upsweep.scan`, and where a chunk does not continue the one before.
        ValueError: the state of a stream of another kind.
        RuntimeError: another thread is pushing a chunk.

    >>> import upsweep as up
    >>> stream = up.Stream("add")
    >>> stream.push([3, 1, 7]).tolist(), stream.push([0, 4, 1, 6]).tolist()
    ([3, 4, 11], [11, 15, 16, 22])
    >>> up.Stream("add", state=stream.state).push([3]).tolist()
    [25]
    """

    last: int | None = None
    """The index of the last item, of a scan that is fed from its end: indices count down from there."""

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
        state = deepcopy(state)
        carry = Carry() if state is None else Carry(state.count, list(state.sums))
        self._at = Standing(as_operator(op), axis, exclusive, _own(initial), dtypes_of(dtype), order, carry)
        if isinstance(state, State):
            self._at.kind = state.chunks
            _check_alike(state.stream, self._told())
        self._map, self._finish = map, finish
        self._keys = getattr(state, "keys", None)
        self._lifted: Lifted | None = None
        self._turn = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """The attributes that a copy or a pickle needs to go on by itself; the operator of its segments is made anew."""
        state = self.state
        at = replace(self._at, carry=Carry(state.count, list(state.sums)), folds=[], like=None, again=None)
        return {**self.__dict__, "_at": at, "_keys": state.keys, "_lifted": None, "_turn": None}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept, _turn=threading.Lock())

    @property
    def state(self) -> State:
        """The state after everything pushed so far. It can be pickled: its block sums lie in host memory, and are shared with no
        stream.
        """
        self._take_turn()
        try:
            carry = self._carry
            sums = [tuple(on_host(part) for part in block) for block in carry.sums]
            keys = self._lifted.keys if self._lifted else self._keys
            return deepcopy(State(carry.count, sums, keys, self._at.kind, self._told()))
        finally:
            self._turn.release()

    def _told(self) -> tuple[str, ...]:
        """The arguments that a state of this stream depends on, in words."""
        at = self._at
        start = "no initial=" if at.initial is None else "an initial="
        return (
            f"order={at.order!r}",
            start,
            *([f"op={at.op}"] if at.op is BUILTIN.get(at.op.name or "") else []),
        )

    def _take_turn(self) -> None:
        """Hold the stream for one thread, while a chunk is pushed or the state is read: another thread would go on from half a
        chunk.
        """
        if not self._turn.acquire(blocking=False):
            raise RuntimeError(
                "another thread is pushing a chunk to this stream, and chunks follow one another: give each thread a stream "
                "of its own, or let them take turns by a threading.Lock"
            )

    @property
    def _carry(self) -> Carry:
        return self._lifted.at.carry if self._lifted else self._at.carry

    def push(self, chunk: Any, *, segments: Segments | None = None, out: Any = None) -> Any:
        """Scan the next chunk: an array (a tuple of arrays for a tuple of arrays), of any length.

        Args:
            chunk: the items that follow the chunk before.
            segments: where segments start within this chunk, see `upsweep.segments`. With flags or ends, the chunk goes on with
                the segment before unless a flag is set at its first item, or that segment has ended. With keys, it goes on where
                the last key of the chunk before is the same. With offsets or lengths, a segment starts with the chunk.
            out: where to put the result; it may be the chunk itself.

        Returns:
            An array of the chunk's shape, kind and device, or `out`; with `map` or `finish` as of `upsweep.scan`.
        """
        if compiling():
            return uncompiled(self.push, chunk, segments=segments, out=out)
        self._take_turn()
        lifted = self._lifted
        parts = (self, self._at, *((lifted, lifted.at) if lifted else ()))
        stood = [(vars(part), vars(part).copy()) for part in parts]
        try:
            # A dtype of another library may have any attributes.
            if isinstance(getattr(chunk, "dtype", None), np.dtype) and chunk.dtype.names:
                return self._push_records(chunk, segments, out)
            return self._push_arrays(chunk, segments, out)
        except BaseException:
            # After an error the stream stands where it stood.
            for now, before in stood:
                now.update(before)
            raise
        finally:
            self._turn.release()

    def _push_arrays(self, chunk: Any, segments: Segments | None, out: Any) -> Any:
        operands = chunk if self._map is None else self._mapped(chunk)
        if self._finish is None:
            return self._push(operands, segments, out)
        return self._finished(operands, chunk, segments, out)

    def _push_records(self, chunk: Any, segments: Segments | None, out: Any) -> Any:
        """The results of a structured array: those of its fields, as a structured array."""
        on, names = engines.load(engines.choose((chunk,))), chunk.dtype.names
        fields = fields_of(on.view(chunk), names)
        self._at.initial = starts_of_fields(self._at.initial, names)
        if self._map is not None or self._finish is not None:
            return self._push_arrays(fields, segments, out)
        if out is not None:
            self._push(fields, segments, written_fields(on.view(out), names))
            return out
        dtypes = result_dtypes([field.dtype for field in fields], self._at.dtype)
        y = on.empty(chunk, chunk.shape, np.dtype(list(zip(names, dtypes))))
        self._push(fields, segments, fields_of(y, names))
        return on.give(chunk, y)

    def _mapped(self, chunk: Any) -> Any:
        """The arrays of a chunk that are scanned."""
        given = tupled(chunk)
        fn = as_function(self._map).taking([len(given), 1 + len(given)])
        if fn.arity > len(given):
            shape = np.broadcast_shapes(*[np.shape(x) for x in given])
            given = (*given, self._index(self._carry.count, shape, given[0]))
        return _each(fn.fn, given, None)

    def _index(self, first: int, shape: tuple[int, ...], like: Any) -> Any:
        """The index of each item of a chunk that starts with the item `first`."""
        axis = axis_of(self._at.axis, shape)
        places = np.arange(first, first + shape[axis])
        places = places if self.last is None else self.last - places
        places = places.reshape([-1 if d == axis else 1 for d in range(len(shape))])
        return engines.load(engines.choose((like,))).broadcast(places, shape, places.dtype, like)

    def _finished(self, operands: Any, chunk: Any, segments: Segments | None, out: Any) -> Any:
        """The results that a finish makes of a chunk's prefixes, which it sees in the dtype that they are computed in."""
        assert self._finish is not None
        parts = tupled(operands)
        on = engines.load(engines.choose(parts))
        views = [on.view(x) for x in parts]
        computed = result_dtypes([v.dtype for v in views], self._at.dtype)
        self._at.dtype = tuple([d if d.kind in "mM" else accumulator(d) for d in computed])
        first = self._carry.count
        prefixes = self._push(operands, segments, None)
        given = tupled(chunk)
        finish = as_function(self._finish).taking([1, 1 + len(given), 2 + len(given)])
        count, index = len(parts), self._index(first, views[0].shape, parts[0])
        together = prefixes if count > 1 else (prefixes,)
        inputs = (*together, *given, index)[: count + finish.arity - 1]
        return _each(finish.fn if count == 1 else _on_tuple(finish.fn, count), inputs, out)

    def _push(self, chunk: Any, segments: Segments | None, out: Any) -> Any:
        parts = len(chunk) if isinstance(chunk, tuple) else 1
        if self._lifted is None:
            if checked(segments) is None and self._at.carry.parts <= parts:
                return self._at.push(chunk, out)
            self._lifted = Lifted(self._at, self._keys, chunk)
        return self._lifted.push(chunk, checked(segments), out)


def _check_alike(before: tuple[str, ...], now: tuple[str, ...]) -> None:
    """A ValueError where a state is that of a stream of another kind; of a user's operator nothing is known here."""
    for had, has in zip(before, now):
        if had != has:
            raise ValueError(f"this state is of a stream with {had}, and this stream has {has}")


def _own(initial: Any) -> Any:
    """A copy of the values that a stream starts from: later chunks start from them too, whatever becomes of the array."""
    if isinstance(initial, tuple):
        return tuple(map(_own, initial))
    copied = getattr(initial, "clone", None) or getattr(initial, "copy", None)
    return initial if copied is None else copied()


def _each(fn: Callable[..., Any], xs: Any, out: Any) -> Any:
    """A function of every item: the scan of segments of one item each."""
    given = tupled(xs)
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
