"""Scans under an operator, and reductions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import ShapedArray, Tracer
from jax.extend.core import Primitive

from upsweep.api import Op
from upsweep.arguments import alone, axis_of, check_any, parts_of, shape_of, summed_dtype
from upsweep.dtypes import accumulator
from upsweep.jax import rules
from upsweep.jax.buffers import result_of
from upsweep.jax.operands import array, rows_of
from upsweep.jax.primitives import call, in_front, present, registered
from upsweep.jax.segments import heads_of, offsets_of
from upsweep.operator import Operator, OperatorError, identity_of, resolve
from upsweep.operators import as_operator, ops
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
    segments: Segments | None = None,
    order: str = "tree",
) -> Any:
    """All prefixes under an associative operator, as `upsweep.scan`.

    Args:
        xs: an array, or a tuple of arrays of one shape (without gradients; see `linear_recurrence`).
        op, axis, exclusive, reverse, initial: as in `upsweep.scan`. One array has derivatives for the built-in operators and
            for every Python function that JAX can trace (holomorphic, of complex numbers).
        dtype: the dtype to convert to first.
        segments, order: as in `upsweep.scan`; offsets that are traced are not checked.

    Returns:
        An array (a tuple of them) of the input's shape and dtype.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.scan(jnp.array([3, 1, 7, 0]), "max").tolist()
    [3, 3, 7, 7]
    """
    op = as_operator(op)
    if isinstance(xs, tuple):
        check_any(xs)
        xs = tuple(array(x, dtype) for x in xs)
        dim = axis_of(axis, shape_of([x.shape for x in xs])) - xs[0].ndim
        parts = () if initial is None else parts_of(initial, len(xs), "initial")
        starts = tuple(rows_of(v, x, dim) for v, x in zip(parts, xs)) or None
        heads = heads_of(segments, xs[0], dim)
        return tuple(
            _TUPLE.bind(
                *xs, *(starts or ()), *present(heads), op=op, dim=dim, exclusive=exclusive, reverse=reverse, order=order,
                parts=len(xs), started=starts is not None,
            )
        )  # fmt: skip
    x = array(xs, dtype)
    # Counted from the end, an axis stays the same within vmap.
    dim = axis_of(axis, x.shape) - x.ndim
    start = None if initial is None else rows_of(initial, x, dim)
    return rules.scan(op, dim, exclusive, reverse, x, start, heads_of(segments, x, dim), order)


def _run_tuple(
    *args: Array,
    op: Operator,
    dim: int,
    exclusive: bool,
    reverse: bool,
    order: str,
    parts: int,
    started: bool,
) -> list[Array]:
    starts = args[parts : 2 * parts] if started else None
    heads = args[-1] if len(args) > parts * (1 + started) else None
    return list(call(op, dim, exclusive, reverse, args[:parts], starts, heads, order))


def _shapes(*args: Any, parts: int, **_: Any) -> list[ShapedArray]:
    return [*map(result_of, args[:parts])]


def _refused(*_: Any, **__: Any) -> Any:
    raise OperatorError(
        "a scan of a tuple has no derivatives: pass the arrays of an affine one to upsweep.jax.linear_recurrence"
    )


def _batch(made: Primitive, args: Any, dims: Any, **params: Any) -> Any:
    whole = range(params["parts"] * (1 + params["started"]))
    ys = made.bind(*in_front(args, dims, whole), **params)
    return ys, [0] * len(ys)


_TUPLE = registered("tuple", _run_tuple, _shapes, _refused, None, _batch, several=True)


def reduce(
    x: Any,
    op: Op = "add",
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: Any = None,
    dtype: Any = None,
    segments: Segments | None = None,
    order: str = "tree",
) -> Array:
    """The last prefix, or that of every segment, as `upsweep.reduce`, differentiable as `scan` is.

    Args:
        x: an array.
        op, axis, reverse, initial, dtype, order: as in `scan`.
        segments: one result a segment, along the axis. An empty one has `initial` or the operator's identity. Inside `jit`
            only offsets and lengths tell how many there are.

    Raises:
        ShapeError: the number of segments is not known where the call is traced.
        OperatorError: nothing reduces to nothing: a segment may be empty, and there is no identity.

    >>> import jax.numpy as jnp, upsweep as up, upsweep.jax as uj
    >>> uj.reduce(jnp.arange(5), segments=up.segments.lengths([2, 0, 3])).tolist()
    [1, 0, 9]
    """
    x, op = array(x, dtype), as_operator(op)
    dim = axis_of(axis, x.shape)
    n = x.shape[dim]
    y = scan(x, op, axis=dim, reverse=reverse, initial=initial, segments=segments, order=order)
    if segments is None:
        return jnp.take(y, 0 if reverse else n - 1, dim) if n else _nothing(op, y, initial, dim)
    ends = offsets_of(segments, x, dim)
    first, behind = ends[:-1], ends[1:]
    if n == 0:
        shape = tuple([len(first) if d == dim else size for d, size in enumerate(y.shape)])
        return jnp.broadcast_to(jnp.expand_dims(_nothing(op, y, initial, dim), dim), shape)
    empty = first == behind
    made = jnp.take(y, jnp.clip(first if reverse else behind - 1, 0, n - 1), dim, mode="fill")
    if not isinstance(empty, Tracer) and not empty.any():
        return made
    empty = empty.reshape([-1 if d == dim else 1 for d in range(x.ndim)])
    return jnp.where(empty, jnp.expand_dims(_nothing(op, y, initial, dim), dim), made)


def _nothing(op: Operator, y: Array, initial: Any, dim: int) -> Array:
    """The reduction of no items, for each row."""
    shape = [n for d, n in enumerate(y.shape) if d != dim]
    if initial is not None:
        return jnp.broadcast_to(jnp.asarray(initial, y.dtype), shape)
    dtypes = (np.dtype(y.dtype),)
    identity = identity_of(resolve(op, dtypes), tuple(map(accumulator, dtypes)))
    if identity is None:
        raise OperatorError(f"the reduction of nothing needs an identity, and {op} has none: pass initial=")
    return jnp.full(shape, identity[0], y.dtype)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False,
    segments: Segments | None = None, order: str = "tree",
) -> Array:  # fmt: skip
    """Running totals, as `upsweep.cumulative_sum`; integers narrower than JAX's default are summed as the default.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cumulative_sum(jnp.array([1, 2, 3])).tolist()
    [1, 3, 6]
    """
    return _cumulative(x, ops.ADD, axis, dtype, include_initial, segments, order)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False,
    segments: Segments | None = None, order: str = "tree",
) -> Array:  # fmt: skip
    """Running products, as `upsweep.cumulative_prod`; narrow integers as in `cumulative_sum`. The gradient holds where items
    are zero.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cumulative_prod(jnp.array([2, 3, 4])).tolist()
    [2, 6, 24]
    """
    return _cumulative(x, ops.MUL, axis, dtype, include_initial, segments, order)


def _cumulative(
    x: Any, op: Operator, axis: int | None, dtype: Any, include_initial: bool, segments: Segments | None, order: str
) -> Array:  # fmt: skip
    alone(include_initial, segments)
    x = array(x, dtype)
    x = jnp.asarray(x, summed_dtype(x.dtype, dtype, 8 if jax.config.read("jax_enable_x64") else 4))
    dim = axis_of(axis, x.shape)
    if include_initial:
        # The exclusive scan of one item more begins with the identity and ends with the last total.
        x = jnp.pad(x, [(0, int(d == dim)) for d in range(x.ndim)])
    return scan(x, op, axis=dim, exclusive=include_initial, segments=segments, order=order)


def cummax(
    x: Any, *, axis: int | None = None, reverse: bool = False, segments: Segments | None = None, order: str = "tree"
) -> Array:  # fmt: skip
    """Running maxima, as `upsweep.cummax`; of equal items the later one has the gradient.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cummax(jnp.array([2, 1, 5, 3])).tolist()
    [2, 2, 5, 5]
    """
    return scan(x, ops.MAX, axis=axis, reverse=reverse, segments=segments, order=order)


def cummin(
    x: Any, *, axis: int | None = None, reverse: bool = False, segments: Segments | None = None, order: str = "tree"
) -> Array:  # fmt: skip
    """Running minima, as `upsweep.cummin`; of equal items the later one has the gradient.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.cummin(jnp.array([2, 1, 5, 3])).tolist()
    [2, 1, 1, 1]
    """
    return scan(x, ops.MIN, axis=axis, reverse=reverse, segments=segments, order=order)


def cumlogsumexp(
    x: Any, *, axis: int | None = None, reverse: bool = False, segments: Segments | None = None, order: str = "tree"
) -> Array:  # fmt: skip
    """`log(cumsum(exp(x)))` without overflow, as `upsweep.cumlogsumexp`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> jnp.exp(uj.cumlogsumexp(jnp.zeros(4))).round().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return scan(x, ops.LOGADDEXP, axis=axis, reverse=reverse, segments=segments, order=order)
