"""The C part runs remembered calls of PyTorch's tensors, with all that the long way does for them."""

import gc
import sys

import numpy as np
import pytest

import upsweep as up
from upsweep import recall, short_way

torch = pytest.importorskip("torch")
# From the first tensor on, tensors are told apart.
up.scan(torch.zeros(1))
RNG = np.random.default_rng(7)


def tensor(n=24, dtype=None):
    return torch.tensor(RNG.integers(0, 9, n)).to(dtype or torch.float32)


def the_long_way(call):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(short_way, "part", None)
        patch.setattr(recall, "known_calls", {})
        return call()


CALLS = {
    "scan": lambda x, y, out: up.scan(x),
    "out": lambda x, y, out: up.scan(x, out=out),
    "reverse": lambda x, y, out: up.scan(x, "max", reverse=True, exclusive=True, initial=3),
    "reduce": lambda x, y, out: up.reduce(x),
    "recurrence": lambda x, y, out: up.linear_recurrence(x, y),
    "number": lambda x, y, out: up.linear_recurrence(0.5, y, out=out),
    "pair": lambda x, y, out: up.scan((x, y), "affine"),
    "twice": lambda x, y, out: up.linear_recurrence(x, x),
    "map": lambda x, y, out: up.scan((x, y), map=lambda a, b: a * b),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int16])
@pytest.mark.parametrize("form", CALLS)
def test_results_are_those_of_the_long_way(form, dtype, found):
    if form == "number" and dtype is torch.int16:
        pytest.skip("0.5 is no integer")
    for turn in range(5):
        x, y, out = [tensor(dtype=dtype) for _ in range(3)]
        got = CALLS[form](x, y, out)
        want = the_long_way(lambda: CALLS[form](x, y, torch.zeros_like(x)))  # noqa: B023
        for a, b in zip(got, want) if isinstance(got, tuple) else [(got, want)]:
            assert type(a) is type(b)
            assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
            assert torch.equal(a, b)
        assert len(found) == max(0, turn - 1)


def test_in_place_and_beside_are_two_calls(found):
    for turn in range(4):
        x, y = tensor(), tensor()
        want = torch.cumsum(x, 0)
        assert torch.equal(up.scan(x, out=y), want)
        assert up.scan(x, out=x) is x
        assert torch.equal(x, want)
        assert len(found) == 2 * max(0, turn - 1)


def test_a_tensor_of_a_graph_that_was_written_is_told(found):
    """A gradient that kept the tensor as it was is refused."""
    x, y = tensor(), tensor()
    for _ in range(3):
        up.scan(x, out=y)
    w = torch.ones(24, requires_grad=True)
    product, version = (w * y).sum(), y._version
    up.scan(x, out=y)
    assert len(found) == 2
    assert y._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_whether_gradients_are_recorded_is_asked_each_time(found):
    x = tensor().requires_grad_()
    with torch.no_grad():
        for _ in range(4):
            assert not up.scan(x).requires_grad
    assert len(found) == 2
    y = up.scan(x)
    assert y.requires_grad
    y.sum().backward()
    assert torch.equal(x.grad, torch.arange(24.0, 0, -1))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own
def test_tangents_and_transforms_are_not_taken_for_plain_tensors(found):
    x = tensor()
    for _ in range(3):
        up.scan(x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones(24))
        tangent = torch.autograd.forward_ad.unpack_dual(up.scan(dual)).tangent
    assert torch.equal(tangent, torch.arange(1.0, 25.0))
    rows = torch.stack([x, x + 1])
    assert torch.equal(torch.func.vmap(up.scan)(rows), torch.cumsum(rows, 1))
    found.clear()
    up.scan(x)
    assert len(found) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x[:-1], lambda x: x.double(), lambda x: x.repeat(2)[::2], lambda x: x.reshape(4, 6),
        lambda x: torch.nn.Parameter(x), lambda x: x.numpy(), lambda x: torch._neg_view(x),
    ],
)  # fmt: skip
def test_tensors_of_another_likeness_are_not_found(other, found):
    x = tensor()
    for _ in range(3):
        up.scan(x)
    found.clear()
    z = other(x)
    got, want = up.scan(z, axis=0), the_long_way(lambda: up.scan(z, axis=0))
    assert not found
    assert type(got) is type(want)
    assert torch.equal(torch.as_tensor(got), torch.as_tensor(want))


def test_many_shapes(found):
    """More shapes of one operator than places for calls with one hash."""
    xs = [tensor(n) for n in range(1, 60)]
    for _ in range(4):
        for x in xs:
            assert torch.equal(up.scan(x), torch.cumsum(x, 0))
    assert len(found) > 100


def test_nothing_is_kept_or_given_back_too_often():
    x, y, out, pair = tensor(), tensor(), tensor(), (tensor(), tensor())
    held = [x, y, out, pair, *pair, torch.Tensor, short_way.part]

    def counts():
        gc.collect()
        return [sys.getrefcount(each) for each in held]

    def turn():
        for form in CALLS.keys() - {"map"}:
            CALLS[form](x, y, out)
        up.scan(pair, "affine")

    for _ in range(5):
        turn()
    before = counts()
    for _ in range(100):
        turn()
    assert max(abs(after - then) for then, after in zip(before, counts())) < 50
