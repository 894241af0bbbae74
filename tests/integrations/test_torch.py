"""PyTorch: the bits of upsweep, gradients of gradients, compiled graphs, batches."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up

torch = pytest.importorskip("torch")
ut = pytest.importorskip("upsweep.torch")
library = pytest.importorskip("upsweep.torch.library")

BLEND = up.Operator(lambda a, b: a + b + a * b, name="blend")
OPS = ["add", "mul", "max", "logaddexp", BLEND]


def tensor(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize("keywords", [{}, {"reverse": True}, {"exclusive": True, "initial": 0.25}], ids=str)
def test_the_bits_are_those_of_upsweep(op, keywords):
    x = tensor(3, 50)
    got = ut.scan(x.requires_grad_(), op, axis=1, **keywords)
    np.testing.assert_array_equal(got.detach().numpy(), up.scan(x.detach().numpy(), op, axis=1, **keywords))


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize(
    "keywords", [{"axis": 1}, {"axis": 1, "reverse": True}, {"axis": 1, "exclusive": True}], ids=str
)
def test_gradients_of_scans(op, keywords):
    x, start = (
        tensor(3, 4).requires_grad_(),
        tensor(3, seed=1).requires_grad_(),
    )

    def f(x, start):
        return ut.scan(x, op, initial=start, **keywords)

    assert torch.autograd.gradcheck(f, (x, start))
    assert torch.autograd.gradgradcheck(f, (x, start))
    if "exclusive" not in keywords:
        assert torch.autograd.gradcheck(lambda x: ut.scan(x, op, **keywords), (x,))


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_recurrences(reverse):
    a, b, start = (tensor(*s, seed=i).requires_grad_() for i, s in enumerate([(2, 1), (2, 5), (2,)]))

    def f(a, b, start):
        return ut.linear_recurrence(a, b, initial=start, axis=1, reverse=reverse)

    assert torch.autograd.gradcheck(f, (a, b, start))
    assert torch.autograd.gradgradcheck(f, (a, b, start))


def test_gradients_of_returns():
    r, values, last = (
        tensor(2, 6).requires_grad_(),
        tensor(2, 6, seed=1).requires_grad_(),
        tensor(2).requires_grad_(),
    )
    dones = torch.tensor([[0, 1, 0, 0, 1, 0], [0, 0, 0, 1, 0, 1]], dtype=torch.bool)

    def f(r, values, last):
        return ut.discounted_sum(r, 0.9, dones, axis=1, initial=last), ut.gae(
            r, values, last, dones, gamma=0.9, lam=0.8, axis=1
        )

    assert torch.autograd.gradcheck(f, (r, values, last))
    assert torch.autograd.gradgradcheck(f, (r, values, last))


def test_gradients_do_not_flow_across_an_episode_end():
    r = torch.tensor([1.0, float("nan"), 1.0], dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(ut.discounted_sum(r, 0.5, torch.tensor([True, False, False]))[0], r)
    np.testing.assert_array_equal(g.numpy(), [1, 0, 0])


def test_returns_and_filters_have_upsweeps_bits():
    r, dones = tensor(3, 40), tensor(3, 40, seed=1) > 1
    for done in (None, dones):
        done_np = None if done is None else done.numpy()
        expected = up.discounted_sum(r.numpy(), 0.9, done_np, axis=1, initial=np.ones(3))
        got = ut.discounted_sum(r, 0.9, done, axis=1, initial=torch.ones(3, dtype=torch.float64))
        np.testing.assert_array_equal(got.numpy(), expected)
    np.testing.assert_array_equal(
        ut.lfilter([1, 0.5], [1, -0.9], r).numpy(), up.lfilter([1, 0.5], [1, -0.9], r.numpy())
    )


def test_gradients_of_filters_and_affine_pairs():
    x, a = tensor(2, 5).requires_grad_(), tensor(2, 5, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: ut.lfilter([1, 0.3], [1, -0.5], x), (x,))
    assert torch.autograd.gradcheck(lambda a, x: ut.scan((a, x), "affine", axis=1), (a, x))


def test_a_product_with_zeros_has_its_gradient():
    x = torch.tensor([2.0, 0.0, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: ut.cumulative_prod(x), (x,))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ut.scan(x, "mul", axis=1, initial=1.5),
        lambda x: ut.scan(x, BLEND, axis=1),
        lambda x: ut.linear_recurrence(x, x, axis=1, reverse=True),
        lambda x: ut.discounted_sum(x, 0.9, torch.tensor([True, False, False, True]), axis=1),
        lambda x: ut.cumulative_sum(x, axis=1, include_initial=True),
        lambda x: ut.lfilter([1.0], [1.0, -0.5], x),
    ],
    ids=["scan", "own operator", "recurrence", "returns", "cumulative_sum", "lfilter"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_compiled_graphs_are_whole_and_give_the_same_bits(f):
    x = tensor(3, 4).requires_grad_()
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    np.testing.assert_array_equal(compiled(x).detach().numpy(), f(x).detach().numpy())
    (expected,), (got,) = (torch.autograd.grad(g(x).square().sum(), x) for g in (f, compiled))
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_operators_pass_pytorchs_own_checks():
    x, a, start = (
        tensor(2, 4).requires_grad_(),
        tensor(2, 4, seed=1).requires_grad_(),
        tensor(2).requires_grad_(),
    )
    ops = torch.ops.upsweep
    torch.library.opcheck(ops.scan.default, (x, "mul", 1, False, True, start))
    torch.library.opcheck(ops.recurrence.default, (a, x, start, None, 1, False))
    torch.library.opcheck(ops.lfilter.default, (x, [1.0, 0.3], [1.0, -0.5], 1))
    torch.library.opcheck(ops.scan_tuple.default, ([a.detach(), x.detach()], "affine", 1, False, False, []))


def test_vmap_over_any_dimension():
    x, start = tensor(4, 3, 5), tensor(3)
    got = torch.vmap(lambda x, s: ut.scan(x, "mul", axis=1, initial=s), in_dims=(1, 0))(x, start)
    expected = torch.stack([ut.scan(x[:, i], "mul", axis=1, initial=start[i]) for i in range(3)])
    np.testing.assert_array_equal(got.numpy(), expected.numpy())
    got = torch.vmap(lambda b: ut.linear_recurrence(0.5, b, axis=0))(x[:, 0])
    np.testing.assert_array_equal(got.numpy(), ut.linear_recurrence(0.5, x[:, 0], axis=1).numpy())


def test_autocast_computes_in_float32():
    with torch.autocast("cpu", torch.bfloat16):
        assert ut.linear_recurrence(0.5, torch.ones(3, dtype=torch.bfloat16)).dtype is torch.float32
        assert ut.linear_recurrence(0.5, torch.ones(3, dtype=torch.float64)).dtype is torch.float64


def test_errors():
    x = tensor(2, 3).requires_grad_()
    with pytest.raises(up.ShapeError, match="axis"):
        ut.scan(x)
    with pytest.raises(up.ShapeError, match="initial"):
        ut.scan(x, axis=1, initial=torch.ones(3))
    with pytest.raises(up.OperatorError, match="affine"):
        ut.scan((x, x), "argmax", axis=1)
    with pytest.raises(up.ShapeError, match="broadcast"):
        ut.linear_recurrence(tensor(4), x, axis=1)
    assert ut.scan(tensor(0)).shape == (0,)
