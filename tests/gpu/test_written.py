"""Python functions as C++: the lines that are written, and what is left to numba-cuda."""

from __future__ import annotations

import math
from itertools import count

import numpy as np
import pytest

from upsweep.arithmetic import fma
from upsweep.gpu.functions import handed_on
from upsweep.gpu.written import Unwritten, written
from upsweep.operator import Operator
from upsweep.operators import ADJOINT
from upsweep.plan import Plan

ONE, HALF, SEVEN, TABLE = np.float32(1), 0.5, np.int32(7), np.ones(3)


def lines(fn, names, results=None, operands=2):
    dtypes, places = [np.dtype(name) for name in names], (f"p{k}" for k in count())
    given = [[(d, next(places)) for d in dtypes] for _ in range(operands)]
    return written(fn, given, [(np.dtype(d), next(places)) for d in results or names])


def _twice(x, times=2):
    return x * times


def _clipped(x):
    return 0.0 if x < 0 else x


def _chosen(a, b):
    factor = 0.1 if a > b else a
    return factor * b


WRITTEN = {
    "a sum": (lambda a, b: a + b * a, ["f4"], "const f32 t0 = p1 * p0; const f32 t1 = p0 + t0; p2 = t1;"),
    "a number takes the dtype beside it": (
        lambda a, b: a * HALF - b, ["f4"], "const f32 t0 = p0 * (f32)0x1.0000000000000p-1; const f32 t1 = t0 - p1; p2 = t1;",
    ),
    "integers wrap": (lambda a, b: a - b, ["i8"], "const i64 t0 = (i64)((u64)(p0) - (u64)(p1)); p2 = t0;"),
    "a wider dtype": (
        lambda a, b: (a[0] + b[0], a[1] + a[0] * b[1]), ["i4", "f8"],
        "const i32 t0 = (i32)((u32)(p0) + (u32)(p2)); const f64 t1 = (f64)(p0) * p3; const f64 t2 = p1 + t1; p4 = t0; p5 = t2;",
    ),
    "a question": (
        lambda a, b: a if a >= b else -b, ["f8"],
        "const bool t0 = p0 >= p1; if (t0) { p2 = p0; } else { const f64 t1 = (f64)-0.0 - p1; p2 = t1; }",
    ),
    "a number on one path": (
        lambda a, b: _clipped(a) + b, ["f4"],
        "const bool t0 = p0 < (f32)0x0.0p+0; if (t0) { const f32 t1 = (f32)0x0.0p+0 + p1; p2 = t1; } "
        "else { const f32 t1 = p0 + p1; p2 = t1; }",
    ),
    "the first of equal ones": (
        lambda a, b: max(a, b), ["f4"], "const f32 t0 = p1 > p0 ? p1 : p0; p2 = t0;",
    ),
    "a power": (
        lambda a, b: a**3 + b, ["f4"], "const f32 t0 = p0 * p0; const f32 t1 = p0 * t0; const f32 t2 = t1 + p1; p2 = t2;",
    ),
    "functions": (
        lambda a, b: fma(_twice(a), np.float32(b), np.sqrt(ONE * b)), ["f4"],
        "const f32 t0 = p0 * (f32)0x1.0000000000000p+1; const f32 t1 = p1; const f32 t2 = (f32)0x1.0000000000000p+0 * p1; "
        "const f32 t3 = sqrt(t2); const f32 t4 = fma(t0, t1, t3); p2 = t4;",
    ),
    "the bits of a float": (
        lambda a, b: (np.float32(a).view(np.int32) << SEVEN).view(np.float32) * b, ["f4"],
        "const f32 t0 = p0; const i32 t1 = __float_as_int(t0); const i32 t2 = (i32)((u32)(t1) << (i32)7ull); "
        "const f32 t3 = __int_as_float(t2); const f32 t4 = t3 * p1; p2 = t4;",
    ),
    "truths": (
        lambda a, b: (a | b) & ~a, ["?"], "const bool t0 = p0 || p1; const bool t1 = !p0; const bool t2 = t0 && t1; p2 = t2;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_plain_arithmetic_is_written(name):
    fn, names, text = WRITTEN[name]
    assert lines(fn, names) == text


# One instruction for both paths: Python repeats a short end in each of them.
def _wider(a, b):
    x = np.float64(a) if a > b else b
    y = np.float32(x * b)
    for _ in range(2):
        y = y * b
    return y


def _truth(a, b):
    x = (a > b) if a > 0 else a
    y = np.float32(x + b)
    for _ in range(2):
        y = y * b
    return y


def _loops(a, b):
    while a > b:
        a = a - b
    return a


def _forks(a, b):
    for _ in range(9):
        a = a + b if a > b else a - b
    return a


def _calls_itself(a, b):
    return a if a > b else _calls_itself(b, a)


def _swallows(a, b):
    try:
        return math.exp(a)
    except:  # noqa: E722
        return b


UNWRITTEN = {
    "a function of math": lambda a, b: a + math.exp(b),
    "a division of Python's numbers": lambda a, b: a * (HALF / SEVEN) + b,
    "a print": lambda a, b: print(a) or b,
    "a table": lambda a, b, table=TABLE: a + table[1] * b,
    "a loop that hangs on a value": _loops,
    "a function that calls itself": _calls_itself,
    "another dtype on another path": _wider,
    "a truth where another path has a number": _truth,
    "a result of a wider kind": lambda a, b: np.float64(a) * 1j,
    "a complex number": lambda a, b: a * 1j,
    "too large a number for its dtype": lambda a, b: a * (2**60 + 1) + b,
    "a power of a float": lambda a, b: a**0.5 + b,
    "a whole number of a float": lambda a, b: np.int32(a) + b,
    "two results": lambda a, b: (a, b),
    "too many paths": _forks,
    "an exception that it takes": _swallows,
    "a shift by a value": lambda a, b: np.int32(7) << b,
    "a shift out of the integer": lambda a, b: (np.float32(a).view(np.int32) << 32).view(np.float32),
    "bits of another size": lambda a, b: np.float32(a).view(np.int16) + b,
    "an error of its own": lambda a, b: a + b.missing,
}  # fmt: skip


@pytest.mark.parametrize("name", UNWRITTEN)
def test_what_else_a_function_does_is_left_to_the_compiler(name):
    with pytest.raises(Unwritten):
        lines(UNWRITTEN[name], ["f4"])


def test_a_number_is_what_it_is_on_the_path_that_multiplies_it():
    assert lines(_chosen, ["f4"]).count("(f32)0x1.99999a0000000p-4 * p1") == 1
    with pytest.raises(Unwritten):
        lines(_chosen, ["i4"], ["f8"])


def test_integers_that_wrap_are_no_floats():
    assert "f64" in lines(lambda a, b: a * HALF + b, ["i4"], ["f8"])
    with pytest.raises(Unwritten):
        lines(lambda a, b: a * HALF + b, ["i4"])


def test_a_component_is_handed_on_only_where_every_path_does():
    def always(a, b):
        return a[0] + b[0], b[1]

    def sometimes(a, b):
        return (a[0] + b[0], b[1]) if a[0] > b[0] else (b[0], a[1])

    f4 = np.dtype("f4")
    for op, handed in ((always, (False, True)), (sometimes, (False, False))):
        plan = Plan(Operator(op), (f4, f4), (f4, f4), (f4, f4), (300, 33), 0, order="sequential")
        assert handed_on(plan) == handed
    adjoint = Plan(ADJOINT, (f4,) * 3, (f4,) * 3, (f4,) * 3, (300, 33), 0, order="sequential")
    assert handed_on(adjoint) == (False, True, True)
