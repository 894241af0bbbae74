"""Rows of two to four items in arrays that have code of their own: the bits of the definition, whatever is scanned, and how."""

import numpy as np
import pytest

import upsweep as up
from upsweep.cpu import arrange, brief, tuning


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


@pytest.mark.parametrize(
    ("op", "dtype"), [("add", "f4"), ("max", "f8"), ("or", "?"), ("add", "i1"), ("mul", "c8"), (hashed, "u4")]
)
def test_every_way(op, dtype, taken):
    for n in range(2, tuning.BRIEF + 1):
        x = drawn(dtype, (3, 701, n))
        for order in ("tree", "sequential"):
            want = up.scan(x, op, axis=-1, order=order, engine="numpy")
            for threads in (1, 3):
                how = {"axis": -1, "order": order, "threads": threads}
                taken.clear()
                y, beside = np.full((2, *x.shape), 77, dtype)
                assert up.scan(x, op, out=y, **how).tobytes() == want.tobytes()
                assert (beside == np.full((), 77, dtype)).all()
                assert up.reduce(x, op, **how).tobytes() == want[..., -1].tobytes()
                # In place items are read from elsewhere.
                y[:] = x
                assert up.scan(y, op, out=y, **how).tobytes() == want.tobytes()
                assert len(taken) >= 3


def test_tuples(taken):
    for n in (2, 3, 4):
        for types in (("f4", "f8"), ("i8", "i2")):
            x = tuple(drawn(d, (911, n)) for d in types)
            op = up.Operator(lambda a, b: (a[0] + b[0], a[1] + a[1] + b[1]))
            want = up.scan(x, op, axis=1, engine="numpy")
            y = tuple(v.copy() for v in x)
            for got in (up.scan(x, op, axis=1), up.scan(y, op, axis=1, out=y)):
                assert [v.tobytes() for v in got] == [v.tobytes() for v in want]
    assert taken


def test_other_rows_go_other_ways(taken):
    x = drawn("f4", (300, 2))
    up.scan(x, axis=1)
    assert taken
    taken.clear()
    spread = np.zeros((300, 3), "f4")[:, :2]
    for items, how in (
        (x[::-1], {}), (x, {"reverse": True}), (x, {"exclusive": True}), (x, {"initial": 1}), (spread, {}), (x.T.copy().T, {}),
        (x, {"dtype": "f8"}), (x, {"segments": up.segments.flags(x > 9)}), (x.astype("f2"), {}),
    ):  # fmt: skip
        up.scan(items, axis=1, **how)
    up.scan(np.ones((2, 300), "f4"), axis=0)
    assert not taken
