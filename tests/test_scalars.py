"""A Python operator computes as NumPy 2 does with scalars: Python's numbers are weak, integers wrap at their own width."""

import itertools
import math
import random

import numba
import numpy as np
import pytest

import upsweep as up
from portions import every
from upsweep.cpu.memory import NUMBA, adopted
from upsweep.numpy_engine.operators import on_arrays
from upsweep.scalars.rules import Refused

ENGINES = ["cpu", "numpy"]
THREE, WIDE, TABLE, MARKS = 3, np.float64(2.5), np.array([1.5, 2.5]), np.array([1, 2, 3])


def _scaled(a):
    return a * 0.1


EXPRESSIONS = {
    "clipped": lambda a, b: min(a + b, 100),
    "constants": lambda a, b: a + b * 2 + THREE,
    "fractions": lambda a, b: (a + b) * 0.1,
    "called": lambda a, b: _scaled(a) + b,
    "wide": lambda a, b: a * WIDE + b,
    "table": lambda a, b: a * TABLE[0] + b,
    "spread": lambda a, b: max(a, b) - min(a, b),
    "division": lambda a, b: (a - b) // 2 + a % 3,
    "quotient": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "ratio": lambda a, b: a / 3 + b / 7,
    "bits": lambda a, b: (a ^ b) + (a << 3) - (b >> 1),
    "shifts": lambda a, b: (a << (b & 63)) + (a >> (b & 63)),
    "complement": lambda a, b: ~a & b | 1,
    "choice": lambda a, b: a if a > b else 0,
    "far": lambda a, b: a if a * 1e300 > b else b,
    "paths": lambda a, b: (a + b) / 2 if a < b else a - 0.5,
    "size": lambda a, b: abs(a - b) + 1,
    "square": lambda a, b: a**2 - b,
    "negative": lambda a, b: -a + b,
    "masks": lambda a, b: (a > b) * a + (a <= b) * b,
    "truth": lambda a, b: a and b,
    "greatest": lambda a, b: np.maximum(a, b) + np.float32(0.1),
    "float": lambda a, b: float(a) * 0.1 + b,
    "int": lambda a, b: int(a) + 1 + b,
    "floor": lambda a, b: math.floor(a) + b,
    "round": lambda a, b: round(a) + b,
    "int32": lambda a, b: np.int32(a) + b,
    "imaginary": lambda a, b: a + 1j * b,
    "bool": lambda a, b: a * True + b,
    "modulus": lambda a, b: divmod(a, 7)[1] + b,
    "product": lambda a, b: a * b % 100,
}
DTYPES = ["bool", "int8", "uint16", "int32", "int64", "uint64", "float32", "float64", "complex64"]
OUR_OWN = {
    # NumPy warns, and drops the imaginary part.
    *itertools.product(("float", "int", "floor", "int32"), ["complex64"]),
    # NumPy divides by another formula.
    ("ratio", "complex64"),
    # A Python int that is too large for the dtype wraps; NumPy checks each one.
    *itertools.product(("int", "floor"), DTYPES[:6]),
    ("round", "bool"),
}
EVERY = [case for case in itertools.product(EXPRESSIONS, DTYPES) if case not in OUR_OWN]


def operands(dtype):
    rng = np.random.default_rng(1)
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        x = rng.integers(ends.min, ends.max, 60, dtype, endpoint=True)
        x[:5] = ends.min, ends.max, 0, 1, ends.max // 2 + 1
    elif dtype.kind == "b":
        x = rng.random(60) < 0.5
    else:
        x = (rng.normal(size=60) * 10).astype(dtype) * dtype.type(1 + 2j if dtype.kind == "c" else 1)
    return x, rng.permutation(x)


def of_scalars(fn, dtype):
    """The result of NumPy's scalars, in the dtype; None where NumPy or the dtype refuses some operands."""
    with np.errstate(all="ignore"):
        try:
            made = [fn(a, b) for a, b in zip(*operands(dtype))]
            kind = np.result_type(*made).kind
            if "biufc".index(kind) > max("biufc".index(dtype.kind), 2):
                return None
            return np.array([np.asarray(m).astype(dtype) for m in made])
        except (TypeError, ValueError, OverflowError):
            return None


def check(name, dtype, run):
    fn, dtype = EXPRESSIONS[name], np.dtype(dtype)
    want = of_scalars(fn, dtype)
    if want is None:
        with pytest.raises(up.OperatorError):
            run(fn, dtype, *operands(dtype))
    else:
        np.testing.assert_array_equal(run(fn, dtype, *operands(dtype)), want)


def on_the_numpy_engine(fn, dtype, a, b):
    with np.errstate(all="ignore"):
        return on_arrays(up.Operator(fn), (dtype,))([a], [b])[0]


def compiled(fn, dtype, a, b):
    try:
        made, stored = adopted(fn), NUMBA.returned([dtype], bare=True)
        one = numba.njit(lambda p, q: stored(made(p, q)))
        return np.array([np.asarray(one(p, q)).astype(dtype) for p, q in zip(a, b)])
    except (numba.core.errors.NumbaError, Refused) as error:
        raise up.OperatorError from error


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_the_numpy_engine_computes_as_numpys_scalars(name, dtype):
    check(name, dtype, on_the_numpy_engine)


@pytest.mark.parametrize(("name", "dtype"), every(3, EVERY[::3]))
def test_a_compiled_operator_computes_as_numpys_scalars(name, dtype):
    check(name, dtype, compiled)


def test_all_is_computed_in_the_dtype_of_the_items():
    sums = [up.scan(np.full(4, 3e29, "f4"), lambda a, b: min(a + b, 1e30), engine=e) for e in ENGINES]
    assert [s.tobytes() for s in sums] == [np.array([3e29, 6e29, 9e29, 1e30], "f4").tobytes()] * 2
    for engine in ENGINES:
        low, high = np.array([[-(2**62) - 9, 2**62 + 5]]), lambda a, b: max(a, b) - min(a, b)
        assert up.scan(low, high, axis=1, engine=engine)[0, 1] == -(2**63) + 14


@pytest.mark.parametrize("engine", ENGINES)
def test_what_numpy_refuses_is_refused_in_its_words(engine):
    for fn, words in (
        (lambda a, b: a + b * 300, "Python integer 300 is out of bounds for int8"),
        (lambda a, b: (a > b) - (a < b), "NumPy has no subtract of bool and bool"),
        (lambda a, b: (a + b) / 2, "the operator returns float64 for items of int8; pass dtype=float64"),
    ):
        with pytest.raises(up.OperatorError, match=words):
            up.scan(np.arange(3, dtype="i1"), fn, engine=engine)


@pytest.mark.parametrize(
    "fn", [lambda a: len(f"{a}"), lambda a: len(str(a)), lambda a: len(repr(a))], ids=["f", "str", "repr"]
)
def test_texts_of_numbers_are_refused_where_a_function_is_compiled(fn):
    """numba's text of a number is that of its type."""
    with pytest.raises(up.OperatorError, match="makes no text of numbers"):
        up.scan(np.arange(3), map=fn, engine="cpu")


POWERS = [
    (3, 65537),
    (5, 2**40 + 1),
    (7, -(2**63)),
    (1, -3),
    (-1, -3),
    (-1, -4),
    (2, -1),
    (0, -1),
    (0, -2),
    (0, 0),
    (-3, 2**62 + 1),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("raised", [lambda a, b: a**b, lambda a, b: np.power(a, b)], ids=["**", "np.power"])
@pytest.mark.parametrize("dtype", ["i8", "i2", "u8"])
def test_powers_of_integers_wrap_and_have_a_meaning_to_negative_exponents(engine, raised, dtype):
    """NumPy refuses an array of negative exponents, and a kernel on a GPU cannot: as in PyTorch's they give 1, -1 or 0."""
    dtype = np.dtype(dtype)
    a, b = (np.array(column).astype(dtype) for column in zip(*POWERS))
    wrap, want = 1 << 8 * dtype.itemsize, []
    for base, exponent in zip(a.tolist(), b.tolist()):
        inverse = base**-exponent if exponent < 0 and abs(base) == 1 else 0
        want.append((inverse if exponent < 0 else pow(base, exponent, wrap)) % wrap)
    got = up.scan((a, b), "last", map=raised, engine=engine)
    assert got.dtype == dtype
    assert (got.astype(object) % wrap).tolist() == want


@pytest.mark.parametrize("engine", ENGINES)
def test_a_negative_exponent_that_stands_in_a_function_is_refused(engine):
    for fn in (lambda a: a**-1, lambda a: np.power(a, -2)):
        with pytest.raises(up.OperatorError, match="NumPy has no integers to negative powers"):
            up.scan(np.arange(1, 4), map=fn, engine=engine)


def test_powers_of_floats_have_the_same_bits_on_all_engines():
    x, n = np.full(5, 1.000001), np.array([3, -2, 70000, -70000, 5])
    for fn in (lambda a, b: a ** int(b), lambda a, b: np.power(a, b * 0.37), lambda a, b: a**70000 + b):
        one, other = (up.scan((x, n), "last", map=fn, engine=engine).tobytes() for engine in ENGINES)
        assert one == other


@pytest.mark.parametrize("engine", ENGINES)
def test_the_greatest_common_divisor_of_math_is_a_whole_number_of_pythons(engine):
    x = np.array([-12, 8, 6, 0, 200], "i4")
    assert up.scan(x, math.gcd, engine=engine).tolist() == [-12, 4, 2, 2, 2]
    divisors = up.scan(x, "last", map=lambda v: math.gcd(v, 6) + 2**40, engine=engine)
    assert divisors.dtype == np.int64
    assert (divisors - 2**40).tolist() == [6, 2, 6, 6, 2]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("fn", "dtype"),
    [
        (lambda a: (a if a < 5 else -1, a if a < 5 else 1000), "u1"),
        (lambda a: (a - 5 if a > 5 else 0, a == 2**63, np.less(a, np.int64(-1)), round(a), int(a) < 7), "u8"),
        (lambda a: (a == 2**63, a < 2**63, a < 2**64 - 5, a != np.uint64(2**63), abs(int(a > 0) - 3)), "i8"),
        (lambda a: (bool(a) + (not a) - 5, (bool(a) << 2) * a, (int(a) > 0) + (int(a) > 5)), "i1"),
        (lambda a: (np.left_shift(a, a + a), np.floor_divide(a, a - a)), "u2"),
        (lambda a: (np.sign(a), np.fmod(a, -3), np.remainder(a, -3), np.mod(a, 10), np.fmod(a, a - a)), "i8"),
        (lambda a: (np.sign(a), np.fmod(a, 7), np.remainder(a, 7)), "u1"),
        (lambda a: (np.sign(a), np.fmod(a, -100), np.remainder(a, 10)), "i1"),
        (lambda a: (np.sign(a), np.fmod(a, 10), np.mod(a, 10)), "u8"),
    ],
)
def test_whole_numbers_stay_what_they_are(engine, fn, dtype):
    ends = np.iinfo(dtype)
    x = np.array([3, 7, ends.min, ends.max, ends.max // 2 + 1, ends.max - 15], dtype)
    with np.errstate(all="ignore"):
        wanted = [[int(part) for part in fn(item)] for item in x]
    got = up.scan(x, "last", finish=fn, engine=engine)
    assert np.transpose([part.astype(object) for part in got]).tolist() == wanted


@pytest.mark.parametrize("engine", ENGINES)
def test_numpys_functions_of_pythons_numbers_give_numpys_scalars(engine):
    x = np.array([65535, 1, 9], "u2")

    def fn(a):
        return np.maximum(3, 1) + a, np.sqrt(2.0) * np.float32(a), np.floor_divide(np.invert(3), a)

    got = up.scan(x, "last", finish=fn, engine=engine)
    for part, wanted in zip(got, zip(*map(fn, x))):
        assert part.dtype == wanted[0].dtype
        assert part.tolist() == [float(w) for w in wanted]


def _later(a):
    chosen = 5
    if a < 4:
        chosen = a
    chosen -= 6
    return chosen


def _whole(a):
    few, many = (2 if a > 4 else a), (a if a > 2 else 7)
    return (
        few - 6,
        -few,
        few * many,
        few - many,
        9 // few,
        _later(a),
        (-1 if a > 4 else a) < 0,
        few + True,
        True - few,
        TABLE[0 if a > 1 else 1] * 3,
    )


def _fraction(a):
    some = 0.1 if a > 4 else a
    return (
        some * 0.1 * 3,
        abs(some - 1) * 0.1,
        math.sqrt(some) * 3,
        some.real * 3,
        some + a,
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("fn", [_whole, _fraction])
def test_a_number_on_one_path_is_one_of_pythons(engine, dtype, fn):
    x = np.array([1, 2, 3, 4, 5, 200], dtype)
    with np.errstate(all="ignore"):
        wanted = [fn(item) for item in x]
    for got, want in zip(up.scan(x, "last", finish=fn, engine=engine), zip(*wanted), strict=True):
        np.testing.assert_array_equal(got, np.array(want).astype(got.dtype))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_on_one_path_must_fit_what_stands_beside_it(engine):
    with pytest.raises(up.OperatorError, match="Python integer -1 is out of bounds for uint8"):
        up.scan(np.arange(9, dtype="u1"), "last", finish=lambda a: (-1 if a > 4 else a) + a, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["i1", "i8", "u8"])
def test_the_least_common_multiple_wraps_as_numpys(engine, dtype):
    ends = np.iinfo(dtype)
    x = np.array([ends.min, ends.max, 0, 6, ends.max // 2 + 1, ends.max - 1], dtype)
    a, b = np.repeat(x, 6), np.tile(x, 6)
    assert up.scan((a, b), "last", map=np.lcm, engine=engine).tolist() == np.lcm(a, b).tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_quotients_and_remainders_of_floats_are_numpys(engine):
    x = np.array([5.0, -5.0, 2.5, -0.5, np.inf, 7.0], "f8")

    def fn(a):
        return np.floor_divide(a, 0.1), np.remainder(a, 3.0), np.mod(a, -3.0), np.fmod(a, -3.0)

    with np.errstate(all="ignore"):
        wanted = fn(x)
    for got, want in zip(up.scan(x, "last", finish=fn, engine=engine), wanted):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_zeros_have_the_sign_of_numpys(engine, dtype):
    x = np.array([0.0, -0.0, 3.0, -3.0, 5.0, -5.0, np.inf], dtype)

    def fn(a):
        return np.mod(a, -3.0), np.remainder(3.0, a), np.remainder(a, -np.inf), np.sign(a)

    with np.errstate(all="ignore"):
        wanted = fn(x)
    for got, want in zip(up.scan(x, "last", finish=fn, engine=engine), wanted):
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


def _extremes(_, a, b):
    return np.maximum(a, b), np.minimum(a, b), np.fmax(a, b), np.fmin(a, b)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_first_of_two_zeros_is_the_larger_and_the_smaller(engine, dtype):
    values = [-0.0, 0.0, 1.0, -1.0, np.nan]
    # In vectors, and in what is left behind them.
    a, b = (np.tile(x, 5) for x in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))
    a, b = a.ravel(), b.ravel()
    got = up.scan((a, b), lambda _, new: new, map=lambda a, b: a, finish=_extremes, engine=engine)
    for y, best, skips in zip(got, (np.maximum, np.minimum) * 2, (False, False, True, True)):
        want = (np.fmax if best is np.maximum else np.fmin)(a, b) if skips else best(a, b)
        want = np.where((a == 0) & (b == 0), a, want)
        np.testing.assert_array_equal(y, want)
        assert (np.signbit(y) == np.signbit(want))[want == 0].all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["i1", "u4", "i8", "f4", "f8"])
def test_numpys_functions_of_arrays_take_one_item(engine, dtype):
    x = np.array([0, 1, 5, 3, np.nan][: 5 if dtype[0] == "f" else 4], dtype)

    def fn(a, b):
        return (
            np.where(a > 1, a, 0), np.where(a, 2.5, a), np.clip(a, 1, 3), np.clip(a, b, 4), np.clip(4, a, b),
            np.clip(a, 0.5, 2.5), np.max(a), np.min(b) + a,
        )  # fmt: skip

    got = up.scan(
        (x, x[::-1]), lambda _, new: new, map=lambda a, b: (a, b), finish=lambda p: fn(*p), engine=engine
    )
    for part, wanted in zip(got, zip(*map(fn, x, x[::-1])), strict=True):
        assert part.dtype == np.result_type(*wanted)
        np.testing.assert_array_equal(part, wanted)


def _looked_up(a):
    return (
        np.searchsorted(MARKS, a), np.interp(a, [0, 2], MARKS[:2]), np.isin(a, MARKS), np.isin(2, a),
        np.take(MARKS, a - 1), np.take(a, 0), np.polyval(MARKS, a), np.digitize(a, MARKS),
    )  # fmt: skip


def test_functions_without_a_ufunc_see_no_other_item():
    x = np.array([3, 1, 2])
    got = up.scan(
        x,
        "last",
        finish=lambda a: (np.sum(a), np.mean(a), np.ptp(a), np.round(a / 3, 1)),
        engine="numpy",
    )
    for part, wanted in zip(got, ([3, 1, 2], [3.0, 1.0, 2.0], [0, 0, 0], [1.0, 0.3, 0.7]), strict=True):
        np.testing.assert_array_equal(part, wanted)
    got = up.scan(x, "last", finish=_looked_up, engine="numpy")
    for part, wanted in zip(got, zip(*map(_looked_up, x)), strict=True):
        np.testing.assert_array_equal(part, wanted)
    with pytest.raises(up.OperatorError, match=r"np\.cumsum gives no number here"):
        up.scan(x, "last", finish=np.cumsum, engine="numpy")


def _of_lists(a):
    return (
        np.sum([a, a, 1.0]), np.sum((a, a)), np.max([a, 1.0]), np.median([a, 1, 3]), np.dot([a, 1.0], [a, 2.0]),
        np.sum([[a, a], [a, 1]]), len(f"{a}"), len(str(a)),
    )  # fmt: skip


@pytest.mark.parametrize("x", [[200, 3], [1.5, np.nan, -0.25], [True, False]], ids=str)
def test_lists_and_texts_of_an_item(x):
    """NumPy would sum objects, in the dtype of the first, and find no NaN among them; a text was one for all items."""
    x = np.array(x, np.uint8 if x[0] == 200 else None)
    got = up.scan(x, lambda _, new: new, finish=_of_lists, engine="numpy")
    for part, want in zip(got, zip(*map(_of_lists, x)), strict=True):
        np.testing.assert_array_equal(part, want)


def _whole_in(x, dtype):
    """A float as an integer, by the words of docs/operators.md."""
    wide = 32 if dtype.itemsize < 4 or dtype == np.int32 else 64
    if dtype == np.uint64 and x >= 2.0**63:
        return int(x) if x < 2.0**64 else 0
    low = int(x) if -(2.0 ** (wide - 1)) <= x < 2.0 ** (wide - 1) else -(2 ** (wide - 1))
    low %= 2 ** (8 * dtype.itemsize)
    return low - 2 ** (8 * dtype.itemsize) if low > np.iinfo(dtype).max else low


def _integers(_, x):
    whole = int(x), round(x), math.ceil(x)
    return (
        *whole,
        np.int8(x),
        np.int16(x),
        np.int32(x),
        np.uint8(x),
        np.uint16(x),
        np.uint32(x),
        np.uint64(x),
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_that_no_integer_holds_are_the_same_integers_anywhere(engine, dtype):
    far = [
        np.nan,
        np.inf,
        -np.inf,
        1e30,
        -1e30,
        -3.0,
        -200.0,
        3e9,
        7e4,
        2.0**31,
        -(2.0**63),
        2.0**63,
        2.0**64,
        5e18,
    ]
    # In vectors, and in what is left behind them.
    x = np.tile(np.array(far, dtype), 7)
    got = up.scan(x, "last", finish=_integers, engine=engine)
    assert [y.dtype.str[1:] for y in got] == ["i8", "i8", "i8", "i1", "i2", "i4", "u1", "u2", "u4", "u8"]
    for y in got:
        assert y.tolist() == [_whole_in(v, y.dtype) for v in x.tolist()]
    for i in range(len(far)):
        alone = up.scan(x[i : i + 1], "last", finish=_integers, engine=engine)
        assert [y[0] for y in alone] == [y[i] for y in got]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("draws", [lambda a: a + np.random.random(), lambda a: a + random.random()])  # noqa: NPY002
def test_a_function_draws_no_random_number(engine, draws):
    with pytest.raises(
        up.OperatorError, match="it draws a random number, which would be the same for all items"
    ):
        up.scan(np.arange(3.0), map=draws, engine=engine)


@pytest.mark.parametrize("dtype", every(2, ["c8", "c16"]))
def test_complex_numbers_divide_by_zero_and_overflow_alike(dtype):
    parts = [0.0, -0.0, 1.0, -2.5, 1e30, np.inf, np.nan]
    numbers = np.array([complex(a, b) for a in parts for b in parts], dtype)
    a, b = np.repeat(numbers, 49), np.tile(numbers, 49)

    def fn(p, q):
        return p / q, 1 / q, p.real / q, p / q.imag, q**2, q**-1, q**3

    results = [up.scan((a, b), lambda _, new: new, map=fn, engine=engine) for engine in ENGINES]
    for pair in zip(*results):
        got, want = (np.stack([z.real, z.imag]) for z in pair)
        same = (got == want) & (np.signbit(got) == np.signbit(want))
        assert (same | np.isnan(got) & np.isnan(want)).all()
    quotient = results[0][0]
    assert np.isnan(quotient[b == 0]).all()
    assert np.unique(quotient[(a == 1) & (b == -2.5)]).tolist() == [np.dtype(dtype).type(1 / -2.5)]


def test_other_functions_are_compiled_as_ever():
    adopted(EXPRESSIONS["clipped"])
    add = numba.njit(lambda a, b: min(a + b, 1e30))
    add(np.float32(1), np.float32(2))
    assert add.nopython_signatures[0].return_type == numba.float64
    assert numba.njit(lambda a: a + a)(np.int8(100)) == 200
