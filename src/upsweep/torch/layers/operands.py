"""What goes into a layer, checked before anything is computed."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from upsweep.arguments import ShapeError
from upsweep.engine import DTypeError
from upsweep.segments import SegmentError
from upsweep.torch.library import recurrence


def wide(x: Tensor, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An operand with an item for each step, of the dtype and device of `like`; neighbours along the last axis touch."""
    if tuple(x.shape) != shape:
        raise ShapeError(f"{name} has shape {tuple(x.shape)}; this call needs {shape}")
    if x.dtype != like.dtype:
        raise DTypeError(f"{name} is {x.dtype}; pass {like.dtype}, as the other operands that vary in time")
    _beside(x, name, like)
    return x if x.stride(-1) == 1 or x.shape[-1] < 2 else x.contiguous()


def constant(x: Tensor, name: str, shape: tuple[int, ...], dtype: torch.dtype, like: Tensor) -> Tensor:
    """An operand that is the same for all steps, in the dtype that is computed in."""
    if tuple(x.shape) != shape:
        raise ShapeError(f"{name} has shape {tuple(x.shape)}; this call needs {shape}")
    if x.is_complex() and not dtype.is_complex:
        raise DTypeError(f"{name} is {x.dtype}; this layer computes in {dtype}")
    _beside(x, name, like)
    return x.to(dtype).contiguous()


def state(x: Tensor, name: str, shape: tuple[int, ...], dtype: torch.dtype, like: Tensor) -> Tensor:
    """A state, which is of the dtype that is computed in: one of another dtype would be rounded unasked."""
    if tuple(x.shape) != shape:
        raise ShapeError(f"{name} has shape {tuple(x.shape)}; this call needs {shape}")
    if x.dtype != dtype:
        raise DTypeError(f"{name} is {x.dtype}; the states of {like.dtype} are {dtype}")
    _beside(x, name, like)
    return x


def _beside(x: Tensor, name: str, like: Tensor) -> None:
    if x.device != like.device:
        raise ShapeError(
            f"{name} is on {x.device}, the layer's input on {like.device}: pass both on one device"
        )


def packed(cu_seqlens: Tensor | None, x: Tensor) -> Tensor | None:
    """Where packed sequences begin, and the end of the last, as int64 beside x. A tensor on a GPU is waited for."""
    if cu_seqlens is None:
        return None
    if x.shape[0] != 1:
        raise ShapeError(
            f"packed sequences lie in one batch: pass shape (1, time, channels), not {tuple(x.shape)}"
        )
    if cu_seqlens.ndim != 1 or not len(cu_seqlens) or cu_seqlens.dtype not in (torch.int32, torch.int64):
        raise SegmentError(
            f"cu_seqlens has shape {tuple(cu_seqlens.shape)} and is {cu_seqlens.dtype}; pass 1-D int32 or int64"
        )
    return _offsets(cu_seqlens, x.shape[1], x.device)


@torch.library.custom_op("upsweep::packed", mutates_args=())
def _offsets(cu_seqlens: Tensor, steps: int, device: torch.device) -> Tensor:
    known = cu_seqlens.to("cpu", torch.int64)
    if int(known[0]) != 0 or int(known[-1]) != steps:
        raise SegmentError(
            f"cu_seqlens go from {int(known[0])} to {int(known[-1])}; they must go from 0 to {steps}, the steps"
        )
    falls = (known[1:] < known[:-1]).nonzero()
    if len(falls):
        at = int(falls[0, 0])
        raise SegmentError(
            f"cu_seqlens fall from {int(known[at])} to {int(known[at + 1])} at {at + 1}: sort them"
        )
    return known.to(device) if cu_seqlens.device != device else cu_seqlens.to(torch.int64).clone()


@_offsets.register_fake
def _(cu_seqlens: Tensor, steps: int, device: torch.device) -> Tensor:
    return cu_seqlens.new_empty(cu_seqlens.shape, dtype=torch.int64, device=device)


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
