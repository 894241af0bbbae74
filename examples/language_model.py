# %% [markdown]
# # A small language model with each recurrent layer
# Characters of Python's own library are read by models that differ in one layer alone: RG-LRU (De et al. 2024), minGRU (Feng et
# al. 2024), HGRN (Qin et al. 2023), S5 (Smith et al. 2023) and the selective scan of Mamba (Gu and Dao 2023).
#
# The layers walk in order. So a model that has read a text at once and one that has read it a character at a time are in the
# same state, bit for bit, and what they write is the same. Only the recurrence sees more than one character: all else goes
# character by character when the model writes, for matrix products of other sizes round differently.

# %%
from __future__ import annotations

import inspect
import textwrap
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import upsweep.torch as ut

WIDTH, STATES, SYMBOLS = 64, 4, 128


class Layer(NamedTuple):
    """A recurrent layer, its step, and its widths: the numbers of a token in all operands, and in its result."""

    run: Any
    step: Any
    enters: int
    leaves: int = WIDTH


def split(x: Tensor) -> tuple[Tensor, ...]:
    return x.split(WIDTH, -1)


def as_complex(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.unflatten(-1, (WIDTH, 2)).contiguous())


def as_real(x: Tensor) -> Tensor:
    return torch.view_as_real(x).flatten(-2)


def selected(x: Tensor) -> tuple[Tensor, ...]:
    return x.split([WIDTH, WIDTH, STATES, STATES, WIDTH], -1)


def selective(p: Any, x: Tensor, **how: Any) -> Any:
    u, delta, b, c, z = selected(x)
    return ut.selective_scan(u, delta, -p.rate.exp(), b, c, p.skip, z, p.bias, True, **how)


def selective_step(p: Any, state: Tensor, x: Tensor) -> Tensor:
    u, delta, b, c, z = selected(x)
    return ut.selective_step(state, u, delta, -p.rate.exp(), b, c, p.skip, z, p.bias, True)


LAYERS = {
    "rg_lru": Layer(lambda p, x, **how: ut.rg_lru(*split(x), p.decay, **how),
                    lambda p, state, x: ut.rg_lru_step(state, *split(x), p.decay), 3 * WIDTH),
    "min_gru": Layer(lambda p, x, **how: ut.min_gru(*split(x), **how),
                     lambda p, state, x: ut.min_gru_step(state, *split(x)), 2 * WIDTH),
    "hgrn": Layer(lambda p, x, **how: ut.hgrn(*split(x), p.least.sigmoid(), **how),
                  lambda p, state, x: ut.hgrn_step(state, *split(x), p.least.sigmoid()), 2 * WIDTH),
    "s5": Layer(lambda p, x, **how: ut.s5(as_complex(x), torch.complex(-p.damp.exp(), p.turn), **how),
                lambda p, state, x: ut.s5_step(state, as_complex(x), torch.complex(-p.damp.exp(), p.turn)), 2 * WIDTH, 2 * WIDTH),
    "selective_scan": Layer(selective, selective_step, 3 * WIDTH + 2 * STATES),
}  # fmt: skip


class Model(nn.Module):
    """Characters in, the odds of the next one out: an embedding, one recurrent layer, and what mixes channels around it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.layer = LAYERS[name]
        self.embed = nn.Embedding(SYMBOLS, WIDTH)
        self.enter = nn.Linear(WIDTH, self.layer.enters)
        self.leave = nn.Sequential(
            nn.Linear(self.layer.leaves, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, SYMBOLS)
        )
        self.decay, self.least = (
            nn.Parameter(torch.linspace(-4, 0, WIDTH)),
            nn.Parameter(torch.linspace(-3, 3, WIDTH)),
        )
        self.damp = nn.Parameter(torch.linspace(-4, 1, WIDTH))
        self.turn = nn.Parameter(torch.linspace(0, 3, WIDTH))
        self.rate = nn.Parameter(torch.log(torch.arange(1.0, STATES + 1)).repeat(WIDTH, 1))
        self.skip, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.linspace(-3, 0, WIDTH))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.odds(self.layer.run(self, self.enter(self.embed(tokens))))

    def odds(self, h: Tensor) -> Tensor:
        return self.leave(as_real(h) if h.is_complex() else h)

    @torch.no_grad()
    def read(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """A text at once: the odds of the next character, and the state. (batch, time) -> (batch, symbols)."""
        x = torch.stack([self.enter(self.embed(token)) for token in tokens.unbind(1)], 1)
        h, state = self.layer.run(self, x, return_state=True)
        return self.odds(h[:, -1].contiguous()), state.contiguous()

    @torch.no_grad()
    def next(self, state: Tensor, token: Tensor) -> Tensor:
        """One character more: the odds of the next one. The state is brought up to date in place."""
        return self.odds(self.layer.step(self, state, self.enter(self.embed(token))))


# %% [markdown]
# The text: the source of a module that ships with Python.


# %%
def library_text() -> Tensor:
    return torch.tensor([ord(c) for c in inspect.getsource(textwrap) if ord(c) < SYMBOLS])


def train(name: str, steps: int = 150, length: int = 96, size: int = 16) -> tuple[Model, list[float]]:
    """A model and its losses, one a step."""
    torch.manual_seed(0)
    text, model, losses = library_text(), Model(name), []
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(steps):
        starts = torch.randint(len(text) - length - 1, (size, 1))
        some = text[starts + torch.arange(length + 1)]
        loss = nn.functional.cross_entropy(model(some[:, :-1]).flatten(0, 1), some[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def write(model: Model, start: str, count: int) -> tuple[str, bool]:
    """A text that goes on from `start`, and whether reading all of it at once ends in the same state and the same odds."""
    tokens = [ord(c) for c in start]
    odds, state = model.read(torch.tensor([tokens]))
    for _ in range(count):
        tokens.append(int(odds.argmax()))
        odds = model.next(state, torch.tensor(tokens[-1:]))
    again, at_once = model.read(torch.tensor([tokens]))
    return "".join(map(chr, tokens)), torch.equal(state, at_once) and torch.equal(odds, again)


# %%
if __name__ == "__main__":
    import matplotlib.pyplot as plt

    for name in LAYERS:
        model, losses = train(name)
        text, equal = write(model, "    def ", 60)
        print(
            f"{name:>14}: loss {losses[0]:.2f} to {sum(losses[-10:]) / 10:.2f}, prefill and decode equal: {equal}, {text!r}"
        )
        plt.plot(losses, label=name)
    plt.xlabel("step")
    plt.ylabel("nats a character")
    plt.legend()
    plt.savefig("language_model.svg")
