"""An engine's own sums of shifted items have the bits of NumPy's, a piece at a time."""

from __future__ import annotations

import numpy as np
import pytest
from layouts import LAYOUTS

from upsweep.apps import filters

RNG = np.random.default_rng(22)


def same_bits(got, want):
    """NaN has no bits that count."""
    there = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~there)
    np.testing.assert_array_equal(got[there].view(np.uint64), want[there].view(np.uint64))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (40, 3), (3, 5000), (600, 50), (3, 50_000), (50_000, 3)])
@pytest.mark.parametrize("count", [1, 2, 4, 5, 17])
def test_shifted_sums_have_the_bits_of_numpys(layout, shape, count, monkeypatch):
    """Rows end within a block of items, and within what a thread takes."""
    b = RNG.standard_normal(count).tolist()
    x = LAYOUTS[layout](RNG.choice([0.0, -0.0, 1.5, -np.inf, 1e308, 1e-308, np.pi], shape))
    with np.errstate(all="ignore"):
        got = filters.lfilter(b, [1.0], x)
        monkeypatch.setattr(filters, "loops", lambda name: None)
        same_bits(got, filters.lfilter(b, [1.0], x))


@pytest.mark.parametrize("piece", [1, 7, 64])
def test_pieces_and_states_change_nothing(piece, monkeypatch):
    b, a = [0.5, 0.25, -1.0, 3.0], [1.0, -0.5, 0.25]
    x, zi = RNG.standard_normal((100, 3)), RNG.standard_normal((3, 3))
    want = filters.lfilter(b, a, x, 0, zi)
    monkeypatch.setattr(filters, "loops", lambda name: None)
    monkeypatch.setattr(filters, "_AT_ONCE_NEAR", piece)
    for g, w in zip(filters.lfilter(b, a, x, 0, zi), want, strict=True):
        same_bits(g, w)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 50])
def test_the_last_state_has_the_bits_of_numpys(layout, n, monkeypatch):
    """More items than the state has values, and fewer; more zeros than poles, and fewer."""
    x = LAYOUTS[layout](RNG.choice([0.0, -0.0, 1.5, -np.inf, 1e308, 1e-308, np.pi], (3, n)))
    for b, a in [
        ([2.0], [1.0]),
        ([1.0, 3.0], [2.0]),
        ([0.1], [1.0, -0.5, 0.25, 3.0]),
        ([1.0, 2, 3, 4], [1.0, -0.1, 0.7]),
    ]:
        zi = RNG.standard_normal((*x.shape[:-1], max(len(a), len(b)) - 1))
        with np.errstate(all="ignore"), monkeypatch.context() as patch:
            got = filters.lfilter(b, a, x, zi=zi)
            patch.setattr(filters, "loops", lambda name: None)
            for g, w in zip(got, filters.lfilter(b, a, x, zi=zi), strict=True):
                same_bits(g, w)


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 50, 5000])
def test_a_row_from_a_state_has_the_bits_of_its_steps(n, order, monkeypatch):
    """The sums of its items, its sections and its last state, one behind the other."""
    values = [0.0, -0.0, 1.5, -np.inf, 1e308, 1e-308, np.pi]
    for row in (RNG.choice(values, n), RNG.choice(values, 2 * n)[::-2], RNG.standard_normal(n).astype("f4")):
        for b, a in [
            ([2.0], [1.0]),
            ([1.0, 3.0, -2.0], [2.0]),
            ([0.1], [1, -0.5, 0.25, 0.1]),
            ([1.0, -0.0], [1.0, 0.5, 0.7]),
        ]:
            zi = RNG.standard_normal(2 * max(len(a), len(b)) - 2)[::2].astype(row.dtype)
            with np.errstate(all="ignore"), monkeypatch.context() as patch:
                got = filters.lfilter(b, a, row, zi=zi, order=order)
                patch.setattr(filters, "loops", lambda name: None)
                for g, w in zip(got, filters.lfilter(b, a, row, zi=zi, order=order), strict=True):
                    assert g.dtype == w.dtype
                    same_bits(g.astype("f8"), w.astype("f8"))
