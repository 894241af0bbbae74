"""`up.x` works on any array: what no engine may read as it is goes to the module for its library."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import upsweep as up
from portions import every
from upsweep import recall

X = np.random.default_rng(0).normal(size=(5, 12))
FLAGS = up.segments.flags(np.random.default_rng(1).random(12) < 0.3)
CALLS = {
    "scan": lambda x: up.scan(x, "max", axis=1, segments=FLAGS),
    "reduce": lambda x: up.reduce(x, axis=1, reverse=True, initial=2.0),
    "segments": lambda x: up.reduce(x, axis=1, segments=up.segments.lengths([3, 0, 9])),
    "cumulative_sum": lambda x: up.cumulative_sum(x, axis=1, include_initial=True),
    "cumulative_prod": lambda x: up.cumulative_prod(x, axis=0),
    "cummax": lambda x: up.cummax(x, axis=0, reverse=True),
    "cummin": lambda x: up.cummin(x, axis=-1),
    "cumlogsumexp": lambda x: up.cumlogsumexp(x, axis=1, segments=FLAGS),
    "linear_recurrence": lambda x: up.linear_recurrence(0.5, x, axis=1, initial=np.arange(5.0)),
    "ema": lambda x: up.ema(x, 0.25, axis=1, segments=FLAGS),
    "halflife": lambda x: up.ema(x, halflife=2.0, times=np.arange(12.0) ** 2, axis=1),
    "discounted_sum": lambda x: up.discounted_sum(x, 0.5, FLAGS.values, axis=1, initial=3.0),
}


@pytest.mark.parametrize("name", every(2, CALLS))
def test_a_dask_array_stays_lazy(name):
    da = pytest.importorskip("dask.array")

    def fail(block):
        raise AssertionError("a chunk was loaded")

    call = CALLS[name]
    lazy = call(da.from_array(X, chunks=(3, 5)).map_blocks(fail, dtype=X.dtype, meta=np.empty((0, 0))))
    assert isinstance(lazy, da.Array)
    got = call(da.from_array(X, chunks=(3, 5)))
    np.testing.assert_array_equal(got.compute(), call(X), strict=True)
    assert got.dtype == call(X).dtype
    narrow = X.astype(np.float16)
    np.testing.assert_array_equal(
        call(da.from_array(narrow, chunks=(3, 5))).compute(), call(narrow), strict=True
    )


@pytest.mark.parametrize("library", ["dask", "torch", "jax"])
def test_weights_of_times_have_the_digits_of_the_values(library):
    times = np.arange(12, dtype=np.float64) ** 2
    if library == "dask":
        da = pytest.importorskip("dask.array")
        x, t = da.from_array(X, chunks=(3, 5)), da.from_array(times.astype(np.float32), chunks=5)
    elif library == "torch":
        torch = pytest.importorskip("torch")
        x, t = torch.tensor(X, requires_grad=True), torch.tensor(times, dtype=torch.float32)
    else:
        jax = pytest.importorskip("jax")
        x, t = jax.numpy.asarray(X.astype(np.float32)), jax.numpy.asarray(times.astype(np.float16))
        times = times.astype(np.float32)
    there = import_module(f"upsweep.{library}")
    got, want = (there.ema(x, halflife=3.3, times=t, axis=1) for t in (t, times))
    np.testing.assert_array_equal(*(np.asarray(y.detach() if library == "torch" else y) for y in (got, want)))


@pytest.mark.parametrize("name", every(2, [*CALLS, "gae", "lfilter"]))
def test_gradients_flow(name):
    torch = pytest.importorskip("torch")
    call = {
        "gae": lambda x: up.gae(np.ones(X.shape), x, 0.0, gamma=0.9, lam=0.8, axis=1),
        "lfilter": lambda x: up.lfilter([1.0], [1.0, -0.5], x),
    }.get(name) or CALLS[name]
    x = torch.tensor(X, requires_grad=True)
    y = call(x)
    np.testing.assert_array_equal(y.detach(), call(torch.tensor(X)))
    assert torch.autograd.gradcheck(call, (x,))


@pytest.mark.filterwarnings("ignore:.*jit.script:DeprecationWarning")
def test_a_tangent_is_not_lost_where_the_call_is_remembered():
    torch = pytest.importorskip("torch")
    x = torch.tensor(X[0])
    for _ in range(2):
        up.scan(x)
    _, tangent = torch.func.jvp(up.scan, (x,), (x,))
    np.testing.assert_array_equal(tangent, up.scan(X[0]))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        tangent = torch.autograd.forward_ad.unpack_dual(up.scan(dual)).tangent
    np.testing.assert_array_equal(tangent, up.scan(X[0]))
    np.testing.assert_array_equal(torch.vmap(up.scan)(torch.tensor(X)), up.scan(X, axis=1))


def test_a_tensor_of_another_class_is_one():
    torch = pytest.importorskip("torch")

    class Image(torch.Tensor):
        pass

    image = torch.tensor(X).as_subclass(Image)
    np.testing.assert_array_equal(np.asarray(up.scan(image, axis=0)), up.scan(X, axis=0))
    assert type(up.scan(image, axis=0)) is torch.Tensor
    assert type(import_module("upsweep.torch").scan(image, axis=0)) is Image
    followed = up.scan(image.clone().requires_grad_(), axis=0)
    assert followed.requires_grad
    assert type(followed) is Image


@pytest.mark.parametrize("name", every(2, [*CALLS, "lfilter"]))
def test_jax_traces(name):
    jax = pytest.importorskip("jax")
    call = CALLS.get(name, lambda x: up.lfilter([1.0], [1.0, -0.5], x))
    x = jax.numpy.asarray(X)
    np.testing.assert_allclose(jax.jit(call)(x), call(x), rtol=2e-6)
    assert np.isfinite(jax.grad(lambda x: call(x).sum())(x)).all()


def test_tensors_without_memory_have_shapes():
    torch = pytest.importorskip("torch")
    with torch._subclasses.FakeTensorMode():
        fake = torch.ones(2, 3)
        made = up.scan(fake, axis=1), up.scan(torch.ones(2, 3, device="meta"), axis=1)
    assert [(type(y), tuple(y.shape), y.device.type) for y in made] == [
        (type(fake), (2, 3), "cpu"),
        (type(fake), (2, 3), "meta"),
    ]
    assert up.linear_recurrence(0.5, torch.ones(2, 3, device="meta"), axis=1).is_meta
    with pytest.raises(up.EngineError, match="to_dense"):
        up.scan(torch.eye(3).to_sparse(), axis=1)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    "write",
    [
        lambda y: up.scan(y, out=y),
        lambda y: up.linear_recurrence(0.5, y, out=y),
        lambda y: up.prepared(y.clone(), out=y.clone())(y.clone(), y),
    ],
)
def test_a_gradient_does_not_go_on_with_what_out_has_overwritten(write, again):
    torch = pytest.importorskip("torch")
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    for _ in range(1 + again):
        write(y.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    with torch.inference_mode():
        write(torch.ones(3))


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_pytorchs_compiler_goes_around():
    """It follows arrays of NumPy too, and took their addresses for values of its own."""
    torch = pytest.importorskip("torch")
    x, held, stream = torch.tensor(X[0], dtype=torch.float32), X[0], up.Stream("add")
    prepared, needs = up.prepared(torch.zeros(12), "max"), x.clone().requires_grad_()

    def several(x, held):
        return up.scan(x, "max") + 1, up.ema(x, 0.5), stream.push(x), prepared(x), up.scan(held)

    wanted = several(x, held)
    for known in (True, False):
        if not known:
            recall.forget()
            torch._dynamo.reset()
        stream = up.Stream("add")
        for y, w in zip(torch.compile(several, backend="eager")(x, held), wanted, strict=True):
            np.testing.assert_array_equal(y, w)
    torch.compile(lambda x: up.scan(x) * 2, backend="eager")(needs).sum().backward()
    assert needs.grad.tolist() == [2.0 * k for k in range(12, 0, -1)]


def test_pytorchs_compiler_goes_around_applications_and_lists():
    """It looks into a call without tensors, frame by frame, and knows no `frombuffer`, no views of bytes and no addresses."""
    torch = pytest.importorskip("torch")
    apps, x = up.apps, torch.tensor([3, 1, 2, 1])
    lexer, packed = apps.json_lexer(), apps.compress(np.arange(9))

    def several(x):
        kinds, starts, _ = apps.tokenize(b'{"a": 1}', lexer)
        return apps.argsort(x), *apps.radix_sort(x, x), kinds, starts, apps.decompress(packed)

    wanted = several(x)
    for y, w in zip(torch.compile(several, backend="eager")(x), wanted, strict=True):
        np.testing.assert_array_equal(y, w)
    assert torch.compile(lambda: apps.decompress(packed), backend="eager")().tolist() == [*range(9)]
    beside = torch.compile(lambda x: x * up.linear_recurrence([0.5, 0.5], [1.0, 2.0])[1], backend="eager")
    assert beside(x).tolist() == [7.5, 2.5, 5.0, 2.5]
    assert torch.compile(lambda n: up.scan([3, 1, n]), backend="eager")(7).tolist() == [3, 4, 11]


def test_what_a_home_cannot_do_is_said():
    da, torch = pytest.importorskip("dask.array"), pytest.importorskip("torch")
    x, t = da.from_array(X[0], chunks=5), torch.tensor(X[0], requires_grad=True)
    with pytest.raises(up.EngineError, match=r"upsweep\.dask\.scan.* takes no out, order: .*x\.compute"):
        up.scan(x, order="sequential", out=X[0])
    with pytest.raises(up.EngineError, match=r"upsweep\.torch\.scan.* takes no map: .*x\.detach"):
        up.scan(t, map=abs)
    with pytest.raises(
        up.EngineError, match=r"an array in chunks is scanned by upsweep\.dask alone.*x\.compute"
    ):
        up.gae(x, x, 0.0, gamma=0.9, lam=0.9)
    with pytest.raises(
        up.EngineError, match=r"a tensor with derivatives .* is scanned by upsweep\.torch alone.*x\.detach"
    ) as told:
        up.Stream("add").push(t)
    # A pool of processes would wait for ever for an error that cannot be unpickled.
    assert str(pickle.loads(pickle.dumps(told.value))) == str(told.value)
    with pytest.raises(up.SegmentError, match="booleans"):
        up.scan(x, segments=up.segments.flags(x))


def test_segments_of_dask_beside_an_array_in_memory():
    da = pytest.importorskip("dask.array")
    flags = da.from_array(FLAGS.values, chunks=5)
    for told, held in ((up.segments.flags, FLAGS.values), (up.segments.ends, FLAGS.values)):
        got = up.scan(X, axis=1, segments=told(flags))
        np.testing.assert_array_equal(got.compute(), up.scan(X, axis=1, segments=told(held)))


def test_nothing_is_imported_for_arrays_in_memory():
    run = "import sys, numpy as np, upsweep as up; up.ema(up.scan(np.ones(3)), .5); print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", run], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"dask", "torch", "jax", "pandas"} & set(told)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_where_no_gradients_are_recorded_nothing_follows_a_tensor(dtype):
    """Also in a call like one before, on either side of `no_grad`."""
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 3, dtype=getattr(torch, dtype), requires_grad=True)
    into, version = torch.zeros_like(x).requires_grad_(), 0
    for _ in range(2):
        with torch.no_grad():
            made = up.scan(x, axis=1), up.scan(torch.nn.Parameter(x), axis=1), up.scan(x, axis=1, out=into)
        assert [y.requires_grad for y in made] == [False, False, True]
        assert all(y.tolist() == [[1, 2, 3]] * 2 for y in made)
        assert made[2] is into
        assert into._version > version
        version = into._version
        assert up.scan(x, axis=1).requires_grad
        with pytest.raises(up.EngineError, match="out"):
            up.scan(x, axis=1, out=into)


@pytest.mark.parametrize("library", ["torch", "jax", "dask"])
def test_a_librarys_own_name_is_answered_with_ours(library):
    """Python itself suggests the name that is spelt most alike: cummax for cumsum."""
    pytest.importorskip(library)
    module = import_module(f"upsweep.{library}")
    with pytest.raises(
        AttributeError, match=f"'upsweep.{library}' has no attribute 'cumsum': it is 'cumulative_sum' here"
    ):
        module.cumsum  # noqa: B018
