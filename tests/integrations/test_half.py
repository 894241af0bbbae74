"""Half precision is rounded once, where a result is stored: numbers beside it keep their digits, and results keep its dtype."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import upsweep as up

BEHIND = 1 + 2.0**-12
"""No number of half precision; less 1, it is one."""
DONES = [None, [False, False]]


@pytest.mark.parametrize("dones", DONES)
@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16])
def test_what_stands_behind_the_last_item(dtype, dones):
    x = np.array([[1, -1], [1, -1]], dtype)
    for behind in (BEHIND, np.float64(BEHIND), np.full(2, BEHIND, np.float32)):
        got = up.discounted_sum(x, 1.0, dones, axis=1, initial=behind)
        assert got.dtype == dtype
        assert got[:, 1].tolist() == [2.0**-12] * 2
        ended = up.discounted_sum(x, 1.0, [False, True], axis=1, initial=behind)
        assert ended[:, 1].tolist() == [-1, -1]


@pytest.mark.parametrize("dones", DONES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_stands_behind_the_last_item_of_a_tensor(dtype, dones):
    torch, ut = pytest.importorskip("torch"), pytest.importorskip("upsweep.torch")
    x = torch.tensor([1.0, -1.0], dtype=getattr(torch, dtype))
    behind = torch.tensor(BEHIND, requires_grad=True)
    for start in (BEHIND, behind):
        got = ut.discounted_sum(x, 1.0, None if dones is None else torch.tensor(dones), initial=start)
        assert got.dtype == x.dtype
        assert got.tolist() == [1.0, 2.0**-12]
    got.sum().backward()
    assert behind.grad.item() == 2


@pytest.mark.parametrize("dones", DONES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_stands_behind_the_last_item_in_jax(dtype, dones):
    jax, uj = pytest.importorskip("jax"), pytest.importorskip("upsweep.jax")
    x = jax.numpy.array([1, -1], dtype)

    def sums(behind):
        return uj.discounted_sum(x, 1.0, dones and jax.numpy.array(dones), initial=behind)

    got = jax.jit(sums)(jax.numpy.float32(BEHIND))
    assert got.dtype == dtype
    assert got.tolist() == [1.0, 2.0**-12]
    assert jax.grad(lambda behind: sums(behind).astype("float32").sum())(1.0) == 2
