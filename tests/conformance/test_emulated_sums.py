"""Gradients of a multiplier that broadcasts are summed by the scan that makes them, in the CUDA engine's own kernels."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up
from portions import every
from upsweep import summed
from upsweep.adjoint import gradient_and_sums
from upsweep.dtypes import accumulator, named
from upsweep.gpu.summing import RUNS as RUN_ITEMS
from upsweep.summed import scan_and_sums

RUNS = [
    ("float32", (2, 128, 70), 1, False),
    ("bfloat16", (96, 64), 0, True),
    ("float16", (256, 333), 0, False),
    ("bfloat16", (3, 77, 11), 1, False),
    ("float32", (131, 64), 0, True),
    ("bfloat16", (1200, 37), 1, False),
    ("float32", (3, 500), 1, True),
    ("float32", (2, 4099), 1, False),
    ("bfloat16", (133, 4099), 1, True),
]
ALONG = {(1200, 37): "rows", (3, 500): "rows", (2, 4099): "rows", (133, 4099): "tiles"}
LINES = [
    ("float32", (2, 70, 96), 1, False),
    ("bfloat16", (100, 64), 0, True),
    ("float32", (2, 50, 70), 1, False),
    ("bfloat16", (61, 2, 101), 0, True),
]


def cut(x, items):
    """x in parts of so many items along the first axis, zeros behind its last item; first the items of a part."""
    more = np.zeros((-len(x) % items, *x.shape[1:]), x.dtype)
    return np.moveaxis(np.concatenate([x, more]).reshape(-1, items, *x.shape[1:]), 1, 0)


def tree(x):
    """The balanced tree over the first axis."""
    while len(x) > 1:
        x = x[::2] + x[1::2]
    return x[0]


def case(name, shape, axis, across):
    """The gradient that comes in, the multiplier as it is stored, and states."""
    rng, dtype = np.random.default_rng(1), named(name)
    g, before = (rng.uniform(-1, 1, shape).astype("f4").astype(dtype) for _ in range(2))
    whole = (*shape[:-1], 1) if across or axis == len(shape) - 1 else shape[-1:]
    return g, rng.random(whole).astype("f4").astype(dtype), before


def run(emulated, g, a, before, axis, reverse, across, order="tree"):
    how = {"axis": axis, "reverse": reverse, "order": order, "segments": None, "across": across}
    made = gradient_and_sums(emulated.value(g), emulated.value(a), emulated.value(before), 0.5, None, **how)
    return made and tuple(map(emulated.host, made))


def expected(g, a, before, axis, reverse, order="tree"):
    """The gradient of b, and its products with the states, of which the first is 0.5, in the accumulator's dtype."""
    wide = accumulator(g.dtype)
    s = up.linear_recurrence(
        np.broadcast_to(a.astype(wide), g.shape), g.astype(wide), axis=axis, reverse=not reverse, order=order
    )
    states = np.moveaxis(before.astype(wide), axis, 0).copy()
    states[-1 if reverse else 0] = 0.5
    return s, s * np.moveaxis(states, 0, axis)


@pytest.mark.parametrize(("name", "shape", "axis", "reverse"), every(6, RUNS))
def test_runs_are_summed_by_the_tree(emulated, name, shape, axis, reverse):
    given = case(name, shape, axis, False)
    db, sums = run(emulated, *given, axis, reverse, False)
    assert f"upsweep_{ALONG.get(shape, 'columns')}" in emulated.gpu.loaded
    s, products = expected(*given, axis, reverse)
    assert db.tobytes() == s.astype(db.dtype).tobytes()
    # The scan goes against the recurrence.
    order = products if reverse else np.flip(products, axis)
    items = next(items for items in RUN_ITEMS if -(-shape[axis] // items) == sums.shape[axis])
    want = np.moveaxis(tree(cut(np.moveaxis(order, axis, 0), items)), 0, axis)
    assert np.array_equal(sums, want if reverse else np.flip(want, axis))


@pytest.mark.parametrize(("name", "shape", "axis", "reverse"), every(4, LINES))
def test_neighbouring_columns_are_summed_by_the_tree(emulated, name, shape, axis, reverse):
    given = case(name, shape, axis, True)
    db, sums = run(emulated, *given, axis, reverse, True)
    s, products = expected(*given, axis, reverse)
    assert db.tobytes() == s.astype(db.dtype).tobytes()
    assert np.array_equal(sums, np.moveaxis(tree(cut(np.moveaxis(products, -1, 0), 32)), 0, -1))


def test_later_calls_are_neither_checked_nor_planned(emulated, monkeypatch):
    name, shape = "bfloat16", (96, 64)
    g, a, before = case(name, shape, 0, False)
    left = case("float32", (7, 64), 0, False)
    run(emulated, g, a, before, 0, True, False)
    run(emulated, *left, 0, False, False)
    monkeypatch.setattr(summed, "_run", None)
    given = np.flip(g, 0).copy(), a, np.flip(before, 1).copy()
    db, sums = run(emulated, *given, 0, True, False)
    s, products = expected(*given, 0, True)
    assert db.tobytes() == s.astype(db.dtype).tobytes()
    assert np.array_equal(sums, tree(cut(products, -(-96 // len(sums)))))
    assert run(emulated, *left, 0, False, False) is None


IN_ORDER = [
    ("float32", (2, 300, 64), 1, False),
    ("float32", (150, 12300), 0, True),
    ("bfloat16", (2, 200, 64), 1, True),
    ("bfloat16", (140, 2560), 0, False),
    ("float32", (200, 37), 0, False),
    ("float16", (70, 200), 1, False),
]


@pytest.mark.parametrize(("name", "shape", "axis", "reverse"), every(6, IN_ORDER))
def test_runs_are_summed_in_order(emulated, name, shape, axis, reverse):
    given = case(name, shape, axis, False)
    db, sums = run(emulated, *given, axis, reverse, False, "sequential")
    assert "upsweep_walk" in emulated.gpu.loaded
    s, products = expected(*given, axis, reverse, "sequential")
    assert db.tobytes() == s.astype(db.dtype).tobytes()
    products = np.moveaxis(products if reverse else np.flip(products, axis), axis, 0)
    items = next(items for items in RUN_ITEMS if -(-shape[axis] // items) == sums.shape[axis])
    want = np.add.accumulate(cut(products, items))[-1]
    assert np.array_equal(np.moveaxis(sums if reverse else np.flip(sums, axis), axis, 0), want)


LEFT = [
    ((7, 64), 0, False),
    ((64, 16), 0, True),
    ((40, 3), 1, False),
    ((40, 64), 1, True),
    ((0, 64), 0, False),
]


@pytest.mark.parametrize(("shape", "axis", "across"), LEFT)
def test_other_rows_are_left_to_two_passes(emulated, shape, axis, across):
    """Rows shorter than a run, lines of which several share a warp, and neighbours that are a row."""
    assert run(emulated, *case("float32", shape, axis, across), axis, False, across) is None


def test_double_precision_is_left_to_two_passes(emulated):
    assert run(emulated, *case("float64", (64, 64), 0, True), 0, False, True) is None


def test_other_engines_are_left_to_two_passes():
    g = np.ones((64, 64), "f4")
    assert (
        gradient_and_sums(
            g, g, g, 0.0, None, axis=0, reverse=False, order="tree", segments=None, across=False
        )
        is None
    )


def emulating(emulated, fn, ran):
    """A function of PyTorch's tensors in this machine's memory, which are copied to where the kernels run, and back."""
    import torch

    def there(x):
        if not isinstance(x, torch.Tensor):
            return x
        words = x.contiguous().view({1: torch.int8, 2: torch.int16, 4: torch.int32}[x.itemsize]).numpy()
        return emulated.value(words.view(named(str(x.dtype).removeprefix("torch."))))

    def back(y):
        y = torch.from_numpy(emulated.host(y).view(f"i{y.dtype.itemsize}").copy())
        return y.view(torch.bfloat16 if y.itemsize == 2 else torch.float32)

    def run(*given, segments, **how):
        given = [tuple(map(there, x)) if isinstance(x, tuple) else there(x) for x in given]
        segments = segments and up.segments.flags(there(segments.values))
        made = fn(*given, segments=segments, **how)
        ran.append(made is not None)
        return made and tuple(map(back, made))

    return run


KINDS = [
    ((), "float32", 1),
    ((64,), "bfloat16", 1),
    ((2, 64, 1), "float32", 1),
    ((64, 1), "bfloat16", 1),
    ((64, 1), "bfloat16", 2),
    ((), "float32", 2),
]
CLOSE = {"float32": {"rtol": 2e-5, "atol": 1e-4}, "bfloat16": {"rtol": 2e-2, "atol": 5e-2}}


@pytest.mark.parametrize(("shape", "dtype", "axis"), every(6, KINDS))
def test_gradients_of_recurrences_are_those_of_two_passes(emulated, shape, dtype, axis, monkeypatch):
    torch = pytest.importorskip("torch")
    import upsweep.torch as ut
    import upsweep.torch.adjoint as rules

    ran = []
    torch.manual_seed(0)
    kind, packing = getattr(torch, dtype), up.segments.flags(torch.rand(64) < 0.1)
    for reverse, initial, segments in ((False, None, packing), (True, torch.rand(2, 64), None)):
        a = torch.rand(shape).to(kind).requires_grad_()
        b, g = torch.randn(2, 64, 64).to(kind).requires_grad_(), torch.randn(2, 64, 64).to(kind)
        y = ut.linear_recurrence(a, b, axis=axis, reverse=reverse, initial=initial, segments=segments)
        want = torch.autograd.grad(y, (a, b), g, retain_graph=True)
        with monkeypatch.context() as patch:
            patch.setattr(rules, "gradient_and_sums", emulating(emulated, gradient_and_sums, ran))
            got = torch.autograd.grad(y, (a, b), g)
        assert torch.equal(got[1], want[1])
        assert got[0].dtype == want[0].dtype
        torch.testing.assert_close(got[0], want[0], **CLOSE[dtype])
    assert ran == [True] * 2


@pytest.mark.parametrize(("shape", "dtype", "axis"), every(6, [*KINDS[1:3], KINDS[-1]]))
def test_gradients_of_averages_are_those_of_whole_arrays(emulated, shape, dtype, axis, monkeypatch):
    torch = pytest.importorskip("torch")
    import upsweep.torch as ut
    import upsweep.torch.average_gradients as rules
    from upsweep import recall

    ran = []
    torch.manual_seed(0)
    packing = up.segments.flags(torch.rand(64) < 0.1)
    for initial, segments in ((None, packing), (torch.rand(2, 64), None)):
        alpha = torch.rand(shape).requires_grad_()
        x, g = (torch.randn(2, 64, 64).to(getattr(torch, dtype)) for _ in range(2))
        x.requires_grad_()
        y = ut.ema(x, alpha=alpha, axis=axis, initial=initial, segments=segments)
        want = torch.autograd.grad(y, (alpha, x), g, retain_graph=True)
        with monkeypatch.context() as patch:
            patch.setattr(rules, "scan_and_sums", emulating(emulated, scan_and_sums, ran))
            patch.setattr(rules, "sums_of", lambda _: True)
            patch.setattr(recall, "known_calls", {})
            got = torch.autograd.grad(y, (alpha, x), g)
        assert torch.equal(got[1], want[1])
        assert got[0].dtype == want[0].dtype
        torch.testing.assert_close(got[0], want[0], **CLOSE[dtype])
    assert ran == [True] * 2
