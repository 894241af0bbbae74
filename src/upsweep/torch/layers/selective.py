"""The selective scan of Mamba: the state of each channel is N values, whose decay, input and output depend on the item."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from upsweep.arguments import ShapeError
from upsweep.engine import DTypeError
from upsweep.selective import selective_gradients
from upsweep.selective import selective_scan as scanned
from upsweep.torch.layers.operands import constant, packed, state, wide
from upsweep.torch.library import differentiable
from upsweep.torch.operands import accumulator


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
    arrays, start, offsets = _checked(u, delta, A, B, C, D, z, delta_bias, initial, cu_seqlens)
    keep = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (*arrays, start))
    y, last, _ = _differentiable(*arrays, delta_softplus, start, offsets, keep)
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
        y, of the shape and dtype of u. On a GPU one kernel, fit for a CUDA graph.
    """
    if u.ndim != 2 or B.ndim != 2:
        raise ShapeError(
            f"u has shape {tuple(u.shape)} and B {tuple(B.shape)}; a step takes (batch, channels) and (batch, N)"
        )
    one = [None if x is None else x.detach().unsqueeze(1) for x in (u, delta, B, C, z)]
    u, delta, B, C, z = one  # type: ignore[assignment]
    arrays, _, _ = _checked(u, delta, A.detach(), B, C, D, z, delta_bias, state.detach(), None)
    if not state.is_contiguous():
        raise ShapeError("state is not contiguous; pass state.contiguous() and keep it")
    with torch.no_grad():
        return _step(state, *arrays, delta_softplus).squeeze(1)


def _checked(
    u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor | None, z: Tensor | None, bias: Tensor | None,
    initial: Tensor | None, cu_seqlens: Tensor | None,
) -> tuple[list[Tensor | None], Tensor | None, Tensor | None]:  # fmt: skip
    if u.ndim != 3 or a.ndim != 2:
        raise ShapeError(
            f"u has shape {tuple(u.shape)} and A {tuple(a.shape)}; they are (batch, time, channels) and (channels, N)"
        )
    real = accumulator(u.dtype)
    if real not in (torch.float32, torch.float64) or u.dtype.itemsize == 1:
        raise DTypeError(f"u is {u.dtype}; a selective scan takes float32, float64, bfloat16 and float16")
    batch, steps, channels = shape = tuple(u.shape)
    states = a.shape[1]
    offsets = packed(cu_seqlens, u)
    sequences = batch if offsets is None else len(offsets) - 1
    given = [
        wide(u, "u", shape, u),
        wide(delta, "delta", shape, u),
        constant(a, "A", (channels, states), real, u),
        wide(b, "B", (batch, steps, states), u),
        wide(c, "C", (batch, steps, states), u),
        None if skip is None else constant(skip, "D", (channels,), real, u),
        None if z is None else wide(z, "z", shape, u),
        None if bias is None else constant(bias, "delta_bias", (channels,), real, u),
    ]
    start = (
        None
        if initial is None
        else state(initial, "initial", (sequences, channels, states), real, u).contiguous()
    )
    return given, start, offsets


def _detached(*tensors: Tensor | None) -> list[Tensor | None]:
    return [None if x is None else x.detach() for x in tensors]


@torch.library.custom_op("upsweep::selective_scan", mutates_args=())
def _scan(
    u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor | None, z: Tensor | None, bias: Tensor | None,
    softplus: bool, initial: Tensor | None, offsets: Tensor | None, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    arrays = _detached(u, delta, a, b, c, skip, z, bias)
    y, last, marks = scanned(arrays, softplus, *_detached(initial, offsets), keep=keep)
    return y, last, u.new_empty(0) if marks is None else marks


@_scan.register_fake
def _(u: Tensor, delta: Tensor, a: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    offsets, keep = rest[-2:]
    sequences = u.shape[0] if offsets is None else offsets.shape[0] - 1
    kept = (u.shape[0] * u.shape[1] // 16 + sequences, *a.shape) if keep else (0,)
    return u.new_empty(u.shape), a.new_empty((sequences, *a.shape)), (a if keep else u).new_empty(kept)


@torch.library.custom_op("upsweep::selective_step", mutates_args={"state"})
def _step(
    state: Tensor, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor | None, z: Tensor | None,
    bias: Tensor | None, softplus: bool,
) -> Tensor:  # fmt: skip
    arrays = _detached(u, delta, a, b, c, skip, z, bias)
    return scanned(arrays, softplus, state, None, last=state)[0]


@_step.register_fake
def _(state: Tensor, u: Tensor, *_: Any) -> Tensor:
    return u.new_empty(u.shape)


@torch.library.custom_op("upsweep::selective_gradients", mutates_args=())
def _gradients(
    g: Tensor, dlast: Tensor | None, marks: Tensor, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor,
    skip: Tensor | None, z: Tensor | None, bias: Tensor | None, softplus: bool, initial: Tensor | None, offsets: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Of u, delta, a, b, c, skip, z, bias and initial."""
    arrays = _detached(u, delta, a, b, c, skip, z, bias)
    start, cuts, g, dlast, marks = _detached(initial, offsets, g, dlast, marks)  # type: ignore[assignment]
    if not marks.numel():  # it was not known that gradients would be asked for
        marks = scanned(arrays, softplus, start, cuts, keep=True)[2]
    into = list(selective_gradients(g, dlast, marks, arrays, softplus, start, cuts))
    for of_sequences in (2, 5, 7):
        into[of_sequences] = into[of_sequences].sum(0)
    return tuple(u.new_empty(0) if x is None else x for x in into)  # type: ignore[return-value]


@_gradients.register_fake
def _(
    g: Tensor, dlast: Tensor | None, marks: Tensor, u: Tensor, delta: Tensor, a: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    b, c, _, z, _, _, _, offsets = rest
    sequences = u.shape[0] if offsets is None else offsets.shape[0] - 1
    per_channel = a.new_empty(a.shape[:1])
    gate = u.new_empty(u.shape if z is not None else 0)
    made = [
        u.new_empty(u.shape),
        u.new_empty(u.shape),
        a.new_empty(a.shape),
        b.new_empty(b.shape),
        c.new_empty(c.shape),
    ]
    return *made, per_channel, gate, per_channel.clone(), a.new_empty((sequences, *a.shape))


def _once(*_: Any) -> Any:
    raise NotImplementedError(
        "selective_scan has no second derivatives, and none in forward mode: it keeps no state to take them from"
    )


def _nothing(ctx: Any, inputs: Any, output: Any) -> None:
    """Nothing is kept for what cannot be differentiated."""


_gradients_once = differentiable(_gradients, _nothing, _once, _once)


def _context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor, Tensor]) -> None:
    *arrays, ctx.softplus, initial, offsets, _ = inputs
    ctx.save_for_backward(*arrays, initial, offsets, output[2])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, g: Tensor | None, dlast: Tensor | None, _: Any) -> Any:
    *arrays, initial, offsets, marks = ctx.saved_tensors
    u = arrays[0]
    g = torch.zeros_like(u) if g is None else g
    g = g if g.stride(-1) == 1 or g.shape[-1] < 2 else g.contiguous()
    dlast = None if dlast is None else dlast.contiguous()
    made = _gradients_once(g, dlast, marks, *arrays, ctx.softplus, initial, offsets)
    *into, dinitial = [d if x is not None else None for d, x in zip(made, (*arrays, initial))]
    return *into, None, dinitial, None, None


_differentiable = differentiable(_scan, _context, _backward, _once)
