"""argmax and argmin of pairs (value, index): one of the items, the first of equals or of NaNs, with its own bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upsweep as up
from conformance.memory import POISON

VALUES = ["f4", "f8", "i4", "i8", "u1", "u2", "i1"]
LENGTHS = [1, 2, 15, 31, 33, 64, 129, 255, 259, 1000, 4099, 33_001]


def drawn(rng: np.random.Generator, kind: str, n: int, dtype: str) -> np.ndarray:
    d = np.dtype(dtype)
    if kind == "few":
        # Zeros have either sign.
        return (rng.integers(0, 3, n) * (rng.choice([-1.0, 1.0], n) if d.kind == "f" else 1)).astype(d)
    low, high = (-1000, 1000) if d.kind == "f" else (np.iinfo(d).min, np.iinfo(d).max)
    x = rng.integers(low, high, n, endpoint=True).astype(d)
    if kind == "rising":
        return np.sort(x)
    if kind == "NaN" and d.kind == "f":
        bits = x.view(f"u{d.itemsize}")
        # NaNs differ in their signs and payloads; the second is a signalling one.
        quiet = np.array(np.nan, d).view(bits.dtype)
        for k, payload in zip(rng.integers(n // 2, n, 3), (7, 9, 11)):
            bits[k] = (quiet | bits.dtype.type(payload)) ^ bits.dtype.type(payload % 2 << 8 * d.itemsize - 1)
        bits[n // 2] = np.array(np.inf, d).view(bits.dtype) | bits.dtype.type(1)
    return x


def chosen(x: np.ndarray, larger: bool) -> np.ndarray:
    """The place of each prefix's item, by a loop."""
    places, at = [], 0
    for k, v in enumerate(x.tolist()):
        best = x[at].item()
        keeps = best >= v if larger else best <= v
        at = at if k == 0 or keeps or best != best else k
        places.append(at)
    return np.array(places)


def poisoned(n: int, dtype: str) -> np.ndarray:
    return np.frombuffer(bytes([POISON]) * (n * np.dtype(dtype).itemsize), dtype).copy()


@pytest.mark.parametrize("kind", ["any", "few", "rising", "NaN"])
@pytest.mark.parametrize(("dtype", "index"), [(d, "i8" if k % 2 else "i4") for k, d in enumerate(VALUES)])
def test_a_row(dtype, index, kind):
    rng = np.random.default_rng(3)
    for n in LENGTHS:
        x, i = drawn(rng, kind, n, dtype), rng.integers(0, 100, n).astype(index)
        for op, reverse in (("argmax", False), ("argmin", False), ("argmax", True)):
            at = chosen(x[::-1], op == "argmax") if reverse else chosen(x, op == "argmax")
            at = n - 1 - at[::-1] if reverse else at
            last = at[0] if reverse else at[-1]
            around = poisoned(n + 9, dtype), poisoned(n + 9, index)
            up.scan((x, i), op, out=tuple([y[3 : n + 3] for y in around]), reverse=reverse, threads=1)
            for y, source in zip(around, (x, i)):
                want = poisoned(n + 9, y.dtype.str)
                want[3 : n + 3] = source[at]
                assert y.tobytes() == want.tobytes(), (n, op, reverse)
            made = up.reduce((x, i), op, reverse=reverse, threads=1)
            assert [np.asarray(m).tobytes() for m in made] == [x[last].tobytes(), i[last].tobytes()], (n, op)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["any", "rising", "NaN"])
def test_tiles_past_the_cache(kind, threads):
    n = (1 << 21) + 77
    x, i = drawn(np.random.default_rng(4), kind, n, "f4"), np.arange(n)
    at = _fast(x)
    for made in (
        up.scan((x, i), "argmax", threads=threads),
        up.scan((x.copy(), i), "argmax", threads=threads),
    ):
        assert made[0].tobytes() == x[at].tobytes()
        assert made[1].tobytes() == at.tobytes()
    assert up.reduce((x, i), "argmax", threads=threads)[1] == at[-1]


def _fast(x: np.ndarray) -> np.ndarray:
    """As `chosen`, of many floats."""
    key = np.where(np.isnan(x), np.float32(np.inf), x)
    before = np.append(-np.inf, np.maximum.accumulate(key)[:-1])
    return np.maximum.accumulate(np.where(key > before, np.arange(len(x)), 0))


FORMS: dict[str, dict[str, Any]] = {
    "initial": {"initial": (np.float32(40), np.int64(-1))},
    "exclusive": {"exclusive": True, "initial": (np.float32(40), np.int64(-1))},
    "a NaN before": {"initial": (np.float32("nan"), np.int64(-1))},
}


@pytest.mark.dear
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(700,), (40, 100), (100, 40), (9, 31, 65)])
def test_what_stands_before_a_row(form, shape):
    rng = np.random.default_rng(5)
    x, i = rng.integers(-50, 50, shape).astype("f4"), rng.integers(0, 99, shape)
    for axis in range(len(shape)):
        for given in (x, x[..., ::-1], np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2]):
            made = up.scan((given, i), "argmax", axis=axis, engine="cpu", **FORMS[form])
            want = up.scan((given, i), "argmax", axis=axis, engine="numpy", **FORMS[form])
            for y, w in zip(made, want):
                assert y.tobytes() == w.tobytes()


def test_in_place_and_one_component_alone():
    x, i = np.random.default_rng(6).normal(size=5000), np.arange(5000)
    want = up.scan((x, i), "argmax", engine="numpy")
    y, j = x.copy(), i.copy()
    up.scan((y, j), "argmax", out=(y, j))
    np.testing.assert_array_equal(j, want[1])
    np.testing.assert_array_equal(y, want[0])
    mapped = up.scan(x, "argmax", map=lambda v, k: (v, k), finish=lambda p: p[1])
    np.testing.assert_array_equal(mapped, want[1])


@pytest.mark.parametrize("engine", ["cpu", "numpy"])
def test_every_order_is_the_same(engine):
    rng = np.random.default_rng(7)
    x, i = drawn(rng, "NaN", 3001, "f8"), rng.integers(0, 9, 3001)
    made = (up.scan((x, i), "argmin", order=order, engine=engine) for order in ("tree", "sequential"))
    assert len({(y.tobytes(), j.tobytes()) for y, j in made}) == 1
