"""JAX, on every device: the bits of upsweep inside jit and vmap, gradients of gradients."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import upsweep as up
from portions import every

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
uj = pytest.importorskip("upsweep.jax")
check_grads = pytest.importorskip("jax.test_util").check_grads

BLEND = up.Operator(lambda a, b: a + b + a * b, name="blend")
OPS = ["add", "mul", "max", "logaddexp", BLEND]


@pytest.fixture(autouse=True)
def place(jax_device, wide):
    """The default device of arrays, with 64 bits allowed."""
    with wide, jax.default_device(jax_device):
        yield jax_device


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def same_bits(got, expected):
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected), strict=True)


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize("keywords", [{}, {"reverse": True}, {"exclusive": True, "initial": 0.25}], ids=str)
def test_jit_gives_the_bits_of_upsweep(place, op, keywords):
    x = drawn(3, 50)

    def f(x):
        return uj.scan(x, op, axis=1, **keywords)

    for got in (f(jnp.asarray(x)), jax.jit(f)(x)):
        assert got.devices() == {place}
        same_bits(got, up.scan(x, op, axis=1, **keywords))


@pytest.mark.parametrize("dtype", every(3, ["bool", "int8", "float16", "bfloat16", "float32", "complex64"]))
def test_every_dtype(dtype):
    x = jnp.asarray(drawn(200) * 10).astype(dtype)
    got = jax.jit(lambda x: uj.scan(x))(x)
    assert got.dtype == x.dtype
    same_bits(got, up.scan(np.asarray(x)))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)], ids=str)
def test_nothing_to_scan(shape):
    assert jax.jit(lambda x: uj.scan(x, axis=0))(jnp.ones(shape)).shape == shape


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize("keywords", [{"reverse": True}, {"exclusive": True}], ids=str)
def test_gradients_of_scans(op, keywords):
    x, start = drawn(3, 4), drawn(3, seed=1)
    check_grads(
        lambda x, s: uj.scan(x, op, axis=1, initial=s, **keywords), (x, start), order=2, modes=["fwd", "rev"]
    )
    if "exclusive" not in keywords:
        check_grads(lambda x: uj.scan(x, op, axis=1, **keywords), (x,), order=1, modes=["fwd", "rev"])


@pytest.mark.dear
@pytest.mark.parametrize("op", ["mul", BLEND], ids=str)
def test_complex_derivatives(op):
    x, start = drawn(2, 3) + 1j * drawn(2, 3, seed=1), drawn(2) + 0.5j
    check_grads(lambda x, s: uj.scan(x, op, axis=1, initial=s), (x, start), order=2)
    check_grads(lambda a, b: uj.linear_recurrence(a, b, axis=1), (x, x[:, ::-1]), order=2)
    with pytest.raises(up.OperatorError, match="holomorphic"):
        jax.jvp(lambda x: uj.scan(x, lambda a, b: a + b.real), (x[0],), (x[0],))


def test_forward_mode_and_hessians_are_those_of_jax():
    x, v = drawn(3), drawn(3, seed=1)
    products, sums = (uj.cumulative_prod, jnp.cumprod), (uj.cumulative_sum, jnp.cumsum)
    for (ours, theirs), transform in (
        (products, lambda f: jax.jvp(f, (x,), (v,))[1]),
        (sums, lambda f: jax.jit(jax.jacfwd(f))(x)),
        (products, lambda f: jax.hessian(lambda x: (f(x) ** 2).sum())(x)),
        (products, lambda f: jax.vmap(jax.jacrev(f))(jnp.stack([x, v]))),
        (sums, lambda f: jax.linearize(f, x)[1](v)),
    ):
        np.testing.assert_allclose(transform(ours), transform(theirs), rtol=1e-13)
    # The gap between equal items has derivatives, though it is 0.
    hessian = jax.hessian(lambda x: uj.cumlogsumexp(x)[-1])(jnp.zeros(2))
    np.testing.assert_allclose(hessian, [[0.25, -0.25], [-0.25, 0.25]], rtol=1e-13)
    # This Jacobian once came out as zeros.
    jacobian = jax.jacfwd(uj.linear_recurrence)(x, v)
    np.testing.assert_allclose(jacobian[:, 1], [0, v[0], v[0] * x[2]], rtol=1e-13)


@pytest.mark.dear
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_recurrences(reverse):
    a, b, start = drawn(2, 5), drawn(2, 5, seed=1), drawn(2)

    def f(a, b, s):
        return uj.linear_recurrence(a, b, initial=s, axis=1, reverse=reverse)

    check_grads(f, (a, b, start), order=2, modes=["fwd", "rev"])
    same_bits(f(a, b, start), up.linear_recurrence(a, b, initial=start, axis=1, reverse=reverse))


def test_no_initial_is_not_zero():
    a, b = np.array([np.nan, 0.5]), np.array([-0.0, 1.0])
    got = uj.linear_recurrence(jnp.asarray(a), jnp.asarray(b))
    same_bits(np.asarray(got).view("i8"), up.linear_recurrence(a, b).view("i8"))


DONES = np.random.default_rng(3).random((3, 40)) < 0.2


@pytest.mark.parametrize("dones", [None, DONES, DONES[0]], ids=["none", "each", "all"])
@pytest.mark.parametrize("initial", [None, 1.5], ids=["from nothing", "from a value"])
def test_returns(dones, initial):
    r = drawn(3, 40)
    r[0, 20] = np.nan if dones is not None else 0.0

    def f(r):
        return uj.discounted_sum(r, 0.9, dones, axis=1, initial=initial)

    expected = up.discounted_sum(r, 0.9, dones, axis=1, initial=initial)
    for got in (f(r), jax.jit(f)(r)):
        same_bits(got, expected)


@pytest.mark.parametrize("order", every(2, [1, 2]))
def test_gradients_of_returns(order):
    dones = DONES[:2, :6].copy()
    dones[0, 2] = True

    def f(r, gamma, last):
        return uj.discounted_sum(r, gamma, dones, axis=1, initial=last)

    check_grads(f, (drawn(2, 6), 0.9 + 0.01 * drawn(2, 1), drawn(2)), order=order, modes=["fwd", "rev"])
    nan = jnp.array([1.0, jnp.nan, 1.0])
    got = jax.grad(lambda r: uj.discounted_sum(r, 0.5, jnp.array([True, False, False]))[0])(nan)
    assert got.tolist() == [1, 0, 0]
    batch = jax.vmap(lambda r, d: uj.discounted_sum(r, 0.9, d))(drawn(2, 6), dones)
    same_bits(batch, up.discounted_sum(drawn(2, 6), 0.9, dones, axis=1))


FILTERS = {
    "scaled": ([0.5, 0.2, 0.1], [2.0, 0.3]),
    "second order": ([1.0, 0.3], [1.0, -0.8, 0.4]),
    "nothing": ([2.0], [0.5]),
}


@pytest.mark.parametrize("filter_", every(3, FILTERS))
def test_filters_and_their_gradients(filter_):
    (b, a), x = FILTERS[filter_], drawn(2, 5, 2)
    order = max(len(b), len(a)) - 1
    zi = drawn(2, order, 1, seed=2)
    same_bits(jax.jit(lambda x: uj.lfilter(b, a, x, 1))(x), up.lfilter(b, a, x, 1))
    for got, expected in zip(uj.lfilter(b, a, x, 1, zi), up.lfilter(b, a, x, 1, zi)):
        same_bits(got, expected)
    b, a = jnp.array(b), jnp.array(a)
    for n in (1, 5):
        check_grads(
            lambda b, a, x, zi: uj.lfilter(b, a, x, 1, zi),
            (b, a, x[:, :n], zi),
            order=1,
            modes=["fwd", "rev"],
        )
    check_grads(lambda b, a, x: uj.lfilter(b, a, x, 1), (b, a, x), order=2, modes=["rev"])
    batch = jax.vmap(lambda b, x: uj.lfilter(b, a, x))(jnp.stack([b, 2 * b]), x[:, :, 0])
    same_bits(batch, np.stack([up.lfilter(k * b, a, x[k - 1, :, 0]) for k in (1, 2)]))
    with pytest.raises(up.ShapeError, match="needs"):
        uj.lfilter(b, a, x, 1, drawn(2, order + 1, 1))


def test_cumulative_sums_with_an_initial():
    x = drawn(3, 4).astype(np.float32)
    for function in ("cumulative_sum", "cumulative_prod"):
        keywords = {"axis": 0, "dtype": np.float64, "include_initial": True}
        same_bits(getattr(uj, function)(x, **keywords), getattr(up, function)(x, **keywords))


def test_vmap_and_vmap_of_grad():
    x, start = drawn(4, 3, 5), drawn(3)
    got = jax.vmap(lambda x, s: uj.scan(x, "mul", axis=1, initial=s), in_axes=(1, 0))(x, start)
    same_bits(got, np.stack([up.scan(x[:, i], "mul", axis=1, initial=start[i]) for i in range(3)]))
    rows = jnp.asarray(x[:, 0])

    def f(row):
        return uj.scan(row, "mul").sum()

    got = jax.jit(jax.vmap(jax.grad(f)))(rows)
    np.testing.assert_allclose(got, jnp.stack([jax.grad(f)(row) for row in rows]), rtol=1e-13)


def test_a_scan_between_what_xla_computes_itself():
    """Work before a scan is finished, and work after it waits."""
    x = drawn(300, 300)

    @jax.jit
    def f(x):
        for _ in range(5):
            x = jnp.tanh(uj.scan(x @ x.T / 300, axis=0))
        return x

    @jax.jit
    def g(x):
        for _ in range(5):
            x = jnp.tanh(jnp.cumsum(x @ x.T / 300, axis=0))
        return x

    np.testing.assert_allclose(f(x), g(x), rtol=1e-9, atol=1e-9)


def test_tuples_and_promotion():
    a, b = drawn(40), drawn(40, seed=1)
    got = jax.jit(lambda a, b: uj.scan((a, b), "affine"))(a, b)
    for g, e in zip(got, up.scan((a, b), "affine")):
        same_bits(g, e)
    assert uj.cumulative_sum(jnp.ones(3, np.int8)).dtype == np.int64
    with pytest.raises(up.ShapeError, match="axis"):
        uj.scan(jnp.ones((2, 2)))
    with pytest.raises(up.OperatorError, match="tuple of 2"):
        jax.jit(lambda x: uj.scan(x, "affine"))(jnp.ones(3))
    with pytest.raises(up.OperatorError, match="identity"):
        uj.scan(jnp.ones(3), lambda a, b: b, exclusive=True)
    with pytest.raises(up.ShapeError, match="initial"):
        uj.scan(jnp.ones((2, 3)), axis=1, initial=jnp.ones(3))


@pytest.mark.parametrize("keywords", [{}, {"axis": 1, "reverse": True}, {"dtype": np.float64}], ids=str)
def test_the_plain_functions_take_jax_arrays(place, keywords):
    x = drawn(30, 7).astype(np.float32)
    keywords = {"axis": 0, **keywords}
    got = up.scan(jnp.asarray(x), **keywords)
    assert got.devices() == {place}
    same_bits(got, up.scan(x, **keywords))


def test_a_tuple_starts_from_as_many_values():
    """A kernel read behind the values that it was given."""
    pair = jnp.ones(3), jnp.ones(3)
    for initial in ((1.0,), (1.0, 2.0, 3.0), 1.0):
        with pytest.raises(up.ShapeError, match="tuple of 2"):
            uj.scan(pair, "affine", initial=initial)
    with pytest.raises(up.ShapeError, match="one shape"):
        uj.scan((pair[0], pair[1][1:]), "affine")
    assert uj.scan(pair, "affine", initial=(1.0, 2.0))[1].tolist() == [3, 4, 5]


def test_a_dtype_that_jax_lacks_is_told(place):
    if place.platform != "cpu":
        pytest.skip("the widths of a GPU's arrays are the CUDA engine's")
    x = jnp.arange(4, dtype=jnp.int8)
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64():
        for call in (
            lambda: up.scan(x, dtype="int64"), lambda: up.reduce(x, dtype="int64"),
            lambda: up.cumulative_sum(x, dtype="float64"),
        ):  # fmt: skip
            with pytest.warns(UserWarning, match="will be truncated"):
                call()
        assert up.cumulative_sum(x, include_initial=True).dtype == jnp.int32
    assert up.scan(x, dtype="int64").dtype == jnp.int64


def test_arrays_on_several_devices_and_deleted_ones():
    run = (
        "import jax, jax.numpy as jnp, upsweep as up\n"
        "over = jax.sharding.NamedSharding(jax.make_mesh((2,), ('d',)), jax.sharding.PartitionSpec('d'))\n"
        "x = jax.device_put(jnp.arange(4.0), over)\n"
        "print(up.scan(x).tolist(), up.ema(x, 0.5).tolist(), up.reduce(x))\n"
        "x.delete()\n"
        "try: up.scan(x)\n"
        "except RuntimeError as error: print(error)\n"
    )
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    told = subprocess.run(
        [sys.executable, "-c", run], capture_output=True, text=True, env=env, check=True
    ).stdout
    assert told.startswith("[0.0, 1.0, 3.0, 6.0] [0.0, 0.5, 1.25, 2.125] 6.0\nArray has been deleted")


OVER_DEVICES = """
import jax, jax.numpy as jnp, upsweep.jax as uj
P, mesh = jax.sharding.PartitionSpec, jax.sharding.Mesh(jax.devices(), ("d",))
x, w = jnp.arange(24.0).reshape(2, 4, 3) / 24, jnp.array([0.5, 0.25, 1.0])
done = jnp.array([False, True, False, False])
calls = {
    "scan": lambda x, w: uj.scan(x * w, "mul", axis=1),
    "scan of a tuple": lambda x, w: uj.scan((x, x * w), "affine", axis=1)[1],
    "recurrence": lambda x, w: uj.linear_recurrence(w, x, axis=1, order="sequential"),
    "adjoint": lambda x, w: uj.linear_recurrence(jnp.broadcast_to(w, x.shape), x, axis=1),
    "discounted": lambda x, w: uj.discounted_sum(x, w, done, axis=1),
    "advantages": lambda x, w: uj.gae(x, x * w, jnp.zeros_like(x[:, 0]), gamma=0.9, lam=0.5, axis=1),
    "filter": lambda x, w: uj.lfilter(w[:2], w[2:], x, axis=1),
    "gated": lambda x, w: uj.rg_lru(x, x, x, w),
    "selective": lambda x, w: uj.selective_scan(x, x, -jnp.ones((3, 1)), x[..., :1], x[..., :1], w),
}
for name, call in calls.items():
    over = {"mesh": mesh, "in_specs": (P("d"), P())}
    mapped = jax.jit(jax.shard_map(call, **over, out_specs=P("d")))
    assert jnp.allclose(mapped(x, w), call(x, w)), name
    if name != "scan of a tuple":
        gradients = [jax.grad(lambda *p: jnp.sin(f(*p)).sum(), (0, 1))(x, w) for f in (mapped, call)]
        assert all(jnp.allclose(a, b, atol=1e-6) for a, b in zip(*gradients)), (name, gradients)
    try:
        jax.shard_map(call, **over, out_specs=P())(x, w)
    except ValueError as error:
        assert "require replication" in str(error), error
    else:
        raise AssertionError(name + " was taken for the same on all devices")
print("all")
"""


@pytest.mark.slow
def test_results_differ_from_device_to_device():
    """One device's result is not given for all; gradients of what is the same on all of them are summed."""
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    # Nothing here hangs on the speed of XLA's code, and compiling it is what takes time.
    env["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "true"
    told = subprocess.run(
        [sys.executable, "-c", OVER_DEVICES], capture_output=True, text=True, env=env, check=False
    )
    assert told.stdout == "all\n", told.stderr


OFFSETS = np.array([0, 2, 2, 5, 7])
SPELLINGS = {
    "offsets": up.segments.offsets(OFFSETS),
    "lengths": up.segments.lengths(np.diff(OFFSETS)),
    "ends": up.segments.ends(np.array([0, 1, 0, 0, 1, 0, 1])),
    "strings": up.segments.keys(list("aabbbaa")),
    "each row": up.segments.flags(np.array([[1, 0, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0, 1]])),
}


@pytest.mark.dear
@pytest.mark.parametrize("spelling", every(2, SPELLINGS))
def test_segments(spelling):
    a, x = drawn(2, 7), drawn(2, 7, seed=1)
    keywords = {"axis": 1, "segments": SPELLINGS[spelling]}
    same_bits(uj.scan(x, "mul", initial=0.5, **keywords), up.scan(x, "mul", initial=0.5, **keywords))
    got = uj.linear_recurrence(a, x, initial=2.0, reverse=True, **keywords)
    same_bits(got, up.linear_recurrence(a, x, initial=2.0, reverse=True, **keywords))
    same_bits(uj.ema(x, 0.3, **keywords), up.ema(x, 0.3, **keywords))
    if spelling != "strings":
        kind, values = SPELLINGS[spelling].spelling, SPELLINGS[spelling].values
        traced = jax.jit(lambda x, s: uj.cummax(x, axis=1, segments=up.segments.Segments(kind, s)))
        same_bits(traced(x, values), up.scan(x, "max", **keywords))
    if spelling in ("offsets", "each row"):
        check_grads(
            lambda x, s: uj.scan(x, "mul", exclusive=True, initial=s, **keywords), (x, drawn(2)), order=1
        )
        check_grads(
            lambda *p: uj.linear_recurrence(p[0], p[1], initial=p[2], **keywords), (a, x, drawn(2)), order=1
        )


def test_averages_and_advantages_are_those_of_upsweep():
    x, times = drawn(2, 7), np.array([0.0, 1, 3, 3, 8, 9, 10])
    got = uj.ema(x, halflife=2.0, times=times, axis=1)
    np.testing.assert_allclose(got, up.ema(x, halflife=2.0, times=times, axis=1), rtol=1e-14)
    half = x.astype(np.float16)
    same_bits(uj.ema(half, 0.3, axis=1), up.ema(half, 0.3, axis=1))


@pytest.mark.parametrize("order", every(2, ["tree", "sequential"]))
def test_advantages(order):
    """In one scan each way; of all that has gradients, and of each by itself: what nobody wants is not computed."""
    ended, cut = DONES[:2, :7].copy(), DONES[1, 5:12]
    ended[:, -1] = [True, False]
    how = {"gamma": 0.9, "lam": 0.8, "axis": 1, "order": order}

    def one(module, r, v, last):
        return module.gae(r, v, last, ended, **how)

    def every(module, r, v, after):
        return module.gae(r, v, dones=ended, truncated=cut, next_values=after, **how)

    for f, shape in ((one, (2,)), (every, (2, 7))):
        xs = drawn(2, 7), drawn(2, 7, seed=1), drawn(*shape, seed=2)
        halves = [x.astype(np.float16) for x in xs]
        for given in (xs, halves):
            same_bits(jax.jit(f, static_argnums=0)(uj, *given), f(up, *given))
        check_grads(lambda *xs, f=f: f(uj, *xs), xs, order=1, modes=["fwd", "rev"])

        def loss(*xs, f=f):
            return (f(uj, *xs) ** 2).sum()

        slopes = jax.grad(loss, (0, 1, 2))(*xs)
        # The slopes of a square are linear.
        for got, slope in zip(jax.jvp(jax.grad(loss, (0, 1, 2)), tuple(2 * x for x in xs), xs)[1], slopes):
            np.testing.assert_allclose(got, slope, rtol=1e-12)
        for some in ((0,), (1,), (2,), (0, 2)):
            for got, i in zip(jax.grad(loss, some)(*xs), some):
                np.testing.assert_allclose(got, slopes[i], rtol=1e-13)
        batch = jax.vmap(jax.grad(loss, (0, 1, 2)), in_axes=(0, None, 0))
        for got, slope in zip(batch(jnp.stack([xs[0]] * 2), xs[1], jnp.stack([xs[2]] * 2)), slopes):
            np.testing.assert_allclose(got[1], slope, rtol=1e-13)
    traced = jax.value_and_grad(lambda gamma: uj.gae(*xs[:2], 0.5, gamma=gamma, lam=0.8, axis=1).sum())
    value, slope = traced(0.9)
    np.testing.assert_allclose(value, up.gae(*xs[:2], 0.5, gamma=0.9, lam=0.8, axis=1).sum(), rtol=1e-13)
    np.testing.assert_allclose(slope, (traced(0.9 + 1e-6)[0] - traced(0.9 - 1e-6)[0]) / 2e-6, rtol=1e-6)
    with pytest.raises(up.ShapeError, match="rewards"):
        uj.gae(xs[0][:, :5], xs[1], 0.0, **how)


def test_numbers_that_a_dtype_does_not_hold_are_refused():
    whole, x = jnp.array([1, 2, 3]), jnp.ones(3)
    for call in (
        lambda: uj.linear_recurrence(0.5, whole), lambda: uj.linear_recurrence(0.5j, x),
        lambda: uj.scan(whole, "min", initial=np.inf), lambda: uj.scan(whole, initial=jnp.array(0.5)),
    ):  # fmt: skip
        with pytest.raises(up.DTypeError, match="convert"):
            call()
    small = jnp.ones((1, 2), jnp.uint8)
    with pytest.raises(up.DTypeError, match="convert"):
        uj.scan(small, axis=1, initial=np.array([-1]))
    with pytest.raises(up.DTypeError, match="convert"):
        uj.scan(x.astype(jnp.float32), initial=1e300)
    assert uj.scan(small, axis=1, initial=np.array([7])).tolist() == [[8, 9]]
    assert uj.scan(whole, initial=jnp.array(2.0)).tolist() == [3, 5, 8]
    assert uj.linear_recurrence(2.0, whole).tolist() == [1, 4, 11]


@pytest.mark.dear
@pytest.mark.parametrize("reverse", [False, True])
def test_one_result_a_segment(reverse):
    x = np.random.default_rng(2).normal(size=(20, 3)).astype("f4")
    for segments in (up.segments.lengths([3, 0, 17]), up.segments.keys(np.arange(20) // 7)):
        how = {"axis": 0, "reverse": reverse, "segments": segments}
        np.testing.assert_array_equal(
            uj.reduce(jnp.asarray(x), "max", initial=0.5, **how), up.reduce(x, "max", initial=0.5, **how)
        )
        np.testing.assert_array_equal(uj.reduce(jnp.asarray(x), **how), up.reduce(x, **how))

    def traced(x, ends):
        return uj.reduce(x, axis=0, segments=up.segments.offsets(ends))

    want = up.reduce(x, axis=0, segments=up.segments.lengths([3, 0, 17]))
    np.testing.assert_array_equal(jax.jit(traced)(x, jnp.array([0, 3, 3, 20])), want)
    slopes = jax.grad(lambda x: traced(x, jnp.array([0, 3, 3, 20]))[2].sum())(jnp.asarray(x))
    np.testing.assert_array_equal(slopes, np.broadcast_to(np.arange(20)[:, None] >= 3, x.shape))
    with pytest.raises(up.ShapeError, match="number of segments"):
        jax.jit(lambda x, k: uj.reduce(x, axis=0, segments=up.segments.keys(k)))(x, jnp.arange(20))
    np.testing.assert_array_equal(uj.reduce(jnp.asarray(x), axis=0), up.reduce(x, axis=0))
    assert uj.reduce(jnp.ones((0, 2)), axis=0).tolist() == [0, 0]
    nothing = uj.reduce(jnp.ones((0, 2)), "max", axis=0, initial=0.5, segments=up.segments.lengths([0, 0, 0]))
    assert nothing.tolist() == [[0.5, 0.5]] * 3


def test_every_function_takes_the_loops_order():
    rng = np.random.default_rng(5)
    x, a = (rng.random((3, 50, 4), np.float32) for _ in range(2))
    how = {"axis": 1, "order": "sequential"}
    want = np.cumsum(x, 1)
    assert (np.asarray(uj.scan(x, **how)) == want).all()
    assert (np.asarray(uj.cumulative_sum(x, **how)) == want).all()
    h = up.linear_recurrence(a, x, **how)
    assert (h != up.linear_recurrence(a, x, axis=1)).any()
    assert (np.asarray(jax.jit(lambda a, x: uj.linear_recurrence(a, x, **how))(a, x)) == h).all()
    assert (np.asarray(uj.scan((jnp.asarray(a), jnp.asarray(x)), "affine", **how)[1]) == h).all()
    weights = np.full_like(x, 0.5)
    returns = up.linear_recurrence(weights, x, reverse=True, **how)
    assert (np.asarray(uj.discounted_sum(x, 0.5, **how)) == returns).all()
    assert (np.asarray(uj.gae(x, jnp.zeros_like(x), 0.0, gamma=1.0, lam=0.5, **how)) == returns).all()
    g = jax.grad(lambda x: uj.cumulative_sum(x, **how).sum())(x)
    assert (np.asarray(g) == np.arange(50, 0, -1)[:, None]).all()
