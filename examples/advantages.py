# %% [markdown]
# # Advantages of a rollout with episodes that end
# Generalised advantage estimation (Schulman et al. 2016) over a rollout of many environments, in order: the bits of the loop that
# every implementation of PPO has, in one call.

# %%
from __future__ import annotations

import torch
from torch import Tensor

import upsweep.torch as ut

STEPS, ENVIRONMENTS, GAMMA, LAMBDA = 256, 64, 0.99, 0.95


def rollout() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rewards, values, the value after the last step, and whether an episode ended at a step."""
    torch.manual_seed(0)
    rewards, values = torch.randn(2, STEPS, ENVIRONMENTS)
    return rewards, values, torch.randn(ENVIRONMENTS), torch.rand(STEPS, ENVIRONMENTS) < 0.02


def loop(rewards: Tensor, values: Tensor, last: Tensor, dones: Tensor) -> Tensor:
    """One step after the other, from the last to the first."""
    advantages, ahead, total = torch.empty_like(rewards), last, torch.zeros_like(last)
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + GAMMA * torch.where(dones[t], 0, ahead) - values[t]
        total = torch.where(dones[t], delta, delta + GAMMA * LAMBDA * total)
        advantages[t], ahead = total, values[t]
    return advantages


# %%
rewards, values, last, dones = rollout()
advantages = ut.gae(rewards, values, last, dones, gamma=GAMMA, lam=LAMBDA, dim=0, order="sequential")
assert torch.equal(advantages, loop(rewards, values, last, dones))
print(f"{int(dones.sum())} episodes ended; the advantages are those of the loop, bit for bit")
