"""One result a segment: the last prefix of its items. An empty segment has the result of a reduction of nothing."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up
from table import CASES

HASH = CASES["hash-u64"]
RNG = np.random.default_rng(6)
N = 500
LENGTHS = np.array([3, 0, 200, 1, 290, 6, 0])
BEHIND = np.cumsum(LENGTHS)
ALONG = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
SPELT = {
    "lengths": (up.segments.lengths(LENGTHS), range(len(LENGTHS))),
    "offsets": (up.segments.offsets([0, *BEHIND]), range(len(LENGTHS))),
    "keys": (up.segments.keys(ALONG), np.unique(ALONG)),
    "ends": (up.segments.ends(np.diff(ALONG, append=ALONG[0]) != 0), np.unique(ALONG)),
    "flags": (up.segments.flags(np.diff(ALONG, prepend=ALONG[0]) != 0), np.unique(ALONG)),
}
GROUPS = RNG.integers(0, 7, N)


def places_of(spelling, which):
    if spelling == "groups":
        return np.flatnonzero(which == GROUPS)
    return np.arange(int(BEHIND[which] - LENGTHS[which]), int(BEHIND[which]))


@pytest.mark.parametrize("engine", ["cpu", "numpy"])
@pytest.mark.parametrize("keywords", [{}, {"reverse": True}, {"order": "sequential"}], ids=str)
@pytest.mark.parametrize("spelling", [*SPELT, "groups"])
@pytest.mark.parametrize("axis", [0, 1])
def test_each_segment_gives_the_last_item_of_its_scan(spelling, keywords, engine, axis):
    (x,) = HASH.draw(3 * N)
    x = np.moveaxis(x.reshape(N, 3), 0, axis)
    if spelling == "groups":
        segments, listed = (
            up.segments.groups(GROUPS),
            GROUPS[np.sort(np.unique(GROUPS, return_index=True)[1])],
        )
    else:
        segments, listed = SPELT[spelling]
    start = np.uint64(9)
    how = {"axis": axis, "initial": start, "engine": engine, **keywords}
    got = up.reduce(x, HASH.op, segments=segments, **how)
    whole = np.moveaxis(up.scan(x, HASH.op, segments=segments, **how), axis, 0)
    assert got.shape[axis] == len(listed)
    for result, which in zip(np.moveaxis(got, axis, 0), listed, strict=True):
        places = places_of(spelling, which)
        end = places[0 if "reverse" in keywords else -1] if len(places) else None
        np.testing.assert_array_equal(result, start if end is None else whole[end])


@pytest.mark.parametrize("spelling", SPELT)
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "u8"])
@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "and", "or", "xor"])
def test_integers_of_segments_have_the_bits_of_the_scan(op, dtype, spelling):
    """NumPy reduces those for which no order matters; it would sum narrow integers as wider ones."""
    x = RNG.integers(0, 2**64, (N, 3), "u8").astype(dtype)
    if dtype == "?":
        x = RNG.random((N, 3)) < [0.01, 0.5, 0.99]
    segments, listed = SPELT[spelling]
    for axis, rows, reverse in ((0, x, False), (0, x, True), (1, x.T, False)):
        got = up.reduce(rows, op, axis=axis, segments=segments, reverse=reverse)
        # NumPy's engine compiles nothing.
        whole = up.scan(rows, op, axis=axis, segments=segments, reverse=reverse, engine="numpy")
        whole = np.moveaxis(whole, axis, 0)
        nothing = up.reduce(rows[:0] if axis == 0 else rows[:, :0], op, axis=axis, engine="numpy")
        assert got.dtype == dtype
        for result, which in zip(np.moveaxis(got, axis, 0), listed, strict=True):
            places = places_of(spelling, which)
            want = whole[places[0 if reverse else -1]] if len(places) else nothing
            np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("name", ["hash-u64", "join-i64", "add-f32"])
def test_a_row_reduces_to_its_last_prefix(name):
    """The last chunk of a row ends anywhere; 16 blocks of a level may be all that it has."""
    case = CASES[name]
    xs = case.draw(20_000)
    start = tuple(part[0] for part in case.draw(1, 3))
    bare = len(xs) == 1
    for n in [
        1,
        2,
        15,
        16,
        17,
        255,
        256,
        257,
        4095,
        4096,
        4097,
        5000,
        8191,
        8192,
        9000,
        16383,
        16384,
        16385,
        19_999,
    ]:
        row = xs[0][:n] if bare else tuple(x[:n] for x in xs)
        for initial in (None, start[0] if bare else start):
            got = up.reduce(row, case.op, initial=initial)
            want = up.scan(row, case.op, initial=initial)
            for g, w in zip((got,) if bare else got, (want,) if bare else want, strict=True):
                assert g.tobytes() == w[-1].tobytes(), (n, initial)


def test_nothing_reduces_to_the_identity():
    empty = up.segments.lengths([0, 2, 0])
    assert up.reduce(np.array([3.0, 4.0]), "mul", segments=empty).tolist() == [1, 12, 1]
    assert up.reduce(np.array([3, 4]), map=lambda v: v * 2, segments=empty).tolist() == [0, 14, 0]
    sums, products = up.reduce((np.ones(2), np.ones(2)), "affine", segments=empty)
    assert (sums.tolist(), products.tolist()) == ([1, 1, 1], [0, 2, 0])
    assert up.reduce(np.empty((0, 2)), axis=0, segments=up.segments.lengths([0, 0])).tolist() == [[0, 0]] * 2
    assert up.reduce(np.empty(0), segments=up.segments.keys(np.empty(0, int))).tolist() == []
    with pytest.raises(up.OperatorError, match="identity"):
        up.reduce(np.array([3, 4]), lambda a, b: a + b, segments=empty)


@pytest.mark.parametrize("segments", [SPELT["offsets"][0], SPELT["flags"][0], up.segments.groups(GROUPS)])
def test_a_number_takes_the_dtype_of_the_items(segments):
    """As in a scan, where Python's numbers are parameters of a map."""
    x, how = RNG.standard_normal(N).astype("f4"), {"map": lambda x, w: x * w, "initial": 0.3}
    got = up.reduce((x, 0.3), segments=segments, engine="numpy", **how)
    want = up.reduce((x, np.float32(0.3)), segments=segments, engine="numpy", **how)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, want)


def test_what_nothing_reduces_to_is_not_taken_for_that_of_another_call():
    """It is remembered by all that decides it."""
    x, empty = np.array([3, 4]), up.segments.lengths([0, 2, 0])
    for k in (1, 2):
        finished = up.reduce(x, segments=empty, finish=lambda p, k=k: p + k, engine="numpy")
        assert finished.tolist() == up.reduce(x, segments=empty, initial=k).tolist() == [k, 7 + k, k]
    for dtype, highest in (("f4", np.inf), ("i1", 127), ("i2", 2**15 - 1), ("f4", np.inf)):
        lowest = up.reduce(x.astype(dtype), "min", reverse=True, segments=empty)
        assert lowest.tolist() == [highest, 3, highest]
    rows = np.array([[3.0, 4.0], [5.0, 6.0]])
    sums = up.reduce(rows, axis=1, segments=empty, initial=np.array([1.0, 2.0]))
    assert sums.tolist() == [[1, 8, 1], [2, 13, 2]]


def test_mistakes_are_said():
    x = np.ones((4, 3))
    with pytest.raises(up.SegmentError, match="segments of their own"):
        up.reduce(x, axis=0, segments=up.segments.flags(x > 0))
    with pytest.raises(up.OutputError, match="call it without out="):
        up.reduce(x, axis=0, segments=up.segments.lengths([4]), out=np.empty((1, 3)))
    y = np.empty(4)
    with pytest.raises(up.OutputError, match="two arrays of out share memory"):
        up.scan((x[:, 0], x[:, 0]), "affine", out=(y, y[:]))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("at", [8, 9])
def test_halves_at_any_address_of_a_gpu(cuda, at, axis):
    """CUDA 13.0's compiler took the low byte of a half for a number, where the half had just been rounded."""
    cp = pytest.importorskip("cupy")
    x = np.linspace(-1.124, -1.7, 200, dtype="f4").reshape(5, 40)
    for call in (up.reduce, up.scan):
        want = np.asarray(call(x, axis=axis)).astype("f2")
        memory = cp.full(512, 0x77, "u1")
        call(cp.asarray(x), axis=axis, out=cp.ndarray(want.shape, "f2", memptr=memory.data + at))
        got = memory.get()
        assert got[at : at + want.nbytes].tobytes() == want.tobytes()
        assert (np.delete(got, slice(at, at + want.nbytes)) == 0x77).all()
