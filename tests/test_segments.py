"""Five spellings of the same segments, segments of each row's own, and empty segments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upsweep as up
from oracle import oracle
from table import CASES, hashing

HASH = CASES["hash-u64"]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 20), max_size=12), st.booleans(), st.booleans(), st.booleans())
def test_spellings_agree(lengths, exclusive, reverse, last):
    n = sum(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
    keys = np.repeat(np.arange(len(lengths)), lengths)
    heads = np.zeros(n, bool)
    heads[offsets[:-1][np.array(lengths, int) > 0]] = True
    # The flag of the last item changes nothing.
    ends = np.append(heads[1:], last)[:n]
    (x,) = HASH.draw(n)
    how = {"exclusive": exclusive, "reverse": reverse, "initial": np.uint64(7)}
    want = oracle(hashing, (x,), heads=heads, **how)[0]
    s = up.segments
    for spelt in (
        s.flags(heads),
        s.flags(heads.astype(int).tolist()),
        s.ends(ends),
        s.ends(ends.astype(int).tolist()),
        s.offsets(offsets),
        s.lengths(lengths),
        s.keys(keys),
    ):
        np.testing.assert_array_equal(
            up.scan(x, HASH.op, segments=spelt, **how), want, err_msg=spelt.spelling
        )


def test_integers_by_definition():
    rng = np.random.default_rng(0)
    x, lengths = rng.integers(-9, 9, 1000), rng.multinomial(1000, np.full(50, 0.02))
    parts = np.split(x, np.cumsum(lengths)[:-1])
    np.testing.assert_array_equal(
        up.scan(x, segments=up.segments.lengths(lengths)), np.concatenate([np.cumsum(p) for p in parts])
    )
    np.testing.assert_array_equal(
        up.scan(x, "max", segments=up.segments.lengths(lengths), reverse=True),
        np.concatenate([np.maximum.accumulate(p[::-1])[::-1] for p in parts]),
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_rows_may_have_segments_of_their_own(axis, reverse):
    rng = np.random.default_rng(0)
    (x,) = HASH.draw((70, 90))
    heads = rng.random(x.shape) < 0.1
    got = up.scan(x, HASH.op, axis=axis, reverse=reverse, segments=up.segments.flags(heads))
    for row, flags, y in zip(
        np.moveaxis(x, axis, -1), np.moveaxis(heads, axis, -1), np.moveaxis(got, axis, -1)
    ):
        np.testing.assert_array_equal(
            y, oracle(hashing, (row.copy(),), heads=flags.copy(), reverse=reverse)[0]
        )
    ends = np.roll(heads, -1, axis)
    for spelt in (up.segments.keys(np.cumsum(heads, axis)), up.segments.ends(ends)):
        np.testing.assert_array_equal(up.scan(x, HASH.op, axis=axis, reverse=reverse, segments=spelt), got)


@pytest.mark.parametrize("axis", [0, 1])
def test_one_spelling_may_hold_for_all_rows(axis):
    (x,) = HASH.draw((70, 90))
    heads = np.random.default_rng(0).random(x.shape[axis]) < 0.1
    got = up.scan(x, HASH.op, axis=axis, segments=up.segments.flags(heads))
    for row, y in zip(np.moveaxis(x, axis, -1), np.moveaxis(got, axis, -1)):
        np.testing.assert_array_equal(y, oracle(hashing, (row.copy(),), heads=heads)[0])


@pytest.mark.parametrize(("shape", "axis"), [((83, 101), 0), ((5, 31, 77), 1)])
@pytest.mark.parametrize("exclusive", [False, True])
def test_integers_beside_each_other_that_share_segments_go_item_by_item(shape, axis, exclusive, monkeypatch):
    """Also where results are too large for the cache. They were swept by the tree of sums with flags, at half the speed."""
    from upsweep.cpu import strips, tuning

    asked, launch_of = [], strips.launch_of
    monkeypatch.setattr(strips, "launch_of", lambda *what: asked.append(what) or launch_of(*what))
    monkeypatch.setattr(tuning, "STREAM_BYTES", 1)
    x = np.random.default_rng(0).integers(-9, 9, shape, np.int32)
    lengths = np.array([1, 20, shape[axis] - 21])
    got = up.scan(x, axis=axis, exclusive=exclusive, segments=up.segments.lengths(lengths), engine="cpu")
    cut = zip(*(np.split(each, lengths.cumsum()[:-1], axis) for each in (x, got)))
    for items, sums in cut:
        expected = np.cumsum(items, axis, np.int32) - (items if exclusive else 0)
        np.testing.assert_array_equal(sums, expected)
    assert asked


@pytest.mark.parametrize("op", ["or", "last"])
@pytest.mark.parametrize(("read", "summed"), [("i8", "i2"), ("i2", "i2"), ("i1", "i1")])
@pytest.mark.parametrize("apart", [False, True])
def test_heads_side_by_side_in_each_place_of_a_gpu(cuda, op, read, summed, apart):
    """CUDA 13.0's compiler took item 29 of a thread's 32 for the first of a segment where item 28 was one."""
    cp = pytest.importorskip("cupy")
    n, rng = 89, np.random.default_rng(0)
    rows = [(k, first, second) for k in range(n - 1) for first in (0, 1) for second in (0, 1)]
    heads = np.zeros((len(rows), n), bool) if apart else rng.random((len(rows), n)) < 0.5
    for row, (k, *both) in zip(heads, rows):
        row[k : k + 2] = both
    ends = np.roll(heads, -1, 1).astype("u1")
    # The starts have the lowest bits to themselves.
    x = (rng.integers(-(1 << 62), 1 << 62, heads.shape) & ~0xF).astype(read)
    start = rng.integers(0, 16, len(rows)).astype(summed)

    def scan(x, start, ends, **out):
        return up.scan(
            x,
            op,
            axis=1,
            dtype=summed,
            exclusive=True,
            initial=start,
            segments=up.segments.ends(ends),
            **out,
        )

    want = scan(x, start, ends)
    start, ends = cp.asarray(start), cp.asarray(ends)
    for at in (0, 1):
        # From an odd address on, items are read backwards.
        source, target = cp.empty(x.nbytes + 16, "u1"), cp.full(want.nbytes + 16, 0x77, "u1")
        source[at : at + x.nbytes].set(np.frombuffer((x[:, ::-1] if at else x).tobytes(), "u1"))
        items, results = (
            cp.ndarray(x.shape, kind, memptr=memory.data + at)
            for kind, memory in ((read, source), (summed, target))
        )
        scan(items[:, ::-1] if at else items, start, ends, out=results)
        got = target.get()
        assert got[at : at + want.nbytes].tobytes() == want.tobytes()
        assert (np.delete(got, slice(at, at + want.nbytes)) == 0x77).all()


@pytest.mark.parametrize("spelling", ["flags", "ends", "offsets", "lengths", "keys"])
def test_each_segment_of_no_rows_has_a_place(spelling):
    marks = {
        "flags": [1, 0, 1],
        "ends": [0, 1, 1],
        "offsets": [0, 2, 3],
        "lengths": [2, 1],
        "keys": list("aab"),
    }
    segments = getattr(up.segments, spelling)(marks[spelling])
    assert up.reduce(np.zeros((3, 0)), axis=0, segments=segments).shape == (2, 0)
    torch, ut = pytest.importorskip("torch"), pytest.importorskip("upsweep.torch")
    assert ut.reduce(torch.zeros(3, 0), axis=0, segments=segments).shape == (2, 0)


@pytest.mark.parametrize("reverse", [False, True])
def test_flags_that_lie_apart(reverse):
    """A row of many spans, whose items are read where they lie and whose flags are not."""
    rng = np.random.default_rng(3)
    x, both = rng.normal(size=10_000), rng.random((10_000, 2)) < 0.1
    for flags in (both[:, 0], both[::-1, 1], both[:, 0].copy()):
        how = {"segments": up.segments.flags(flags), "reverse": reverse}
        want = up.scan(x, engine="numpy", **how)
        assert up.scan(x, engine="cpu", **how).tobytes() == want.tobytes()


@pytest.mark.parametrize("columns", [7, 8, 13, 24, 25])
def test_columns_that_share_their_flags(columns):
    """The flags of a line are one flag, and stand beside each other while they are swept."""
    rng = np.random.default_rng(columns)
    x = rng.normal(size=(700, columns)).astype("f4")
    for initial in (None, 2):
        how = {"segments": up.segments.flags(rng.random(700) < 0.1), "axis": 0, "initial": initial}
        want = up.scan(x, engine="numpy", **how)
        assert up.scan(x, engine="cpu", **how).tobytes() == want.tobytes()
