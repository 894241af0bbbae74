"""An application whose call is like an earlier one begins behind its checks, with the same bits and the same errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import upsweep as up
from upsweep import recall
from upsweep.apps import repeated

RNG = np.random.default_rng(33)
SHAPE = (24, 5)
LAYOUTS = [np.ascontiguousarray, np.asfortranarray, lambda x: x[::-1], lambda x: x.astype("f4")]


CALLS = {
    "ema": lambda x, v, d: up.ema(x, 0.25, axis=0),
    "ema, initial": lambda x, v, d: up.ema(x, float(v[0, 0] % 1), axis=0, initial=float(v[1, 0])),
    "ema, weights": lambda x, v, d: up.ema(x, v**2 % 1, axis=0, order="sequential"),
    "ema, segments": lambda x, v, d: up.ema(x, 0.25, axis=0, segments=up.segments.flags(d)),
    "ema, halflife": lambda x, v, d: up.ema(x, halflife=float(v[0, 0] ** 2 + 1), axis=0),
    "ema, times": lambda x, v, d: up.ema(x, halflife=1.5, times=np.cumsum(v**2, 0)[:, 0], axis=0),
    "ema, times that fall": lambda x, v, d: up.ema(
        x, halflife=2, times=v - 50 * np.cumsum(d, 0), axis=0, segments=up.segments.flags(d | (np.diff(v, axis=0, prepend=0) < 0))
    ),
    "discounted_sum": lambda x, v, d: up.discounted_sum(x, 0.9, axis=0),
    "discounted_sum, dones": lambda x, v, d: up.discounted_sum(x, 0.9, d, axis=0, initial=v[0]),
    "discounted_sum, dones of all": lambda x, v, d: up.discounted_sum(x, v, d[:, 0].astype("u1"), axis=0, initial=2.0),
    "gae": lambda x, v, d: up.gae(x, v, float(v[2, 2]), d, gamma=float(v[0, 0]), lam=0.9, axis=0),
    "gae, rows": lambda x, v, d: up.gae(x, v, v[3], None, gamma=0.9, lam=1, axis=0),
    "gae, sequential": lambda x, v, d: up.gae(x, v, 1.0, d, gamma=0.9, lam=0.5, axis=0, order="sequential"),
    "lfilter": lambda x, v, d: up.lfilter([0.5, 0.25], [1.0, -0.5], x, 0),
    "lfilter, rows": lambda x, v, d: up.lfilter(np.array([0.0, 1.0]), [2.0, 0.0, 0.5], x, order="sequential"),
    "lfilter, more zeros than poles": lambda x, v, d: up.lfilter([1.0, 0.5, 0.25], [1.0, 0.5], x[:, 0]),
    "lfilter, one row": lambda x, v, d: up.lfilter([1.0], [1.0, 0.5, 0.25], x[:, 1]),
    "gae, next": lambda x, v, d: up.gae(
        x, v, dones=d, gamma=0.9, lam=0.5, axis=0, next_values=v[::-1], truncated=d[::-1]
    ),
}  # fmt: skip


def afresh(call, *given):
    known = dict(recall.known_calls)
    recall.forget()
    try:
        return call(*given)
    finally:
        recall.forget()
        recall.known_calls.update(known)


def drawn():
    return RNG.standard_normal(SHAPE), RNG.standard_normal(SHAPE), RNG.random(SHAPE) < 0.2


@pytest.mark.parametrize("name", CALLS)
def test_the_same_bits_without_checks(name, monkeypatch):
    recall.forget()
    checked, execute, enter = [], recall.execute, repeated.enter
    for layout in LAYOUTS:
        for k in range(4):
            x, v, d = drawn()
            x = layout(x)
            want = afresh(CALLS[name], x, v, d)
            with monkeypatch.context() as patch:
                patch.setattr(recall, "execute", lambda *given: checked.append(1) or execute(*given))
                patch.setattr(
                    repeated, "enter", lambda *given, **how: checked.append(1) or enter(*given, **how)
                )
                checked.clear()
                got = CALLS[name](x, v, d)
            # What a scan needs that is made within is learnt in the second call.
            assert not (k > 1 and checked)
            assert got.dtype == want.dtype
            assert got.strides == want.strides
            assert got.tobytes() == want.tobytes()


def test_a_mistake_after_a_call_like_it_raises():
    x, v, d = drawn()
    up.ema(x, halflife=1.0, times=np.arange(24.0), axis=0)
    with pytest.raises(ValueError, match="times fall"):
        up.ema(x, halflife=1.0, times=-np.arange(24.0), axis=0)
    up.ema(x, 0.5, axis=0)
    for alpha, axis in ((1.5, 0), (0.5, 2), (0.5, 0.0), (0.5, None)):
        with pytest.raises(ValueError, match=r"alpha|axis|dimensions"):
            up.ema(x, alpha, axis=axis)
    small = x.astype("f4")
    up.discounted_sum(small, 0.5, d, axis=0, initial=1.0)
    for gamma, dones, initial, error in (
        (0.5j, d, 1.0, up.DTypeError), (0.5, d, 1e300, up.DTypeError), (0.5, d[1:], 1.0, up.ShapeError),
        (0.5, d.astype("M8[s]"), 1.0, up.DTypeError), (1e300, d, 1.0, up.DTypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            up.discounted_sum(small, gamma, dones, axis=0, initial=initial)
    up.gae(x, v, 0.0, d, gamma=0.9, lam=0.9, axis=0)
    for how, error in (
        ({"order": "tre"}, ValueError),
        ({"next_values": v}, ValueError),
        ({"axis": -3}, up.ShapeError),
    ):
        with pytest.raises(error):
            up.gae(x, v, 0.0, d, gamma=0.9, lam=0.9, **{"axis": 0, **how})


def test_two_threads_make_the_same_call():
    draws = [drawn() for _ in range(2)]
    wants = [CALLS["gae"](*given) for given in draws]
    recall.forget()
    wrong = []

    def work(given, want):
        wrong.extend(given for _ in range(200) if CALLS["gae"](*given).tobytes() != want.tobytes())

    threads = [threading.Thread(target=work, args=both) for both in zip(draws, wants)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
