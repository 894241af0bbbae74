"""Chunks of any size on their way through a scan, with the bits of one call over everything.

A chunk that does not start at an aligned place is cut into aligned parts. A part is an ordinary scan that starts from
the prefix at its first item; only its last item belongs to a larger block, and comes from the carry: the binary counter
of block sums in `upsweep.tree`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from upsweep import engine as engines
from upsweep import recall
from upsweep.alike_chunks import Again, again_behind, again_in_order
from upsweep.api import last_prefix
from upsweep.arguments import OutputError, ShapeError, axis_of, result_dtypes, shape_of
from upsweep.components import bare, tupled
from upsweep.dtypes import carried
from upsweep.engine import DTypeError
from upsweep.engine_protocol import Behind, Counting
from upsweep.execution import check_places, starts_of
from upsweep.operator import Operator
from upsweep.planning import plan_of, stored_in
from upsweep.tree import Carry, blocks

FEW, FEW_ROWS = 1 << 18, 64
"""Chunks of at most so many items, in so many rows, go item by item where an engine has code for that."""


def parts_of(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Cut `[start, stop)` into parts that each lie within the aligned power-of-two block that they start.

    >>> list(parts_of(3, 21))
    [(3, 4), (4, 8), (8, 16), (16, 21)]
    >>> list(parts_of(0, 21))
    [(0, 21)]
    """
    while start < stop:
        room = start & -start or stop
        yield start, min(start + room, stop)
        start += room


@dataclass
class Standing:
    """The state of a scan of chunks: the scan that it is, and the sums of all items so far."""

    op: Operator
    axis: int | None
    exclusive: bool
    initial: Any
    dtype: tuple[np.dtype, ...] | None
    order: str
    carry: Carry
    folds: list[Any] = field(default_factory=list)
    """The prefix at the end of each of the carry's blocks."""
    kind: tuple[Any, ...] | None = None
    """The axis, the shape of the rows and the dtypes of the chunks so far."""
    like: Any = None
    """The likeness of the last chunk."""
    again: Again | None = None
    """Scans one more chunk of this likeness; gives None if it did not."""

    def kind_of(self, axis: int, shape: tuple[int, ...], dtypes: tuple[np.dtype, ...]) -> tuple[Any, ...]:
        """The kind of a chunk that goes on where the chunks before it stopped; an error where it cannot."""
        kind = (axis, (*shape[:axis], *shape[axis + 1 :]), dtypes)
        known = self.kind
        if known is not None and known[:2] != kind[:2]:
            raise ShapeError(
                f"this chunk has rows of shape {kind[1]} along axis {kind[0]}, the chunks before it had {known[1]} along axis "
                f"{known[0]}"
            )
        if known is not None and known != kind:
            raise DTypeError(
                f"this chunk is of {_names(dtypes)}, the chunks before it were of {_names(known[2])}"
            )
        return kind

    def push(self, chunk: Any, out: Any = None, keep: tuple[int, ...] | None = None) -> Any:
        """Scan the next chunk. `keep` names the components that are wanted; None for all. A third chunk of the same likeness is
        not checked any more."""
        like = (recall.seen(chunk), keep) if out is None else None
        same = like is not None and like == self.like
        if same and self.again is not None:
            y = self.again(self, chunk)
            if y is not None:
                return y
        run = Run(self, chunk, out, keep=keep)
        y = run.through() if self.order == "tree" else run.in_order()
        self.like, self.again = like, run.again() if same and recall.hashes(like) else None
        return y

    def push_summed(
        self, chunk: Any, sums: Iterable[tuple[Any, ...]], keep: tuple[int, ...] | None = None
    ) -> Any:
        """Scan the next chunk, of which the sums of its aligned blocks are known already: one pass less."""
        return Run(self, chunk, known=iter(sums), keep=keep).through()


class Run:
    """One chunk on its way through: its views, its outputs, and how block sums are joined where they lie."""

    def __init__(
        self,
        at: Standing,
        chunk: Any,
        out: Any = None,
        known: Iterator[tuple[Any, ...]] | None = None,
        keep: tuple[int, ...] | None = None,
    ) -> None:
        given = tupled(chunk)
        self.keep = keep
        self.at, self.given, self.first, self.known = at, given, at.carry.count, known
        self.behind: Behind | None = None
        self.name = engines.choose(given)
        self.on = engines.load(self.name)
        self.views = [self.on.view(x) for x in given]
        self.shape = shape_of([v.shape for v in self.views])
        self.axis = axis_of(at.axis, self.shape)
        self.n = self.shape[self.axis]
        computed = self._check()
        self.sums = tuple(carried(d) for d in computed)
        if out is None:
            self.out = None
            wanted = range(len(given)) if keep is None else keep
            self.ys = [self.on.empty(given[c], self.shape, computed[c]) for c in wanted]
        else:
            self.out = out
            self.ys = [self.on.view(y) for y in tupled(out)]
            if any(y.shape != self.shape for y in self.ys):
                raise OutputError(f"out has shape {self.ys[0].shape}, the chunk has shape {self.shape}")
            self.views = [self.on.apart(x, self.ys) for x in self.views]

    def _check(self) -> tuple[np.dtype, ...]:
        dtypes = tuple(v.dtype for v in self.views)
        computed = result_dtypes(dtypes, self.at.dtype)
        self.kind = self.at.kind_of(self.axis, self.shape, dtypes)
        return computed

    def through(self) -> Any:
        counting = engines.counting(self.name)
        if counting is not None and self.known is None and self._few():
            self._count(counting)
        else:
            if self.first and not self.at.folds:
                self._unfold(self.at.carry)
            for start, stop in parts_of(self.first, self.first + self.n):
                self.part(start - self.first, stop - self.first)
        self.at.kind = self.kind
        return self.result()

    def _few(self) -> bool:
        """Whether a chunk goes in one go, item by item."""
        items = math.prod(self.shape)
        plain = all(v.dtype.kind not in "mM" and not v.dtype.names for v in self.views)
        return plain and 0 < items <= FEW and items <= FEW_ROWS * self.n

    def _count(self, counting: Counting) -> None:
        at, keep, given = self.at, self.keep, tuple([v.dtype for v in self.views])
        plan, dtypes = plan_of(
            at.op, given, tuple([v.shape for v in self.views]), self.axis, at.exclusive, False, at.initial is not None, at.dtype,
            False, 1, False, keep,
        )  # fmt: skip
        if self.out is not None:
            plan = stored_in(plan, dtypes, tuple([(y.shape, y.dtype) for y in self.ys]))
            check_places(self.on, self.ys)
        starts = (
            None if at.initial is None else starts_of(self.on, plan, dtypes, at.initial, self.given[0], None)
        )
        self.behind = counting.Behind(plan, self.views, self.ys, starts, at.carry.count)
        at.carry, at.folds = cast(Carry, self.behind.scan(self.views, self.ys, at.carry)), []

    def in_order(self) -> Any:
        """Scan the chunk from the last prefix of the one before."""
        at = self.at
        before = at.carry.sums[0] if at.carry.sums else at.initial
        # The chunk is summed before anything is written over it.
        last = self._reduce(self.views, before) if self.n else None
        self._scan(self.views, before, 0, self.n)
        if last is not None:
            at.carry = Carry(self.first + self.n, [last])
        at.kind = self.kind
        return self.result()

    def again(self) -> Again | None:
        """The function that scans chunks like this one."""
        results = list(zip(self._kinds(), self.ys))
        if self.behind is not None:
            return again_behind(self.behind, self.on, self.keep, results)
        if self.at.order == "tree" or not self.n:
            return None
        plain = self.keep is None and all(
            type(x) is np.ndarray and x.dtype.kind in "biufc" for x in self.given
        )
        held = plain and not self.at.exclusive and all(y.dtype == d for (_, y), d in zip(results, self.sums))
        return again_in_order(self.name, self.axis, self.n, self.keep, None if held else self.sums)

    def part(self, start: int, stop: int) -> None:
        """Scan one part and take its aligned blocks into the carry."""
        at, carry = self.at, self.at.carry
        before = at.folds[-1] if carry.sums else at.initial
        aligned = list(blocks(self.first + start, self.first + stop))
        # Blocks are summed before anything is written over them.
        sums = [self._sum(first - self.first, size) for first, size in aligned]
        self._scan([self.on.cut(x, self.axis, start, stop) for x in self.views], before, start, stop)
        for (_, size), block in zip(aligned, sums):
            self._push(size, block)
        if not at.exclusive:
            last = at.carry.sums[-1]
            before = at.folds[-2] if len(at.folds) > 1 else at.initial
            self._scan([self._item(part) for part in last], before, stop - 1, stop)

    def result(self) -> Any:
        if self.out is not None:
            return self.out
        return bare([self.on.give(x, y) for x, y in zip(self._kinds(), self.ys)])

    def _kinds(self) -> Sequence[Any]:
        """An array like each result."""
        return self.given if self.keep is None else [self.given[c] for c in self.keep]

    def _scan(self, xs: list[Any], initial: Any, start: int, stop: int) -> None:
        out = bare([self.on.cut(y, self.axis, start, stop) for y in self.ys])
        recall.run(
            bare(xs), self.at.op, self.axis, self.at.exclusive, False, bare(initial), self.at.dtype, out,
            None, self.name, None, False, self.keep, self.at.order,
        )  # fmt: skip

    def _sum(self, start: int, size: int) -> tuple[Any, ...]:
        if self.known is not None:
            return next(self.known)
        return self._reduce([self.on.cut(x, self.axis, start, start + size) for x in self.views], None)

    def _join(self, left: Any, right: tuple[Any, ...]) -> tuple[Any, ...]:
        """`left ⊕ right` by the engine itself, which rounds as a scan does."""
        return right if left is None else self._reduce([self._item(part) for part in right], left)

    def _reduce(self, xs: list[Any], initial: Any) -> tuple[Any, ...]:
        got = last_prefix(
            bare(xs), self.at.op, axis=self.axis, initial=bare(initial), dtype=self.sums, engine=self.name,
            order=self.at.order,
        )  # fmt: skip
        return tupled(got)

    def _item(self, part: Any) -> Any:
        """A sum as one item along the axis, where the chunk lies."""
        shape = (*self.shape[: self.axis], 1, *self.shape[self.axis + 1 :])
        part = part.reshape(shape)
        # In a stream with segments, flags stand before the arrays that were pushed, and starts behind them: the engine's views.
        like = self.given[min(1, len(self.given) - 1)]
        if not is_host(part) or not engines.on_gpu(like):
            return part
        # Sums that were handed over lie in host memory.
        return self.on.broadcast(part, shape, part.dtype, like)

    def _push(self, size: int, block: tuple[Any, ...]) -> None:
        at = self.at
        at.carry = at.carry.push(self._join, size, block)
        sums = at.carry.sums
        folds = at.folds[: len(sums) - 1]
        at.folds = [*folds, self._join(folds[-1] if folds else at.initial, sums[-1])]

    def _unfold(self, carry: Carry) -> None:
        """A carry that was handed over knows its sums only."""
        folds: list[Any] = []
        for block in carry.sums:
            folds.append(self._join(folds[-1] if folds else self.at.initial, block))
        self.at.folds = folds


def is_host(part: Any) -> bool:
    return isinstance(part, (np.ndarray, np.generic))


def _names(dtypes: tuple[np.dtype, ...]) -> str:
    return ", ".join(map(str, dtypes))
