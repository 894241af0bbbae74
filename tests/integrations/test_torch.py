"""PyTorch, on every device: the bits of upsweep, gradients of gradients, compiled graphs, batches."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import upsweep as up

torch = pytest.importorskip("torch")
ut = pytest.importorskip("upsweep.torch")
scan_rules = pytest.importorskip("upsweep.torch.scan_rules")

BLEND = up.Operator(lambda a, b: a + b + a * b, name="blend")
OPS = ["add", "mul", "max", "logaddexp", BLEND]


@pytest.fixture
def tensor(device, absent):
    """Makes a tensor on the device. The drawn numbers are the same on all devices."""
    if device == "cuda" and not torch.cuda.is_available():
        absent("cuda", "PyTorch sees no GPU")

    def draw(*shape, seed=0, dtype=torch.float64):
        drawn = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        return drawn.to(device, dtype)

    return draw


def same_bits(got, expected):
    got, expected = (v.detach().cpu() if isinstance(v, torch.Tensor) else v for v in (got, expected))
    np.testing.assert_array_equal(got, expected, strict=True)


def host(x):
    return x.detach().cpu().numpy()


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize("keywords", [{}, {"reverse": True}, {"exclusive": True, "initial": 0.25}], ids=str)
def test_the_bits_are_those_of_upsweep(tensor, op, keywords):
    x = tensor(3, 50)
    got = ut.scan(x.requires_grad_(), op, axis=1, **keywords)
    assert got.device == x.device
    same_bits(got, up.scan(host(x), op, axis=1, **keywords))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_every_dtype_and_layout(tensor, dtype):
    # Columns of a larger array.
    x = tensor(40, 6, dtype=getattr(torch, dtype)).T[::2]
    got = ut.cumulative_sum(x, axis=1)
    assert (got.dtype, got.device) == (x.dtype, x.device)
    assert torch.equal(got.cpu(), up.scan(x.cpu(), axis=1))


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize(
    "keywords", [{"axis": 1}, {"axis": 1, "reverse": True}, {"axis": 1, "exclusive": True}], ids=str
)
def test_gradients_of_scans(tensor, op, keywords):
    x, start = tensor(3, 4).requires_grad_(), tensor(3, seed=1).requires_grad_()

    def f(x, start):
        return ut.scan(x, op, initial=start, **keywords)

    assert torch.autograd.gradcheck(f, (x, start))
    assert torch.autograd.gradgradcheck(f, (x, start))
    if "exclusive" not in keywords:
        assert torch.autograd.gradcheck(lambda x: ut.scan(x, op, **keywords), (x,))


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_recurrences(tensor, reverse):
    a, b, start = (tensor(*s, seed=i).requires_grad_() for i, s in enumerate([(2, 1), (2, 5), (2,)]))

    def f(a, b, start):
        return ut.linear_recurrence(a, b, initial=start, axis=1, reverse=reverse)

    assert torch.autograd.gradcheck(f, (a, b, start))
    assert torch.autograd.gradgradcheck(f, (a, b, start))


def test_gradients_of_returns(tensor):
    r, values, last = (tensor(*s, seed=i).requires_grad_() for i, s in enumerate([(2, 6), (2, 6), (2,)]))
    dones = torch.tensor([[0, 1, 0, 0, 1, 0], [0, 0, 0, 1, 0, 1]], dtype=torch.bool, device=r.device)

    def f(r, values, last):
        return ut.discounted_sum(r, 0.9, dones, axis=1, initial=last), ut.gae(
            r, values, last, dones, gamma=0.9, lam=0.8, axis=1
        )

    assert torch.autograd.gradcheck(f, (r, values, last))
    assert torch.autograd.gradgradcheck(f, (r, values, last))


def test_gradients_do_not_flow_across_an_episode_end(tensor):
    r = tensor(3).fill_(1.0)
    r[1] = float("nan")
    dones = torch.tensor([True, False, False], device=r.device)
    (g,) = torch.autograd.grad(ut.discounted_sum(r.requires_grad_(), 0.5, dones)[0], r)
    assert g.tolist() == [1, 0, 0]


def test_returns_and_filters_have_upsweeps_bits(tensor):
    r, dones = tensor(3, 40), tensor(3, 40, seed=1) > 1
    for done in (None, dones):
        expected = up.discounted_sum(
            host(r), 0.9, None if done is None else host(done), axis=1, initial=np.ones(3)
        )
        got = ut.discounted_sum(r, 0.9, done, axis=1, initial=torch.ones(3, dtype=torch.float64))
        same_bits(got, expected)
    same_bits(ut.lfilter([1, 0.5], [1, -0.9], r), up.lfilter([1, 0.5], [1, -0.9], host(r)))


def test_gradients_of_affine_pairs(tensor):
    x, a = tensor(2, 5).requires_grad_(), tensor(2, 5, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, x: ut.scan((a, x), "affine", axis=1), (a, x))


FILTERS = {
    "feedback": ([1.0], [1.0, -0.5]),
    "scaled": ([0.5, 0.2, 0.1], [2.0, 0.3]),
    "second order": ([1.0, 0.3], [1.0, -0.8, 0.4]),
    "forward only": ([1.0, -0.5, 0.25], [4.0]),
    "nothing": ([2.0], [0.5]),
}


@pytest.mark.parametrize("filter_", FILTERS)
@pytest.mark.parametrize(("dtype", "n"), [("float64", 1), ("float64", 2), ("float64", 5), ("complex128", 2)])
def test_gradients_of_filters(tensor, filter_, dtype, n):
    x = tensor(2, n, 2, dtype=getattr(torch, dtype)).requires_grad_()
    b, a = (torch.tensor(c, dtype=x.dtype, device=x.device, requires_grad=True) for c in FILTERS[filter_])
    order = max(len(b), len(a)) - 1
    zi = tensor(2, order, 1, seed=2, dtype=x.dtype).requires_grad_()
    assert torch.autograd.gradcheck(lambda *p: ut.lfilter(*p, axis=1), (b, a, x))
    assert torch.autograd.gradcheck(lambda b, a, x, zi: ut.lfilter(b, a, x, 1, zi), (b, a, x, zi))
    if n == 2:
        assert torch.autograd.gradgradcheck(lambda b, a, x, zi: ut.lfilter(b, a, x, 1, zi), (b, a, x, zi))


@pytest.mark.parametrize("filter_", FILTERS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_filters_have_upsweeps_bits_and_a_state(tensor, filter_, dtype):
    x = tensor(3, 40, dtype=getattr(torch, dtype))
    b, a = FILTERS[filter_]
    computed = "float32" if dtype == "float16" else dtype
    c, d, u = np.array(b, computed), np.array(a, computed), host(x).astype(computed)
    same_bits(ut.lfilter(b, a, x), up.lfilter(c, d, u))
    zi = tensor(1, max(len(b), len(a)) - 1, seed=1, dtype=getattr(torch, computed))
    expected = up.lfilter(c, d, u, zi=host(zi))
    for got, want in zip(ut.lfilter(b, a, x, zi=zi), expected):
        same_bits(got, want)
    first, state = ut.lfilter(b, a, x[:, :7], zi=zi.expand(3, -1))
    assert torch.allclose(
        torch.cat([first, ut.lfilter(b, a, x[:, 7:], zi=state)[0]], 1), ut.lfilter(b, a, x, zi=zi)[0]
    )


def test_vmap_over_filters(tensor):
    x, zi = tensor(4, 6), tensor(4, 1, seed=1)
    b, a = tensor(4, 2, seed=2), torch.stack([torch.ones(4), torch.linspace(-0.9, 0.9, 4)], 1).to(x)
    got = torch.vmap(lambda *p: ut.lfilter(p[0], p[1], p[2], zi=p[3])[0])(b, a, x, zi)
    same_bits(got, torch.stack([ut.lfilter(*p[:3], zi=p[3])[0] for p in zip(b, a, x, zi)]))


def test_a_product_with_zeros_has_its_gradient(tensor):
    x = tensor(3)
    x[1] = 0
    assert torch.autograd.gradcheck(ut.cumulative_prod, (x.requires_grad_(),))


# PyTorch's compiler takes frozen dataclasses for constants from 2.13 on, and plain functions always.
TRACEABLE = BLEND if torch.torch_version.TorchVersion(torch.__version__) >= (2, 13) else BLEND.fn


def everything(x):
    """One graph with every kind of scan."""
    dones = torch.arange(x.shape[1], device=x.device) % 3 == 1
    return (
        ut.scan(x, "mul", axis=1, initial=1.5),
        ut.scan(x, TRACEABLE, axis=1),
        ut.linear_recurrence(x, x, axis=1, reverse=True),
        ut.discounted_sum(x, 0.9, dones, axis=1, initial=x[:, 0]),
        ut.ema(x, x[0].sigmoid(), axis=1, initial=x[:, 0]),
        ut.reduce(x, axis=1),
        ut.cumulative_sum(x, axis=1, include_initial=True),
        ut.lfilter([1.0], [1.0, -0.5], x),
    )


def compiles(device):
    """Whether PyTorch's own compiler works here."""
    try:
        return torch.compile(lambda x: x.sin() + 1)(torch.ones(3, device=device)).shape == (3,)
    # Without a C++ compiler or without Triton: each machine raises its own exception.
    except Exception as error:
        pytest.skip(f"torch.compile does not work on {device}: {error}")


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
# Warnings of the compilers' own.
@pytest.mark.filterwarnings("ignore")
def test_compiled_graphs_are_whole_and_give_the_same_bits(tensor, device, backend):
    assert backend != "inductor" or compiles(device)
    x = tensor(3, 4).requires_grad_()
    expected, got = everything(x), torch.compile(everything, fullgraph=True, backend=backend)(x)
    for y, z in zip(got, expected):
        same_bits(y, z)
    gradients = [torch.autograd.grad(sum(y.square().sum() for y in ys), x)[0] for ys in (got, expected)]
    # Sums of squares have no order of their own.
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_operators_pass_pytorchs_own_checks(tensor):
    x, a, start = (tensor(*s, seed=i).requires_grad_() for i, s in enumerate([(2, 4), (2, 4), (2,)]))
    ops = torch.ops.upsweep
    torch.library.opcheck(ops.scan.default, (x, "mul", 1, False, True, start, None, "tree"))
    torch.library.opcheck(ops.scan.default, (x, "max", 1, True, False, start, a > 0, "sequential"))
    torch.library.opcheck(ops.recurrence.default, (a, x, start, None, 1, False, "tree"))
    torch.library.opcheck(ops.average.default, (x, 0.25, None, None, a > 0, 1, "tree"))
    weight = tensor(1, 4, seed=3).requires_grad_()
    torch.library.opcheck(ops.average.default, (x, 0.0, a, start, None, 1, "tree"))
    torch.library.opcheck(ops.average.default, (x, 0.0, weight, None, a > 0, 1, "sequential"))
    torch.library.opcheck(ops.reduction.default, (x, "add", 1, False, start, "tree"))
    torch.library.opcheck(ops.reduction.default, (x, "max", 1, True, None, "sequential"))
    torch.library.opcheck(ops.decayed.default, (x, 0.5, start, a > 0, True, 1, True, "tree"))
    b, c = (torch.tensor([1.0, v], dtype=torch.float64, requires_grad=True) for v in (0.3, -0.5))
    torch.library.opcheck(ops.lfilter.default, (x, b, c, None))
    torch.library.opcheck(ops.lfilter.default, (x, b, c, tensor(2, 1, seed=3)))
    torch.library.opcheck(
        ops.scan_tuple.default, ([a.detach(), x.detach()], "affine", 1, False, False, [], None, "tree")
    )


def test_vmap_over_any_dimension(tensor):
    x, start = tensor(4, 3, 5), tensor(3)
    got = torch.vmap(lambda x, s: ut.scan(x, "mul", axis=1, initial=s), in_dims=(1, 0))(x, start)
    same_bits(got, torch.stack([ut.scan(x[:, i], "mul", axis=1, initial=start[i]) for i in range(3)]))
    got = torch.vmap(lambda b: ut.linear_recurrence(0.5, b, axis=0))(x[:, 0])
    same_bits(got, ut.linear_recurrence(0.5, x[:, 0], axis=1))
    got = torch.vmap(lambda x: ut.lfilter([1.0, 0.5], [1.0, -0.5], x))(x)
    same_bits(got, ut.lfilter([1.0, 0.5], [1.0, -0.5], x))


def test_autocast_computes_in_float32(tensor, device):
    with torch.autocast(device, torch.bfloat16):
        assert ut.linear_recurrence(0.5, tensor(3, dtype=torch.bfloat16)).dtype is torch.float32
        assert ut.scan(tensor(3, dtype=torch.bfloat16)).dtype is torch.float32
        assert ut.linear_recurrence(0.5, tensor(3)).dtype is torch.float64
        totals = ut.cumulative_sum(tensor(3, dtype=torch.float16), include_initial=True)
        assert (totals.dtype, totals.shape) == (torch.float32, (4,))


def test_a_graph_names_an_operator_by_its_content():
    def named(k):
        return scan_rules.name_of(up.Operator(lambda a, b: a + b + k * a * b, name="mine"))

    # In another process too: PyTorch keeps compiled graphs on disk.
    assert named(2) == named(2)
    assert named(2) != named(3)
    assert scan_rules.name_of(up.ops.MAX) == "max"


def test_errors(tensor):
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
    with pytest.raises(up.ShapeError, match="needs 1 values"):
        ut.lfilter([1.0], [1.0, 0.5], x, zi=tensor(2, 2))
    with pytest.raises(up.ShapeError, match="1-D"):
        ut.lfilter([], [1.0, 0.5], x)
    with pytest.raises(ZeroDivisionError):
        ut.lfilter([1.0], [0.0, 0.5], x)


UNIMPORTED = """
import sys
import torch
import upsweep as up, upsweep.torch as ut
x = torch.rand(50, requires_grad=True)
segments = up.segments.lengths([20, 30])
ut.scan(x.detach(), "max")
ut.scan((x.detach(), x.detach()), "affine")
(ut.cumulative_sum(x) * ut.ema(x, 0.5) * ut.linear_recurrence(x, x, segments=segments)).sum().backward()
assert "torch._dynamo" not in sys.modules
"""


def test_the_compiler_is_not_imported():
    """That takes longer than a second."""
    subprocess.run([sys.executable, "-c", UNIMPORTED], check=True, timeout=300)


def test_modes_and_transforms_see_the_operators():
    """Where nobody follows them, PyTorch's dispatcher is left out; here somebody does."""
    dispatching = pytest.importorskip("torch.utils._python_dispatch")

    class Listening(dispatching.TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.heard = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.heard.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.rand(20, dtype=torch.float64)
    with Listening() as mode:
        ut.scan(x), ut.scan((x, x), "affine"), ut.linear_recurrence(x, x)
    assert [f"upsweep.{name}.default" in mode.heard for name in ("scan", "scan_tuple", "recurrence")] == [
        True
    ] * 3
    same_bits(torch.func.vmap(ut.cumulative_sum)(x.reshape(4, 5)), ut.cumulative_sum(x.reshape(4, 5), axis=1))
    with torch._subclasses.FakeTensorMode() as fake:
        assert ut.cumulative_sum(fake.from_tensor(x)).shape == x.shape
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda v: ut.cumulative_sum(v))(x)
    assert "upsweep.scan" in traced.code
    same_bits(traced(x + 1), ut.cumulative_sum(x + 1))
    with torch.no_grad():
        assert not ut.cumulative_sum(x.requires_grad_()).requires_grad
    assert ut.cumulative_sum(torch.nn.Parameter(x.detach())).requires_grad


def test_a_default_device_follows_no_tensors():
    """It is a mode, but one that looks at new tensors alone; any other sees the operators."""
    followers = pytest.importorskip("upsweep.torch.followers")

    class Other(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x, y = torch.ones(3), torch.ones(3, requires_grad=True)
    with torch.device("cpu"):
        assert [followers.following((x,)), followers.following((x, y))] == ["", "gradients"]
        same_bits(torch.autograd.grad(ut.scan(y).sum(), y)[0], np.array([3, 2, 1], np.float32))
        with Other():
            assert followers.following((x,)) == "more"
    with Other(), torch.device("cpu"):
        assert followers.following((x,)) == "more"
