"""Gradients of scans by built-in operators: those of the loop in float64, by one scan that holds its result alone."""

import itertools

import numpy as np
import pytest

import upsweep as up

torch = pytest.importorskip("torch")

import upsweep.torch as ut  # noqa: E402

SHAPE = (3, 21, 5)
ROWS = np.random.default_rng(0).random(SHAPE) < 0.2
SEGMENTS = {
    "none": None,
    "offsets": up.segments.offsets([0, 4, 4, 20, 21]),
    "each row": up.segments.flags(ROWS),
}
STEPS = {
    "add": torch.add,
    "mul": torch.mul,
    # Of equal items the later one has the gradient.
    "max": lambda h, x: torch.where(x >= h, x, h),
    "min": lambda h, x: torch.where(x <= h, x, h),
    "logaddexp": torch.logaddexp,
}
FEW = (
    ("offsets", False, False, None, "sequential"),
    ("none", False, True, None, "tree"),
    ("none", True, False, 0.75, "tree"),
)
CLOSE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2}


def loop(op, x, segments, exclusive, reverse, initial):
    """Along the second axis, one step after the other."""
    n, rows = x.shape[1], torch.zeros(SHAPE, dtype=torch.bool)
    if segments == "offsets":
        rows[:, [0, 4, 20]] = True
    elif segments == "each row":
        rows = torch.from_numpy(ROWS)
    heads = rows.to(x.device)
    heads = heads.roll(-1, 1) if reverse else heads
    step, prefixes, h = STEPS[op], [None] * n, None
    none = {"add": 0.0, "mul": 1.0, "max": -torch.inf, "min": torch.inf, "logaddexp": -torch.inf}[op]
    start = torch.full_like(x[:, 0], none if initial is None else initial)
    for i, t in enumerate(reversed(range(n)) if reverse else range(n)):
        first = torch.ones_like(heads[:, t]) if i == 0 else heads[:, t]
        before = start if h is None else torch.where(first, start, h)
        h = torch.where(first & (initial is None), x[:, t], step(before, x[:, t]))
        prefixes[t] = before if exclusive else h
    return torch.stack(prefixes, 1)


def items(op, dtype, device):
    x = torch.rand(SHAPE, device=device) * 0.8 + 0.6
    return ((x * 8).round() / 8 if op in ("max", "min") else x).to(dtype)


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("op", STEPS)
def test_gradients_are_those_of_the_loop(op, dtype, device):
    torch.manual_seed(0)
    ways = FEW
    # All operators go the same ways, and a way costs some seconds of compiling. Half of the ways have each three of these.
    if op == "mul" and dtype == torch.float64:
        every_way = itertools.product(
            SEGMENTS, (False, True), (False, True), (None, 0.75), ("tree", "sequential")
        )
        ways = [w for w in every_way if w[1] ^ w[2] ^ (w[3] is None) ^ (w[4] == "tree")]
    for segments, exclusive, reverse, initial, order in ways:
        x = items(op, dtype, device).requires_grad_()
        wide = x.detach().double().requires_grad_()
        how = {"exclusive": exclusive, "reverse": reverse, "initial": initial}
        y = ut.scan(x, op, axis=1, order=order, segments=SEGMENTS[segments], **how)
        want = loop(op, wide, segments, **how)
        torch.testing.assert_close(y.double(), want, rtol=CLOSE[dtype], atol=CLOSE[dtype])
        g = torch.randn_like(y)
        (got,), (like,) = torch.autograd.grad(y, x, g), torch.autograd.grad(want, wide, g.double())
        assert got.dtype == dtype
        assert (got.double() - like).abs().max() <= CLOSE[dtype] * (1 + like.abs().max())


@pytest.mark.parametrize("op", STEPS)
def test_the_gradient_is_one_scan(op, device, monkeypatch):
    from upsweep.torch import slopes

    def refused(*args):
        raise AssertionError

    from upsweep.torch import scan_rules

    monkeypatch.setattr(scan_rules, "recurrence", refused)
    x = items(op, torch.float32, device).requires_grad_()
    for exclusive in (False, True):
        y = ut.scan(x, op, axis=1, exclusive=exclusive)
        torch.autograd.grad(y, x, torch.ones_like(y))
        assert slopes.reads_before(op, x, exclusive) == (y.untyped_storage().nbytes() > y.nbytes)


@pytest.mark.parametrize("op", ["mul", "max", "logaddexp"])
def test_gradients_of_a_batch_of_gradients(op):
    x = torch.rand(21, 5, dtype=torch.float64).requires_grad_()
    y = ut.scan(x, op, axis=0)
    many = torch.randn(4, *y.shape, dtype=y.dtype)
    (made,) = torch.autograd.grad(y, x, many, is_grads_batched=True, retain_graph=True)
    for g, each in zip(many, made, strict=True):
        assert torch.equal(each, torch.autograd.grad(y, x, g, retain_graph=True)[0])
    assert torch.autograd.gradgradcheck(lambda x: ut.scan(x, op, axis=0), x)


@pytest.mark.dear
@pytest.mark.parametrize("op", ["mul", "max", "min", "logaddexp"])
def test_items_that_are_nan_equal_or_infinite(op, device):
    """As the composed rule has it, which is taken where a graph is made."""
    x = torch.tensor(
        [2.0, -torch.inf, 2.0, 5.0, torch.inf, torch.inf, 1.0], dtype=torch.float64, device=device
    )
    for given in (
        x,
        x.flip(0),
        -x,
        torch.full_like(x, -torch.inf),
        torch.tensor([1.0, torch.nan, 2.0], device=device),
    ):
        leaf = given.clone().requires_grad_()
        for reverse in (False, True):
            y = ut.scan(leaf, op, reverse=reverse, order="sequential")
            g = torch.arange(1.0, len(y) + 1, dtype=y.dtype, device=device)
            (got,) = torch.autograd.grad(y, leaf, g, retain_graph=True)
            (want,) = torch.autograd.grad(y, leaf, g, create_graph=True)
            torch.testing.assert_close(got, want, equal_nan=True)
