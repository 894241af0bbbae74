"""The selective scan of Mamba: the state of each channel is N values, whose decay, input and output depend on the item."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from upsweep.layers import ONCE, marks_shape, one_step, selective_operands
from upsweep.selective import selective_gradients
from upsweep.selective import selective_scan as scanned
from upsweep.torch.differentiable import differentiable
from upsweep.torch.layers.operands import TORCH, dense, detached, lines, tensors


def selective_scan(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None,
    delta_bias: Tensor | None = None, delta_softplus: bool = False, *, initial: Tensor | None = None,
    cu_seqlens: Tensor | None = None, return_state: bool = False,
) -> Any:  # fmt: skip
    """`h[t] = exp(delta[t] A) h[t-1] + delta[t] u[t] B[t]`, `y[t] = (C[t] h[t] + D u[t]) silu(z[t])`, differentiable.

    The states are float32 (float64 for float64) and are walked in order: split anywhere and continued from its state, packed
    among others, in another batch or a step at a time by `selective_step`, a sequence gives the same bits. They are never in
    memory for all steps; the way back computes them again from every sixteenth. On a GPU exp is the processor's own, of
    some 22 bits, so that CPU and GPU differ in the last places.

    Args:
        u: (batch, time, channels), float32, float64, bfloat16 or float16.
        delta, z: as u, of its dtype; z None for no gate.
        A: (channels, N), real. On a GPU N is at most 32, for float64 at most 16.
        B, C: (batch, time, N), of the dtype of u.
        D, delta_bias: (channels,), or None for zeros.
        delta_softplus: whether `log(1 + exp(delta + delta_bias))` stands for delta.
        initial: the states before the first steps, (sequences, channels, N), of the dtype of the states.
        cu_seqlens: of packed sequences, which lie one behind another in a batch of 1: where each begins, and the end of the
            last. One on the CPU saves waiting for a GPU.
        return_state: whether to return the states after the last steps too.

    Returns:
        y, of the shape and dtype of u; with `return_state` the pair `(y, state)`. First derivatives in every tensor, not second.

    Raises:
        ShapeError, DTypeError, SegmentError: an operand does not fit, before anything is computed.

    >>> import torch, upsweep.torch as ut
    >>> u, delta, A, B, C = torch.ones(1, 3, 2), torch.ones(1, 3, 2), -torch.ones(2, 4), torch.ones(1, 3, 4), torch.ones(1, 3, 4)
    >>> y, state = ut.selective_scan(u, delta, A, B, C, return_state=True)
    >>> [round(v, 3) for v in y[0, :, 0].tolist()]
    [4.0, 5.472, 6.013]
    >>> rest = ut.selective_step(state, u[:, 0], delta[:, 0], A, B[:, 0], C[:, 0])
    >>> round(rest[0, 0].item(), 3), state.shape
    (6.212, torch.Size([1, 2, 4]))

    Source: Gu and Dao, "Mamba: linear-time sequence modeling with selective state spaces" (2023), algorithm 2.
    """
    operands = tensors(u, delta, A, B, C, D, z, delta_bias)
    given = selective_operands(TORCH, operands, *tensors(initial, cu_seqlens))
    leaves = [x for x in (*given.arrays, given.initial) if x is not None]
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in leaves)
    y, last, _ = _differentiable(*given.arrays, delta_softplus, given.initial, given.offsets, keep)
    return (y, last) if return_state else y


def selective_step(
    state: Tensor, u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None,
    z: Tensor | None = None, delta_bias: Tensor | None = None, delta_softplus: bool = False,
) -> Tensor:  # fmt: skip
    """One step of `selective_scan`, with its bits; `state` is brought up to date in place. Without gradients.

    Args:
        state: (batch, channels, N), contiguous, of the dtype of the states.
        u, delta, z: (batch, channels); B, C: (batch, N).
        A, D, delta_bias, delta_softplus: as in `selective_scan`.

    Returns:
        y, of the shape and dtype of u. On a GPU one kernel, fit for a CUDA graph. For an example see `selective_scan`, whose
        errors are raised here too.
    """
    dense(state)
    one_step((u, delta, B, C, z), ("u", "delta", "B", "C", "z"))
    u, delta, B, C, z = [None if x is None else x.detach().unsqueeze(1) for x in (u, delta, B, C, z)]  # type: ignore[assignment]
    given = selective_operands(
        TORCH, (u, delta, *detached(A), B, C, *detached(D), z, *detached(delta_bias)), state.detach(), None
    )
    with torch.no_grad():
        return _step(state, *given.arrays, delta_softplus).squeeze(1)


def _states(a: Tensor, u: Tensor, offsets: Tensor | None) -> Tensor:
    """New memory for the states of each sequence."""
    sequences = u.shape[0] if offsets is None else offsets.shape[0] - 1
    return a.new_empty((sequences, *a.shape))


def _results(u: Tensor, a: Tensor, offsets: Tensor | None, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    """New memory for the results, and for the states that the way back starts from, where those are kept."""
    last = _states(a, u, offsets)
    kept = a.new_empty(marks_shape(u.shape, a.shape[1], last.shape[0])) if keep else u.new_empty(0)
    return u.new_empty(u.shape), last, kept


@torch.library.custom_op("upsweep::selective_scan", mutates_args=())
def _scan(
    u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor | None, z: Tensor | None, bias: Tensor | None,
    softplus: bool, initial: Tensor | None, offsets: Tensor | None, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    arrays = detached(u, delta, a, b, c, skip, z, bias)
    y, last, marks = _results(u, a, offsets, keep)
    initial, offsets = detached(initial, offsets)
    scanned(arrays, softplus, initial, offsets, y, last, marks if keep else None)
    return y, last, marks


_scan.register_fake(lambda u, delta, a, *rest: _results(u, a, *rest[-2:]))


@torch.library.custom_op("upsweep::selective_step", mutates_args={"state"})
def _step(
    state: Tensor, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor | None, z: Tensor | None,
    bias: Tensor | None, softplus: bool,
) -> Tensor:  # fmt: skip
    y = u.new_empty(u.shape)
    scanned(detached(u, delta, a, b, c, skip, z, bias), softplus, state, None, y, state, None)
    return y


_step.register_fake(lambda state, u, *_: u.new_empty(u.shape))


@torch.library.custom_op("upsweep::selective_gradients", mutates_args=())
def _gradients(
    g: Tensor, dlast: Tensor | None, marks: Tensor, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor,
    skip: Tensor | None, z: Tensor | None, bias: Tensor | None, softplus: bool, initial: Tensor | None, offsets: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of u, delta, a, b, c, skip, z, bias and initial; empty for a missing z."""
    arrays = detached(u, delta, a, b, c, skip, z, bias)
    start, cuts, g, dlast, marks = detached(initial, offsets, g, dlast, marks)
    # It was not known that gradients would be asked for.
    if not marks.numel():
        y, last, marks = _results(u, a, offsets, True)
        scanned(arrays, softplus, start, cuts, y, last, marks)
    into = [None if v is None else v.new_empty(v.shape) for v in (u, delta, z, b, c)]
    da, dinitial = _states(a, u, offsets), _states(a, u, offsets)
    dskip, dbias = da.new_empty(da.shape[:2]), da.new_empty(da.shape[:2])
    selective_gradients(g, dlast, marks, arrays, softplus, start, cuts, into, [da, dskip, dbias, dinitial])
    du, ddelta, dz, db, dc = into
    dz = u.new_empty(0) if dz is None else dz
    return du, ddelta, da.sum(0), db, dc, dskip.sum(0), dz, dbias.sum(0), dinitial  # type: ignore[return-value]


@_gradients.register_fake
def _(g: Any, dlast: Any, marks: Any, u: Tensor, delta: Any, a: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    b, c, _, z, _, _, _, offsets = rest
    du, ddelta, da, db, dc = (v.new_empty(v.shape) for v in (u, delta, a, b, c))
    dskip, dbias = a.new_empty(a.shape[:1]), a.new_empty(a.shape[:1])
    return (
        du,
        ddelta,
        da,
        db,
        dc,
        dskip,
        u.new_empty(u.shape if z is not None else 0),
        dbias,
        _states(a, u, offsets),
    )


def _once(*_: Any) -> Any:
    raise NotImplementedError(ONCE)


def _nothing(ctx: Any, inputs: Any, output: Any) -> None:
    """Nothing is kept for operands that cannot be differentiated."""


_gradients_once = differentiable(_gradients, _nothing, _once, _once)


def _context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor, Tensor]) -> None:
    *arrays, ctx.softplus, initial, offsets, _ = inputs
    ctx.save_for_backward(*arrays, initial, offsets, output[2])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, g: Tensor | None, dlast: Tensor | None, _: Any) -> Any:
    *arrays, initial, offsets, marks = ctx.saved_tensors
    u = arrays[0]
    g = torch.zeros_like(u) if g is None else g
    dlast = None if dlast is None else dlast.contiguous()
    made = _gradients_once(lines(g), dlast, marks, *arrays, ctx.softplus, initial, offsets)
    *into, dinitial = [d if x is not None else None for d, x in zip(made, (*arrays, initial))]
    return *into, None, dinitial, None, None


_differentiable = differentiable(_scan, _context, _backward, _once)
