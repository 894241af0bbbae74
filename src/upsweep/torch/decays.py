"""Recurrences whose multiplier is a number, as a PyTorch operator: the gradient of one is the one in the other direction, its
tangent is one in the same direction, and each is one scan.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep import recall
from upsweep.arguments import number_of
from upsweep.torch.differentiable import batched, differentiable, keep
from upsweep.torch.neighbours import along, ends_of, segments_of
from upsweep.torch.operands import accumulator, readable
from upsweep.torch.ways import Call, Way, Ways, run, shorter


@torch.library.custom_op("upsweep::decayed", mutates_args=())
def _decayed(
    x: Tensor, decay: float, more: Tensor | None, marks: Tensor | None, last: bool, dim: int, reverse: bool, order: str
) -> Tensor:  # fmt: skip
    """`h[t] = decay h[t-1] + x[t]` within segments: `marks` are true at their `last` items, or else at their first ones. `more`
    is added to the first item of each row, in the dtype that is computed in.
    """
    if more is not None:
        return run(_forwards(x, decay, more, marks, last, dim, reverse, order))
    x = readable(x)
    segments = (ends_of if last else segments_of)(marks, x, dim)
    return up.linear_recurrence(decay, x, axis=dim, reverse=reverse, segments=segments, order=order)


def _forwards(
    x: Tensor, decay: float, more: Tensor, marks: Tensor | None, last: bool, dim: int, reverse: bool, order: str
) -> Call:  # fmt: skip
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    segments = (ends_of if last else segments_of)(marks, x, dim)
    return with_more(readable(x), decay, more, segments, dim, reverse, order, out)


def with_more(
    x: Tensor, decay: Any, more: Tensor, segments: Any, dim: int, reverse: bool, order: str, out: Any
) -> Call:
    """The scan `h[t] = decay h[t-1] + x[t]` within segments, with `more` added to the first item of each row, in the dtype that
    is computed in.
    """
    first = number_of(x.shape[dim] - 1 if reverse else 0)
    how = {
        "axis": dim, "reverse": reverse, "order": order, "dtype": accumulator(x.dtype), "map": _from_more, "finish": _state,
    }  # fmt: skip
    return Call((x, decay, readable(more).unsqueeze(dim), first), "affine", out, segments, how)


def _from_more(x, decay, more, first, index):
    """The map from the sum before an item to the sum behind it."""
    return decay, x + more if index == first else x


def _state(prefix):
    return prefix[1]


@_decayed.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


@_decayed.register_vmap
def _(
    info: Any, in_dims: Any, x: Any, decay: float, more: Any, marks: Any, last: bool, dim: int, *rest: Any
) -> Any:
    x, more = (batched(v, d, info.batch_size) for v, d in ((x, in_dims[0]), (more, in_dims[2])))
    return _decayed(x, decay, more, batched(marks, in_dims[3]), last, dim + 1, *rest), 0  # type: ignore[call-arg]


def _shorter(
    x: Tensor, decay: float, more: Tensor | None, marks: Tensor | None, last: bool, dim: int, reverse: bool, order: str
) -> Way | None:  # fmt: skip
    """The way of `decayed` for calls like this one."""
    if more is not None:
        return shorter(_forwards)(x, decay, more, marks, last, dim, reverse, order)
    spelled = ends_of if last else segments_of
    how = "auto", None, False, (1,), order, None, None
    like = recall.alike(
        (decay, x), "affine", dim, False, reverse, None, None, None, spelled(marks, x, dim), *how
    )
    known = recall.known(like)
    if known is None or known is recall.never:
        return known
    return lambda x, decay, _, marks, *__: known((decay, x), None, None, spelled(marks, x, dim))


def _context(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, ctx.decay, more, marks, *ctx.rest = inputs
    ctx.shape, ctx.dtype, ctx.computed = x.shape, x.dtype, None if more is None else more.dtype
    keep(ctx, marks)


def _backward(ctx: Any, g: Tensor) -> Any:
    last, dim, reverse, order = ctx.rest
    dx = decayed(g, ctx.decay, None, *ctx.saved_tensors, last, dim, not reverse, order)
    more = None if ctx.computed is None else along(dx, dim, reverse, 0, 1).squeeze(dim).to(ctx.computed)
    return dx, None, more, *[None] * 5


def _jvp(ctx: Any, dx: Tensor | None, _: Any, more: Tensor | None, *__: Any) -> Tensor:
    if dx is None:
        assert more is not None
        dx = more.new_zeros(ctx.shape, dtype=ctx.dtype)
    return decayed(dx, ctx.decay, more, *ctx.saved_tensors, *ctx.rest)


DECAYS = Ways(_shorter)
"""The ways of recurrences by a number, whose operands are those of `upsweep::decayed`."""
decayed = differentiable(_decayed, _context, _backward, _jvp, ways=DECAYS)
