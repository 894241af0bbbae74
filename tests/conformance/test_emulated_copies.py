"""Copies of arrays in another order of their dimensions move each byte to its place, and no byte beside."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from portions import every
from upsweep.gpu import bringing, brought, launch
from upsweep.gpu.arrays import view


class Copy(NamedTuple):
    """The copy is in C's order."""

    size: int
    shape: tuple[int, ...]
    order: tuple[int, ...]
    """The dimensions of the array, as they lie in memory."""
    gap: int = 0
    """Items between neighbours of the array's last dimension in memory and the next."""
    step: int = 1
    """Items from one such neighbour to the next."""
    offset: int = 0
    """Bytes from a piece of 16 bytes to the copy."""
    apart: int = 0
    """Items between the lines of the copy."""


COPIES = {
    "two sides, runs within words": Copy(1, (70, 133), (1, 0)),
    "two sides of words": Copy(2, (40, 130), (1, 0)),
    "bytes turned by four": Copy(1, (301, 239), (1, 0), offset=1),
    "runs that begin at words": Copy(1, (3, 130, 248), (2, 0, 1), offset=4),
    "few neighbours in the copy": Copy(2, (70, 9, 7), (2, 1, 0)),
    "few neighbours in the array": Copy(1, (15, 11, 140), (2, 1, 0)),
    "few neighbours in both": Copy(8, (6, 40, 11), (2, 1, 0)),
    "two neighbours in the copy": Copy(2, (999, 2), (1, 0)),
    "two neighbours in the array": Copy(1, (2, 1501), (1, 0), offset=1),
    "two of three bytes": Copy(1, (1501, 2), (0, 1), gap=1, offset=3),
    "lines of the copy apart": Copy(1, (701, 5), (0, 1), apart=2),
    "every second byte": Copy(1, (5003,), (0,), step=2, offset=1),
    "every second item": Copy(4, (30, 50), (1, 0), step=2),
    "items far apart": Copy(4, (30, 50), (1, 0), step=9),
    "items that lie anywhere": Copy(4, (30, 50), (1, 0), offset=2),
    "wide items": Copy(16, (9, 5, 20), (1, 2, 0), gap=1),
}
TURNED = {"bytes turned by four", "runs that begin at words"}


def moved(emulated, copy: Copy) -> tuple[np.ndarray, np.ndarray]:
    """The memory behind a copy, and what it should be."""
    dtype, rng = brought._RAW[copy.size], np.random.default_rng(5)
    lines = [copy.shape[d] for d in copy.order]
    lines[-1] = lines[-1] * copy.step + copy.gap

    def memory(nbytes: int) -> np.ndarray:
        return emulated.put(rng.integers(0, 256, nbytes, np.uint8))

    x = memory(int(np.prod(lines)) * copy.size).view(dtype).reshape(lines)
    x = x[..., : copy.shape[copy.order[-1]] * copy.step : copy.step].transpose(np.argsort(copy.order))
    *outer, last = copy.shape
    whole = (*outer, last + copy.apart)
    there = memory(16 + int(np.prod(whole)) * copy.size + 16)
    want = there.copy()
    y, z = (np.ndarray(whole, dtype, at.data, copy.offset)[..., :last] for at in (there, want))
    z[...] = x
    step = brought.copied(view(emulated.made(x)), view(emulated.made(y)))
    launch.run(*step)
    return there, want


@pytest.mark.parametrize("name", every(4, COPIES))
def test_each_byte_comes_to_its_place(emulated, name, monkeypatch):
    found, choose = [], bringing.choose
    monkeypatch.setattr(bringing, "choose", lambda *given: found.append(choose(*given)) or found[-1])
    there, want = moved(emulated, COPIES[name])
    assert np.array_equal(there, want)
    assert found[0] is not None
    assert found[0].turned == (name in TURNED)


LINES = {
    "odd bytes": (1, (3001, 7), 0),
    "fewer lines than end at a piece": (1, (3, 9001), 15),
    "halves": (2, (2, 60, 163), 2),
    "words within pieces": (4, (700, 10), 4),
    "whole pieces": (8, (3, 40, 66), 0),
    "one item": (16, (1100,), 0),
    "parts of a piece": (2, (9000,), 6),
}
"""Bytes of an item, shapes whose last two dimensions are lines that are alike and their items, or the first alone, and bytes from
a piece of 16 bytes to the copy."""


@pytest.mark.parametrize("name", LINES)
def test_a_line_comes_to_all_its_places(emulated, name):
    (size, shape, offset), rng = LINES[name], np.random.default_rng(6)
    many = max(0, len(shape) - 2)
    one = rng.integers(0, 256, (*shape[:many], 1, *shape[many + 1 :], size), np.uint8)
    x = emulated.put(one.reshape(-1)).view(brought._RAW[size]).reshape(one.shape[:-1])
    x = np.broadcast_to(x, shape)
    there = emulated.put(rng.integers(0, 256, x.nbytes + 32, np.uint8))
    want = there.copy()
    y = np.ndarray(shape, x.dtype, there.data, offset)
    np.ndarray(shape, x.dtype, want.data, offset)[...] = x
    launch.run(*brought.copied(view(emulated.made(x)), view(emulated.made(y))))
    assert np.array_equal(there, want)
    assert emulated.gpu.loaded >= {"upsweep_alike"}


def test_a_run_whose_last_word_is_forgotten_is_found(emulated, monkeypatch):
    from upsweep.gpu.bringing import Bring

    monkeypatch.setattr(Bring, "pieces", property(lambda self: self.shape.lanes // self.at_once))
    emulated.forget()
    there, want = moved(emulated, COPIES["two sides, runs within words"])
    emulated.forget()
    assert not np.array_equal(there, want)
