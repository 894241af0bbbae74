"""Exponential averages as a PyTorch operator, where the weight is a number: each way is one scan, which reads and writes once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep.torch.differentiable import batched, differentiable, keep, plain
from upsweep.torch.neighbours import segments_of, starts_of
from upsweep.torch.operands import accumulator, single
from upsweep.torch.recurrence_rules import recurrence


@torch.library.custom_op("upsweep::average", mutates_args=())
def _average(x: Tensor, alpha: float, heads: Tensor | None, dim: int, order: str) -> Tensor:
    x = x.detach()
    return up.ema(x, alpha, axis=dim, segments=segments_of(heads, x, dim), order=order)


@_average.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


@_average.register_vmap
def _(info: Any, in_dims: Any, x: Any, alpha: float, heads: Any, dim: int, order: str) -> Any:
    return _average(batched(x, in_dims[0]), alpha, batched(heads, in_dims[2]), dim + 1, order), 0


def _context(ctx: Any, inputs: Any, output: Tensor) -> None:
    _, ctx.alpha, heads, ctx.dim, ctx.order = inputs
    keep(ctx, heads)


def _backward(ctx: Any, g: Tensor) -> Any:
    """With `s[t] = g[t] + (1 - alpha) s[t+1]`, the gradient of x is `alpha s`, or s where an average starts from x."""
    (heads,) = ctx.saved_tensors
    if not torch.is_grad_enabled():
        return _gradient(g, ctx.alpha, heads, ctx.dim, ctx.order), *[None] * 4
    rest, weights = _coefficients(g, ctx.alpha, heads, ctx.dim)
    s = recurrence(rest, single(g), None, heads, ctx.dim, True, ctx.order)
    return (weights * s).to(g.dtype), *[None] * 4


@torch.library.custom_op("upsweep::average_gradient", mutates_args=())
def _average_gradient(g: Tensor, alpha: float, heads: Tensor | None, dim: int, order: str) -> Tensor:
    alone = heads is None
    given = (g, *(_numbers(g, alpha) if alone else _coefficients(g, alpha, heads, dim)))
    return up.scan(
        given, "affine", map=_behind, finish=_weighed_behind_first if alone else _weighed, axis=dim, reverse=True, order=order,
        dtype=accumulator(g.dtype), segments=segments_of(heads, g, dim), out=torch.empty_like(g),
    )  # fmt: skip


@_average_gradient.register_fake
def _(g: Tensor, *_: Any) -> Tensor:
    return g.new_empty(g.shape)


@_average_gradient.register_vmap
def _(info: Any, in_dims: Any, g: Any, alpha: float, heads: Any, dim: int, order: str) -> Any:
    return _average_gradient(batched(g, in_dims[0]), alpha, batched(heads, in_dims[2]), dim + 1, order), 0


_gradient = plain(_average_gradient)


def _behind(g, rest, weight):
    return rest, g


def _weighed(s, g, rest, weight):
    return weight * s[1]


def _weighed_behind_first(s, g, rest, weight, index):
    return s[1] if index == 0 else weight * s[1]


def _numbers(x: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """The share of itself that an average keeps, and the weight of an item."""
    weight = torch.full((1,) * x.ndim, alpha, dtype=accumulator(x.dtype), device=x.device)
    return 1 - weight, weight


def _coefficients(x: Tensor, alpha: float, heads: Tensor | None, dim: int) -> tuple[Tensor, Tensor]:
    """The share of itself that an average keeps, and the weight of an item; the weight is 1 where an average starts."""
    rest, weight = _numbers(x, alpha)
    return rest, torch.where(starts_of(heads, x, dim, False), 1, weight)


def _jvp(ctx: Any, dx: Tensor, *_: Any) -> Tensor:
    (heads,) = ctx.saved_tensors
    rest, weights = _coefficients(dx, ctx.alpha, heads, ctx.dim)
    return recurrence(rest, weights * single(dx), None, heads, ctx.dim, False, ctx.order).to(dx.dtype)


average = differentiable(_average, _context, _backward, _jvp)
