"""Recurrences against their definitions, step by step, and against SciPy's filters."""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

import upsweep as up
from upsweep.apps import discounted_sum, ema, filters, lfilter, rewards
from upsweep.apps.roots import roots

RNG = np.random.default_rng(5)


def sequential_filter(b, a, x, zi):
    """The transposed direct form, one item at a time, in extended precision."""
    wide = np.clongdouble if any(np.iscomplexobj(v) for v in (b, a, x, zi)) else np.longdouble
    b, a, x, z = (np.asarray(v, wide) for v in (b, a, x, zi))
    size = max(len(a), len(b))
    b = np.concatenate([b, np.zeros(size - len(b), wide)]) / a[0]
    a = np.concatenate([a, np.zeros(size - len(a), wide)]) / a[0]
    z, y = np.append(z, wide(0)), np.empty_like(x)
    for t in range(len(x)):
        y[t] = z[0] + b[0] * x[t]
        z[:-1] = z[1:] + b[1:] * x[t] - a[1:] * y[t]
    return y, z[:-1]


def close(got, want, rtol):
    np.testing.assert_allclose(got, want, rtol=0, atol=rtol * max(1e-300, np.abs(want).max(initial=0)))


def sequential_discounted(r, gamma, dones, last):
    g = np.empty_like(r)
    for t in reversed(range(len(r))):
        last = g[t] = r[t] if dones[t] else r[t] + gamma * last
    return g


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 100_003])
@pytest.mark.parametrize("initial", [None, 3.0])
def test_ema_is_its_recurrence(apps, n, initial):
    x = RNG.standard_normal(n)
    want, y = np.empty(n), initial
    for t in range(n):
        want[t] = y = x[t] if y is None else 0.75 * y + 0.25 * x[t]
    np.testing.assert_allclose(apps.ema(x, 0.25, initial=initial), want, rtol=1e-12, atol=1e-14)


def test_ema_along_an_axis_of_integers_with_weights_in_time(apps):
    x = RNG.integers(-9, 9, (50, 7))
    alpha = RNG.random((50, 1))
    want = np.empty(x.shape)
    y = want[0] = x[0]
    for t in range(1, 50):
        want[t] = y = (1 - alpha[t]) * y + alpha[t] * x[t]
    np.testing.assert_allclose(apps.ema(x, alpha, axis=0), want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(apps.ema(x.T, alpha.T, axis=-1).T, want, rtol=1e-12, atol=1e-13)
    assert apps.ema(x[:, 0].astype(np.float32), 0.5).dtype == np.float32


def test_axes_that_are_none_are_refused():
    for call in (ema, lambda x, g, axis: discounted_sum(x, g, np.zeros(3, bool), axis=axis)):
        for x, axis in [(np.ones((3, 3)), None), (np.ones(3), 1), (np.float64(1), None), (np.float64(1), 0)]:
            with pytest.raises(up.ShapeError):
                call(x, 0.5, axis=axis)


@pytest.mark.parametrize(
    "weights", [[0.5j, 0.5, 0.5], np.array([0.5j] * 3, "c8"), ["0.5"], np.array([1, 1, 1], "m8[s]")]
)
def test_weights_are_real_numbers_where_the_items_are(weights):
    """A conversion would drop what is imaginary, and read texts."""
    for call in (lambda: ema([1.0, 2, 3], weights), lambda: discounted_sum([1.0, 2, 3], weights)):
        with pytest.raises(up.DTypeError, match="weights"):
            call()
    for x in (np.ones(2, np.float16), np.ones(2)):
        with pytest.raises(up.DTypeError, match="no value of float"):
            ema(x, 0.5j)


@pytest.mark.parametrize("dones", [None, [False, False]])
@pytest.mark.parametrize(
    ("dtype", "value"), [("f8", 2j), ("f4", 1e60), ("f2", 1e60), (ml_dtypes.bfloat16, 1e60)]
)
def test_what_stands_behind_the_last_item_is_a_value_of_its_dtype(dtype, value, dones):
    x = np.ones(2, dtype)
    with pytest.raises(up.DTypeError, match="no value of"):
        discounted_sum(x, 0.5, dones, initial=value)
    with pytest.raises(up.DTypeError, match="no value of"):
        up.gae(x, x, value, dones, gamma=0.5, lam=1.0)


@pytest.mark.parametrize("times", [[False, True, True], ["0", "1", "2"], [0j, 1, 2]])
def test_times_are_numbers_or_dates(times):
    with pytest.raises(up.DTypeError, match="have no differences"):
        ema([1.0, 2, 3], halflife=1, times=times)


@pytest.mark.parametrize(
    ("dtype", "times", "groups"),
    [
        ("f8", "f4", None),
        ("f8", "f2", None),
        ("f2", "f2", None),
        ("c16", "f4", None),
        ("f8", "i1", [0, 1, 0, 0]),
    ],
)
def test_weights_of_times_have_the_digits_of_the_values(apps, dtype, times, groups):
    """Times of few digits are whole numbers here: as float64 they are the same, and so must be the averages."""
    x, t = np.array([1.5, -2, 4, 0.25]).astype(dtype), np.array([-100.0, 3, 28, 123]).astype(times)
    segments = None if groups is None else up.segments.groups(groups)
    got = apps.ema(x, halflife=3.3, times=t, segments=segments)
    want = apps.ema(x, halflife=3.3, times=t.astype("f4" if dtype == "f2" else "f8"), segments=segments)
    np.testing.assert_array_equal(got, want, strict=True)


def test_times_of_few_digits_are_far_apart():
    """A step of float16 would be infinite."""
    x, times = np.array([1, 2], np.float16), np.array([-60000, 60000], np.float16)
    assert 1.49 < ema(x, halflife=1.2e5, times=times)[1] < 1.51


def test_ema_leaves_its_input_alone():
    x = RNG.standard_normal(100)
    kept = x.copy()
    ema(x, 1.0)
    np.testing.assert_array_equal(x, kept)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), max_size=40), st.sampled_from([None, 7.0]))
def test_discounted_sum_is_its_recurrence(apps, items, initial):
    r = np.array([float(v) for v, _ in items])
    dones = np.array([d for _, d in items], bool)
    got = apps.discounted_sum(r, 0.5, dones, initial=initial)
    np.testing.assert_allclose(got, sequential_discounted(r, 0.5, dones, initial or 0.0), rtol=1e-14)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nothing_flows_across_the_end_of_an_episode(apps, bad):
    r = np.array([1.0, 2.0, bad, 4.0])
    np.testing.assert_array_equal(apps.discounted_sum(r, 0.5, [False, True, False, False])[:2], [2.0, 2.0])
    np.testing.assert_array_equal(apps.discounted_sum(r[:2], 0.5, [False, True], initial=bad), [2.0, 2.0])


def test_discounted_sum_of_batches_along_either_axis(apps):
    r, dones, last = RNG.standard_normal((40, 6)), RNG.random((40, 6)) < 0.1, RNG.standard_normal(6)
    want = np.stack([sequential_discounted(r[:, k], 0.9, dones[:, k], last[k]) for k in range(6)], 1)
    kept = r.copy()
    np.testing.assert_allclose(apps.discounted_sum(r, 0.9, dones, axis=0, initial=last), want, rtol=1e-12)
    np.testing.assert_allclose(
        apps.discounted_sum(r.T, 0.9, dones.T, axis=1, initial=last).T, want, rtol=1e-12
    )
    np.testing.assert_array_equal(r, kept)
    shared = np.stack([sequential_discounted(r[:, k], 0.9, dones[:, 0], last[k]) for k in range(6)], 1)
    np.testing.assert_allclose(
        apps.discounted_sum(r, 0.9, dones[:, 0], axis=0, initial=last), shared, rtol=1e-12
    )
    with pytest.raises(up.ShapeError, match="axis"):
        apps.discounted_sum(r, 0.9, dones)


def test_averages_start_anew_in_each_segment(apps):
    x, starts = RNG.standard_normal(200), [0, 1, 40, 41, 150, 200]
    got = apps.ema(x, 0.3, segments=up.segments.offsets(np.array(starts)))
    want = np.concatenate([ema(x[a:b], 0.3) for a, b in pairwise(starts)])
    close(got, want, 1e-14)
    np.testing.assert_array_equal(got[starts[:-1]], x[starts[:-1]])


GAMMA, LAMBDA = 0.97, 0.9


@pytest.fixture
def gae(apps):
    return type(apps)(apps.kind, rewards).gae


def advantages(r, v, after, ended, cut):
    want, later = np.empty(r.shape), np.zeros(r.shape[1:])
    for t in reversed(range(len(r))):
        delta = np.where(ended[t], r[t] - v[t], r[t] + GAMMA * after[t] - v[t])
        want[t] = later = np.where(ended[t] | cut[t], delta, delta + GAMMA * LAMBDA * later)
    return want


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 3), (300, 7), (40, 1)])
def test_advantages_are_their_recurrence(gae, shape, axis):
    r, v = RNG.standard_normal((2, *shape))
    ended, cut = RNG.random((2, *shape)) < 0.1
    last, none, turned = (
        RNG.standard_normal(shape[1]),
        np.zeros(shape, bool),
        np.transpose if axis else np.asarray,
    )
    after = np.concatenate([v[1:], last[None]])

    def got(last, order="tree", **flags):
        flags = {name: turned(x) for name, x in flags.items()}
        how = {"gamma": GAMMA, "lam": LAMBDA, "axis": axis, "order": order}
        return turned(gae(turned(r), turned(v), last, **how, **flags))

    close(got(last), advantages(r, v, after, none, none), 1e-14)
    close(got(last, dones=ended), advantages(r, v, after, ended, none), 1e-14)
    close(got(None, dones=ended, next_values=after), advantages(r, v, after, ended, none), 1e-14)
    every = {"dones": ended, "truncated": cut, "next_values": after}
    close(got(None, **every), advantages(r, v, after, ended, cut), 1e-14)
    loops = got(last, "sequential", dones=ended), got(None, "sequential", **every)
    for loop, cuts in zip(loops, (none, cut)):
        np.testing.assert_array_equal(loop, advantages(r, v, after, ended, cuts))
    ended[-1] = True
    np.testing.assert_array_equal(got(last * np.nan, dones=ended), got(last, dones=ended))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("episodes", [False, True])
def test_advantages_have_the_bits_of_their_three_steps(gae, dtype, episodes):
    r, v = RNG.standard_normal((2, 5000, 3)).astype(dtype)
    last, ended = RNG.standard_normal(3).astype(dtype), RNG.random((5000, 3)) < 0.01 * episodes
    gamma, decay = r.dtype.type(GAMMA), r.dtype.type(GAMMA * LAMBDA)
    surprise = r.copy()
    surprise[-1] += np.where(ended[-1], 0, gamma * last)
    surprise -= v
    behind = up.scan(
        (np.full_like(r, decay), gamma * v + decay * surprise), "affine", axis=0, exclusive=True, reverse=True,
        segments=up.segments.ends(ended),
    )[1]  # fmt: skip
    got = gae(r, v, last, ended if episodes else None, gamma=GAMMA, lam=LAMBDA, axis=0)
    np.testing.assert_array_equal(got, surprise + behind)


@pytest.mark.parametrize("order", range(1, 9))
@pytest.mark.parametrize("kind", ["lowpass", "highpass"])
def test_butterworth_filters_are_scipys(apps, order, kind):
    b, a = signal.butter(order, 0.3, kind)
    x = RNG.standard_normal(3000)
    truth, _ = sequential_filter(b, a, x, np.zeros(order))
    close(apps.lfilter(b, a, x), truth, 1e-13)
    close(apps.lfilter(b, a, x), signal.lfilter(b, a, x), 1e-12)


SECTIONS = {
    "elliptic": signal.ellip(7, 1, 60, 0.15),
    "notch": signal.iirnotch(0.1, 30),
    "poles that nearly meet": ([1.0, 0.5], np.poly([0.99 + 1e-6j, 0.99 - 1e-6j]).real),
    "zeros that no section takes": ([1.0, 0.2, 0.8], np.poly([0.5, 0.9])),
    "a delay": ([0.0, 0.0, 1.0], [1.0, -0.5, 0.3]),
    "more zeros than poles": ([1.0, 2.0, 3.0, 4.0], [1.0, -0.5]),
    "nothing": ([0.0], [1.0, -0.5]),
}


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_sections_lose_less_than_the_direct_form(apps, name, order):
    b, a = SECTIONS[name]
    x = RNG.standard_normal((3, 4000))
    truth = np.stack([sequential_filter(b, a, row, np.zeros(max(len(a), len(b)) - 1))[0] for row in x])
    close(apps.lfilter(b, a, x, order=order), truth, 2e-14)
    close(apps.lfilter(b, a, np.asfortranarray(x.T), 0, order=order).T, truth, 2e-14)


@pytest.mark.parametrize("order", range(2, 7))
def test_repeated_poles_lose_no_more_than_the_direct_form(apps, order):
    a = np.poly([0.9] * order)
    x = RNG.standard_normal(4000)
    truth, _ = sequential_filter([1.0], a, x, np.zeros(order))
    ours, theirs = (np.abs(f([1.0], a, x) - truth).max() for f in (apps.lfilter, signal.lfilter))
    assert ours <= max(theirs, 1e-13 * np.abs(truth).max())


@pytest.mark.parametrize("zero_poles", [0, 1, 3])
@pytest.mark.parametrize("taps", [1, 2, 5, 40])
def test_no_feedback_is_a_convolution(apps, taps, zero_poles):
    b, x = RNG.standard_normal(taps), RNG.standard_normal((3, 30))
    a = [2.0] + [0.0] * zero_poles
    close(apps.lfilter(b, a, x), signal.lfilter(b, a, x), 1e-14)


@pytest.mark.parametrize(
    ("b", "a"),
    [
        ([1.0, 2.0], [2.0, -1.0, 0.5, 0.1]),
        ([1.0, 2.0, 3.0, 0.5], [1.0, 0.25]),
        ([0.5 + 1j, 0.25], [1.0, -0.9j, 0.2]),
        ([1.0], [1.0, -1.0]),
        ([1.0, 0.0], [1.0, -1.8, 0.97]),
        ([1.0], [1.0, -1.99, 0.9901]),
        ([0.0, 1.0], [2j, 1.0, 0.5j]),
    ],
)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 500])
def test_states_in_and_out_are_scipys(apps, b, a, n):
    x = RNG.standard_normal(n)
    zi = RNG.standard_normal(max(len(a), len(b)) - 1)
    y, zf = apps.lfilter(b, a, x, zi=zi)
    truth, last = sequential_filter(b, a, x, zi)
    close(y, truth, 1e-12)
    close(zf, last, 1e-12)
    theirs, theirs_zf = signal.lfilter(b, a, x, zi=zi)
    assert (y.shape, y.dtype, zf.shape, zf.dtype) == (
        theirs.shape,
        theirs.dtype,
        theirs_zf.shape,
        theirs_zf.dtype,
    )


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_axis_in_chunks(apps, axis):
    b, a = signal.butter(3, 0.2)
    x = RNG.standard_normal((20, 21, 22))
    want = signal.lfilter(b, a, x, axis=axis)
    close(apps.lfilter(b, a, x, axis), want, 1e-13)
    zi = np.zeros([3 if d == axis % 3 else size for d, size in enumerate(x.shape)])
    parts = []
    for chunk in np.split(x, [1, 3, 10], axis):
        y, zi = apps.lfilter(b, a, chunk, axis, zi)
        parts.append(y)
    close(np.concatenate(parts, axis), want, 1e-13)


@pytest.mark.parametrize("piece", [1, 7, 64])
def test_pieces_change_nothing(piece, monkeypatch):
    b, a = signal.butter(4, 0.2)
    x, zi = RNG.standard_normal((100, 3)), RNG.standard_normal((4, 3))
    want = lfilter(b, a, x, 0, zi)
    monkeypatch.setattr(filters, "_AT_ONCE", piece)
    for got, w in zip(lfilter(b, a, x, 0, zi), want):
        np.testing.assert_array_equal(got, w)


def test_a_state_broadcasts_over_the_other_dimensions(apps):
    b, a = signal.butter(2, 0.2)
    x, zi = RNG.standard_normal((4, 50)), signal.lfilter_zi(b, a)[None]
    got, want = apps.lfilter(b, a, x, zi=zi), signal.lfilter(b, a, x, zi=np.repeat(zi, 4, 0))
    close(got[0], want[0], 1e-13)
    close(got[1], want[1], 1e-13)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128", "int16", "bool"])
def test_dtypes(apps, dtype):
    x = RNG.integers(0, 2, 300).astype(dtype)
    b, a = (np.asarray(v, np.float32) for v in signal.butter(3, 0.4))
    got = apps.lfilter(b, a, x)
    want, _ = sequential_filter(b, a, x, np.zeros(3))
    assert got.dtype == np.result_type(b, x)
    close(got, want, 2e-7 if got.dtype in (np.float32, np.complex64) else 1e-13)


def test_what_cannot_be_filtered_is_refused():
    for b, a, x, error in [
        ([1.0], [0.0, 1.0], [1.0], ZeroDivisionError),
        ([], [1.0], [1.0], up.ShapeError),
        ([[1.0]], [1.0], [1.0], up.ShapeError),
        ([1.0], [1.0], 1.0, up.ShapeError),
        ([1.0], [1.0], np.ones(3, np.longdouble), up.DTypeError),
        ([1], [1], np.ones(3, ml_dtypes.bfloat16), up.DTypeError),
        ([1.0], [1.0], np.ones(3, "m8[s]"), up.DTypeError),
    ]:
        with pytest.raises(error):
            lfilter(b, a, x)
    with pytest.raises(up.ShapeError, match="out of range"):
        lfilter([1.0], [1.0, 0.5], np.ones((2, 3)), axis=2)
    for zi in (None, [1.0]):
        with pytest.raises(ValueError, match="order='tre'"):
            lfilter([1.0], [1.0, 0.5], [1.0], zi=zi, order="tre")
    with pytest.raises(up.ShapeError, match=r"need shape \(2,\)"):
        lfilter([1.0], [1.0, 0.5, 0.25], [1.0], zi=[1.0])


def test_a_recurrence_of_any_order(apps):
    c, before = RNG.standard_normal(4) / 5, RNG.standard_normal(4)
    x = RNG.standard_normal(200)
    want = list(before[::-1])
    for v in x:
        want.append(v + sum(c[k] * want[-1 - k] for k in range(4)))
    close(apps.linear_recurrence(c, x, initial=before), np.array(want[4:]), 1e-13)
    rows = np.stack([x, -x])
    close(apps.linear_recurrence(c, rows, initial=np.stack([before, -before]))[1], -np.array(want[4:]), 1e-13)
    close(
        apps.linear_recurrence(c, rows.T, axis=0, initial=np.stack([before, -before])).T[1],
        -np.array(want[4:]),
        1e-13,
    )


@settings(max_examples=20)
@given(st.lists(st.integers(-8, 8), min_size=1, max_size=6))
def test_roots_rebuild_their_polynomial(values):
    wanted = sorted(v for v in values if v)
    coefficients = np.poly(values).tolist() if values else [1.0]
    found = roots(tuple(coefficients))
    assert sorted(z.real for z in found) == wanted
    assert all(z.imag == 0 for z in found)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dtype", "halflife"), [("f4", 1e-46), ("f8", 1e-320)])
def test_a_halflife_that_is_0_in_the_dtype_of_the_times_forgets_all_at_once(dtype, halflife):
    x, times = np.arange(1, 5).astype(dtype), np.array([0, 0, 1, 2], dtype)
    assert ema(x, halflife=halflife, times=times).tolist() == [1, 1, 3, 4]
