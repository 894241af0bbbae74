"""Hidden Markov models and the Kalman filter against the textbook's loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import upsweep as up
from upsweep import apps, tree
from upsweep.apps import trellis
from upsweep.apps.trellis import inverse, prefixes
from upsweep.cpu import chains

RNG = np.random.default_rng(9)


def chain(states, steps):
    initial, transition = RNG.dirichlet(np.ones(states)), RNG.dirichlet(np.ones(states), states)
    return initial, transition, RNG.random((steps, states))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 100])
def test_prefixes_are_the_oracles(n):
    def h(a, b):
        return (a * 6364136223846793005 + (b << 7)) ^ (b >> 3)

    x = RNG.integers(0, 1 << 32, n, dtype=np.uint64)
    (got,) = prefixes(np, lambda a, b: (h(a[0], b[0]),), (x,))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, np.array(tree.prefixes(h, list(x)), np.uint64))


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("states", [1, 2, 5])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 200])
def test_forward_is_its_loop(apps, states, steps, order):
    initial, transition, likelihood = chain(states, steps)
    filtered, log_likelihood = apps.hmm_forward(initial, transition, likelihood, order=order)
    vector, total = initial, 0.0
    for t in range(steps):
        vector = (vector if t == 0 else vector @ transition) * likelihood[t]
        total += np.log(vector.sum())
        vector = vector / vector.sum()
        np.testing.assert_allclose(filtered[t], vector, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(log_likelihood[t], total, rtol=1e-11, atol=1e-11)
    assert filtered.shape == (steps, states)


def test_sequences_side_by_side_are_those_alone(apps):
    initial, transition, _ = chain(3, 1)
    likelihood = RNG.random((2, 4, 37, 3))
    for order in ("tree", "sequential"):
        filtered, log_likelihood = apps.hmm_forward(initial, transition, likelihood, order=order)
        assert filtered.shape == likelihood.shape
        for at in itertools.product(range(2), range(4)):
            alone, total = apps.hmm_forward(initial, transition, likelihood[at], order=order)
            np.testing.assert_array_equal(filtered[at], alone)
            np.testing.assert_array_equal(log_likelihood[at], total)
    f, h, q, r = np.array([[1.0, 0.5], [0.0, 0.9]]), RNG.random((3, 2)), np.eye(2) * 0.1, np.eye(3) * 0.3
    y = RNG.standard_normal((5, 41, 3))
    y[2, 7:9], y[4, 0, 1] = np.nan, np.nan
    got = apps.kalman_filter(y, f, h, q, r, np.ones(2), np.eye(2))
    for k in range(5):
        for many, one in zip(got, apps.kalman_filter(y[k], f, h, q, r, np.ones(2), np.eye(2)), strict=True):
            np.testing.assert_array_equal(many[k], one)
    shapes = [(5, 0, 2), (5, 0, 2, 2), (5, 0)]
    for none, shape in zip(
        apps.kalman_filter(y[:, :0], f, h, q, r, np.ones(2), np.eye(2)), shapes, strict=True
    ):
        assert none.shape == shape


@pytest.mark.parametrize(("order", "steps"), [("tree", 5000), ("sequential", 500)])
def test_forward_survives_what_underflows_and_what_is_impossible(apps, order, steps):
    def forward(*model, **how):
        return apps.hmm_forward(*model, order=order, **how)

    initial, transition, likelihood = chain(3, steps)
    filtered, log_likelihood = forward(initial, transition, likelihood * 1e-100)
    _, plain = forward(initial, transition, likelihood)
    np.testing.assert_allclose(log_likelihood, plain + np.log(1e-100) * np.arange(1, steps + 1), rtol=1e-12)
    logs = [np.log(v) for v in (initial, transition, likelihood)]
    again, low = forward(*logs[:2], logs[2] - 1e5, logarithms=True)
    np.testing.assert_allclose(again, filtered, rtol=1e-9)
    np.testing.assert_allclose(low, plain - 1e5 * np.arange(1, steps + 1), rtol=1e-12)
    likelihood[10] = 0
    with np.errstate(divide="ignore"):
        _, none = forward(*logs[:2], np.log(likelihood[:20]), logarithms=True)
    assert (none[10:] == -np.inf).all()
    np.testing.assert_allclose(none[:10], plain[:10], rtol=1e-12)
    filtered, log_likelihood = forward(initial, transition, likelihood[:20])
    assert np.isfinite(filtered[:10]).all()
    assert np.isnan(filtered[10:]).all()
    assert (log_likelihood[10:] == -np.inf).all()


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("states", [1, 2, 4])
@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_viterbi_finds_the_best_of_all_paths(apps, states, steps, order):
    logs = [np.log(v) for v in chain(states, steps)]
    path, score = apps.viterbi(*logs, order=order)

    def value(p):
        return (
            logs[0][p[0]]
            + sum(logs[1][a, b] for a, b in itertools.pairwise(p))
            + sum(logs[2][t, s] for t, s in enumerate(p))
        )

    np.testing.assert_allclose(
        score, max(map(value, itertools.product(range(states), repeat=steps))), rtol=1e-12
    )
    np.testing.assert_allclose(value(path.tolist()), score, rtol=1e-12)


@pytest.mark.parametrize(("order", "steps"), [("tree", 3000), ("sequential", 300)])
def test_viterbi_is_its_loop_where_sums_are_exact(apps, order, steps):
    states = 6
    initial, transition, likelihood = (
        RNG.integers(-5, 0, s).astype(float) for s in (states, (states, states), (steps, states))
    )
    transition[0, 1:4] = -np.inf
    score, choices = initial + likelihood[0], []
    for t in range(1, steps):
        choices.append(np.argmax(score[:, None] + transition + likelihood[t], axis=0))
        score = np.max(score[:, None] + transition, axis=0) + likelihood[t]
    path = [int(np.argmax(score))]
    for choice in reversed(choices):
        path.append(int(choice[path[-1]]))
    got, best = apps.viterbi(initial, transition, likelihood, order=order)
    assert got.tolist() == path[::-1]
    assert best == score.max()


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("odd", [1.0, 0.0, np.nan, np.inf])
def test_compiled_loops_over_time_have_the_bits_of_the_plain_ones(odd):
    initial, transition, likelihood = chain(5, 60)
    transition[:, 1] = transition[:, 2]
    likelihood[30, 3] = transition[2, 4] = odd
    likelihood[40] = 0 if odd == 0 else likelihood[40]
    sequences = np.stack([likelihood, likelihood[::-1]])
    for loop, model in (
        ("forward_in_order", (initial, transition, sequences)),
        ("best_path_in_order", (initial, transition, likelihood)),
    ):
        for got, want in zip(getattr(chains, loop)(*model), getattr(trellis, loop)(np, *model), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("d", "m"), [(1, 1), (2, 1), (3, 2), (4, 4)])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 1500])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_kalman_is_its_loop(apps, d, m, steps, missing):
    f = np.linalg.qr(RNG.standard_normal((d, d)))[0] * 0.99
    h, y = RNG.standard_normal((m, d)), RNG.standard_normal((steps, m))
    q, r, p = (v @ v.T + 0.1 * np.eye(len(v)) for v in (RNG.standard_normal((k, k)) for k in (d, m, d)))
    mean = RNG.standard_normal(d)
    y[RNG.random(y.shape) < missing] = np.nan
    means, covariances, log_likelihood = apps.kalman_filter(y, f, h, q, r, mean, p)
    total, wanted = 0.0, [[], [], []]
    assert means.shape == (steps, d)
    assert covariances.shape == (steps, d, d)
    for t in range(steps):
        mean, p = f @ mean, f @ p @ f.T + q
        here = ~np.isnan(y[t])
        seen, gap = h[here], y[t][here] - h[here] @ mean
        spread = seen @ p @ seen.T + r[np.ix_(here, here)]
        gain = p @ seen.T @ np.linalg.inv(spread)
        total -= (np.log(np.linalg.det(2 * np.pi * spread)) + gap @ np.linalg.inv(spread) @ gap) / 2
        mean, p = mean + gain @ gap, p - gain @ seen @ p
        for values, value in zip(wanted, (mean, p, total)):
            values.append(value)
    for got, values in zip((means, covariances, log_likelihood), wanted):
        np.testing.assert_allclose(got, np.reshape(values, got.shape), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("far", [0.0, 5e3])
def test_logarithms_far_below_those_of_floats(apps, order, far):
    """The loop in logarithms. A state's start, a switch or an observation may each be as unlikely as no float is."""
    start, switch = np.array([0.0, -800.0]), np.array([[0.0, -900], [-900, 0]]) - far
    seen = np.array([[-900.0, 0], [0, -500], [-3, 0], [0, 0]])
    score, wanted, sums = start + seen[0], [], []
    for t in range(len(seen)):
        if t:
            score = np.logaddexp.reduce(score[:, None] + switch, axis=0) + seen[t]
        sums.append(np.logaddexp.reduce(score))
        wanted.append(np.exp(score - sums[-1]))
    filtered, total = apps.hmm_forward(start, switch, seen, logarithms=True, order=order)
    np.testing.assert_allclose(filtered, wanted, rtol=1e-9)
    np.testing.assert_allclose(total, sums, rtol=1e-12)


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("logarithms", [True, False])
def test_an_observation_of_which_nothing_is_known_makes_no_certainty(apps, order, logarithms):
    likelihood = np.array([[0.5, 0.5], [np.nan, np.nan], [0.5, 0.5]])
    model = [np.array([0.5, 0.5]), np.full((2, 2), 0.5), likelihood]
    given = map(np.log, model) if logarithms else model
    _, total = apps.hmm_forward(*given, logarithms=logarithms, order=order)
    np.testing.assert_allclose(total, [np.log(0.5), np.nan, np.nan], rtol=1e-12)


def test_complex_numbers_keep_their_imaginary_part_nowhere():
    one = np.eye(1)
    for call in (
        lambda: apps.kalman_filter([[1j]], one, one, one, one, [0.0], one),
        lambda: apps.hmm_forward([0.5, 0.5j], np.eye(2), np.ones((3, 2))),
        lambda: apps.hmm_forward([0.5, 0.5], np.eye(2), np.ones((3, 2)) * 1j, logarithms=True),
        lambda: apps.viterbi([0.5, 0.5], np.eye(2) * 1j, np.ones((3, 2))),
    ):
        with pytest.raises(up.DTypeError, match="real numbers, got complex128"):
            call()


def test_inverses_exchange_rows():
    a = np.stack([np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[1e-20, 1.0], [1.0, 1.0]]), np.eye(2) * 4])
    np.testing.assert_allclose(inverse(np, a) @ a, np.stack([np.eye(2)] * 3), atol=1e-12)


def test_shapes_that_do_not_fit_are_refused():
    for call in (apps.hmm_forward, apps.viterbi):
        with pytest.raises(up.ShapeError, match=r"\(T, K\)"):
            call([0.5, 0.5], [[1.0]], [[1.0, 1.0]])
        with pytest.raises(up.ShapeError, match=r"\(T, K\)"):
            call([], np.zeros((0, 0)), np.zeros((3, 0)))
    with pytest.raises(up.ShapeError, match="observation"):
        apps.kalman_filter([[1.0]], [[1.0]], [[1.0, 2.0]], [[1.0]], [[1.0]], [0.0], [[1.0]])
    with pytest.raises(up.ShapeError, match="y must be"):
        apps.kalman_filter([1.0], [[1.0]], [[1.0]], [[1.0]], [[1.0]], [0.0], [[1.0]])
