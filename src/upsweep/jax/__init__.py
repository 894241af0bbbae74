"""Scans for JAX: inside jit, vmap and grad, with the bits of `upsweep`.

A scan works in XLA's own buffers, on the CPU and on a GPU, where it is queued on XLA's stream. Gradients are linear
recurrences that run the other way, as in `upsweep.torch`, and can be differentiated again.

>>> import jax, jax.numpy as jnp, upsweep.jax as uj
>>> jax.jit(jax.grad(lambda a: uj.linear_recurrence(a, jnp.ones(3)).sum()))(jnp.full(3, 0.5)).tolist()
[0.0, 1.5, 1.5]
"""

from upsweep.elsewhere import absent
from upsweep.jax.layers import (
    hgrn,
    hgrn_step,
    min_gru,
    min_gru_step,
    rg_lru,
    rg_lru_step,
    s5,
    s5_step,
    selective_scan,
    selective_step,
)
from upsweep.jax.recurrences import discounted_sum, ema, gae, lfilter, linear_recurrence
from upsweep.jax.scans import (
    cumlogsumexp,
    cummax,
    cummin,
    cumulative_prod,
    cumulative_sum,
    reduce,
    scan,
)

__all__ = [
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumulative_prod",
    "cumulative_sum",
    "discounted_sum",
    "ema",
    "gae",
    "hgrn",
    "hgrn_step",
    "lfilter",
    "linear_recurrence",
    "min_gru",
    "min_gru_step",
    "reduce",
    "rg_lru",
    "rg_lru_step",
    "s5",
    "s5_step",
    "scan",
    "selective_scan",
    "selective_step",
]

__getattr__ = absent("upsweep.jax")
