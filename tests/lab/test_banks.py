"""Bank conflicts under any model: a run gives the tables of CS380, all but the one entry that no run can give."""

from math import gcd

import pytest
from printed import HALF_WARPS, PRINTED_CYCLES, cycles

from upsweep import lab
from upsweep.lab.sources import NOT_REPRODUCED
from upsweep.lab.traffic import Banks, accesses


def test_printed_cycles():
    ours = {leaves: cycles(leaves) for leaves in PRINTED_CYCLES}
    differ = {(n, k) for n in ours for k in range(3) if ours[n][k] != PRINTED_CYCLES[n][k]}
    assert differ == {(128, 2)}
    assert ours[128][2] == 112
    assert "106" in NOT_REPRODUCED["CS380 padded cycles, 128 leaves"]


def test_printed_degrees():
    """The first level has two threads in each of 8 banks, the next has four in each of 4."""
    rows = [row for row in accesses(lab.trace("reduction", n=64), HALF_WARPS) if row.text == "xy[left]"]
    assert [row.degree for row in rows] == [2, 4, 4, 4, 2, 1]


@pytest.mark.parametrize(("banks", "name"), [(16, "blelloch-padded-16"), (32, "blelloch-padded")])
def test_one_level_of_padding(banks, name):
    """No conflicts if and only if n <= banks * banks."""
    model = Banks(banks, group=banks)
    for n in (banks, banks * banks // 2, banks * banks, 2 * banks * banks):
        degree = lab.counts(lab.trace(name, n=n, block=n // 2), model).degree
        assert (degree == 1) == (n <= banks * banks)


def test_padding_as_a_dial():
    """The model's padding does what the padded kernel does."""
    plain, padded = lab.trace("blelloch", n=512), lab.trace("blelloch-padded", n=512)
    assert lab.counts(plain, Banks(32)).degree == 16
    assert lab.counts(plain, Banks(32, padding=5)).wavefronts == lab.counts(padded, Banks(32)).wavefronts


def test_padding_of_the_kernel():
    """Another shift comes with the words that it needs, so that nothing is out of bounds. A shift of 31 pads nothing."""
    for shift, degree in ((5, 1), (4, 2), (31, 16)):
        t = lab.trace("blelloch-padded", n=512, LOG_BANKS=shift)
        assert not lab.check(t)
        assert lab.counts(t, Banks(32)).degree == degree


STRIDED = """
def strided(x, y, n):
    t = cuda.threadIdx.x
    xy = cuda.shared.array(WORDS, dtype)
    xy[t * STRIDE] = x[t]
    y[t] = xy[t * STRIDE]
"""


@pytest.mark.parametrize("banks", [8, 16, 32])
def test_degree_of_a_stride(banks):
    """A full group has gcd(stride, banks) conflicts."""
    for stride in range(1, 40):
        t = lab.trace(STRIDED, n=32, WORDS=32 * stride, STRIDE=stride)
        assert lab.counts(t, Banks(banks, group=banks)).degree == gcd(stride, banks)


def test_one_word_is_served_once():
    source = STRIDED.replace("y[t] = xy[t * STRIDE]", "y[t] = xy[t // 8]")
    t = lab.trace(source, n=32, WORDS=64, STRIDE=1)
    assert lab.counts(t).degree == 1


def test_wide_items():
    """Items of eight bytes: half a warp is served at a time, and neighbours do not conflict."""
    assert lab.counts(lab.trace(STRIDED, n=32, WORDS=64, STRIDE=1, itemsize=8)).degree == 1
    assert lab.counts(lab.trace(STRIDED, n=32, WORDS=64, STRIDE=1, itemsize=8)).wavefronts == 4
    assert lab.counts(lab.trace(STRIDED, n=32, WORDS=64, STRIDE=2, itemsize=8)).degree == 2
