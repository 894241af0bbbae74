"""An engine's own cascade of sections has the bits of a scan for each of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import LAYOUTS
from scipy import signal

import upsweep as up
from upsweep import recall
from upsweep.apps import filters
from upsweep.cpu import cascades

RNG = np.random.default_rng(15)


def both(b, a, x, order):
    """The bits of the engine's cascade, and of scans. Every dtype is computed in float64: scans of that alone are compiled."""
    got = up.lfilter(b, a, x, order=order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "cascades", lambda name: None)
        patch.setattr(recall, "known_calls", {})
        want = up.lfilter(b, a, x.astype(np.float64), order=order)
    want = want.astype(np.result_type(x, np.asarray(b), np.asarray(a)))
    assert got.dtype == want.dtype
    return [np.ascontiguousarray(v).view(f"u{v.itemsize}") for v in (got, want)]


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=10)
@given(
    st.integers(1, 70),
    st.sampled_from([0, 1, 2, 63, 64, 65, 700, 2047, 2049, 4200]),
    st.sampled_from(["float32", "float64", "int16"]),
    st.sampled_from([1, 2, 5]),
)
def test_cascades_have_the_bits_of_scans(layout, order, rows, n, dtype, sections):
    b, a = signal.butter(sections, 0.3)
    x = LAYOUTS[layout]((RNG.standard_normal((rows, n)) * 100).astype(dtype))
    np.testing.assert_array_equal(*both(b, a, x, order))


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("shape", [(1, 5000), (40, 1500), (40, 5000)])
@pytest.mark.parametrize("a", [[1.0, -0.5], [1.0, 0.3, 0.9], [1.0, -1e200], [1.0, 0.0, 1e300]])
def test_signs_of_zeros_and_what_overflows(a, shape, order):
    x = RNG.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], shape, p=[0.45, 0.45, *[0.02] * 5])
    x[:, :200] = RNG.choice([0.0, -0.0], (len(x), 200))
    with np.errstate(all="ignore"):
        got, want = (v.view(np.float64) for v in both([1.0, -1.0], a, x, order))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    there = ~np.isnan(got)  # NaN has no sign that counts
    np.testing.assert_array_equal(got.view(np.uint64)[there], want.view(np.uint64)[there])


def test_float32_is_computed_in_float64():
    b, a = (v.astype(np.float32) for v in signal.butter(4, 0.2))
    x = RNG.standard_normal(5000).astype(np.float32)
    want = up.lfilter(b, a, x.astype(np.float64)).astype(np.float32)
    got = both(b, a, x, "tree")
    np.testing.assert_array_equal(got, [want.view(np.uint32)] * 2)


@pytest.mark.parametrize(
    "x", [RNG.standard_normal((1, 20_000)), RNG.standard_normal((20_000, 8)).T], ids=["along", "beside"]
)
def test_far_items_count_where_poles_lie_on_the_unit_circle(x):
    """Poles within it forget: the sum of a far block may then be wrong, and no bit of a result changes."""
    a = np.poly(np.exp([0, 0.7j, -0.7j, 2j, -2j])).real
    np.testing.assert_array_equal(*both([0.25, 0.5], a, x, "tree"))


def test_long_rows_on_a_gpu_have_the_bits_of_the_processor(cuda):
    """Poles on the unit circle forget nothing, so that a sum of 1024 tiles that is wrong is seen in all items behind it."""
    torch = pytest.importorskip("torch")
    a = np.poly(np.exp([0, 0.7j, -0.7j, 2j, -2j])).real
    x = RNG.standard_normal((1 << 23) + 5)
    want = up.lfilter([0.25, 0.5], a, x)
    for _ in range(3):
        got = up.lfilter([0.25, 0.5], a, torch.asarray(x, device="cuda"))
        np.testing.assert_array_equal(got.cpu().numpy().view("u8"), want.view("u8"))


def test_what_may_be_written_to_is_not_compiled_for_once_more():
    """Nor is a filter of one section, whose numbers lie side by side in the memory of those that were given."""

    def known():
        return [set(function.signatures) for function in (cascades._along, cascades._filtered)]

    def filtered(*a):
        up.lfilter([1.0, 0.5], a, x)
        up.lfilter([1.0, 0.5], a, x, zi=np.ones(len(a) - 1))

    x = np.arange(99.0)
    filtered(1, -0.5, 0.1)
    first = known()
    assert all(first)
    filtered(1, -0.5)
    x.flags.writeable = False
    filtered(1, -0.5)
    assert known() == first
