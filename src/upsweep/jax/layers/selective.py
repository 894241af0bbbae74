"""The selective scan of Mamba: the state of each channel is N values, whose decay, input and output depend on the item."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
from jax import Array

from upsweep.dtypes import accumulator
from upsweep.jax.buffers import in_place, like, varying_alike
from upsweep.jax.layers.operands import JAX, arrays, of_words, over_batches, words
from upsweep.layers import CHUNK, ONCE, marks_shape, one_step, selective_operands
from upsweep.selective import selective_gradients
from upsweep.selective import selective_scan as scanned


def selective_scan(
    u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any = None, z: Any = None, delta_bias: Any = None,
    delta_softplus: bool = False, *, initial: Any = None, cu_seqlens: Any = None, return_state: bool = False,
) -> Any:  # fmt: skip
    """`h[t] = exp(delta[t] A) h[t-1] + delta[t] u[t] B[t]`, `y[t] = (C[t] h[t] + D u[t]) silu(z[t])`, as
    `upsweep.torch.selective_scan`, differentiable once, in reverse mode. No state is in memory for all steps.

    Args:
        u: (batch, time, channels), float32, float64, bfloat16 or float16.
        delta, z: as u, of its dtype; z None for no gate.
        A: (channels, N), real. On a GPU N is at most 32, for float64 at most 16.
        B, C: (batch, time, N), of the dtype of u.
        D, delta_bias: (channels,), or None for zeros.
        delta_softplus: whether `log(1 + exp(delta + delta_bias))` stands for delta.
        initial: the states before the first steps, (sequences, channels, N), float32 (float64 for float64).
        cu_seqlens, return_state: as in `rg_lru`.

    Returns:
        y, of the shape and dtype of u; with `return_state` the pair `(y, state)`.

    Raises:
        ShapeError, DTypeError, SegmentError: an operand does not fit, before anything is computed.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> u, A, B = jnp.ones((1, 3, 2)), -jnp.ones((2, 4)), jnp.ones((1, 3, 4))
    >>> y, state = uj.selective_scan(u, u, A, B, B, return_state=True)
    >>> [round(v, 3) for v in y[0, :, 0].tolist()]
    [4.0, 5.472, 6.013]
    >>> rest, state = uj.selective_step(state, u[:, 0], u[:, 0], A, B[:, 0], B[:, 0])
    >>> round(rest[0, 0].item(), 3), state.shape
    (6.212, (1, 2, 4))

    Source: Gu and Dao, "Mamba: linear-time sequence modeling with selective state spaces" (2023), algorithm 2.
    """
    operands = arrays(u, delta, A, B, C, D, z, delta_bias)
    given = selective_operands(JAX, operands, *arrays(initial, cu_seqlens))
    operands = varying_alike((given.arrays, given.initial, given.offsets))
    y, last = _run(delta_softplus, *operands)
    return (y, last) if return_state else y


def selective_step(
    state: Any, u: Any, delta: Any, A: Any, B: Any, C: Any, D: Any = None, z: Any = None, delta_bias: Any = None,
    delta_softplus: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """One step of `selective_scan`, with its bits.

    Args:
        state: (batch, channels, N), of the dtype of the states.
        u, delta, z: (batch, channels); B, C: (batch, N).
        A, D, delta_bias, delta_softplus: as in `selective_scan`.

    Returns:
        The pair `(y, state)`.
    """
    given = arrays(u, delta, B, C, z)
    one_step(given, ("u", "delta", "B", "C", "z"))
    u, delta, B, C, z = (None if x is None else x[:, None] for x in given)
    how = {"initial": state, "return_state": True}
    y, last = selective_scan(u, delta, A, B, C, D, z, delta_bias, delta_softplus, **how)
    return y[:, 0], last


def _alone(along: Any, fixed: Any) -> bool:
    """The places of the kept states of a sequence: its first step says where they lie."""
    (u, *_), *_ = along
    return fixed[-1] is not None or u.shape[1] % CHUNK > 0


def _divided(operands: Any) -> tuple[Any, Any]:
    """The arrays that have the batch in front, and the arrays that are the same for all steps."""
    u, delta, a, b, c, skip, z, bias = operands
    return (u, delta, b, c, z), (a, skip, bias)


def _whole(along: Any, fixed: Any) -> tuple[Any, ...]:
    (u, delta, b, c, z), (a, skip, bias) = along, fixed
    return u, delta, a, b, c, skip, z, bias


def _once(function: Any) -> Any:
    """A function that says that it has no derivatives, where they are asked for."""
    made = jax.custom_vjp(function, nondiff_argnums=(0,))

    def kept(softplus: bool, *operands: Any) -> Any:
        return made(softplus, *operands), None

    def pulled(softplus: bool, kept: Any, given: Any) -> Any:
        raise NotImplementedError(ONCE)

    made.defvjp(kept, pulled)
    return made


def _walked(softplus: bool, operands: Any, initial: Any, offsets: Any) -> Any:
    along, fixed = _divided(operands)
    return _forward(softplus, False)((along, initial), (fixed, offsets))[:2]


_run: Any = jax.custom_vjp(_walked, nondiff_argnums=(0,))


@lru_cache
def _forward(softplus: bool, keep: bool) -> Any:
    def run(along: Any, fixed: Any) -> Any:
        (varying, initial), (constant, offsets) = along, fixed
        u, states = varying[0], _states(varying[0], constant[0], offsets)
        marks = jax.ShapeDtypeStruct(marks_shape(u.shape, states.shape[2], states.shape[0]), states.dtype)
        shapes = like(u), states, marks if keep else None
        return in_place(_scan, (softplus,), shapes, varying, constant, initial, words(offsets))

    return over_batches(run, _alone)


def _states(u: Array, a: Array, offsets: Any) -> Any:
    """The shape and dtype of the states of all sequences."""
    sequences = u.shape[0] if offsets is None else offsets.shape[0] - 1
    return jax.ShapeDtypeStruct((sequences, *a.shape), accumulator(u.dtype))


def _scan(softplus: bool, outs: Any, along: Any, fixed: Any, initial: Any, offsets: Any) -> None:
    scanned(_whole(along, fixed), softplus, initial, of_words(offsets), *outs)


@_once
def _marked(softplus: bool, operands: Any, initial: Any, offsets: Any) -> Any:
    """The results, with the states that the way back starts from."""
    along, fixed = _divided(operands)
    return _forward(softplus, True)((along, initial), (fixed, offsets))


def _kept(softplus: bool, operands: Any, initial: Any, offsets: Any) -> Any:
    y, last, marks = _marked(softplus, operands, initial, offsets)
    return (y, last), (marks, operands, initial, offsets)


def _pulled(softplus: bool, kept: Any, given: Any) -> Any:
    *into, dinitial = _gradients(softplus, given, *kept)
    return tuple(into), dinitial, None


_run.defvjp(_kept, _pulled)


@_once
def _gradients(softplus: bool, given: Any, marks: Array, operands: Any, initial: Any, offsets: Any) -> Any:
    """The gradients of the operands and initial; None where there is none."""
    along, fixed = _divided(operands)
    made = _backward(softplus)((along, initial, given, marks), (fixed, offsets))
    (du, ddelta, dz, db, dc), (da, dskip, dbias, dinitial) = made
    into = du, ddelta, da.sum(0), db, dc, dskip.sum(0), dz, dbias.sum(0), dinitial
    return [None if x is None else d for x, d in zip((*operands, initial), into)]


@lru_cache
def _backward(softplus: bool) -> Any:
    def run(along: Any, fixed: Any) -> Any:
        (varying, initial, (g, dlast), marks), (constant, offsets) = along, fixed
        u, delta, b, c, z = varying
        states = _states(u, constant[0], offsets)
        per_channel = jax.ShapeDtypeStruct(states.shape[:2], states.dtype)
        into = [None if x is None else like(x) for x in (u, delta, z, b, c)]
        shapes = tuple(into), (states, per_channel, per_channel, states)
        operands = g, dlast, marks, varying, constant, initial, words(offsets)
        return in_place(_scan_back, (softplus,), shapes, *operands)

    return over_batches(run, _alone)


def _scan_back(
    softplus: bool, outs: Any, g: Any, dlast: Any, marks: Any, along: Any, fixed: Any, initial: Any, offsets: Any
) -> None:  # fmt: skip
    operands = _whole(along, fixed)
    selective_gradients(g, dlast, marks, operands, softplus, initial, of_words(offsets), *outs)
