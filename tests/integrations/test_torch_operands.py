"""What goes beside a tensor: arrays of NumPy, lists, dates, other dtypes, other devices, and tensors that are no plain memory."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import upsweep as up

torch = pytest.importorskip("torch")
ut = pytest.importorskip("upsweep.torch")
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

X = np.array([4.0, 8.0, 8.0, 2.0, 1.0], np.float32)
DATES = np.datetime64("2024-01-01", "ms") + np.array([0, 1, 3, 3, 4]) * np.timedelta64(1000, "ms")
SECOND = np.timedelta64(1, "s")


@pytest.mark.parametrize(
    ("times", "halflife"),
    [
        (DATES, SECOND),
        ([0, 1, 3, 3, 4], 1.0),
        (None, np.ones(5)),
        (None, 2.0),
        (np.arange(5.0)[::-1] * -1, np.ones(1)),
    ],
)
def test_averages_by_times_that_are_no_tensors_have_upsweeps_bits(times, halflife):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = ut.ema(torch.tensor(X, requires_grad=True), halflife=halflife, times=times)
    np.testing.assert_array_equal(got.detach(), up.ema(X, halflife=halflife, times=times), strict=True)
    followed = up.ema(torch.tensor(X, requires_grad=True), halflife=halflife, times=times)
    assert torch.equal(got, followed)


def test_times_beside_a_halflife_of_another_library():
    wanted = up.ema(X, halflife=2.0, times=[0, 1, 3, 3, 4])
    times = torch.tensor([0.0, 1, 3, 3, 4], dtype=torch.float64)
    for given in (
        {"times": times, "halflife": np.full(5, 2.0)},
        {"times": times.numpy(), "halflife": torch.tensor(2.0)},
    ):
        np.testing.assert_allclose(ut.ema(torch.tensor(X), **given), wanted, rtol=1e-6)
    for given in ({"times": DATES, "halflife": torch.ones(5)}, {"times": DATES, "halflife": 1.0}):
        with pytest.raises(up.DTypeError, match=r"no tensors of datetime64|do not go with halflife"):
            ut.ema(torch.tensor(X), **given)


BACKWARDS, FIXED = X[::-1], X.copy()
FIXED.flags.writeable = False


@pytest.mark.parametrize(
    "x", [X.tolist(), BACKWARDS, FIXED, X.astype(">f4")], ids=["list", "backwards", "fixed", "endian"]
)
def test_every_function_takes_arrays_of_the_host(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in (
            "cumulative_sum",
            "cumulative_prod",
            "cummax",
            "cummin",
            "cumlogsumexp",
            "scan",
            "reduce",
        ):
            got, wanted = getattr(ut, name)(x), getattr(up, name)(np.asarray(x, np.float32))
            np.testing.assert_allclose(got, wanted, rtol=1e-6, err_msg=name)
        beside = torch.ones(5)
        assert torch.equal(
            ut.linear_recurrence(x, beside), ut.linear_recurrence(torch.tensor(np.array(x, "f4")), beside)
        )
        assert ut.gae(x, beside, 0.0, gamma=0.5, lam=1.0).shape == (5,)
    with pytest.raises(up.EngineError, match="mask"):
        ut.scan(np.ma.array([1.0, 2.0], mask=[0, 1]))
    with pytest.raises(up.DTypeError, match="no tensors of"):
        ut.cumulative_sum(np.array(["a"]))


@pytest.mark.parametrize(
    "run",
    [
        lambda x, a, _: ut.linear_recurrence(a, x, initial=0.0),
        lambda x, a, _: ut.ema(x, a),
        lambda x, _, flags: ut.scan(x, "mul", segments=up.segments.flags(flags)),
        lambda x, _, flags: ut.discounted_sum(x, 0.5, flags),
        lambda x, _, flags: ut.gae(x, x, 0.0, flags, gamma=0.5, lam=1.0),
    ],
    ids=["multiplier", "weight", "flags", "dones", "advantages"],
)
def test_a_gradient_does_not_see_what_is_written_to_an_array_of_numpy(run):
    """As to a buffer of flags, which PyTorch does not watch."""
    x, a, flags = torch.tensor(X, requires_grad=True), X.copy(), np.array([1, 0, 0, 1, 0], bool)
    (wanted,) = torch.autograd.grad(run(x, a, flags).sum(), x)
    y = run(x, a, flags)
    a[...], flags[...] = 0.5, ~flags
    (got,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(got, wanted)


def test_a_state_of_a_filter_is_taken_from_the_host():
    x, zi = torch.tensor(X), np.array([0.5], np.float32)
    wanted = ut.lfilter([1.0], [1.0, -0.5], x, zi=torch.tensor(zi))
    for given in (zi, [0.5]):
        for got, part in zip(ut.lfilter([1.0], [1.0, -0.5], x, zi=given), wanted):
            assert torch.equal(got, part)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_complex_coefficients_make_a_filter_complex(dtype):
    x = torch.tensor([4, 8, 8, 2, 1], dtype=dtype)
    for b, a in (([1j], [1.0, -0.5]), (np.array([1j]), [1.0, -0.5]), ([1.0], np.array([1.0, -0.5j]))):
        got = ut.lfilter(b, a, x)
        assert got.dtype == (torch.complex64 if dtype == torch.float32 else torch.complex128)
        np.testing.assert_allclose(got, up.lfilter(b, a, x.numpy()), rtol=1e-6)


def test_what_a_dtype_does_not_hold_is_refused_also_in_tensors():
    small, x = torch.ones(3, dtype=torch.int8), torch.tensor(X)
    huge = torch.tensor(1e300, dtype=torch.float64)
    for call in (
        lambda: ut.scan(small, initial=torch.tensor(300)), lambda: ut.scan(x, initial=huge), lambda: ut.ema(x, huge),
        lambda: ut.scan(x, initial=np.array(1e300)), lambda: ut.scan(torch.ones(3, 5), axis=0, initial=huge.expand(5)),
        lambda: ut.ema(x, torch.tensor(0.5 + 0.5j)), lambda: ut.discounted_sum(x, 0.5, initial=huge.requires_grad_()),
    ):  # fmt: skip
        with pytest.raises(up.DTypeError, match="convert"):
            call()
    assert ut.scan(small, initial=torch.tensor(7)).tolist() == [8, 9, 10]
    assert ut.scan(x, "max", initial=torch.tensor(float("nan"), dtype=torch.float64)).isnan().all()
    rows = torch.vmap(lambda start: ut.scan(small, initial=start))(torch.tensor([7, 8]))
    assert rows.tolist() == [[8, 9, 10], [9, 10, 11]]


def test_flags_of_one_item_do_not_hold_for_all():
    x = torch.ones(3, 5)
    for dones in (
        torch.tensor([True]),
        torch.ones(3, 1).bool(),
        torch.ones(1, 5).bool(),
        np.ones((5, 3), bool),
    ):
        with pytest.raises(up.ShapeError, match=r"pass 5 of them, or the data's shape \(3, 5\)"):
            ut.discounted_sum(x, 0.5, dones, axis=1)
        with pytest.raises(up.ShapeError, match="flags have shape"):
            ut.gae(x, x, 0.0, dones, gamma=0.5, lam=0.5, axis=1)


def test_one_flag_a_step_where_gamma_is_a_tensor():
    x, dones = torch.arange(10.0).reshape(2, 5), torch.tensor([False, True, False, False, True])
    got = ut.gae(x, x, 0.5, dones, gamma=torch.tensor(0.5), lam=0.75, axis=1)
    torch.testing.assert_close(got, ut.gae(x, x, 0.5, dones, gamma=0.5, lam=0.75, axis=1))


def test_tensors_that_are_no_plain_memory_are_refused():
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        levels = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
        strided = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for x, says in (
        (ragged, r"x\.values\(\)"),
        (strided, r"torch\.jagged"),
        (levels, r"x\.dequantize"),
        (torch.eye(3).to_sparse(), r"x\.to_dense"),
    ):
        for call in (
            lambda x: ut.scan(x, dim=0), lambda x: ut.cumulative_sum(x, dim=0), lambda x: ut.ema(x, 0.5, dim=0), ut.min_gru,
            lambda x: ut.gae(x, x, 0.0, gamma=0.5, lam=0.5, dim=0), lambda x: ut.lfilter([1.0], [1.0], x),
            lambda x: ut.linear_recurrence(1.0, x, dim=0), lambda x: ut.reduce(x, dim=0), lambda x: up.scan(x, axis=0),
        ):  # fmt: skip
            with pytest.raises(up.EngineError, match=says):
                call(x) if call is not ut.min_gru else call(x, x)
    assert ut.scan(ragged.values(), segments=up.segments.offsets(ragged.offsets())).tolist() == [
        1,
        2,
        1,
        2,
        3,
    ]


def beside_a_device(device, make):
    """Calls with tensors of a device beside which `make` makes what lies in this machine's memory."""
    shapes = (2, 6), (1, 6, 3), (1, 6, 2), (3, 2)
    x, seq, narrow, spread = (torch.ones(shape, device=device) for shape in shapes)
    times, done, rows = (
        make(np.arange(6.0)),
        make(np.array([0, 1, 0, 0, 1, 0], bool)),
        make(np.ones(2, np.float32)),
    )
    full, cuts, half = (
        make(np.ones((2, 6), np.float32)),
        make(np.array([0, 2, 6])),
        make(np.array(0.5, np.float32)),
    )
    flags = up.segments.flags(done)
    yield ut.scan(x, axis=1, initial=rows, segments=flags)
    yield ut.scan(x, axis=1, segments=up.segments.offsets(cuts))
    yield ut.scan((x, x), "affine", axis=1, initial=(rows, rows))[1]
    yield ut.linear_recurrence(half, x, axis=1, initial=rows, segments=up.segments.ends(done))
    yield ut.ema(x, half, axis=1, initial=rows)
    yield ut.ema(x, make(np.full(6, 0.5, np.float32)), axis=1)
    yield ut.ema(x, halflife=2.0, times=times, axis=1)
    yield ut.ema(x, halflife=make(np.full(6, 2.0)), times=times, axis=1, segments=flags)
    yield ut.ema(x, halflife=make(np.full(6, 2.0)), axis=1)
    yield ut.discounted_sum(x, half, done, axis=1, initial=rows)
    yield ut.gae(x, x, rows, done, gamma=0.9, lam=0.9, axis=1)
    yield ut.gae(x, x, dones=done, next_values=full, truncated=done, gamma=0.9, lam=0.9, axis=1)
    yield ut.gae(x, x, rows, done, gamma=half, lam=0.9, axis=1) if isinstance(half, torch.Tensor) else x
    yield ut.gae(full.tolist(), x, rows, gamma=0.9, lam=0.9, axis=1) if isinstance(full, np.ndarray) else x
    yield ut.lfilter(make(np.ones(1)), make(np.array([1.0, 0.5])), x, zi=make(np.zeros((2, 1), np.float32)))[
        1
    ]
    yield ut.min_gru(seq, seq, cu_seqlens=cuts)
    yield ut.selective_scan(seq, seq, spread, narrow, narrow, cu_seqlens=cuts)


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "tensors"])
@pytest.mark.parametrize("device", ["meta", "cuda"])
def test_what_lies_in_this_machines_memory_goes_to_the_device(device, make):
    """PyTorch pretends to have a GPU."""
    pretend = (
        torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) if device == "cuda" else nullcontext()
    )
    with pretend:
        for at, y in enumerate(beside_a_device(device, make)):
            assert y.device.type == device, at


def test_flags_of_a_gpu_are_waited_for_where_the_tensor_is_not_there():
    """PyTorch copies to this machine's memory behind the caller's back, if it is told not to block."""
    copies = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten._to_copy.default and args[0].device.type == "cuda":
                copies.append((kwargs or {}).get("non_blocking", False))
            return func(*args, **(kwargs or {}))

    with torch._subclasses.FakeTensorMode(), Watch():
        flags = torch.zeros(6, dtype=torch.bool, device="cuda")
        assert ut.scan(torch.ones(6), segments=up.segments.flags(flags)).device.type == "cpu"
    assert copies == [False]


def test_the_layers_take_arrays_of_the_host():
    x = np.random.default_rng(0).normal(size=(1, 6, 3)).astype(np.float32)
    start, cuts, decay = np.ones((2, 3), np.float32), [0, 2, 6], np.ones(3)
    given = torch.tensor(x), torch.tensor(start), torch.tensor(cuts)
    assert torch.equal(
        ut.min_gru(x, x, initial=start, cu_seqlens=cuts),
        ut.min_gru(given[0], given[0], initial=given[1], cu_seqlens=given[2]),
    )
    assert torch.equal(ut.rg_lru(x, x, x, decay), ut.rg_lru(*given[:1] * 3, torch.ones(3)))
    assert torch.equal(ut.hgrn(x, x), ut.hgrn(given[0], given[0]))
    assert torch.equal(
        ut.s5(x + 0j, decay + 0j, decay), ut.s5(given[0] + 0j, torch.ones(3) + 0j, torch.ones(3))
    )
    several = [x, x, -x[0, :3], x, x]
    assert torch.equal(ut.selective_scan(*several), ut.selective_scan(*map(torch.tensor, several)))


def test_reductions_of_lengths_and_steps_of_s5_are_compiled_whole():
    """A compiled graph asks for no numbers, and a step is a number of its own where shapes may change."""

    def f(x, lengths):
        made = ut.reduce(x, axis=1, segments=up.segments.lengths(lengths))
        return (
            made,
            ut.reduce(x, "max", axis=1, initial=2.0, segments=up.segments.lengths(lengths)),
            ut.s5(x + 0j, x[0, 0] + 0j, 0.5),
        )

    compiled = torch.compile(f, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (6, 9):
        x, lengths = torch.arange(2.0 * n * 3).reshape(2, n, 3), torch.tensor([2, 0, n - 2])
        for y, wanted in zip(compiled(x, lengths), f(x, lengths)):
            assert torch.equal(y, wanted)
    with pytest.raises(up.OperatorError, match="needs an identity"):
        ut.reduce(x[0, :, 0], up.Operator(lambda a, b: a), segments=up.segments.lengths(lengths))
    assert ut.reduce(
        x[0, :2, 0], up.Operator(lambda a, b: a), segments=up.segments.lengths([1, 1])
    ).tolist() == [0, 3]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_value_behind_an_end_does_not_reach_the_gradients_of_discounts(bad):
    ends, r = torch.tensor([False, True, False, True]), torch.ones(4)
    weights = torch.full((4,), 0.5, requires_grad=True)
    ut.discounted_sum(r, weights, ends, initial=bad).sum().backward()
    assert weights.grad.tolist() == [1.0, 0.0, 1.0, 0.0]
    gamma = torch.tensor(0.5, requires_grad=True)
    ut.gae(
        r, r, dones=ends, next_values=torch.tensor([1.0, bad, 1.0, bad]), gamma=gamma, lam=1.0
    ).sum().backward()
    assert gamma.grad == 2.0


def test_whole_numbers_beside_a_tensor_are_kept_or_refused():
    for have, value, want in [
        ("uint8", 200, "int8"),
        ("uint16", 60000, "int16"),
        ("uint64", 1 << 63, "int64"),
    ]:
        with pytest.raises(up.DTypeError, match=f"is no value of torch.{want}"):
            ut.scan([1], dtype=want, initial=torch.tensor(value, dtype=getattr(torch, have)))
    got = ut.scan(torch.zeros(1, dtype=torch.int32), initial=torch.tensor(60000, dtype=torch.uint16))
    assert got.tolist() == [60000]


def test_segments_of_unsigned_items_are_reduced():
    x = torch.tensor([[1, 2, 3]], dtype=torch.uint16)
    for segments, wanted in [
        (up.segments.keys([0, 0, 1]), [[3, 3]]),
        (up.segments.lengths([1, 0, 2]), [[1, 0, 5]]),
    ]:
        got = ut.reduce(x, segments=segments, dim=1)
        assert got.tolist() == wanted
        assert got.dtype == x.dtype


def test_dtypes_without_a_common_one_and_discounts_that_are_no_numbers_are_refused():
    x, narrow = torch.ones(3), torch.ones(3).to(torch.float8_e5m2)
    for call in (lambda: ut.gae(x, narrow, 0.0, gamma=0.5, lam=0.5), lambda: ut.linear_recurrence(x, narrow)):
        with pytest.raises(up.DTypeError, match=r"no dtype for torch.float32 and torch.float8_e5m2 together"):
            call()
    for gae, given in ((up.gae, x.numpy()), (ut.gae, x)):
        with pytest.raises((up.DTypeError, up.EngineError), match=r"gamma='a'|'a' is a text and no array"):
            gae(given, given, 0.0, gamma="a", lam=0.5)
    with pytest.raises(up.ShapeError, match=r"lam has shape \(2,\): pass a number"):
        ut.gae(x, x, 0.0, gamma=0.5, lam=[0.5, 0.5])


def test_discounts_of_numpy_are_numbers_as_pythons_are():
    x = np.random.default_rng(0).standard_normal(50)
    gamma, lam = np.float32(0.95), np.float32(0.9)
    wanted = up.gae(x, x, 0.5, gamma=float(gamma), lam=float(lam))
    np.testing.assert_array_equal(up.gae(x, x, 0.5, gamma=gamma, lam=lam), wanted)
    np.testing.assert_array_equal(ut.gae(torch.tensor(x), torch.tensor(x), 0.5, gamma=gamma, lam=lam), wanted)


def test_the_reduction_of_nothing_is_memory_of_its_own():
    start = torch.arange(3.0)
    alone = ut.reduce(torch.ones(0, 3), dim=0, initial=start)
    each = ut.reduce(torch.ones(0, 3), dim=0, initial=start, segments=up.segments.lengths([0, 0]))
    for made in (alone, each, ut.reduce(torch.ones(0, 3), dim=0, initial=2.0)):
        made += 1
    assert start.tolist() == [0, 1, 2]
    assert each.tolist() == [[1, 2, 3]] * 2


def test_segments_of_the_host_and_tuples_with_gradients_are_compiled_whole():
    keys = up.segments.keys([0, 0, 0, 1, 1])

    def f(x):
        return (
            ut.scan(x, dim=1, segments=up.segments.lengths([2, 3])),
            ut.reduce(x, dim=1, segments=up.segments.offsets(np.array([0, 2, 2, 5]))),
            ut.ema(x, 0.5, dim=1, segments=keys),
            ut.scan((x, x + 1), "affine", dim=1)[1],
            ut.scan((x.detach(), x.detach()), "affine", dim=1)[1],
        )

    def with_gradient(f):
        x = torch.arange(10.0).reshape(2, 5).requires_grad_()
        made = f(x)
        return *made, torch.autograd.grad(sum(y.sum() for y in made), x)[0]

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    assert all(map(torch.equal, with_gradient(compiled), with_gradient(f)))


def test_recurrences_stay_float32_under_autocast():
    """Composed ones, with dones or a tensor as weight, were rounded to half precision, and others not."""
    x, over = torch.arange(4.0).bfloat16(), torch.tensor([0, 1, 0, 0])
    half = torch.tensor(0.5)
    with torch.autocast("cpu", torch.bfloat16):
        made = (
            ut.ema(x, 0.3), ut.ema(x, half), ut.ema(x, halflife=2.0), ut.discounted_sum(x, 0.9),
            ut.discounted_sum(x, 0.9, over), ut.discounted_sum(x, half, over, initial=1.0),
            ut.gae(x, x, 0.0, gamma=0.9, lam=0.9), ut.gae(x, x, 0.0, over, gamma=half, lam=0.9),
        )  # fmt: skip
    wanted = ut.discounted_sum(x.float(), 0.9, over)
    assert {y.dtype for y in made} == {torch.float32}
    assert torch.equal(made[4], wanted)
