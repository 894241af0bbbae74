"""Sums and extremes along an axis as a PyTorch operator: forwards reads the items. The gradient of a sum is that of every item,
and the gradient of an extreme is that of the last item that equals it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep.arguments import dtype_of
from upsweep.torch.differentiable import batched, differentiable, keep, plain
from upsweep.torch.operands import accumulator, readable
from upsweep.torch.ways import Call, Ways, run, shorter


@torch.library.custom_op("upsweep::reduction", mutates_args=())
def _reduction(x: Tensor, op: str, dim: int, reverse: bool, initial: Tensor | None, order: str) -> Tensor:
    start = None if initial is None else readable(initial)
    return up.reduce(readable(x), op, axis=dim, reverse=reverse, initial=start, order=order)


@_reduction.register_fake
def _(x: Tensor, op: str, dim: int, *_: Any) -> Tensor:
    return x.new_empty(x.shape[:dim] + x.shape[dim + 1 :])


@_reduction.register_vmap
def _(info: Any, in_dims: Any, x: Any, op: str, dim: int, reverse: bool, initial: Any, order: str) -> Any:
    x, initial = (batched(v, d, info.batch_size) for v, d in ((x, in_dims[0]), (initial, in_dims[4])))
    return _reduction(x, op, dim + 1, reverse, initial, order), 0


def fits(op: str, x: Tensor, initial: Tensor | None) -> bool:
    """Whether the gradient is known here. Whether an extreme is the initial value nobody asks."""
    return op == "add" or (op in ("max", "min") and initial is None and x.is_floating_point())


def _context(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, ctx.op, ctx.dim, ctx.reverse, initial, ctx.order = inputs
    ctx.shape, ctx.dtype, ctx.computed = x.shape, x.dtype, None if initial is None else initial.dtype
    # A sum's gradient reads neither.
    keep(ctx, *((None, None) if ctx.op == "add" else (x, output)))


def _backward(ctx: Any, g: Tensor) -> Any:
    x, y = ctx.saved_tensors
    into = None if ctx.computed is None else g.to(ctx.computed)
    if x is None:
        dx = g.unsqueeze(ctx.dim).expand(ctx.shape)
    elif torch.is_grad_enabled():
        dx = _at_extremes(g.unsqueeze(ctx.dim), x, y, ctx.dim, ctx.reverse)
    else:
        dx = _gradient(g, x, y, ctx.dim, ctx.reverse)
    return dx, None, None, None, into, None


def _at_extremes(d: Tensor, x: Tensor, y: Tensor, dim: int, reverse: bool) -> Tensor:
    """Derivatives at extremes, and 0 elsewhere, by operators that have gradients themselves."""
    x, y = x.detach(), y.detach()
    return torch.where(_gradient(torch.ones_like(y), x, y, dim, reverse) == 1, d, 0)


def _jvp(
    ctx: Any, dx: Tensor | None, _: Any, __: Any, ___: Any, d_initial: Tensor | None, *____: Any
) -> Tensor:
    if dx is None:
        assert d_initial is not None
        return d_initial.to(ctx.dtype)
    x, y = ctx.saved_tensors
    items = dx if x is None else _at_extremes(dx, x, y, ctx.dim, ctx.reverse)
    return reduction(items, "add", ctx.dim, ctx.reverse, d_initial, ctx.order)


reduction = differentiable(_reduction, _context, _backward, _jvp)


@torch.library.custom_op("upsweep::extreme_gradient", mutates_args=())
def _extreme_gradient(g: Tensor, x: Tensor, y: Tensor, dim: int, reverse: bool) -> Tensor:
    """The gradient of the items from the gradient g of their extremes y: one scan that reads the items."""
    return run(_backwards(g, x, y, dim, reverse))


def _backwards(g: Tensor, x: Tensor, y: Tensor, dim: int, reverse: bool) -> Call:
    given = readable(x), *(readable(v).unsqueeze(dim) for v in (y, g))
    how = {
        "axis": dim, "reverse": not reverse, "exclusive": True, "dtype": "bool", "map": _is_extreme,
        "finish": _chosen(accumulator(x.dtype)),
    }  # fmt: skip
    return Call(given, "or", torch.empty_like(x, memory_format=torch.contiguous_format), None, how)


def _is_extreme(x, y, g):
    """Whether an item equals the extreme, or is NaN, which is the extreme then."""
    return (x == y) | (x != x)


@cache
def _chosen(computed: torch.dtype) -> Any:
    none = dtype_of(computed).type(0)

    def chosen(later, x, y, g):
        return g if ((x == y) | (x != x)) & (later == 0) else none

    return chosen


@_extreme_gradient.register_fake
def _(g: Tensor, x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


@_extreme_gradient.register_vmap
def _(info: Any, in_dims: Any, g: Any, x: Any, y: Any, dim: int, reverse: bool) -> Any:
    g, x, y = (batched(v, d, info.batch_size) for v, d in zip((g, x, y), in_dims))
    return _extreme_gradient(g, x, y, dim + 1, reverse), 0


_gradient = plain(_extreme_gradient, ways=Ways(3, shorter(_backwards)))
