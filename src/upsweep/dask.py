"""Scans of Dask arrays: two tasks a chunk and a tree of carries, with the bits of one machine whatever the chunks.

The first task of a chunk sums up its aligned blocks; these short lists are joined by Brent and Kung's tree, in a depth of
2 log2 of the number of chunks; the second task scans the chunk from the carry before it. No task waits for a neighbour's
scan.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, product
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from upsweep import shards, tree
from upsweep.api import Op
from upsweep.arguments import ShapeError, alone, axis_of, dtypes_of, summed_dtype
from upsweep.host import heads
from upsweep.operator import SEEDED, identity_of, segmented
from upsweep.operators import as_operator
from upsweep.planning import plan_of
from upsweep.segmented_chunks import along, starts_of
from upsweep.segments import SegmentError, Segments, checked
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
    segments: Segments | None = None,
) -> Any:
    """All prefixes of a Dask array, as `upsweep.scan`, lazily.

    Args:
        xs: a Dask array of any chunks, or a tuple of such arrays of one shape (the others take the chunks of the first).
        op, axis, exclusive, reverse, initial, dtype: as in `upsweep.scan`. `initial` is held in memory.
        segments: as in `upsweep.scan`, 1-D and held in memory, or flags or keys of the data's shape as a Dask array.

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
    if checked(segments) is not None:
        ys = _segmented(op, given, axis, exclusive, reverse, initial, dtype, segments)
        return ys if isinstance(xs, tuple) else ys[0]
    planned = tuple(x.dtype for x in given), tuple(x.shape for x in given)
    plan, dtypes = plan_of(op, *planned, axis, exclusive, False, initial is not None, dtypes_of(dtype))
    starts = _starts(initial, len(given))
    ys = _scanned(op, given, plan.axis, exclusive, reverse, starts, dtypes)
    return ys if isinstance(xs, tuple) else ys[0]


def _scanned(
    op: Any, xs: tuple[Any, ...], axis: int, exclusive: bool, reverse: bool, starts: Any, dtypes: tuple[np.dtype, ...],
    keep: tuple[int, ...] | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The components of a scan that has been checked, or those of them that `keep` names."""
    xs = tuple(da.flip(x, axis) for x in xs) if reverse else xs
    ys = _graph(op, tuple(x.rechunk(xs[0].chunks) for x in xs), axis, exclusive, starts, dtypes, keep)
    return tuple(da.flip(y, axis) for y in ys) if reverse else ys


def _segmented(
    op: Any, given: tuple[Any, ...], axis: int | None, exclusive: bool, reverse: bool, initial: Any, dtype: Any, segments: Any
) -> tuple[Any, ...]:  # fmt: skip
    """The scan of the lifted operator, on tuples of a flag and the data."""
    planned = tuple(x.dtype for x in given), tuple(x.shape for x in given)
    plan, dtypes = plan_of(op, *planned, axis, exclusive, reverse, initial is not None, dtypes_of(dtype))
    starts = starts_of(initial, dtypes, plan.row_shape)
    first = starts or identity_of(plan.op, plan.accumulators)
    lifted = segmented(plan.op, len(given), bool(starts))
    lifted = replace(lifted, identity=(0, *first)) if exclusive and first and not starts else lifted
    flags = _heads(segments, given[0], plan.axis)
    # In reverse a segment starts at its last item, one before the next segment's head.
    if reverse:
        flags = da.roll(flags, -1, plan.axis)
    flags = flags.astype(np.uint16).rechunk(given[0].chunks)
    seed = (np.asarray(SEEDED), *starts, *starts) if starts else None
    rank = len(plan.shape)
    behind = [da.broadcast_to(along(s, plan.axis, rank), plan.shape) for s in starts]
    computed = (np.dtype(np.uint16), *dtypes, *[s.dtype for s in starts])
    kept = tuple(range(1, 1 + len(given)))
    ys = _scanned(lifted, (flags, *given, *behind), plan.axis, exclusive, reverse, seed, computed, kept)
    if not exclusive:
        return ys
    # `plan_of` has asked for an identity.
    assert first is not None
    fresh = [along(np.asarray(e), plan.axis, rank).astype(d) for e, d in zip(first, dtypes)]
    return tuple(da.where(flags != 0, e, y) for e, y in zip(fresh, ys))


def _heads(segments: Segments, x: Any, axis: int) -> Any:
    """Where segments start, as a Dask array of the data's shape."""
    values: Any = segments.values
    flags: Any
    if not isinstance(values, da.Array) or segments.spelling not in ("flags", "keys"):
        told = Segments(segments.spelling, values.compute()) if isinstance(values, da.Array) else segments
        flags = da.from_array(heads(told, x.shape, axis, None), chunks="auto")
    elif values.shape not in (x.shape, (x.shape[axis],)):
        raise SegmentError(f"{segments.spelling} have shape {values.shape}, the data {x.shape}")
    elif segments.spelling == "keys":
        keys = da.moveaxis(values, axis if values.ndim > 1 else 0, 0)
        changed = da.concatenate([da.ones_like(keys[:1], dtype=bool), keys[1:] != keys[:-1]])
        flags = da.moveaxis(changed, 0, axis if values.ndim > 1 else 0)
    else:
        flags = values
    if flags.ndim < x.ndim:
        flags = flags.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    return da.broadcast_to(flags != 0, x.shape)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False,
    segments: Segments | None = None,
) -> Any:  # fmt: skip
    """Running totals of a Dask array, as `upsweep.cumulative_sum`.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.cumulative_sum(da.ones(5, dtype="i1", chunks=2)).compute().tolist()
    [1, 2, 3, 4, 5]
    """
    return _cumulative(x, "add", 0, axis, dtype, include_initial, segments)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False,
    segments: Segments | None = None,
) -> Any:  # fmt: skip
    """Running products of a Dask array, as `upsweep.cumulative_prod`.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.cumulative_prod(da.arange(1, 6, chunks=2)).compute().tolist()
    [1, 2, 6, 24, 120]
    """
    return _cumulative(x, "mul", 1, axis, dtype, include_initial, segments)


def _cumulative(
    x: Any, op: str, first: int, axis: int | None, dtype: Any, include_initial: bool, segments: Segments | None
) -> Any:  # fmt: skip
    alone(include_initial, segments)
    y = scan(x, op, axis=axis, dtype=summed_dtype(x.dtype, dtype), segments=segments)
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
    op: Any, arrays: tuple[Any, ...], axis: int, exclusive: bool, starts: Any, dtypes: tuple[np.dtype, ...],
    keep: tuple[int, ...] | None,
) -> tuple[Any, ...]:  # fmt: skip
    chunks = arrays[0].chunks
    sizes = chunks[axis]
    if any(np.isnan(n) for n in sizes):
        raise ShapeError(
            "the sizes of the chunks along the axis are unknown: call x.compute_chunk_sizes() first"
        )
    token = tokenize(op.key, [x.name for x in arrays], axis, exclusive, starts, dtypes, keep)
    tasks: dict[Any, Any] = {}
    for row in product(*(range(len(c)) for d, c in enumerate(chunks) if d != axis)):
        _row(
            tasks,
            token,
            row,
            op,
            arrays,
            axis,
            exclusive,
            _starts_of(starts, chunks, axis, row),
            dtypes,
            keep,
        )
    name = f"upsweep-scan-{token}"
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=list(arrays))
    made = dtypes if keep is None else tuple(dtypes[c] for c in keep)
    if len(made) == 1:
        return (da.Array(graph, name, chunks, dtype=made[0]),)  # type: ignore[call-arg]
    return tuple(_component(graph, name, c, chunks, dtype) for c, dtype in enumerate(made))


def _component(graph: Any, name: str, c: int, chunks: Any, dtype: np.dtype) -> Any:
    """Component c of chunks that are tuples."""
    part = f"{name}-{c}"
    keys = product(*(range(len(sizes)) for sizes in chunks))
    tasks = {(part, *place): Task((part, *place), getitem, TaskRef((name, *place)), c) for place in keys}
    layers = {**graph.layers, part: MaterializedLayer(tasks)}
    return da.Array(HighLevelGraph(layers, {**graph.dependencies, part: {name}}), part, chunks, dtype=dtype)  # type: ignore[call-arg]


def _row(
    tasks: dict[Any, Any], token: str, row: tuple[int, ...], op: Any, arrays: tuple[Any, ...], axis: int, exclusive: bool,
    starts: Any, dtypes: tuple[np.dtype, ...], keep: tuple[int, ...] | None,
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
        tasks[key] = Task(
            key, _scan, op, carry, TaskRef(sums[i]), axis, exclusive, starts, dtypes, keep, *chunk
        )


def _starts_of(starts: Any, chunks: Any, axis: int, row: tuple[int, ...]) -> Any:
    """The values that the rows of one chunk start from."""
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
    keep: tuple[int, ...] | None,
    *xs: np.ndarray,
) -> Any:
    initial = starts if starts is None or len(xs) > 1 else starts[0]
    ys: Any = shards.scanned(
        op, xs, before, own, axis, exclusive=exclusive, initial=initial, dtype=dtypes, keep=keep
    )
    return ys if len(ys) > 1 else ys[0]
