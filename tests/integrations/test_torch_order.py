"""upsweep.torch in order: the bits are those of the loop that a user would write in PyTorch, forward and backward."""

import pytest

torch = pytest.importorskip("torch")

import upsweep.torch as ut  # noqa: E402
from upsweep.segments import lengths as segments_of  # noqa: E402


def given(dtype, device, shape=(3, 50, 17)):
    torch.manual_seed(1)
    a, b = torch.rand(shape).to(device, dtype), torch.randn(shape).to(device, dtype)
    h = torch.randn(3, 17).to(device)
    return a.requires_grad_(), b.requires_grad_(), h.requires_grad_(dtype == torch.float32)


def loop(a, b, h):
    states = []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, 1)


@pytest.mark.parametrize("lengths", [[50], [20, 1, 29]], ids=len)
def test_the_loop_forward_and_backward(lengths, device):
    a, b, h = given(torch.float32, device)
    g = torch.randn_like(b)
    want = torch.cat([loop(x, y, h) for x, y in zip(a.split(lengths, 1), b.split(lengths, 1))], 1)
    segments = segments_of(lengths) if len(lengths) > 1 else None
    got = ut.linear_recurrence(a, b, initial=h, axis=1, segments=segments, order="sequential")
    assert torch.equal(got, want)
    # The segments' gradients of h are added in another order.
    inputs = (a, b) if segments else (a, b, h)
    for x, y in zip(torch.autograd.grad(got, inputs, g), torch.autograd.grad(want, inputs, g)):
        assert torch.equal(x, y)


@pytest.mark.dear
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_states_in_float32(dtype, device):
    a, b, h = given(dtype, device)
    g = torch.randn_like(b)
    wide = [x.detach().float().requires_grad_() for x in (a, b)]
    want = loop(*wide, h)
    got = ut.linear_recurrence(a, b, initial=h, axis=1, order="sequential")
    assert torch.equal(got, want.to(dtype))
    da, db = torch.autograd.grad(got, (a, b), g)
    s = torch.autograd.grad(want, wide[1], g.float())[0]
    before = torch.cat([h[:, None], got.detach()[:, :-1].float()], 1)
    assert torch.equal(db, s.to(dtype))
    assert torch.equal(da, (s * before).to(dtype))
    composed = torch.autograd.grad(
        ut.linear_recurrence(a, b, initial=h, axis=1, order="sequential"), (a, b), g, create_graph=True
    )
    assert torch.equal(composed[0], da)
    assert torch.equal(composed[1], db)


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_gradients(reverse, device):
    torch.manual_seed(2)
    how = {"dtype": torch.float64, "device": device, "requires_grad": True}
    a, b, h = (torch.rand(s, **how) for s in ((2, 5, 3), (2, 5, 3), (2, 3)))

    def scanned(a, b, h):
        return ut.linear_recurrence(a, b, initial=h, axis=1, reverse=reverse, order="sequential")

    assert torch.autograd.gradcheck(scanned, (a, b, h))
    assert torch.autograd.gradgradcheck(scanned, (a, b, h))
    scalar = torch.tensor(0.7, **how)
    assert torch.autograd.gradcheck(lambda c, b: scanned(c, b, None), (scalar, b))


def test_compiled_whole(device):
    a, b, h = given(torch.float32, device)
    fn = torch.compile(
        lambda a, b, h: ut.linear_recurrence(a, b, initial=h, axis=1, order="sequential").square().sum(),
        fullgraph=True, backend="aot_eager",
    )  # fmt: skip
    fn(a, b, h).backward()
    want = torch.autograd.grad(loop(a, b, h).square().sum(), (a, b, h))
    for x, y in zip((a.grad, b.grad, h.grad), want):
        assert torch.equal(x, y)


def stepped(x, f, first):
    """The loop over axis 1."""
    ys, y = [], first
    for t in range(x.shape[1]):
        y = f(y, x[:, t])
        ys.append(y)
    return torch.stack(ys, 1)


def test_every_function_has_the_loops_bits_and_gradients(device):
    torch.manual_seed(4)
    x = torch.randn(3, 50, 17, device=device, requires_grad=True)
    g, how = torch.randn(3, 50, 17, device=device), {"axis": 1, "order": "sequential"}
    zero = torch.zeros(3, 17, device=device)
    dones = torch.rand(3, 50, 17, device=device) < 0.1
    back, ends = x.flip(1), dones.flip(1)
    pairs = [
        (ut.scan(x, **how), stepped(x, torch.add, zero)),
        (ut.cumulative_sum(x, **how), stepped(x, torch.add, zero)),
        (ut.cumulative_prod(x, **how), stepped(x, torch.mul, zero + 1)),
        (ut.cummax(x, **how), stepped(x, torch.maximum, zero - 9)),
        (ut.ema(x, 0.25, initial=zero, **how), stepped(x, lambda y, v: 0.75 * y + 0.25 * v, zero)),
        (ut.discounted_sum(x, 0.5, **how), stepped(back, lambda y, v: 0.5 * y + v, zero).flip(1)),
    ]
    for got, want in pairs:
        assert torch.equal(got, want)
    for got, want in (pairs[0], pairs[4], pairs[5]):
        (dx,), (wanted,) = (torch.autograd.grad(y, x, g) for y in (got, want))
        torch.testing.assert_close(dx, wanted, rtol=1e-6, atol=1e-6)
    states, y = [], zero
    for t in range(50):
        y = torch.where(ends[:, t], back[:, t], 0.5 * y + back[:, t])
        states.append(y)
    assert torch.equal(ut.discounted_sum(x, 0.5, dones, **how), torch.stack(states, 1).flip(1))
    assert torch.equal(ut.reduce(x, **how), pairs[0][1][:, -1])
    values, last = torch.zeros_like(x), zero
    assert torch.equal(ut.gae(x, values, last, gamma=1.0, lam=0.5, **how), pairs[5][1])
    a, b = (torch.rand(3, 50, 17, device=device) for _ in range(2))
    _, h = ut.scan((a, b), "affine", **how)
    assert torch.equal(h, ut.linear_recurrence(a, b, **how))


def test_gradients_in_order_by_differences(device):
    x = torch.rand(2, 5, 3, dtype=torch.float64, device=device, requires_grad=True)
    for op in ("add", "mul"):
        for exclusive in (False, True):
            how = {"axis": 1, "order": "sequential", "exclusive": exclusive, "reverse": exclusive}
            assert torch.autograd.gradcheck(lambda x, op=op, how=how: ut.scan(x, op, **how), x)
