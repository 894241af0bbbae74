"""Exponential averages as a PyTorch operator. Forwards is one scan. Backwards is one, too, which makes the gradients of the
items, of the weights and of the first averages, unless that of averages that start segments is asked for. Half precision is
never stored as float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from upsweep.torch.average_gradients import empty_like, flags, gradients, weights
from upsweep.torch.differentiable import batched, differentiable, keep
from upsweep.torch.neighbours import (
    ahead,
    before,
    over_starts,
    segments_of,
    starts_of,
    with_room,
    zero_before,
)
from upsweep.torch.operands import accumulator, readable, single
from upsweep.torch.recurrence_rules import recurrence
from upsweep.torch.ways import Call, Ways, run, shorter


@torch.library.custom_op("upsweep::average", mutates_args=())
def _average(
    x: Tensor, alpha: float, weight: Tensor | None, initial: Tensor | None, heads: Tensor | None, dim: int, order: str
) -> Tensor:  # fmt: skip
    """`y[t] = (1 - alpha) y[t-1] + alpha x[t]`, from `initial`, one a row, or from the first item. A weight stands in alpha's
    place: it has the dtype that x is computed in and x's rank, and axes of one item hold for all of x's.
    """
    # In a compiled graph nobody knows here whether the weight has a gradient.
    return run(_into(_room(x, weight, dim), x, alpha, weight, initial, heads, dim, order))


def _room(x: Tensor, weight: Tensor | None, dim: int) -> Tensor:
    """Memory with room before the first average, where the gradient of a weight reads the average before each item."""
    return empty_like(x) if weight is None else with_room(x, dim, False)


def _forwards(
    x: Tensor, alpha: float, weight: Tensor | None, initial: Tensor | None, heads: Tensor | None, dim: int, order: str
) -> Call:  # fmt: skip
    """The scan, with that room where the weight has a gradient."""
    graded = weight is not None and weight.requires_grad
    return _into(_room(x, weight if graded else None, dim), x, alpha, weight, initial, heads, dim, order)


def _average_with_room(*args: Any) -> Tensor:
    return run(_forwards(*args))


def _into(
    out: Tensor, x: Tensor, alpha: float, weight: Tensor | None, initial: Tensor | None, heads: Tensor | None, dim: int,
    order: str,
) -> Call:  # fmt: skip
    x = readable(x)
    how = {"axis": dim, "order": order, "dtype": accumulator(x.dtype), "finish": _state}
    given, segments = (x, weights(alpha, weight, x)), segments_of(heads, x, dim)
    if initial is None:
        return Call((*given, flags(heads, x)), "affine", out, segments, {**how, "map": _from_first})
    return Call(given, "affine", out, segments, {**how, "map": _onwards}, (1, readable(initial)))


def _from_first(x, alpha, starts, index):
    """The map from the average before an item to the average behind it. An item that nothing stands before is the average."""
    return 1 - alpha, x if index == 0 or starts else alpha * x


def _onwards(x, alpha):
    return 1 - alpha, alpha * x


def _state(prefix):
    return prefix[1]


@_average.register_fake
def _(x: Tensor, alpha: float, weight: Any, initial: Any, heads: Any, dim: int, order: str) -> Tensor:
    return _room(x, weight, dim)


@_average.register_vmap
def _(
    info: Any, in_dims: Any, x: Any, alpha: float, weight: Any, initial: Any, heads: Any, dim: int, order: str
) -> Any:
    weight, heads = batched(weight, in_dims[2]), batched(heads, in_dims[4])
    x, initial = (batched(v, d, info.batch_size) for v, d in ((x, in_dims[0]), (initial, in_dims[3])))
    return _average(x, alpha, weight, initial, heads, dim + 1, order), 0  # type: ignore[call-arg]


def _context(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, ctx.alpha, weight, initial, heads, ctx.dim, ctx.order = inputs
    ctx.shape, ctx.dtype = x.shape, x.dtype
    # A number has no gradient, which alone reads items and averages.
    items = (None, None) if weight is None else (x, output)
    keep(ctx, *items, weight, initial, heads)


def _backward(ctx: Any, g: Tensor) -> Any:
    x, y, weight, initial, heads = ctx.saved_tensors
    wanted, from_initial = ctx.needs_input_grad[2:4]
    if torch.is_grad_enabled() or (from_initial and heads is not None):
        dx, dw, into = _composed(g, x, y, ctx.alpha, weight, initial, heads, ctx.dim, ctx.order)
    else:
        items = (x, y) if wanted else (None, None)
        dx, dw, into = gradients(
            g, *items, ctx.alpha, weight, initial, heads, from_initial, ctx.dim, ctx.order
        )
    return dx, None, dw if wanted else None, into if from_initial else None, None, None, None


def _composed(
    g: Tensor, x: Tensor | None, y: Tensor | None, alpha: float, weight: Tensor | None, initial: Tensor | None,
    heads: Tensor | None, dim: int, order: str,
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of x, weight and initial, by operators that have gradients themselves."""
    rest, at_items = _coefficients(g, alpha, weight, initial, heads, dim)
    s = recurrence(ahead(rest, dim, False), single(g), None, heads, dim, True, order)
    dw = into = None
    if x is not None and y is not None and weight is not None:
        dw = (s * _above(x, y, initial, heads, dim)).sum_to_size(weight.shape)
    if initial is not None:
        into = over_starts(rest * s, heads, dim, False)
    return (at_items * s).to(g.dtype), dw, into


def _coefficients(
    x: Tensor, alpha: float, weight: Tensor | None, initial: Tensor | None, heads: Tensor | None, dim: int
) -> tuple[Tensor, Tensor]:
    """The share of itself that an average keeps, and the weight of an item; that is 1 where an average starts from its item."""
    if weight is None:
        weight = torch.full((1,) * x.ndim, alpha, dtype=accumulator(x.dtype), device=x.device)
    at_items = weight if initial is not None else torch.where(starts_of(heads, x, dim, False), 1, weight)
    return 1 - weight, at_items


def _above(x: Tensor, y: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int) -> Tensor:
    """By how much an item is above the average before it; by nothing where an average starts from its item."""
    x, y = single(x), single(y)
    first = zero_before(y, dim) if initial is None else initial
    above = x - before(y, first, heads, dim, False)
    return above if initial is not None else torch.where(starts_of(heads, x, dim, False), 0, above)


def _jvp(
    ctx: Any, dx: Tensor | None, _: Any, dw: Tensor | None, d_initial: Tensor | None, *__: Any
) -> Tensor:
    x, y, weight, initial, heads = ctx.saved_tensors
    given = next(d for d in (dx, dw, d_initial) if d is not None)
    moved = given.new_zeros(ctx.shape, dtype=accumulator(ctx.dtype))
    rest, at_items = _coefficients(moved, ctx.alpha, weight, initial, heads, ctx.dim)
    if dx is not None:
        moved = at_items * single(dx)
    if dw is not None:
        moved = moved + dw * _above(x, y, initial, heads, ctx.dim)
    return recurrence(rest, moved, d_initial, heads, ctx.dim, False, ctx.order).to(ctx.dtype)


AVERAGES = Ways(shorter(_forwards))
"""The ways of averages, whose operands are those of `upsweep::average`."""
average = differentiable(_average, _context, _backward, _jvp, _average_with_room, AVERAGES)
