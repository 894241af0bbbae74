"""Recurrences that are like earlier ones go a shorter way, but where something else than autograd follows their tensors."""

import math

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402, PLC2701

import upsweep as up  # noqa: E402
import upsweep.torch as ut  # noqa: E402
from portions import every  # noqa: E402
from upsweep import recall  # noqa: E402
from upsweep.host import tensors  # noqa: E402
from upsweep.torch import differentiable, recurrences  # noqa: E402

# PyTorch's own transforms import what it calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


def given(device, shape=(2, 6, 3), **how):
    return [torch.rand(shape, device=device, **how).requires_grad_() for _ in range(2)]


def loop(a, b):
    h, states = torch.zeros_like(b[:, 0]), []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, 1)


def recurrence(a, b):
    return ut.linear_recurrence(a, b, axis=1, order="sequential")


@pytest.fixture
def asked(monkeypatch):
    """Counts how often it is asked what follows tensors; in all forms, recurrences are known."""
    monkeypatch.setattr(recall, "known_calls", {})
    # Few kinds of tensors of one shape are told apart at once: those of other tests do not count.
    monkeypatch.setattr(tensors, "_known", {})
    count, following = [], differentiable.following
    monkeypatch.setattr(differentiable, "following", lambda args: count.append(1) or following(args))
    return count


@pytest.fixture
def known(asked, device):
    for _ in range(2):
        a, b = given(device)
        recurrence(a, b).backward(torch.ones_like(b))
        with torch.no_grad():
            recurrence(a, b)
    asked.clear()
    return asked


def test_nothing_is_asked_again(known, device, monkeypatch):
    # Nor are operands made of the arguments.
    monkeypatch.setattr(recurrences, "multiplier", None)
    for _ in range(2):
        a, b = given(device)
        g = torch.rand_like(b)
        h, want = recurrence(a, b), loop(a, b)
        assert torch.equal(h, want)
        for got, like in zip(
            torch.autograd.grad(h, (a, b), g), torch.autograd.grad(want, (a, b), g), strict=True
        ):
            assert torch.equal(got, like)
        with torch.no_grad():
            quiet = recurrence(a, b)
        assert torch.equal(quiet, want)
        assert h.requires_grad
        assert not quiet.requires_grad
    assert not known


def test_in_the_order_of_the_tree(asked, device):
    for _ in range(3):
        a, b = given(device)
        g, h = torch.rand_like(b), ut.linear_recurrence(a, b, axis=1)
        assert torch.equal(h, up.linear_recurrence(a.detach(), b.detach(), axis=1))
        for got, like in zip(
            torch.autograd.grad(h, (a, b), g), torch.autograd.grad(loop(a, b), (a, b), g), strict=True
        ):
            torch.testing.assert_close(got, like)
    assert asked


def test_sums_and_maxima(asked, device):
    for again in range(4):
        x = torch.rand(3, 5, device=device).requires_grad_()
        g, y, want = torch.rand_like(x), ut.cumulative_sum(x, axis=1), torch.cumsum(x, 1)
        torch.testing.assert_close(y, want)
        torch.testing.assert_close(torch.autograd.grad(y, x, g), torch.autograd.grad(want, x, g))
        assert torch.equal(ut.cummax(x.detach(), axis=1), torch.cummax(x.detach(), 1)[0])
        # The gradient of a sum is a sum.
        assert torch.equal(
            ut.scan(x.detach(), axis=1, reverse=True), ut.cumulative_sum(x.detach().flip(1), axis=1).flip(1)
        )
        if again == 1:
            assert asked
            asked.clear()
    assert not asked


def flagged(b, like):
    return up.segments.flags(
        torch.tensor([1, 0, 0, 1, 0, 0], device=b.device, dtype=torch.bool) if like else b > 0.6
    )


CALLS = {
    "averages": lambda a, b: ut.ema(b, 0.25, axis=1),
    "averages in segments": lambda a, b: ut.ema(b, 0.25, axis=1, segments=flagged(b, True)),
    "averages by tensors": lambda a, b: ut.ema(b, a, axis=1, segments=flagged(b, True)),
    "averages from a state": lambda a, b: ut.ema(b, a[0].detach(), axis=1, initial=b[:, 0].detach()),
    "recurrences from a state": lambda a, b: ut.linear_recurrence(a, b, axis=1, initial=b[:, 1]),
    "recurrences from a state, in order and backwards": lambda a, b: ut.linear_recurrence(
        a, b, axis=1, initial=b[:, 1], order="sequential", reverse=True
    ),
    "recurrences in segments": lambda a, b: ut.linear_recurrence(a, b, axis=1, segments=flagged(b, True)),
    "flags of each row, in order": lambda a, b: ut.linear_recurrence(
        a, b, axis=1, order="sequential", segments=flagged(b, False)
    ),
    "dones": lambda a, b: ut.discounted_sum(b, 0.5, a > 0.7, axis=1),
    "dones, and values behind": lambda a, b: ut.discounted_sum(b, 0.5, a > 0.7, axis=1, initial=b[:, 1]),
    "sums in segments": lambda a, b: ut.cumulative_sum(b, axis=1, segments=flagged(b, False)),
    "largest": lambda a, b: ut.cummax(b, axis=1),
    "products backwards": lambda a, b: ut.scan(b, "mul", axis=1, reverse=True, exclusive=True),
    "advantages": lambda a, b: ut.gae(a, b, b[:, 0].detach(), a > 0.7, gamma=0.5, lam=0.5, axis=1),
    "advantages of steps cut off": lambda a, b: ut.gae(
        a, b, next_values=b.detach(), truncated=a > 0.7, gamma=0.5, lam=0.5, axis=1
    ),
}


@pytest.mark.parametrize("name", every(2, CALLS))
def test_calls_of_each_kind_are_known(name, asked, device, monkeypatch):
    """With other items, flags and gradients, as if they were not."""

    def made(a, b, g):
        y = CALLS[name](a, b)
        return y, *torch.autograd.grad(y, (a, b), g, allow_unused=True)

    seen = None
    for _ in range(4):
        a, b = given(device)
        g = torch.rand_like(b)
        asked.clear()
        got = made(a, b, g)
        seen = len(asked)
        with monkeypatch.context() as patch:
            patch.setattr(recall, "known_calls", {})
            want = made(a, b, g)
        assert len(asked) > seen
        for x, y in zip(got, want, strict=True):
            assert (x is None) == (y is None)
            assert x is None or torch.equal(x, y)
    assert seen == 0


def test_a_function_that_changes_is_refused(asked, device):
    weight = [1.0]

    def weighed(a, b):
        return a + weight[0] * b

    op, x = up.Operator(weighed), torch.rand(3, 5, device=device)
    for _ in range(3):
        ut.scan(x, op, axis=1)
    weight[0] = 2.0
    with pytest.raises(up.OperatorError):
        ut.scan(x, op, axis=1)


def test_what_is_wrong_stays_wrong(known, device):
    a, b = given(device)
    with pytest.raises(ValueError, match="reverse=0"):
        ut.linear_recurrence(a, b, axis=1, order="sequential", reverse=0)


def test_zeros_are_told_apart(device):
    b = torch.tensor([1.0, -0.0, -0.0], device=device)
    for a, second in (-0.0, -0.0), (0.0, 0.0), (-0.0, -0.0):
        for _ in range(2):
            told = ut.linear_recurrence(a, b, order="sequential").tolist()
            assert math.copysign(1, told[1]) == math.copysign(1, second)


def other(a, b, **how):
    return [x.detach().to(**how).requires_grad_() for x in (a, b)]


OTHERS = {
    "a lies otherwise": lambda a, b: (a.detach().mT.contiguous().mT.requires_grad_(), b),
    "shorter": lambda a, b: (a[:, :4], b[:, :4]),
    "another dtype": lambda a, b: other(a, b, dtype=torch.float64),
    "a alone is wanted": lambda a, b: (a, b.detach()),
    "b alone is wanted": lambda a, b: (a.detach(), b),
    "a has one item": lambda a, b: (a[:, :1], b),
    "negated": lambda a, b: (torch._neg_view(a), b),
    "a parameter": lambda a, b: (torch.nn.Parameter(a.detach()), b),
}


@pytest.mark.parametrize("name", every(2, OTHERS))
def test_others_are_asked_of(name, known, device):
    for _ in range(2):
        leaves = given(device)
        a, b = OTHERS[name](*leaves)
        wanted = [x for x in (a, b) if x.requires_grad]
        want = loop(a.expand(b.shape), b)
        assert torch.equal(recurrence(a, b), want)
        g = torch.rand_like(b)
        for got, like in zip(
            torch.autograd.grad(recurrence(a, b), wanted, g),
            torch.autograd.grad(want, wanted, g),
            strict=True,
        ):
            torch.testing.assert_close(got, like)


def test_a_start_and_segments(known, device):
    start, kept = torch.rand(2, 3, device=device).requires_grad_(), []
    for _ in range(3):
        a, b = given(device)
        h = ut.linear_recurrence(a, b, axis=1, order="sequential", initial=start)
        first = torch.cat([(a[:, :1] * start[:, None] + b[:, :1]), b[:, 1:]], 1)
        assert torch.equal(h, loop(a, first))
        assert all(d is not None for d in torch.autograd.grad(h.sum(), (a, b, start)))
        flags = torch.tensor([True, False, False, True, False, False], device=device)
        packed = ut.linear_recurrence(a, b, axis=1, order="sequential", segments=up.segments.flags(flags))
        assert torch.equal(packed, torch.cat([loop(a[:, :3], b[:, :3]), loop(a[:, 3:], b[:, 3:])], 1))
        kept.append(len(recall.known_calls))
    # No call keeps a tensor of its own.
    assert kept[1] == kept[2]


def test_gradients_of_gradients(known, device):
    a, b = given(device, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(recurrence, (a, b))
    a, b = given(device)
    h = recurrence(a, b)
    made = torch.autograd.grad(h, (a, b), torch.ones_like(b), create_graph=True)
    assert all(d.requires_grad for d in made)


def test_transforms(known, device):
    a, b = (x.detach() for x in given(device))
    want = loop(a, b)
    assert torch.equal(
        torch.func.vmap(lambda a, b: ut.linear_recurrence(a, b, axis=0, order="sequential"))(a, b), want
    )
    made = torch.func.grad(lambda a: recurrence(a, b).sum())(a)
    torch.testing.assert_close(made, torch.func.grad(lambda a: loop(a, b).sum())(a))
    value, tangent = torch.func.jvp(recurrence, (a, b), (b, a))
    torch.testing.assert_close((value, tangent), torch.func.jvp(loop, (a, b), (b, a)))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(a, b)
        assert forward_ad.unpack_dual(recurrence(dual, b)).tangent is not None
    leaf = a.clone().requires_grad_()
    for _ in range(2):
        # No guard takes a tensor twice.
        assert recurrence(leaf, leaf).requires_grad
    with forward_ad.dual_level():
        for _ in range(2):
            dual = forward_ad.make_dual(a, b)
            assert forward_ad.unpack_dual(recurrence(dual, dual)).tangent is not None
    h = recurrence(leaf, b)
    many = torch.stack([torch.ones_like(h), torch.rand_like(h)])
    (batched,) = torch.autograd.grad(h, leaf, many, is_grads_batched=True, retain_graph=True)
    for one, g in zip(batched, many, strict=True):
        torch.testing.assert_close(one, torch.autograd.grad(h, leaf, g, retain_graph=True)[0])


class Looking(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_modes(known, device):
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    a, b = given(device)
    with Mode():
        recurrence(a, b)
    assert any(name.startswith("upsweep.recurrence") for name in seen)
    known.clear()
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        assert type(recurrence(a, b)) is torch._subclasses.FakeTensor
    assert known
    known.clear()
    with Looking():
        recurrence(a, b)
    assert known
    with torch.autocast(device.type if isinstance(device, torch.device) else device, torch.bfloat16):
        half = [x.detach().bfloat16() for x in (a, b)]
        assert recurrence(*half).dtype == torch.float32
    assert recurrence(*half).dtype == torch.bfloat16


def test_tensors_of_their_own_type(known, device):
    class Named(torch.Tensor):
        pass

    a, b = (x.detach().as_subclass(Named) for x in given(device))
    assert type(recurrence(a, b)) is Named


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_halves_are_the_same_again(known, device, dtype):
    """The component that is read ahead is moved in each call, whatever NumPy takes its bits for."""
    a, b = given(device, dtype=dtype)
    made = [torch.autograd.grad(recurrence(a, b).sum(), (a, b)) for _ in range(3)]
    wanted = torch.autograd.grad(recurrence(a.double(), b.double()).sum(), (a, b))
    for each in made:
        for got, first, want in zip(each, made[0], wanted):
            assert torch.equal(got, first)
            torch.testing.assert_close(got, want, rtol=0.05, atol=0.05)
