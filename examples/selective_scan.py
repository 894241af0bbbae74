# %% [markdown]
# # A selective scan, trained
# Gu and Dao, "Mamba: linear-time sequence modeling with selective state spaces" (2023): a linear recurrence whose coefficients
# depend on the input, so that the state keeps what matters and forgets the rest. The recurrence runs in parallel along the
# sequence, forwards and in the gradient.
#
# The task: a long sequence of noise, in which a few items are marked. At the end, say which item was marked last. A
# recurrence with constant coefficients cannot do it; a selective one learns to open its gate at the mark only.

# %%
from __future__ import annotations

import torch
from torch import Tensor, nn

import upsweep.torch as ut


class SelectiveScan(nn.Module):
    """`h[t] = exp(delta A) h[t-1] + delta B x[t]`, `y[t] = C h[t]`: delta, B and C are functions of x[t]."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.log_a = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(width, 1))
        self.select = nn.Linear(width, 2 * states)
        self.step = nn.Linear(width, width)
        self.skip = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:  # (batch, time, width)
        delta = nn.functional.softplus(self.step(x)).unsqueeze(-1)
        b, c = self.select(x).unsqueeze(-2).chunk(2, -1)
        keep = torch.exp(-delta * self.log_a.exp())
        h = ut.linear_recurrence(keep, delta * b * x.unsqueeze(-1), axis=1)
        return (h * c).sum(-1) + self.skip * x


class Model(nn.Module):
    def __init__(self, symbols: int, width: int = 16, states: int = 4) -> None:
        super().__init__()
        self.enter = nn.Embedding(2 * symbols, width)  # every symbol, unmarked and marked
        self.mix = SelectiveScan(width, states)
        self.leave = nn.Linear(width, symbols)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.leave(self.mix(self.enter(tokens))[:, -1])


def batch(size: int, length: int, symbols: int) -> tuple[Tensor, Tensor]:
    """Tokens, a few of them marked, and the symbol that was marked last."""
    tokens = torch.randint(symbols, (size, length))
    marks = torch.zeros(size, length, dtype=torch.bool).scatter_(1, torch.randint(length, (size, 3)), True)
    last = torch.where(marks, torch.arange(length), -1).max(1).values
    return tokens + symbols * marks, tokens.gather(1, last.unsqueeze(1)).squeeze(1)


def train(steps: int = 150, length: int = 64, symbols: int = 4) -> list[float]:
    """The losses, one a step."""
    torch.manual_seed(0)
    model, losses = Model(symbols), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        tokens, wanted = batch(32, length, symbols)
        loss = nn.functional.cross_entropy(model(tokens), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


# %%
if __name__ == "__main__":
    losses = train()
    print(
        f"loss at first {losses[0]:.2f}, at last {sum(losses[-10:]) / 10:.2f}; a guess costs {torch.log(torch.tensor(4.0)):.2f}"
    )
