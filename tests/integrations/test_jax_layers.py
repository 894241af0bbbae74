"""Layers of recurrent models in JAX: the bits and gradients are PyTorch's, within jit, vmap and packed. Operands that do not
fit are refused.
"""

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")

import jax.numpy as jnp  # noqa: E402

import upsweep.jax as uj  # noqa: E402
import upsweep.torch as ut  # noqa: E402
from portions import every  # noqa: E402
from upsweep.arguments import ShapeError  # noqa: E402
from upsweep.engine import DTypeError  # noqa: E402
from upsweep.segments import SegmentError  # noqa: E402

LAYERS = {
    "rg_lru": (("x", "input_gate", "recurrence_gate"), ("decay",)),
    "min_gru": (("x", "gate"), ()),
    "hgrn": (("x", "forget_gate"), ("lower_bound",)),
    "s5": (("x",), ("eigenvalues", "step")),
    "selective_scan": (("u", "delta", "B", "C", "z"), ("A", "D", "delta_bias")),
}
"""Each layer's operands with an item for each step, and its constants."""
STEPS = {name: name.replace("_scan", "") + "_step" for name in LAYERS}
CHANNELS, STATES = 21, 5
DTYPES = [
    pytest.param(d, marks=[pytest.mark.slow] if d == "float16" else [])
    for d in ("float32", "bfloat16", "float16")
]


@pytest.fixture(autouse=True)
def place(jax_device):
    """The default device of arrays."""
    with jax.default_device(jax_device):
        yield


def settled():
    """Values of Lambda whose softplus is the same number in both libraries: on others they differ in a place or two."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=CHANNELS).astype("f4")
    with jax.default_device(jax.devices("cpu")[0]):
        mine = jax.jit(jax.nn.softplus)
        while (
            other := np.asarray(mine(values)) != torch.nn.functional.softplus(torch.tensor(values)).numpy()
        ).any():
            values[other] = rng.normal(size=other.sum())
    return values


def given(name, dtype="float32", batch=2, steps=37):
    """The operands by name, as NumPy's arrays of float32, with numbers that `dtype` has too."""
    rng = np.random.default_rng(3)
    shapes = {"A": (CHANNELS, STATES), "B": (batch, steps, STATES), "C": (batch, steps, STATES)}
    along, constant = LAYERS[name]
    made = {v: rng.normal(size=shapes.get(v, (batch, steps, CHANNELS))) for v in along}
    made = {v: np.asarray(jnp.asarray(x, dtype).astype("float32")) for v, x in made.items()}
    made |= {v: rng.normal(size=shapes.get(v, CHANNELS)).astype("f4") for v in constant}
    fixed = {"decay": lambda x: settled(), "A": lambda x: -np.abs(x), "step": np.abs,
             # A bound beyond 1 makes states grow without end: sums of halves would be infinite.
             "lower_bound": lambda x: 1 / (1 + np.exp(-x)),
             "eigenvalues": lambda x: (-np.abs(x) + 1j * x).astype("c8"), "x": lambda x: x}  # fmt: skip
    made = {v: fixed.get(v, lambda x: x)(x) for v, x in made.items()}
    if name == "s5":
        made["x"] = (made["x"] + 0.5j).astype("c8")
    return made


def start(name, sequences):
    shape = (sequences, CHANNELS, STATES) if name == "selective_scan" else (sequences, CHANNELS)
    h = np.random.default_rng(4).normal(size=shape).astype("f4")
    return h.astype("c8") if name == "s5" else h


def jaxes(name, operands, dtype="float32"):
    varying = [] if name == "s5" else LAYERS[name][0]
    return {v: jnp.asarray(x).astype(dtype) if v in varying else jnp.asarray(x) for v, x in operands.items()}


def torches(name, operands, dtype, device):
    varying = [] if name == "s5" else LAYERS[name][0]
    made = {v: torch.tensor(x, device=device) for v, x in operands.items()}
    return {v: x.to(getattr(torch, dtype)) if v in varying else x for v, x in made.items()}


def how(name):
    return {"delta_softplus": True} if name == "selective_scan" else {}


def run(name, operands, **more):
    return getattr(uj, name)(**operands, **how(name), **more)


def plain(x):
    if isinstance(x, torch.Tensor):
        return x.detach().cpu().to(torch.float32 if x.is_floating_point() else x.dtype).numpy()
    return np.asarray(x if x.dtype.kind == "c" else x.astype("float32"))


def same(x, y):
    np.testing.assert_array_equal(plain(x), plain(y))


def near(x, y, far=2e-6):
    x, y = plain(x), plain(y)
    assert x.shape == y.shape
    assert np.abs(x - y).max() <= far * np.abs(y).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "s5"])
def test_bits_and_gradients_are_those_of_pytorch(name, dtype, device):
    operands, h = given(name, dtype), start(name, 2)
    leaves = torches(name, operands, dtype, device)
    mine = jaxes(name, operands, dtype)

    @jax.jit
    def f(operands, h):
        return run(name, operands, initial=h, return_state=True)

    (y, last), pull = jax.vjp(f, mine, jnp.asarray(h))
    state = torch.tensor(h, device=device)
    wanted = [x.requires_grad_() for x in (*leaves.values(), state)]
    want, want_last = getattr(ut, name)(**leaves, **how(name), initial=state, return_state=True)
    assert y.dtype == dtype
    same(y, want)
    same(last, want_last)
    g, g_last = given("min_gru", dtype)["x"], start(name, 2)
    given_back = torch.tensor(g, device=device).to(want.dtype), torch.tensor(g_last, device=device)
    got = pull((jnp.asarray(g, dtype), jnp.asarray(g_last)))
    grads = torch.autograd.grad((want, want_last), wanted, given_back)
    for v, d in zip((*leaves, "initial"), grads):
        mine_d = got[1] if v == "initial" else got[0][v]
        (same if v in (*LAYERS[name][0], "initial") else near)(mine_d, d)


def test_the_decay_of_s5_stays_as_small_as_it_is():
    x, eigenvalues = jnp.ones((2, 5, 3), "c8"), jnp.full(3, -1j)
    made = jax.make_jaxpr(uj.s5)(x, eigenvalues)
    assert [each.primitive.name for each in made.eqns if each.outvars[0].aval.shape == x.shape] == [
        "upsweep_recurrence"
    ]


def test_s5_is_pytorchs_but_for_its_exponentials(device):
    operands, h = given("s5"), start("s5", 2)
    leaves = torches("s5", operands, "float32", device)
    f = jax.jit(lambda operands, h: run("s5", operands, initial=h, return_state=True))
    got, pull = jax.vjp(f, jaxes("s5", operands), jnp.asarray(h))
    leaves = {v: x.requires_grad_() for v, x in leaves.items()}
    want = ut.s5(**leaves, initial=torch.tensor(h, device=device), return_state=True)
    for x, y in zip(got, want):
        near(x, y, 5e-6)
    into, _ = pull((jnp.ones_like(got[0]), jnp.zeros_like(got[1])))
    for v, d in zip(leaves, torch.autograd.grad(want[0].real.sum(), list(leaves.values()))):
        near(into[v].conj() if v != "step" else into[v], d, 1e-4)
    still = {"x": operands["x"], "eigenvalues": np.zeros_like(operands["eigenvalues"])}
    same(run("s5", jaxes("s5", still)), np.cumsum(operands["x"], 1))


def at(name, operands, part):
    return {v: x[:, part] if v in LAYERS[name][0] else x for v, x in operands.items()}


@pytest.mark.dear
@pytest.mark.parametrize("name", LAYERS)
def test_bits_do_not_depend_on_how_a_sequence_is_cut_packed_or_batched(name):
    operands, h = jaxes(name, given(name, steps=48)), jnp.asarray(start(name, 2))

    @jax.jit
    def f(operands, h, cu=None):
        return run(name, operands, initial=h, cu_seqlens=cu, return_state=True)

    whole, last = f(operands, h)
    first, between = f(at(name, operands, slice(0, 20)), h)
    rest, end = f(at(name, operands, slice(20, 48)), between)
    same(jnp.concatenate([first, rest], 1), whole)
    same(end, last)

    def step(state, t):
        items = {v: x[:, t] if v in LAYERS[name][0] else x for v, x in operands.items()}
        y, state = getattr(uj, STEPS[name])(state, **items, **how(name))
        return state, y

    end, ys = jax.lax.scan(step, h, jnp.arange(48))
    same(jnp.moveaxis(ys, 0, 1), whole)
    same(end, last)

    both = {
        v: x if v not in LAYERS[name][0] else jnp.concatenate([x[:1, :20], x[1:]], 1)
        for v, x in operands.items()
    }
    starts, cu = jnp.stack([h[0], h[0], h[1]]), jnp.array([0, 20, 20, 68])
    for packed in (
        f(both, starts, cu),
        run(name, both, initial=starts, cu_seqlens=np.asarray(cu), return_state=True),
    ):
        same(packed[0][0, :20], whole[0, :20])
        same(packed[0][0, 20:], whole[1])
        same(packed[1][1], h[0])
        same(packed[1][2], last[1])


@pytest.mark.parametrize("steps", [32, 37])
@pytest.mark.parametrize("name", every(3, LAYERS))
def test_a_batch_of_batches_is_each_batch(name, steps):
    """Gradients with the batch in front, of constants, of gradients alone (a Jacobian), and packed."""
    operands = jaxes(name, given(name, steps=steps))
    varying = {v: x for v, x in operands.items() if v in LAYERS[name][0]}
    fixed = {v: x for v, x in operands.items() if v not in LAYERS[name][0]}
    more = {v: jnp.stack([x, x[::-1], -x if v != "delta" else x]) for v, x in varying.items()}

    def f(varying, fixed, cu=None):
        return run(name, {**varying, **fixed}, cu_seqlens=cu)

    def slopes(varying, fixed):
        return jax.grad(lambda *p: (jnp.abs(f(*p)) ** 2).sum(), argnums=(0, 1))(varying, fixed)

    for function in (f, slopes):
        made, one = jax.jit(jax.vmap(function, in_axes=(0, None)))(more, fixed), jax.jit(function)
        for i in range(3):
            want = one({v: x[i] for v, x in more.items()}, fixed)
            for x, y in zip(jax.tree.leaves(made), jax.tree.leaves(want)):
                near(x[i], y)
    if fixed:
        each = {v: jnp.stack([x, x * 0.5]) for v, x in fixed.items()}
        made = jax.vmap(f, in_axes=(None, 0))(varying, each)
        for i in range(2):
            same(made[i], f(varying, {v: x[i] for v, x in each.items()}))
    alone = {v: x[:, :1] for v, x in more.items()}
    cu = jnp.array([0, 9, steps])
    made = jax.vmap(f, in_axes=(0, None, None))(alone, fixed, cu)
    for i in range(3):
        same(made[i], f({v: x[i] for v, x in alone.items()}, fixed, cu))
    y, pull = jax.vjp(lambda varying: f(varying, fixed), varying)
    several = jnp.stack([jnp.ones_like(y), 2 * jnp.ones_like(y)])
    made = jax.vmap(pull)(several)
    for i in range(2):
        for x, z in zip(jax.tree.leaves(made), jax.tree.leaves(pull(several[i]))):
            near(x[i], z)


@pytest.mark.parametrize("name", every(3, ["min_gru", "rg_lru", "hgrn"]))
def test_gradients_of_gradients_by_differences(name, wide):
    from jax.test_util import check_grads

    with wide:
        operands = {v: jnp.asarray(x[..., :2], "float64") for v, x in given(name, batch=1, steps=6).items()}
        h = jnp.asarray(start(name, 2)[:, :2], "float64")
        for cu, initial in ((None, h[:1]), (jnp.array([0, 4, 6]), h), (jnp.array([0, 4, 6]), None)):

            def f(operands, initial, cu=cu):
                return run(name, operands, initial=initial, cu_seqlens=cu, return_state=True)

            check_grads(f, (operands, initial), order=2, modes=["rev"])


def test_a_selective_scan_says_that_it_has_no_second_derivatives():
    operands = jaxes("selective_scan", given("selective_scan"))

    def slope(u):
        return jax.grad(lambda u: run("selective_scan", {**operands, "u": u}).sum())(u).sum()

    with pytest.raises(NotImplementedError, match="no second derivatives"):
        jax.grad(slope)(operands["u"])


@pytest.mark.parametrize("name", LAYERS)
def test_no_steps_leave_the_state(name):
    operands, varying = jaxes(name, given(name, steps=0)), LAYERS[name][0]
    y, last = run(name, operands, initial=jnp.asarray(start(name, 2)), return_state=True)
    assert y.shape == (2, 0, CHANNELS)
    same(last, start(name, 2))
    axes = ({v: 0 if v in varying else None for v in operands},)
    for size in (0, 3):
        several = {v: jnp.stack([x] * 3)[:size] if v in varying else x for v, x in operands.items()}
        ys = jax.vmap(lambda operands: run(name, operands), in_axes=axes)(several)
        assert ys.shape == (size, 2, 0, CHANNELS)


def test_offsets_that_are_traced_never_reach_beyond_the_steps():
    operands = jaxes("min_gru", given("min_gru", batch=1))
    f = jax.jit(lambda cu: run("min_gru", operands, cu_seqlens=cu))
    same(f(jnp.array([5, 30, 10, 99])), f(jnp.array([0, 30, 30, 37])))


WRONG = {
    "shape": (ShapeError, lambda v, how: v.update({k: x[:, 1:] for k, x in list(v.items())[1:2]})),
    "rank": (ShapeError, lambda v, how: v.update({k: x[0] for k, x in list(v.items())[:1]})),
    "dtype": (DTypeError, lambda v, how: v.update({k: x.astype("bfloat16") for k, x in list(v.items())[1:2]})),
    "integers": (DTypeError, lambda v, how: v.update({k: x.astype("int32") for k, x in v.items()})),
    "state of another shape": (ShapeError, lambda v, how: how.update(initial=how["initial"][1:])),
    "state of another dtype": (DTypeError, lambda v, how: how.update(initial=how["initial"].astype("bfloat16"))),
    "packed in a batch of two": (ShapeError, lambda v, how: how.update(cu_seqlens=[0, 37])),
    "packed short": (SegmentError, lambda v, how: one(v, how, [0, 30])),
    "packed late": (SegmentError, lambda v, how: one(v, how, [1, 37])),
    "packed unsorted": (SegmentError, lambda v, how: one(v, how, [0, 20, 10, 37])),
    "packed by fractions": (SegmentError, lambda v, how: one(v, how, [0.0, 37.0])),
}  # fmt: skip


def one(operands, how, cu):
    operands.update({v: x[:1] if x.ndim == 3 else x for v, x in operands.items()})
    how.update(cu_seqlens=cu, initial=None)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "s5"])
def test_what_does_not_fit_is_refused_in_pytorchs_words(name, wrong, device):
    error, spoil = WRONG[wrong]
    mine, more = jaxes(name, given(name)), {"initial": jnp.asarray(start(name, 2))}
    spoil(mine, more)
    with pytest.raises(error) as said:
        run(name, mine, **more)

    def tensor(x):
        return (
            x
            if x is None
            else torch.tensor(np.asarray(jnp.asarray(x, "float32"))).to(device, getattr(torch, str(x.dtype)))
        )

    theirs = {v: tensor(x) for v, x in mine.items()}
    more = {v: torch.tensor(x) if v == "cu_seqlens" else tensor(x) for v, x in more.items()}
    with pytest.raises(error) as says:
        getattr(ut, name)(**theirs, **how(name), **more)
    assert str(said.value) == str(says.value).replace("torch.", "")


@pytest.mark.parametrize("name", LAYERS)
def test_a_step_that_does_not_fit_is_refused(name):
    operands: Any = jaxes(name, given(name, batch=2))
    items = {v: x[:, 0] if v in LAYERS[name][0] else x for v, x in operands.items()}
    with pytest.raises(ShapeError):
        getattr(uj, STEPS[name])(jnp.asarray(start(name, 3)), **items)
    with pytest.raises(ShapeError, match="a step takes"):
        getattr(uj, STEPS[name])(jnp.asarray(start(name, 2)), **operands)
