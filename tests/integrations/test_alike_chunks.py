"""Chunks like the one before are not checked any more, and have the bits of one call."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import upsweep as up
from table import CASES
from upsweep import chunks
from upsweep.tree import Carry

HASH = CASES["hash-u64"]
SLANTED = up.Operator(lambda a, b: a - 3 * b)
"""Neither associative nor commutative: equal bits mean an equal order of evaluation."""
FORMS = [{}, {"exclusive": True}, {"initial": 3}, {"exclusive": True, "initial": 3}]


@pytest.fixture
def checked(monkeypatch):
    """The chunks that are checked."""
    made, run = [], chunks.Run
    monkeypatch.setattr(chunks, "Run", lambda *given, **how: made.append(given) or run(*given, **how))
    return made


def pushed(stream, x, size, axis=0):
    parts = [stream.push(part) for part in np.split(x, range(size, x.shape[axis], size), axis)]
    return np.concatenate(parts, axis)


def numbers(dtype, shape):
    return np.random.default_rng(1).integers(0, 9, shape).astype(dtype)


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("op", [HASH.op, SLANTED, "add", "max"], ids=str)
def test_bits_of_one_call(op, form, order, checked):
    if order == "tree" and op is SLANTED:
        order = "sequential"
    dtype = "u8" if op is HASH.op else "i8"
    form = {k: np.dtype(dtype).type(v) if k == "initial" else v for k, v in form.items()}
    if form.get("exclusive") and "initial" not in form and not isinstance(op, str):
        form["initial"] = np.dtype(dtype).type(0)
    for size in (1, 7, 16):
        x = numbers(dtype, 16 * size)
        checked.clear()
        stream = up.Stream(op, order=order, **form)
        got = pushed(stream, x, size)
        assert stream.state.count == len(x)
        assert got.tobytes() == up.scan(x, op, order=order, engine="numpy", **form).tobytes()
        # In tree order also those whose count is the first of so many bits.
        assert len(checked) <= (2 if order == "sequential" else 9)


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("dtype", ["?", "i1", "u4", "f2", "f4", "f8", "c8", "m8[s]"])
def test_dtypes(dtype, order, checked):
    x = numbers(dtype, 200) if dtype[0] == "m" else (numbers("f8", 200) / 7).astype(dtype)
    for form in FORMS[:2]:
        got = pushed(up.Stream(order=order, **form), x, 5)
        assert got.tobytes() == up.scan(x, order=order, engine="numpy", **form).tobytes()
    if dtype in ("f2", "f4"):
        wide = pushed(up.Stream(order=order, dtype="f8"), x, 5)
        np.testing.assert_array_equal(wide, up.scan(x, order=order, dtype="f8", engine="numpy"))


@pytest.mark.parametrize("order", ["tree", "sequential"])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_tuples(axis, order, checked):
    x = numbers("f4", (40, 40)) / 7
    for lies in (np.ascontiguousarray, np.asfortranarray, lambda x: x[:, ::-1]):
        got = pushed(up.Stream(axis=axis, order=order), lies(x), 4, axis)
        np.testing.assert_array_equal(got, up.scan(lies(x), axis=axis, order=order, engine="numpy"))
    stream, parts = up.Stream("affine", axis=axis, order=order), np.split(x / 9, 10, axis)
    got = [stream.push((part, part)) for part in parts]
    want = up.scan((x / 9, x / 9), "affine", axis=axis, order=order, engine="numpy")
    for c in range(2):
        np.testing.assert_array_equal(np.concatenate([y[c] for y in got], axis), want[c])


@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_chunks_of_other_kinds_in_between(order):
    """Other sizes, outputs, segments, lists and a copy; a result belongs to the user."""
    (x,) = HASH.draw(400)
    want, stream, at = up.scan(x, HASH.op, order=order, engine="numpy"), up.Stream(HASH.op, order=order), 0
    for turn in range(3):
        for size in (6, 6, 6, 6, 5, 6, 6, 6, 6):
            y = stream.push(x[at : at + size])
            np.testing.assert_array_equal(y, want[at : at + size])
            y[:] = 0
            at += size
        out = np.zeros(6, "u8")
        assert stream.push(x[at : at + 6], out=out) is out
        np.testing.assert_array_equal(out, want[at : at + 6])
        at += 6
        with pytest.raises(up.DTypeError):
            stream.push(np.zeros(6, "f4"))
        with pytest.raises(up.ShapeError):
            stream.push(np.zeros((6, 1), "u8"))
        if turn == 1:
            stream = copy.deepcopy(stream)
        if turn == 2:
            for size in (6, 6, 6, 6):
                stream.push(x[at : at + size], segments=up.segments.flags(np.zeros(size, bool)))
                at += size
    np.testing.assert_array_equal(stream.push(x[at:]), want[at:])


@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_an_operator_that_fails_leaves_the_stream_where_it_stood(order):
    def careful(a, b):
        if b == 10**9:
            raise ValueError
        return a + b

    op, x = up.Operator(careful), np.arange(2, 10)
    stream = up.Stream(op, order=order)
    for k in range(4):
        np.testing.assert_array_equal(stream.push(x), np.cumsum(x) + k * x.sum())
    with pytest.raises(up.OperatorError, match="exception"):
        stream.push(np.array([1, 1, 1, 10**9, 1, 1, 1, 1]))
    np.testing.assert_array_equal(stream.push(x), np.cumsum(x) + 4 * x.sum())


def test_items_that_are_summed_elsewhere_come_in_between():
    """The prefixes that the one way keeps are stale behind the other."""
    (x,) = HASH.draw(64)
    want, at = (
        up.scan(x, HASH.op, engine="numpy"),
        chunks.Standing(HASH.op, None, False, None, None, "tree", Carry()),
    )
    done = 0
    for size, parts in [(3, False)] * 3 + [(5, True)] + [(3, False)] * 3 + [(5, True)] + [(3, False)] * 4:
        with pytest.MonkeyPatch.context() as patch:
            if parts:
                patch.setattr(chunks, "FEW", 0)
            np.testing.assert_array_equal(at.push(x[done : done + size]), want[done : done + size])
        done += size


@pytest.mark.parametrize("order", ["tree", "sequential"])
def test_tensors(order, checked):
    torch = pytest.importorskip("torch")
    x = torch.linspace(0, 1, 60)
    stream = up.Stream(order=order)
    got = torch.cat([stream.push(part) for part in x.split(4)])
    assert torch.equal(got, up.scan(x, order=order))
    assert len(checked) < 9
