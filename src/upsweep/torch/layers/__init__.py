"""Layers of recurrent models, walked in order, so that training, prefill and decoding give the same bits.

Every layer takes (batch, time, channels), or packed sequences of unlike lengths with `cu_seqlens`, has gradients, and has a
step that works on its state in place.
"""

from upsweep.torch.layers.gated import hgrn, hgrn_step, min_gru, min_gru_step, rg_lru, rg_lru_step
from upsweep.torch.layers.s5 import s5, s5_step
from upsweep.torch.layers.selective import selective_scan, selective_step

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
