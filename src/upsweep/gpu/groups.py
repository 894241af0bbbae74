"""Scans of groups whose items lie in any order: each group becomes a row of as many items as a power of two, and the rows of one
length are scanned as one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from upsweep import dtypes, engine
from upsweep.gpu import driver, steps
from upsweep.gpu.arrays import scratch, view
from upsweep.gpu.functions import memory_type
from upsweep.gpu.one_pass import INT64, RAW, items_of, kernel, start, stream_of
from upsweep.gpu.selecting import where
from upsweep.gpu.sorting import argsort
from upsweep.gpu.values import downloaded, uploaded
from upsweep.gpu.view import View, c_strides
from upsweep.plan import Plan
from upsweep.segments import SegmentError

THREADS, LENGTHS = 256, 64
"""Threads of a block, and how many lengths of rows there may be."""


def run_groups(
    plan: Plan,
    xs: Sequence[View],
    ys: Sequence[View | None],
    initial: Sequence[View] | None,
    keys: tuple[Any, ...],
) -> None:
    """Run a plan for each group by itself: see `upsweep.engine.Grouping.run_groups`."""
    there = [x for x in xs if not x.on_host]
    like = _known(next((x for x in there if x.strides[plan.axis]), there[0]))
    columns = _columns(keys, plan.n, like)
    if 0 in plan.shape:
        return
    rows = _rows(columns, plan.n, plan.reverse, like)
    room = _Room(plan, rows, like)
    inputs = [None if x.strides[plan.axis] == 0 else room.gathered(x) for x in xs]
    if plan.placed or (plan.finish is not None and plan.finish.arity > 1 + len(xs)):
        # The index is one more input: items lie elsewhere among the rows.
        xs, plan = [*xs, rows.sources], replace(plan, loads=(*plan.loads, INT64))
        inputs.append(room.indices())
    outputs = [y and room.empty(y.dtype) for y in ys]
    for length in rows.lengths:
        part = _of_rows(plan, length.count, 1 << length.bits)
        steps.run(
            part,
            [room.rows(made, length) if made else _same(x, plan, part.shape) for x, made in zip(xs, inputs)],
            [made and room.rows(made, length) for made in outputs],
            initial and [_for_each(s, length.count) for s in initial],
            None,
        )
    for y, made in zip(ys, outputs):
        if y and made:
            room.scattered(made, y)


def ends_of(keys: tuple[Any, ...], n: int, first: bool, like: Any) -> np.ndarray:
    """See `upsweep.engine.Picks.ends_of`."""
    columns = _columns(keys, n, _known(view(like)))
    if not n:
        return np.empty(0, np.int64)
    order, starts = _grouped(columns, n)
    begins = downloaded(starts)
    places = np.stack([begins, np.append(begins[1:], n) - 1])
    ends = _new(order, places.size)
    carry(order, 0, uploaded(places.ravel(), order), ends, 0)
    firsts, lasts = downloaded(ends).reshape(places.shape)
    return (firsts if first else lasts)[firsts.argsort()]


class _Length(NamedTuple):
    """The rows of one length."""

    bits: int
    """The logarithm of their length."""
    count: int
    first: int
    """The place where the first of them begins."""


class _Rows(NamedTuple):
    """The items of all groups, as rows."""

    lengths: list[_Length]
    sources: View
    """The index of the item that lies in each place, or -1."""
    places: View
    """The place of each item."""


def _columns(keys: tuple[Any, ...], n: int, like: View) -> list[View]:
    """Keys in the device's memory. Those of this machine's become the numbers of their groups."""
    columns = [_known(items_of(k)) for k in keys if engine.on_gpu(k)]
    for key in columns:
        known = dtypes.row(key.dtype)
        if key.shape != (n,):
            raise SegmentError(f"keys of groups have shape {key.shape}; pass {n} of them, 1-D along the axis")
        if known is None or not known.order:
            raise SegmentError(f"keys of groups on a GPU must be numbers, got {key.dtype}")
    there = tuple(k for k in keys if not engine.on_gpu(k))
    if there:
        host = engine.grouping(engine.choose(()))
        columns.append(uploaded(host.codes_of(there, n)[0], like))
    return columns


def _known(x: View) -> View:
    """The view, if its library gives memory for what is sorted."""
    if x.kind is None or x.kind.likeness is None:
        raise SegmentError(
            "on a GPU groups are scanned of CuPy's and PyTorch's arrays, by such keys: pass cupy.from_dlpack(x) or "
            "torch.from_dlpack(x)"
        )
    return x


@lru_cache(1024)
def _of_rows(plan: Plan, count: int, items: int) -> Plan:
    """The plan for so many rows of so many items. A launch is known by its plan."""
    shape = (*plan.row_shape, count, items)
    return replace(plan, shape=shape, axis=len(shape) - 1, reverse=False)


def _rows(columns: Sequence[View], n: int, reverse: bool, like: View) -> _Rows:
    """Where the items of groups come to lie: those of a group one behind the other, and groups of about one size as rows."""
    order, starts = _grouped(columns, n)
    (groups,) = starts.shape
    among, counts = _new(like, groups), _new(like, LENGTHS)
    _fill(counts, 0)
    _run("group_rows", like, groups, [starts.ptr, groups, n, among.ptr, counts.ptr], LENGTHS=LENGTHS)
    lengths, begins, total = [], [], 0
    for bits, count in enumerate(downloaded(counts).tolist()):
        begins.append(total)
        if count:
            lengths.append(_Length(bits, count, total))
            total += count << bits
    sources, places = _new(like, total), _new(like, n)
    _fill(sources, 0xFF)
    numbers = [order.ptr, starts.ptr, among.ptr, groups, n, reverse, sources.ptr, places.ptr, *begins]
    _run("group_places", like, n, numbers, LENGTHS=LENGTHS)
    return _Rows(lengths, sources, places)


def _grouped(columns: Sequence[View], n: int) -> tuple[View, View]:
    """The items in the order of their keys, and where each group starts among them."""
    order = _sorted(columns, n)
    heads = _new(order, n, np.dtype(np.bool_))
    for key in columns:
        numbers = [key.ptr, order.ptr, heads.ptr, n, key is not columns[0]]
        _run("group_heads", order, n, numbers, KEY=memory_type(key.dtype))
    return order, view(where(heads))


def _sorted(columns: Sequence[View], n: int) -> View:
    """The order that sorts all keys, the first one first, and leaves items of equal keys in their order."""
    *rest, last = columns
    order = view(argsort(last, False))
    for key in reversed(rest):
        ordered = _new(key, n, key.dtype)
        carry(key, 0, order, ordered, 0)
        step, further = view(argsort(ordered, False)), _new(key, n)
        carry(order, 0, step, further, 0)
        order = further
    return order


class _Room:
    """Memory for the rows of groups. Where neighbours in memory are of neighbouring rows of the plan, they are so here."""

    def __init__(self, plan: Plan, rows: _Rows, like: View) -> None:
        self.axis, self.row_shape, self.known, self.like = plan.axis, plan.row_shape, rows, like
        (self.total,) = rows.sources.shape
        steps = [
            abs(s) for d, (n, s) in enumerate(zip(like.shape, like.strides)) if d != plan.axis and n > 1 and s
        ]
        self.across = min(steps, default=1 << 62) < abs(like.strides[plan.axis])

    def empty(self, dtype: np.dtype) -> View:
        """Room for the items of an array, with the axis last."""
        size, shape = dtype.itemsize, (*self.row_shape, self.total)
        memory = scratch(self.like, prod(shape) * size)
        if not self.across:
            return memory.over_all(shape, dtype)
        strides = (*c_strides(self.row_shape, size), prod(self.row_shape) * size)
        return memory.over(memory.ptr, shape, strides, dtype)

    def gathered(self, x: View) -> View:
        """The items of an array, each in its place."""
        made = self.empty(x.dtype)
        carry(x, self.axis, self.known.sources, made, -1, self.across)
        return made

    def scattered(self, made: View, y: View) -> None:
        """Write the items of such rows back to where they belong."""
        carry(made, -1, self.known.places, y, self.axis, self.across)

    def indices(self) -> View:
        """The index of the item in each place, the same for all rows of the plan."""
        sources = self.known.sources
        strides = (*(0 for _ in self.row_shape), INT64.itemsize)
        return sources.over(sources.ptr, (*self.row_shape, self.total), strides, INT64)

    def rows(self, made: View, length: _Length) -> View:
        """The rows of one length."""
        *strides, step = made.strides
        shape = (*self.row_shape, length.count, 1 << length.bits)
        return made.over(
            made.ptr + length.first * step, shape, (*strides, step << length.bits, step), made.dtype
        )


def _same(x: View, plan: Plan, shape: tuple[int, ...]) -> View:
    """An input that is the same for all items of a row, which may be a number."""
    strides = (*(s for d, s in enumerate(x.strides) if d != plan.axis), 0, 0)
    return View(x.ptr, shape, strides, x.dtype, x.device, x.kind, x.owner, x.readonly, x.memory, x.value)


def _for_each(start: View, count: int) -> View:
    """What a row starts from, for each of its groups; a number is one for all."""
    return (
        start.over(start.ptr, (*start.shape, count), (*start.strides, 0), start.dtype)
        if start.shape
        else start
    )


def carry(x: View, x_axis: int, index: View, y: View, y_axis: int, across: bool = False) -> None:
    """`y[i] = x[index[i]]` along an axis of either; items of a negative index are left as they are. `across`: the rows are
    neighbours in memory."""
    (n,), size = index.shape, x.dtype.itemsize
    (x_step, x_rows, shape), (y_step, y_rows, _) = _lain(x, x_axis), _lain(y, y_axis)
    # The largest power of two at whose multiples all items lie.
    word = gcd(size, 8, x.ptr, y.ptr, x_step, y_step, *x_rows, *y_rows)
    numbers = [x.ptr, index.ptr, y.ptr, n, prod(shape), across, x_step, y_step, *shape, *x_rows, *y_rows]
    _run("carry", y, n * prod(shape), numbers, WORD=RAW[word], WORDS=size // word, DIMS=len(shape))


def _lain(x: View, axis: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """The step along an axis, and those and the lengths of all others; one of one item where there is none."""
    strides, shape = list(x.strides), list(x.shape)
    step = strides.pop(axis)
    del shape[axis]
    return step, tuple(strides) or (0,), tuple(shape) or (1,)


def _new(like: View, n: int, dtype: np.dtype = INT64) -> View:
    return scratch(like, n * dtype.itemsize).over_all((n,), dtype)


def _fill(x: View, byte: int) -> None:
    with driver.on_device(x.device):
        driver.fill_bytes(x.ptr, byte, prod(x.shape) * x.dtype.itemsize, stream_of(x))


def _run(name: str, like: View, threads: int, numbers: list[int], **known: Any) -> None:
    if threads:
        ready = kernel(name, f"upsweep_{name}", known | {"THREADS": THREADS}, like.device)
        start(ready, like, (-(-threads // THREADS), THREADS), numbers)
