"""A small scan that is like an earlier one goes a shorter way, to the same bits and the same errors."""

import numpy as np
import pytest

import upsweep as up
from table import CASES
from upsweep import recall

HASH = CASES["hash-u64"]
(X,) = HASH.draw((24, 36))
FORMS = [{}, {"reverse": True}, {"exclusive": True}, {"exclusive": True, "reverse": True}]
LAYOUTS = [lambda a: a, lambda a: a.T, lambda a: a[::-1, ::2], lambda a: a[3:4, :17]]


def the_long_way(x, op, **how):
    """A scan is remembered without `threads`."""
    return up.scan(x, op, threads=1, **how)


@pytest.fixture(autouse=True)
def unknown():
    recall.known_scans.clear()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_same_bits(form):
    op = up.Operator(HASH.op.fn, identity=0)
    for layout in LAYOUTS:
        for axis in (0, 1):
            want = the_long_way(layout(X), op, axis=axis, **form)
            for again in range(3):
                x = layout(X + np.uint64(again)) if again == 1 else layout(X)
                np.testing.assert_array_equal(
                    up.scan(x, op, axis=axis, **form),
                    the_long_way(x, op, axis=axis, **form) if again == 1 else want,
                )
                out = layout(np.full_like(X, 77))
                assert up.scan(layout(X), op, axis=axis, out=out, **form) is out
                np.testing.assert_array_equal(out, want)
    assert recall.known_scans


def test_an_identity_that_is_not_zero():
    x = np.arange(1.0, 9.0)
    for _ in range(3):
        assert up.scan(x, "mul", exclusive=True).tolist() == [1, 1, 2, 6, 24, 120, 720, 5040]
        # This call leaves other data in scratch memory.
        up.scan(x + 1e300)


@pytest.mark.parametrize("by", [0, 1, 7, 64])
def test_overlapping_memory(by):
    x = np.random.default_rng(1).normal(size=500)
    want = up.scan(x)
    for _ in range(3):
        both = np.concatenate([x, np.zeros(64)])
        up.scan(both[:500], out=both[by : by + 500])
        np.testing.assert_array_equal(both[by : by + 500], want)


def test_errors_stay():
    x, out = np.arange(9.0), np.zeros(9)
    for _ in range(3):
        up.scan(x, out=out)
    out.flags.writeable = False
    with pytest.raises(up.OutputError):
        up.scan(x, out=out)
    with pytest.raises(up.ShapeError):
        up.scan(x, axis=1)
    with pytest.raises(up.ShapeError):
        up.scan(x, axis=0.0)
    with pytest.raises(up.OperatorError, match="no operator"):
        up.scan(x, "ad")


def test_a_function_that_changes_is_looked_at():
    x = np.ones(3)
    for factor in (2.0, 3.0):
        assert up.scan(x, lambda a, b, f=factor: a * f + b)[1] == factor + 1
