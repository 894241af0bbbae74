"""What goes with a tensor into a scan: multipliers, flags, values to start from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from upsweep import dtypes
from upsweep.arguments import ShapeError


def multiplier(a: Any, b: Tensor) -> tuple[Tensor, Tensor]:
    """A multiplier of b's shape and a common dtype, without copying what broadcasts."""
    if not isinstance(a, Tensor):
        a = torch.as_tensor(a, dtype=b.dtype, device=b.device)
    dtype = torch.promote_types(a.dtype, b.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.float64
    if a.ndim > b.ndim or any(m not in (1, n) for m, n in zip(reversed(a.shape), reversed(b.shape))):
        raise ShapeError(f"a multiplier of shape {tuple(a.shape)} does not broadcast to {tuple(b.shape)}")
    return a.to(dtype).expand(b.shape), b.to(dtype)


def rows_of(initial: Any, x: Tensor, dim: int) -> Tensor | None:
    """One start for each row, in the dtype that is computed with."""
    if initial is None:
        return None
    rows = x.shape[:dim] + x.shape[dim + 1 :]
    start = torch.as_tensor(initial, dtype=accumulator(x.dtype), device=x.device)
    if start.shape not in (rows, ()):
        raise ShapeError(
            f"initial has shape {tuple(start.shape)}; pass a scalar or one value a row, shape {tuple(rows)}"
        )
    return start.expand(rows)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype that a scan of this one computes in."""
    known = dtypes.row_of(dtype)
    return dtype if known is None else getattr(torch, known.accumulator)


def flags_of(flags: Tensor, x: Tensor, dim: int) -> Tensor:
    """Booleans of the shape of x, from flags of that shape or 1-D along the axis."""
    if flags.ndim == 1:
        flags = flags.reshape([-1 if d == dim else 1 for d in range(x.ndim)])
    return flags.bool().expand(x.shape)


def coefficients(c: Any, dtype: torch.dtype) -> Tensor:
    """Coefficients of a filter in double precision, which poles are found in; numbers are rounded to `dtype` first."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    c = (c if isinstance(c, Tensor) else torch.as_tensor(c, dtype=wide).to(dtype)).to(wide)
    if c.ndim != 1 or not c.numel():
        raise ShapeError(f"coefficients must be 1-D and not empty, got shape {tuple(c.shape)}")
    return c


def state_of(zi: Tensor, x: Tensor, dim: int, order: int) -> Tensor:
    """The state of a filter with time last, of the shape that fits x."""
    moved = zi.movedim(dim, -1) if zi.ndim == x.ndim else zi
    fits = zip(moved.shape[:-1], x.shape[:-1])
    if zi.ndim != x.ndim or moved.shape[-1] != order or any(m not in (1, n) for m, n in fits):
        raise ShapeError(
            f"zi has shape {tuple(zi.shape)}; along the axis it needs {order} values for these coefficients"
        )
    return moved.expand(*x.shape[:-1], order)
