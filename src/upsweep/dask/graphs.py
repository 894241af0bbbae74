"""The graph of a scan of Dask arrays: two tasks a chunk and a tree of carries.

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
from dask._task_spec import DataNode, Task, TaskRef
from dask.base import compute, tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from upsweep import api, shards, tree
from upsweep.arguments import dtypes_of
from upsweep.components import bare, tupled
from upsweep.dask.chunks import check_sizes, filled, gaps, known, native
from upsweep.engine import choose, grouping
from upsweep.host import heads
from upsweep.operator import SEEDED, identity_of, segmented
from upsweep.operators import as_operator
from upsweep.planning import plan_of
from upsweep.segmented_chunks import along, starts_of
from upsweep.segments import EACH, Segments, check_form, checked, groups
from upsweep.shards import Blocks


def scanned(
    op: Any, xs: tuple[Any, ...], axis: int | None, exclusive: bool = False, reverse: bool = False, initial: Any = None,
    dtype: Any = None, segments: Segments | None = None, keep: tuple[int, ...] | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The components of a scan, or those of them that `keep` names, each a Dask array."""
    xs, op, told = tuple(map(native, xs)), as_operator(op), checked(segments)
    first, xs = xs[0], tuple(map(filled, xs))
    planned = tuple(x.dtype for x in xs), tuple(x.shape for x in xs)
    plan, dtypes = plan_of(
        op, *planned, axis, exclusive, reverse, initial is not None, dtypes_of(dtype), told is not None
    )
    starts = starts_of(compute(initial)[0], dtypes, plan.row_shape)
    keep = tuple(range(len(xs))) if keep is None else keep
    if 0 in plan.shape:
        return _of_nothing(op, plan, xs, starts, dtypes, told, keep)
    if told is None:
        ys = _scanned(op, xs, plan.axis, exclusive, reverse, starts, dtypes, keep)
    elif told.spelling == "groups":
        ys = _grouped(op, plan, xs, starts, dtypes, in_memory(told).values, keep)
    else:
        ys = _segmented(plan, xs, starts, dtypes, told, keep)
    return tuple(y.rechunk(gaps(first)) for y in ys)


def _of_nothing(
    op: Any, plan: Any, xs: tuple[Any, ...], starts: Any, dtypes: tuple[np.dtype, ...], told: Segments | None,
    keep: tuple[int, ...],
) -> tuple[Any, ...]:  # fmt: skip
    """The scan of arrays without items, which Dask does not cut into other chunks."""
    none = [np.empty(x.shape, x.dtype) for x in xs]
    made = _scan_whole(op, told and in_memory(told), starts, _how(plan, dtypes), keep, *none)
    return tuple([da.from_array(y, chunks=xs[0].chunks) for y in tupled(made)])


def _scanned(
    op: Any, xs: tuple[Any, ...], axis: int, exclusive: bool, reverse: bool, starts: Any, dtypes: tuple[np.dtype, ...],
    keep: tuple[int, ...],
) -> tuple[Any, ...]:  # fmt: skip
    """The components that `keep` names of a scan that has been checked."""
    xs = tuple(da.flip(x, axis) for x in xs) if reverse else xs
    ys = _graph(op, tuple(x.rechunk(xs[0].chunks) for x in xs), axis, exclusive, starts, dtypes, keep)
    return tuple(da.flip(y, axis) for y in ys) if reverse else ys


def _segmented(
    plan: Any, given: tuple[Any, ...], starts: Any, dtypes: tuple[np.dtype, ...], segments: Segments, keep: tuple[int, ...]
) -> tuple[Any, ...]:  # fmt: skip
    """The scan of the lifted operator, on tuples of a flag and the data."""
    first = starts or identity_of(plan.op, plan.accumulators)
    lifted = segmented(plan.op, len(given), bool(starts))
    lifted = replace(lifted, identity=(0, *first)) if plan.exclusive and first and not starts else lifted
    flags = heads_of(segments, given[0], plan.axis)
    # In reverse a segment starts at its last item, one before the next segment's head.
    if plan.reverse:
        flags = da.roll(flags, -1, plan.axis)
    flags = flags.astype(np.uint16).rechunk(given[0].chunks)
    seed = (np.asarray(SEEDED), *starts, *starts) if starts else ()
    rank = len(plan.shape)
    behind = [da.broadcast_to(along(s, plan.axis, rank), plan.shape) for s in starts]
    computed = (np.dtype(np.uint16), *dtypes, *[s.dtype for s in starts])
    kept = tuple(1 + c for c in keep)
    ys = _scanned(
        lifted, (flags, *given, *behind), plan.axis, plan.exclusive, plan.reverse, seed, computed, kept
    )
    if not plan.exclusive:
        return ys
    # `plan_of` has asked for an identity.
    assert first is not None
    fresh = [along(np.asarray(first[c]), plan.axis, rank).astype(dtypes[c]) for c in keep]
    return tuple(da.where(flags != 0, e, y) for e, y in zip(fresh, ys))


def _grouped(
    op: Any, plan: Any, xs: tuple[Any, ...], starts: Any, dtypes: tuple[np.dtype, ...], keys: tuple[Any, ...],
    keep: tuple[int, ...],
) -> tuple[Any, ...]:  # fmt: skip
    """The scan of groups in any order: of whole rows, so that chunks divide the other axes alone."""
    axis, chunks = plan.axis, xs[0].chunks
    check_sizes(chunks[axis])
    codes, _ = grouping(choose(())).codes_of(keys, plan.n)
    whole = {d: -1 if d == axis else "auto" for d in range(len(plan.shape))}
    first = xs[0].rechunk(whole) if len(chunks[axis]) > 1 else xs[0]
    rows = (first, *[x.rechunk(first.chunks) for x in xs[1:]])
    how = _how(plan, dtypes)
    token = tokenize(op.key, [x.name for x in rows], how, starts, codes, keep)
    held = f"upsweep-groups-{token}"
    tasks: dict[Any, Any] = {held: DataNode(held, groups(codes))}
    for place in product(*map(range, first.numblocks)):
        begun = _starts_of(starts, first.chunks, axis, place[:axis] + place[axis + 1 :])
        own = [TaskRef((x.name, *place)) for x in rows]
        key = (f"upsweep-scan-{token}", *place)
        tasks[key] = Task(key, _scan_whole, op, TaskRef(held), begun, how, keep, *own)
    return tuple(y.rechunk(chunks) for y in _collected(tasks, token, rows, [dtypes[c] for c in keep]))


def in_memory(segments: Segments) -> Segments:
    """The segments with their values in memory, where these are Dask arrays."""
    if segments.spelling == "groups":
        return groups(*compute(*segments.values, traverse=False))
    return Segments(segments.spelling, compute(segments.values, traverse=False)[0])


def heads_of(segments: Segments, x: Any, axis: int) -> Any:
    """Where segments start, or groups occur for the first time, as a Dask array of the data's shape."""
    values: Any = segments.values
    known(x)
    if segments.spelling == "groups":
        zeros = np.zeros(x.shape[axis], np.uint8)
        flags: Any = da.from_array(
            api.scan(zeros, "mul", exclusive=True, initial=1, segments=in_memory(segments)), chunks="auto"
        )
    elif not isinstance(values, da.Array) or segments.spelling not in EACH:
        flags = da.from_array(heads(in_memory(segments), x.shape, axis, None), chunks="auto")
    else:
        check_form(segments.spelling, values, x.shape, x.shape[axis])
        flags = _starts(segments.spelling, filled(values), axis if values.ndim > 1 else 0)
    if flags.ndim < x.ndim:
        flags = flags.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    return da.broadcast_to(flags != 0, x.shape)


def _starts(spelling: str, values: Any, axis: int) -> Any:
    if spelling == "flags":
        return values
    items = da.moveaxis(values, axis, 0)
    before, after = items[:-1], items[1:]
    starts = [da.ones_like(items[:1], dtype=bool), before != 0 if spelling == "ends" else after != before]
    return da.moveaxis(da.concatenate(starts), 0, axis)


def _graph(
    op: Any, arrays: tuple[Any, ...], axis: int, exclusive: bool, starts: Any, dtypes: tuple[np.dtype, ...],
    keep: tuple[int, ...],
) -> tuple[Any, ...]:  # fmt: skip
    chunks = arrays[0].chunks
    sizes = chunks[axis]
    check_sizes(sizes)
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
    return _collected(tasks, token, arrays, [dtypes[c] for c in keep])


def _collected(
    tasks: dict[Any, Any], token: str, arrays: tuple[Any, ...], made: list[np.dtype]
) -> tuple[Any, ...]:
    """The results of the tasks that scan, one array for each of these dtypes, chunked as the arrays that they scan."""
    name, chunks = f"upsweep-scan-{token}", arrays[0].chunks
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=list(arrays))
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
    starts: Any, dtypes: tuple[np.dtype, ...], keep: tuple[int, ...],
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
    keep: tuple[int, ...],
    *xs: np.ndarray,
) -> Any:
    initial: Any = (starts if len(xs) > 1 else starts[0]) if starts else None
    ys: Any = shards.scanned(
        op, xs, before, own, axis, exclusive=exclusive, initial=initial, dtype=dtypes, keep=keep
    )
    return bare(ys)


def _how(plan: Any, dtypes: tuple[np.dtype, ...]) -> dict[str, Any]:
    return {"axis": plan.axis, "exclusive": plan.exclusive, "reverse": plan.reverse, "dtype": dtypes}


def _scan_whole(
    op: Any,
    segments: Segments | None,
    starts: Any,
    how: dict[str, Any],
    keep: tuple[int, ...],
    *xs: np.ndarray,
) -> Any:
    """The scan of whole rows in memory."""
    initial: Any = bare(starts) if starts else None
    made = tupled(api.scan(bare(xs), op, initial=initial, segments=segments, **how))
    return bare([made[c] for c in keep])
