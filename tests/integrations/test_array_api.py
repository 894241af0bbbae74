"""The array API standard's text on `cumulative_sum` and `cumulative_prod`, as properties, for arrays of every library here.

array-api-tests is not on the package index. Its checks are written anew here from the standard (2024.12), section "Utility and
statistical functions", sentence by sentence.
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
DTYPES = {
    "int8": "int64", "int16": "int64", "int32": "int64", "int64": "int64",
    "uint8": "uint64", "uint16": "uint64", "uint32": "uint64", "uint64": "uint64",
    "float32": "float32", "float64": "float64", "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip
"""The dtypes that follow from "the returned array must have the same data type as x, unless", where the default integer is
int64.
"""


def libraries():
    yield "numpy", np.asarray, np.asarray
    try:
        import torch
    except ImportError:
        pass
    else:
        yield "torch", torch.from_numpy, lambda t: t.numpy()
        if torch.cuda.is_available():
            yield "torch on a GPU", lambda x: torch.from_numpy(x).cuda(), lambda t: t.cpu().numpy()
    try:
        import cupy
    except ImportError:
        return
    yield "cupy", cupy.asarray, cupy.asnumpy


LIBRARIES = {name: (enter, leave) for name, enter, leave in libraries()}


@st.composite
def cases(draw):
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    seed = draw(st.integers(0, 2**16))
    return tuple(shape), axis, seed, draw(st.booleans())


def expectation(function, x, axis, include, dtype):
    _, ufunc, first = FUNCTIONS[function]
    got = ufunc.accumulate(x.astype(dtype), axis=axis, dtype=dtype)
    start = np.full([1 if d == axis % x.ndim else n for d, n in enumerate(x.shape)], first, got.dtype)
    return np.concatenate([start, got], axis) if include else got


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float32", "float64"])
@settings(max_examples=25)
@given(case=cases())
def test_shapes_dtypes_and_every_item(library, function, dtype, case):
    (shape, axis, seed, include), (enter, leave) = case, LIBRARIES[library]
    x = np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)
    result = FUNCTIONS[function][0](enter(x), axis=axis, include_initial=include)
    assert type(result) is type(enter(x))
    expected = expectation(function, x, axis, include, DTYPES[dtype])
    # Small integers: sums are exact in any order.
    np.testing.assert_array_equal(leave(result), expected, strict=True)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dtype_follows_from_that_of_x(library, dtype):
    enter, leave = LIBRARIES[library]
    x = np.array([[3, 1, 2], [0, 4, 5]], dtype)
    got = leave(up.cumulative_sum(enter(x), axis=1))
    np.testing.assert_array_equal(got, expectation("sum", x, 1, False, DTYPES[dtype]), strict=True)


@pytest.mark.dear
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("include", [False, True])
def test_x_is_cast_to_a_given_dtype_before_anything_is_added(library, include):
    enter, leave = LIBRARIES[library]
    for have, want in (("int8", "int16"), ("int8", "float32"), ("float32", "float64"), ("int64", "int8")):
        # 300 is too large for int8, and 2^24 + 1 for float32.
        x = np.array([100, 100, 100], have)
        x = x + np.array(2**24, have) if have == "float32" else x
        given_as = getattr(__import__("torch"), want) if library.startswith("torch") else np.dtype(want)
        got = leave(up.cumulative_sum(enter(x), dtype=given_as, include_initial=include))
        with np.errstate(over="ignore"):
            expected = expectation("sum", x, 0, include, want)
        np.testing.assert_array_equal(got, expected, strict=True)


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=25)
@given(values=st.lists(st.sampled_from(SPECIAL), min_size=1, max_size=20))
def test_special_cases_are_those_of_successive_application(library, function, values):
    enter, leave = LIBRARIES[library]
    with np.errstate(invalid="ignore"):
        expected = FUNCTIONS[function][1].accumulate(np.array(values))
    got = leave(FUNCTIONS[function][0](enter(np.array(values))))
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=25)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_floats_are_near_the_exact_value(function, values):
    call, _, first = FUNCTIONS[function]
    values = values if function == "sum" else [v / 1e6 for v in values]
    exact, size = Fraction(first), Fraction(first)
    for got, value in zip(call(np.array(values)).tolist(), values):
        exact = exact + Fraction(value) if function == "sum" else exact * Fraction(value)
        size = size + abs(Fraction(value)) if function == "sum" else abs(exact)
        assert abs(Fraction(got) - exact) <= size * Fraction(1, 2**47) + Fraction(1, 2**1060)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_axis_may_be_left_out_for_one_dimension_only(function):
    call = FUNCTIONS[function][0]
    np.testing.assert_array_equal(call(np.arange(4)), call(np.arange(4), axis=0))
    # What is remembered of a call must not serve a value that only compares equal.
    call(np.ones((2, 2)), axis=1)
    for shape, keywords in (
        ((), {}),
        ((), {"axis": 0}),
        ((2, 2), {}),
        ((2, 2), {"axis": 2}),
        ((2, 2), {"axis": -3}),
        ((2, 2), {"axis": 1.0}),
    ):
        for include in (False, True):
            with pytest.raises(up.ShapeError):
                call(np.ones(shape), include_initial=include, **keywords)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_x_is_positional_and_the_rest_is_named(function):
    call = FUNCTIONS[function][0]
    with pytest.raises(TypeError):
        call(x=np.ones(2))
    with pytest.raises(TypeError):
        call(np.ones(2), 0)
