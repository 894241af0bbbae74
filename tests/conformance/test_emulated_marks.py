"""Where segments start, as kernels write it down, beside NumPy's. No GPU is needed."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import upsweep as up
from upsweep.gpu import driver
from upsweep.gpu.marks import Marks
from upsweep.gpu.values import heads

SPAN = 8192
"""Items that a block marks, where these are few."""
STARTS = {
    "some": (1000, [0, 3, 31, 32, 33, 999, 1000]),
    "empty segments": (100, [0, 0, 0, 5, 5, 64, 64, 100, 100]),
    "one": (70_000, [0, 70_000]),
    "no item has any": (40, []),
    "two blocks": (SPAN + 33, [0, SPAN - 1, SPAN, SPAN + 32, SPAN + 33]),
    "whole blocks": (2 * SPAN, [*range(0, 2 * SPAN, 5), 2 * SPAN]),
    "more than a block asks for at once": (6000, [*range(0, 6000, 2), *[6000] * 3]),
    "behind the end": (64, [0, 32, 64, 65, 1000]),
    "falling": (300, [0, 250, 100, 200, -5, 300]),
}


WAYS = pytest.mark.parametrize(
    ("bits", "back"), [(False, False), (True, False), (True, True)], ids=["bytes", "bits", "bits backwards"]
)


def listed(marks, bits, back):
    """The list of marks, an item each."""
    assert isinstance(marks, Marks)
    made = marks.written(bits, back)
    held = np.frombuffer((ctypes.c_uint8 * marks.nbytes(bits)).from_address(made.ptr), np.uint8)
    return np.unpackbits(held, bitorder="little") if bits else held != 0


@WAYS
@pytest.mark.parametrize("starts", STARTS)
def test_places_where_segments_start(emulated, starts, bits, back):
    n, at = STARTS[starts]
    offsets = np.array(at, np.int32 if len(at) % 2 else np.int64)
    marks = heads(up.segments.offsets(emulated.value(offsets)), (n,), 0, emulated.value(np.zeros(n)))
    got = listed(marks, bits, back)
    firsts = n - offsets if back else offsets
    want = np.zeros(len(got), bool)
    want[firsts[(firsts >= 0) & (firsts < n)]] = True
    if starts == "falling":
        # These are no offsets. Nothing else is written.
        assert not (got & ~want).any()
    else:
        np.testing.assert_array_equal(got, want)


LENGTHS = {
    "some": (1000, "u1", [3, 28, 1, 0, 1, 250, 200, 255, 255, 7]),
    "none": (40, "i8", []),
    "of several turns": (SPAN + 9000, "i4", [*[3] * 5000, 0, 0, *[1] * 2000, 0, 200]),
    "cut off": (60, "i2", [20, 30, 40, 50]),
    "more than a block sums": (20_000, "i8", [2] * 10_000),
}


@WAYS
@pytest.mark.parametrize("lengths", LENGTHS)
def test_ends_of_lengths(emulated, lengths, bits, back):
    n, dtype, each = LENGTHS[lengths]
    told = np.array([each, each], dtype).T.copy()[:, 0]
    marks = heads(up.segments.lengths(emulated.value(told)), (n,), 0, emulated.value(np.zeros(n)))
    got = listed(marks, bits, back)
    ends = np.cumsum(told, dtype=np.int64)
    firsts = n - ends if back else ends
    want = np.zeros(len(got), bool)
    want[firsts[(firsts >= 0) & (firsts < n)]] = True
    np.testing.assert_array_equal(got, want)


@WAYS
@pytest.mark.parametrize("n", [1, 31, 32, 2048, 5001])
def test_changes_of_keys(emulated, n, bits, back):
    keys = np.random.default_rng(n).integers(0, 3, n, np.int32)
    marks = heads(up.segments.keys(emulated.value(keys)), (n,), 0, emulated.value(np.zeros(n)))
    got = listed(marks, bits, back)
    assert not got[n:].any()
    keys = keys[::-1] if back else keys
    np.testing.assert_array_equal(got[1:n], keys[1:] != keys[:-1])


@pytest.mark.parametrize(
    ("spelling", "launches"), [("flags", ["launch"]), ("lengths", ["launch", "launch_early"])]
)
def test_a_scan_begins_while_its_marks_are_written(emulated, monkeypatch, spelling, launches):
    found = []
    for name in ("launch", "launch_early"):
        monkeypatch.setattr(
            driver, name, lambda *given, name=name: found.append(name) or emulated.gpu.launch(*given)
        )
    told = getattr(up.segments, spelling)(emulated.value(np.ones(40, np.uint8)))
    for _ in range(2):
        found.clear()
        got = up.scan(emulated.value(np.ones(40)), segments=told)
        assert (got.get() == 1).all()
        assert found == launches
