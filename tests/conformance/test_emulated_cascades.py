"""A cascade of sections on a GPU has the processor's bits, on a machine without a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

from portions import every
from upsweep.apps.sections import sectioned
from upsweep.cpu import cascades as host
from upsweep.gpu import cascades, compile

RNG = np.random.default_rng(16)
TILE = 128


@pytest.fixture
def small(emulated, monkeypatch):
    """Tiles of 128 items."""
    monkeypatch.setattr(cascades, "SHAPES", [cascades.Shape(1, 4, 1, 1, 1)])
    monkeypatch.setattr(cascades, "pays", lambda sections, n, shape: True)
    return emulated


def sections_of(b, a):
    return sectioned(tuple(map(complex, b)), tuple(map(complex, a)))[1]


def lasting(*angles):
    """Sections whose poles lie on the unit circle: no item is ever forgotten."""
    poles = [p for angle in angles for p in ([1.0] if angle == 0 else np.exp([1j * angle, -1j * angle]))]
    return sections_of([0.25, 0.5], np.poly(poles).real)


def same(on, sections, x, dtype="float64"):
    """Whether the bits are the processor's; NaN has no sign that counts."""
    want = host.cascade(sections, dtype, "tree")(x)
    got = on.host(cascades.cascade(sections, dtype, "tree")(on.value(x)))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    bits, there = f"u{want.itemsize}", ~np.isnan(want)
    return np.array_equal(np.isnan(got), ~there) and np.array_equal(
        got.view(bits)[there], want.view(bits)[there]
    )


# Of 70 tiles, 64 are two groups; the latter is near to those behind it.
@pytest.mark.parametrize("shape", every(2, [(2, 3, TILE + 1), (TILE // 2,), (70 * TILE - 3,)]))
def test_a_cascade_has_the_bits_of_the_processor(small, shape):
    assert same(small, lasting(0, 0.7), RNG.standard_normal(shape))


def test_more_sections_than_a_launch_takes(small):
    x = RNG.standard_normal((2, 3 * TILE)).astype(np.float32)
    sections = lasting(0, 0.4, 0.9, 1.6, 2.5)
    assert len(sections) > cascades.MOST
    assert same(small, sections, x, "float32")


@pytest.mark.parametrize("a", every(3, [[1.0, -1e200], [1.0, 0.0, 1e300], [1.0, 0.3, 0.9]]))
def test_signs_of_zeros_and_what_overflows(small, a):
    x = RNG.choice([0.0, -0.0, 1.0, -1.0, np.inf, np.nan], (2, 300), p=[0.45, 0.45, *[0.025] * 4])
    x[:, :200] = RNG.choice([0.0, -0.0], (2, 200))
    with np.errstate(all="ignore"):
        assert same(small, sections_of([1.0, -1.0], a), x)


def test_rows_that_lie_otherwise_are_left_to_scans(small):
    sections, x = sections_of(*signal.butter(2, 0.3)), RNG.standard_normal((4, 2 * TILE))
    for left in (x.T, x[:, ::2], x.reshape(2, 2, -1).swapaxes(0, 1), x[:, ::-1]):
        assert cascades.cascade(sections, "float64", "tree")(small.made(left)) is None
    assert cascades.cascade(sections, "float64", "sequential")(small.made(x)) is None
    assert cascades.cascade(sections, "float64", "tree")(small.made(x[::2, 1:])) is not None


def test_filters_that_scans_are_faster_for():
    short, long = cascades.SHAPES
    lengths = [(n, short) for n in (short.tile // 2 - 1, short.tile // 2, short.tile)]
    lengths += [(n, long) for n in (2 * long.tile, 2 * long.tile + 1, (1 << 33) - 1, 1 << 33)]
    for poles, wanted in (
        ([0, 0.7], [False, True, True, True, True, True, False]),
        ([0.7], [False, False, True, True, False, False, False]),
        ([0], [False] * 7),
    ):
        sections = lasting(*poles)
        assert [cascades.pays(sections, n, shape) for n, shape in lengths] == wanted


def test_a_power_of_another_level_is_found(small, monkeypatch):
    whole = compile.text
    monkeypatch.setattr(
        compile, "text", lambda *what: whole(*what).replace("TILE_LEVEL + 5 * level", "TILE_LEVEL")
    )
    assert not same(small, lasting(0.7), RNG.standard_normal(66 * TILE))
