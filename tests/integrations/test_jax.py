"""JAX: the bits of upsweep inside jit and vmap, gradients of gradients."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
uj = pytest.importorskip("upsweep.jax")
check_grads = pytest.importorskip("jax.test_util").check_grads

BLEND = up.Operator(lambda a, b: a + b + a * b, name="blend")
OPS = ["add", "mul", "max", "logaddexp", BLEND]


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize("keywords", [{}, {"reverse": True}, {"exclusive": True, "initial": 0.25}], ids=str)
def test_jit_gives_the_bits_of_upsweep(op, keywords):
    x = drawn(3, 50)
    got = jax.jit(lambda x: uj.scan(x, op, axis=1, **keywords))(x)
    np.testing.assert_array_equal(np.asarray(got), up.scan(x, op, axis=1, **keywords))


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize("keywords", [{"reverse": True}, {"exclusive": True}], ids=str)
def test_gradients_of_scans(op, keywords):
    x, start = drawn(3, 4), drawn(3, seed=1)
    check_grads(
        lambda x, s: uj.scan(x, op, axis=1, initial=s, **keywords), (x, start), order=2, modes=["rev"]
    )
    if "exclusive" not in keywords:
        check_grads(lambda x: uj.scan(x, op, axis=1, **keywords), (x,), order=1, modes=["rev"])


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_recurrences(reverse):
    a, b, start = drawn(2, 5), drawn(2, 5, seed=1), drawn(2)

    def f(a, b, s):
        return uj.linear_recurrence(a, b, initial=s, axis=1, reverse=reverse)

    check_grads(f, (a, b, start), order=2, modes=["rev"])
    np.testing.assert_array_equal(
        np.asarray(f(a, b, start)), up.linear_recurrence(a, b, initial=start, axis=1, reverse=reverse)
    )


def test_vmap_and_vmap_of_grad():
    x, start = drawn(4, 3, 5), drawn(3)
    got = jax.vmap(lambda x, s: uj.scan(x, "mul", axis=1, initial=s), in_axes=(1, 0))(x, start)
    expected = [up.scan(x[:, i], "mul", axis=1, initial=start[i]) for i in range(3)]
    np.testing.assert_array_equal(np.asarray(got), np.stack(expected))
    rows = x[:, 0]
    got = jax.jit(jax.vmap(jax.grad(lambda r: uj.scan(r, "mul").sum())))(rows)
    expected = jnp.stack([jax.grad(lambda r: uj.scan(r, "mul").sum())(r) for r in rows])
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


def test_tuples_and_promotion():
    a, b = drawn(40), drawn(40, seed=1)
    got = jax.jit(lambda a, b: uj.scan((a, b), "affine"))(a, b)
    for g, e in zip(got, up.scan((a, b), "affine")):
        np.testing.assert_array_equal(np.asarray(g), e)
    assert uj.cumulative_sum(jnp.ones(3, np.int8)).dtype == np.int64
    with pytest.raises(up.ShapeError, match="axis"):
        uj.scan(jnp.ones((2, 2)))
    with pytest.raises(up.ShapeError, match="initial"):
        uj.scan(jnp.ones((2, 3)), axis=1, initial=jnp.ones(3))
