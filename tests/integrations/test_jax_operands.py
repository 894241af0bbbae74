"""What goes beside an array of JAX: other dtypes, numbers that do not fit, flags, keys."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up

jax = pytest.importorskip("jax")
uj = pytest.importorskip("upsweep.jax")
jnp = jax.numpy

X = jnp.array([4.0, 8.0, 8.0, 2.0, 1.0])


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("spread", [(), (1,), (400,)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_multiplier_keeps_its_digits_beside_half_precision(dtype, spread, order):
    a, b = jnp.full(spread, 0.9995, jnp.float32), jnp.ones(400, dtype)
    got = jax.jit(lambda a, b: uj.linear_recurrence(a, b, order=order))(a, b)
    wide = uj.linear_recurrence(a, b.astype(jnp.float32), order=order)
    assert got.dtype == b.dtype
    np.testing.assert_array_equal(got, wide.astype(dtype))
    np.testing.assert_array_equal(uj.discounted_sum(b[::-1], a, order=order)[::-1], got)
    if spread == (400,):
        np.testing.assert_array_equal(got, up.linear_recurrence(np.asarray(a), np.asarray(b), order=order))
        np.testing.assert_array_equal(got, uj.linear_recurrence(np.asarray(a), b, order=order))


@pytest.mark.dear
@pytest.mark.parametrize(
    "segments", [None, up.segments.flags(np.arange(9) % 4 == 0)], ids=["whole", "segments"]
)
@pytest.mark.parametrize(
    ("shape", "order"), [((2, 9), "tree"), ((2, 1), "sequential"), ((), "tree")], ids=str
)
def test_derivatives_beside_half_precision(shape, order, segments):
    rng = np.random.default_rng(0)
    a, b = jnp.asarray(rng.random(shape), jnp.float32), jnp.asarray(rng.normal(size=(2, 9)), jnp.bfloat16)
    given = a, b, jnp.ones(2, jnp.float32)

    def total(a, b, start):
        h = uj.linear_recurrence(a, b, initial=start, axis=1, segments=segments, order=order)
        return (h.astype(jnp.float32) ** 2).sum()

    got = jax.grad(total, (0, 1, 2))(*given)
    for d, w, x in zip(got, jax.grad(total, (0, 1, 2))(a, b.astype(jnp.float32), given[2]), given):
        assert (d.dtype, d.shape) == (x.dtype, x.shape)
        np.testing.assert_allclose(np.asarray(d, float), w, rtol=0.03, atol=0.1)
    moved = jax.jvp(total, given, given)[1]
    np.testing.assert_allclose(moved, sum((d.astype(float) * x).sum() for d, x in zip(got, given)), rtol=0.03)
    if not shape:
        assert jnp.isfinite(jax.hessian(total)(*given))


def test_what_a_dtype_does_not_hold_is_refused():
    small, whole = jnp.ones(3, jnp.int8), jnp.arange(3)
    for call in (
        lambda: uj.scan(small, initial=jnp.array(300)), lambda: uj.scan(small[None], axis=1, initial=jnp.array([-129])),
        lambda: uj.ema(X, 0.5 + 0.5j), lambda: uj.ema(X, jnp.array(0.5 + 0.5j)), lambda: uj.ema(X, np.array([0.5j])),
        lambda: uj.discounted_sum(X, 0.5j), lambda: uj.discounted_sum(X, jnp.array(0.5j)),
        lambda: uj.gae(X, X, 0.0, gamma=jnp.array(0.5j), lam=0.5), lambda: uj.gae(X, X, 0.0, gamma=0.5, lam=jnp.array(0.5j)),
        lambda: uj.linear_recurrence(jnp.full(5, 0.5j), X), lambda: uj.scan(whole, initial=jnp.array([0.5])[0]),
    ):  # fmt: skip
        with pytest.raises(up.DTypeError, match="convert"):
            call()
    assert uj.scan(small, initial=jnp.array(7)).tolist() == [8, 9, 10]
    assert jax.jit(lambda start: uj.scan(small, initial=start))(jnp.array(7)).tolist() == [8, 9, 10]


def test_complex_coefficients_make_a_filter_complex():
    for b, a, more in (
        ([1j], [1.0, -0.5], {}), (np.array([1j]), [1.0, -0.5], {}), ([1.0], np.array([1.0, -0.5j]), {}),
        ([1.0], [1.0, -0.5], {"zi": np.array([1j])}),
    ):  # fmt: skip
        got, wanted = uj.lfilter(b, a, X, **more), up.lfilter(b, a, np.asarray(X), **more)
        for y, w in zip(got, wanted) if more else ((got, wanted),):
            assert y.dtype == jnp.result_type(X, jnp.complex64)
            np.testing.assert_allclose(y, w, rtol=1e-6)


def test_flags_of_one_item_do_not_hold_for_all():
    x = jnp.ones((3, 5))
    for dones in (jnp.array([True]), jnp.ones((3, 1), bool), jnp.ones((1, 5), bool), np.ones((5, 3), bool)):
        with pytest.raises(up.ShapeError, match=r"pass 5 of them, or the data's shape \(3, 5\)"):
            uj.discounted_sum(x, 0.5, dones, axis=1)
        with pytest.raises(up.ShapeError, match="flags have shape"):
            uj.gae(x, x, 0.0, dones, gamma=0.5, lam=0.5, axis=1)
    flags, x = jnp.array([0, 1, 0, 0, 1], bool), jnp.arange(15.0).reshape(3, 5)
    got = uj.gae(x, x, 0.5, flags, gamma=jnp.array(0.5), lam=0.75, axis=1)
    np.testing.assert_allclose(got, uj.gae(x, x, 0.5, flags, gamma=0.5, lam=0.75, axis=1), rtol=1e-6)


def test_keys_of_random_numbers_are_no_numbers():
    keys = jax.random.split(jax.random.key(0), 3)
    for call in (
        uj.scan, uj.reduce, uj.cumulative_sum, uj.cummax, lambda x: uj.ema(x, 0.5), lambda x: uj.linear_recurrence(1, x),
        lambda x: uj.scan((x, x), "affine"), lambda x: uj.gae(x, x, 0.0, gamma=0.5, lam=0.5),
        lambda x: uj.lfilter([1.0], [1.0], x), jax.jit(lambda x: uj.scan(x)),
    ):  # fmt: skip
        with pytest.raises(up.DTypeError, match="key_data"):
            call(keys)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_value_behind_an_end_does_not_reach_the_gradients_of_discounts(bad):
    def total(weights):
        return uj.discounted_sum(jnp.ones(3), weights, [True, False, True], initial=bad).sum()

    assert jax.grad(total)(jnp.full(3, 0.5)).tolist() == [0.0, 1.0, 0.0]


def test_dtypes_without_a_common_one_and_discounts_that_are_no_numbers_are_refused():
    x = jnp.ones(3)
    with pytest.raises(up.DTypeError, match="no dtype for float32 and float8_e5m2 together"):
        uj.gae(x, x.astype(jnp.float8_e5m2), 0.0, gamma=0.5, lam=0.5)
    with pytest.raises(up.DTypeError, match="gamma='a' is no value of float64"):
        uj.gae(x, x, 0.0, gamma="a", lam=0.5)
