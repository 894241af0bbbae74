"""The diagonal state space of S5: complex states whose decay is the same for all steps."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from upsweep.jax.layers.operands import JAX, arrays, in_order
from upsweep.jax.operands import array
from upsweep.layers import one_step, s5_operands


def s5(
    x: Any, eigenvalues: Any, step: Any = 1.0, *, initial: Any = None, cu_seqlens: Any = None, return_state: bool = False
) -> Any:  # fmt: skip
    """`h[t] = exp(eigenvalues step) h[t-1] + x[t]`, as `upsweep.torch.s5`, with all derivatives.

    Args:
        x: (batch, time, states), complex64 or complex128.
        eigenvalues: (states,), complex, with a negative real part where states decay.
        step: a number, or a real array of (states,).
        initial: the states before the first steps, (sequences, states), of the dtype of x.
        cu_seqlens, return_state: as in `rg_lru`.

    Returns:
        h, of the shape and dtype of x; with `return_state` the pair `(h, state)`. The exponentials are XLA's own, so that the
        decays, and what follows from them, may differ from PyTorch's in the last places.

    Raises:
        ShapeError, DTypeError, SegmentError: an operand does not fit, before anything is computed.

    >>> import jax.numpy as jnp, upsweep.jax as uj
    >>> x = jnp.zeros((1, 4, 1), complex).at[0, 0, 0].set(1)
    >>> h = uj.s5(x, jnp.array([0.5j * jnp.pi]))[0, :, 0]
    >>> [complex(round(v.real, 3) + 0.0, round(v.imag, 3) + 0.0) for v in h.tolist()]
    [(1+0j), 1j, (-1+0j), -1j]

    Source: Smith, Warrington and Linderman, "Simplified state space layers for sequence modeling" (2023), equations 2 to 5.
    """
    step = step if isinstance(step, (int, float)) else array(step)
    x, eigenvalues, initial, cu_seqlens = arrays(x, eigenvalues, initial, cu_seqlens)
    given = s5_operands(JAX, x, eigenvalues, step, initial, cu_seqlens)
    x, eigenvalues, step = given.arrays
    # XLA would compute the exponentials of a decay as large as x once an item.
    decay = jnp.exp(eigenvalues * step)[None, None]
    h, last = in_order(decay, x, given.initial, given.offsets)
    return (h, last) if return_state else h


def s5_step(state: Any, x: Any, eigenvalues: Any, step: Any = 1.0) -> tuple[Array, Array]:
    """One step of `s5`, with its bits: x is (batch, states). Returns `(h, state)`, which are the same."""
    (x,) = arrays(x)
    one_step([x], ["x"])
    h, last = s5(x[:, None], eigenvalues, step, initial=state, return_state=True)
    return h[:, 0], last
