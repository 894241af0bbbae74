"""Sums along an axis as a PyTorch operator: forwards reads the items, and the gradient of the sum is that of every item."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep.torch.differentiable import batched, differentiable, keep
from upsweep.torch.operands import readable


@torch.library.custom_op("upsweep::total", mutates_args=())
def _total(x: Tensor, initial: Tensor | None, dim: int, reverse: bool, order: str) -> Tensor:
    start = None if initial is None else readable(initial)
    return up.reduce(readable(x), axis=dim, reverse=reverse, initial=start, order=order)


@_total.register_fake
def _(x: Tensor, initial: Any, dim: int, *_: Any) -> Tensor:
    return x.new_empty(x.shape[:dim] + x.shape[dim + 1 :])


@_total.register_vmap
def _(info: Any, in_dims: Any, x: Any, initial: Any, dim: int, *rest: Any) -> Any:
    x, initial = (batched(v, d, info.batch_size) for v, d in zip((x, initial), in_dims))
    return _total(x, initial, dim + 1, *rest), 0


def _context(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, initial, *ctx.rest = inputs
    ctx.shape, ctx.dtype, ctx.computed = x.shape, x.dtype, None if initial is None else initial.dtype
    keep(ctx)


def _backward(ctx: Any, g: Tensor) -> Any:
    into = None if ctx.computed is None else g.to(ctx.computed)
    return g.unsqueeze(ctx.rest[0]).expand(ctx.shape), into, *[None] * 3


def _jvp(ctx: Any, dx: Tensor | None, d_initial: Tensor | None, *_: Any) -> Tensor:
    if dx is None:
        assert d_initial is not None
        return d_initial.to(ctx.dtype)
    return total(dx, d_initial, *ctx.rest)


total = differentiable(_total, _context, _backward, _jvp)
