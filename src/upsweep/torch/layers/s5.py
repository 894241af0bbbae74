"""The diagonal state space of S5: complex states whose decay is the same for all steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep.arguments import ShapeError
from upsweep.layers import required, s5_operands
from upsweep.torch.layers.operands import TORCH, in_order, tensors
from upsweep.torch.operands import tensor


def s5(
    x: Tensor, eigenvalues: Tensor, step: Any = 1.0, *, initial: Tensor | None = None, cu_seqlens: Tensor | None = None,
    return_state: bool = False,
) -> Any:  # fmt: skip
    """`h[t] = exp(eigenvalues step) h[t-1] + x[t]`, differentiable, also twice.

    For the layer of the paper `x = u @ B_bar.T` with `B_bar = ((exp(eigenvalues step) - 1) / eigenvalues)[:, None] * B`, which
    are small, and `y = 2 * (h @ C.T).real + D * u`.

    Args:
        x: (batch, time, states), complex64 or complex128.
        eigenvalues: (states,), complex, with a negative real part where states decay.
        step: a number, or a real tensor of (states,).
        initial: the states before the first steps, (sequences, states), of the dtype of x.
        cu_seqlens, return_state: as in `rg_lru`.

    Returns:
        h, of the shape and dtype of x; with `return_state` the pair `(h, state)`. States are walked in order: split anywhere,
        packed, in another batch or a step at a time by `s5_step`, a sequence gives the same bits.

    Raises:
        ShapeError, DTypeError, SegmentError: an operand does not fit, before anything is computed.

    >>> import torch, upsweep.torch as ut
    >>> x = torch.zeros(1, 4, 1, dtype=torch.complex64)
    >>> x[0, 0, 0] = 1
    >>> turn = torch.tensor([0.5j * torch.pi])
    >>> [complex(round(v.real, 3) + 0.0, round(v.imag, 3) + 0.0) for v in ut.s5(x, turn)[0, :, 0].tolist()]
    [(1+0j), 1j, (-1+0j), -1j]

    Source: Smith, Warrington and Linderman, "Simplified state space layers for sequence modeling" (2023), equations 2 to 5.
    """
    step = step if isinstance(step, (int, float)) else tensor(step)
    x, eigenvalues, initial, cu_seqlens = tensors(x, eigenvalues, initial, cu_seqlens)
    given = s5_operands(TORCH, x, eigenvalues, step, initial, cu_seqlens)
    h, last = in_order(_decay(given.arrays), x, given.initial, given.offsets)
    # A step brings its state up to date in place: not the last item of h, nor initial.
    return (h, last.clone()) if return_state else h


def s5_step(state: Tensor, x: Tensor, eigenvalues: Tensor, step: Any = 1.0) -> Tensor:
    """One step of `s5`, with its bits: x is (batch, states), and `state`, which is returned, is brought up to date in place.

    Without gradients. States of another shape or dtype than x are a ShapeError; other errors are those of `s5`.

    >>> import torch, upsweep.torch as ut
    >>> state, turn = torch.ones(1, 1, dtype=torch.complex64), torch.tensor([0.5j * torch.pi])
    >>> [round(ut.s5_step(state, torch.zeros_like(state), turn).imag.item(), 3) + 0.0 for t in range(4)]
    [1.0, 0.0, -1.0, 0.0]
    """
    for given, name in ((state, "state"), (x, "x"), (eigenvalues, "eigenvalues")):
        required(given, name)
    if x.ndim != 2 or state.shape != x.shape or state.dtype != x.dtype:
        raise ShapeError(
            f"x is {x.dtype} of shape {tuple(x.shape)}, state {state.dtype} of {tuple(state.shape)}: both are (batch, states)"
        )
    wide, rows = x.detach().unsqueeze(1), state.detach()
    decay = _decay(s5_operands(TORCH, wide, eigenvalues.detach(), step, None, None).arrays)
    up.linear_recurrence(decay, wide, initial=rows, axis=1, out=rows.unsqueeze(1), order="sequential")
    return state


def _decay(arrays: Any) -> Tensor:
    x, eigenvalues, step = arrays
    return torch.exp(eigenvalues * step).expand(x.shape)
