"""Recurrences whose multiplier is a number: the bits of the general ones, and derivatives of every mode."""

from __future__ import annotations

import pytest

import upsweep as up

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
ut = pytest.importorskip("upsweep.torch")

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

ORDERS = ["tree", "sequential"]


def drawn(*shape, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(dtype)


def marked(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(7)) < 0.2


def calls(a, dones, flags, order):
    """Functions of a tensor along axis 1: each with a number, and with a tensor that has a gradient in its place."""
    how = {"axis": 1, "order": order}
    yield lambda x, a=a: ut.linear_recurrence(a, x, **how)
    yield lambda x, a=a: ut.linear_recurrence(a, x, reverse=True, **how)
    yield lambda x, a=a: ut.linear_recurrence(a, x, segments=up.segments.flags(flags), **how)
    yield lambda x, a=a: ut.discounted_sum(x, a, **how)
    yield lambda x, a=a: ut.discounted_sum(x, a, dones, **how)
    yield lambda x, a=a: ut.discounted_sum(x, a, dones[0, :, 0], **how)
    yield lambda x, a=a: ut.discounted_sum(x, a, dones, initial=0.25, **how)
    # The value behind the last item has a gradient.
    yield lambda x, a=a: ut.discounted_sum(x, a, dones, initial=x.new_ones(x.shape[::2]) * x[:, 2], **how)


@pytest.mark.dear
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_values_and_gradients_have_the_bits_of_a_tensor_as_multiplier(dtype, order):
    x, g, flags = drawn(4, 37, 3, dtype=dtype), drawn(4, 37, 3, dtype=dtype), marked(4, 37, 3)
    dones = marked(4, 37, 3)
    for f in calls(0.9, dones, flags, order):
        a = torch.tensor(0.9, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
        seen = []
        for multiplier in (0.9, a.requires_grad_()):
            one = x.clone().requires_grad_()
            y = f(one, multiplier)
            (dx,) = torch.autograd.grad(y, one, g)
            seen.append((y.detach(), dx))
        assert torch.equal(seen[0][0], seen[1][0])
        assert torch.equal(seen[0][1], seen[1][1])


@pytest.mark.dear
@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_of_every_mode(order):
    x, dones, flags = drawn(3, 11, 2).requires_grad_(), marked(3, 11, 2), marked(3, 11, 2)
    for f in calls(0.8, dones, flags, order):
        assert torch.autograd.gradcheck(f, x, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, x)


@pytest.mark.parametrize("dims", [0, 2])
def test_batches_of_tensors_and_of_flags(dims):
    x, dones = drawn(3, 11, 2), marked(3, 11, 2)
    moved, marks = x.movedim(0, dims), dones.movedim(0, dims)

    def one(x, dones):
        return ut.discounted_sum(x, 0.7, dones, axis=0)

    want = torch.stack([one(x[i], dones[i]) for i in range(3)])
    assert torch.equal(torch.vmap(one, in_dims=(dims, dims))(moved, marks), want)
    shared = torch.stack([one(x[i], dones[0]) for i in range(3)])
    assert torch.equal(torch.vmap(one, in_dims=(dims, None))(moved, dones[0]), shared)


def test_a_compiled_function_has_the_same_bits():
    x, dones = drawn(3, 11, 2).requires_grad_(), marked(3, 11, 2)

    def f(x):
        return ut.discounted_sum(x, 0.7, dones, axis=1) + ut.linear_recurrence(0.5, x, axis=1)

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), f(x))
    got, want = (torch.autograd.grad(each(x).sum(), x)[0] for each in (compiled, f))
    assert torch.equal(got, want)


def test_calls_like_earlier_ones_take_their_own_number_and_data():
    for a in (0.5, 0.25, 0.5):
        for seed in range(3):
            x = torch.randn(5, 40, generator=torch.Generator().manual_seed(seed)).requires_grad_()
            y = ut.linear_recurrence(a, x, axis=1)
            assert torch.equal(
                y.detach(), torch.from_numpy(up.linear_recurrence(a, x.detach().numpy(), axis=1))
            )
            (dx,) = torch.autograd.grad(y.sum(), x)
            ones = torch.ones(5, 40)
            assert torch.equal(dx, ut.linear_recurrence(a, ones, axis=1, reverse=True))


def test_a_number_that_the_dtype_cannot_hold_is_refused():
    with pytest.raises(up.DTypeError, match="no value of"):
        ut.linear_recurrence(1e300, torch.ones(3))
    assert ut.linear_recurrence(0.5, torch.empty(0)).shape == (0,)
    assert ut.discounted_sum(torch.empty(2, 0), 0.5, torch.empty(2, 0, dtype=torch.bool), axis=1).shape == (
        2,
        0,
    )
