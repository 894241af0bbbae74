# %% [markdown]
# # A sum that repeats its bits
# Floating-point addition is not associative, so a sum depends on the order in which threads, chunks and machines add. Here the
# order is fixed by the length of the data: the canonical tree. Totals of NumPy change with the way an array is cut; ours do not.

# %%
from __future__ import annotations

import hashlib

import numpy as np

import upsweep as up

x = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)


def bits(y: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(y)).hexdigest()[:12]


def ours(threads: int, cut: int) -> str:
    """Two chunks, so many threads."""
    stream = up.Stream("add")
    with up.set_threads(threads):
        return bits(np.concatenate([stream.push(part) for part in np.split(x, [cut])]))


def numpys(cut: int) -> str:
    first, second = np.split(x, [cut])
    head = np.cumsum(first)
    return bits(np.concatenate([head, head[-1] + np.cumsum(second)]))


# %%
found = {ours(threads, cut) for threads in (1, 2, 3) for cut in (1, 1000, 765_432)}
assert found == {bits(up.scan(x))}
assert len({numpys(cut) for cut in (1, 1000, 765_432)}) > 1
print("upsweep:", found, " NumPy:", {numpys(cut) for cut in (1, 1000, 765_432)})
