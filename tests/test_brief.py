"""Rows of two to four items in arrays that have code of their own: the bits of the definition, whatever is scanned, and how."""

import numpy as np
import pytest

import upsweep as up
from portions import every
from upsweep.cpu import arrange, brief, tuning
from upsweep.dtypes import named


def hashed(a, b):
    """Not associative: equal results mean an equal order of evaluation."""
    return (a * np.uint32(0x9E3779B1)) ^ (b * np.uint32(0x85EBCA77) + np.uint32(0xC2B2AE3D))


@pytest.fixture
def taken(tuned, monkeypatch):
    """The launches that went this way."""
    tuned(OWN_CODE_BYTES=0, PARALLEL_BYTES=0)
    seen, launch_of = [], brief.launch_of
    monkeypatch.setattr(arrange.brief, "launch_of", lambda *given: seen.append(1) or launch_of(*given))
    return seen


def drawn(dtype, shape):
    return np.random.default_rng(7).integers(0, 250, shape).astype(dtype)


WAYS = [(n, order) for n in range(2, tuning.BRIEF + 1) for order in ("tree", "sequential")]
"""Each is code of its own, for each operator and dtype: one operator goes all of them, the others two, one in each order."""


@pytest.mark.parametrize(
    ("op", "dtype", "ways"),
    every(
        3,
        [
            (hashed, "u4", WAYS),
            ("add", "f4", WAYS[::3]),
            ("max", "f8", WAYS[1::3]),
            ("or", "?", WAYS[2::3]),
            ("add", "i1", WAYS[::3]),
            ("mul", "c8", WAYS[1::3]),
        ],
    ),
)
def test_every_way(op, dtype, ways, taken):
    for n, order in ways:
        x = drawn(dtype, (3, 701, n))
        want = up.scan(x, op, axis=-1, order=order, engine="numpy")
        for threads in (1, 3):
            how = {"axis": -1, "order": order, "threads": threads}
            taken.clear()
            y, beside = np.full((2, *x.shape), 77, dtype)
            assert up.scan(x, op, out=y, **how).tobytes() == want.tobytes()
            assert (beside == np.full((), 77, dtype)).all()
            assert up.reduce(x, op, **how).tobytes() == want[..., -1].tobytes()
            y[:] = x
            assert up.scan(y, op, out=y, **how).tobytes() == want.tobytes()
            assert len(taken) >= 3
        for start in (drawn(dtype, (3, 701)), drawn(dtype, ())):
            how |= {"initial": start}
            y, beside = np.full((2, *x.shape), 77, dtype)
            led = up.scan(x, op, axis=-1, order=order, initial=start, engine="numpy")
            taken.clear()
            assert up.scan(x, op, out=y, **how).tobytes() == led.tobytes()
            assert (beside == np.full((), 77, dtype)).all()
            assert up.reduce(x, op, **how).tobytes() == led[..., -1].tobytes()
            assert len(taken) >= 3


def test_tuples(taken):
    for n, types in ((2, ("f4", "f8")), (3, ("i8", "i2")), (4, ("f4", "f8"))):
        x = tuple(drawn(d, (911, n)) for d in types)
        op = up.Operator(lambda a, b: (a[0] + b[0], a[1] + a[1] + b[1]))
        # One start lies row by row, one is the same for all.
        for start in (None, (drawn(types[0], 911), 7)):
            want = up.scan(x, op, axis=1, initial=start, engine="numpy")
            y = tuple(v.copy() for v in x)
            for got in (up.scan(x, op, axis=1, initial=start), up.scan(y, op, axis=1, out=y, initial=start)):
                assert [v.tobytes() for v in got] == [v.tobytes() for v in want]
    assert taken


@pytest.mark.dear
@pytest.mark.parametrize(
    ("dtype", "ways"),
    every(
        3,
        [
            ("float16", WAYS[::3]),
            ("bfloat16", WAYS[1::3]),
            ("float8_e4m3fn", WAYS[2::3]),
            ("float8_e5m2", WAYS[::3]),
        ],
    ),
)
def test_narrow_floats(dtype, ways, taken):
    """Numbers of all sizes, infinities and NaNs: sums are computed in float32, and rounded once."""
    kind = named(dtype)

    def numbers(y):
        return np.where(y == y, y, kind.type("nan")).tobytes()

    codes = np.random.default_rng(7).integers(0, 1 << 8 * kind.itemsize, (3001, 12))
    x = codes.astype(f"u{kind.itemsize}").view(kind)
    for n, order in ways:
        rows = x.reshape(-1, n)
        how = {"axis": 1, "order": order}
        want, y = up.scan(rows, engine="numpy", **how), rows.copy()
        taken.clear()
        assert numbers(up.scan(rows, **how)) == numbers(want)
        assert numbers(up.scan(y, out=y, **how)) == numbers(want)
        assert len(taken) >= 2
    assert numbers(up.reduce(rows, axis=1)) == numbers(up.reduce(rows, axis=1, engine="numpy"))


@pytest.mark.parametrize(
    ("have", "want", "n"),
    every(
        3,
        [
            ("f4", "f8", 2),
            ("f8", "f4", 3),
            ("f8", "f2", 4),
            ("i1", "i8", 3),
            ("i8", "i2", 2),
            ("?", "i4", 4),
        ],
    ),
)
def test_converted(have, want, n, taken):
    x = drawn(have, (40_001, n))
    given = up.scan(x, axis=1, dtype=want)
    assert given.tobytes() == up.scan(x, axis=1, dtype=want, engine="numpy").tobytes()
    assert taken


def test_in_place_where_items_are_wider_than_sums(taken):
    """The room near the processor holds a share of the items as they are stored."""
    x = drawn("f8", (40_001, 2))
    want = up.scan(x, axis=1, dtype="f4", engine="numpy")
    for threads in (1, 2):
        z = x.copy()
        assert up.scan(z, axis=1, dtype="f4", out=z, threads=threads).astype("f4").tobytes() == want.tobytes()
    assert taken


@pytest.mark.dear
@pytest.mark.parametrize(
    ("dtype", "ways"), every(3, [("f2", WAYS[::3]), ("f8", WAYS[1::3]), ("c8", WAYS[2::3]), ("f4", WAYS)])
)
def test_recurrences_write_one_component(dtype, ways, taken):
    for n, order in ways:
        a, b = (drawn(dtype, (911, n)) / 64 for _ in range(2))
        want = up.scan((a, b), "affine", axis=1, order=order, engine="numpy")[1]
        taken.clear()
        assert up.linear_recurrence(a, b, axis=1, order=order).tobytes() == want.tobytes()
        y = b.copy()
        assert up.linear_recurrence(a, y, axis=1, order=order, out=y).tobytes() == want.tobytes()
        y = a.copy()
        assert up.linear_recurrence(y, b, axis=1, order=order, out=y).tobytes() == want.tobytes()
        assert len(taken) >= 3


def test_other_rows_go_other_ways(taken):
    x = drawn("f4", (300, 2))
    up.scan(x, axis=1)
    assert taken
    taken.clear()
    spread = np.zeros((300, 3), "f4")[:, :2]
    for items, how in (
        (x[::-1], {}), (x, {"reverse": True}), (x, {"exclusive": True}), (x, {"initial": x[:, 0]}), (spread, {}),
        (x.T.copy().T, {}),
        (x, {"segments": up.segments.flags(x > 9)}), (x, {"segments": up.segments.flags(x > 9), "exclusive": True}),
    ):  # fmt: skip
        up.scan(items, axis=1, **how)
    up.scan(np.ones((2, 300), "f4"), axis=0)
    assert not taken
