"""What PyTorch has of what the layers ask of a library, and recurrences in order of packed sequences."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from upsweep import layers
from upsweep.arguments import ShapeError
from upsweep.torch.library import recurrence


def _beside(x: Tensor, name: str, like: Tensor) -> None:
    if x.device != like.device:
        raise ShapeError(
            f"{name} is on {x.device}, the layer's input on {like.device}: pass both on one device"
        )


def lines(x: Tensor) -> Tensor:
    """A tensor whose neighbours along the last axis touch."""
    return x if x.stride(-1) == 1 or x.shape[-1] < 2 else x.contiguous()


@torch.library.custom_op("upsweep::packed", mutates_args=())
def _offsets(cu_seqlens: Tensor, steps: int, device: torch.device) -> Tensor:
    """As int64 on the device. A tensor on a GPU is waited for."""
    known = cu_seqlens.to("cpu", torch.int64)
    layers.sorted_to(known.numpy(), steps)
    return known.to(device) if cu_seqlens.device != device else cu_seqlens.to(torch.int64).clone()


@_offsets.register_fake
def _(cu_seqlens: Tensor, steps: int, device: torch.device) -> Tensor:
    return cu_seqlens.new_empty(cu_seqlens.shape, dtype=torch.int64, device=device)


TORCH = layers.Library(
    dtype=lambda name: getattr(torch, name),
    beside=_beside,
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
    if offsets is None:
        h = recurrence(a, b, initial, None, 1, False, "sequential")
        return h, h[:, -1] if h.shape[1] else (
            b.new_zeros(b.shape[0], b.shape[2]) if initial is None else initial
        )
    nothing = b.new_zeros(len(offsets) - 1, b.shape[2])
    starts = (nothing if initial is None else initial).split(1)
    parts = [
        in_order(a[:, low:high], b[:, low:high], start, None)
        for (low, high), start in zip(pairwise(offsets.tolist()), starts)
    ]
    return torch.cat([b[:, :0], *(h for h, _ in parts)], 1), torch.cat(
        [nothing[:0], *(last for _, last in parts)]
    )


def dense(state: Tensor) -> None:
    """A ShapeError where a state, which a step brings up to date in place, is not dense."""
    if not state.is_contiguous():
        raise ShapeError("state is not contiguous; pass state.contiguous() and keep it")


def detached(*tensors: Any) -> list[Any]:
    """Without gradients; None for None."""
    return [None if x is None else x.detach() for x in tensors]
