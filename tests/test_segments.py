"""Five spellings of the same segments, segments of each row's own, and empty segments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upsweep as up
from oracle import oracle
from table import CASES, hashing

HASH = CASES["hash-u64"]


@settings(deadline=None, max_examples=60)
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
        s.flags(heads.astype(int)),
        s.ends(ends),
        s.ends(ends.astype(int)),
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
