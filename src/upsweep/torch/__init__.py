"""Scans for PyTorch with gradients: inside autograd, `torch.func`, torch.compile and autocast, on the CPU and on CUDA.

Every function here gives the bits of its namesake in `upsweep`, and takes `dim=` for `axis=`. Under autocast half precision is
scanned as float32.

>>> import torch, upsweep.torch as ut
>>> a = torch.tensor([0.5, 0.5, 0.5], requires_grad=True)
>>> h = ut.linear_recurrence(a, torch.ones(3))
>>> h.sum().backward()
>>> h.tolist(), a.grad.tolist()
([1.0, 1.5, 1.75], [0.0, 1.5, 1.5])
"""

from upsweep.elsewhere import absent
from upsweep.torch.layers import (
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
from upsweep.torch.recurrences import discounted_sum, ema, gae, lfilter, linear_recurrence
from upsweep.torch.scans import cumlogsumexp, cummax, cummin, cumulative_prod, cumulative_sum, reduce, scan

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

__getattr__ = absent("upsweep.torch")
