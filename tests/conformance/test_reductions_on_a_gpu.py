"""One result a segment of arrays in a GPU's memory, with segments there or on the host: the results of the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import upsweep as up
from test_reductions import GROUPS, HASH, SPELT, N
from upsweep.segments import Segments


@pytest.fixture(params=["emulated", "gpu"])
def there(request):
    """A GPU, or the emulator that stands for one."""
    return request.getfixturevalue(request.param)


def on_device(there, segments: Segments) -> Segments:
    values = segments.values[0] if segments.spelling == "groups" else np.asarray(segments.values)
    given = there.value(values)
    return up.segments.groups(given) if segments.spelling == "groups" else Segments(segments.spelling, given)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("spelling", [*SPELT, "groups"])
def test_segments_have_the_results_of_the_cpu(there, spelling, reverse):
    segments = up.segments.groups(GROUPS) if spelling == "groups" else SPELT[spelling][0]
    (x,) = HASH.draw(3 * N)
    starts = np.arange(3, dtype="u8")
    axis, rows = (1, np.ascontiguousarray(x.reshape(N, 3).T)) if reverse else (0, x.reshape(N, 3))
    how = {"axis": axis, "reverse": reverse}
    want = up.reduce(rows, HASH.op, initial=starts, segments=segments, engine="numpy", **how)
    given, initial = there.value(rows), there.value(starts)
    got = up.reduce(given, HASH.op, initial=initial, segments=on_device(there, segments), **how)
    np.testing.assert_array_equal(there.host(got), want)


def test_an_empty_segment_has_the_reduction_of_nothing(there):
    f, g = np.random.default_rng(1).standard_normal((2, 50)).astype("f4")
    empty = up.segments.lengths([0, 20, 0, 30])
    how = {"map": lambda x, y: (x, y), "finish": lambda p: (p[1], p[0] > 0)}
    for keywords in ({}, how):
        got = up.reduce((there.value(f), there.value(g)), "affine", segments=empty, **keywords)
        want = up.reduce((f, g), "affine", segments=empty, engine="numpy", **keywords)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(there.host(a), b)
    nothing = up.reduce(
        there.value(f[:0]), "mul", segments=up.segments.lengths(there.value(np.zeros(2, "i8")))
    )
    np.testing.assert_array_equal(there.host(nothing), [1, 1])
    assert up.reduce(there.value(f[:0]), segments=up.segments.keys(there.value(np.zeros(0, "i4")))).shape == (
        0,
    )


@pytest.mark.parametrize("number", [0.3, 2, np.float32(0.3), np.array(0.3)], ids=lambda x: type(x).__name__)
def test_a_number_is_a_parameter_of_the_map(there, number):
    x = np.random.default_rng(1).standard_normal(50).astype("f4")
    how = {"map": lambda x, w: x * w, "finish": lambda p: (p * 0.7, p)}
    for segments in (up.segments.lengths([20, 0, 30]), up.segments.groups(np.arange(50) % 3)):
        got = up.reduce((there.value(x), number), segments=segments, **how)
        want = up.reduce((x, number), segments=segments, engine="numpy", **how)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(there.host(a), b)
            assert a.dtype == b.dtype


def test_segments_that_do_not_fit_are_refused(there):
    x = there.value(np.ones((4, 3), "f4"))
    with pytest.raises(up.SegmentError, match="pass 1-D segments"):
        up.reduce(x, axis=0, segments=up.segments.flags(there.value(np.zeros((4, 3), np.bool_))))
    with pytest.raises(up.SegmentError, match="cover 0 to 5"):
        up.reduce(x, axis=0, segments=up.segments.offsets(there.value(np.array([0, 5]))))
