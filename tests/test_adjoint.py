"""The gradients of a recurrence in order have the bits of the loop backwards, on every engine here."""

import numpy as np
import pytest

import upsweep as up
from upsweep import adjoint, recall
from upsweep import engine as engines
from upsweep.adjoint import recurrence_gradients


def backwards(g, a, before):
    """The loop along axis 0: `before` holds h[t-1]."""
    s, da, db = np.zeros_like(g[0]), np.empty_like(g), np.empty_like(g)
    for t in range(len(g) - 1, -1, -1):
        s = g[t] if t == len(g) - 1 else g[t] + a[t + 1] * s
        da[t], db[t] = s * before[t], s
    return da, db


@pytest.mark.parametrize("engine", ["cpu", "numpy"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((50, 33), 0), ((3, 40, 9), 1), ((5, 70), 1), ((7, 1), 1)])
def test_the_loop_backwards(shape, axis, reverse, engine, monkeypatch):
    monkeypatch.setattr(engines, "choose", lambda _: engine)
    rng = np.random.default_rng(1)
    g, a, b = (rng.standard_normal(shape).astype("f4") for _ in range(3))
    rows = (*shape[:axis], *shape[axis + 1 :])
    for start in (None, rng.standard_normal(rows).astype("f4")):
        h = up.linear_recurrence(a, b, axis=axis, initial=start, reverse=reverse, order="sequential")
        turned = [np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0) for x in (g, a, h)]
        first = np.zeros(rows, "f4") if start is None else start
        want = backwards(turned[0], turned[1], np.concatenate([first[None], turned[2][:-1]]))
        got = recurrence_gradients(g, a, h, axis=axis, reverse=reverse, initial=start)
        for x, y in zip(got, want):
            y = np.moveaxis(y, 0, axis)
            np.testing.assert_array_equal(x, np.flip(y, axis) if reverse else y)


def test_half_precision_is_rounded_once():
    rng = np.random.default_rng(2)
    g, a, h = (rng.standard_normal((60, 40)).astype("f2") for _ in range(3))
    before = np.concatenate([np.zeros((1, 40), "f2"), h[:-1]])
    want = backwards(g.astype("f4"), a.astype("f4"), before.astype("f4"))
    for x, y in zip(recurrence_gradients(g, a, h, axis=0), want):
        np.testing.assert_array_equal(x, y.astype("f2"))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_a_call_like_an_earlier_one_is_not_planned_again(reverse, dtype, monkeypatch):
    pytest.importorskip("numba")
    planned, plans = [], adjoint._run
    monkeypatch.setattr(adjoint, "_run", lambda *given: planned.append(given) or plans(*given))
    monkeypatch.setattr(recall, "known_calls", {})
    rng = np.random.default_rng(3)
    for start in (None, rng.standard_normal(6).astype("f4")):
        for turn in range(3):
            g, a, h = (rng.standard_normal((20, 6)).astype(dtype) for _ in range(3))
            start = start if start is None else start + np.float32(turn)
            got = recurrence_gradients(g, a, h, axis=0, reverse=reverse, initial=start)
            g, a, h = (np.flip(x.astype("f4"), 0) if reverse else x.astype("f4") for x in (g, a, h))
            first = np.zeros(6, "f4") if start is None else start
            for x, y in zip(got, backwards(g, a, np.concatenate([first[None], h[:-1]]))):
                np.testing.assert_array_equal(x, (np.flip(y, 0) if reverse else y).astype(dtype))
    assert len(planned) == 2
