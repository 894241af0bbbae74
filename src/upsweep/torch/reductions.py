"""Sums, extremes and log-sums along an axis as a PyTorch operator: forwards reads the items. The gradient of a sum is that of
every item, that of an extreme is that of the last item that equals it, and of a log-sum each item has its share.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep.arguments import dtype_of
from upsweep.arithmetic import LOG_ADD_EXP, decay_in
from upsweep.torch.differentiable import batched, differentiable, keep, plain
from upsweep.torch.operands import accumulator, readable, single
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
    known = op == "logaddexp" or (op in ("max", "min") and initial is None)
    return op == "add" or (known and x.is_floating_point())


def _context(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, ctx.op, ctx.dim, ctx.reverse, initial, ctx.order = inputs
    ctx.shape, ctx.dtype, ctx.computed = x.shape, x.dtype, None if initial is None else initial.dtype
    # A sum's gradient reads none of them.
    keep(ctx, *((None, None, None) if ctx.op == "add" else (x, output, initial)))


def _backward(ctx: Any, g: Tensor) -> Any:
    x, y, initial = ctx.saved_tensors
    into = None if ctx.computed is None else g.to(ctx.computed)
    if initial is not None and into is not None:
        into = into * _shares(initial, single(y)).to(ctx.computed)
    if x is None:
        dx = g.unsqueeze(ctx.dim).expand(ctx.shape)
    elif torch.is_grad_enabled():
        dx = _composed(g.unsqueeze(ctx.dim), x, y, ctx.op, ctx.dim, ctx.reverse)
    else:
        dx = _gradient(g, x, y, ctx.op, ctx.dim, ctx.reverse)
    return dx, None, None, None, into, None


def _composed(d: Tensor, x: Tensor, y: Tensor, op: str, dim: int, reverse: bool) -> Tensor:
    """The derivatives of all items, by operators that have gradients themselves."""
    if op == "logaddexp":
        return (single(d) * _shares(single(x), single(y).unsqueeze(dim))).to(x.dtype)
    return _at_extremes(d, x, y, op, dim, reverse)


def _shares(x: Tensor, y: Tensor) -> Tensor:
    """The share of each item in the log-sum y, with an infinite one all of it."""
    return torch.where(x == y, 1, torch.exp(torch.where(x == y, 0, x - y)))


def _at_extremes(d: Tensor, x: Tensor, y: Tensor, op: str, dim: int, reverse: bool) -> Tensor:
    """Derivatives at extremes, and 0 elsewhere, by operators that have gradients themselves."""
    x, y = x.detach(), y.detach()
    return torch.where(_gradient(torch.ones_like(y), x, y, op, dim, reverse) == 1, d, 0)


def _jvp(
    ctx: Any, dx: Tensor | None, _: Any, __: Any, ___: Any, d_initial: Tensor | None, *____: Any
) -> Tensor:
    x, y, initial = ctx.saved_tensors
    if initial is not None and d_initial is not None:
        d_initial = d_initial * _shares(initial, single(y)).to(d_initial.dtype)
    if dx is None:
        assert d_initial is not None
        return d_initial.to(ctx.dtype)
    items = dx if x is None else _composed(dx, x, y, ctx.op, ctx.dim, ctx.reverse)
    return reduction(items, "add", ctx.dim, ctx.reverse, d_initial, ctx.order)


reduction = differentiable(_reduction, _context, _backward, _jvp)


@torch.library.custom_op("upsweep::reduction_gradient", mutates_args=())
def _reduction_gradient(g: Tensor, x: Tensor, y: Tensor, op: str, dim: int, reverse: bool) -> Tensor:
    """The gradient of the items from the gradient g of their extremes or log-sums y: one scan that reads the items."""
    return run(_backwards(g, x, y, op, dim, reverse))


def _backwards(g: Tensor, x: Tensor, y: Tensor, op: str, dim: int, reverse: bool) -> Call:
    given, computed = (readable(x), *(readable(v).unsqueeze(dim) for v in (y, g))), accumulator(x.dtype)
    within, leave = (_nothing, _share(computed)) if op == "logaddexp" else (_is_extreme, _chosen(computed))
    how = {
        "axis": dim, "reverse": not reverse, "exclusive": True, "dtype": "bool", "map": within, "finish": leave,
    }  # fmt: skip
    return Call(given, "or", torch.empty_like(x, memory_format=torch.contiguous_format), None, how)


def _is_extreme(x, y, g):
    """Whether an item equals the extreme, or is NaN, which is the extreme then."""
    return (x == y) | (x != x)


def _nothing(x, y, g):
    return False


@cache
def _chosen(computed: torch.dtype) -> Any:
    none = dtype_of(computed).type(0)

    def chosen(later, x, y, g):
        return g if ((x == y) | (x != x)) & (later == 0) else none

    return chosen


@cache
def _share(computed: torch.dtype) -> Any:
    numbers = LOG_ADD_EXP["f4" if computed == torch.float32 else "f8"]
    decay, none, far = decay_in(numbers), numbers.real(0), numbers.real(numbers.far)

    def share(later, x, y, g):
        # Of a NaN every item's gradient is NaN.
        d = abs(y - x)
        return g if x == y else none if d >= far else g * (decay(min(d, far)) + (d - d))

    return share


@_reduction_gradient.register_fake
def _(g: Tensor, x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


@_reduction_gradient.register_vmap
def _(info: Any, in_dims: Any, g: Any, x: Any, y: Any, op: str, dim: int, reverse: bool) -> Any:
    g, x, y = (batched(v, d, info.batch_size) for v, d in zip((g, x, y), in_dims))
    return _reduction_gradient(g, x, y, op, dim + 1, reverse), 0


_gradient = plain(_reduction_gradient, ways=Ways(shorter(_backwards)))
