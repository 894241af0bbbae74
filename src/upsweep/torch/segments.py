"""Segments as tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

import upsweep as up
from upsweep.host import starts, view
from upsweep.segments import LISTS, SegmentError, Segments, checked, no_groups
from upsweep.torch.differentiable import plain
from upsweep.torch.operands import flags_of, of_host, tensor


@torch.library.custom_op("upsweep::heads", mutates_args=())
def _heads(values: Tensor, spelling: str, shape: list[int], dim: int) -> Tensor:
    """Booleans of `shape`, or 1-D along the axis, that are true where a segment starts. On a GPU an exclusive product of zeros is
    1 there, and 0 elsewhere.
    """
    segments = up.segments.Segments(spelling, values)
    if values.device.type == "cpu":
        return torch.from_numpy(starts(segments, tuple(shape), dim))
    each = values.ndim == len(shape) and spelling in up.segments.EACH
    zeros = torch.zeros(shape if each else shape[dim], dtype=torch.uint8, device=values.device)
    ones = up.scan(zeros, "mul", axis=dim if each else 0, exclusive=True, initial=1, segments=segments)
    return ones.bool()


@_heads.register_fake
def _(values: Tensor, spelling: str, shape: list[int], dim: int) -> Tensor:
    each = values.ndim == len(shape) and spelling in up.segments.EACH
    return values.new_empty(shape if each else shape[dim], dtype=torch.bool)


_marks = plain(_heads)


def heads_of(segments: Segments | None, x: Tensor, dim: int) -> Tensor | None:
    """Booleans of the rank of x that are true where a segment starts; axes of one item hold for all of x's."""
    if segments is None:
        return None
    checked(segments)
    no_groups(segments)
    values = segments.values
    if not isinstance(values, Tensor):
        # PyTorch has no strings and times, and its compiler no dtypes of NumPy.
        if not torch.compiler.is_compiling() and view(values).dtype.kind not in "biuf":
            values, segments = starts(segments, tuple(x.shape), dim), up.segments.flags(None)
        values = of_host(values)
    fit = values.shape in (x.shape, x.shape[dim : dim + 1])
    if segments.spelling == "flags" and values.dtype is torch.bool and values.device == x.device and fit:
        return flags_of(values, x, dim)
    flags = _marks(values.detach(), segments.spelling, list(x.shape), dim)
    # A blocking copy to a GPU would wait for all work that is queued there. One from a GPU is read at once.
    return flags_of(flags.to(x.device, non_blocking=flags.device.type == "cpu"), x, dim)


def offsets_of(segments: Segments, heads: Tensor, x: Tensor, dim: int) -> Tensor:
    """Where each segment starts, and where the last one ends. `heads` say the same, checked. Flags and keys are counted, so that
    a GPU is waited for."""
    n, values = x.shape[dim], segments.values
    # The compiler knows no np.ndim.
    values = of_host(values) if torch.compiler.is_compiling() and not isinstance(values, Tensor) else values
    if x.ndim > 1 and (values.ndim if isinstance(values, Tensor) else np.ndim(values)) > 1:
        raise SegmentError(
            "rows with segments of their own reduce to different numbers of results: pass 1-D segments"
        )
    if segments.spelling in LISTS:
        values = tensor(values).to(x.device, torch.int64)
        return (
            values if segments.spelling == "offsets" else torch.cat([values.new_zeros(1), values.cumsum(0)])
        )
    # The first item starts a segment, whether a flag says so or not.
    later = heads.reshape(-1)[1:].nonzero()[:, 0] + 1
    return torch.cat([later.new_zeros(min(n, 1)), later, later.new_full((1,), n)])
