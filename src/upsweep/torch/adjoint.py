"""The gradients of a linear recurrence without a graph of their own: beside the results there is no array of its size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep.adjoint import (
    first_of,
    gradient_and_sums,
    gradient_at_once,
    gradients_at_once,
    known_at_once,
    known_gradients,
    recurrence_gradients,
    starts_from,
)
from upsweep.arguments import number_of
from upsweep.recall import never
from upsweep.torch.neighbours import (
    ahead,
    along,
    beside,
    beside_of,
    following,
    lies_beside,
    segments_of,
    starts,
)
from upsweep.torch.operands import accumulator, readable, single
from upsweep.torch.ways import Way

_HALF = torch.float16, torch.bfloat16


def gradients(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str,
    wanted: bool,
) -> tuple[Tensor | None, Tensor, Tensor | None]:  # fmt: skip
    """The gradients of a (where it is wanted), of b and of initial, from the gradient of h, or None; all numbers are real.

    `s[t] = g[t] + a[t+1] s[t+1]` is the gradient of b, and `s[t] h[t-1]` that of a, summed where a broadcasts: the products are
    made within the sum, or within the scan where the engine sums there, in an order of its own. Half precision is computed in
    float32. Where a broadcasts, but not over time, the products that a second pass sums are those of the rounded s, as h has been
    rounded, too.
    """
    g, a, h = readable(g), readable(a), readable(h)
    initial = None if initial is None else readable(initial)
    whole = a.shape == h.shape
    if wanted and in_one_pass(a, h, heads, order):
        da, db = recurrence_gradients(g, a, h, axis=dim, reverse=reverse, initial=initial)
        return da, db, None if initial is None else _of_initial(a, db, initial, None, dim, reverse)
    read = wanted or initial is not None
    flags = starts(heads, dim, reverse) if heads is not None and read else None
    if whole:
        da, db = _at_once(g, a, h if wanted else None, initial, heads, flags, dim, reverse, order)
    else:
        given = g, a, h, initial, heads, flags, dim, reverse
        made = _with_sums(*given, order) if wanted else None
        da, db = made or _in_two_passes(*given, order, wanted)
    return da, db, None if initial is None else _of_initial(a, db, initial, flags, dim, reverse)


def _in_two_passes(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, heads: Tensor | None, flags: Tensor | None, dim: int,
    reverse: bool, order: str, wanted: bool,
) -> tuple[Tensor | None, Tensor]:  # fmt: skip
    """The gradients of a multiplier that broadcasts, where it is wanted, and of b."""
    db = _backwards(g, a, heads, dim, reverse, order)
    if not wanted:
        return None, db
    rounded = a.shape[dim] > 1 or h.dtype not in _HALF
    made = (_sums if rounded else _sums_within)(db if rounded else g, a, h, initial, flags, dim, reverse)
    return made.to(a.dtype), db


def shorter(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str,
    wanted: bool,
) -> Way | None:  # fmt: skip
    """The way of `gradients` for calls like this one."""
    if a.shape != h.shape or not wanted or heads is not None:
        return gradients
    made = (_shorter_at_once if order == "tree" else _shorter_in_order)(g, a, h, initial, dim, reverse)
    if made is None or made is never or made is gradients or initial is None:
        return made

    def way(g: Tensor, a: Tensor, h: Tensor, initial: Tensor, *_: Any) -> Any:
        found = made(g, a, h, initial)
        return found and (*found[:2], _of_initial(a, found[1], initial, None, dim, reverse))

    return way


def _shorter_in_order(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, dim: int, reverse: bool
) -> Way | None:
    """The same in order, without the gradient of the initial state."""
    known = known_gradients(g, a, h, starts_from(initial), axis=dim, reverse=reverse)
    if known is None or known is never:
        return known

    def way(g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, *_: Any) -> Any:
        made = known((g, a, h), starts_from(initial), None, None)
        return made and (made[1], made[0], None)

    return way


def _shorter_at_once(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, dim: int, reverse: bool
) -> Way | None:
    """The same in the order of the tree, where the state before each item lies beside it."""
    beside = beside_of(h, dim, reverse)
    before = beside(h)
    if before is None:
        return gradients
    first = first_of(g, dim, reverse)
    start = 0.0 if initial is None else initial.unsqueeze(dim)
    known = known_at_once(g, a, before, start, first, axis=dim, reverse=reverse, order="tree")
    if known is None or known is never:
        return known

    def way(g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, *_: Any) -> Any:
        before, start = beside(h), 0.0 if initial is None else initial.unsqueeze(dim)
        made = None if before is None else known((g, a, before, start, first), None, None, None)
        return made and (*made, None)

    return way


def in_one_pass(a: Tensor, h: Tensor, heads: Tensor | None, order: str) -> bool:
    """Whether one pass makes the gradients and finds the state before each item in its neighbour."""
    return order == "sequential" and heads is None and a.shape == h.shape


def _backwards(g: Tensor, a: Tensor, heads: Tensor | None, dim: int, reverse: bool, order: str) -> Tensor:
    how = {
        "segments": segments_of(heads, g, dim),
        "reverse": not reverse,
        "order": order,
        "out": torch.empty_like(g, memory_format=torch.contiguous_format),
    }
    return up.linear_recurrence(ahead(a, dim, reverse).expand(g.shape), g, axis=dim, **how)


def _at_once(
    g: Tensor, a: Tensor, h: Tensor | None, initial: Tensor | None, heads: Tensor | None, flags: Tensor | None, dim: int,
    reverse: bool, order: str,
) -> tuple[Tensor | None, Tensor]:  # fmt: skip
    """The gradients of a, if h is given, and of b, by one scan that reads every array once."""
    how = {"axis": dim, "reverse": reverse, "order": order, "segments": segments_of(heads, g, dim)}
    if h is None:
        return None, gradient_at_once(g, a, **how)
    # A scan in order takes less time with a zero from memory: packed sequences of bf16 .54 of a copy, .48 with a number (H200).
    zero = 0.0 if order == "tree" else g.new_zeros((), dtype=accumulator(g.dtype))
    start = zero if initial is None else initial.unsqueeze(dim)
    return gradients_at_once(g, a, beside(h, dim, reverse), start, flags, **how)


def _with_sums(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, heads: Tensor | None, flags: Tensor | None, dim: int,
    reverse: bool, order: str,
) -> tuple[Tensor, Tensor] | None:  # fmt: skip
    """The gradients of a multiplier that holds for all times or for neighbours, and of b, by one scan that sums products as it
    makes them; None where the engine has none, or the state before each item lies nowhere beside it.
    """
    axis = summed_along(a, dim)
    if axis is None or not lies_beside(h, dim, reverse):
        return None
    start = 0.0 if initial is None else initial.unsqueeze(dim)
    a_then = ahead(a, dim, reverse) if order == "tree" else a
    how = {"axis": dim, "reverse": reverse, "order": order, "segments": segments_of(heads, g, dim)}
    made = gradient_and_sums(g, a_then, beside(h, dim, reverse), start, flags, across=axis != dim, **how)
    if made is None:
        return None
    return total(made[1], a, axis, axis == dim and not reverse), made[0]


def total(sums: Tensor, a: Tensor, axis: int, reverse: bool) -> Tensor:
    """The gradient of a from its sums along an axis."""
    return up.reduce(sums, axis=axis, reverse=reverse).unsqueeze(axis).sum_to_size(a.shape).to(a.dtype)


def summed_along(a: Tensor, dim: int) -> int | None:
    """The axis along which a scan sums the gradient of what broadcasts as `a` does: that of time, or the last one."""
    return dim if a.shape[dim] == 1 else a.ndim - 1 if a.shape[-1] == 1 and dim < a.ndim - 1 else None


def _sums(
    s: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, flags: Tensor | None, dim: int, reverse: bool
) -> Tensor:
    """The sum of `s[t] h[t-1]` over all items for which an item of a holds."""
    n = h.shape[dim]
    first = single(along(s, dim, reverse, 0, 1))
    first = torch.zeros_like(first) if initial is None else first * initial.unsqueeze(dim)
    rest = [along(s, dim, reverse, 1, n - 1), along(h, dim, reverse, 0, n - 1)]
    if flags is not None:
        rest.append(along(flags.expand(s.shape), dim, reverse, 1, n - 1))
        rest += [] if initial is None else [initial.unsqueeze(dim).expand(rest[0].shape)]
    over = [d for d in range(a.ndim) if a.shape[d] < h.shape[d]]
    axis = dim if dim in over else over[-1]
    shape = [1 if d in over else m for d, m in enumerate(rest[0].shape)]
    made = first.new_zeros(shape)
    if n > 1:
        if _alike_from(a, dim):
            rest = _folded(rest, dim)
        made = up.reduce(tuple(rest), axis=axis, map=_MAPS[len(rest)], dtype=first.dtype)
        made = made.unsqueeze(axis).sum_to_size(shape)
    first = first.sum_to_size([1 if d in over else m for d, m in enumerate(first.shape)])
    if dim in over or n == 1:
        return first + made if dim in over else first
    return torch.cat([made, first] if reverse else [first, made], dim)


def _alike_from(a: Tensor, dim: int) -> bool:
    """Whether one item of a multiplier holds for all times and for all that lies within a time."""
    return all(m == 1 for m in a.shape[dim:])


def _folded(xs: list[Tensor], dim: int) -> list[Tensor]:
    """Tensors with all that lies within a time behind one another along the axis of time, where memory is so: rows along memory
    are summed faster than columns are. Of a copy (H200), forward and backward: a multiplier without dimensions f4 .69 -> .725.
    """
    shape = *xs[0].shape[:dim], -1, *[1] * (xs[0].ndim - dim - 1)
    try:
        return [x.view(shape) for x in xs]
    except RuntimeError:
        return xs


def _sums_within(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, flags: Tensor | None, dim: int, reverse: bool
) -> Tensor:
    """The sum of `s[t] h[t-1]` for a multiplier that holds for whole rows, where s has been rounded: s is computed once more
    within the sum.
    """
    start = 0.0 if initial is None else initial.unsqueeze(dim)
    given = g, a, beside(h, dim, reverse), start
    if flags is None:
        given, enter = (*given, number_of(h.shape[dim] - 1 if reverse else 0)), _enter_row
    else:
        given, enter = (*given, flags, following(flags, dim, reverse)), _enter_segments
    op = _AFTER if reverse else _BEFORE
    return (
        up.reduce(given, op, axis=dim, map=enter, finish=_product_alone).unsqueeze(dim).sum_to_size(a.shape)
    )


def _of_initial(
    a: Tensor, db: Tensor, initial: Tensor, flags: Tensor | None, dim: int, reverse: bool
) -> Tensor:
    """The sum of `a[t] db[t]` over the items that start a segment."""
    if flags is None:
        one = a if a.shape[dim] == 1 else along(a, dim, reverse, 0, 1)
        return (one * along(db, dim, reverse, 0, 1)).squeeze(dim).to(initial.dtype)
    given = a.expand(db.shape), db, flags.expand(db.shape)
    return up.reduce(given, axis=dim, map=_started).to(initial.dtype)


# The functions below are maps of items, and their composition. An item gets s from the item behind it and hands on `p s + q`;
# `u s + v` is the sum of s times the state before.


def _enter_row(g, a, before, start, first, index):
    h = start if index == first else before
    return a, g, h * a, h * g


def _enter_segments(g, a, before, start, starts, ends):
    h, a = start if starts else before, 0.0 if ends else a
    return a, g, h * a, h * g


def _before(x, y):
    return x[0] * y[0], x[0] * y[1] + x[1], x[2] * y[0] + y[2], x[2] * y[1] + x[3] + y[3]


def _after(x, y):
    return y[0] * x[0], y[0] * x[1] + y[1], y[2] * x[0] + x[2], y[2] * x[1] + x[3] + y[3]


_BEFORE, _AFTER = up.Operator(_before), up.Operator(_after)


def _product_alone(made):
    return made[3]


def _product(s, before):
    return s * before


def _product_within(s, before, starts):
    return 0.0 if starts else s * before


def _product_from(s, before, starts, initial):
    return s * (initial if starts else before)


def _started(a, s, starts):
    return a * s if starts else 0.0


_MAPS = {2: _product, 3: _product_within, 4: _product_from}
