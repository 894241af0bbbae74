"""What is at the edge of an application's domain: a value that is right, or an error of ours that names the mistake."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import upsweep as up
from upsweep import apps

X, KEEP = np.array([1.0, 2.0, 3.0]), np.array([True, False, True])
BFLOAT, HALF, OBJECTS = X.astype(ml_dtypes.bfloat16), X.astype(np.float16), np.array([1, 2, 3], object)
REFUSED = {
    "a size below 0": (lambda: apps.compact(X, KEEP, size=-1), up.ShapeError, "size=-1"),
    "half a size": (lambda: apps.where(KEEP, size=1.5), up.ShapeError, r"size=1\.5"),
    "a size for runs": (lambda: apps.run_length_encode(X, size="a"), up.ShapeError, "size='a'"),
    "no flags": (lambda: apps.compact(X, None), up.DTypeError, "keep must be boolean, got None"),
    "flags of a table": (lambda: apps.where(np.ones((3, 2), bool)), up.ShapeError, "keep must be 1-D"),
    "a state of other rows": (
        lambda: up.lfilter([1.0], [1.0, 0.5], np.ones((2, 3, 4)), axis=1, zi=[1.0]), up.ShapeError, r"need shape \(2, 1, 4\)",
    ),
    "no coefficients": (lambda: apps.polyval(None, X), up.DTypeError, "p is None: pass the coefficients"),
    "nothing to keep": (lambda: apps.compact(None, [True]), up.EngineError, "NoneType is no array"),
    "no digits": (lambda: apps.carry_lookahead_add(None, [1]), up.EngineError, "NoneType is no array"),
    "nothing beside a matrix": (lambda: apps.viterbi(None, np.eye(2), X), up.DTypeError, "a model must hold real"),
    "no band": (lambda: apps.solve_tridiagonal(None, X, X, X), up.DTypeError, "must hold real numbers, got None"),
    "no transition": (lambda: apps.kalman_filter(np.ones((3, 1)), None, *[X] * 5), up.DTypeError, "got None"),
    "no lengths": (lambda: apps.run_length_decode(X, None), up.DTypeError, "lengths must be integers, got None"),
    "half a bin": (lambda: apps.histogram([0, 1, 2], 2.5), up.ShapeError, r"bins=2\.5"),
    "bins below 0": (lambda: apps.histogram([], -1), up.ShapeError, "bins=-1"),
    "ranges": (lambda: apps.RangeHistogram([0], 3).count([0, 1, 1], [2, 2]), up.ShapeError, "do not broadcast"),
    "weights": (lambda: up.ema(X, [[0.5, 0.5, 0.5]]), up.ShapeError, r"\(1, 3\) cannot be broadcast to shape \(3,\)"),
    "what comes after": (lambda: up.discounted_sum(X, 0.5, KEEP, initial=[1.0]), up.ShapeError, "one a row"),
    "flags that are text": (lambda: up.discounted_sum(X, 0.5, ["False"] * 3), up.DTypeError, "flags must be"),
    "flags that are objects": (
        lambda: up.gae(X, X, 0.0, np.array([True, None, False], object), gamma=0.9, lam=0.9), up.DTypeError, "flags must be",
    ),
    "objects": (lambda: up.discounted_sum(OBJECTS, 0.5, KEEP, initial=0), up.DTypeError, "object cannot be scanned"),
    "objects, times": (lambda: up.ema(OBJECTS, halflife=1, times=X), up.DTypeError, "object cannot be scanned"),
    "two half precisions": (
        lambda: up.gae(BFLOAT, HALF, 0.0, gamma=0.9, lam=0.9), up.DTypeError, "no dtype holds bfloat16 and float16",
    ),
    "two half precisions, polynomial": (lambda: apps.polyval(BFLOAT, HALF), up.DTypeError, "no dtype holds"),
    "a quotient too large": (lambda: up.lfilter([1.0], [1e-320, 1.0], X), ValueError, r"divided by a\[0\], is not finite"),
    "coefficients": (lambda: apps.linear_recurrence([[1.0]], X), up.ShapeError, "coefficients must be 1-D"),
    "an unsigned parent": (lambda: apps.Tree(np.array([2**64 - 1], "u8")), ValueError, "each parent must be a node"),
    "a frame of text": (lambda: apps.decompress("abc"), apps.CompressionError, "str is no frame"),
    "a frame of nothing": (lambda: apps.decompress(1 << 60), apps.CompressionError, "int is no frame"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_is_said(mistake):
    call, error, words = REFUSED[mistake]
    with pytest.raises(error, match=words):
        call()


def test_coefficients_of_narrow_integers_do_not_wrap():
    """Nor do truths lack a negative."""
    c, before = np.array([200], "u1"), np.array([200], "u1")
    assert apps.linear_recurrence(c, [1.0, 1.0], initial=before).tolist() == [40001, 8000201]
    assert apps.linear_recurrence(np.array([-128], "i1"), [1.0, 1.0]).tolist() == [1, -127]
    assert apps.linear_recurrence([True], X).tolist() == [1, 3, 6]


def test_nothing_is_a_sequence_too():
    assert apps.linear_recurrence([], X, initial=[]).tolist() == [1, 2, 3]
    assert apps.allocate([]).tolist() == [0]
    assert [part.tolist() for part in apps.expand([])] == [[], []]
    assert apps.run_length_decode([], []).tolist() == []
    assert apps.histogram([], np.int8(2)).tolist() == [0, 0]


def test_bytes_that_lie_apart_are_compressed():
    assert apps.decompress(apps.compress(memoryview(b"abcdef")[::2])) == b"ace"


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("other", [np.matrix, lambda x: x.astype(x.dtype.newbyteorder())])
def test_items_of_a_matrix_and_in_another_order_of_bytes_are_items(other):
    rows = np.array([[4.0, 1.0], [1.0, 3.0]])
    for call in (
        lambda x: apps.solve_tridiagonal(x, x + 5, x, x),
        lambda x: apps.kalman_filter(rows, x, x, x, x, np.ones(2), x)[1],
        lambda x: apps.viterbi(rows[0], x, x)[1],
        lambda x: apps.run_length_encode(x)[0],
        lambda x: apps.histogram(x.astype(int), 5),
        lambda x: apps.ema(rows, x, axis=0),
    ):
        np.testing.assert_array_equal(call(other(rows)), call(rows))
