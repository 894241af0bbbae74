"""Derivatives in PyTorch: complex numbers by its conventions, forward mode, `torch.func`, its own sample inputs."""

from __future__ import annotations

import pytest

import upsweep as up

torch = pytest.importorskip("torch")
ut = pytest.importorskip("upsweep.torch")
fa = pytest.importorskip("torch.autograd.forward_ad")

# A warning of PyTorch's own, on the first use of forward mode.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

BLEND = up.Operator(lambda a, b: a + b + a * b, name="blend")
DTYPES = [torch.float64, torch.complex128]


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def check(f, xs, twice=True):
    """Derivatives against differences: backward, forward, forward under vmap, and each of them over backward."""
    assert torch.autograd.gradcheck(f, xs, check_forward_ad=True, check_batched_forward_grad=True)
    if twice:
        assert torch.autograd.gradgradcheck(f, xs, check_fwd_over_rev=True, check_rev_over_rev=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", ["add", "mul", BLEND], ids=str)
@pytest.mark.parametrize("keywords", [{}, {"exclusive": True, "reverse": True}], ids=str)
def test_scans(op, dtype, keywords):
    x, start = draw(2, 3, dtype=dtype), draw(2, seed=1, dtype=dtype)
    check(lambda x, s: ut.scan(x, op, axis=1, initial=s, **keywords), (x, start))
    if not keywords:
        check(lambda x: ut.scan(x, op, axis=1), (x,))


@pytest.mark.parametrize("op", ["max", "min", "logaddexp"])
@pytest.mark.parametrize("keywords", [{}, {"exclusive": True, "reverse": True}], ids=str)
def test_scans_of_real_numbers_only(op, keywords):
    x, start = draw(2, 3), draw(2, seed=1)
    check(lambda x, s: ut.scan(x, op, axis=1, initial=s, **keywords), (x, start))
    if not keywords:
        check(lambda x: ut.scan(x, op, axis=1), (x,))


def test_second_derivatives_of_log_sums_of_equal_items():
    """The gap between equal numbers has derivatives, though it is 0: their second derivatives were 0. That of equal infinities,
    which has none, must not be NaN."""
    check(lambda x: ut.scan(x, "logaddexp"), (torch.full((3,), 0.3, dtype=torch.float64).requires_grad_(),))
    x = torch.tensor([-torch.inf, -torch.inf, 0.5, 0.5], dtype=torch.float64)
    hessian = torch.func.hessian(lambda x: ut.scan(x, "logaddexp")[-1])(x)
    torch.testing.assert_close(
        hessian[2:, 2:], torch.tensor([[0.25, -0.25], [-0.25, 0.25]], dtype=torch.float64)
    )
    assert not hessian[:2].any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrences(dtype, reverse):
    a, b, start = draw(2, 1, dtype=dtype), draw(2, 3, seed=1, dtype=dtype), draw(2, seed=2, dtype=dtype)
    check(lambda *p: ut.linear_recurrence(p[0], p[1], initial=p[2], axis=1, reverse=reverse), (a, b, start))


def test_a_real_state_beside_complex_numbers():
    a, b, start = draw(3, dtype=torch.complex128), draw(3, seed=1), draw(seed=2)
    check(lambda a, b, s: ut.linear_recurrence(a, b, initial=s), (a, b, start))


@pytest.mark.dear
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_filters_with_a_state(dtype):
    b, a = (torch.tensor(c, dtype=dtype, requires_grad=True) for c in ([1.0, 0.3], [2.0, -0.8, 0.4]))
    for n in (1, 4):
        check(
            lambda *p: ut.lfilter(*p[:3], 1, p[3]),
            (b, a, draw(2, n, dtype=dtype), draw(2, 2, seed=1, dtype=dtype)),
        )
    check(lambda *p: ut.lfilter(*p), (b, a, draw(4, dtype=dtype)))


def test_returns():
    dones = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 1]], dtype=torch.bool)

    def f(r, values, last):
        sums = ut.discounted_sum(r, 0.9, dones, axis=1, initial=last)
        return sums, ut.gae(r, values, last, dones, gamma=0.9, lam=0.8, axis=1)

    check(f, (draw(2, 4), draw(2, 4, seed=1), draw(2, seed=2)))


@pytest.mark.dear
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_advantages(order):
    """Of all that has gradients, and of each by itself: what nobody wants is not computed."""
    ended, cut = (
        torch.tensor(f, dtype=torch.bool)
        for f in ([[0, 1, 0, 0], [0, 0, 1, 1]], [[0, 0, 1, 0], [1, 0, 0, 0]])
    )
    how = {"gamma": 0.9, "lam": 0.8, "axis": 1, "order": order}

    def one(r, v, last):
        return ut.gae(r, v, last, ended, **how)

    def every(r, v, after):
        return ut.gae(r, v, dones=ended, truncated=cut, next_values=after, **how)

    for f, shape in ((one, (2,)), (every, (2, 4))):
        xs = draw(2, 4), draw(2, 4, seed=1), draw(*shape, seed=2)
        check(f, xs)
        every_one = torch.autograd.grad(f(*xs).square().sum(), xs)
        for some in ((0,), (1,), (2,), (0, 2), (1, 2)):
            given = [x if i in some else x.detach() for i, x in enumerate(xs)]
            got = torch.autograd.grad(f(*given).square().sum(), [xs[i] for i in some])
            for i, dx in zip(some, got):
                torch.testing.assert_close(dx, every_one[i])
        together = torch.vmap(torch.func.grad(lambda *p, f=f: f(*p).square().sum(), (0, 1, 2)))
        for dx, wanted in zip(together(*[torch.stack([x.detach()] * 2) for x in xs]), every_one):
            torch.testing.assert_close(dx[1], wanted)


def test_advantages_by_tensors_for_numbers():
    r, v, after, ended = (
        draw(4),
        draw(4, seed=1),
        draw(4, seed=2),
        torch.tensor([0, 1, 0, 0], dtype=torch.bool),
    )
    gamma, lam = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.9, 0.8))
    for how in ({"next_values": after}, {"last_value": 0.5}):

        def f(gamma, lam, how=how):
            return ut.gae(r, v, dones=ended, gamma=gamma, lam=lam, **how)

        check(f, (gamma, lam), twice=False)
        torch.testing.assert_close(f(gamma, lam), f(0.9, 0.8))
        for weight in (gamma, draw(4, seed=3)):
            followed, alone = f(weight, lam), f(weight.detach(), lam.detach())
            assert torch.equal(followed, alone)
            for dx, wanted in zip(
                *[torch.autograd.grad(y.square().sum(), (r, v)) for y in (alone, followed)]
            ):
                torch.testing.assert_close(dx, wanted)


def test_affine_pairs():
    a, b, one, start = (draw(*s, seed=i) for i, s in enumerate([(2, 3), (2, 3), (2,), (2,)]))
    check(lambda *p: ut.scan(p[:2], "affine", axis=1, initial=p[2:]), (a, b, one, start), twice=False)
    a, b = a.detach(), b.detach()
    with fa.dual_level(), pytest.raises(up.OperatorError, match="affine"):
        ut.scan((fa.make_dual(a, b), b), "argmax", axis=1)


def test_gradients_of_batches_of_pairs():
    """Within vmap a tensor does not say that the batch requires a gradient."""
    pair = draw(2, 3), draw(2, 3, seed=1)

    def gradients(h):
        return torch.autograd.grad(h.square().sum(), pair)

    got = gradients(torch.vmap(lambda *p: ut.scan(p, "affine")[1])(*pair))
    torch.testing.assert_close(got, gradients(ut.scan(pair, "affine", axis=1)[1]))
    with pytest.raises(up.OperatorError, match="affine"):
        torch.vmap(lambda *p: ut.scan(p, "argmax")[0])(*pair)


def test_functions_of_functions():
    """`torch.func` in both directions."""
    x, v = draw(2, 3).detach(), draw(2, 3, seed=1).detach()
    f, plain = (lambda x: ut.scan(x, "mul", axis=-1)), (lambda x: x.cumprod(-1))

    def row_by_row(f):
        return torch.vmap(f)

    def tangent(f):
        return torch.func.jvp(f, (x,), (v,))[1]

    def gradient(f):
        return torch.func.grad(lambda x: f(x).square().sum())

    def twice(f):
        return torch.func.jacfwd(torch.func.jacfwd(f))(x)

    def affine(x):
        return ut.scan((x, x), "affine", axis=-1)[1]

    for whole in (
        tangent, torch.func.jacfwd, torch.func.jacrev, gradient,
        lambda f: torch.func.hessian(lambda x: f(x).square().sum()),
        lambda f: tangent(row_by_row(f)), lambda f: row_by_row(gradient(f)), lambda f: tangent(gradient(f)),
    ):  # fmt: skip
        got, expected = (r(x) if callable(r) else r for r in (whole(f), whole(plain)))
        torch.testing.assert_close(got, expected)
    torch.testing.assert_close(twice(f), twice(plain))
    torch.testing.assert_close(twice(affine), torch.func.hessian(affine)(x))
    with pytest.raises(NotImplementedError, match="reverse mode"):
        twice(row_by_row(f))
    assert torch.func.jacfwd(ut.linear_recurrence)(x[0], v[0])[2, 1] == (
        x[0, 2] * ut.linear_recurrence(x[0], v[0])[0]
    )


# A warning of the compiler's own.
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_graph_drops_no_tangents():
    x, v = draw(3).detach(), draw(3, seed=1).detach()

    def f(x):
        return torch.func.jvp(ut.cumulative_sum, (x,), (v,))[1]

    with pytest.raises(torch._dynamo.exc.TorchDynamoException, match="forward mode"):
        torch.compile(f, fullgraph=True, backend="aot_eager")(x)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(f, backend="aot_eager")(x), v.cumsum(0))


def test_an_operator_that_is_not_holomorphic_is_refused():
    x = draw(3, dtype=torch.complex128)
    crooked = up.Operator(lambda a, b: a + b.real, name="crooked")
    with pytest.raises(up.OperatorError, match="holomorphic"):
        ut.scan(x, crooked)
    with pytest.raises(up.OperatorError, match="holomorphic"):
        torch.func.jvp(lambda x: ut.scan(x, crooked), (x.detach(),), (x.detach(),))
    with pytest.raises(up.OperatorError, match="holomorphic"):
        torch.vmap(lambda x: ut.scan(x, crooked))(x.expand(2, 3))
    with pytest.raises(up.OperatorError, match="holomorphic"):
        ut.scan(x.detach(), crooked, initial=x[0])


def test_equal_items_and_the_ends_of_a_range_have_the_gradients_of_pytorch():
    for values in ([2.0, 2.0, 1.0, 2.0], [float("-inf"), 1.0, 1.0], [1.0, float("nan"), 3.0, float("nan")]):
        x = torch.tensor(values, requires_grad=True)
        for op, pytorchs in (("max", torch.cummax), ("min", torch.cummin)):
            got, expected = (
                torch.autograd.grad(y, x, torch.arange(1.0, len(x) + 1))[0]
                for y in (ut.scan(x, op), pytorchs(x, 0)[0])
            )
            assert torch.equal(got, expected), (op, values)


OURS = {
    "cumsum": ut.cumulative_sum,
    "cumprod": ut.cumulative_prod,
    "cummax": lambda x, axis: ut.scan(x, "max", axis=axis),
    "cummin": lambda x, axis: ut.scan(x, "min", axis=axis),
    "logcumsumexp": lambda x, axis: ut.scan(x, "logaddexp", axis=axis),
}


# The other functions compile for a minute.
QUICK = ("float64", "complex128", "bfloat16", "uint8")


@pytest.mark.dear
@pytest.mark.parametrize("dtypes", ["few", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", OURS)
# A warning of PyTorch's own, on import.
@pytest.mark.filterwarnings("ignore")
def test_pytorchs_own_sample_inputs(name, dtypes):
    """Every dtype that PyTorch's function takes: ours gives the value, the gradient and the tangent, or a refusal by name."""
    infos = pytest.importorskip("torch.testing._internal.common_methods_invocations")
    (info,) = (o for o in infos.op_db if o.name == name)
    seen = 0
    for dtype in sorted(info.dtypes, key=str):
        if dtypes == "few" and str(dtype).removeprefix("torch.") not in QUICK:
            continue
        for sample in info.sample_inputs("cpu", dtype, requires_grad=dtype in DTYPES):
            seen += compared(name, info, sample)
    assert seen > 5


def compared(name, info, sample):
    def ours(x):
        return OURS[name](x, axis=sample.args[0], **sample.kwargs)

    def theirs(x):
        y = info(x, *sample.args, **sample.kwargs)
        return y if isinstance(y, torch.Tensor) else y[0]

    x = sample.input
    if x.ndim == 0:
        with pytest.raises(up.ShapeError, match=r"reshape\(1\)"):
            ours(x)
        return True
    if name == "logcumsumexp" and x.is_complex():
        with pytest.raises(up.OperatorError, match="logaddexp is not defined for complex"):
            ours(x)
        return True
    y, expected = ours(x), theirs(x)
    # Sums are uint64, NumPy's default.
    unsigned = x.dtype is torch.uint8 and name in ("cumsum", "cumprod")
    torch.testing.assert_close(y, expected, check_dtype=not unsigned)
    if x.requires_grad and x.numel():
        g = torch.full_like(y, 0.5 - 0.25j if y.is_complex() else 0.5)
        torch.testing.assert_close(*(torch.autograd.grad(v, x, g)[0] for v in (y, expected)))
        x = x.detach()
        # PyTorch's tangents of it are less exact.
        loose = {"rtol": 1e-4, "atol": 1e-4} if name == "logcumsumexp" else {}
        torch.testing.assert_close(
            *(torch.func.jvp(f, (x,), (x.flip(0),))[1] for f in (ours, theirs)), **loose
        )
    return True


def layered(x):
    return {
        "sum": lambda v: ut.cumulative_sum(v, axis=1),
        "sum from": lambda v: ut.scan(v, axis=1, initial=v[:, 0]),
        "total": lambda v: ut.reduce(v, axis=1),
        "segments": lambda v: ut.reduce(v, axis=1, segments=up.segments.lengths([2, 1])),
        "product": lambda v: ut.cumulative_prod(v, axis=1),
        "affine": lambda v: ut.scan((v, v), "affine", axis=1)[1],
        "average": lambda v: ut.ema(v, 0.5, axis=1),
        "filter": lambda v: ut.lfilter([1.0, 0.5], [1.0, 0.5], v, axis=1),
        "advantages": lambda v: ut.gae(v, v, 1.0, gamma=0.9, lam=0.9, axis=1),
        "min_gru": lambda v: ut.min_gru(v, x),
        "hgrn": lambda v: ut.hgrn(v, x),
    }


@pytest.mark.parametrize("name", list(layered(None)))
def test_second_derivatives_in_every_order_of_modes(name):
    """Within vmap, which jacrev is, PyTorch has one list of batch axes for what both modes keep."""
    func, x = torch.func, draw(1, 3, 2, seed=1).detach()
    fn, v = layered(x)[name], draw(1, 3, 2).detach()

    def value(v):
        return fn(v).sin().sum()

    wanted = torch.autograd.functional.hessian(value, v)
    for outer in (func.jacrev, func.jacfwd):
        for inner in (func.jacrev, func.jacfwd):
            torch.testing.assert_close(outer(inner(value))(v), wanted)
