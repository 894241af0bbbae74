"""A number beside half precision keeps its digits: the bits are those of float32, rounded where results are stored."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import upsweep as up
from upsweep.recall import run

HALVES = ["f2", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
ORDERS = ["tree", "sequential"]
NUMBERS = [0.999, 0.9990234, -0.9995]
"""Of which bfloat16 and floats of eight bits make 1 or -1, and float16 other numbers."""


def drawn(half, shape=(5, 300)):
    return (np.random.default_rng(0).normal(size=shape) / 4).astype(half)


def rounded(number, half):
    return np.float32(np.asarray(number, half))


def looped(a, b):
    """The loop `h = a h + b` along the last axis, in float32, before it is stored."""
    a, h, states = np.float32(a), np.zeros(b.shape[:-1], "f4"), []
    for t in range(b.shape[-1]):
        h = a * h + b[..., t].astype("f4")
        states.append(h)
    return np.stack(states, -1)


def same(got, want):
    assert got.dtype == want.dtype
    assert np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("engine", ["cpu", "numpy"])
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("half", HALVES)
def test_a_recurrence_has_the_bits_of_the_loop(half, number, engine):
    b = drawn(half)
    want = looped(number, b).astype(half)
    assert (want != looped(rounded(number, half), b).astype(half)).any()
    for a in (number, np.float32(number), np.array(number, "f4"), np.float64(number), [number]):
        for x, axis, reverse, h in ((b, 1, False, want), (b.T[::-1], 0, True, want.T[::-1])):
            same(
                run(
                    (a, x), up.ops.AFFINE, axis, False, reverse, None, None, None, None, engine, None, False, (1,),
                    "sequential",
                ),
                h,
            )  # fmt: skip


@pytest.mark.dear
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("half", HALVES[:2])
def test_numbers_of_applications_have_the_bits_of_float32(half, order):
    x, dones = drawn(half), np.arange(300) % 70 == 50
    wide = x.astype("f4")
    calls = (
        lambda x: up.linear_recurrence(0.999, x, axis=1, initial=0.3, order=order),
        lambda x: up.linear_recurrence(0.999, x, axis=1, segments=up.segments.flags(dones), order=order),
        lambda x: up.discounted_sum(x, 0.999, axis=1, order=order),
        lambda x: up.discounted_sum(x, np.float32(0.999), dones, axis=1, initial=0.3, order=order),
        lambda x: up.discounted_sum(x, np.full(300, 0.999, "f4"), dones, axis=1, initial=np.full(5, 0.3, "f4"), order=order),
        lambda x: up.ema(x, 0.001, axis=1, order=order),
        lambda x: up.ema(x, 0.001, axis=1, initial=0.3, order=order),
        lambda x: up.ema(x, np.full((5, 1), 0.001), axis=1, order=order),
        lambda x: up.ema(x, halflife=700, axis=1, order=order),
    )  # fmt: skip
    # Each call meets each order and each of the two.
    for call in calls[(ORDERS.index(order) + HALVES.index(half)) % 2 :: 2]:
        same(call(x), call(wide).astype(half))


@pytest.mark.parametrize("half", HALVES[:2])
def test_token_by_token_and_in_streams(half):
    b = drawn(half)
    want = up.linear_recurrence(0.999, b, axis=1, order="sequential")
    state, tokens = np.zeros((5, 1), "f4"), []
    for t in range(300):
        state = up.linear_recurrence(
            0.999,
            b[:, t : t + 1],
            initial=state[:, 0],
            axis=1,
            out=np.empty((5, 1), "f4"),
            order="sequential",
        )
        tokens.append(state.astype(half))
    same(np.concatenate(tokens, 1), want)
    for order in ORDERS:
        stream = up.Stream("affine", axis=1, order=order, map=decayed)
        chunks = [stream.push((x, 0.999))[1] for x in np.split(b, [1, 2, 40, 217], 1)]
        whole = up.linear_recurrence(0.999, b, axis=1, order=order)
        same(np.concatenate(chunks, 1).astype(half), whole)


def decayed(x, gamma):
    return gamma, x


def test_what_float32_does_not_hold_is_refused():
    b = drawn("f2")
    for call in (
        lambda: up.linear_recurrence(1e60, b, axis=1),
        lambda: up.linear_recurrence(0.5j, b, axis=1),
    ):
        with pytest.raises(up.DTypeError, match="pass one that is, or b"):
            call()
    # The largest float16 is 65504.
    same(up.linear_recurrence(-7e4, b[:, :2], axis=1), looped(-7e4, b[:, :2]).astype("f2"))
