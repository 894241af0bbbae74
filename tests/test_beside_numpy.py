"""Where a result is NumPy's own, and where it differs on purpose: docs/determinism.md says why."""

import itertools
import math

import numpy as np
import pytest

import upsweep as up
from portions import every

UFUNCS = [np.add, np.multiply, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor]


@pytest.mark.parametrize("ufunc", every(3, UFUNCS), ids=lambda u: u.__name__)
def test_in_order_and_in_place_a_scan_is_accumulate(ufunc):
    for size in (2, 8, 300):
        for dtype in ("i4", "f8") if ufunc in UFUNCS[:4] else ("i4",):
            x = np.array([0, 1, 2] * size).astype(dtype)
            want = np.array(list(itertools.accumulate(x, ufunc)), dtype)
            y = x.copy()
            assert up.scan(y, ufunc, order="sequential", out=y) is y
            np.testing.assert_array_equal(y, want)
            np.testing.assert_array_equal(ufunc.accumulate(x), want)


def test_logaddexp_has_arithmetic_of_its_own():
    x = np.array([0.0, 1.0, 2.0] * 64)
    y = up.scan(x, np.logaddexp, order="sequential")
    np.testing.assert_allclose(y, np.logaddexp.accumulate(x), rtol=1e-15)
    np.testing.assert_allclose(y[-1], math.log(64 * (1 + math.e + math.e**2)), rtol=1e-15)


def test_an_out_that_would_need_an_unsafe_cast_is_refused():
    x = np.ones(5)
    np.testing.assert_array_equal(np.cumsum(x, dtype="i8"), np.arange(1, 6))
    with pytest.raises(up.DTypeError, match="convert the array first"):
        up.cumulative_sum(x, dtype="i8")
    with pytest.raises(up.OutputError, match="cannot hold"):
        up.scan(x, out=np.zeros(5, "i4"))


def test_a_nan_stays_unless_it_is_replaced():
    x = np.array([1.0, np.nan, 3.0])
    assert np.isnan(up.cumulative_sum(x)[1:]).all()
    np.testing.assert_array_equal(up.cumulative_sum(np.nan_to_num(x)), np.nancumsum(x))
    np.testing.assert_array_equal(up.cumulative_prod(np.nan_to_num(x, nan=1.0)), np.nancumprod(x))


def test_a_block_may_overflow_where_the_loop_does_not():
    x = np.array([0.0, 1e200, 1e200, 1e200])
    assert np.isnan(up.cumulative_prod(x)[-1])
    np.testing.assert_array_equal(up.cumulative_prod(x, order="sequential"), np.cumprod(x))
