"""Exponential averages as a PyTorch operator, where the weight is a number: each way is one scan, which reads and writes once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from upsweep.torch.differentiable import batched, differentiable, keep, plain
from upsweep.torch.neighbours import segments_of, starts_of
from upsweep.torch.operands import accumulator, readable, single
from upsweep.torch.recurrence_rules import recurrence
from upsweep.torch.ways import Call, Ways, run, shorter


@torch.library.custom_op("upsweep::average", mutates_args=())
def _average(x: Tensor, alpha: float, heads: Tensor | None, dim: int, order: str) -> Tensor:
    return run(_forwards(x, alpha, heads, dim, order))


def _forwards(x: Tensor, alpha: float, heads: Tensor | None, dim: int, order: str) -> Call:
    x = readable(x)
    given = x, alpha, False if heads is None else heads.expand(x.shape)
    how = {"axis": dim, "order": order, "dtype": accumulator(x.dtype), "map": _from_first, "finish": _state}
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    return Call(given, "affine", out, segments_of(heads, x, dim), how)


def _from_first(x, alpha, starts, index):
    """The map from the average before an item to the average behind it. An item that nothing stands before is the average."""
    return 1 - alpha, x if index == 0 or starts else alpha * x


def _state(prefix):
    return prefix[1]


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
    return run(_backwards(g, alpha, heads, dim, order))


def _backwards(g: Tensor, alpha: float, heads: Tensor | None, dim: int, order: str) -> Call:
    g = readable(g)
    given = g, alpha, False if heads is None else heads.expand(g.shape)
    how = {
        "axis": dim, "reverse": True, "order": order, "dtype": accumulator(g.dtype), "map": _behind, "finish": _weighed,
    }  # fmt: skip
    out = torch.empty_like(g, memory_format=torch.contiguous_format)
    return Call(given, "affine", out, segments_of(heads, g, dim), how)


@_average_gradient.register_fake
def _(g: Tensor, *_: Any) -> Tensor:
    return g.new_empty(g.shape)


@_average_gradient.register_vmap
def _(info: Any, in_dims: Any, g: Any, alpha: float, heads: Any, dim: int, order: str) -> Any:
    return _average_gradient(batched(g, in_dims[0]), alpha, batched(heads, in_dims[2]), dim + 1, order), 0


_gradient = plain(_average_gradient, ways=Ways(1, shorter(_backwards)))


def _behind(g, alpha, starts):
    return 1 - alpha, g


def _weighed(s, g, alpha, starts, index):
    return s[1] if index == 0 or starts else alpha * s[1]


def _coefficients(x: Tensor, alpha: float, heads: Tensor | None, dim: int) -> tuple[Tensor, Tensor]:
    """The share of itself that an average keeps, and the weight of an item; the weight is 1 where an average starts."""
    weight = torch.full((1,) * x.ndim, alpha, dtype=accumulator(x.dtype), device=x.device)
    return 1 - weight, torch.where(starts_of(heads, x, dim, False), 1, weight)


def _jvp(ctx: Any, dx: Tensor, *_: Any) -> Tensor:
    (heads,) = ctx.saved_tensors
    rest, weights = _coefficients(dx, ctx.alpha, heads, ctx.dim)
    return recurrence(rest, weights * single(dx), None, heads, ctx.dim, False, ctx.order).to(dx.dtype)


average = differentiable(_average, _context, _backward, _jvp, ways=Ways(1, shorter(_forwards)))
