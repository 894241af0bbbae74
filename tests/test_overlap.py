"""Whatever `out` has in common with the input, the result is that of a copy: operators x forms x overlaps.

A kernel is told forms and overlaps when it is launched, and they compile nothing: every operator takes the whole table.
"""

import numpy as np
import pytest

import upsweep as up
from table import CASES

HASH = CASES["hash-u64"].op


# One of each family that a kernel treats alike: integers in a straight loop (4 and 8 bytes) and by the tree, floats, halves,
# complex numbers, booleans, times, no commutativity, no associativity.
OPERATORS = [
    ("add", "i8"), ("max", "i4"), ("min", "u8"), ("xor", "u4"), ("add", "i2"), ("mul", "i8"), ("or", "?"), ("add", "m8[s]"),
    ("max", "M8[s]"), ("add", "f4"), ("max", "f8"), ("add", "f2"), ("mul", "c8"), (HASH, "u8"),
]  # fmt: skip
FORMS = [(e, r, i) for e in (False, True) for r in (False, True) for i in (False, True)]
LENGTHS = [1, 5, 4097, 140_934]


def whole(dtype, n):
    memory = np.zeros(n, dtype)
    return memory, memory


def shifted(by):
    def make(dtype, n):
        memory = np.zeros(n + abs(by), dtype)
        return (memory[by:], memory[:n]) if by > 0 else (memory[:n], memory[-by:])

    return make


def by_bytes(dtype, n):
    memory = np.zeros((n + 1) * np.dtype(dtype).itemsize, np.uint8)
    return memory[: n * np.dtype(dtype).itemsize].view(dtype), memory[1:][
        : n * np.dtype(dtype).itemsize
    ].view(dtype)


def strided(dtype, n):
    memory = np.zeros(3 * n, dtype)
    return memory[::3], memory[::3]


def sparse_into_dense(dtype, n):
    memory = np.zeros(2 * n, dtype)
    return memory[::2], memory[:n]


def reversed_onto_itself(dtype, n):
    memory = np.zeros(n, dtype)
    return memory, memory[::-1]


def turned(dtype, n):
    memory = np.zeros(n, dtype)[::-1]
    return memory, memory


def field(dtype, n):
    memory = np.zeros(n, [("a", "u1"), ("b", dtype), ("c", "f4")])
    return memory["b"], memory["b"]


def field_shifted(dtype, n):
    memory = np.zeros(n + 1, [("a", "u1"), ("b", dtype), ("c", "f4")])
    return memory["b"][1:], memory["b"][:-1]


OVERLAPS = [
    whole, shifted(1), shifted(-1), shifted(3), shifted(-3), by_bytes, strided, sparse_into_dense, reversed_onto_itself,
    turned, field, field_shifted,
]  # fmt: skip


def drawn(dtype, n):
    x = np.random.default_rng(n).integers(-9, 9, n)
    return x.astype("i8").view("M8[s]") if np.dtype(dtype).kind == "M" else x.astype(dtype)


def start(op, dtype, exclusive, initial):
    return np.array(3).astype(dtype)[()] if initial or (exclusive and op is HASH) else None


@pytest.mark.parametrize(("op", "dtype"), OPERATORS, ids=str)
def test_one_array(op, dtype):
    for n in LENGTHS:
        x = drawn(dtype, n)
        for exclusive, backward, initial in FORMS:
            how = {
                "exclusive": exclusive,
                "reverse": backward,
                "initial": start(op, dtype, exclusive, initial),
            }
            want = up.scan(x, op, **how).tobytes()
            for overlap in OVERLAPS:
                source, target = overlap(dtype, n)
                source[:] = x
                up.scan(source, op, out=target, threads=2, **how)
                assert target.tobytes() == want, (overlap.__name__, n, how)


PAIRS = {
    "themselves": lambda a, b, free: (a, b),
    "changed over": lambda a, b, free: (b, a),
    "the first into the second": lambda a, b, free: (free, a),
    "the second into the first": lambda a, b, free: (b, free),
    "shifted": lambda a, b, free: (a.base[1:], b.base[:-1]),
}


@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_components(dtype):
    for n in LENGTHS:
        xs = drawn(dtype, n), drawn(dtype, 2 * n)[n:]
        for exclusive, backward, initial in FORMS:
            how = {"exclusive": exclusive, "reverse": backward, "initial": (2, 3) if initial else None}
            want = [y.tobytes() for y in up.scan(xs, "affine", **how)]
            for name, outs in PAIRS.items():
                a, b = np.zeros(n + 1, dtype)[:-1], np.zeros(n + 1, dtype)[1:]
                a[:], b[:] = xs
                ys = outs(a, b, np.zeros(n, dtype))
                up.scan((a, b), "affine", out=ys, **how)
                assert [y.tobytes() for y in ys] == want, (name, n, how)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_columns(axis):
    x = drawn("i8", 300 * 70).reshape(300, 70)
    for exclusive, backward, _ in FORMS[::2]:
        how = {"exclusive": exclusive, "reverse": backward, "axis": axis}
        want = up.scan(x, "add", **how)
        for dy, dx in [(0, 0), (1, 0), (0, 1), (2, 3)]:
            memory = np.zeros((302, 73), "i8")
            source, target = memory[:300, :70], memory[dy : dy + 300, dx : dx + 70]
            source[:] = x
            up.scan(source, "add", out=target, threads=2, **how)
            np.testing.assert_array_equal(target, want, err_msg=f"{dy} {dx} {how}")


@pytest.mark.parametrize(
    ("n", "order"),
    [(40, "sequential"), (4, "tree"), (3, "tree"), (2, "tree"), (1, "tree"), (1, "sequential")],
)
def test_columns_that_are_walked(n, order, tuned):
    tuned(OWN_CODE_BYTES=0)
    x, started = drawn("u8", 900 * n).reshape(n, 900), drawn("u8", 900)
    flags = up.segments.flags(x % 3 == 0)
    for exclusive, backward, _ in FORMS[::2]:
        for initial, segments in ((started, flags), (started, None), (None, None)):
            how = {
                "exclusive": exclusive,
                "reverse": backward,
                "segments": segments,
                "order": order,
                "axis": 0,
            }
            if exclusive and initial is None:
                continue
            want = up.scan(x, HASH, initial=initial, engine="numpy", **how)
            for dy, dx in [(0, 0), (1, 0), (0, 1)]:
                memory = np.zeros((n + 1, 901), "u8")
                source, target = memory[:n, :900], memory[dy : dy + n, dx : dx + 900]
                source[:] = x
                up.scan(source, HASH, initial=initial, out=target, threads=2, **how)
                np.testing.assert_array_equal(target, want, err_msg=f"{dy} {dx} {how}")
            if initial is not None:
                target = np.full((n, 900), 77, "u8")
                target[0] = initial
                up.scan(x, HASH, initial=target[0], out=target, threads=2, **how)
                np.testing.assert_array_equal(target, want, err_msg=f"over its start {how}")


def test_segments_and_initial_may_lie_under_the_result():
    x = drawn("u1", 5000)
    for exclusive, backward, _ in FORMS[::2]:
        how = {"exclusive": exclusive, "reverse": backward}
        want = up.scan(x, "xor", segments=up.segments.flags(x % 3 == 0), **how)
        flags = (x % 3 == 0).astype("u1")
        up.scan(x, "xor", segments=up.segments.flags(flags), out=flags, **how)
        np.testing.assert_array_equal(flags, want)
    first = np.arange(70)
    rows = np.arange(70 * 30).reshape(70, 30)
    want = up.scan(rows, axis=1, initial=first)
    memory = np.zeros((70, 31), int)
    memory[:, 0] = first
    up.scan(rows, axis=1, initial=memory[:, 0], out=memory[:, :-1])
    np.testing.assert_array_equal(memory[:, :-1], want)
    totals = first.copy()
    up.reduce(rows, axis=1, initial=totals, out=totals)
    np.testing.assert_array_equal(totals, first + rows.sum(1))


@pytest.mark.parametrize("step", [1, 2])
def test_what_lies_between_rows_stays(step):
    for n in range(1, 35):
        for pitch in {n + 1, 8, 16, 32, 64}:
            if pitch < n:
                continue
            memory = np.full((33, pitch * step), 77)
            rows = memory[:, : n * step : step]
            want = memory.copy()
            want[:, : n * step : step] = np.arange(1, n + 1)
            up.scan(np.ones((33, n), int), axis=1, out=rows)
            np.testing.assert_array_equal(memory, want, err_msg=f"{n} {pitch}")
            memory[:] = 1
            rows[:] = 1
            up.scan(rows, axis=1, out=rows)
            np.testing.assert_array_equal(rows, want[:, : n * step : step], err_msg=f"{n} {pitch}")
