"""The array API standard's text on `cumulative_sum` and `cumulative_prod`, as properties, for NumPy's and PyTorch's arrays.

array-api-tests is not on the package index; what it checks is written anew here from the standard (2024.12), section
"Utility and statistical functions": the result's shape and dtype, `include_initial`, the default axis, and each item as
the sum or product of the items up to it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import upsweep as up

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")
given, settings = hypothesis.given, hypothesis.settings

FUNCTIONS = {"sum": (up.cumulative_sum, np.add, 0), "prod": (up.cumulative_prod, np.multiply, 1)}
DTYPES = {"int8": "int64", "uint8": "uint64", "int64": "int64", "float32": "float32", "float64": "float64"}


def libraries():
    yield "numpy", np.asarray, np.asarray
    try:
        import torch
    except ImportError:
        return
    yield "torch", torch.from_numpy, lambda t: t.numpy()


LIBRARIES = {name: (enter, leave) for name, enter, leave in libraries()}


@st.composite
def cases(draw):
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    seed = draw(st.integers(0, 2**16))
    return tuple(shape), axis, seed, draw(st.booleans())


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=25, deadline=None)
@given(case=cases())
def test_shapes_dtypes_and_every_item(library, function, dtype, case):
    (shape, axis, seed, include), (enter, leave) = case, LIBRARIES[library]
    call, ufunc, first = FUNCTIONS[function]
    x = np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)
    result = call(enter(x), axis=axis, include_initial=include)
    assert type(result) is type(enter(x))
    got = leave(result)
    assert got.dtype == DTYPES[dtype]
    assert got.shape == tuple(n + (include and d == axis % len(shape)) for d, n in enumerate(shape))
    expected = ufunc.accumulate(x.astype(DTYPES[dtype]), axis=axis)
    if include:
        start = np.full([1 if d == axis % len(shape) else n for d, n in enumerate(shape)], first, got.dtype)
        expected = np.concatenate([start, expected], axis)
    np.testing.assert_array_equal(got, expected)  # small integers: exact in any order


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_floats_are_near_the_exact_value(function, values):
    call, _, first = FUNCTIONS[function]
    values = values if function == "sum" else [v / 1e6 for v in values]
    exact, size = Fraction(first), Fraction(first)
    for got, value in zip(call(np.array(values)).tolist(), values):
        exact = exact + Fraction(value) if function == "sum" else exact * Fraction(value)
        size = size + abs(Fraction(value)) if function == "sum" else abs(exact)
        assert abs(Fraction(got) - exact) <= size * Fraction(1, 2**47) + Fraction(1, 2**1060)


def test_the_axis_may_be_left_out_for_one_dimension_only():
    assert up.cumulative_sum(np.arange(4)).tolist() == [0, 1, 3, 6]
    for shape in ((), (2, 2)):
        with pytest.raises(up.ShapeError):
            up.cumulative_sum(np.ones(shape))


def test_a_dtype_is_what_it_says():
    assert up.cumulative_sum(np.ones(3, np.int8), dtype=np.int8).dtype == np.int8
    assert (
        up.cumulative_prod(np.ones(3, np.float32), dtype=np.float64, include_initial=True).dtype == np.float64
    )
