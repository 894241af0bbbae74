"""Box sums against NumPy's own sums of slices, and against SciPy's uniform filter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from scipy import ndimage

import upsweep as up
from portions import every
from upsweep.apps import SummedAreaTable, moving

RNG = np.random.default_rng(7)


SHAPES = [(9,), (1, 1), (5, 0), (13, 17), (40, 300), (6, 7, 8)]
OTHERS = ["uint16", "int64", "float32", "bool"]


@pytest.mark.parametrize(
    ("dtype", "shape"),
    # Bytes come in all shapes, each other dtype in every second one: a table is the same code, along each axis.
    every(
        3,
        [("uint8", shape) for shape in SHAPES]
        + [(dtype, shape) for k, dtype in enumerate(OTHERS) for shape in SHAPES[k % 2 :: 2]],
    ),
)
def test_any_box(apps, dtype, shape):
    x = RNG.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    corners = np.sort(RNG.integers(0, np.add(shape, 1), (2, 50, len(shape))), axis=0)
    table = apps.SummedAreaTable(x)
    sums = [x[tuple(map(slice, a, b))].sum(dtype=table.table.dtype) for a, b in zip(*corners)]
    np.testing.assert_array_equal(table.sum(*corners), sums)
    items = np.prod(corners[1] - corners[0], axis=1)
    np.testing.assert_array_equal(
        table.mean(*corners)[items > 0], np.array(sums, float)[items > 0] / items[items > 0]
    )
    assert np.isnan(table.mean(*corners)[items == 0]).all()


def test_a_box_that_fits_is_right_where_the_table_wraps(apps):
    x = np.full((4, 4), 2**62)
    assert apps.SummedAreaTable(x).sum((3, 3), (4, 4)) == 2**62


def test_narrow_floats_are_summed_in_float64():
    x = RNG.integers(0, 99, (5, 6))
    assert up.apps.SummedAreaTable(x.astype(ml_dtypes.bfloat16)).sum((1, 2), (4, 5)) == x[1:4, 2:5].sum()
    with pytest.raises(up.DTypeError, match="cannot be summed"):
        SummedAreaTable(np.zeros(3, "m8[s]"))


def test_means_are_a_uniform_filter(apps):
    x = RNG.random((50, 60)).astype(np.float32)
    start = np.stack(np.meshgrid(np.arange(46), np.arange(56), indexing="ij"), -1)
    want = ndimage.uniform_filter(x.astype(float), 5)[2:-2, 2:-2]
    np.testing.assert_allclose(apps.SummedAreaTable(x).mean(start, start + 5), want, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(9,), (5, 8), (4, 5, 6)])
def test_an_engine_adds_corners_as_array_expressions_do(monkeypatch, dtype, shape):
    table = (
        RNG.standard_normal(shape).astype(dtype) if dtype != "uint64" else RNG.integers(0, 99, shape, dtype)
    )
    starts = RNG.integers(-1, shape, (40_000, len(shape)))
    stops = np.minimum(starts + RNG.integers(-1, 4, starts.shape), shape)
    got = moving.boxes(np, table, starts, stops)
    monkeypatch.setattr(moving, "fast", lambda x: None)
    for a, b in zip(got, moving.boxes(np, table, starts, stops), strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    assert 0 < (got[1] < 0).sum() < len(starts)


def test_what_is_no_box_is_refused():
    table = SummedAreaTable(np.ones((3, 4)))
    for start, stop, error in [
        ((0, 0), (4, 4), IndexError), ((0.5, 0), (2, 2), up.DTypeError),
        ((-1, 0), (1, 1), IndexError), ((2, 2), (1, 3), IndexError), ((0,), (1,), up.ShapeError)
    ]:  # fmt: skip
        with pytest.raises(error):
            table.sum(start, stop)
    with pytest.raises(up.ShapeError):
        SummedAreaTable(3)
