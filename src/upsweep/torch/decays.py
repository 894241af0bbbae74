"""Recurrences whose multiplier is a number, as a PyTorch operator: the gradient of one is the one in the other direction, its
tangent is one in the same direction, and each is one scan.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep import recall
from upsweep.torch.differentiable import batched, differentiable, keep
from upsweep.torch.neighbours import ends_of, segments_of
from upsweep.torch.operands import readable
from upsweep.torch.ways import Way, Ways


@torch.library.custom_op("upsweep::decayed", mutates_args=())
def _decayed(
    x: Tensor, decay: float, marks: Tensor | None, last: bool, dim: int, reverse: bool, order: str
) -> Tensor:
    """`h[t] = decay h[t-1] + x[t]` within segments: `marks` are true at their `last` items, or else at their first ones."""
    x = readable(x)
    segments = (ends_of if last else segments_of)(marks, x, dim)
    return up.linear_recurrence(decay, x, axis=dim, reverse=reverse, segments=segments, order=order)


@_decayed.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


@_decayed.register_vmap
def _(info: Any, in_dims: Any, x: Any, decay: float, marks: Any, last: bool, dim: int, *rest: Any) -> Any:
    x, marks = batched(x, in_dims[0], info.batch_size), batched(marks, in_dims[2])
    return _decayed(x, decay, marks, last, dim + 1, *rest), 0  # type: ignore[call-arg]


def _shorter(
    x: Tensor, decay: float, marks: Tensor | None, last: bool, dim: int, reverse: bool, order: str
) -> Way | None:
    """The way of `decayed` for calls like this one."""
    spelled = ends_of if last else segments_of
    how = "auto", None, False, (1,), order, None, None
    like = recall.alike(
        (decay, x), "affine", dim, False, reverse, None, None, None, spelled(marks, x, dim), *how
    )
    known = recall.known(like)
    if known is None or known is recall.never:
        return known
    return lambda x, decay, marks, *_: known((decay, x), None, None, spelled(marks, x, dim))


def _context(ctx: Any, inputs: Any, output: Tensor) -> None:
    _, ctx.decay, marks, *ctx.rest = inputs
    keep(ctx, marks)


def _backward(ctx: Any, g: Tensor) -> Any:
    last, dim, reverse, order = ctx.rest
    return decayed(g, ctx.decay, *ctx.saved_tensors, last, dim, not reverse, order), *[None] * 6


def _jvp(ctx: Any, dx: Tensor, *_: Any) -> Tensor:
    return decayed(dx, ctx.decay, *ctx.saved_tensors, *ctx.rest)


decayed = differentiable(_decayed, _context, _backward, _jvp, ways=Ways(1, _shorter))
