"""Layers of recurrent models, walked in order, so that training, prefill and decoding give the same bits.

They are those of `upsweep.torch`, with the same kernels: (batch, time, channels), or packed sequences of unlike lengths with
`cu_seqlens`, gradients, and a step.
"""

from upsweep.jax.layers.gated import hgrn, hgrn_step, min_gru, min_gru_step, rg_lru, rg_lru_step
from upsweep.jax.layers.s5 import s5, s5_step
from upsweep.jax.layers.selective import selective_scan, selective_step

__all__ = [
    "hgrn",
    "hgrn_step",
    "min_gru",
    "min_gru_step",
    "rg_lru",
    "rg_lru_step",
    "s5",
    "s5_step",
    "selective_scan",
    "selective_step",
]
