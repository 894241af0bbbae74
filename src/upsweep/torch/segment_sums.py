"""Sums of segments as a PyTorch operator. The gradient of a segment's sum is that of each of its items, so that backwards is no
scan: each is the derivative of the other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep.torch.differentiable import batched, differentiable, keep
from upsweep.torch.neighbours import segments_of
from upsweep.torch.operands import readable


@torch.library.custom_op("upsweep::segment_sums", mutates_args=())
def _sums(
    x: Tensor, initial: Tensor | None, heads: Tensor, offsets: Tensor, dim: int, reverse: bool, order: str
) -> Tensor:
    """The sums from `offsets[s]` to `offsets[s + 1]`, where `heads` are true at the first item of each segment that has items."""
    x, n, start = readable(x), x.shape[dim], None if initial is None else readable(initial)
    how = {
        "axis": dim,
        "reverse": reverse,
        "initial": start,
        "segments": segments_of(heads, x, dim),
        "order": order,
    }
    last = offsets[:-1] if reverse else offsets[1:] - 1
    sums = up.scan(x, "add", **how).index_select(dim, last.clamp(0, n - 1))
    empty = (offsets[1:] == offsets[:-1]).reshape([-1 if d == dim else 1 for d in range(x.ndim)])
    return torch.where(empty, 0 if start is None else start.unsqueeze(dim).to(x.dtype), sums)


@_sums.register_fake
def _(x: Tensor, initial: Any, heads: Tensor, offsets: Tensor, dim: int, *_: Any) -> Tensor:
    return x.new_empty(_sized(x, dim, offsets.shape[0] - 1))


@_sums.register_vmap
def _(
    info: Any, in_dims: Any, x: Any, initial: Any, heads: Tensor, offsets: Tensor, dim: int, *rest: Any
) -> Any:
    x, initial = (batched(v, d, info.batch_size) for v, d in ((x, in_dims[0]), (initial, in_dims[1])))
    return _sums(x, initial, heads.unsqueeze(0), offsets, dim + 1, *rest), 0  # type: ignore[call-arg]


def _context(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, initial, heads, offsets, *ctx.how = inputs
    ctx.shape, ctx.dtype, ctx.computed = x.shape, x.dtype, None if initial is None else initial.dtype
    keep(ctx, heads, offsets)


def _backward(ctx: Any, g: Tensor) -> Any:
    heads, offsets = ctx.saved_tensors
    dim, reverse, order = ctx.how
    dx = spread(g, heads, offsets, ctx.shape[dim], dim, reverse, order)
    return dx, None if ctx.computed is None else g.sum(dim, dtype=ctx.computed), *[None] * 5


def _jvp(ctx: Any, dx: Tensor | None, d_initial: Tensor | None, *_: Any) -> Tensor:
    if dx is None:
        assert d_initial is not None
        dx = d_initial.new_zeros(ctx.shape, dtype=ctx.dtype)
    return segment_sums(dx, d_initial, *ctx.saved_tensors, *ctx.how)


segment_sums = differentiable(_sums, _context, _backward, _jvp)


@torch.library.custom_op("upsweep::segment_spread", mutates_args=())
def _spread(g: Tensor, heads: Tensor, offsets: Tensor, n: int, dim: int, reverse: bool, order: str) -> Tensor:
    """Each segment's item for each of its n items."""
    owners = torch.arange(offsets.shape[0] - 1, device=g.device)
    return readable(g).index_select(dim, owners.repeat_interleave(offsets.diff(), output_size=n))


@_spread.register_fake
def _(g: Tensor, heads: Tensor, offsets: Tensor, n: int, dim: int, *_: Any) -> Tensor:
    return g.new_empty(_sized(g, dim, n))


@_spread.register_vmap
def _(info: Any, in_dims: Any, g: Any, heads: Tensor, offsets: Tensor, n: int, dim: int, *rest: Any) -> Any:
    g = batched(g, in_dims[0], info.batch_size)
    return _spread(g, heads.unsqueeze(0), offsets, n, dim + 1, *rest), 0  # type: ignore[call-arg]


def _spread_context(ctx: Any, inputs: Any, output: Tensor) -> None:
    _, heads, offsets, ctx.n, *ctx.how = inputs
    keep(ctx, heads, offsets)


def _spread_backward(ctx: Any, g: Tensor) -> Any:
    return segment_sums(g, None, *ctx.saved_tensors, *ctx.how), *[None] * 6


def _spread_jvp(ctx: Any, dg: Tensor, *_: Any) -> Tensor:
    return spread(dg, *ctx.saved_tensors, ctx.n, *ctx.how)


spread = differentiable(_spread, _spread_context, _spread_backward, _spread_jvp)


def _sized(x: Tensor, dim: int, n: Any) -> list[Any]:
    return [n if d == dim else size for d, size in enumerate(x.shape)]
