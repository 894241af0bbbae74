"""Layers of recurrent models: the values and gradients are those of the loop over time, with the same bits however a sequence
is cut.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import upsweep.torch as ut  # noqa: E402
from upsweep.arguments import ShapeError  # noqa: E402
from upsweep.engine import DTypeError  # noqa: E402
from upsweep.segments import SegmentError  # noqa: E402
from upsweep.torch.layers import operands as layers  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
REAL = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
CLOSE = {torch.float32: 5e-6, torch.float64: 1e-13, torch.bfloat16: 8e-3, torch.float16: 1e-3,
         torch.complex64: 5e-6, torch.complex128: 1e-13}  # fmt: skip


class Layer(NamedTuple):
    """A layer, its step, and the operands of both."""

    run: Any
    step: Any
    along: tuple[str, ...]
    """Operands with an item for each step."""
    constant: tuple[str, ...]
    naive: Any
    """(operands, state) -> (y of a step, state): one step of a loop."""


def rg_lru(v, h):
    decay = -8 * F.softplus(v["decay"]) * torch.sigmoid(v["recurrence_gate"])
    h = decay.exp() * h + torch.sqrt(-torch.expm1(2 * decay)) * torch.sigmoid(v["input_gate"]) * v["x"]
    return h, h


def min_gru(v, h):
    z = torch.sigmoid(v["gate"])
    h = (1 - z) * h + z * v["x"]
    return h, h


def hgrn(v, h):
    f = v["lower_bound"] + (1 - v["lower_bound"]) * torch.sigmoid(v["forget_gate"])
    h = f * h + (1 - f) * v["x"]
    return h, h


def s5(v, h):
    h = torch.exp(v["eigenvalues"] * v["step"]) * h + v["x"]
    return h, h


def selective(v, h):
    delta = F.softplus(v["delta"] + v["delta_bias"])
    h = torch.exp(delta[..., None] * v["A"]) * h + (delta * v["u"])[..., None] * v["B"][:, None]
    return ((h * v["C"][:, None]).sum(-1) + v["D"] * v["u"]) * F.silu(v["z"]), h


def run_selective(*given, **how):
    return ut.selective_scan(*given, delta_softplus=True, **how)


def step_selective(state, *given):
    return ut.selective_step(state, *given, delta_softplus=True)


LAYERS = {
    "rg_lru": Layer(ut.rg_lru, ut.rg_lru_step, ("x", "input_gate", "recurrence_gate"), ("decay",), rg_lru),
    "min_gru": Layer(ut.min_gru, ut.min_gru_step, ("x", "gate"), (), min_gru),
    "hgrn": Layer(ut.hgrn, ut.hgrn_step, ("x", "forget_gate"), ("lower_bound",), hgrn),
    "s5": Layer(ut.s5, ut.s5_step, ("x",), ("eigenvalues", "step"), s5),
    "selective_scan": Layer(
        run_selective, step_selective, ("u", "delta", "A", "B", "C", "D", "z", "delta_bias"), (), selective
    ),
}
CONSTANT = {"A", "D", "delta_bias", "decay", "lower_bound", "eigenvalues", "step"}
RARE = (torch.float16, torch.float64, torch.complex128)
"""Dtypes whose kernels take a minute to compile. Every run differentiates float64, the slow tests the others."""
CASES = [(name, d) for name in LAYERS if name != "s5" for d in REAL]
CASES += [("s5", torch.complex64), ("s5", torch.complex128)]
CASES = [pytest.param(*case, marks=[pytest.mark.slow] if case[1] in RARE else []) for case in CASES]


def given(name, dtype, batch=2, steps=37, channels=21, states=5, device="cpu"):
    """The operands of a layer, by name, in the order of its arguments."""
    torch.manual_seed(3)
    real = torch.float32 if dtype.itemsize == 2 else dtype
    shapes = {"A": (channels, states), "B": (batch, steps, states), "C": (batch, steps, states)}
    made = {}
    for v in (*LAYERS[name].along, *LAYERS[name].constant):
        shape = shapes.get(v, (channels,) if v in CONSTANT else (batch, steps, channels))
        x = torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64)
        x = {"A": lambda x: -x.abs() - 0.1, "lower_bound": lambda x: x.sigmoid(), "step": lambda x: x.real.sigmoid(),
             "eigenvalues": lambda x: torch.complex(-x.real.abs(), x.imag)}.get(v, lambda x: x)(x)  # fmt: skip
        made[v] = x.to(
            device, real.to_real() if v == "step" and dtype.is_complex else real if v in CONSTANT else dtype
        )
    return made


def start(name, operands, dtype, sequences):
    channels = next(iter(operands.values())).shape[2]
    shape = (
        (sequences, channels, operands["A"].shape[1]) if name == "selective_scan" else (sequences, channels)
    )
    real = torch.float32 if dtype.itemsize == 2 else dtype
    return torch.randn(shape, dtype=real).to(next(iter(operands.values())).device)


def at(operands, part):
    """Some of the steps."""
    return {v: x if v in CONSTANT else x[:, part] for v, x in operands.items()}


def looped(name, operands, h):
    """The loop over time, in double precision."""
    ys = []
    for t in range(next(iter(operands.values())).shape[1]):
        y, h = LAYERS[name].naive(at(operands, t), h)
        ys.append(y)
    return torch.stack(ys, 1), h


def wide(x):
    return x.detach().to(torch.complex128 if x.is_complex() else torch.float64).requires_grad_()


def same(x, y):
    """Bit for bit."""
    return torch.equal(x, y) and torch.equal(torch.view_as_real(x).signbit(), torch.view_as_real(y).signbit())


def far(x, y):
    return ((x - y).abs().max() / y.abs().max()).item()


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_values_and_gradients_are_those_of_the_loop(name, dtype, device):
    operands = given(name, dtype, device=device)
    h = start(name, operands, dtype, 2)
    leaves = {v: x.requires_grad_() for v, x in operands.items()}
    h.requires_grad_()
    y, last = LAYERS[name].run(*leaves.values(), initial=h, return_state=True)
    assert y.dtype == dtype
    wider = {v: wide(x) for v, x in operands.items()}
    wide_h = wide(h)
    want, want_last = looped(name, wider, wide_h)
    assert far(y.to(want.dtype), want) < CLOSE[dtype]
    assert far(last.to(want.dtype), want_last) < 5e-6
    g, g_last = torch.randn_like(y), torch.randn_like(last)
    got = torch.autograd.grad((y, last), (*leaves.values(), h), (g, g_last))
    wanted = torch.autograd.grad(
        (want, want_last), (*wider.values(), wide_h), (g.to(want.dtype), g_last.to(want.dtype))
    )
    for x, z, v in zip(got, wanted, (*leaves.values(), h)):
        assert x.dtype == v.dtype
        assert x.shape == v.shape
        assert far(x.to(z.dtype), z) < 2 * CLOSE[dtype]


@pytest.mark.dear
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_by_differences(name):
    dtype = torch.complex128 if name == "s5" else torch.float64
    operands = given(name, dtype, steps=18, channels=2, states=2)
    h = start(name, operands, dtype, 2)
    inputs = [x.requires_grad_() for x in (*operands.values(), h)]

    def run(*some):
        return LAYERS[name].run(*some[:-1], initial=some[-1], return_state=True)

    assert torch.autograd.gradcheck(run, inputs)
    if name == "selective_scan":
        return
    if name == "s5":
        batch, h = [x.detach()[:1, :7] if x.ndim == 3 else x for x in inputs[:-1]], inputs[-1].detach()

        def packed(*some):
            return ut.s5(
                *some[:-1], initial=some[-1], cu_seqlens=torch.tensor([0, 3, 3, 7]), return_state=True
            )

        own = [x.requires_grad_() for x in (*batch, torch.stack([h[0], h[1], h[0]]))]
        assert torch.autograd.gradcheck(packed, own, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(packed, own)
    short = [x.detach()[:, :5].requires_grad_() if x.ndim == 3 else x for x in inputs]
    assert torch.autograd.gradgradcheck(run, short)
    assert torch.autograd.gradcheck(run, short, check_forward_ad=True, check_backward_ad=False)
    plain = [x.detach() for x in short]
    (y, pull), moved = torch.func.vjp(run, *plain), [torch.randn_like(x) for x in plain]
    along = tuple(torch.randn_like(v) for v in y)
    pulled, (_, pushed) = pull(along), torch.func.jvp(run, tuple(plain), tuple(moved))
    for dx, wanted in zip(pulled, torch.autograd.grad(run(*short), short, along)):
        torch.testing.assert_close(dx, wanted)
    if name != "s5":
        there, back = (sum((v * w).sum() for v, w in zip(*p)) for p in ((along, pushed), (pulled, moved)))
        torch.testing.assert_close(there, back)


def test_a_slow_decay_keeps_its_digits(device):
    """-8 softplus(-18) is near zero, and its exponential the float below 1."""
    x, gate, decay = torch.ones(1, 50, 3), torch.zeros(1, 50, 3), torch.full((3,), -18.0)
    leaves = [v.to(device).requires_grad_() for v in (x, gate, gate, decay)]
    got = ut.rg_lru(*leaves)
    want, _ = looped(
        "rg_lru", dict(zip(("x", "input_gate", "recurrence_gate", "decay"), map(wide, leaves))), 0
    )
    # A GPU rounds -18 before it takes the exponential, which is 3e-6 of it; without care all of it would be lost.
    assert far(got.double(), want) < 5e-6
    (slope,) = torch.autograd.grad(got.sum(), leaves[-1])
    near = ut.rg_lru(*(v.double() for v in leaves[:-1]), leaves[-1].double())
    assert far(slope, torch.autograd.grad(near.sum(), leaves[-1])[0]) < 2e-5


def test_a_selective_scan_says_that_it_has_no_second_derivatives():
    operands = given("selective_scan", torch.float64)
    u = operands["u"].requires_grad_()
    (du,) = torch.autograd.grad(run_selective(*operands.values()).sum(), u, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        du.sum().backward()


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_bits_do_not_depend_on_how_a_sequence_is_cut_packed_or_batched(name, dtype, device):
    layer, operands = LAYERS[name], given(name, dtype, steps=67, device=device)
    h = start(name, operands, dtype, 2)
    whole, last = layer.run(*operands.values(), initial=h, return_state=True)
    first, between = layer.run(*at(operands, slice(0, 38)).values(), initial=h, return_state=True)
    rest, end = layer.run(*at(operands, slice(38, 67)).values(), initial=between, return_state=True)
    assert torch.equal(torch.cat([first, rest], 1), whole)
    assert torch.equal(end, last)

    state = h.clone()
    for t in range(67):
        y = layer.step(state, *[x.contiguous() for x in at(operands, t).values()])
        assert torch.equal(y, whole[:, t])
    assert torch.equal(state, last)

    alone = {v: x if v in CONSTANT else x[1:] for v, x in operands.items()}
    assert torch.equal(layer.run(*alone.values(), initial=h[1:]), whole[1:])

    packed = {v: x if v in CONSTANT else torch.cat([x[:1, :20], x[1:]], 1) for v, x in operands.items()}
    cu = torch.tensor([0, 20, 20, 87])
    starts = torch.stack([h[0], h[0], h[1]])
    got, ends = layer.run(*packed.values(), initial=starts, cu_seqlens=cu, return_state=True)
    assert torch.equal(got[0, :20], whole[0, :20])
    assert torch.equal(got[0, 20:], whole[1])
    assert torch.equal(ends[1], h[0])
    assert torch.equal(ends[2], last[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "s5"])
def test_bits_do_not_depend_on_where_channels_begin(name, dtype, device):
    """A GPU moves as many channels at once as addresses allow: it moves 40 of them by vectors, or one by one."""
    operands = given(name, dtype, channels=40, states=16, device=device)
    apart = {v: x if v in CONSTANT else torch.cat([x[..., :1], x], -1)[..., 1:] for v, x in operands.items()}
    found = []
    for given_ in (operands, apart):
        leaves = [x.detach().requires_grad_() for x in given_.values()]
        y = LAYERS[name].run(*leaves)
        g = torch.linspace(-1, 1, y.numel(), device=device).to(dtype).view_as(y)
        found.append([y, *torch.autograd.grad(y, leaves, g)])
        steps = [x[:, :1] if x.ndim == 3 else x for x in given_.values()]
        found[-1].append(LAYERS[name].run(*steps))
    for x, z, v in zip(*found, ["y", *operands, "step"]):
        assert far(x.double(), z.double()) < 2e-6 if v in CONSTANT else torch.equal(x, z), v


@pytest.mark.parametrize(("dtype", "states"), [(torch.float32, 16), (torch.bfloat16, 5)])
def test_many_channels_are_walked_with_the_bits_of_few(dtype, states, cuda, monkeypatch):
    """How many warps serve a walk, and how many walks share a block, depends on how many there are, and no bit does."""
    operands = given("selective_scan", dtype, channels=40, states=states, device="cuda")
    found = []
    for crowd in (1, 3, 4):
        monkeypatch.setattr("upsweep.gpu.layers.selective_scans._crowd", lambda _, crowd=crowd: crowd)
        leaves = [x.detach().requires_grad_() for x in operands.values()]
        y = run_selective(*leaves)
        g = torch.linspace(-1, 1, y.numel(), device="cuda").to(dtype).view_as(y)
        found.append([y.detach(), *torch.autograd.grad(y, leaves, g)])
    for *others, z, v in zip(*found, ["y", *operands]):
        assert all(torch.equal(x, z) for x in others), v


def test_a_missing_skip_and_a_missing_bias_are_zeros(device):
    operands = given("selective_scan", torch.float32, channels=40, device=device)
    leaves = [operands[v].requires_grad_() for v in ("u", "delta", "A", "B", "C")]
    zeros = torch.zeros(40, device=device)
    found = []
    for how in ({}, {"D": zeros, "delta_bias": zeros}):
        y = ut.selective_scan(*leaves, **how)
        found.append([y, *torch.autograd.grad(y.square().sum(), leaves)])
    for x, z in zip(*found):
        assert torch.equal(x, z)


@pytest.mark.parametrize("initial", [False, True])
def test_packed_sequences_of_s5_are_walked_at_once(initial, device, monkeypatch):
    """However many there are, and with the bits of each alone: the sign of a zero, and sequences of no step, among them."""
    cu = [0, 0, 1, 4, 4, 5, 60, 61, 61]
    operands = given("s5", torch.complex64, batch=1, steps=61, device=device)
    operands["x"][0, cu[:-2]] *= -0.0
    h = start("s5", operands, torch.complex64, len(cu) - 1) if initial else None
    calls, walk = [], layers.recurrence
    monkeypatch.setattr(layers, "recurrence", lambda *how: (calls.append(how), walk(*how))[1])
    got, ends = ut.s5(*operands.values(), initial=h, cu_seqlens=torch.tensor(cu), return_state=True)
    assert len(calls) == 1 + initial
    for i, (low, high) in enumerate(pairwise(cu)):
        own = None if h is None else h[i : i + 1]
        want, end = ut.s5(*at(operands, slice(low, high)).values(), initial=own, return_state=True)
        assert same(got[:, low:high], want)
        assert same(ends[i], end[0])


@pytest.mark.parametrize("name", LAYERS)
def test_packed_gradients_are_those_of_each_sequence(name, device):
    dtype = torch.complex64 if name == "s5" else torch.float32
    layer, operands = LAYERS[name], given(name, dtype, batch=1, steps=40, device=device)
    leaves = [x.requires_grad_() for x in operands.values()]
    cu, g = [0, 17, 17, 40], None
    y = layer.run(*leaves, cu_seqlens=torch.tensor(cu, dtype=torch.int32))
    g = torch.randn_like(y)
    got = torch.autograd.grad(y, leaves, g)
    parts = [layer.run(*at(operands, slice(a, b)).values()) for a, b in ((0, 17), (17, 40))]
    want = torch.autograd.grad(torch.cat(parts, 1), leaves, g)
    for x, z, v in zip(got, want, operands):
        assert far(x, z) < 2e-6 if v in CONSTANT else torch.equal(x, z)


@pytest.mark.parametrize("name", LAYERS)
def test_views_are_read_as_they_lie_and_none_is_written(name):
    dtype = torch.complex64 if name == "s5" else torch.float32
    operands = given(name, dtype, steps=33)
    want = LAYERS[name].run(*operands.values())
    padded = {
        v: x if v in CONSTANT else torch.cat([x, torch.full_like(x, torch.nan)], -1)
        for v, x in operands.items()
    }
    views = {v: x if v in CONSTANT else x[..., : x.shape[-1] // 2] for v, x in padded.items()}
    assert torch.equal(LAYERS[name].run(*views.values()), want)
    turned = {
        v: x if v in CONSTANT else x.transpose(1, 2).contiguous().transpose(1, 2) for v, x in operands.items()
    }
    assert torch.equal(LAYERS[name].run(*turned.values()), want)


@pytest.mark.parametrize("name", LAYERS)
def test_no_steps_leave_the_state(name):
    dtype = torch.complex64 if name == "s5" else torch.float32
    operands = given(name, dtype, steps=0)
    h = start(name, operands, dtype, 2)
    y, last = LAYERS[name].run(*operands.values(), initial=h, return_state=True)
    assert y.shape == (2, 0, 21)
    assert torch.equal(last, h)


@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("name", LAYERS)
def test_a_step_on_a_state_changes_nothing_else(name, steps, packed):
    """The state of s5 was the last item of its states, or initial itself."""
    dtype = torch.complex64 if name == "s5" else torch.float32
    operands, one = given(name, dtype, batch=1, steps=steps), given(name, dtype, batch=1, steps=1)
    h = start(name, operands, dtype, 1)
    how = {"cu_seqlens": torch.tensor([0, steps])} if packed else {}
    y, last = LAYERS[name].run(*operands.values(), initial=h, return_state=True, **how)
    before = [x.clone() for x in (y, h)]
    LAYERS[name].step(last, *at(one, 0).values())
    assert all(map(torch.equal, (y, h), before))


@pytest.mark.parametrize("name", LAYERS)
def test_compiled_without_a_break(name):
    dtype = torch.complex64 if name == "s5" else torch.float32
    operands = given(name, dtype)
    leaves = [x.requires_grad_() for x in operands.values()]

    def run(*some):
        return LAYERS[name].run(*some).abs().sum()

    got = torch.autograd.grad(torch.compile(run, backend="aot_eager", fullgraph=True)(*leaves), leaves)
    for x, z in zip(got, torch.autograd.grad(run(*leaves), leaves)):
        assert far(x, z) < 1e-6


WRONG = {
    "shape": (ShapeError, lambda v, how: v.update({k: x[:, 1:] for k, x in list(v.items())[1:2]})),
    "rank": (ShapeError, lambda v, how: v.update({k: x[0] for k, x in list(v.items())[:1]})),
    "dtype": (DTypeError, lambda v, how: v.update({k: x.double() for k, x in list(v.items())[1:2]})),
    "integers": (DTypeError, lambda v, how: v.update({k: x.int() for k, x in v.items()})),
    "state of another shape": (ShapeError, lambda v, how: how.update(initial=how["initial"][1:])),
    "state of another dtype": (DTypeError, lambda v, how: how.update(initial=how["initial"].bfloat16())),
    "packed in a batch of two": (ShapeError, lambda v, how: how.update(cu_seqlens=torch.tensor([0, 37]))),
    "packed short": (SegmentError, lambda v, how: one(v, how, [0, 30])),
    "packed late": (SegmentError, lambda v, how: one(v, how, [1, 37])),
    "packed unsorted": (SegmentError, lambda v, how: one(v, how, [0, 20, 10, 37])),
    "packed by fractions": (SegmentError, lambda v, how: one(v, how, [0.0, 37.0])),
}


def one(operands, how, cu):
    operands.update(at({v: x if v in CONSTANT else x[:1] for v, x in operands.items()}, slice(None)))
    how.update(cu_seqlens=torch.tensor(cu), initial=None)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "s5"])
def test_what_does_not_fit_is_refused(name, wrong):
    operands = given(name, torch.float32)
    how: dict[str, Any] = {"initial": start(name, operands, torch.float32, 2)}
    error, spoil = WRONG[wrong]
    spoil(operands, how)
    with pytest.raises(error):
        LAYERS[name].run(*operands.values(), **how)


@pytest.mark.parametrize("name", LAYERS)
def test_a_step_that_is_refused_leaves_the_state(name):
    dtype = torch.complex64 if name == "s5" else torch.float32
    operands = given(name, dtype)
    state = start(name, operands, dtype, 3)
    before = state.clone()
    with pytest.raises(ShapeError, match=r"state .*(shape|of) "):
        LAYERS[name].step(state, *at(operands, 0).values())
    assert torch.equal(state, before)


def test_nothing_as_wide_as_all_states_is_made():
    """With 64 states a channel, forward and backward take a few arrays of the input's size."""
    operands = given("selective_scan", torch.float32, batch=1, steps=512, channels=64, states=64)
    leaves = [x.requires_grad_() for x in operands.values()]
    with torch.profiler.profile(profile_memory=True) as profile:
        torch.autograd.grad(run_selective(*leaves).sum(), leaves)
    most = max(event.cpu_memory_usage for event in profile.events())
    assert most < 512 * 64 * 64 * 4 / 4
