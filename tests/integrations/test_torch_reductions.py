"""Gradients of sums, extremes and log-sums along an axis: those of the last prefix of a scan, in every mode."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

import upsweep.torch as ut  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

OPS = ["add", "max", "min"]
KEYWORDS = [
    {"reverse": reverse, "order": order}
    for reverse, order in itertools.product((False, True), ("tree", "sequential"))
]


def drawn(*shape, dtype=torch.float64, device="cpu"):
    """Items of which some are equal."""
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return ((x * 4).round() / 4).to(device, dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("op", OPS)
def test_values_and_gradients_are_those_of_the_last_prefix(op, dtype, device):
    x = drawn(3, 37, 4, dtype=dtype, device=device)
    with torch.no_grad():
        x[0, 5, 1] = x[0, 20, 1] = torch.nan
        x[1, :, 2] = torch.inf
    g = torch.arange(12.0, device=device).reshape(3, 4).to(dtype)
    for keywords in KEYWORDS:
        for again in range(2):
            y = ut.reduce(x, op, axis=1, **keywords)
            prefixes = ut.scan(x, op, axis=1, **keywords)
            want = prefixes.select(1, 0 if keywords["reverse"] else -1)
            torch.testing.assert_close(y, want, rtol=0, atol=0, equal_nan=True)
            (dx,), (wanted,) = (torch.autograd.grad(v, x, g * (1 + again)) for v in (y, want))
            assert dx.dtype == dtype
            assert torch.equal(dx, wanted)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_log_sums_are_pytorchs(dtype, device):
    close = {torch.float64: 1e-13, torch.float32: 1e-6, torch.bfloat16: 1e-2}[dtype]
    x = drawn(3, 37, 4, dtype=dtype, device=device)
    with torch.no_grad():
        x[0, 5, 1], x[1, :, 2], x[2, 9] = -torch.inf, 3.0, 30.0
    start = drawn(3, 4, dtype=torch.float64 if dtype == torch.float64 else torch.float32, device=device)
    g = torch.arange(12.0, device=device).reshape(3, 4).to(dtype)
    for keywords, initial in itertools.product(KEYWORDS, (None, start)):
        leaves = [x] if initial is None else [x, start]
        y = ut.reduce(x, "logaddexp", axis=1, initial=initial, **keywords)
        wide = [v.detach().double().requires_grad_() for v in leaves]
        want = torch.logsumexp(torch.cat([wide[0], *(v.unsqueeze(1) for v in wide[1:])], 1), 1)
        torch.testing.assert_close(y.double(), want, rtol=close, atol=close)
        for dx, wanted, v in zip(
            torch.autograd.grad(y, leaves, g),
            torch.autograd.grad(want, wide, g.double()),
            leaves,
            strict=True,
        ):
            assert dx.dtype == v.dtype
            assert (dx.double() - wanted).abs().max() <= 11 * close
            assert v is not x or dx[0, 5, 1] == 0


@pytest.mark.parametrize("op", [*OPS, "logaddexp"])
def test_derivatives_of_every_mode(op):
    # Items that differ: an extreme of equal ones has no derivative.
    x = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    for keywords in KEYWORDS[:2]:

        def f(x, keywords=keywords):
            return ut.reduce(x, op, axis=1, **keywords)

        assert torch.autograd.gradcheck(f, x, check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(f, x)
        two = torch.stack([x.detach(), x.detach() / 2])
        assert torch.equal(torch.vmap(f)(two)[1], f(two[1]))
        gradient = torch.func.grad(lambda x, f=f: f(x).square().sum())
        assert torch.equal(torch.vmap(gradient)(two)[1], gradient(two[1]))


def test_an_initial_value_has_a_gradient():
    x, start = drawn(2, 5, 3), drawn(2, 3)
    for op in (*OPS, "logaddexp"):
        assert torch.autograd.gradcheck(
            lambda x, start, op=op: ut.reduce(x + 0.01 * x.square(), op, axis=1, initial=start + 0.003),
            (x, start),
            check_forward_ad=op in ("add", "logaddexp"),
        )


@pytest.mark.parametrize("op", [*OPS, "logaddexp"])
def test_no_items_have_a_gradient(op):
    x = drawn(3, 0)
    y = ut.reduce(x, op, axis=1, initial=-0.0)
    assert torch.equal(y, torch.zeros(3, dtype=y.dtype))
    assert torch.signbit(y).all()
    assert torch.autograd.grad(y.sum(), x)[0].shape == (3, 0)


@pytest.mark.parametrize("op", ["add", "logaddexp"])
def test_a_tangent_of_the_initial_value_alone(op):
    x, start = (v.detach() for v in (drawn(2, 5, 3), drawn(2, 3)))
    _, got = torch.func.jvp(
        lambda s: ut.reduce(x, op, axis=1, initial=s), (start,), (torch.ones_like(start),)
    )
    share = torch.exp(start - torch.logsumexp(torch.cat([start.unsqueeze(1), x], 1), 1))
    torch.testing.assert_close(got, torch.ones_like(start) if op == "add" else share)


@pytest.mark.parametrize("op", [*OPS, "logaddexp"])
def test_a_reduction_and_its_gradient_hold_their_results_alone(op, device):
    from test_gradient_memory import peak

    x = torch.randn(4, 512, 256, device=device).requires_grad_()
    y = ut.reduce(x, op, axis=1)
    assert peak(lambda: ut.reduce(x, op, axis=1), x) < 0.1
    g = torch.randn_like(y)
    assert peak(lambda: torch.autograd.grad(y, x, g, retain_graph=True), x) < (0.1 if op == "add" else 1.1)
