"""Sums of segments: each item has its segment's gradient, bit for bit, and nothing sums on the way back."""

from __future__ import annotations

from itertools import pairwise

import pytest

import upsweep as up

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
ut = pytest.importorskip("upsweep.torch")

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

SHAPE, OFFSETS = (2, 7, 3), [0, 2, 2, 6, 7, 7]
OWNERS = [0, 0, 2, 2, 2, 2, 3]
SEGMENTS = {
    "offsets": up.segments.offsets(OFFSETS),
    "tensor": up.segments.offsets(torch.tensor(OFFSETS)),
    "lengths": up.segments.lengths([2, 0, 4, 1, 0]),
}


def drawn(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("told", SEGMENTS)
def test_sums_and_gradients(told, dtype, reverse):
    x = drawn(*SHAPE, dtype=dtype).requires_grad_()
    wide = torch.float32 if dtype == torch.bfloat16 else dtype
    start = drawn(2, 3, dtype=wide, seed=1).requires_grad_()
    y = ut.reduce(x, axis=1, initial=start, segments=SEGMENTS[told], reverse=reverse)
    parts = [x[:, a:b].to(wide).sum(1) + start for a, b in pairwise(OFFSETS)]
    torch.testing.assert_close(y, torch.stack(parts, 1).to(dtype))
    g = drawn(2, 5, 3, dtype=dtype, seed=2)
    dx, into = torch.autograd.grad(y, (x, start), g)
    assert torch.equal(dx, g[:, OWNERS])
    torch.testing.assert_close(into, g.to(wide).sum(1))


@pytest.mark.parametrize("flags", [[0, 0, 1, 0, 0, 0, 1], [1, 0, 1, 0, 0, 0, 1]])
def test_flags_and_keys(flags):
    owners = torch.tensor(flags).cumsum(0) - flags[0]
    for segments in (up.segments.flags(torch.tensor(flags).bool()), up.segments.keys(owners)):
        x, g = drawn(7, 3).requires_grad_(), drawn(3, 3, seed=1)
        y = ut.reduce(x, axis=0, segments=segments)
        torch.testing.assert_close(y, torch.stack([x[owners == s].sum(0) for s in range(3)]))
        assert torch.equal(torch.autograd.grad(y, x, g)[0], g[owners])


@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_derivatives_of_every_mode(order):
    def f(x, start):
        return ut.reduce(x, axis=1, initial=start, segments=SEGMENTS["tensor"], order=order)

    given = drawn(*SHAPE).requires_grad_(), drawn(2, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(f, given, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(lambda *xs: f(*xs).square(), given)
    assert torch.autograd.gradcheck(lambda x: f(x, None), given[0], check_forward_ad=True)


def test_batches_and_compiled_functions_have_the_same_bits():
    def f(x):
        return ut.reduce(x, axis=0, segments=SEGMENTS["tensor"])

    x = drawn(*SHAPE)
    want = ut.reduce(x, axis=1, segments=SEGMENTS["tensor"])
    assert torch.equal(torch.vmap(f)(x), want)
    one = x[0].clone().requires_grad_()
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(one), want[0])
    assert torch.equal(*[torch.autograd.grad(y.square().sum(), one)[0] for y in (compiled(one), f(one))])


def test_the_gradient_is_no_scan(monkeypatch):
    x = drawn(*SHAPE).requires_grad_()
    y = ut.reduce(x, axis=1, segments=SEGMENTS["offsets"])
    monkeypatch.setattr(up, "scan", None)
    monkeypatch.setattr(up, "linear_recurrence", None)
    y.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))
