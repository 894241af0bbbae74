"""Arrays that no kernel reads or writes well are brought into another order of their dimensions, and results to their places.

So a scan of them takes two or three launches, each near the speed of memory, instead of one that moves single items.
docs/dev/gpu-notes.md has what it gains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from upsweep.gpu import driver, launch, params, shapes
from upsweep.gpu.columns import Columns
from upsweep.gpu.layout import Layout, Strided, arrange, turned
from upsweep.gpu.shapes import bringing
from upsweep.gpu.sharing import is_skewed
from upsweep.gpu.step import Step
from upsweep.gpu.view import View, c_strides
from upsweep.operators import as_operator
from upsweep.plan import Plan


class Moves(NamedTuple):
    """What a scan is brought from and to: an order of its dimensions, slowest first, and the arrays that do not lie in it."""

    order: tuple[int, ...]
    xs: tuple[int, ...]
    ys: tuple[int, ...]


def around(step: Step, room: Callable[[int], View]) -> list[Step]:
    """The step between copies into its order and from there, part by part; or the step alone, where every array lies well."""
    moves = _moves(step)
    if moves is None:
        return [step]
    made: list[Step] = []
    rooms: dict[int, View] = {}

    def place(k: int, nbytes: int) -> View:
        # A result takes the place of an input of its size, and each part that of the part before.
        if k not in rooms:
            rooms[k] = room(nbytes)
        return rooms[k]

    for part in _parts(step, moves):
        xs, ys = list(part.xs), list(part.ys)
        for k in moves.xs:
            x = xs[k]
            xs[k] = _dense(x, place(k, _nbytes(x)), moves.order)
            made.append(copied(x, xs[k]))
        after = []
        free = [] if step.plan.reduce or step.plan.ahead is not None else list(moves.xs)
        for o in moves.ys:
            y = ys[o]
            assert y is not None
            k = next((k for k in free if part.xs[k].dtype.itemsize == y.dtype.itemsize), None)
            if k is not None:
                free.remove(k)
            at = place(len(xs) + o if k is None else k, _nbytes(y))
            ys[o] = copy = _dense(y, at, _of_rows(step.plan, moves.order))
            after.append(copied(copy, y))
        made += [part._replace(xs=xs, ys=ys), *after]
    return made


def _moves(step: Step) -> Moves | None:
    """What must be brought, or None where all lies well, or where nothing comes of it."""
    plan = step.plan
    arrays = [x for x in (*step.xs, *step.ys) if x is not None and not x.on_host]
    if plan.n < 2 or 0 in plan.shape or max(map(_nbytes, arrays)) < bringing.LEAST or _touch(plan, arrays):
        return None
    places = tuple(x.place for x in step.xs)
    results = tuple(y.place for y in step.ys if y is not None)
    starts = tuple(v.place for v in step.initial or ())
    heads = step.heads and step.heads.place
    return _moves_of(plan, places, results, starts, heads, driver.architecture(arrays[0].device))


def _touch(plan: Plan, arrays: Sequence[View]) -> bool:
    """Whether all arrays lie densely in the order of their dimensions, or all along the axis: nearly all do."""
    along = all(len(x.shape) == len(plan.shape) and x.strides[plan.axis] == x.dtype.itemsize for x in arrays)
    return along or all(map(_is_dense, arrays))


def _is_dense(x: View) -> bool:
    return x.strides == c_strides(x.shape, x.dtype.itemsize)


@lru_cache(4096)
def _moves_of(
    plan: Plan,
    places: tuple[Strided, ...],
    results: tuple[Strided, ...],
    starts: tuple[Strided, ...],
    heads: Strided | None,
    arch: int,
) -> Moves | None:
    chip = shapes.chip(arch)

    def moved(loads: Sequence[Strided], stores: Sequence[Strided]) -> tuple[int | None, bool]:
        layout = arrange(plan, loads, stores, starts, heads)
        made, choice = launch.choose(plan, layout, chip)
        return _line(layout, choice), _piecemeal(plan, made, choice)

    lines, piecemeal = moved(places, results)
    if lines is None and not piecemeal:
        return None
    full = [p for p in places if p[1] >= 0 and _is_full(plan.shape, p[0])]
    if not full or not results:
        return None
    order = _order(plan, full[0], results[0], heads)
    sizes = [d.itemsize for d in plan.loads]
    dense = [(_strides(plan.shape, order, size), 0) for size in sizes]
    of_rows = _of_rows(plan, order)
    shape = plan.row_shape if plan.reduce else plan.shape
    stores = [d.itemsize for d in plan.stores if d is not None]
    apart = [(_strides(shape, of_rows, size), 0) for size in stores]
    xs = [k for k, p in enumerate(places) if p in full and not _same(plan.shape, p[0], dense[k][0])]
    ys = [k for k, p in enumerate(results) if not _same(shape, p[0], apart[k][0])]
    wider, still = moved(
        [dense[k] if k in xs else p for k, p in enumerate(places)],
        [apart[k] if k in ys else p for k, p in enumerate(results)],
    )
    slow = still or wider is not None if lines is None else wider is not None and wider <= lines
    enough = lines is not None and lines >= bringing.AMONG
    if slow or (enough and any(_among(plan.shape, places[k][0], order) for k in xs)):
        return None
    written = [o for o, d in enumerate(plan.stores) if d is not None]
    return Moves(order, tuple(xs), tuple(written[k] for k in ys)) if xs or ys else None


def _order(plan: Plan, x: Strided, y: Strided, heads: Strided | None) -> tuple[int, ...]:
    """The dimensions, slowest first, as they lie in the result, or in the input where rows are reduced or scanned along it."""
    by = (x if plan.reduce or _along(plan, x, y, heads) else y)[0]
    return tuple(sorted(range(len(plan.shape)), key=lambda d: -abs(by[d])))


def _piecemeal(plan: Plan, made: Plan, choice: launch.Choice) -> bool:
    """Whether a kernel moves an array in small pieces, although enough of its bytes are neighbours. `made` is the plan that the
    kernel runs."""
    return _by_bytes(made, choice) or _skewed_by_items(choice) or _in_cut_squares(plan, choice)


def _by_bytes(made: Plan, choice: launch.Choice) -> bool:
    """Whether columns of bytes go byte by byte, within segments or as every second byte, so that they gain by a copy without gaps
    where they are words. Of a copy (H200), every second byte of 125497 columns .135 within segments, 12 of 13 bytes .21; every
    second byte of 125497 columns .21 -> .475, of 101 .14 -> .45."""
    single = choice.kernel == "columns" and max(d.itemsize for d in made.loads) == 1 and not made.reduce
    return single and (made.segmented or any(x.size > 1 for x in choice.layout.loads))


def _skewed_by_items(choice: launch.Choice) -> bool:
    """Whether narrow items that touch along the axis, but begin within words, are bytes, or results beside inputs whose lines
    come item by item. Of a copy (H200), brought -> turned in their tile: truths of 3611 x 20342 transposed along axis 0 .398 ->
    .342, bytes of 9001 x 15003 .397 -> .311, of 44657 x 538 along axis 1 .318 -> .091, of 20000 x 5001 .406 -> .277, bf16 by keys
    of 8191 x 12289 .332 -> .251; but of 8192 x 12289 .364 -> .524, and bytes of 8192 x 8192 backwards .380 -> .523 along axis 0,
    .399 -> .520 along axis 1."""
    if not isinstance(choice, Columns):
        return False
    layout, shape = choice.layout, choice.shape
    skewed = [x for x in layout.arrays() if is_skewed(layout, shape, x)]
    if not skewed:
        return False
    steps = [p for x in layout.arrays() for p in (x.rows if turned(x) else (x.along, *x.rows[:-1]))]
    lines = [x.grain_of_lines(choice.width, choice.columns) for x in layout.moving() if not turned(x)]
    within = min(x.size for x in skewed) == 1 and any(step % bringing.SECTOR for step in steps)
    return within or min(lines, default=4) < 4


def _in_cut_squares(plan: Plan, choice: launch.Choice) -> bool:
    """Whether columns are a rectangle whose lines come item by item, or go in such pieces, or leave so many lanes idle, that
    copies of large arrays are faster."""
    if not (isinstance(choice, Columns) and choice.shape.cross) or choice.shape.stretch:
        return False
    moving, stores = choice.layout.moving(), choice.layout.stores
    size = min(x.size for x in (*moving, *stores))
    read, written = (min(map(choice.grain_of_square, arrays)) for arrays in (moving, stores))
    large = size * prod(plan.shape) >= bringing.SQUARE_LEAST
    if size == 2:
        return read == 2 or (written < bringing.SQUARE and large)
    lanes = choice.rows * choice.column_groups * choice.width
    few = lanes > bringing.IDLE.get(size, lanes) * prod(plan.row_shape)
    return large and (plan.segmented or size == 8) and (few or size == read == 4)


def _line(layout: Layout, choice: launch.Choice) -> int | None:
    """The bytes that are neighbours where a kernel moves little at once; None where it moves enough."""
    arrays = [x for x in layout.arrays() if x.along]
    if not layout.dims or not arrays or choice.kernel in ("short", "batches", "shortwise", "stepwise"):
        return None
    if choice.across:
        line = layout.dims[-1] * min(x.size for x in arrays)
        whole = choice.shape.stretch or choice.shape.flat or choice.shape.cross or len(layout.dims) < 2
        return None if whole or line > bringing.SECTOR else line
    steps = [(x, bringing.SECTOR) for x in layout.loads] + [(x, bringing.RESULTS) for x in layout.stores]
    far = [
        x
        for x, least in steps
        if x.along and abs(x.along) >= least and 0 < min(map(abs, x.rows)) < abs(x.along)
    ]
    return min(x.size for x in far) if far else None


def _is_full(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no item stands for several."""
    return len(strides) == len(shape) and all(s for n, s in zip(shape, strides) if n > 1)


def _along(plan: Plan, x: Strided, y: Strided, heads: Strided | None) -> bool:
    """Whether rows lie along memory in the input alone, and are so long and narrow that they are scanned there."""
    near, size = abs(x[0][plan.axis]) == plan.loads[0].itemsize, params.stored(plan)[0].itemsize
    shared = heads is None or len(heads[0]) < len(plan.shape)
    return near and abs(y[0][plan.axis]) != size and size <= 2 and shared and plan.n >= bringing.ALONG


def _among(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    """Whether neighbours of an array are neighbours in this order, but few of them, as lines lie in another one."""
    long = [d for d in order if shape[d] > 1]
    lies = sorted(long, key=lambda d: -abs(strides[d]))
    return lies[-1] == long[-1] and lies != long


def _same(shape: Sequence[int], strides: Sequence[int], others: Sequence[int]) -> bool:
    return all(s == o for n, s, o in zip(shape, strides, others) if n > 1)


def _of_rows(plan: Plan, order: Sequence[int]) -> tuple[int, ...]:
    """The order of the results' dimensions."""
    if not plan.reduce:
        return tuple(order)
    return tuple(d - (d > plan.axis) for d in order if d != plan.axis)


def _strides(shape: Sequence[int], order: Sequence[int], size: int) -> tuple[int, ...]:
    """Strides in bytes of an array without gaps, whose dimensions lie in this order."""
    strides = [0] * len(shape)
    for d in reversed(order):
        strides[d] = size
        size *= shape[d]
    return tuple(strides)


def _nbytes(x: View) -> int:
    return prod(x.shape) * x.dtype.itemsize


def _parts(step: Step, moves: Moves) -> Iterator[Step]:
    """The scan, cut along the slowest dimension beside the axis, so that copies of its parts take each other's place."""
    plan, shape = step.plan, step.plan.shape
    cut = next(d for d in moves.order if d != plan.axis)
    moved = [x for x in (*(step.xs[k] for k in moves.xs), *(step.ys[o] for o in moves.ys)) if x]
    count = max(1, shape[cut] * bringing.PART // max(map(_nbytes, moved)))
    if any(abs(x.strides[cut]) == x.dtype.itemsize for x in moved if len(x.shape) == len(shape)):
        count = max(count, bringing.PART_SIDE)
    if count >= shape[cut] or cut == moves.order[-1] or isinstance(step.heads, launch.Marks):
        yield step
        return
    for begin in range(0, shape[cut], count):
        yield part_of(step, cut, range(begin, min(begin + count, shape[cut])))


def part_of(step: Step, d: int, span: range) -> Step:
    """The scan of the rows in this span of a dimension beside the axis."""
    plan, heads, starts = step.plan, step.heads, step.initial
    row = d - (d > plan.axis)
    if isinstance(heads, View) and len(heads.strides) == len(plan.shape):
        heads = _cut(heads, d, span)
    # Initial values that are numbers stay the same list, by which a call knows them again.
    if starts is not None and any(v.strides for v in starts):
        starts = [_cut(v, row, span) for v in starts]
    return Step(
        _plan_of_part(plan, d, len(span)),
        [_cut(x, d, span) for x in step.xs],
        [y and _cut(y, row if plan.reduce else d, span) for y in step.ys],
        starts,
        heads,
    )


def _cut(v: View, d: int, span: range) -> View:
    """The items of an array in this span of a dimension; a number, and an item that stands for all, as they are."""
    if v.on_host or len(v.shape) <= d:
        return v
    return v.cut(d, span.start, span.stop)


# Launches are known by their plan, so that it must be the same one in each call.
@lru_cache(4096)
def _plan_of_part(plan: Plan, cut: int, n: int) -> Plan:
    return replace(plan, shape=(*plan.shape[:cut], n, *plan.shape[cut + 1 :]))


_RAW = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)} | {16: np.dtype(np.complex128)}
"""The dtypes in which bytes are copied."""


def _dense(x: View, memory: View, order: Sequence[int]) -> View:
    """An array like x without gaps, in this order of dimensions."""
    return memory.over(memory.ptr, x.shape, _strides(x.shape, order, x.dtype.itemsize), x.dtype)


def copied(x: View, to: View) -> Step:
    """The copy of an array to another place."""
    size = x.dtype.itemsize
    plan = _copying(_RAW[size], x.shape)
    source, copy = (v.over(v.ptr, plan.shape, (*v.strides, size), _RAW[size]) for v in (x, to))
    return Step(plan, [source], [copy], None, None)


@lru_cache(4096)
def _copying(dtype: np.dtype, shape: tuple[int, ...]) -> Plan:
    """A scan of rows of one item, which copies them."""
    return Plan(as_operator("add"), (dtype,), (dtype,), (dtype,), (*shape, 1), len(shape))
