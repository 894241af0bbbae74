"""Averages by times, in every library: times that fall, that restart with a segment, and of any dtype."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest

import upsweep as up

X = np.array([4.0, 8.0, 8.0, 2.0, 1.0])


def by_numpy(times, segments=None, x=X, halflife=1.0, order="tree"):
    return up.ema(x, halflife=halflife, times=times, segments=segments, order=order)


def by_torch(times, segments=None, x=X, halflife=1.0, order="tree"):
    torch, ut = pytest.importorskip("torch"), pytest.importorskip("upsweep.torch")
    x, times = (v if isinstance(v, torch.Tensor) else torch.from_numpy(np.asarray(v)) for v in (x, times))
    return ut.ema(x, halflife=halflife, times=times, segments=segments, order=order)


def by_jax(times, segments=None, x=X, halflife=1.0, order="tree"):
    uj = pytest.importorskip("upsweep.jax")
    return uj.ema(x, halflife=halflife, times=times, segments=segments, order=order)


def by_dask(times, segments=None, x=X, halflife=1.0, order="tree"):
    ud = pytest.importorskip("upsweep.dask")
    return ud.ema(x, halflife=halflife, times=times, segments=segments).compute()


LAZY = pytest.mark.parametrize("average", [by_torch, by_jax, by_dask])
EACH = pytest.mark.parametrize("average", [by_numpy, by_torch, by_jax, by_dask])


def test_times_that_fall_are_an_error():
    for falling in ([0.0, 1, 0.5, 2, 3], np.array([0, 1, 0, 2, 3], "M8[s]"), np.array([0, 3, 1, 4, 5], "u1")):
        halflife = np.timedelta64(1, "s") if np.asarray(falling).dtype.kind == "M" else 1.0
        with pytest.raises(ValueError, match=r"times fall.*sort the items"):
            by_numpy(falling, halflife=halflife)
    with pytest.raises(ValueError, match="halflife is below 0"):
        up.ema(X, halflife=np.array([1.0, 1, 1, -1, 1]))
    assert by_numpy([0.0, 1, 1, 1, 2])[3] == by_numpy([0.0, 1, 1, 1, 2])[1]


@pytest.mark.parametrize("average", [by_numpy, by_dask])
@pytest.mark.parametrize("flagged", [False, True])
def test_times_at_the_two_ends_of_their_range(average, flagged):
    """An int64 holds no difference of these."""
    for times in (
        np.array([0, 5, 2**63 + 5, 2**63 + 7, 2**64 - 1], np.uint64),
        np.array([-(2**63), -(2**63) + 5, 5, 7, 2**63 - 1]),
    ):
        segments = up.segments.groups(np.zeros(5, int)) if flagged else None
        steps = np.array([0.0, 5.0, 2.0**63, 2.0, 2.0**63 - 8])
        alphas = 1 - np.exp2(-steps / 2.0**62)
        want = up.ema(X, alphas, segments=segments)
        np.testing.assert_allclose(average(times, segments, halflife=2.0**62), want, rtol=1e-15)
    falls = np.array([2**63, 0, 1, 2, 3], np.uint64)
    if average is by_numpy:
        with pytest.raises(ValueError, match="times fall"):
            average(falls)
    else:
        assert np.isnan(average(falls)[1:]).all()


def test_a_halflife_that_is_no_array_of_numbers():
    # Nothing reads a weight where each item starts a segment.
    alone = up.segments.flags(np.ones(5, bool))
    for halflife in (np.float32(-1), np.array(-1.0)):
        np.testing.assert_array_equal(up.ema(X, halflife=halflife, segments=alone), X)
    pd = pytest.importorskip("pandas")
    with pytest.raises(up.DTypeError, match="do not go with halflife"):
        up.ema(np.ones((2, 2)), halflife=pd.DataFrame(np.ones((2, 2))), axis=0)


@LAZY
def test_where_nobody_waits_for_times_that_fall_the_averages_become_nan(average):
    got = np.asarray(average([0.0, 1, 0.5, 2, 3]))
    np.testing.assert_array_equal(np.isnan(got), [False, False, True, True, True])


@pytest.mark.dear
@EACH
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_times_restart_with_a_segment(average, order):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flags = up.segments.flags(np.array([True, False, False, True, False]))
        got = np.asarray(average([1e6, 1e6 + 1, 1e6 + 3, 2.0, 3.0], flags, order=order))
    np.testing.assert_allclose(got, [4.0, 6.0, 7.5, 2.0, 1.5], rtol=1e-5)


@pytest.mark.dear
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_gradients_where_times_restart(order):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    times, flags = np.array([1e6, 1e6 + 1, 1e6 + 3, 2.0, 3.0], np.float32), np.array([1, 0, 0, 1, 0], bool)
    given = [torch.tensor(v, requires_grad=True) for v in (X.astype(np.float32), times, np.float32(1))]
    segments = up.segments.flags(torch.from_numpy(flags))
    by_torch(given[1], segments, given[0], given[2], order).sum().backward()

    def total(x, times, halflife):
        return by_jax(times, up.segments.flags(flags), x, halflife, order).sum()

    for own, theirs in zip(
        given, jax.grad(total, (0, 1, 2))(*[jax.numpy.asarray(v.detach()) for v in given])
    ):
        assert torch.isfinite(own.grad).all()
        np.testing.assert_allclose(theirs, own.grad, rtol=1e-5, atol=1e-6)


@EACH
@pytest.mark.parametrize(
    "times",
    [
        np.array([-100, 100, 101, 102, 103], np.int8),
        np.array([1, 3, 3, 200, 255], np.uint8),
        np.array([0, 1, 2, 3, 5], np.uint64) + np.uint64(2**62),
        np.array([0, 1, 3, 3, 8], np.int64) + 1_700_000_000,
        np.array([0.0, 1, 3, 3, 8]) + 1_700_000_000,
    ],
    ids=lambda times: times.dtype.name,
)
def test_times_of_any_dtype(average, times):
    steps = [int(b) - int(a) for a, b in pairwise(times)]
    wanted = X[:1].tolist()
    for step, x in zip(steps, X[1:]):
        wanted.append(0.5 ** (step / 100) * wanted[-1] + (1 - 0.5 ** (step / 100)) * x)
    if average is by_torch and times.dtype == np.uint64:
        pytest.skip("PyTorch computes in float64 there, which is no place for 2 ** 62")
    np.testing.assert_allclose(np.asarray(average(times, halflife=100.0)), wanted, rtol=1e-5)


@pytest.mark.parametrize("average", [by_numpy, by_jax, by_dask])
def test_dates(average):
    dates = np.datetime64("2024-01-01", "ms") + np.array([0, 1, 3, 3, 4]) * np.timedelta64(1000, "ms")
    got = average(dates, halflife=np.timedelta64(1, "s"))
    np.testing.assert_allclose(np.asarray(got), [4.0, 6.0, 7.5, 7.5, 4.25], rtol=1e-6)
    with pytest.raises(up.DTypeError, match="do not go with halflife"):
        average(dates, halflife=1.0)


@pytest.mark.parametrize("halflife", [1e-50, 5e-324, 1e-40], ids=repr)
@pytest.mark.parametrize("narrow", [False, True], ids=["f8", "f4"])
def test_a_halflife_below_the_range_of_a_dtype_forgets_all(halflife, narrow):
    """Such a halflife is 0 in float32, and a step of 0 was NaN times as long, from an array or a tensor of it."""
    x, times = X.astype("f4"), np.array([0, 1, 1, 2, 5], "f4")
    for given in (np.array(halflife), np.full(5, halflife), halflife):
        given = np.float32(given) if narrow else given
        if isinstance(given, np.float32) and not given:
            continue
        wanted = np.where(np.diff(times, prepend=0) > 0, x, np.roll(x, 1))
        wanted[0] = x[0]
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(up.ema(x, halflife=given, times=times), wanted)
            for name in ("torch", "jax", "dask"):
                home = pytest.importorskip(f"upsweep.{name}")
                make = pytest.importorskip({"jax": "jax.numpy", "dask": "dask.array"}.get(name, name)).asarray
                for held in (given, make(given)):
                    got = home.ema(make(x), halflife=held, times=make(times))
                    np.testing.assert_array_equal(np.asarray(got), wanted, name)


def test_a_halflife_above_the_range_of_a_dtype_keeps_all():
    x = X.astype("f4")
    for halflife in (1e300, 10**400, float("inf")):
        np.testing.assert_array_equal(up.ema(x, halflife=halflife, times=x), np.full(5, x[0]))
