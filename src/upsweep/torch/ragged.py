"""Segments as tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from upsweep.arguments import ShapeError
from upsweep.segments import Segments, no_groups
from upsweep.torch import library
from upsweep.torch.operands import flags_of

_heads = library.plain(library.heads)


def heads_of(segments: Segments | None, x: Tensor, dim: int) -> Tensor | None:
    """Booleans of the rank of x that are true where a segment starts; axes of one item hold for all of x's."""
    if segments is None:
        return None
    no_groups(segments)
    values = segments.values
    if not isinstance(values, Tensor):
        values = np.asarray(values)
        if values.dtype.kind not in "biuf":  # strings and times, as numbers that change where they do
            values = np.unique(values, return_inverse=True)[1].reshape(values.shape)
        values = torch.as_tensor(values)
    flags = _heads(values.detach(), segments.spelling, list(x.shape), dim)
    # A blocking copy to a GPU would wait for all work that is queued there.
    return flags_of(flags.to(x.device, non_blocking=True), x, dim)


def offsets_of(segments: Segments, x: Tensor, dim: int) -> Tensor:
    """Where each segment starts, and where the last one ends. Flags and keys are counted, so that a GPU is waited for."""
    heads = heads_of(segments, x, dim)  # checks every spelling
    assert heads is not None
    n = x.shape[dim]
    if segments.spelling in ("offsets", "lengths"):
        values = torch.as_tensor(segments.values, device=x.device).to(torch.int64)
        return (
            values if segments.spelling == "offsets" else torch.cat([values.new_zeros(1), values.cumsum(0)])
        )
    if x.ndim > 1 and np.ndim(segments.values) > 1:
        raise ShapeError(
            "rows with segments of their own reduce to different numbers of results: pass 1-D segments"
        )
    starts = heads.movedim(dim, 0).reshape(n, -1)[:, 0] if x.numel() else heads.new_zeros(n)
    return torch.cat([starts.nonzero()[:, 0], starts.new_full((1,), n, dtype=torch.int64)])
