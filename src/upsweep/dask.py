"""Scans of Dask arrays: two tasks a chunk and a tree of carries, with the bits of one machine whatever the chunks.

The first task of a chunk sums up its aligned blocks; these short lists are joined by Brent and Kung's tree, in a depth of
2 log2 of the number of chunks; the second task scans the chunk from the carry before it. No task waits for a neighbour's
scan.
"""

from __future__ import annotations

from itertools import accumulate, product
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from upsweep import shards, tree
from upsweep.api import Op, plan_of
from upsweep.arguments import ShapeError, axis_of, dtypes_of, summed_dtype
from upsweep.operators import as_operator
from upsweep.shards import Blocks

__all__ = ["cumulative_prod", "cumulative_sum", "scan"]


def scan(
    xs: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Any = None,
    dtype: Any = None,
) -> Any:
    """All prefixes of a Dask array, as `upsweep.scan`, lazily.

    Args:
        xs: a Dask array of any chunks, or a tuple of such arrays of one shape (the others take the chunks of the first).
        op, axis, exclusive, reverse, initial, dtype: as in `upsweep.scan`. `initial` is held in memory.

    Returns:
        A Dask array (a tuple of them) with the chunks of the input.

    Raises:
        ShapeError: also where the sizes of chunks along the axis are unknown; call `compute_chunk_sizes` first.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.scan(da.arange(6, chunks=4)).compute().tolist()
    [0, 1, 3, 6, 10, 15]
    """
    given = xs if isinstance(xs, tuple) else (xs,)
    op = as_operator(op)
    planned = tuple(x.dtype for x in given), tuple(x.shape for x in given)
    plan, dtypes = plan_of(op, *planned, axis, exclusive, False, initial is not None, dtypes_of(dtype))
    axis = plan.axis
    if reverse:
        flipped = scan(
            tuple(da.flip(x, axis) for x in given),
            op,
            axis=axis,
            exclusive=exclusive,
            initial=initial,
            dtype=dtype,
        )
        results: Any = tuple(da.flip(y, axis) for y in flipped)
        return results if isinstance(xs, tuple) else results[0]
    arrays = tuple(x.rechunk(given[0].chunks) for x in given)
    ys = _graph(op, arrays, axis, exclusive, _starts(initial, len(arrays)), dtypes)
    return ys if isinstance(xs, tuple) else ys[0]


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """Running totals of a Dask array, as `upsweep.cumulative_sum`.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.cumulative_sum(da.ones(5, dtype="i1", chunks=2)).compute().tolist()
    [1, 2, 3, 4, 5]
    """
    return _cumulative(x, "add", 0, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """Running products of a Dask array, as `upsweep.cumulative_prod`.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.cumulative_prod(da.arange(1, 6, chunks=2)).compute().tolist()
    [1, 2, 6, 24, 120]
    """
    return _cumulative(x, "mul", 1, axis, dtype, include_initial)


def _cumulative(x: Any, op: str, first: int, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    y = scan(x, op, axis=axis, dtype=summed_dtype(x.dtype, dtype))
    if not include_initial:
        return y
    axis = axis_of(axis, x.shape)
    sizes = y.chunks[axis]
    start = da.full_like(y, first, shape=tuple(1 if d == axis else n for d, n in enumerate(y.shape)))
    return da.concatenate([start, y], axis).rechunk({axis: (1 + sizes[0], *sizes[1:])})


def _starts(initial: Any, count: int) -> tuple[np.ndarray, ...] | None:
    if initial is None:
        return None
    parts = initial if isinstance(initial, tuple) else (initial,)
    if len(parts) != count:
        raise ShapeError(f"initial must be a tuple of {count}, one for each array, got {initial!r}")
    return tuple(map(np.asarray, parts))


def _graph(
    op: Any, arrays: tuple[Any, ...], axis: int, exclusive: bool, starts: Any, dtypes: tuple[np.dtype, ...]
) -> tuple[Any, ...]:
    chunks = arrays[0].chunks
    sizes = chunks[axis]
    if any(np.isnan(n) for n in sizes):
        raise ShapeError(
            "the sizes of the chunks along the axis are unknown: call x.compute_chunk_sizes() first"
        )
    token = tokenize(op.key, [x.name for x in arrays], axis, exclusive, starts, dtypes)
    tasks: dict[Any, Any] = {}
    for row in product(*(range(len(c)) for d, c in enumerate(chunks) if d != axis)):
        _row(tasks, token, row, op, arrays, axis, exclusive, _starts_of(starts, chunks, axis, row), dtypes)
    name = f"upsweep-scan-{token}"
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=list(arrays))
    if len(arrays) == 1:
        return (da.Array(graph, name, chunks, dtype=dtypes[0]),)  # type: ignore[call-arg]
    return tuple(_component(graph, name, c, chunks, dtype) for c, dtype in enumerate(dtypes))


def _component(graph: Any, name: str, c: int, chunks: Any, dtype: np.dtype) -> Any:
    """Component c of chunks that are tuples."""
    part = f"{name}-{c}"
    keys = product(*(range(len(sizes)) for sizes in chunks))
    tasks = {(part, *place): Task((part, *place), getitem, TaskRef((name, *place)), c) for place in keys}
    layers = {**graph.layers, part: MaterializedLayer(tasks)}
    return da.Array(HighLevelGraph(layers, {**graph.dependencies, part: {name}}), part, chunks, dtype=dtype)  # type: ignore[call-arg]


def _row(
    tasks: dict[Any, Any], token: str, row: tuple[int, ...], op: Any, arrays: tuple[Any, ...], axis: int, exclusive: bool,
    starts: Any, dtypes: tuple[np.dtype, ...],
) -> None:  # fmt: skip
    """The tasks of the chunks that follow each other along the axis."""
    sizes = arrays[0].chunks[axis]
    begins = [0, *accumulate(sizes)][:-1]
    sums = []
    for i, begin in enumerate(begins):
        chunk = [TaskRef((x.name, *row[:axis], i, *row[axis:])) for x in arrays]
        key = (f"upsweep-sums-{token}", *row, i)
        tasks[key] = Task(key, _sum, op, begin, axis, dtypes, *chunk)
        sums.append(key)

    def join(left: Any, right: Any) -> Any:
        key = (f"upsweep-join-{token}", *row, len(tasks))
        tasks[key] = Task(key, shards.joined, op, TaskRef(left), TaskRef(right))
        return key

    before = [Blocks(0, 0), *map(TaskRef, tree.prefixes(join, sums[:-1]))]
    for i, carry in enumerate(before):
        place = (*row[:axis], i, *row[axis:])
        chunk = [TaskRef((x.name, *place)) for x in arrays]
        key = (f"upsweep-scan-{token}", *place)
        tasks[key] = Task(key, _scan, op, carry, TaskRef(sums[i]), axis, exclusive, starts, dtypes, *chunk)


def _starts_of(starts: Any, chunks: Any, axis: int, row: tuple[int, ...]) -> Any:
    """What the rows of one chunk start from."""
    if starts is None:
        return None
    others = [c for d, c in enumerate(chunks) if d != axis]
    begins = [sum(c[:i]) for c, i in zip(others, row)]
    part = tuple(slice(b, b + c[i]) for b, c, i in zip(begins, others, row))
    return tuple(s[part] if s.ndim else s for s in starts)


def _sum(op: Any, begin: int, axis: int, dtypes: Any, *xs: np.ndarray) -> Blocks:
    return shards.summed(op, xs, begin, axis, dtypes)


def _scan(
    op: Any,
    before: Blocks,
    own: Blocks,
    axis: int,
    exclusive: bool,
    starts: Any,
    dtypes: Any,
    *xs: np.ndarray,
) -> Any:
    initial = starts if starts is None or len(xs) > 1 else starts[0]
    ys: Any = shards.scanned(op, xs, before, own, axis, exclusive=exclusive, initial=initial, dtype=dtypes)
    return ys if len(ys) > 1 else ys[0]
