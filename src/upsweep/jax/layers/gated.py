"""Layers of one state a channel, whose decay and input are made of gates on the way."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from upsweep.dtypes import accumulator
from upsweep.gated import gated_gradients, gated_scan
from upsweep.jax.buffers import in_place, like, varying_alike
from upsweep.jax.layers.operands import JAX, arrays, in_order, of_words, over_batches, words
from upsweep.layers import GATED, gated_operands, one_step, required


def rg_lru(
    x: Any, input_gate: Any, recurrence_gate: Any, decay: Any, *, initial: Any = None, cu_seqlens: Any = None,
    return_state: bool = False,
) -> Any:  # fmt: skip
    """The real-gated linear recurrent unit, as `upsweep.torch.rg_lru`, differentiable, also twice (reverse mode).

    Args:
        x, input_gate, recurrence_gate: (batch, time, channels), of one dtype: float32, float64, bfloat16 or float16.
        decay: (channels,).
        initial: the states before the first steps, (sequences, channels), float32 (float64 for float64).
        cu_seqlens: of packed sequences, which lie one behind another in a batch of 1: where each begins, and the end of the
            last. A traced one is not checked, but made to go from 0 to the number of steps and not to fall.
        return_state: whether to return the states after the last steps too.

    Returns:
        h, of the shape and dtype of x; with `return_state` the pair `(h, state)`. The bits do not depend on how a sequence is
        split, packed, batched or mapped by vmap.

    Raises:
        ShapeError, DTypeError, SegmentError: an operand does not fit, before anything is computed.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> x, gate = jnp.ones((1, 3, 1)), jnp.zeros((1, 3, 1))
    >>> [round(v, 3) for v in uj.rg_lru(x, gate, gate, jnp.zeros(1))[0, :, 0].tolist()]
    [0.499, 0.53, 0.532]

    Source: De et al., "Griffin: mixing gated linear recurrences with local attention" (2024), section 2.4.
    """
    return _layer("rg_lru", (x, input_gate, recurrence_gate), decay, initial, cu_seqlens, return_state)


def rg_lru_step(state: Any, x: Any, input_gate: Any, recurrence_gate: Any, decay: Any) -> tuple[Array, Array]:
    """One step of `rg_lru`, with its bits: x and the gates are (batch, channels), as is the state, which is float32 (float64 for
    float64). Returns `(h, state)`. Errors are those of `rg_lru`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> state, x, gate = jnp.zeros((1, 1)), jnp.ones((1, 1)), jnp.zeros((1, 1))
    >>> h, state = uj.rg_lru_step(state, x, gate, gate, jnp.zeros(1))
    >>> round(h.item(), 3)
    0.499
    """
    return _stepped("rg_lru", state, (x, input_gate, recurrence_gate), decay)


def min_gru(
    x: Any, gate: Any, *, initial: Any = None, cu_seqlens: Any = None, return_state: bool = False
) -> Any:
    """The minimal gated recurrent unit, as `upsweep.torch.min_gru`, differentiable, also twice (reverse mode).

    Args:
        x, gate: (batch, time, channels), of one dtype.
        initial, cu_seqlens, return_state: as in `rg_lru`.

    Returns:
        As `rg_lru`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.min_gru(jnp.ones((1, 3, 1)), jnp.zeros((1, 3, 1)))[0, :, 0].tolist()
    [0.5, 0.75, 0.875]

    Source: Feng et al., "Were RNNs all we needed?" (2024), section 3.1.
    """
    return _layer("min_gru", (x, gate), None, initial, cu_seqlens, return_state)


def min_gru_step(state: Any, x: Any, gate: Any) -> tuple[Array, Array]:
    """One step of `min_gru`, with its bits: x and gate are (batch, channels), all else is as in `rg_lru_step`."""
    return _stepped("min_gru", state, (x, gate), None)


def hgrn(
    x: Any, forget_gate: Any, lower_bound: Any = None, *, initial: Any = None, cu_seqlens: Any = None,
    return_state: bool = False,
) -> Any:  # fmt: skip
    """The hierarchically gated recurrence, as `upsweep.torch.hgrn`, differentiable, also twice (reverse mode).

    Args:
        x, forget_gate: (batch, time, channels), of one dtype.
        lower_bound: (channels,), of numbers from 0 to 1; None for zeros.
        initial, cu_seqlens, return_state: as in `rg_lru`.

    Returns:
        As `rg_lru`.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> uj.hgrn(jnp.ones((1, 3, 1)), jnp.zeros((1, 3, 1)), jnp.array([0.5]))[0, :, 0].tolist()
    [0.25, 0.4375, 0.578125]

    Source: Qin et al., "Hierarchically gated recurrent neural network for sequence modeling" (2023), section 3.
    """
    return _layer("hgrn", (x, forget_gate), _bound(lower_bound, x), initial, cu_seqlens, return_state)


def hgrn_step(state: Any, x: Any, forget_gate: Any, lower_bound: Any = None) -> tuple[Array, Array]:
    """One step of `hgrn`, with its bits: x and the gate are (batch, channels), all else is as in `rg_lru_step`."""
    return _stepped("hgrn", state, (x, forget_gate), _bound(lower_bound, x))


def _bound(lower: Any, x: Any) -> Any:
    required(x, "x")
    return jnp.zeros(jnp.shape(x)[-1:], accumulator(jnp.asarray(x).dtype)) if lower is None else lower


def _layer(layer: str, inputs: Any, parameter: Any, initial: Any, cu_seqlens: Any, return_state: bool) -> Any:
    parameter, initial, cu_seqlens = arrays(parameter, initial, cu_seqlens)
    given = gated_operands(JAX, layer, arrays(*inputs), parameter, initial, cu_seqlens)
    *inputs, parameter = given.arrays
    operands = varying_alike((tuple(inputs), parameter, given.initial, given.offsets))
    h, last = _run(layer, *operands)
    return (h, last) if return_state else h


def _stepped(layer: str, state: Any, inputs: Any, parameter: Any) -> tuple[Array, Array]:
    inputs = arrays(*inputs)
    one_step(inputs, GATED[layer].inputs)
    h, last = _layer(layer, [x[:, None] for x in inputs], parameter, state, None, True)
    return h[:, 0], last


def _packed(along: Any, fixed: Any) -> bool:
    return fixed[1] is not None


def _walked(layer: str, inputs: Any, parameter: Any, initial: Any, offsets: Any) -> Any:
    return _forward(layer)((inputs, initial), (parameter, offsets))


_run: Any = jax.custom_vjp(_walked, nondiff_argnums=(0,))


@lru_cache
def _forward(layer: str) -> Any:
    def run(along: Any, fixed: Any) -> Any:
        (inputs, initial), (parameter, offsets) = along, fixed
        shapes = like(inputs[0]), _states(inputs[0], offsets)
        return in_place(_scan, (layer,), shapes, inputs, parameter, initial, words(offsets))

    return over_batches(run, _packed)


def _states(x: Array, offsets: Any) -> Any:
    """The shape and dtype of the states of all sequences."""
    sequences = x.shape[0] if offsets is None else offsets.shape[0] - 1
    return jax.ShapeDtypeStruct((sequences, x.shape[2]), accumulator(x.dtype))


def _scan(layer: str, outs: Any, inputs: Any, parameter: Any, initial: Any, offsets: Any) -> None:
    gated_scan(layer, inputs, parameter, initial, of_words(offsets), *outs)


def _kept(layer: str, inputs: Any, parameter: Any, initial: Any, offsets: Any) -> Any:
    h, last = _run(layer, inputs, parameter, initial, offsets)
    return (h, last), (h, inputs, parameter, initial, offsets)


def _pulled(layer: str, kept: Any, given: Any) -> Any:
    return *_gradients(layer, given, *kept), None


_run.defvjp(_kept, _pulled)


def _walked_back(
    layer: str, given: Any, h: Array, inputs: Any, parameter: Any, initial: Any, offsets: Any
) -> Any:
    """The gradients of the inputs, the parameter and initial, from the gradients of the results; None for a missing operand."""
    made, dparameter, dinitial = _backward(layer)((given, h, inputs, initial), (parameter, offsets))
    return made, None if parameter is None else dparameter.sum(0), None if initial is None else dinitial


_gradients: Any = jax.custom_vjp(_walked_back, nondiff_argnums=(0,))


@lru_cache
def _backward(layer: str) -> Any:
    def run(along: Any, fixed: Any) -> Any:
        ((g, dlast), h, inputs, initial), (parameter, offsets) = along, fixed
        states = _states(h, offsets)
        shapes = tuple(map(like, inputs)), None if parameter is None else states, states
        return in_place(_scan_back, (layer,), shapes, h, g, dlast, inputs, parameter, initial, words(offsets))

    return over_batches(run, _packed)


def _scan_back(
    layer: str, outs: Any, h: Any, g: Any, dlast: Any, inputs: Any, parameter: Any, initial: Any, offsets: Any
) -> None:
    gated_gradients(layer, h, g, dlast, inputs, parameter, initial, of_words(offsets), *outs)


def _gradients_kept(layer: str, given: Any, h: Array, *operands: Any) -> Any:
    return _gradients(layer, given, h, *operands), (given, h, *operands)


def _gradients_pulled(layer: str, kept: Any, given_back: Any) -> Any:
    """The gradients of gradients, by the composed layer. h is a result of the operands, so that its gradient goes to these."""
    given, h, *operands, offsets = kept

    def composed(given: Any, *operands: Any) -> Any:
        def whole(inputs: Any, parameter: Any, initial: Any) -> Any:
            return _composed(layer, inputs, parameter, initial, offsets)

        return jax.vjp(whole, *operands)[1](given)

    into, *made = jax.vjp(composed, given, *operands)[1](given_back)
    return into, jnp.zeros_like(h), *made, None


_gradients.defvjp(_gradients_kept, _gradients_pulled)


def _composed(layer: str, inputs: Any, parameter: Any, initial: Any, offsets: Any) -> Any:
    """The layer by JAX's own functions and a recurrence in order."""
    dtype = inputs[0].dtype
    a, b = GATED[layer].gates(JAX.maths, parameter, *(x.astype(accumulator(dtype)) for x in inputs))
    h, last = in_order(a, b, initial, offsets)
    return h.astype(dtype), last
