"""Every dtype that a scan takes, against NumPy or by definition."""

import ml_dtypes
import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from portions import every
from upsweep import dtypes
from upsweep.operators import as_operator

INTEGERS = [np.dtype(f"{sign}{size}") for sign in "iu" for size in (1, 2, 4, 8)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap(dtype):
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max, 5000, dtype, endpoint=True)
    np.testing.assert_array_equal(up.scan(x), np.cumsum(x, dtype=dtype))
    if dtype.itemsize == 1:
        np.testing.assert_array_equal(up.scan(x, "max"), np.maximum.accumulate(x))
        np.testing.assert_array_equal(
            up.scan(x, "xor", exclusive=True)[1:], np.bitwise_xor.accumulate(x)[:-1]
        )


def test_booleans():
    x = np.random.default_rng(0).random(300) < 0.02
    np.testing.assert_array_equal(up.scan(x), np.logical_or.accumulate(x))
    np.testing.assert_array_equal(up.scan(~x, "mul"), np.logical_and.accumulate(~x))
    np.testing.assert_array_equal(up.scan(x, "xor"), np.logical_xor.accumulate(x))
    np.testing.assert_array_equal(up.cumulative_sum(x), np.cumsum(x))
    assert up.scan(x, "and", exclusive=True)[0]


NARROW = [dtypes.named(name) for name, known in dtypes.TABLE.items() if known.narrow]


@pytest.mark.parametrize("narrow", NARROW, ids=str)
def test_narrow_floats_are_decoded_exactly_and_rounded_once(narrow):
    codes = np.arange(1 << (8 * narrow.itemsize), dtype=dtypes.raw(narrow)).view(narrow)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1 << 32, 100_000, np.uint32)
    bits = np.concatenate([x, x & 0x8FFFFFFF | 0x38000000, x & 0xFFF00000, x & 0xFFF00000 | 0x80000]).view(
        "f4"
    )
    with np.errstate(all="ignore"):
        decoded, encoded = codes.astype("f4"), bits.astype(narrow)
    got = up.scan(codes[:, None], axis=1, out=np.empty((codes.size, 1), "f4"))[:, 0]
    np.testing.assert_array_equal(got, decoded)
    got = up.scan(bits[:, None], axis=1, out=np.empty((bits.size, 1), narrow))[:, 0]
    # The processor may keep more of a NaN than that.
    numbers = ~np.isnan(bits)
    np.testing.assert_array_equal(
        got.view(dtypes.raw(narrow))[numbers], encoded.view(dtypes.raw(narrow))[numbers]
    )
    assert np.isnan(got[~numbers].astype("f4")).all()


@pytest.mark.parametrize("narrow", every(3, NARROW), ids=str)
def test_narrow_floats_are_summed_in_float32(narrow):
    x = np.random.default_rng(1).normal(size=3000).astype(narrow)
    got = up.scan(x)
    assert got.dtype == narrow
    np.testing.assert_array_equal(
        got.view(dtypes.raw(narrow)), up.scan(x.astype("f4")).astype(narrow).view(dtypes.raw(narrow))
    )


@pytest.mark.parametrize(
    "dtype", every(3, [*NARROW, *map(np.dtype, ("i1", "i2", "f4", "f8", "c8", "c16"))]), ids=str
)
def test_every_other_item(dtype):
    """Vectors of them are brought together. The last items have nothing behind them that may be read."""
    x = np.random.default_rng(2).integers(-99, 99, (2, 1200)).astype(dtype)
    for n in (1, 2, 15, 16, 17, 31, 32, 33, 65, 257, 600):
        apart = x[:, 1200 - 2 * n :][:, :-1][:, ::2]
        assert up.scan(apart, axis=1).tobytes() == up.scan(apart.copy(), axis=1).tobytes()


@pytest.mark.parametrize("dtype", [*NARROW, *map(np.dtype, ("i1", "i2", "f4", "f8", "c16"))], ids=str)
def test_short_lines(dtype):
    """Lines of every length are brought and handed out as they are, and the bytes between them stay."""
    code, units = pytest.importorskip("upsweep.cpu.code"), pytest.importorskip("upsweep.cpu.units")
    wide = dtypes.accumulator(dtype)
    bring, hand = (
        code.callable_at(code.address(u), 7) for u in (units.bring(dtype, wide), units.hand(wide, dtype))
    )
    x = np.random.default_rng(4).integers(-99, 99, (300, 40)).astype(dtype)
    status = np.zeros(2, np.int64).ctypes
    for count in range(1, 34):
        near, y = np.zeros((300, count), wide), np.zeros_like(x)
        moves = x.strides[0], dtype.itemsize, near.ctypes.data, near.strides[0], 300, count
        bring(status, status, x.ctypes.data, *moves)
        assert near.tobytes() == x[:, :count].astype(wide).tobytes(), count
        hand(status, status, y.ctypes.data, *moves)
        assert y[:, :count].tobytes() == x[:, :count].tobytes(), count
        assert not np.count_nonzero(y[:, count:]), count


@pytest.mark.parametrize("dtype", ["f2", "f4"])
@pytest.mark.parametrize("columns", [255, 300, 680, 800])
def test_recurrences_of_columns_with_fewer_coefficients(dtype, columns):
    rng = np.random.default_rng(3)
    b = rng.integers(-99, 99, (53, columns)).astype(dtype)
    for shape in ((), (53, 1), (1, columns)):
        a = rng.random(shape).astype(dtype)
        whole = np.broadcast_to(a, b.shape).copy()
        for order in ("tree", "sequential"):
            want = up.scan((whole, b), "affine", axis=0, order=order, engine="numpy")[1]
            assert up.linear_recurrence(a, b, axis=0, order=order).tobytes() == want.tobytes()


def test_last_fills_forward():
    x = np.array([np.nan, 1, np.nan, np.nan, 2, np.nan])
    np.testing.assert_array_equal(up.scan(x, "last"), [np.nan, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(up.scan(x, "last", exclusive=True), [np.nan, np.nan, 1, 1, 1, 2])
    np.testing.assert_array_equal(up.scan(x, "last", reverse=True), [1, 1, 2, 2, 2, np.nan])
    days = np.array(["2026-01-01", "NaT", "2026-01-03"], "M8[D]")
    np.testing.assert_array_equal(up.scan(days, "last"), days[[0, 0, 2]])
    np.testing.assert_array_equal(up.scan(np.arange(5, dtype="i1"), "last"), np.arange(5))


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_summed_in_float32_and_rounded_once(half):
    x = (np.random.default_rng(0).normal(size=9000) * 3).astype(half)
    (want,) = oracle(np.add, (x.astype(np.float32),))
    got = up.scan(x)
    assert got.dtype == half
    np.testing.assert_array_equal(got.view("u2"), want.astype(half).view("u2"))
    np.testing.assert_array_equal(up.scan(x, dtype=np.float32), want)
    special = np.array([1, np.inf, -np.inf, 1], half)
    np.testing.assert_array_equal(up.scan(special).astype(np.float32), [1, np.inf, np.nan, np.nan])


def test_every_half_survives_a_round_trip():
    for half in (np.float16, ml_dtypes.bfloat16):
        x = np.arange(65536, dtype=np.uint16).view(half)
        with np.errstate(invalid="ignore"):
            numbers = x[~np.isnan(x.astype(np.float32))]
        got = up.scan(numbers.reshape(-1, 1), axis=1)
        np.testing.assert_array_equal(got.ravel().view("u2"), numbers.view("u2"))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex(dtype):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=3000) + 1j * rng.normal(size=3000)).astype(dtype)
    np.testing.assert_array_equal(up.scan(x), oracle(np.add, (x,))[0])
    unit = (x / abs(x)).astype(dtype)
    np.testing.assert_allclose(
        up.scan(unit, "mul"), np.cumprod(unit.astype("c16")), rtol=1e-3 if dtype == "c8" else 1e-10
    )


def test_times():
    days = np.array(["2020-03-01", "2019-01-01", "2021-01-01", "2020-01-01"], "M8[D]")
    np.testing.assert_array_equal(up.cummax(days), np.maximum.accumulate(days))
    np.testing.assert_array_equal(up.cummin(days), np.minimum.accumulate(days))
    gaps = np.array([1, 2, 3, 4], "m8[s]")
    assert up.scan(gaps).dtype == gaps.dtype
    np.testing.assert_array_equal(up.scan(gaps), np.cumsum(gaps))
    assert up.reduce(gaps) == np.timedelta64(10, "s")


@pytest.mark.parametrize("dtype", ["m8[s]", "M8[s]"])
def test_the_identity_of_a_maximum_of_times_is_no_missing_time(dtype):
    times = np.array([3, 1], "i8").view(dtype)
    first = up.scan(times, "max", exclusive=True)[0]
    assert not np.isnat(first)
    np.testing.assert_array_equal(up.scan(times, "max", initial=first), np.maximum.accumulate(times))


@pytest.mark.parametrize("op", ["add", "min", "max"])
def test_not_a_time_stays(op):
    gaps = np.array([1, 5, "NaT", 7], "m8[s]")
    np.testing.assert_array_equal(np.isnat(up.scan(gaps, op)), [False, False, True, True])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("op", "ufunc"), [("min", np.minimum), ("max", np.maximum)])
def test_nan_stays(op, ufunc, dtype):
    x = np.random.default_rng(0).normal(size=500).astype(dtype)
    x[300] = np.nan
    np.testing.assert_array_equal(up.scan(x, op), ufunc.accumulate(x))
    np.testing.assert_array_equal(up.scan(x, ufunc), ufunc.accumulate(x))


@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16, "f4", "f8"], ids=str)
@pytest.mark.parametrize("name", ["min", "max"])
def test_minimum_and_maximum_are_those_of_the_standard(name, dtype):
    some = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -np.nan]
    choose = min if name == "min" else max
    for a in some:
        for b in some:
            want = choose((a, b), key=lambda x: (x, np.copysign(1, x)))
            got = up.scan(np.array([a, b], dtype), name)[1].astype("f8")
            if np.isnan(a) or np.isnan(b):
                assert np.isnan(got), (a, b, got)
            else:
                assert (got, np.signbit(got)) == (want, np.signbit(want)), (a, b, got)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_the_machine_chooses_as_python_does(name, dtype):
    x = pairs(dtype, 2000)
    fn = as_operator(name).special[dtype].fn
    want = np.array([fn(a, b) for a, b in x])
    got = up.scan(x, name, axis=1)[:, 1]
    assert want.dtype == dtype
    assert got.tobytes() == want.tobytes()


def pairs(dtype, n):
    """Operands of every kind: all pairs of the special ones, and n pairs that lie close together or far apart."""
    info, rng = np.finfo(dtype), np.random.default_rng(0)
    special = [0.0, -0.0, 1, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 87, 708]
    some = np.array([*special, *(-x for x in special)], dtype)
    a = rng.normal(size=n) * 10.0 ** rng.integers(-3, 3, n)
    b = a + rng.normal(size=n) * 10.0 ** rng.integers(-6, 3, n)
    special = np.stack(np.meshgrid(some, some), -1).reshape(-1, 2)
    return np.vstack([special, np.stack([a, b], 1)]).astype(dtype)


@pytest.mark.parametrize("dtype", every(2, ["f8", "f4"]))
def test_logaddexp(dtype):
    x = (np.random.default_rng(0).normal(size=2000) * 30).astype(dtype)
    exact = np.logaddexp.accumulate(x.astype(np.longdouble))
    np.testing.assert_allclose(up.cumlogsumexp(x), exact.astype(dtype), rtol=1e-6 if dtype == "f4" else 1e-14)
    x = pairs(dtype, 100_000)
    got = up.scan(x, "logaddexp", axis=1)[:, 1]
    with np.errstate(invalid="ignore"):
        exact, top = np.logaddexp(*x.T.astype(np.longdouble)), x.max(1)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    endless = np.isinf(top)
    np.testing.assert_array_equal(got[endless], top[endless])
    ordinary = (abs(top) > 1.4) & (abs(top) < 1e6)
    off = abs(got[ordinary] - exact[ordinary]) / np.spacing(abs(top[ordinary]))
    assert off.max() <= 2


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_machine_computes_logaddexp_as_python_does(dtype):
    x = pairs(dtype, 2000)
    with np.errstate(invalid="ignore", over="ignore"):
        fn = up.ops.LOGADDEXP.special.get(dtype, up.ops.LOGADDEXP).fn
        want = np.array([fn(a, b) for a, b in x])
    got = up.scan(x, "logaddexp", axis=1)[:, 1]
    same = (got.view(f"u{dtype[1]}") == want.view(f"u{dtype[1]}")) | (np.isnan(got) & np.isnan(want))
    assert want.dtype == dtype
    assert same.all(), (x[~same], got[~same], want[~same])
    assert not np.isnan(want).all()
    assert fn(3, 1) == fn(np.dtype(dtype).type(3), np.dtype(dtype).type(1)) > 3


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_nothing_added_in_logarithms_changes_no_bit(dtype):
    (x,) = pairs(dtype, 1000).reshape(1, -1)
    x = x[~np.isnan(x)]
    nothing = np.full_like(x, -np.inf)
    for both in ((nothing, x), (x, nothing)):
        got = up.scan(np.stack(both, 1), "logaddexp", axis=1)[:, 1]
        np.testing.assert_array_equal(got.view(f"u{dtype[1]}"), x.view(f"u{dtype[1]}"))


def test_structured_arrays_are_sequences_of_tuples():
    rng = np.random.default_rng(0)
    x = np.zeros((70, 3), [("a", "f4"), ("b", "f8")])
    x["a"], x["b"] = rng.uniform(-1, 1, x.shape), rng.normal(size=x.shape)
    y = up.scan(x, "affine", axis=0)
    a, b = up.scan((x["a"].copy(), x["b"].copy()), "affine", axis=0)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y["a"], a)
    np.testing.assert_array_equal(y["b"], b)
    np.testing.assert_array_equal(up.scan(x, "affine", axis=0, out=np.zeros_like(x)), y)
    assert up.reduce(x, "affine", axis=0).tobytes() == y[-1].tobytes()


def test_records_of_one_field_are_summed_as_that_field_is():
    x = np.full(3, 100, [("a", "i1")])
    assert up.cumulative_sum(x)["a"].tolist() == [100, 200, 300]
    with pytest.raises(up.ShapeError, match="initial has shape"):
        up.scan(x, initial=np.zeros(3, np.int8))


def test_dtype_names_the_accumulator():
    x = np.full(1000, 100, np.int8)
    assert up.scan(x, dtype=np.int64)[-1] == 100_000
    tenths = np.full(1000, 0.1, np.float32)
    np.testing.assert_array_equal(
        up.scan(tenths, dtype=np.float64), oracle(np.add, (tenths.astype(np.float64),))[0]
    )
    out = np.empty(1000, np.float64)
    np.testing.assert_array_equal(up.scan(tenths, out=out), oracle(np.add, (tenths,))[0].astype(np.float64))
    # The order of bytes is this machine's, as of an array that comes in another.
    swapped = np.dtype(np.float64).newbyteorder()
    for y in (
        up.scan(tenths, dtype=swapped),
        up.cumulative_sum(tenths, include_initial=True, dtype=swapped)[1:],
    ):
        assert y.dtype == np.float64
        np.testing.assert_array_equal(y, up.scan(tenths, dtype=np.float64))


def test_arg_max_keeps_the_first():
    x = np.array([1.0, 5.0, 5.0, 2.0, 7.0])
    value, index = up.scan((x, np.arange(5)), up.ops.ARGMAX)
    np.testing.assert_array_equal(value, [1, 5, 5, 5, 7])
    np.testing.assert_array_equal(index, [0, 1, 1, 1, 4])


@pytest.mark.parametrize("include_initial", [False, True])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(up.cumulative_sum, np.cumulative_sum), (up.cumulative_prod, np.cumulative_prod)]
)
def test_array_api_names(ours, theirs, include_initial):
    x = np.random.default_rng(0).integers(-2, 3, (5, 6)).astype(np.int8)
    for axis in (0, 1, -1):
        want = theirs(x, axis=axis, include_initial=include_initial)
        got = ours(x, axis=axis, include_initial=include_initial)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(
        ours(x[:0, 0], include_initial=include_initial), theirs(x[:0, 0], include_initial=include_initial)
    )


def test_linear_recurrence():
    rng = np.random.default_rng(0)
    a, b, h = rng.uniform(-1, 1, (4, 500)), rng.normal(size=(4, 500)), rng.normal(size=4)
    for reverse in (False, True):
        got = up.linear_recurrence(a, b, initial=h, axis=1, reverse=reverse)
        state = h
        for t in range(500)[:: -1 if reverse else 1]:
            state = a[:, t] * state + b[:, t]
            np.testing.assert_allclose(got[:, t], state, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("narrow", "wide"), [("f4", "f8"), ("i1", "f4"), ("u1", "i8"), ("f4", "c16"), ("f2", "f8")]
)
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_a_recurrence_is_computed_in_the_dtype_of_its_addend(narrow, wide, order):
    rng = np.random.default_rng(0)
    a = rng.uniform(0.9, 1.1, (3, 1)) if narrow[0] == "f" else rng.integers(1, 3, (3, 1))
    a, b = a.astype(narrow), (rng.normal(size=(3, 90)) * 10).astype(wide)
    full = np.repeat(a, 90, axis=1)
    want = up.linear_recurrence(full.astype(wide), b, axis=1, order=order)
    for multiplier in (a, full):
        got = up.linear_recurrence(multiplier, b, axis=1, order=order)
        assert got.dtype == wide
        np.testing.assert_array_equal(got.view("u1"), want.view("u1"))


@pytest.mark.parametrize("half", ["f2", ml_dtypes.bfloat16])
@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_an_array_of_multipliers_keeps_its_digits_beside_half_precision(half, order):
    b, full = np.ones((3, 400), half), np.full((3, 400), 0.9995, "f4")
    want = up.linear_recurrence(full, b, axis=1, order=order)
    assert (want[:, -1] < 364).all()
    for multiplier in (full[:, :1], full[:1], full[0], full[0, 0], np.asarray(full[0, 0])):
        got = up.linear_recurrence(multiplier, b, axis=1, order=order)
        assert got.dtype == half
        np.testing.assert_array_equal(got.view("u1"), want.view("u1"))


def test_linear_recurrence_broadcasts_its_coefficient():
    b = np.random.default_rng(0).normal(size=(3, 5000)).astype(np.float32)
    for a in (0.5, np.float32(0.5), np.full(5000, 0.5, np.float32), np.full((3, 1), 0.5)):
        for axis in (0, 1):
            if np.shape(a) in ((), (5000,), (3, 1)):
                got = up.linear_recurrence(a, b, axis=axis)
                full = np.ascontiguousarray(np.broadcast_to(np.asarray(a, np.float32), b.shape))
                np.testing.assert_array_equal(got, up.linear_recurrence(full, b, axis=axis))


def test_a_half_has_a_register_of_its_own():
    """On x86, LLVM reads it beside what a register holds, and so behind the prefix that it is added to."""
    compiler = pytest.importorskip("upsweep.cpu.compile")
    code = """define {0} @f(ptr %p) {{
        %x = load half, ptr %p
        %y = fpext half %x to {0}
        ret {0} %y
    }}"""
    machine = compiler.target("x86_64-unknown-linux-gnu", "x86-64-v3", "", False).machine
    for kind in ("float", "double"):
        module = compiler.llvm.parse_assembly(code.format(kind))
        assert "pinsrw" in machine.emit_assembly(module)
        assert "pinsrw" not in machine.emit_assembly(compiler._halves_alone(module))
