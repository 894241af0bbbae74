"""Layers of one state a channel, whose decay and input are made of gates on the way: what is wide is read once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from upsweep.arguments import ShapeError
from upsweep.engine import DTypeError
from upsweep.gated import gated_gradients, gated_scan
from upsweep.torch.layers.operands import constant, in_order, packed, state, wide
from upsweep.torch.library import differentiable
from upsweep.torch.operands import accumulator


def rg_lru(
    x: Tensor, input_gate: Tensor, recurrence_gate: Tensor, decay: Tensor, *, initial: Tensor | None = None,
    cu_seqlens: Tensor | None = None, return_state: bool = False,
) -> Any:  # fmt: skip
    """The real-gated linear recurrent unit: `h[t] = a h[t-1] + sqrt(1 - a**2) (i x[t])`, differentiable, also twice.

    With r and i the sigmoids of the gates, `a = exp(-8 softplus(decay) r)`.

    Args:
        x, input_gate, recurrence_gate: (batch, time, channels), of one dtype: float32, float64, bfloat16 or float16. The gates
            are what goes into the sigmoid.
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

    Without gradients. On a GPU, next to the softplus of `decay`, one kernel, fit for a CUDA graph.
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
    """One step of `min_gru`, with its bits: x and gate are (batch, channels), and `state` is brought up to date in place."""
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
    return _layer("hgrn", (x, forget_gate), _bound(lower_bound, x), initial, cu_seqlens, return_state)


def hgrn_step(state: Tensor, x: Tensor, forget_gate: Tensor, lower_bound: Tensor | None = None) -> Tensor:
    """One step of `hgrn`, with its bits: x and the gate are (batch, channels), and `state` is brought up to date in place."""
    return _stepped("hgrn", state, (x, forget_gate), _bound(lower_bound, x))


def _bound(lower: Tensor | None, x: Tensor) -> Tensor:
    return x.new_zeros(x.shape[-1:], dtype=accumulator(x.dtype)) if lower is None else lower


def _layer(
    layer: str, inputs: tuple[Tensor, ...], parameter: Tensor | None, initial: Tensor | None, cu_seqlens: Tensor | None,
    return_state: bool,
) -> Any:  # fmt: skip
    inputs, parameter, initial, offsets = _checked(layer, inputs, parameter, initial, cu_seqlens)
    h, last = _differentiable(layer, *inputs, *[None] * (3 - len(inputs)), parameter, initial, offsets)
    return (h, last) if return_state else h


def _stepped(layer: str, h: Tensor, inputs: tuple[Tensor, ...], parameter: Tensor | None) -> Tensor:
    if any(x.ndim != 2 for x in inputs):
        raise ShapeError(f"x has shape {tuple(inputs[0].shape)}; a step takes (batch, channels)")
    wide_ = tuple(x.detach().unsqueeze(1) for x in inputs)
    given, parameter, _, _ = _checked(
        layer, wide_, None if parameter is None else parameter.detach(), h.detach(), None
    )
    if not h.is_contiguous():
        raise ShapeError("state is not contiguous; pass state.contiguous() and keep it")
    with torch.no_grad():
        return _step(layer, h, *given, *[None] * (3 - len(given)), parameter).squeeze(1)


_NAMES = {
    "rg_lru": (("x", "input_gate", "recurrence_gate"), "decay"),
    "min_gru": (("x", "gate"), ""),
    "hgrn": (("x", "forget_gate"), "lower_bound"),
}
"""Of each layer: its operands with an item for each step, and its parameter."""


def _checked(
    layer: str,
    inputs: tuple[Tensor, ...],
    parameter: Tensor | None,
    initial: Tensor | None,
    cu_seqlens: Tensor | None,
) -> tuple[tuple[Tensor, ...], Tensor | None, Tensor | None, Tensor | None]:
    x = inputs[0]
    if x.ndim != 3:
        raise ShapeError(f"x has shape {tuple(x.shape)}; a layer takes (batch, time, channels)")
    real = accumulator(x.dtype)
    if real not in (torch.float32, torch.float64) or x.dtype.itemsize == 1:
        raise DTypeError(f"x is {x.dtype}; a layer takes float32, float64, bfloat16 and float16")
    names, parameter_name = _NAMES[layer]
    given = tuple(wide(v, name, tuple(x.shape), x) for v, name in zip(inputs, names))
    channels = x.shape[2]
    if parameter is not None:
        parameter = constant(parameter, parameter_name, (channels,), real, x)
        parameter = -8 * torch.nn.functional.softplus(parameter) if layer == "rg_lru" else parameter
    offsets = packed(cu_seqlens, x)
    sequences = x.shape[0] if offsets is None else len(offsets) - 1
    start = (
        None if initial is None else state(initial, "initial", (sequences, channels), real, x).contiguous()
    )
    return given, parameter, start, offsets


def _present(*inputs: Any) -> list[Any]:
    return [x.detach() for x in inputs if x is not None]


def _detached(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach()


@torch.library.custom_op("upsweep::gated", mutates_args=())
def _gated(
    layer: str, x: Tensor, y: Tensor, z: Tensor | None, parameter: Tensor | None, initial: Tensor | None, offsets: Tensor | None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return gated_scan(layer, _present(x, y, z), _detached(parameter), _detached(initial), offsets)


@_gated.register_fake
def _(
    layer: str, x: Any, y: Any, z: Any, parameter: Any, initial: Any, offsets: Any
) -> tuple[Tensor, Tensor]:
    sequences = x.shape[0] if offsets is None else offsets.shape[0] - 1
    return x.new_empty(x.shape), x.new_empty((sequences, x.shape[2]), dtype=accumulator(x.dtype))


@torch.library.custom_op("upsweep::gated_step", mutates_args={"h"})
def _step(layer: str, h: Tensor, x: Tensor, y: Tensor, z: Tensor | None, parameter: Tensor | None) -> Tensor:
    return gated_scan(layer, _present(x, y, z), parameter, h, None, last=h)[0]


@_step.register_fake
def _(layer: str, h: Tensor, x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.custom_op("upsweep::gated_gradients", mutates_args=())
def _gradients(
    layer: str, h: Tensor, g: Tensor, dlast: Tensor | None, x: Tensor, y: Tensor, z: Tensor | None, parameter: Tensor | None,
    initial: Tensor | None, offsets: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Of the three inputs, the parameter and initial; empty where there is none."""
    inputs, given = _present(x, y, z), (_detached(parameter), _detached(initial), offsets)
    made, dparameter, dinitial = gated_gradients(
        layer, h.detach(), g.detach(), _detached(dlast), inputs, *given
    )
    none = x.new_empty(0)
    return *[*made, none][:3], none.clone() if dparameter is None else dparameter.sum(0), dinitial  # type: ignore[return-value]


@_gradients.register_fake
def _(
    layer: str,
    h: Tensor,
    g: Tensor,
    dlast: Any,
    x: Tensor,
    y: Tensor,
    z: Any,
    parameter: Any,
    _: Any,
    offsets: Any,
) -> Any:
    sequences = x.shape[0] if offsets is None else offsets.shape[0] - 1
    third = x.new_empty(0 if z is None else x.shape)
    given = x.new_empty(0) if parameter is None else parameter.new_empty(parameter.shape)
    states = x.new_empty((sequences, x.shape[2]), dtype=accumulator(x.dtype))
    return x.new_empty(x.shape), x.new_empty(x.shape), third, given, states


def _context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
    ctx.layer, *tensors = inputs
    ctx.save_for_backward(*tensors, output[0])
    ctx.save_for_forward(*tensors)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, g: Tensor | None, dlast: Tensor | None) -> Any:
    *tensors, h = ctx.saved_tensors
    x = tensors[0]
    if torch.is_grad_enabled():  # gradients of gradients: of what is composed
        made = _composed_gradients(ctx.layer, tensors, g, dlast)
    else:
        g = torch.zeros_like(x) if g is None else g
        g = g if g.stride(-1) == 1 or g.shape[-1] < 2 else g.contiguous()
        made = _gradients(ctx.layer, h, g, None if dlast is None else dlast.contiguous(), *tensors)
    return None, *[None if v is None else d for v, d in zip(tensors, made)], None


def _composed_gradients(
    layer: str, tensors: list[Any], g: Tensor | None, dlast: Tensor | None
) -> list[Tensor | None]:
    """By operators that have gradients themselves."""
    operands, offsets = tensors[:-1], tensors[-1]
    with torch.enable_grad():
        fresh = [None if v is None else v.view_as(v) for v in operands]
        outputs = _composed(layer, *fresh, offsets)  # pyright: ignore[reportCallIssue]
    given = [(y, d) for y, d in zip(outputs, (g, dlast)) if d is not None]
    wanted = [v for v in fresh if v is not None and v.requires_grad]
    made = iter(
        torch.autograd.grad(
            [y for y, _ in given], wanted, [d for _, d in given], create_graph=True, allow_unused=True
        )
    )
    return [next(made) if v is not None and v.requires_grad else None for v in fresh]


def _composed(
    layer: str, x: Any, y: Any, z: Any, parameter: Any, initial: Any, offsets: Any
) -> tuple[Tensor, Tensor]:
    """The layer by PyTorch's own operators and a recurrence in order."""
    dtype, real = x.dtype, accumulator(x.dtype)
    x, y, z = (v if v is None else v.to(real) for v in (x, y, z))
    if layer == "rg_lru":
        decay = parameter * torch.sigmoid(z)
        a, b = decay.exp(), torch.sqrt(-torch.expm1(2 * decay)) * (torch.sigmoid(y) * x)
    elif layer == "min_gru":
        a, b = torch.sigmoid(-y), torch.sigmoid(y) * x
    else:
        shut = (1 - parameter) * torch.sigmoid(-y)
        a, b = 1 - shut, shut * x
    h, last = in_order(a, b, initial, offsets)
    return h.to(dtype), last


def _jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
    """The tangent by way of the gradient, which is linear in what it is taken of: its own gradient there."""
    *operands, offsets = ctx.saved_tensors
    with torch.enable_grad():
        fresh = [None if v is None else v.detach().requires_grad_() for v in operands]
        outputs = _composed(ctx.layer, *fresh, offsets)  # pyright: ignore[reportCallIssue]
        pulled = [torch.zeros_like(y, requires_grad=True) for y in outputs]
        some = [(v, d) for v, d in zip(fresh, tangents) if v is not None and d is not None]
        made = torch.autograd.grad(outputs, [v for v, _ in some], pulled, create_graph=True)
    return torch.autograd.grad(made, pulled, [d for _, d in some])


_differentiable = differentiable(_gated, _context, _backward, _jvp)
