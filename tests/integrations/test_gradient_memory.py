"""Gradients of recurrences whose multiplier broadcasts, within segments: they are those of the composed rules, in little
memory.
"""

import itertools

import numpy as np
import pytest

import upsweep as up
from portions import every

torch = pytest.importorskip("torch")

import upsweep.torch as ut  # noqa: E402

SHAPE = (3, 11, 4)
MULTIPLIERS = {
    "number": (),
    "channels": (4,),
    "heads": (3, 1, 1),
    "times": (1, 11, 1),
    "rows": (3, 11, 1),
    "whole": SHAPE,
}
ROWS = np.random.default_rng(0).random(SHAPE) < 0.3
SEGMENTS = {
    "none": None,
    "offsets": up.segments.offsets([0, 4, 4, 9, 11]),
    "each row": up.segments.flags(ROWS),
}
CLOSE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("segments", SEGMENTS)
@pytest.mark.parametrize("shape", MULTIPLIERS)
def test_gradients_are_those_of_the_composed_rules(shape, segments, device):
    """The rule that PyTorch takes for gradients of gradients. Its gradients are those of arrays as large as the result, bit
    for bit.
    """
    torch.manual_seed(0)
    ways = itertools.product((False, True), ("tree", "sequential"), (False, True))
    for reverse, order, from_state in ways:
        # Half of the ways have each pair of these three.
        if shape != "channels" and reverse ^ (order == "sequential") ^ from_state:
            continue
        dtype = torch.bfloat16 if shape == "channels" and from_state else torch.float64
        a = torch.rand(MULTIPLIERS[shape], device=device).to(dtype).requires_grad_()
        b = torch.randn(SHAPE, device=device).to(dtype).requires_grad_()
        wide = torch.float32 if dtype == torch.bfloat16 else dtype
        h = torch.randn(3, 4, device=device, dtype=wide).requires_grad_() if from_state else None
        how = {"axis": 1, "reverse": reverse, "order": order, "segments": SEGMENTS[segments]}
        y = ut.linear_recurrence(a, b, initial=h, **how)
        g, leaves = torch.randn_like(y), [a, b, h] if from_state else [a, b]
        got = torch.autograd.grad(y, leaves, g, retain_graph=True)
        wanted = torch.autograd.grad(y, leaves, g, create_graph=True)
        for x, z, leaf in zip(got, wanted, leaves):
            assert x.dtype == leaf.dtype
            assert x.shape == leaf.shape
            if leaf.shape == SHAPE:
                assert torch.equal(x, z)
            assert (x - z).abs().max() <= CLOSE[dtype] * (1 + z.abs().max())


def test_gradients_of_no_items():
    for shape in ((0, 4, 3), (2, 0, 3), (2, 4, 0)):
        for some in ((4, 3), (2, 1, 1), (4, 1), shape):
            if all(m in (1, n) for m, n in zip(some[::-1], shape[::-1])):
                a, b = torch.rand(some).requires_grad_(), torch.rand(shape).requires_grad_()
                h = torch.rand(shape[0], shape[2]).requires_grad_()
                for dx in torch.autograd.grad(ut.linear_recurrence(a, b, initial=h, axis=1).sum(), (a, b, h)):
                    assert not dx.any()


def test_gradients_of_a_batch_of_gradients():
    """Without a graph, mapped over several gradients of the result."""
    a, b = (torch.rand(4, dtype=torch.float64).requires_grad_() for _ in range(2))
    for given in (a, a[:1]):
        y = ut.linear_recurrence(given, b)
        jacobian = torch.autograd.grad(
            y, (a, b), torch.eye(4, dtype=torch.float64), retain_graph=True, is_grads_batched=True
        )
        for i in range(4):
            one = torch.autograd.grad(y[i], (a, b), retain_graph=True)
            for rows, row in zip(jacobian, one):
                torch.testing.assert_close(rows[i], row)


def peak(run, array):
    """The most memory held at a time beyond the memory held before, in arrays of the result's size."""
    run()
    if array.is_cuda:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return (torch.cuda.max_memory_allocated() - before) / array.nbytes
    with torch.profiler.profile(profile_memory=True) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    # NumPy's memory is not seen.
    return max(np.cumsum([0, *(size for _, size in changes)])) / array.nbytes


@pytest.mark.dear
@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("shape", [(), (256,), (4, 1, 256), (4, 512, 256)], ids=str)
def test_the_way_back_holds_its_results_alone(shape, order, device):
    b = torch.randn(4, 512, 256, device=device).requires_grad_()
    a = torch.rand(shape, device=device).requires_grad_()
    for segments in (None, up.segments.offsets([0, 100, 512])):
        y, g = ut.linear_recurrence(a, b, axis=1, order=order, segments=segments), torch.randn_like(b)
        held = peak(lambda y=y, g=g: torch.autograd.grad(y, (a, b), g, retain_graph=True), b)
        assert held < (2.1 if a.shape == b.shape else 1.1)


@pytest.mark.dear
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_half_precision_holds_its_results_alone(order, device):
    """Or what the scan reads, before these take its place. Sums are float32 within the scan, and in no array."""
    whole, b, g = (torch.rand(4, 512, 256, device=device).bfloat16() for _ in range(3))
    for segments in (None, up.segments.offsets([0, 100, 512])):
        # Segments change nothing of what a multiplier that nobody follows, or one for all, has to hold.
        cases = (whole, True, 2.1), (whole, False, 2.1), (whole[0, 0].clone(), True, 1.1)
        for a, followed, most in cases if segments is None else cases[:1]:
            leaves = [x.requires_grad_() for x in ([a, b] if followed else [b])]
            y = ut.linear_recurrence(a, b, axis=1, order=order, segments=segments)
            held = peak(lambda y=y, leaves=leaves: torch.autograd.grad(y, leaves, g, retain_graph=True), b)
            assert held < most
            a.requires_grad_(False)


COMPILED = {
    "recurrence": lambda a, x: ut.linear_recurrence(a, x, axis=1),
    "packed": lambda a, x: ut.linear_recurrence(
        a, x, axis=1, order="sequential", segments=up.segments.flags(torch.arange(11) == 3)
    ),
    "average": lambda a, x: ut.ema(x, a, axis=1),
    "product": lambda a, x: ut.cumulative_prod(a * x, axis=1),
    "sum of exponentials": lambda a, x: ut.cumlogsumexp(a * x, axis=1, reverse=True),
}


@pytest.mark.dear
@pytest.mark.parametrize("name", every(3, COMPILED))
@pytest.mark.filterwarnings("ignore")
def test_the_way_back_of_a_compiled_graph_reads_states_where_they_lie(name, monkeypatch):
    """Its operators do not see which tensors have gradients. A copy of all states took as long as the states did."""
    from upsweep.torch import neighbours

    torch.manual_seed(0)
    a, x = (torch.rand(SHAPE, dtype=torch.float64).requires_grad_() for _ in range(2))
    run = torch.compile(COMPILED[name], fullgraph=True, backend="aot_eager")
    y = run(a, x)
    g = torch.randn_like(y)
    wanted = torch.autograd.grad(COMPILED[name](a, x), (a, x), g)
    monkeypatch.delattr(neighbours, "previous")
    for got, want in zip(torch.autograd.grad(y, (a, x), g), wanted, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_result_may_be_changed_in_place(reverse):
    """It lies in memory with room for the item before the first one, and is a tensor of its own."""
    a, b = (torch.rand(3, 7).requires_grad_() for _ in range(2))
    y = ut.linear_recurrence(a, b, axis=1, reverse=reverse)
    want = y.detach() + 1
    assert y.untyped_storage().nbytes() > y.nbytes
    assert torch.equal(y.add_(1), want)


def test_averages_and_discounted_sums_hold_their_results_alone(device):
    x = torch.randn(4, 512, 256, device=device).requires_grad_()
    dones, weights = torch.rand(4, 512, 256, device=device) < 0.1, torch.full((256,), 0.1, device=device)
    for run in (
        lambda: ut.ema(x, 0.1, axis=1),
        lambda: ut.ema(x, 0.1, axis=1, segments=up.segments.offsets([0, 100, 512])),
        lambda: ut.discounted_sum(x, 0.9, axis=1),
        lambda: ut.ema(x, weights, axis=1),
        lambda: ut.ema(x, 0.1, axis=1, initial=x.detach()[:, 0]),
        lambda: ut.ema(x, halflife=3.0, times=torch.arange(512.0, device=device), axis=1),
        lambda: ut.discounted_sum(x, 0.9, dones, axis=1),
        lambda: ut.discounted_sum(x, 0.9, dones, axis=1, initial=x.detach()[:, 0]),
    ):
        y, g = run(), torch.randn_like(x)
        assert peak(lambda y=y, g=g: torch.autograd.grad(y, x, g, retain_graph=True), x) < 1.1
        assert peak(run, x) < 1.3


def test_half_precision_is_averaged_by_times_without_a_copy(device):
    x, times = torch.randn(4, 512, 256, device=device).bfloat16(), torch.arange(512.0, device=device)
    assert peak(lambda: ut.ema(x, halflife=3.0, times=times, axis=1), x) < 1.3


def test_gradients_of_advantages_are_all_that_is_held(device):
    """Those that are asked for."""
    x, g = (torch.randn(4, 256, 256, dtype=torch.float64, device=device) for _ in range(2))
    how = {"dones": torch.rand(4, 256, 256, device=device) < 0.1, "lam": 0.8, "axis": 1}
    every = (("last_value", x[:, 0]), ("next_values", x)), (0.9, torch.tensor(0.9, device=device))
    for (name, after), how["gamma"] in itertools.product(*every):
        for some in ("r", "v", "rv", "rva"):
            r, v, a = given = [y.clone().requires_grad_(n in some) for n, y in zip("rva", (x, x, after))]
            y = ut.gae(r, v, **{name: a}, **how)
            leaves = [y for y in given if y.requires_grad]
            # The first call of a kind makes the engine's own memory.
            torch.autograd.grad(y, leaves, g, retain_graph=True)
            held = peak(lambda y=y, xs=leaves: torch.autograd.grad(y, xs, g, retain_graph=True), x)
            assert held < sum(y.nbytes for y in leaves) / x.nbytes + 0.1


def test_jax_broadcasts_within_the_engine():
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    import upsweep.jax as uj

    b = jnp.ones((4, 512, 256))

    def temporary(a, **how):
        run = jax.jit(lambda a, b: uj.linear_recurrence(a, b, axis=1, **how))
        return run.lower(a, b).compile().memory_analysis().temp_size_in_bytes / b.nbytes

    for a in (jnp.float32(0.5), jnp.ones(256), jnp.ones((4, 1, 256))):
        for order in ("tree", "sequential"):
            assert temporary(a, order=order) < 0.1
            assert temporary(a, order=order, segments=up.segments.offsets([0, 100, 512])) < 0.1


@pytest.mark.dear
@pytest.mark.parametrize("shape", every(2, MULTIPLIERS))
def test_jax_has_the_same_gradients(shape, jax_device, wide):
    jax = pytest.importorskip("jax")
    from jax.test_util import check_grads

    import upsweep.jax as uj

    rng = np.random.default_rng(1)
    a, b, h = rng.random(MULTIPLIERS[shape]), rng.normal(size=SHAPE), rng.normal(size=(3, 4))
    with wide, jax.default_device(jax_device):
        orders = ("sequential", "tree") if shape == "whole" else ("sequential",)
        for segments, order in itertools.product(SEGMENTS.values(), orders):
            how = {"axis": 1, "segments": segments, "order": order, "reverse": order == "tree"}
            check_grads(
                lambda a, b, h, how=how: uj.linear_recurrence(a, b, initial=h, **how), (a, b, h), order=2
            )
            each = jax.vmap(lambda a, how=how: uj.linear_recurrence(a, b, **how))(np.stack([a, a / 2]))
            np.testing.assert_array_equal(each[1], up.linear_recurrence(a / 2, b, **how))


@pytest.mark.parametrize(
    "more", [{}, {"exclusive": True, "reverse": True}, {"segments": SEGMENTS["offsets"]}], ids=str
)
def test_the_gradient_of_a_sum_keeps_neither_items_nor_sums(more, device):
    """As with `torch.cumsum`, whose result may be changed in place."""
    x, kept = torch.randn(SHAPE, device=device, dtype=torch.float64, requires_grad=True), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.dtype) or t, lambda t: t):
        y = ut.scan(x, axis=1, **more)
    assert torch.float64 not in kept
    wanted = torch.autograd.grad(2 * ut.scan(x, axis=1, **more).square().sum(), x)[0]
    again = y.detach().clone()
    y.mul_(2)
    (got,) = torch.autograd.grad(y, x, 2 * again)
    torch.testing.assert_close(got, wanted)
    assert torch.autograd.gradgradcheck(lambda x: ut.scan(x.square(), axis=1, **more), x)
    start = torch.ones(3, 4, dtype=torch.float64, device=device, requires_grad=True)
    ut.scan(x.detach(), axis=1, initial=start).sum().backward()
    assert (start.grad == 11).all()
