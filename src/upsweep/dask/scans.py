"""Scans under an operator, and reductions."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask.base import compute

from upsweep.api import Op
from upsweep.arguments import alone, axis_of, summed_dtype
from upsweep.components import tupled
from upsweep.dask.chunks import filled, known
from upsweep.dask.graphs import in_memory, scanned
from upsweep.engine import choose
from upsweep.host import offsets
from upsweep.operators import ops
from upsweep.reductions import having_items, places_of
from upsweep.reductions import reduce as nothing
from upsweep.segments import Segments, checked


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
        segments: as in `upsweep.scan`, 1-D and held in memory, or flags, ends or keys of the data's shape as a Dask array. With
            groups each row is brought together along the axis, as xarray's groupby does, and chunks divide the other axes: a
            worker holds some whole rows.

    Returns:
        A Dask array (a tuple of them) with the chunks of the input.

    Raises:
        ShapeError: also where the sizes of chunks along the axis are unknown; call `compute_chunk_sizes` first.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.scan(da.arange(6, chunks=4)).compute().tolist()
    [0, 1, 3, 6, 10, 15]
    >>> import upsweep as up
    >>> ud.scan(da.arange(6, chunks=4), segments=up.segments.groups([7, 8, 7, 8, 7, 8])).compute().tolist()
    [0, 1, 2, 4, 6, 9]
    """
    given = tupled(xs)
    ys = scanned(op, given, axis, exclusive, reverse, initial, dtype, segments)
    return ys if isinstance(xs, tuple) else ys[0]


def reduce(
    xs: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: Any = None,
    dtype: Any = None,
    segments: Segments | None = None,
) -> Any:
    """The last prefix of a Dask array, or that of every segment, as `upsweep.reduce`, lazily. Every chunk is summed up; only
    those in which something ends are scanned.

    Args:
        xs, op, axis, reverse, initial, dtype: as in `scan`.
        segments: as in `scan`, 1-D and held in memory; there is one result for each. Of groups, in the order in which they first
            occur.

    >>> import dask.array as da, upsweep as up, upsweep.dask as ud
    >>> ud.reduce(da.arange(6, chunks=4), segments=up.segments.lengths([2, 4])).compute().tolist()
    [1, 14]
    """
    given = tuple([filled(da.asarray(x)) for x in tupled(xs)])
    how: dict[str, Any] = {
        "reverse": reverse,
        "initial": compute(initial)[0],
        "dtype": dtype,
        "segments": segments,
    }
    ys = scanned(op, given, axis, **how)
    dim, told = axis_of(axis, ys[0].shape), checked(segments)
    n = ys[0].shape[dim]
    results: Any
    if n and told is None:
        results = tuple(da.take(y, 0 if reverse else -1, dim) for y in ys)
        return results if isinstance(xs, tuple) else results[0]
    shape = [0 if d == dim else m for d, m in enumerate(known(ys[0]).shape)]
    none = tuple(np.empty(shape, x.dtype) for x in given)
    told = told and in_memory(told)
    if not n or told is None:
        results = tuple(map(da.asarray, nothing(none, op, axis=dim, **{**how, "segments": told})))
    else:
        starts = None if told.spelling == "groups" else offsets(told, ys[0].shape, dim)
        last = places_of(told, starts, ys[0].shape, dim, reverse, choose(none))
        results = tuple(da.take(y, last.clip(0, n - 1), dim) for y in ys)
        there = having_items(starts)
        if there is not None:
            empty = ~there.reshape([-1 if d == dim else 1 for d in range(ys[0].ndim)])
            fresh = nothing(none, op, axis=dim, **{**how, "segments": None})
            results = tuple(da.where(empty, np.expand_dims(e, dim), y) for e, y in zip(fresh, results))
    return results if isinstance(xs, tuple) else results[0]


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False,
    segments: Segments | None = None,
) -> Any:  # fmt: skip
    """Running totals of a Dask array, as `upsweep.cumulative_sum`.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.cumulative_sum(da.ones(5, dtype="i1", chunks=2)).compute().tolist()
    [1, 2, 3, 4, 5]
    """
    return _cumulative(x, ops.ADD, 0, axis, dtype, include_initial, segments)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False,
    segments: Segments | None = None,
) -> Any:  # fmt: skip
    """Running products of a Dask array, as `upsweep.cumulative_prod`.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.cumulative_prod(da.arange(1, 6, chunks=2)).compute().tolist()
    [1, 2, 6, 24, 120]
    """
    return _cumulative(x, ops.MUL, 1, axis, dtype, include_initial, segments)


def _cumulative(
    x: Any, op: Op, first: int, axis: int | None, dtype: Any, include_initial: bool, segments: Segments | None
) -> Any:  # fmt: skip
    alone(include_initial, segments)
    x = da.asarray(x)
    x = known(x) if include_initial else x
    y = scan(x, op, axis=axis, dtype=summed_dtype(x.dtype, dtype), segments=segments)
    if not include_initial:
        return y
    axis = axis_of(axis, x.shape)
    sizes: Any = y.chunks[axis]
    start = da.full_like(y, first, shape=tuple(1 if d == axis else n for d, n in enumerate(y.shape)))
    return da.concatenate([start, y], axis).rechunk({axis: (1 + sizes[0], *sizes[1:])})


def cummax(
    x: Any, *, axis: int | None = None, reverse: bool = False, segments: Segments | None = None
) -> Any:
    """Running maxima of a Dask array, as `upsweep.cummax`.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.cummax(da.from_array([2, 1, 5, 3], chunks=2)).compute().tolist()
    [2, 2, 5, 5]
    """
    return scan(x, ops.MAX, axis=axis, reverse=reverse, segments=segments)


def cummin(
    x: Any, *, axis: int | None = None, reverse: bool = False, segments: Segments | None = None
) -> Any:
    """Running minima of a Dask array, as `upsweep.cummin`.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.cummin(da.from_array([2, 1, 5, 3], chunks=2)).compute().tolist()
    [2, 1, 1, 1]
    """
    return scan(x, ops.MIN, axis=axis, reverse=reverse, segments=segments)


def cumlogsumexp(
    x: Any, *, axis: int | None = None, reverse: bool = False, segments: Segments | None = None
) -> Any:
    """`log(cumsum(exp(x)))` of a Dask array without overflow, as `upsweep.cumlogsumexp`.

    >>> import dask.array as da, upsweep.dask as ud
    >>> ud.cumlogsumexp(da.zeros(4, chunks=2)).compute().round(4).tolist()
    [0.0, 0.6931, 1.0986, 1.3863]
    """
    return scan(x, ops.LOGADDEXP, axis=axis, reverse=reverse, segments=segments)
