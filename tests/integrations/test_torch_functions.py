"""The functions of `upsweep.torch` are those of `upsweep` with gradients: segments, `dim=`, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up

torch = pytest.importorskip("torch")
ut = pytest.importorskip("upsweep.torch")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

OFFSETS = np.array([0, 2, 2, 5, 7])
SPELLINGS = {
    "offsets": up.segments.offsets(OFFSETS),
    "tensor": up.segments.lengths(torch.tensor(np.diff(OFFSETS))),
    "flags": up.segments.flags([0, 0, 1, 0, 0, 1, 0]),
    "ends": up.segments.ends([0, 1, 0, 0, 1, 0, 1]),
    "strings": up.segments.keys(list("aabbbaa")),
    "each row": up.segments.flags(np.array([[1, 0, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0, 1]])),
}


@pytest.fixture(autouse=True)
def place(device):
    """Makes tensors, on every device of this machine."""
    with torch.device(device):
        yield


def draw(*shape, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator, device="cpu").to(
        torch.empty(0).device
    )


def same(got, expected):
    np.testing.assert_array_equal(np.asarray(got.detach().cpu()), np.asarray(expected), strict=True)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("reverse", [False, True])
def test_segments_have_upsweeps_bits(spelling, reverse):
    x, a, keywords = (
        draw(2, 7),
        draw(2, 7, seed=1),
        {"axis": 1, "segments": SPELLINGS[spelling], "reverse": reverse},
    )
    for op, more in (("add", {}), ("mul", {"initial": 0.5}), ("max", {"exclusive": True})):
        same(ut.scan(x, op, **keywords, **more), up.scan(x.cpu().numpy(), op, **keywords, **more))
    same(ut.cummin(x, **keywords), up.scan(x.cpu().numpy(), "min", **keywords))
    expected = up.linear_recurrence(a.cpu().numpy(), x.cpu().numpy(), initial=2.0, **keywords)
    same(ut.linear_recurrence(a, x, initial=2.0, **keywords), expected)
    plain = a.cpu().numpy(), x.cpu().numpy()
    for got, part in zip(ut.scan((a, x), "affine", **keywords), up.scan(plain, "affine", **keywords)):
        same(got, part)


@pytest.mark.dear
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("spelling", ["offsets", "each row"])
def test_derivatives_within_segments(spelling, reverse):
    a, x, start = (
        draw(2, 7, seed=1).requires_grad_(),
        draw(2, 7).requires_grad_(),
        draw(2, seed=2).requires_grad_(),
    )
    keywords = {"axis": 1, "segments": SPELLINGS[spelling], "reverse": reverse}

    def f(a, x, start):
        return (
            ut.scan(x, "mul", initial=start, exclusive=True, **keywords), ut.scan(x, "logaddexp", **keywords),
            ut.scan(x, "add", initial=start, exclusive=True, **keywords),
            ut.linear_recurrence(a, x, initial=start, **keywords),
        )  # fmt: skip

    assert torch.autograd.gradcheck(f, (a, x, start), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (a, x, start), atol=1e-4)


def test_reductions_one_a_segment():
    x = draw(7).requires_grad_()
    for spelling in ("offsets", "tensor"):
        got = ut.reduce(x, segments=SPELLINGS[spelling])
        expected = [x[:2].sum(), 0, x[2:5].sum(), x[5:].sum()]
        torch.testing.assert_close(got, torch.stack([torch.as_tensor(v, dtype=x.dtype) for v in expected]))
    same(
        ut.reduce(x, "max", segments=SPELLINGS["flags"]),
        [x[:2].max().item(), x[2:5].max().item(), x[5:].max().item()],
    )
    assert torch.autograd.gradcheck(
        lambda x: ut.reduce(x, "mul", initial=2.0, segments=SPELLINGS["offsets"]), x
    )
    rows = ut.reduce(x.reshape(1, 7), dim=1, reverse=True, segments=SPELLINGS["strings"])
    torch.testing.assert_close(rows[0], torch.stack([x[:2].sum(), x[2:5].sum(), x[5:].sum()]))
    assert ut.reduce(torch.ones(0)).item() == 0
    assert ut.reduce(torch.ones(0), "max", initial=3.0, segments=up.segments.lengths([0, 0])).tolist() == [
        3,
        3,
    ]
    same(ut.reduce(x), up.reduce(x.detach().cpu().numpy()))
    with pytest.raises(up.SegmentError, match="1-D segments"):
        ut.reduce(draw(2, 7), dim=1, segments=SPELLINGS["each row"])


@pytest.mark.parametrize("given", [torch.tensor, np.array])
def test_the_first_item_starts_a_segment_that_no_flag_names(given):
    """Booleans of the right shape are taken as they are: the items before the first flag were lost."""
    flags, x = given([False, True, False]), torch.tensor([1, 2, 4])
    same(ut.reduce(x, segments=up.segments.flags(flags)), [1, 6])
    same(ut.reduce(x, segments=up.segments.flags(given([False] * 3))), [7])
    assert ut.reduce(x[:0], segments=up.segments.flags(flags[:0])).tolist() == []


def test_averages_by_steps_and_by_times():
    x, times = draw(2, 7), torch.tensor([0.0, 1, 3, 3, 8, 9, 10], dtype=torch.float64)
    for more in ({"initial": 0.5}, {"segments": SPELLINGS["offsets"]}):
        for v in (x, x.float(), x.half()):
            same(ut.ema(v, 0.3, dim=1, **more), up.ema(v.cpu().numpy(), 0.3, axis=1, **more))
    y, expected = ut.ema(x, halflife=2.0, times=times, axis=1), [x[:, 0]]
    for t in range(1, 7):
        weight = 0.5 ** ((times[t] - times[t - 1]) / 2)
        expected.append(weight * expected[-1] + (1 - weight) * x[:, t])
    torch.testing.assert_close(y, torch.stack(expected, 1))
    np.testing.assert_allclose(
        up.ema(x.cpu().numpy(), halflife=2.0, times=times.cpu().numpy(), axis=1), y.cpu(), rtol=1e-15
    )
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: ut.ema(x, halflife=2.0, times=times, axis=1), x)
    for wrong, says in (
        ({}, "halflife"), ({"alpha": 0.5, "times": times}, "times"), ({"halflife": 1, "times": times, "initial": 0}, "front"),
    ):  # fmt: skip
        for module, given in ((ut, x.detach()), (up, x.detach().cpu().numpy())):
            with pytest.raises(ValueError, match=says):
                module.ema(given, axis=1, **wrong)


def test_advantages_of_episodes_that_end_and_that_are_cut():
    r, v, after = draw(6), draw(6, seed=1), draw(6, seed=2)
    ended, cut = (torch.tensor(f, dtype=torch.bool) for f in ([0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0]))
    keywords = {"dones": ended, "truncated": cut, "next_values": after, "gamma": 0.9, "lam": 0.8}
    got, expected, later = ut.gae(r, v, **keywords), [], 0.0
    for t in reversed(range(6)):
        delta = r[t] + 0.9 * after[t] * (not ended[t]) - v[t]
        later = delta + 0.72 * later * (not ended[t] and not cut[t])
        expected.insert(0, later)
    torch.testing.assert_close(got, torch.stack(expected))
    plain = {k: w.cpu().numpy() if isinstance(w, torch.Tensor) else w for k, w in keywords.items()}
    same(got, up.gae(r.cpu().numpy(), v.cpu().numpy(), **plain))
    halves = {"values": v.half(), "next_values": after.half()}
    got = ut.gae(r.half(), **(keywords | halves))
    halves = {k: w.cpu().numpy() for k, w in halves.items()}
    same(got, up.gae(r.half().cpu().numpy(), **(plain | halves)))
    drawn = [x.to(dtype) for dtype in (torch.float32, torch.bfloat16) for x in (r, v)]
    for r, v in zip(drawn[::2], drawn[1::2]):
        for how in (
            keywords | {"next_values": v},
            {"last_value": 0.3, "dones": ended, "gamma": 0.97, "lam": 0.8},
        ):
            followed = ut.gae(r.clone().requires_grad_(), v, **how)
            assert torch.equal(followed.detach(), ut.gae(r, v, **how))
    r, v = draw(6), draw(6, seed=1)
    nothing_ends = ut.gae(r, v, 0.5, gamma=0.9, lam=0.8)
    never = torch.zeros(6, dtype=torch.bool)
    same(nothing_ends, ut.gae(r, v, 0.5, never, gamma=0.9, lam=0.8).cpu())
    same(
        ut.gae(r, v, next_values=torch.tensor(0.5), gamma=0.9, lam=0.8),
        ut.gae(r, v, next_values=v * 0 + 0.5, gamma=0.9, lam=0.8).cpu(),
    )
    for wrong in ({"last_value": 0, "dones": never[:5]}, {"next_values": v[:5]}, {"last_value": v}):
        with pytest.raises(up.ShapeError):
            ut.gae(r, v, gamma=0.9, lam=0.8, **wrong)
    with pytest.raises(up.ShapeError, match="rewards"):
        ut.gae(r[:5], v, 0, gamma=0.9, lam=0.8)
    for module in (ut, up):
        with pytest.raises(ValueError, match="next_values"):
            module.gae(r, v, 0.5, truncated=cut, gamma=0.9, lam=0.8)


def test_dim_is_axis():
    x = draw(2, 3)
    same(ut.cumulative_sum(x, dim=-1), up.cumulative_sum(x.cpu().numpy(), axis=-1))
    with pytest.raises(up.ShapeError, match="one thing"):
        ut.cumulative_sum(x, axis=0, dim=0)


def test_numbers_that_a_dtype_does_not_hold_are_refused():
    whole, x = torch.tensor([1, 2, 3]), draw(3)
    for call in (
        lambda: ut.linear_recurrence(0.5, whole), lambda: ut.linear_recurrence(0.5j, x),
        lambda: ut.scan(whole, "min", initial=float("inf")), lambda: ut.scan(whole, initial=torch.tensor(0.5)),
    ):  # fmt: skip
        with pytest.raises(up.DTypeError, match="convert"):
            call()
    small = torch.ones(1, 2, dtype=torch.uint8)
    for value in (np.array([-1]), np.array([256]), [300]):
        with pytest.raises(up.DTypeError, match="convert"):
            ut.scan(small, axis=1, initial=value)
    with pytest.raises(up.DTypeError, match="convert"):
        ut.scan(x.float(), initial=1e300)
    same(ut.scan(small, axis=1, initial=[7]), np.array([[8, 9]], np.uint8))
    for initial in ((1.0,), (1.0, 2.0, 3.0), 1.0):
        with pytest.raises(up.ShapeError, match="tuple of 2"):
            ut.scan((x, x), "affine", initial=initial)
    same(ut.linear_recurrence(2, whole), up.linear_recurrence(2, whole.cpu().numpy()))
    same(ut.linear_recurrence(torch.tensor(0.5), whole), np.array([1.0, 2.5, 4.25], np.float32))


def test_a_reduction_that_nothing_follows_makes_no_prefixes(device, monkeypatch):
    from upsweep.torch import scan_rules

    x, start = torch.rand(3, 9, 4, device=device).bfloat16(), torch.rand(3, 4, device=device)
    kinds = [
        {"op": op, "reverse": reverse, "order": order, "initial": initial}
        for op in ("add", "max") for reverse in (False, True) for order in ("tree", "sequential") for initial in (None, start)
    ]  # fmt: skip
    wanted = [ut.scan(x, axis=1, **how).select(1, 0 if how["reverse"] else -1) for how in kinds]
    monkeypatch.setattr(scan_rules, "scan", None)
    for how, want in zip(kinds, wanted, strict=True):
        got = ut.reduce(x, axis=1, **how)
        assert got.dtype == want.dtype
        assert torch.equal(got, want)


def test_a_tensor_without_dimensions_decides_no_more_than_a_number():
    """NumPy's array without dimensions is a number, and so the bits are the same."""
    x = np.arange(6, dtype=np.float32)

    def weighted(given, y, z):
        return up.scan((given, y, z), map=lambda x, y, z: x * y + z)

    want = weighted(x, 0.3, np.array(0.7))
    got = weighted(torch.asarray(x), 0.3, torch.tensor(0.7, dtype=torch.float64))
    np.testing.assert_array_equal(got.cpu().numpy(), want)
