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


@pytest.mark.dear
@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_number_beside_a_tensor_keeps_its_digits(dtype, order, device):
    torch, ut = pytest.importorskip("torch"), pytest.importorskip("upsweep.torch")
    torch.manual_seed(0)
    dtype = getattr(torch, dtype)
    b, done = torch.randn(4, 300).to(device, dtype), torch.arange(300, device=device) % 70 == 50
    numbers = (
        0.999,
        np.float32(0.999),
        torch.tensor(0.999),
        torch.tensor(0.999, dtype=torch.float64, device=device),
    )
    for a in (*numbers, np.full((4, 300), 0.999, "f4"), [[0.999]]):
        for call in (
            lambda b, a=a: ut.linear_recurrence(a, b, dim=1, order=order),
            lambda b, a=a: ut.discounted_sum(b, a, dim=1, initial=0.3, order=order),
            lambda b, a=a: ut.discounted_sum(b, a, done, dim=1, initial=0.3, order=order),
            lambda b, a=a: ut.ema(b, a, dim=1, order=order),
            lambda b, a=a: ut.ema(b, a, dim=1, initial=0.3, order=order),
        ):
            got = call(b)
            assert got.dtype == dtype
            assert torch.equal(got, call(b.float()).to(dtype))
    rounded = torch.tensor(0.999, dtype=dtype, device=device, requires_grad=True)
    got, want = (ut.linear_recurrence(a, b, dim=1, order=order) for a in (rounded, rounded.item()))
    assert torch.equal(got, want)
    assert torch.autograd.grad(got.sum(), rounded)[0].dtype == dtype
    got, want = (
        of.discounted_sum(b.cpu(), 0.999, done.cpu(), axis=1, initial=0.3, order=order) for of in (ut, up)
    )
    assert torch.equal(got, want)
    assert torch.equal(
        ut.linear_recurrence(1, b, dim=1, order=order),
        ut.linear_recurrence(b[:1] * 0 + 1, b, dim=1, order=order),
    )


@pytest.mark.dear
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("n", [1, 40])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_the_gradients_of_a_number_beside_a_tensor(order, segmented, n, device):
    torch, ut = pytest.importorskip("torch"), pytest.importorskip("upsweep.torch")
    torch.manual_seed(1)
    a = torch.tensor(0.999, device=device, requires_grad=True)
    rows = 3 if n > 1 else 1
    b, g = torch.randn(2, rows, n).to(device, torch.bfloat16)
    heads = torch.arange(n, device=device) % 9 == 0
    h0 = torch.randn(rows, device=device)
    segments = up.segments.flags(heads) if segmented else None
    b.requires_grad_()

    def scanned(a, b, h0):
        return ut.linear_recurrence(a, b, initial=h0, dim=1, segments=segments, order=order)

    got, wide = scanned(a, b, h0), b.detach().float().requires_grad_()
    da, db = torch.autograd.grad(got, (a, b), g)
    s = torch.autograd.grad(scanned(a, wide, h0), wide, g.float())[0]
    before = torch.cat([h0[:, None], got[:, :-1].float()], 1)
    before = torch.where(heads, h0[:, None], before) if segmented else before
    assert (da.dtype, da.shape, db.dtype) == (torch.float32, (), torch.bfloat16)
    assert torch.equal(db, s.to(torch.bfloat16))
    torch.testing.assert_close(da, (s * before).sum(), rtol=1e-5, atol=1e-5)
    composed = torch.autograd.grad(scanned(a, b, h0), (a, b), g, create_graph=True)
    assert torch.equal(composed[1], db)
    torch.testing.assert_close(composed[0], da, rtol=1e-5, atol=1e-5)
    moved = torch.func.jvp(scanned, (a, b, h0), (torch.ones_like(a), g, torch.zeros_like(h0)))[1]
    assert moved.dtype == torch.bfloat16
    wanted = torch.func.jvp(
        scanned, (a, b.float(), h0), (torch.ones_like(a), g.float(), torch.zeros_like(h0))
    )[1]
    # Tangents and states may cancel, so that the largest of them says how much a rounding to bfloat16 is.
    largest = max(x.detach().abs().max().item() for x in (wanted, g, h0, got))
    torch.testing.assert_close(moved.float(), wanted, rtol=0, atol=0.02 * largest)
    several = torch.func.vmap(lambda a: scanned(a, b, h0))(torch.stack([a, a * 0.5]).detach())
    assert several.dtype == torch.bfloat16
    assert torch.equal(several[0], got)


@pytest.mark.dear
@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_number_beside_an_array_of_jax_keeps_its_digits(dtype, order):
    jax, uj = pytest.importorskip("jax"), pytest.importorskip("upsweep.jax")
    jnp = jax.numpy
    b = jnp.asarray(np.random.default_rng(0).normal(size=(4, 300)), dtype)
    done = np.arange(300) % 70 == 50
    for a in (0.999, np.float32(0.999), np.float64(0.999), jnp.float32(0.999)):
        for call in (
            lambda of, x, a=a: of.linear_recurrence(a, x, axis=1, initial=0.3, order=order),
            lambda of, x, a=a: of.discounted_sum(x, a, axis=1, order=order),
            lambda of, x, a=a: of.discounted_sum(x, a, done, axis=1, initial=0.3, order=order),
            lambda of, x, a=a: of.ema(x, a, axis=1, order=order),
            lambda of, x, a=a: of.ema(x, a, axis=1, initial=0.3, order=order),
        ):
            got = call(uj, b)
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, call(uj, b.astype(jnp.float32)).astype(dtype))
            if not isinstance(a, jax.Array):
                np.testing.assert_array_equal(got, call(up, np.asarray(b)))


def test_a_number_beside_an_array_of_dask_keeps_its_digits():
    da, ud = pytest.importorskip("dask.array"), pytest.importorskip("upsweep.dask")
    x = np.random.default_rng(0).normal(size=(3, 300)).astype(np.float16)
    b, done = da.from_array(x, chunks=(2, 70)), np.arange(300) % 70 == 50
    whole = np.full((3, 1), 0.999, "f4")
    for a, number in ((0.999, 0.999), (np.float32(0.999), 0.999), (da.from_array(whole), whole)):
        for call in (
            lambda of, x, a: of.linear_recurrence(a, x, axis=1, initial=0.3),
            lambda of, x, a: of.discounted_sum(x, a, axis=1),
            lambda of, x, a: of.discounted_sum(x, a, done, axis=1, initial=0.3),
            lambda of, x, a: of.ema(x, a, axis=1),
        ):
            got = call(ud, b, a)
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(got.compute(), call(up, x, number))
