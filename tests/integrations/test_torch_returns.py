"""Returns of episodes by a discount that is a tensor, with a value behind the last item: gradients, tangents, memory."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
ut = pytest.importorskip("upsweep.torch")

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

SHAPE = (3, 7, 2)
GAMMAS = {"number": (), "channels": (2,), "times": (7, 1), "rows": (3, 1, 1), "whole": SHAPE}
LAST_IS_DONE = torch.tensor([[True, False], [False, False], [True, True]])


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def marked():
    done = torch.rand(SHAPE, generator=torch.Generator().manual_seed(3)) < 0.3
    done[:, -1] = LAST_IS_DONE
    return done


def looped(gamma, r, last, done):
    """The sums one by one, in float64. A value that an episode ends before is chosen away, not multiplied by 0."""
    gamma, after, made = gamma.expand(r.shape), last, []
    for t in reversed(range(r.shape[1])):
        after = r[:, t] + torch.where(done[:, t], 0, gamma[:, t] * torch.where(done[:, t], 0, after))
        made.append(after)
    return torch.stack(made[::-1], 1)


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", GAMMAS)
def test_gradients_are_those_of_a_loop(shape, dtype, order):
    gamma, r, done = (
        drawn(*GAMMAS[shape], dtype=dtype).sigmoid(),
        drawn(*SHAPE, seed=1, dtype=dtype),
        marked(),
    )
    last, g = drawn(3, 2, seed=2, dtype=dtype), drawn(*SHAPE, seed=4, dtype=dtype)
    # Nothing of this value reaches a sum or a gradient.
    last[0, 0] = float("nan")
    given = [x.clone().requires_grad_() for x in (gamma, r, last)]
    y = ut.discounted_sum(*given[1::-1], done, axis=1, initial=given[2], order=order)
    exact = [x.double().requires_grad_() for x in (gamma, r, last)]
    z = looped(*exact, done)
    assert y.dtype == dtype
    close = {torch.float64: 1e-14, torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
    results = (y, *torch.autograd.grad(y, given, g)), (z, *torch.autograd.grad(z, exact, g.double()))
    for got, want in zip(*results):
        assert got.shape == want.shape
        assert (got - want).abs().max() <= close * (1 + want.abs().max())


@pytest.mark.parametrize("shape", GAMMAS)
def test_derivatives_in_every_mode(shape):
    done = marked()

    def f(gamma, r, last):
        return ut.discounted_sum(r, gamma, done, axis=1, initial=last)

    xs = [x.requires_grad_() for x in (drawn(*GAMMAS[shape]), drawn(*SHAPE, seed=1), drawn(3, 2, seed=2))]
    assert torch.autograd.gradcheck(f, xs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, xs)


def test_batches_and_compiled_functions_have_the_same_bits():
    gamma, r, last, done = torch.tensor(0.9), drawn(*SHAPE).float(), drawn(3, 2, seed=2).float(), marked()

    def f(gamma, r, last, done, dim=0):
        return ut.discounted_sum(r, gamma, done, axis=dim, initial=last)

    want = f(gamma, r, last, done, 1)
    assert torch.equal(torch.vmap(f, in_dims=(None, 0, 0, 0))(gamma, r, last, done), want)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    gamma.requires_grad_()
    made = compiled(gamma, r, last, done, 1)
    assert torch.equal(made, want)
    whole = f(gamma, r, last, done, 1)
    assert torch.equal(torch.autograd.grad(made.sum(), gamma)[0], torch.autograd.grad(whole.sum(), gamma)[0])


def test_half_precision_keeps_no_array_of_float32():
    kept = []
    gamma, done = torch.tensor(0.9, requires_grad=True), marked()
    r, last = (drawn(*shape, dtype=torch.bfloat16).requires_grad_() for shape in (SHAPE, (3, 2)))
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        y = ut.discounted_sum(r, gamma, done, axis=1, initial=last)
    assert any(x.dtype == torch.bfloat16 and x.shape == SHAPE for x in kept)
    assert not [x.dtype for x in kept if x.dtype == torch.float32 and x.numel() >= y.numel()]


def test_calls_like_earlier_ones_take_their_own_data():
    done = marked()
    for seed in range(4):
        gamma, r = torch.rand((), generator=torch.Generator().manual_seed(seed)), drawn(*SHAPE, seed=seed)
        last = drawn(3, 2, seed=seed + 9)
        for wanted in (False, True):
            gamma.requires_grad_(wanted)
            y = ut.discounted_sum(r, gamma.double(), done, axis=1, initial=last)
            assert (y - looped(gamma.double(), r, last, done)).abs().max() < 1e-12
