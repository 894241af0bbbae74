"""The public scans."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from upsweep import cores, recall, short_way
from upsweep import engine as engines
from upsweep.arguments import SUMMED, alone, axis_of, dtype_of, summed_dtype
from upsweep.execution import Op
from upsweep.homes import Elsewhere, compiling, integer_bytes, uncompiled
from upsweep.operator import Operator
from upsweep.operators import BUILTIN, as_operator
from upsweep.segments import Segments


def scan(
    xs: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    exclusive: bool = False,
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
    """All prefixes of a sequence under an associative operator.

    `inclusive[i] = initial ⊕ x[0] ⊕ ... ⊕ x[i]`, and `exclusive[i]` ends with `x[i-1]`. The order of evaluation is the canonical
    tree (see `upsweep.tree`). So the result has the same bits on every machine and engine, and `inclusive[i]` has the bits of
    `reduce(x[:i+1])`.

    Args:
        xs: an array, or a tuple of arrays of one shape that together are one sequence of tuples, or a structured
            array; NumPy, PyTorch, CuPy, JAX, or anything with DLPack or `__cuda_array_interface__`.
        op: a built-in operator by name or from `upsweep.ops`, an `Operator`, or an associative Python function of two
            scalars (of two tuples of scalars for a tuple of arrays). The left operand is always the earlier one.
        axis: the axis to scan along; it may be left out for 1-D input only.
        exclusive: leave the item itself out of its prefix. The first result is `initial` or the identity.
        reverse: scan from the end: flip, scan, flip. The left operand is the result so far.
        initial: the value before the first item, of the accumulator's dtype: a scalar or an array with one value a row (the
            shape without the axis); a tuple of these for a tuple of arrays. Every segment starts from it.
        dtype: the dtype to compute and return, one for all or a tuple. By default that of the input, where floats
            narrower than float32 are summed in float32 and rounded once. Integers wrap.
        out: where to put the result (a tuple for a tuple of arrays); it may be the input itself.
        segments: see `upsweep.segments`; the scan starts anew where a segment starts.
        order: "tree" for the canonical tree, or "sequential" for the loop `y[i] = y[i-1] ⊕ x[i]` from `initial`, whose bits
            are those of `np.add.accumulate`, wherever a sequence is cut and continued. It is parallel over rows only: the
            faster order for many rows, a slow one for a single long row.
        map: a function that makes the scanned items out of the items of all arrays: `f(x)`, or `f(x0, x1, ...)` for a tuple of
            arrays, which then may have any dtypes and shapes that broadcast (nothing is copied for that). A further parameter
            without a default gets the index along the axis. The function returns a scalar, or a tuple of them for an operator on
            tuples. Numbers among the arrays are parameters: another value compiles nothing. `dtype` names the dtype of the
            scanned items.
        finish: a function that makes the results out of a prefix (a tuple of scalars for an operator on tuples): `g(prefix)`,
            `g(prefix, x0, x1, ...)` of the items as well, or `g(prefix, x0, x1, ..., index)` of their index along the axis too;
            parameters with defaults get none of these. The function returns a scalar or a tuple: the results. Bit for bit, they
            are those of `finish(scan(map(xs)))` in three steps; the items are read, and the results written, once.
        engine: "auto" (where the data are), "cpu", "cuda", or "numpy", which needs no compiler.
        threads: threads of the CPU engine; by default what `upsweep.set_threads` says. It changes no bit.

    Returns:
        An array (a tuple of arrays) of the input's shape, kind and device; with `map` or `finish`, of the dtypes that these
        functions return. The functions see narrow floats as float32, and times as int64. The dimensions of a result lie in memory
        in the same order as those of a NumPy array that was scanned. An array or a tensor of a subclass, such as one with units,
        gives a plain one, as `numpy.asarray` does; `upsweep.torch`, which scans tensors with gradients, keeps their class.

    Raises:
        ShapeError, DTypeError, OutputError, SegmentError, OperatorError, EngineError: before anything is written.

    >>> import upsweep as up
    >>> up.scan([3, 1, 7, 0, 4, 1, 6, 3]).tolist()
    [3, 4, 11, 11, 15, 16, 22, 25]
    >>> up.scan([3, 1, 7, 0, 4, 1, 6, 3], exclusive=True).tolist()
    [0, 3, 4, 11, 11, 15, 16, 22]
    >>> up.scan([3.0, 1.0, 7.0, 0.0], "max", finish=lambda peak, x: (peak - x) / peak).round(2).tolist()  # drawdown
    [0.0, 0.67, 0.0, 1.0]

    Source: Blelloch, "Prefix sums and their applications" (1990); Brent and Kung (1982) for the tree.
    """
    try:
        return recall.run(
            xs, op, axis, exclusive, reverse, initial, dtype, out, segments, engine, threads, False, None, order, map, finish
        )  # fmt: skip
    except Elsewhere as there:
        return there.instead(scan, locals())


def prepared(
    x: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    out: Any = None,
) -> Callable[..., Any]:
    """`scan`, for a loop that scans many arrays like `x` (and into arrays like `out`): `f(x)`, or `f(x, out)`.

    The checks and the plan of `scan` are made once, here, by a scan of x. A later array of another dtype, shape, strides or
    device is checked as `scan` checks it, and errors are those of `scan`. It may be sent to another process.

    >>> import numpy as np
    >>> import upsweep as up
    >>> running_maximum = up.prepared(np.zeros(4), "max")
    >>> running_maximum(np.array([2.0, 1.0, 5.0, 3.0])).tolist()
    [2.0, 2.0, 5.0, 5.0]
    """
    again = _Prepared(as_operator(op), axis, exclusive, reverse)
    again.learn(x, out)
    return again


class _Prepared:
    """The function that `prepared` gives. A copy in another process prepares itself by the first array that it scans."""

    __slots__ = "_how", "_known", "_op", "_others", "_users"

    def __init__(self, op: Operator, axis: int | None, exclusive: bool, reverse: bool) -> None:
        self._op, self._how = op, (axis, exclusive, reverse)
        # The arguments by which `recall.run` has the C part find a scan; the threads that are wanted come behind them.
        self._others = None, op, axis, exclusive, reverse, None, None, "auto", False, None, "tree", None, None
        self._users = op is not BUILTIN.get(op.name or "")
        self._known = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Prepared, (self._op, *self._how)

    def __call__(self, x: Any, out: Any = None) -> Any:
        if compiling():
            return uncompiled(self, x, out)
        if self._users:
            # An operator that has changed is refused.
            as_operator(self._op)
        part = short_way.part
        if part is not None:
            y = part.find(x, None, out, *self._others, cores.setting)
            if y is not None:
                return y
        learnt = self._known
        if learnt is None:
            return self.learn(x, out)
        alike, known = learnt
        if alike == ((recall.seen(x), None) if out is None else recall.seen_and_written(x, out)):
            y = known(x, None, out, None)
            if y is not None:
                if part is not None:
                    part.remember(known, x, None, out, *self._others, cores.setting)
                return y
        return self._checked(x, out)

    def learn(self, x: Any, out: Any) -> Any:
        """Scan an array, and prepare for others like it."""
        # From the first array of a library on, its arrays are told apart. One that is refused is refused by the scan.
        with suppress(engines.EngineError):
            engines.load(engines.choose((x,))).view(x)
        y = self._checked(x, out)
        axis, exclusive, reverse = self._how
        like = recall.scan_like(x, self._op, None, out, None, axis=axis, exclusive=exclusive, reverse=reverse)
        known = recall.known(like) or recall.never
        # One value: another thread sees both or neither.
        self._known = tuple(like[:2]), known
        return y

    def _checked(self, x: Any, out: Any) -> Any:
        axis, exclusive, reverse = self._how
        return scan(x, self._op, axis=axis, exclusive=exclusive, reverse=reverse, out=out)


def last_prefix(
    xs: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: Any = None,
    dtype: Any = None,
    out: Any = None,
    order: str = "tree",
    map: Callable[..., Any] | None = None,
    finish: Callable[..., Any] | None = None,
    engine: str = "auto",
    threads: int | None = None,
) -> Any:
    """`upsweep.reduce` without segments."""
    return recall.run(
        xs, op, axis, False, reverse, initial, dtype, out, None, engine, threads, True, None, order, map, finish
    )  # fmt: skip


def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    segments: Segments | None = None,
    order: str = "tree",
) -> Any:
    """Running totals along an axis, as the Python array API standard names and defines them.

    Booleans and integers narrower than the default integer are summed as the default integer, as NumPy does. With
    `include_initial` the result starts with 0 and has one item more. Shapes, kinds, `segments`, `order` and errors are those of
    `scan`.

    >>> import upsweep as up
    >>> up.cumulative_sum([1, 2, 3], include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    try:
        return _cumulative(x, "add", axis, dtype, include_initial, segments, order)
    except Elsewhere as there:
        return there.instead(cumulative_sum, locals())


def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
    segments: Segments | None = None,
    order: str = "tree",
) -> Any:
    """Running products along an axis, as the Python array API standard names and defines them: arguments are those of
    `cumulative_sum`, errors those of `scan`.

    >>> import upsweep as up
    >>> up.cumulative_prod([1, 2, 3, 4]).tolist()
    [1, 2, 6, 24]
    """
    try:
        return _cumulative(x, "mul", axis, dtype, include_initial, segments, order)
    except Elsewhere as there:
        return there.instead(cumulative_prod, locals())


def cummax(
    x: Any, *, axis: int | None = None, reverse: bool = False, out: Any = None, segments: Segments | None = None,
    order: str = "tree",
) -> Any:  # fmt: skip
    """Running maxima; a NaN stays from where it stands, as with `numpy.maximum.accumulate`, and 0.0 is above -0.0. Errors
    are those of `scan`.

    >>> import upsweep as up
    >>> up.cummax([2, 1, 5, 3]).tolist()
    [2, 2, 5, 5]
    """
    return scan(x, "max", axis=axis, reverse=reverse, out=out, segments=segments, order=order)


def cummin(
    x: Any, *, axis: int | None = None, reverse: bool = False, out: Any = None, segments: Segments | None = None,
    order: str = "tree",
) -> Any:  # fmt: skip
    """Running minima; a NaN stays from where it stands, as with `numpy.minimum.accumulate`, and -0.0 is below 0.0. Errors
    are those of `scan`.

    >>> import upsweep as up
    >>> up.cummin([2, 1, 5, 3]).tolist()
    [2, 1, 1, 1]
    """
    return scan(x, "min", axis=axis, reverse=reverse, out=out, segments=segments, order=order)


def cumlogsumexp(
    x: Any, *, axis: int | None = None, reverse: bool = False, out: Any = None, segments: Segments | None = None,
    order: str = "tree",
) -> Any:  # fmt: skip
    """`log(cumsum(exp(x)))` without overflow, for floating-point x. Errors are those of `scan`.

    exp and log1p are evaluated by arithmetic of our own, so that this too has the same bits on every machine.

    >>> import upsweep as up
    >>> up.cumlogsumexp([0.0, 0.0, 0.0, 0.0]).round(4).tolist()
    [0.0, 0.6931, 1.0986, 1.3863]
    """
    return scan(x, "logaddexp", axis=axis, reverse=reverse, out=out, segments=segments, order=order)


def linear_recurrence(
    a: Any,
    b: Any,
    *,
    initial: Any = None,
    axis: int | None = None,
    reverse: bool = False,
    out: Any = None,
    segments: Segments | None = None,
    order: str = "tree",
) -> Any:
    """`h[t] = a[t] h[t-1] + b[t]`, from `h[-1] = initial` (0 if not given): a scan of affine maps.

    Args:
        a, b: arrays of one shape, floating, complex or integer. `a` may also be a scalar or an array that broadcasts to the
            shape of `b`, without being copied. The recurrence is computed in b's dtype, which must hold `a`. Half precision is
            computed in float32, where numbers and arrays of another dtype keep their digits (bfloat16 would make 1 of 0.999).
        initial: the state before the first item, in the dtype that is computed in: a scalar, or one value a row (the shape
            without the axis).
        axis, reverse, out, segments: as in `scan`. In reverse `h[t] = a[t] h[t+1] + b[t]`.
        order: as in `scan`. "sequential" has the bits of the loop `h = a[t] * h + b[t]`, product and sum rounded each; half
            precision keeps h in float32 and rounds at the store.

    Returns:
        h, of b's shape, dtype, kind and device. Errors are those of `scan`.

    >>> import upsweep as up
    >>> up.linear_recurrence([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], initial=2.0).tolist()
    [2.0, 2.0, 2.0]

    Source: Blelloch (1990), section 1.4; Kogge and Stone (1973).
    """
    start = None if initial is None else (1, initial)
    try:
        return recall.run(
            (a, b),
            "affine",
            axis,
            False,
            reverse,
            start,
            None,
            out,
            segments,
            "auto",
            None,
            False,
            (1,),
            order,
        )
    except Elsewhere as there:
        return there.instead(linear_recurrence, locals())


def _cumulative(
    x: Any, op: str, axis: int | None, dtype: Any, include_initial: bool, segments: Segments | None, order: str
) -> Any:  # fmt: skip
    if compiling():
        return uncompiled(_cumulative, x, op, axis, dtype, include_initial, segments, order)
    if not include_initial:
        dtype = SUMMED if dtype is None else dtype
        return recall.run(
            x, op, axis, False, False, None, dtype, None, segments, "auto", None, False, None, order
        )
    alone(include_initial, segments)
    name = engines.choose((x,))
    on = engines.load(name)
    view = on.view(x)
    dtype = summed_dtype(view.dtype, dtype, integer_bytes(x))
    axis = axis_of(axis, view.shape)
    n, computed = view.shape[axis], view.dtype if dtype is None else dtype_of(dtype)
    y = on.empty(x, tuple(n + 1 if d == axis else size for d, size in enumerate(view.shape)), computed)
    first, rest = on.cut(y, axis, 0, 1), on.cut(y, axis, 1, n + 1)
    scan(view, op, axis=axis, dtype=computed, out=rest, order=order, engine=name)
    if isinstance(first, np.ndarray):
        first[...] = as_operator(op).identity
    else:
        # An exclusive scan of one item writes the identity, whatever the item is.
        scan(first, op, axis=axis, exclusive=True, out=first, engine=name)
    return on.give(x, y)
