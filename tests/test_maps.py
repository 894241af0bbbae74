"""Maps and finishes: bit for bit `finish(scan(map(xs)))` in three steps, whatever the engine, the layout and the dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up

ENGINES = ["numpy", "cpu"]
P, Q, R = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)


def hashing(a, b):
    """Not associative: equal results mean equal trees."""
    x = a * P
    return ((x << np.uint64(7)) | (x >> np.uint64(57))) ^ (b * Q + R)


def mixed(x, y):
    return np.uint64(x) * P ^ np.uint64(y)


def mixed_arrays(x, y):
    return x.astype("u8") * P ^ y.astype("u8")


def shown(p, x, y, i):
    return p ^ np.uint64(i), p > np.uint64(2**63), np.float32(x) - np.float32(i)


def shown_arrays(p, x, y, i):
    i = np.broadcast_to(i, p.shape)
    return p ^ i.astype("u8"), p > np.uint64(2**63), x.astype("f4") - i.astype("f4")


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def places(shape, axis):
    return np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])


FORMS = [
    {},
    {"reverse": True},
    {"exclusive": True, "initial": np.uint64(7)},
    {"initial": np.uint64(9), "order": "sequential"},
    {"reverse": True, "exclusive": True, "initial": np.uint64(3), "order": "sequential"},
    {"segments": True},
    {"segments": True, "initial": np.uint64(5), "reverse": True},
    {"segments": True, "exclusive": True, "initial": np.uint64(5), "order": "sequential"},
    {"threads": 3},
]
SHAPES = [
    ((1,), 0), ((15,), 0), ((300,), 0), ((4097,), 0), ((9001,), 0), ((5, 300), 1), ((40, 17), 1), ((300, 7), 0), ((33, 130), 0),
    ((3, 20, 70), 1), ((2, 5, 64), 0), ((0, 3), 1), ((0, 3), 0),
]  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(form) or "plain")
def test_three_steps_in_one(rng, engine, form):
    for shape, axis in SHAPES:
        x, y = rng.integers(-100, 100, shape).astype("i2"), rng.integers(0, 100, shape[-1:]).astype("u1")
        how = dict(form, axis=axis, engine=engine)
        if "segments" in how:
            how["segments"] = up.segments.flags(rng.random(shape) < 0.1)
        prefixes = up.scan(mixed_arrays(*np.broadcast_arrays(x, y)), hashing, **how)
        want = shown_arrays(prefixes, x, y, places(shape, axis))
        got = up.scan((x, y), hashing, map=mixed, finish=shown, **how)
        for g, w in zip(got, want, strict=True):
            assert g.dtype == w.dtype
            np.testing.assert_array_equal(g, w, str(shape))
        alone = up.scan((x, y), hashing, map=mixed, **how)
        np.testing.assert_array_equal(alone, prefixes)
