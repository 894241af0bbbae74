"""Reductions: of a whole axis, or one a segment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from upsweep import engine as engines
from upsweep.api import Op, last_prefix, scan
from upsweep.arguments import OutputError, axis_of
from upsweep.components import tupled
from upsweep.engine import EngineError
from upsweep.homes import Elsewhere
from upsweep.host import labelled
from upsweep.segments import Segments, checked


def reduce(
    xs: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: Any = None,
    dtype: Any = None,
    out: Any = None,
    segments: Segments | None = None,
    order: str = "tree",
    map: Callable[..., Any] | None = None,
    finish: Callable[..., Any] | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Any:
    """The last prefix: bit for bit what `scan` ends with, in one pass that only reads.

    Arguments and errors are those of `scan`; the result lacks the axis, and `finish` is given the prefix alone. Nothing at all
    reduces to `initial` or to the operator's identity.

    With `segments` the axis stays, and has one result a segment: what the scan of that segment ends with, or what nothing
    reduces to, where offsets or lengths make it empty. Of groups in any order there is one result each, in the order in which
    they first occur. Such segments are 1-D, there is no `out`, the arrays are in host memory (`upsweep.torch.reduce` takes those
    of a GPU), and the scan is computed as a whole.

    >>> import upsweep as up
    >>> int(up.reduce([3, 1, 7, 0]))
    11
    >>> up.reduce([3, 1, 7, 0], "max", segments=up.segments.lengths([3, 1])).tolist()
    [7, 0]
    >>> up.reduce([3, 1, 7, 0], segments=up.segments.groups(["b", "a", "b", "a"])).tolist()
    [10, 1]
    """
    keywords: dict[str, Any] = {
        "axis": axis, "reverse": reverse, "initial": initial, "dtype": dtype, "order": order, "map": map, "finish": finish,
        "threads": threads,
    }  # fmt: skip
    told = checked(segments)
    if told is not None and out is not None:
        raise OutputError("the number of segments decides the shape of the result: leave out= away")
    try:
        if told is None:
            return last_prefix(xs, op, out=out, engine=engine, **keywords)
        return _each(xs, op, told, engine, keywords)
    except Elsewhere as there:
        return there.instead(reduce, locals())


def _each(xs: Any, op: Op, segments: Segments, engine: str, keywords: dict[str, Any]) -> Any:
    """The last item of each segment of a scan."""
    given = tupled(xs)
    name = engines.choose(given) if engine == "auto" else engine
    if name == "cuda":
        raise EngineError(
            "the cuda engine has no reductions of segments: bring the arrays to the host, or pass tensors to "
            "upsweep.torch.reduce"
        )
    on = engines.load(name)
    seen = tuple([on.view(x) for x in given])
    bare: Any = seen if isinstance(xs, tuple) else seen[0]
    prefixes = scan(bare, op, segments=segments, engine=name, **keywords)
    ys = tupled(prefixes)
    axis = axis_of(keywords["axis"], ys[0].shape)
    labelled.check_alike(given)
    labelled.check_beside(given, ys[0].shape, axis, segments, keywords["initial"])
    last, empty = _last(segments, ys[0].shape, axis, keywords["reverse"], name)
    made = [_taken(y, last, axis) for y in ys]
    if empty.any():
        none = tuple([np.empty(_sized(ys[0].shape, axis, 0), x.dtype) for x in seen])
        nothing = last_prefix(none if isinstance(xs, tuple) else none[0], op, engine=name, **keywords)
        for y, e in zip(made, tupled(nothing)):
            np.moveaxis(y, axis, 0)[empty] = e
    like = next((x for x, v in zip(given, seen) if v.shape), xs)
    results = tuple([on.give(like, y) for y in made])
    return results if isinstance(prefixes, tuple) else results[0]


def _last(
    segments: Segments, shape: tuple[int, ...], axis: int, reverse: bool, engine: str
) -> tuple[np.ndarray, np.ndarray]:
    """Where each segment ends, in the direction of the scan, and which segments are empty."""
    n = shape[axis]
    if segments.spelling == "groups":
        codes, counts = engines.grouping(engine).codes_of(segments.values, n)
        step = -1 if reverse else 1
        ends = np.empty(len(counts), np.int64)
        # A group has several places; the last that is written stays.
        ends[codes[::step]] = np.arange(n)[::step]
        return ends, np.zeros(len(counts), bool)
    from upsweep.host import offsets

    starts = offsets(segments, shape, axis)
    return starts[:-1] if reverse else starts[1:] - 1, starts[1:] == starts[:-1]


def _taken(y: np.ndarray, places: np.ndarray, axis: int) -> np.ndarray:
    n = y.shape[axis]
    return (
        np.take(y, places.clip(0, n - 1), axis)
        if n
        else np.empty(_sized(y.shape, axis, len(places)), y.dtype)
    )


def _sized(shape: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    return tuple(n if d == axis else size for d, size in enumerate(shape))
