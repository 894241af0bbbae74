"""Exponential averages and their gradients: those of the loop in float64, each way by one scan."""

from __future__ import annotations

import itertools

import pytest

import upsweep as up

torch = pytest.importorskip("torch")

import upsweep.torch as ut  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

SHAPE = 3, 21, 5
ROWS = torch.rand(SHAPE, generator=torch.Generator().manual_seed(0)) < 0.2
WEIGHTS = {"number": None, "0-d": (), "channels": (5,), "times": (1, 21, 1), "whole": SHAPE}
CLOSE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.bfloat16: 2e-2}


def loop(x, weight, start, heads):
    """Along the second axis, one step after the other."""
    weight, made, h = weight.expand(x.shape), [], None
    for t in range(x.shape[1]):
        first = heads[:, t] | (t == 0)
        before = torch.zeros_like(x[:, t]) if start is None else start
        before = before if h is None else torch.where(first, before, h)
        h = (1 - weight[:, t]) * before + weight[:, t] * x[:, t]
        h = torch.where(first & (start is None), x[:, t], h)
        made.append(h)
    return torch.stack(made, 1)


def drawn(shape, dtype, device):
    return (torch.rand(shape, dtype=torch.float64) * 0.8 + 0.1).to(device, dtype).requires_grad_()


def operands(shape, dtype, from_state, device, items=SHAPE):
    """Items, weights and first averages, those that are tensors, and the function of them."""
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    given = [drawn(items, dtype, device)]
    given += [] if shape is None else [drawn(shape, computed, device)]
    given += [drawn((items[0], items[2]), computed, device)] if from_state else []

    def told(*xs):
        x, *rest = xs
        return x, 0.3 if shape is None else rest[0], rest[-1] if from_state else None

    return given, told


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("name", WEIGHTS)
def test_values_and_gradients_are_those_of_the_loop(name, dtype, device):
    """Of all tensors, and of each by itself: what nobody wants is not computed."""
    torch.manual_seed(0)
    turn = list(WEIGHTS).index(name) % 2 == 0
    for flagged, from_state, in_order in itertools.product((False, True), repeat=3):
        # Half of the ways have each pair of these three. Code of other dtypes than float64 differs in its types alone: each
        # weight goes two of these ways, in each order once.
        if flagged ^ from_state ^ in_order or (dtype != torch.float64 and from_state == turn):
            continue
        order = "sequential" if in_order else "tree"
        heads = ROWS.to(device) if flagged else torch.zeros(SHAPE, dtype=torch.bool, device=device)
        segments = up.segments.flags(heads) if flagged else None
        xs, told = operands(WEIGHTS[name], dtype, from_state, device)
        wide = [x.detach().double().requires_grad_() for x in xs]
        items, weight, start = told(*wide)
        weight = torch.as_tensor(weight, dtype=torch.float64, device=device)
        want = loop(items, weight, start, heads)
        g = torch.randn(SHAPE, device=device).to(dtype)
        wanted = torch.autograd.grad(want, wide, g.double())
        for some in {tuple(range(len(xs))), (0,), (len(xs) - 1,)}:
            given = [x if i in some else x.detach() for i, x in enumerate(xs)]
            x, weight, start = told(*given)
            y = ut.ema(x, weight, axis=1, initial=start, segments=segments, order=order)
            assert y.dtype == dtype
            torch.testing.assert_close(y.double(), want, rtol=CLOSE[dtype], atol=CLOSE[dtype])
            for i, dx in zip(some, torch.autograd.grad(y, [xs[i] for i in some], g), strict=True):
                assert dx.dtype == xs[i].dtype
                assert (dx.double() - wanted[i]).abs().max() <= CLOSE[dtype] * (1 + wanted[i].abs().max())


@pytest.mark.parametrize("name", WEIGHTS)
def test_averages_have_upsweeps_bits(name):
    for flagged, from_state, order in itertools.product((False, True), (False, True), ("tree", "sequential")):
        xs, told = operands(WEIGHTS[name], torch.float64, from_state, "cpu")
        x, weight, start = (v.detach().numpy() if isinstance(v, torch.Tensor) else v for v in told(*xs))
        how = {"axis": 1, "order": order, "segments": up.segments.flags(ROWS.numpy()) if flagged else None}
        want = up.ema(x, weight, initial=start, **how)
        x, weight, start = told(*xs)
        how["segments"] = up.segments.flags(ROWS) if flagged else None
        assert torch.equal(ut.ema(x, weight, initial=start, **how), torch.from_numpy(want))


@pytest.mark.dear
@pytest.mark.parametrize("name", WEIGHTS)
def test_derivatives_of_every_mode(name):
    items = 2, 4, 3
    shape = WEIGHTS[name] and tuple(dict(zip(SHAPE, items)).get(n, n) for n in WEIGHTS[name])
    for flagged, from_state, order in (
        (False, False, "sequential"),
        (False, True, "tree"),
        (True, False, "tree"),
    ):
        xs, told = operands(shape, torch.float64, from_state, "cpu", items)
        segments = up.segments.flags(ROWS[:2, :4, :3]) if flagged else None

        def f(*xs, told=told, order=order, segments=segments):
            x, weight, start = told(*xs)
            return ut.ema(x, weight, axis=1, initial=start, segments=segments, order=order)

        assert torch.autograd.gradcheck(f, xs, check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(f, xs)
        some = [x.detach() for x in xs]
        gradients = torch.func.grad(lambda *xs, f=f: f(*xs).square().sum(), tuple(range(len(xs))))
        together = torch.vmap(gradients)(*[torch.stack([x, x]) for x in some])
        for dx, wanted in zip(together, gradients(*some), strict=True):
            torch.testing.assert_close(dx[1], wanted)
        for i, x in enumerate(some):
            two = [torch.stack([x, x / 2]) if i == j else y for j, y in enumerate(some)]
            each = torch.vmap(f, in_dims=tuple(0 if i == j else None for j in range(len(some))))(*two)
            assert torch.equal(each[1], f(*[x / 2 if i == j else y for j, y in enumerate(some)]))


@pytest.mark.dear
@pytest.mark.parametrize("name", WEIGHTS)
def test_each_way_is_one_scan(name, device, monkeypatch):
    """Which reads what is given as it lies, also in half precision. On a GPU the scan backwards may sum the gradient of the
    weight, too."""
    from upsweep.torch import average_gradients, averages

    inputs = []
    for module in (averages, average_gradients):
        monkeypatch.setattr(
            module, "run", lambda call, run=module.run: inputs.append(call.xs[0]) or run(call)
        )

    def summing(xs, *given, scan=average_gradients.scan_and_sums, **how):
        made = scan(xs, *given, **how)
        if made is not None:
            inputs.append(xs[0])
        return made

    monkeypatch.setattr(average_gradients, "scan_and_sums", summing)
    for from_state in (False, True):
        xs, told = operands(WEIGHTS[name], torch.bfloat16, from_state, device)
        x, weight, start = told(*xs)
        y = ut.ema(x, weight, axis=1, initial=start if from_state else 0.5)
        torch.autograd.grad(y, xs, torch.randn_like(y))
        assert [given.dtype for given in inputs] == [torch.bfloat16] * 2
        inputs.clear()
