"""PyTorch's operations that the layers need, and recurrences in order of packed sequences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from upsweep import layers
from upsweep.arguments import ShapeError
from upsweep.torch.operands import beside, tensor
from upsweep.torch.recurrence_rules import recurrence


def tensors(*given: Any) -> list[Any]:
    """Operands as tensors; None for None."""
    return [None if x is None else tensor(x) for x in given]


def lines(x: Tensor) -> Tensor:
    """A tensor whose neighbours along the last axis touch."""
    return x if x.stride(-1) == 1 or x.shape[-1] < 2 else x.contiguous()


@torch.library.custom_op("upsweep::packed", mutates_args=())
def _offsets(cu_seqlens: Tensor, steps: int, device: torch.device) -> Tensor:
    """Offsets as int64 on the device. A tensor on a GPU is waited for."""
    known = cu_seqlens.to("cpu", torch.int64)
    layers.sorted_to(known.numpy(), steps)
    return known.to(device) if cu_seqlens.device != device else cu_seqlens.to(torch.int64).clone()


@_offsets.register_fake
def _(cu_seqlens: Tensor, steps: int, device: torch.device) -> Tensor:
    return cu_seqlens.new_empty(cu_seqlens.shape, dtype=torch.int64, device=device)


TORCH = layers.Library(
    dtype=lambda name: getattr(torch, name),
    beside=beside,
    lines=lines,
    cast=lambda x, dtype: x.to(dtype).contiguous(),
    offsets=lambda cu_seqlens, steps, like: _offsets(cu_seqlens, steps, like.device),
    maths=SimpleNamespace(
        exp=torch.exp,
        expm1=torch.expm1,
        sqrt=torch.sqrt,
        sigmoid=torch.sigmoid,
        softplus=torch.nn.functional.softplus,
    ),
)


def in_order(a: Tensor, b: Tensor, initial: Tensor | None, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """`h[t] = a[t] h[t-1] + b[t]` along the steps, and the last states, by operators that have all derivatives."""
    batch, steps, channels = b.shape
    sequences = batch if offsets is None else offsets.shape[0] - 1
    start = b.new_zeros(sequences, channels) if initial is None else initial
    if not steps:
        return b, start
    if offsets is None:
        h = _walked(a, b, initial, None)
        return h, h[:, -1]
    first, behind = offsets[:-1], offsets[1:]
    empty = first == behind
    # Items behind the end are dropped.
    there = torch.where(empty, steps, first)
    heads = b.new_zeros(steps + 1, dtype=torch.bool).index_fill(0, there, True)[:steps]
    if initial is not None:
        at = first.clamp(max=steps - 1)
        ones = _walked(a[0, at].unsqueeze(1), b[0, at].unsqueeze(1), initial, None)
        b = torch.cat([b, b[:, :1]], 1).index_copy(1, there, ones.transpose(0, 1))[:, :steps]
    h = _walked(a, b, None, heads.reshape(1, -1, 1))
    return h, torch.where(empty.unsqueeze(1), start, h[0, (behind - 1).clamp(min=0)])


def _walked(a: Tensor, b: Tensor, initial: Tensor | None, heads: Tensor | None) -> Tensor:
    return recurrence(a, b, initial, heads, 1, False, "sequential")


def dense(state: Tensor) -> None:
    """A ShapeError where a state, which a step brings up to date in place, is missing or not dense."""
    layers.required(state, "state")
    if not state.is_contiguous():
        raise ShapeError("state is not contiguous; pass state.contiguous() and keep it")


def detached(*tensors: Any) -> list[Any]:
    """A tensor without gradients; None for None."""
    return [None if x is None else x.detach() for x in tensors]
