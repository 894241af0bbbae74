# %% [markdown]
# # A recurrence within torch.compile
# `upsweep.torch` registers its scans as operators of PyTorch: a model that uses them is compiled as one graph, with gradients.

# %%
from __future__ import annotations

import torch

import upsweep.torch as ut


def smooth(gate: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    keep = torch.sigmoid(gate)
    return ut.linear_recurrence(keep, (1 - keep) * x, axis=-1).square().mean()


# %%
# "aot_eager" traces forwards and backwards as one graph and needs no C++ compiler; leave it out where there is one.
compiled = torch.compile(smooth, fullgraph=True, backend="aot_eager")
gate = torch.zeros(4, 256, requires_grad=True)
x = torch.randn(4, 256, generator=torch.Generator().manual_seed(0))
loss = compiled(gate, x)
loss.backward()
kept = gate.grad.clone()
gate.grad = None
smooth(gate, x).backward()
assert torch.equal(kept, gate.grad)
print(f"loss {loss.item():.4f}, the same gradient compiled and not")
