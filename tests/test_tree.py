"""The definition in three forms, which agree."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import oracle
from table import CASES, hashing
from upsweep.operator import Operator, segmented
from upsweep.tree import Carry, block_sum, blocks, prefixes


def braces(a, b):
    return f"({a}{b})"


@pytest.mark.parametrize("n", range(70))
def test_prefixes_are_folds_of_blocks(n):
    x = [chr(65 + i) for i in range(n)]
    want = []
    for k in range(1, n + 1):
        total = None
        for first, size in blocks(0, k):
            block = block_sum(braces, x[first : first + size])
            total = block if total is None else braces(total, block)
        want.append(total)
    assert prefixes(braces, x) == want


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 100, 300])
def test_oracle_on_arrays_is_the_oracle(n):
    (x,) = CASES["hash-u64"].draw(n)
    with np.errstate(over="ignore"):
        want = prefixes(hashing, list(x))
    np.testing.assert_array_equal(oracle(hashing, (x,))[0], np.array(want, np.uint64))


@pytest.mark.parametrize("n", [1, 2, 7, 64, 100])
def test_oracle_of_segments_is_the_lifted_operators(n):
    (x,) = CASES["hash-u64"].draw(n)
    heads = np.random.default_rng(n).random(n) < 0.2
    with np.errstate(over="ignore"):
        want = [value for _, value in prefixes(segmented(Operator(hashing)).fn, list(zip(heads, x)))]
    np.testing.assert_array_equal(oracle(hashing, (x,), heads=heads)[0], np.array(want, np.uint64))
    (rows,) = oracle(hashing, (np.stack([x, x[::-1]]),), axis=1, heads=np.stack([heads, heads]))
    np.testing.assert_array_equal(rows[0], want)


@pytest.mark.parametrize("n", [1, 2, 7, 64, 100])
def test_oracle_with_initial_folds_blocks_onto_it(n):
    (x,), start, before = CASES["hash-u64"].draw(n), np.uint64(9), []
    with np.errstate(over="ignore"):
        for k in range(n + 1):
            total = start
            for first, size in blocks(0, k):
                total = hashing(total, block_sum(hashing, x[first : first + size]))
            before.append(total)
        after = list(accumulate([start, *x], hashing))
    np.testing.assert_array_equal(oracle(hashing, (x,), initial=start)[0], before[1:])
    np.testing.assert_array_equal(oracle(hashing, (x,), initial=start, exclusive=True)[0], before[:-1])
    flipped = oracle(hashing, (x[::-1],), initial=start, reverse=True)[0]
    np.testing.assert_array_equal(flipped[::-1], before[1:])
    np.testing.assert_array_equal(oracle(hashing, (x,), initial=start, order="sequential")[0], after[1:])


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(0, 40))
def test_blocks_tile_any_range(sizes, start):
    stop = start + sum(sizes)
    at = start
    for first, size in blocks(start, stop):
        assert first == at
        assert size & (size - 1) == 0
        assert first % size == 0
        at += size
    assert at == stop


@given(st.lists(st.integers(1, 30), max_size=6))
def test_carry_of_chunks_is_the_prefix_of_all(sizes):
    x = [chr(65 + i) for i in range(sum(sizes))]
    carry, at = Carry(), 0
    for size in sizes:
        for first, length in blocks(at, at + size):
            carry = carry.push(braces, length, block_sum(braces, x[first : first + length]))
        at += size
        assert carry.prefix(braces) == prefixes(braces, x)[at - 1]


def test_carry_refuses_a_block_out_of_place():
    with pytest.raises(ValueError, match="not aligned"):
        Carry().push(braces, 1, "a").push(braces, 2, "bc")
