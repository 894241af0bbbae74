"""Every pair of an input's dtype and a `dtype=`, and every pair of a `dtype=` and the dtype of `out`, runs unless it is
refused.
"""

import ml_dtypes
import numpy as np
import pytest

import upsweep as up
from oracle import oracle
from portions import every
from upsweep.cpu.code import Unit, address, callable_at
from upsweep.cpu.memory import Items, gathered
from upsweep.dtypes import TABLE, accumulator, fits, named

BFLOAT = np.dtype(ml_dtypes.bfloat16)
DTYPES = [named(f"{row.name}[s]" if row.kind in "mM" else row.name) for row in TABLE.values()]


LOADS = [(d, computed) for computed in DTYPES for d in DTYPES if fits(d, computed)]
STORES = [(d, computed) for computed in DTYPES for d in DTYPES if fits(computed, d)]


def calls():
    """(input, `dtype=`, `out`): every pair of the first two and every pair of the last two that is not refused, in as few rows
    as possible.
    """
    for computed in DTYPES:
        loads, stores = ([d for d, to in pairs if to == computed] for pairs in (LOADS, STORES))
        for i in range(max(len(loads), len(stores))):
            yield loads[i % len(loads)], computed, stores[i % len(stores)]


def check(load, computed, store, engine):
    x, out = np.array([1, 0, 1, 1, 0], "i1").astype(load), np.full(5, 1, "u1").astype(store)
    # Points in time have no sum.
    if computed.kind == "M":
        op, want = "max", np.array([1, 1, 1, 1, 1])
    else:
        add = np.logical_or if computed.kind == "b" else np.add
        op, want = "add", oracle(add, (x.astype(accumulator(computed)),))[0]
    up.scan(x, op, dtype=computed, out=out, engine=engine)
    assert out.tobytes() == want.astype(store).tobytes()


@pytest.mark.parametrize("row", list(calls()), ids=lambda row: "-".join(d.name for d in row))
def test_every_call(row):
    check(*row, "numpy")


@pytest.mark.parametrize("computed", every(7, DTYPES), ids=str)
def test_every_dtype_is_converted_to_another(computed):
    """The CPU engine compiles code for each of these calls; all other conversions are in the next test."""
    loads, stores = ([d for d, to in pairs if to == computed] for pairs in (LOADS, STORES))
    check(loads[-1], computed, stores[0], "cpu")


@pytest.mark.parametrize("stored", [LOADS, STORES], ids=["loads", "stores"])
def test_the_machine_converts_every_pair(stored):
    """One piece of code for all pairs: an item has a component for each. Times are moved as integers."""
    pairs = sorted({(d, accumulator(to)) for d, to in stored if d.kind not in "mM"}, key=str)
    narrow, wide = zip(*pairs)
    have, want = (narrow, wide) if stored is LOADS else (wide, narrow)
    count, take = len(pairs), gathered(len(pairs))
    read, write = Items(have, wide, False).read, Items(want, wide, False).write

    def convert(frame, items):
        for i in range(items):
            write(take(frame, count, 1), i, read(take(frame, 0, 1), i))

    unit = Unit(("every pair", count, stored is LOADS), 2, lambda: convert, "every conversion")
    xs, ys = [np.array([0, 1, 2, 3, 5]).astype(d) for d in have], [np.zeros(5, d) for d in want]
    frame, status = np.array([a.ctypes.data for a in (*xs, *ys)]), np.zeros(2, np.int64)
    where = status.ctypes.data
    assert callable_at(address(unit), 2)(where, where + 8, frame.ctypes.data, 5) == 0
    for x, y in zip(xs, ys):
        assert y.tobytes() == x.astype(y.dtype).tobytes(), (x.dtype, y.dtype)


def test_what_is_refused():
    for have, want in [
        (BFLOAT, "i4"),
        ("c8", BFLOAT),
        ("M8[s]", BFLOAT),
        ("f4", "i8"),
        ("u1", "?"),
        ("m8[s]", "i8"),
    ]:
        with pytest.raises(up.DTypeError, match="convert the array first"):
            up.scan(np.zeros(3, have), "max", dtype=want)


def test_times_of_another_unit_are_not_taken_for_their_integers():
    seconds = np.array([1, 2, 3], "m8[s]")
    with pytest.raises(up.DTypeError, match=r"convert the array first, x.astype\('timedelta64\[ms\]'\)"):
        up.scan(seconds, dtype="m8[ms]")
    with pytest.raises(up.OutputError, match="cannot hold"):
        up.scan(seconds, out=np.zeros(3, "m8[ms]"))


@pytest.mark.parametrize("half", [np.dtype("f2"), BFLOAT], ids=str)
def test_float64_is_rounded_once_to_half_precision(half):
    digits = 10 if half == "f2" else 7
    one_up = 1 + 2.0**-digits
    # By way of float32, a number slightly above or below a tie would become the tie.
    tie = 1 + 2.0 ** -(digits + 1)
    x = np.array([tie - 2.0**-40, tie, tie + 2.0**-40, -tie - 2.0**-40, 1e300, -np.inf, 1e-300])
    out = np.zeros(len(x), half)
    up.scan(x.reshape(-1, 1), axis=1, out=out.reshape(-1, 1))
    np.testing.assert_array_equal(out.astype("f8"), [1, 1, one_up, -one_up, np.inf, -np.inf, 0])
    x = np.array([np.nan, 3 * 2.0**-25, 2.0**-25])
    out = np.zeros(len(x), half)
    up.scan(x.reshape(-1, 1), axis=1, out=out.reshape(-1, 1))
    assert np.isnan(out[0].astype("f8"))
    assert out[1:].astype("f8").tolist() == ([2.0**-23, 0] if half == "f2" else [3 * 2.0**-25, 2.0**-25])
