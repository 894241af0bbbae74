"""Streams have the bits of one call, wherever the cuts are."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading

import numpy as np
import pytest

import upsweep as up
from table import CASES
from upsweep import chunks
from upsweep.chunks import parts_of
from upsweep.stream import Stream

HASH = CASES["hash-u64"]


@pytest.fixture(params=["item by item", "in parts"])
def way(request, monkeypatch):
    """Small chunks go item by item, others in aligned parts."""
    if request.param == "in parts":
        monkeypatch.setattr(chunks, "FEW", 0)


def pushed(stream, x, cuts, axis=0):
    return np.concatenate([stream.push(chunk) for chunk in np.split(x, cuts, axis)], axis)


@pytest.mark.parametrize("cuts", [[], [1], [64], [3, 3, 17, 100], [999], list(range(1, 40))])
@pytest.mark.parametrize("keywords", [{}, {"initial": 5}, {"initial": 5, "exclusive": True}])
def test_any_cuts_give_the_bits_of_one_call(cuts, keywords, way):
    (x,) = HASH.draw(1000)
    initial = {k: np.uint64(v) if k == "initial" else v for k, v in keywords.items()}
    np.testing.assert_array_equal(
        pushed(Stream(HASH.op, **initial), x, cuts), up.scan(x, HASH.op, **initial, engine="numpy")
    )


def test_random_cuts(way):
    (x,) = HASH.draw(3000)
    expected, rng = up.scan(x, HASH.op, engine="numpy"), np.random.default_rng(0)
    for _ in range(20):
        cuts = np.sort(rng.integers(0, 3000, rng.integers(1, 9)))
        np.testing.assert_array_equal(pushed(Stream(HASH.op), x, cuts), expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_each_have_their_carry(axis, way):
    (x,) = HASH.draw((37, 41))
    stream = Stream(HASH.op, axis=axis)
    np.testing.assert_array_equal(
        pushed(stream, x, [1, 6, 30], axis), up.scan(x, HASH.op, axis=axis, engine="numpy")
    )


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("initial", [None, (2.0, 0.3)])
def test_chunks_go_item_by_item_and_in_parts_by_turns(exclusive, initial, monkeypatch):
    """Each way goes on from the sums that the other leaves, also where these were handed over, in rows that lie in any way."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 3, 400, 5))
    how = {"axis": 1, "exclusive": exclusive, "initial": initial}
    stream, got = Stream("affine", **how), []
    for k, (i, j) in enumerate(itertools.pairwise([0, 7, 20, 21, 64, 64, 200, 399, 400])):
        monkeypatch.setattr(chunks, "FEW", 0 if k % 2 else 1 << 18)
        chunk = np.asfortranarray(a[:, i:j]), b[:, i:j]
        got.append(stream.push(chunk)[1])
        if k % 3 == 2:
            stream = Stream("affine", **how, state=pickle.loads(pickle.dumps(stream.state)))
    np.testing.assert_array_equal(np.concatenate(got, 1), up.scan((a, b), "affine", **how, engine="numpy")[1])


def test_half_precision_is_rounded_once(way):
    x = np.random.default_rng(0).random(200).astype(np.float16)
    np.testing.assert_array_equal(
        pushed(Stream("add", axis=0), x, [3, 50, 51]), up.scan(x, axis=0, engine="numpy")
    )


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"exclusive": True},
        {"order": "sequential"},
        {"dtype": "f8"},
        {"initial": np.array((0.3, 1.0), [("b", "f4"), ("a", "f4")])},
    ],
)
@pytest.mark.parametrize("segmented", [False, True])
def test_records_have_the_bits_of_one_call(keywords, segmented):
    rng, cuts = np.random.default_rng(0), [3, 77, 500]
    x, keys = np.zeros(900, [("a", "f2"), ("b", "f4")]), rng.integers(0, 2, 900) if segmented else None
    x["a"], x["b"] = rng.uniform(-1, 1, 900), rng.normal(size=900)
    expected = up.scan(
        x, "affine", segments=None if keys is None else up.segments.keys(keys), **keywords, engine="numpy"
    )
    stream, got = Stream("affine", **keywords), []
    for part in np.split(np.arange(900), cuts):
        segments = None if keys is None else up.segments.keys(keys[part])
        got.append(stream.push(x[part], segments=segments))
    assert got[0].dtype == expected.dtype
    np.testing.assert_array_equal(np.concatenate(got), expected)


def test_records_are_written_over():
    x = np.ones(90, [("a", "f2"), ("b", "f4")])
    stream, expected = Stream("affine"), up.scan(x, "affine", engine="numpy")
    for chunk in np.split(x, [7, 50]):
        assert stream.push(chunk, out=chunk) is chunk
    np.testing.assert_array_equal(x, expected)


def test_tuples_and_an_array_of_starts(way):
    rng = np.random.default_rng(0)
    a, b, start = rng.random((2, 300)), rng.random((2, 300)), rng.random(2)
    stream = Stream("affine", axis=1, initial=(np.ones(2), start))
    got = [stream.push((a[:, i:j], b[:, i:j])) for i, j in ((0, 7), (7, 8), (8, 300))]
    expected = up.scan((a, b), "affine", axis=1, initial=(np.ones(2), start), engine="numpy")
    for part in (0, 1):
        np.testing.assert_array_equal(np.concatenate([g[part] for g in got], 1), expected[part])


def test_a_pickled_state_goes_on():
    (x,) = HASH.draw(500)
    first = Stream(HASH.op)
    first.push(x[:123])
    second = Stream(HASH.op, state=pickle.loads(pickle.dumps(first.state)))
    np.testing.assert_array_equal(second.push(x[123:]), up.scan(x, HASH.op, engine="numpy")[123:])


def test_a_state_does_not_change_behind_its_back():
    stream = Stream("add")
    stream.push(np.ones(3))
    state = stream.state
    stream.push(np.ones(5))
    assert state.count == 3
    np.testing.assert_array_equal(Stream("add", state=state).push(np.ones(1)), [4.0])


@pytest.mark.parametrize("keys", [None, [1, 1, 2]])
def test_a_state_is_nobody_elses(keys):
    """Neither the stream that gave it nor the one that goes on from it sees what is written into it."""

    def push(stream):
        return stream.push(np.ones(3), segments=keys and up.segments.keys(keys)).tolist()

    stream = Stream("add")
    push(stream)
    state = stream.state
    further = Stream("add", state=state)
    for array in (*(part for block in state.sums for part in block), *([] if keys is None else [state.keys])):
        array[...] = 1
    expected = [4.0, 5.0, 6.0] if keys is None else [1.0, 2.0, 1.0]
    assert push(stream) == push(further) == expected


def on(library, device, absent, request):
    """To that library's arrays on that device, and back to NumPy."""
    if library == "torch":
        torch = pytest.importorskip("torch")
        if device == "cuda" and not torch.cuda.is_available():
            absent("cuda", "PyTorch sees no GPU")
        return lambda x: torch.from_numpy(np.array(x)).to(device), lambda t: t.cpu().numpy()
    if library == "cupy":
        cupy = pytest.importorskip("cupy")
        if device == "cpu":
            pytest.skip("CuPy's arrays lie on a GPU")
        return cupy.asarray, cupy.asnumpy
    jax, there = pytest.importorskip("jax"), request.getfixturevalue("jax_device")
    return lambda x: jax.device_put(x, there), np.asarray


@pytest.mark.parametrize("library", ["torch", "cupy", "jax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_chunks_of_every_library_on_every_device(library, device, absent, request, axis):
    to, back = on(library, device, absent, request)
    x = np.random.default_rng(axis).normal(size=(230, 57)).astype(np.float32)
    parts = np.split(x, [1, 8, 40], axis)
    keywords = {"axis": axis, "initial": 0.5, "dtype": np.float32}
    expected = np.split(up.scan(x, **keywords, engine="numpy"), [1, 8, 40], axis)
    stream = Stream("add", **keywords)
    for part, y in zip(parts[:2], expected):
        got = stream.push(to(part))
        assert (type(got), got.device) == (type(to(part)), to(part).device)
        np.testing.assert_array_equal(back(got), y)
    # The state goes through host memory.
    again = Stream("add", **keywords, state=pickle.loads(pickle.dumps(stream.state)))
    for part, y in zip(parts[2:], expected[2:]):
        np.testing.assert_array_equal(back(again.push(to(part))), y)
    # A stream of NumPy's arrays goes on where a GPU's stopped.
    elsewhere = Stream("add", **keywords, state=stream.state)
    np.testing.assert_array_equal(elsewhere.push(parts[2]), expected[2])


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_tuples_and_own_operators_on_every_device(library, device, absent, request):
    to, back = on(library, device, absent, request)
    (x,) = HASH.draw(700)
    stream = Stream(HASH.op)
    np.testing.assert_array_equal(
        np.concatenate([back(stream.push(to(c))) for c in np.split(x, [3, 64, 500])]),
        up.scan(x, HASH.op, engine="numpy"),
    )
    a, b = CASES["affine-f32"].draw(700)
    stream = Stream("affine")
    got = [stream.push((to(i), to(j))) for i, j in zip(np.split(a, [100]), np.split(b, [100]))]
    for part, expected in enumerate(up.scan((a, b), "affine", engine="numpy")):
        np.testing.assert_array_equal(np.concatenate([back(g[part]) for g in got]), expected)


@pytest.mark.parametrize("library", ["torch", "cupy", "jax"])
def test_segments_on_every_device(library, device, absent, request):
    to, back = on(library, device, absent, request)
    x = np.random.default_rng(1).normal(size=(230, 210)).astype(np.float32)
    starts = np.arange(210) % 23 == 5
    for keywords, where in (
        ({"exclusive": True}, starts),
        ({"initial": np.float32(2.5)}, np.tile(starts, (230, 1))),
        ({"initial": x[:, 0].copy(), "exclusive": True}, starts),
    ):
        expected = up.scan(x, axis=1, segments=up.segments.flags(where), **keywords, engine="numpy")
        stream = Stream("add", axis=1, **keywords)
        parts = zip(np.split(x, [100], 1), np.split(where, [100], -1))
        got = []
        for part, of in parts:
            got.append(back(stream.push(to(part), segments=up.segments.flags(to(of)))))
            stream = Stream("add", axis=1, **keywords, state=pickle.loads(pickle.dumps(stream.state)))
        np.testing.assert_array_equal(np.concatenate(got, 1), expected)


def test_out_is_written_and_returned():
    out = np.full(6, -1.0)
    stream = Stream("add")
    stream.push(np.ones(3))
    got = stream.push(np.ones(4), out=out[1:5])
    np.testing.assert_array_equal(out, [-1, 4, 5, 6, 7, -1])
    assert got.base is out


def test_out_may_be_the_chunk_or_lie_over_it(way):
    (x,) = HASH.draw(1000)
    expected = up.scan(x, HASH.op, engine="numpy")
    stream, room = Stream(HASH.op), x.copy()
    for part in np.split(room, [3, 70, 500]):
        stream.push(part, out=part)
    np.testing.assert_array_equal(room, expected)
    stream, room = Stream(HASH.op), np.append(x, x[-1:])
    stream.push(x[:3])
    stream.push(room[3:1000], out=room[4:1001])
    np.testing.assert_array_equal(room[4:], expected[3:])


def test_a_failed_push_leaves_the_stream_where_it_stood(way):
    (x,) = HASH.draw(300)
    stream = Stream(HASH.op)
    stream.push(x[:77])
    with pytest.raises(up.OutputError, match="shape"):
        stream.push(x[77:], out=np.empty(300, "u8"))
    read_only = np.empty(223, "u8")
    read_only.flags.writeable = False
    with pytest.raises(up.OutputError, match="read-only"):
        stream.push(x[77:], out=read_only)
    keys = up.segments.keys(np.zeros(222, int))
    with pytest.raises(up.SegmentError, match="flags"):
        stream.push(x[77:], segments=keys)
    np.testing.assert_array_equal(stream.push(x[77:]), up.scan(x, HASH.op, engine="numpy")[77:])


@pytest.mark.parametrize("segments", [None, up.segments.flags([False, True, False])])
def test_a_finish_that_fails_leaves_the_stream_where_it_stood(segments):
    stream = Stream("add", finish=lambda total, a, b, c: total)
    for _ in range(2):
        with pytest.raises(up.OperatorError, match="parameters"):
            stream.push(np.arange(3.0), segments=segments)
        assert stream.state == Stream("add").state


def test_a_state_goes_on_in_a_stream_of_the_same_kind_alone():
    """A sum of ten items in order is one number, in the tree two."""
    kinds = {"order": "sequential"}, {"initial": 1.0}, {"op": "max"}, {}
    for was, goes_on in itertools.product(kinds, kinds):
        stream = Stream(**was)
        stream.push(np.arange(10.0))
        if was is goes_on:
            assert Stream(**goes_on, state=stream.state).push([0.0])[0] == stream.push([0.0])[0]
        else:
            with pytest.raises(ValueError, match="this state is of a stream with"):
                Stream(**goes_on, state=stream.state)
    # A function may be an operator's by another name.
    stream = Stream(lambda a, b: a + b)
    stream.push(np.arange(10.0))
    assert Stream("add", state=stream.state).push([0.0])[0] == 45


def test_a_state_says_what_the_chunks_were_like():
    stream = Stream("add", axis=-1)
    stream.push(np.zeros((2, 3, 1)))
    state = pickle.loads(pickle.dumps(stream.state))
    flagged = {"segments": up.segments.flags([False])}
    for told in ({}, flagged):
        with pytest.raises(up.ShapeError, match="rows of shape"):
            Stream("add", axis=-1, state=state).push(np.zeros((3, 2, 1)), **told)
        with pytest.raises(up.DTypeError, match="is of float32, the chunks before it were of float64"):
            Stream("add", axis=-1, state=state).push(np.zeros((2, 3, 1), np.float32), **told)
    # Segments change nothing in what the chunks before were like.
    for told in (flagged, {}):
        with pytest.raises(up.DTypeError, match="is of float32, the chunks before it were of float64"):
            stream.push(np.zeros((2, 3, 1), np.float32), **told)
        stream.push(np.zeros((2, 3, 1)), **flagged)


def test_errors():
    stream = Stream("add", axis=0)
    stream.push(np.ones((2, 3)))
    with pytest.raises(up.ShapeError, match="rows of shape"):
        stream.push(np.ones((2, 4)))
    with pytest.raises(up.DTypeError, match="float32"):
        stream.push(np.ones((2, 3), np.float32))
    with pytest.raises(up.ShapeError, match="axis"):
        Stream("add").push(np.ones((2, 3)))
    with pytest.raises(up.OperatorError, match="identity"):
        Stream(HASH.op, exclusive=True).push(np.ones(3, np.uint64))
    assert Stream("add").push([]).shape == (0,)


def test_a_piece_never_leaves_its_block():
    for start in range(70):
        for stop in range(start, 70):
            cut = list(parts_of(start, stop))
            assert [i for a, b in cut for i in range(a, b)] == list(range(start, stop))
            assert all(a == 0 or b - a <= (a & -a) for a, b in cut)


CUTS = [1, 8, 40, 41, 200]


def whole_and_pushed(x, op, spell, values, axis=0, **keywords):
    """A segmented scan in one call, and the same chunk by chunk."""
    expected = up.scan(x, op, axis=axis, segments=spell(values), **keywords, engine="numpy")
    stream = Stream(op, axis=axis, **keywords)
    parts = zip(np.split(x, CUTS, axis), np.split(values, CUTS, axis if np.ndim(values) > 1 else 0))
    got = [stream.push(part, segments=spell(of)) for part, of in parts]
    return expected, np.concatenate(got, axis)


@pytest.mark.parametrize("keywords", [{}, {"initial": np.uint64(5)}], ids=["plain", "initial"])
def test_segments_go_on_over_chunks(keywords):
    (x,) = HASH.draw(700)
    starts = np.arange(700) % 61 == 7
    np.testing.assert_array_equal(*whole_and_pushed(x, HASH.op, up.segments.flags, starts, **keywords))


@pytest.mark.dear
@pytest.mark.parametrize(("axis", "keywords"), [(0, {"initial": 2.5}), (1, {"exclusive": True})], ids=str)
def test_rows_have_segments_of_their_own(axis, keywords):
    rng = np.random.default_rng(axis)
    x = rng.normal(size=(230, 210)).astype(np.float32)
    own = rng.random(x.shape) < 0.03
    np.testing.assert_array_equal(*whole_and_pushed(x, "add", up.segments.flags, own, axis, **keywords))
    keys = rng.integers(0, 3, x.shape[axis])
    np.testing.assert_array_equal(*whole_and_pushed(x, "add", up.segments.keys, keys, axis, **keywords))


def test_offsets_and_lengths_are_those_of_the_chunk():
    stream = Stream("add")
    assert stream.push(np.arange(1, 6)).tolist() == [1, 3, 6, 10, 15]
    assert stream.push(np.arange(4), segments=up.segments.lengths([1, 3])).tolist() == [0, 1, 3, 6]
    # The last segment goes on.
    assert stream.push(np.array([1, 1])).tolist() == [7, 8]
    assert stream.push(np.array([1, 1]), segments=up.segments.offsets([0, 0, 2])).tolist() == [1, 2]
    with pytest.raises(up.SegmentError, match="cover"):
        stream.push(np.ones(3, int), segments=up.segments.lengths([1]))


@pytest.mark.parametrize("rows", [False, True])
def test_ends_are_kept_for_the_next_chunk_alone(rows):
    """A chunk without segments starts anew behind a segment that ended. The chunk after it goes on."""
    x = np.arange(1.0, 13).reshape(6, 2)
    ended = np.array([0, 1, 0, 0, 0, 1], bool)
    given = np.stack([ended, ended], 1) if rows else ended
    stream = Stream("add", axis=0)
    got = [
        stream.push(x[:2], segments=up.segments.ends(given[:2])),
        stream.push(x[2:4]),
        stream.push(x[4:], segments=up.segments.ends(given[4:])),
        stream.push(x[:1]),
    ]
    want = up.scan(
        np.concatenate([x, x[:1]]), axis=0, segments=up.segments.flags([1, 0, 1, 0, 0, 0, 1]), engine="numpy"
    )
    np.testing.assert_array_equal(np.concatenate(got), want)
    assert up.Stream("add").push(x[:, 0], segments=up.segments.ends(ended)).tolist() == [1, 4, 5, 12, 21, 32]


@pytest.mark.parametrize(
    ("spell", "anew"), [("flags", False), ("lengths", True), ("offsets", True), ("keys", True)]
)
def test_an_end_counts_for_the_next_chunk_whatever_spells_its_segments(spell, anew):
    told = {"flags": [0, 0], "lengths": [2], "offsets": [0, 2], "keys": [7, 7]}[spell]
    for last in (1, 0):
        stream = Stream("add")
        assert stream.push([1, 1], segments=up.segments.ends([0, last])).tolist() == [1, 2]
        first = 1 if last or anew else 3
        nothing = np.empty(0, int)
        assert stream.push(nothing, segments=up.segments.ends(nothing)).tolist() == []
        assert stream.push([1, 1], segments=getattr(up.segments, spell)(told)).tolist() == [first, first + 1]
        assert stream.push([1, 1]).tolist() == [first + 2, first + 3]


def test_rows_of_their_own_and_rows_alike_follow_each_other():
    x = np.arange(1, 13).reshape(6, 2)
    own = np.array([[0, 0], [1, 0]])
    stream = Stream("add", axis=0)
    stream.push(x[:2], segments=up.segments.ends(own))
    assert stream.push(x[2:4], segments=up.segments.ends([0, 1])).tolist() == [[5, 12], [12, 20]]
    assert stream.push(x[4:], segments=up.segments.ends(own)).tolist() == [[9, 10], [20, 22]]
    assert stream.push(x[:2], segments=up.segments.flags([0, 0])).tolist() == [[1, 24], [4, 28]]
    stream = Stream("add", axis=0)
    stream.push(x[:2], segments=up.segments.keys([[1, 2], [1, 3]]))
    assert stream.push(x[2:4], segments=up.segments.keys([3, 3])).tolist() == [[5, 10], [12, 18]]
    assert stream.push(x[4:], segments=up.segments.keys([[3, 1], [3, 1]])).tolist() == [[21, 10], [32, 22]]


@pytest.mark.parametrize("form", [{}, {"exclusive": True}, {"order": "sequential"}], ids=str)
def test_another_initial_needs_no_other_code(form, monkeypatch):
    """Segments start from numbers that the kernel is told, one for all rows or one for each."""
    (x,) = HASH.draw(600)
    x, starts = x.reshape(300, 2), np.arange(300) % 61 == 7
    for initial in (np.uint64(5), np.uint64(77), np.array([1, 2], "u8"), np.array([9, 2**63], "u8")):
        how = {"initial": initial, **form}
        np.testing.assert_array_equal(*whole_and_pushed(x, HASH.op, up.segments.flags, starts, **how))
        monkeypatch.setattr(
            "upsweep.cpu.code._loaded", lambda *_: pytest.fail("code is loaded for another initial")
        )


@pytest.mark.parametrize("initial", [None, np.uint64(5), np.array([1, 2], "u8")], ids=["none", "one", "rows"])
def test_segments_may_be_told_from_a_later_chunk_on(initial):
    (x,) = HASH.draw(200)
    x = x.reshape(100, 2)
    for order, first in (("tree", 70), ("sequential", 70), ("sequential", 40)):
        how = {"axis": 0, "initial": initial, "order": order}
        stream, starts = Stream(HASH.op, **how), np.arange(100) == first
        got = [stream.push(x[:40]), stream.push(x[40:], segments=up.segments.flags(starts[40:]))]
        want = up.scan(x, HASH.op, segments=up.segments.flags(starts), **how, engine="numpy")
        np.testing.assert_array_equal(np.concatenate(got), want)


@pytest.mark.dear
def test_segments_of_tuples_and_half_precision(way):
    a, b = CASES["affine-f32"].draw(300)
    keywords = {"initial": (1.0, 3.0)}
    starts = np.arange(300) % 50 == 0
    expected = up.scan((a, b), "affine", segments=up.segments.flags(starts), **keywords, engine="numpy")
    stream = Stream("affine", **keywords)
    got = [
        stream.push(tuple(part[i:j] for part in (a, b)), segments=up.segments.flags(starts[i:j]))
        for i, j in ((0, 77), (77, 300))
    ]
    for part in (0, 1):
        np.testing.assert_array_equal(np.concatenate([g[part] for g in got]), expected[part])
    x = a.astype(np.float16)
    np.testing.assert_array_equal(*whole_and_pushed(x, "add", up.segments.flags, starts))
    np.testing.assert_array_equal(*whole_and_pushed(x, "add", up.segments.ends, starts))


def test_the_state_of_a_stream_with_segments_goes_on():
    x, keys = np.arange(100.0), np.repeat(["a", "b", "a"], [30, 50, 20])
    expected = up.scan(x, segments=up.segments.keys(keys), engine="numpy")
    state, got = None, []
    for i in range(0, 100, 9):
        stream = Stream("add", state=state)
        got.append(stream.push(x[i : i + 9], segments=up.segments.keys(keys[i : i + 9])))
        state = pickle.loads(pickle.dumps(stream.state))
    np.testing.assert_array_equal(np.concatenate(got), expected)
    # Without segments the last one goes on.
    rest = Stream("add", state=state).push(x[:2])
    np.testing.assert_array_equal(rest, expected[-1] + np.array([0.0, 1.0]))


@pytest.mark.parametrize("kind", ["U", "i1", "f4", object, "M8[D]"])
def test_keys_of_any_dtype_go_on_over_chunks(kind):
    x, numbers = np.arange(230.0), np.arange(230) // 17
    keys = numbers.astype("U").astype(object) if kind is object else numbers.astype("i8").astype(kind)
    np.testing.assert_array_equal(*whole_and_pushed(x, "add", up.segments.keys, keys))
    columns, each = np.ones((230, 2)), np.stack([keys, keys[::-1]], 1)
    np.testing.assert_array_equal(*whole_and_pushed(columns, "add", up.segments.keys, each))


def test_segments_of_times_start_from_a_time():
    stream = Stream("max", initial=np.timedelta64(1, "m"))
    got = stream.push(np.array([61, 5, 7], "m8[s]"), segments=up.segments.lengths([2, 1]))
    assert got.astype("i8").tolist() == [61, 61, 60]


def test_no_items_need_no_identity():
    x, places = np.arange(0), np.arange(0, dtype="i4")
    stream = Stream("argmin", exclusive=True)
    for _ in range(2):
        got = stream.push((x, places), segments=up.segments.flags(np.zeros(0, bool)))
        assert [len(y) for y in got] == [0, 0]
    with pytest.raises(up.OperatorError, match="needs an identity"):
        stream.push((np.arange(2), np.arange(2, dtype="i4")), segments=up.segments.flags([0, 1]))


def test_errors_of_segments():
    with pytest.raises(up.SegmentError, match="flags"):
        Stream("add").push(np.ones(3), segments=up.segments.flags([1]))
    with pytest.raises(up.ShapeError, match="one value a row"):
        Stream("add", axis=1, initial=np.ones(3)).push(np.ones((2, 2)), segments=up.segments.flags([1, 0]))
    with pytest.raises(up.ShapeError, match="a tuple of 1"):
        Stream("add", initial=(1.0, 2.0)).push(np.ones(2), segments=up.segments.flags([1, 0]))
    stream = Stream("add")
    stream.push(np.ones(3), segments=up.segments.ends([0, 0, 1]))
    with pytest.raises(up.SegmentError, match="flags"):
        stream.push(np.ones(3), segments=up.segments.flags([1, 0]))
    with pytest.raises(up.OperatorError, match="identity"):
        Stream(HASH.op, exclusive=True).push(np.ones(3, "u8"), segments=up.segments.flags([1, 0, 0]))


@pytest.mark.dear
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
@pytest.mark.parametrize("spelling", [None, "flags", "ends", "keys"])
def test_a_copy_goes_on_by_itself(copied, spelling):
    def part(start, stop):
        return None if spelling is None else up.segments.Segments(spelling, marks[start:stop])

    x, marks = np.arange(1000), np.arange(1000) // 37 % 3 == 0
    stream = up.Stream("add", exclusive=True, initial=7)
    stream.push(x[:300], segments=part(0, 300))
    twin = copied(stream)
    wanted = up.scan(x, exclusive=True, initial=7, segments=part(0, 1000), engine="numpy")[300:]
    for each in (stream, twin):
        got = [each.push(x[a:b], segments=part(a, b)) for a, b in ((300, 301), (301, 1000))]
        assert np.concatenate(got).tolist() == wanted.tolist()


def test_another_thread_is_told_to_wait_its_turn():
    """Two threads that pushed at once lost chunks, or a chunk was summed from half of another."""
    began, go_on, told = threading.Event(), threading.Event(), []

    class Waiting:
        def __array__(self, dtype=None, copy=None):
            began.set()
            assert go_on.wait(300)
            return np.ones(3)

    stream = Stream("add")
    worker = threading.Thread(target=lambda: told.append(stream.push(Waiting()).tolist()))
    worker.start()
    assert began.wait(300)
    try:
        for use in (lambda: stream.push([1.0]), lambda: stream.state, lambda: copy.copy(stream)):
            with pytest.raises(RuntimeError, match="another thread is pushing"):
                use()
    finally:
        go_on.set()
        worker.join()
    assert told == [[1.0, 2.0, 3.0]]
    with pytest.raises(up.ShapeError):
        stream.push(np.ones((2, 2)))
    assert stream.push([1.0]).tolist() == [4.0]


def test_a_stream_starts_from_the_values_that_it_was_given():
    start = np.array([1.0, 2.0])
    stream, pair = (
        Stream("add", axis=0, initial=start),
        Stream("affine", initial=(start[0:1].reshape(()), 0.0)),
    )
    stream.push(np.ones((3, 2)))
    pair.push((np.ones(3), np.ones(3)))
    start[:] = 100
    assert stream.push(np.ones((2, 2))).tolist() == [[5, 6], [6, 7]]
    assert pair.push((np.ones(2), np.ones(2)))[0].tolist() == [1, 1]
