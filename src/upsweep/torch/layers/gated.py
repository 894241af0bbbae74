"""Layers of one state a channel. The walk computes decay and input from the gates, and reads each wide array once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from upsweep.gated import gated_gradients, gated_scan
from upsweep.layers import GATED, gated_operands, one_step, required
from upsweep.torch.differentiable import differentiable, keep, plain
from upsweep.torch.layers.operands import TORCH, dense, detached, in_order, lines, tensors
from upsweep.torch.operands import accumulator


def rg_lru(
    x: Tensor, input_gate: Tensor, recurrence_gate: Tensor, decay: Tensor, *, initial: Tensor | None = None,
    cu_seqlens: Tensor | None = None, return_state: bool = False,
) -> Any:  # fmt: skip
    """The real-gated linear recurrent unit: `h[t] = a h[t-1] + sqrt(1 - a**2) (i x[t])`, differentiable, also twice.

    With r and i the sigmoids of the gates, `a = exp(-8 softplus(decay) r)`.

    Args:
        x, input_gate, recurrence_gate: (batch, time, channels), of one dtype: float32, float64, bfloat16 or float16. The gates
            are the arguments of the sigmoid.
        decay: (channels,), called Lambda in the paper.
        initial: the states before the first steps, (sequences, channels), float32 (float64 for float64).
        cu_seqlens: of packed sequences, which lie one behind another in a batch of 1: where each begins, and the end of the
            last. One on the CPU saves waiting for a GPU.
        return_state: whether to return the states after the last steps too.

    Returns:
        h, of the shape and dtype of x; with `return_state` the pair `(h, state)`. States are walked in order and unrounded:
        split anywhere, packed, in another batch or a step at a time by `rg_lru_step`, a sequence gives the same bits.

    Raises:
        ShapeError, DTypeError, SegmentError: an operand does not fit, before anything is computed.

    >>> import torch, upsweep.torch as ut
    >>> x, gate = torch.ones(1, 3, 1), torch.zeros(1, 3, 1)
    >>> [round(v, 3) for v in ut.rg_lru(x, gate, gate, torch.zeros(1))[0, :, 0].tolist()]
    [0.499, 0.53, 0.532]

    Source: De et al., "Griffin: mixing gated linear recurrences with local attention" (2024), section 2.4.
    """
    return _layer("rg_lru", (x, input_gate, recurrence_gate), decay, initial, cu_seqlens, return_state)


def rg_lru_step(
    state: Tensor, x: Tensor, input_gate: Tensor, recurrence_gate: Tensor, decay: Tensor
) -> Tensor:
    """One step of `rg_lru`, with its bits: x and the gates are (batch, channels), and `state` is brought up to date in place.

    `state` is (batch, channels), contiguous, float32 (float64 for float64). The result has the shape and dtype of x, and no
    gradients. On a GPU the step is one kernel, fit for a CUDA graph. Errors are those of `rg_lru`.

    >>> import torch, upsweep.torch as ut
    >>> state, x, gate = torch.zeros(1, 1), torch.ones(1, 1), torch.zeros(1, 1)
    >>> [round(ut.rg_lru_step(state, x, gate, gate, torch.zeros(1)).item(), 3) for t in range(3)]
    [0.499, 0.53, 0.532]
    """
    return _stepped("rg_lru", state, (x, input_gate, recurrence_gate), decay)


def min_gru(
    x: Tensor, gate: Tensor, *, initial: Tensor | None = None, cu_seqlens: Tensor | None = None, return_state: bool = False
) -> Any:  # fmt: skip
    """The minimal gated recurrent unit: `h[t] = (1 - z) h[t-1] + z x[t]` with z the sigmoid of the gate, differentiable.

    Args:
        x, gate: (batch, time, channels), of one dtype.
        initial, cu_seqlens, return_state: as in `rg_lru`.

    Returns:
        As `rg_lru`.

    >>> import torch, upsweep.torch as ut
    >>> ut.min_gru(torch.ones(1, 3, 1), torch.zeros(1, 3, 1))[0, :, 0].tolist()
    [0.5, 0.75, 0.875]

    Source: Feng et al., "Were RNNs all we needed?" (2024), section 3.1.
    """
    return _layer("min_gru", (x, gate), None, initial, cu_seqlens, return_state)


def min_gru_step(state: Tensor, x: Tensor, gate: Tensor) -> Tensor:
    """One step of `min_gru`, with its bits: x and gate are (batch, channels), all else is as in `rg_lru_step`.

    >>> import torch, upsweep.torch as ut
    >>> state = torch.zeros(1, 1)
    >>> [ut.min_gru_step(state, torch.ones(1, 1), torch.zeros(1, 1)).item() for t in range(3)]
    [0.5, 0.75, 0.875]
    """
    return _stepped("min_gru", state, (x, gate), None)


def hgrn(
    x: Tensor, forget_gate: Tensor, lower_bound: Tensor | None = None, *, initial: Tensor | None = None,
    cu_seqlens: Tensor | None = None, return_state: bool = False,
) -> Any:  # fmt: skip
    """The hierarchically gated recurrence: `h[t] = f h[t-1] + (1 - f) x[t]`, `f = lower + (1 - lower) sigmoid(gate)`.

    Args:
        x, forget_gate: (batch, time, channels), of one dtype.
        lower_bound: (channels,), of numbers from 0 to 1; None for zeros.
        initial, cu_seqlens, return_state: as in `rg_lru`.

    Returns:
        As `rg_lru`.

    >>> import torch, upsweep.torch as ut
    >>> ut.hgrn(torch.ones(1, 3, 1), torch.zeros(1, 3, 1), torch.tensor([0.5]))[0, :, 0].tolist()
    [0.25, 0.4375, 0.578125]

    Source: Qin et al., "Hierarchically gated recurrent neural network for sequence modeling" (2023), section 3.
    """
    (x,) = tensors(x)
    return _layer("hgrn", (x, forget_gate), _bound(lower_bound, x), initial, cu_seqlens, return_state)


def hgrn_step(state: Tensor, x: Tensor, forget_gate: Tensor, lower_bound: Tensor | None = None) -> Tensor:
    """One step of `hgrn`, with its bits: x and the gate are (batch, channels), all else is as in `rg_lru_step`.

    >>> import torch, upsweep.torch as ut
    >>> state, bound = torch.zeros(1, 1), torch.tensor([0.5])
    >>> [ut.hgrn_step(state, torch.ones(1, 1), torch.zeros(1, 1), bound).item() for t in range(3)]
    [0.25, 0.4375, 0.578125]
    """
    return _stepped("hgrn", state, (x, forget_gate), _bound(lower_bound, x))


def _bound(lower: Tensor | None, x: Tensor) -> Tensor:
    required(x, "x")
    return x.new_zeros(x.shape[-1:], dtype=accumulator(x.dtype)) if lower is None else lower


def _layer(
    layer: str, inputs: tuple[Tensor, ...], parameter: Tensor | None, initial: Tensor | None, cu_seqlens: Tensor | None,
    return_state: bool,
) -> Any:  # fmt: skip
    given = gated_operands(TORCH, layer, tensors(*inputs), *tensors(parameter, initial, cu_seqlens))
    h, last = _differentiable(layer, *_arguments(given.arrays), given.initial, given.offsets)
    return (h, last) if return_state else h


def _stepped(layer: str, h: Tensor, inputs: tuple[Tensor, ...], parameter: Tensor | None) -> Tensor:
    one_step(inputs, GATED[layer].inputs)
    wide = [x.detach().unsqueeze(1) for x in inputs]
    parameter, start = detached(parameter, h)
    given = gated_operands(TORCH, layer, wide, parameter, start, None)
    dense(h)
    with torch.no_grad():
        return _step(layer, h, *_arguments(given.arrays)).squeeze(1)


def _arguments(arrays: tuple[Any, ...]) -> list[Any]:
    """Three inputs, of which one may be missing, and the parameter."""
    *inputs, parameter = arrays
    return [*inputs, *[None] * (3 - len(inputs)), parameter]


def _present(*inputs: Any) -> list[Any]:
    return [x.detach() for x in inputs if x is not None]


def _states(x: Tensor, offsets: Tensor | None) -> Tensor:
    """New memory for a state of each sequence."""
    sequences = x.shape[0] if offsets is None else offsets.shape[0] - 1
    return x.new_empty((sequences, x.shape[2]), dtype=accumulator(x.dtype))


@torch.library.custom_op("upsweep::gated", mutates_args=())
def _gated(
    layer: str, x: Tensor, y: Tensor, z: Tensor | None, parameter: Tensor | None, initial: Tensor | None, offsets: Tensor | None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    h, last = _results(x, offsets)
    parameter, initial = detached(parameter, initial)
    gated_scan(layer, _present(x, y, z), parameter, initial, offsets, h, last)
    return h, last


def _results(x: Tensor, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), _states(x, offsets)


_gated.register_fake(lambda layer, x, y, z, parameter, initial, offsets: _results(x, offsets))


@torch.library.custom_op("upsweep::gated_step", mutates_args={"h"})
def _step(layer: str, h: Tensor, x: Tensor, y: Tensor, z: Tensor | None, parameter: Tensor | None) -> Tensor:
    out = x.new_empty(x.shape)
    gated_scan(layer, _present(x, y, z), parameter, h, None, out, h)
    return out


_step.register_fake(lambda layer, h, x, *_: x.new_empty(x.shape))


@torch.library.custom_op("upsweep::gated_gradients", mutates_args=())
def _gated_gradients(
    layer: str, h: Tensor, g: Tensor, dlast: Tensor | None, x: Tensor, y: Tensor, z: Tensor | None, parameter: Tensor | None,
    initial: Tensor | None, offsets: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of the three inputs, the parameter and initial; empty where there is no such operand."""
    inputs = _present(x, y, z)
    into, dinitial = [x.new_empty(x.shape) for _ in inputs], _states(x, offsets)
    dparameter = None if parameter is None else torch.empty_like(dinitial)
    h, g, dlast, parameter, initial = detached(h, g, dlast, parameter, initial)
    gated_gradients(layer, h, g, dlast, inputs, parameter, initial, offsets, into, dparameter, dinitial)
    none = x.new_empty(0)
    return *[*into, none][:3], none.clone() if dparameter is None else dparameter.sum(0), dinitial  # type: ignore[return-value]


@_gated_gradients.register_fake
def _(
    layer: str, h: Any, g: Any, dlast: Any, x: Tensor, y: Tensor, z: Any, parameter: Any, initial: Any, offsets: Any
) -> Any:  # fmt: skip
    third = x.new_empty(0 if z is None else x.shape)
    given = x.new_empty(0) if parameter is None else parameter.new_empty(parameter.shape)
    return x.new_empty(x.shape), x.new_empty(x.shape), third, given, _states(x, offsets)


_gradients = plain(_gated_gradients)


def _context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
    ctx.layer, *tensors = inputs
    keep(ctx, *tensors, output[0])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, g: Tensor | None, dlast: Tensor | None) -> Any:
    *tensors, h = ctx.saved_tensors
    x = tensors[0]
    # Gradients of gradients are those of PyTorch's own operators.
    if torch.is_grad_enabled():
        made = _composed_gradients(ctx.layer, tensors, g, dlast)
    else:
        g = torch.zeros_like(x) if g is None else g
        made = _gradients(ctx.layer, h, lines(g), None if dlast is None else dlast.contiguous(), *tensors)
    return None, *[None if v is None else d for v, d in zip(tensors, made)], None


def _composed_gradients(
    layer: str, tensors: list[Any], g: Tensor | None, dlast: Tensor | None
) -> list[Tensor | None]:
    """By operators that have gradients themselves."""
    outputs, pull = _pulled(layer, tensors)
    made = iter(pull(tuple(torch.zeros_like(y) if d is None else d for y, d in zip(outputs, (g, dlast)))))
    return [None if v is None else next(made) for v in tensors[:-1]]


def _pulled(layer: str, tensors: list[Any]) -> tuple[Any, Any]:
    """The composed layer, and the function from the gradients of its results to the gradients of the operands that there are."""
    *operands, offsets = tensors

    def run(*given: Tensor) -> tuple[Tensor, Tensor]:
        rest = iter(given)
        return _composed(layer, *[None if v is None else next(rest) for v in operands], offsets)  # pyright: ignore[reportCallIssue]

    return torch.func.vjp(run, *[v for v in operands if v is not None])  # type: ignore[return-value]


def _composed(
    layer: str, x: Any, y: Any, z: Any, parameter: Any, initial: Any, offsets: Any
) -> tuple[Tensor, Tensor]:
    """The layer by PyTorch's own operators and a recurrence in order."""
    inputs = [v.to(accumulator(x.dtype)) for v in (x, y, z) if v is not None]
    a, b = GATED[layer].gates(TORCH.maths, parameter, *inputs)
    h, last = in_order(a, b, initial, offsets)
    return h.to(x.dtype), last


def _jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
    """The tangent by way of the gradient. The gradient is linear in the gradients of the results, and its own gradient is the
    tangent.
    """
    *tensors, _ = ctx.saved_tensors
    operands = tensors[:-1]
    outputs, pull = _pulled(ctx.layer, tensors)
    push = torch.func.vjp(lambda *d: pull(d), *[torch.zeros_like(y) for y in outputs])[1]
    there = [(v, d) for v, d in zip(operands, tangents) if v is not None]
    return push(tuple(torch.zeros_like(v) if d is None else d for v, d in there))


_differentiable = differentiable(_gated, _context, _backward, _jvp)
