"""Selective scans and their gradients, in the emulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from portions import every
from upsweep.layers import marks_shape
from upsweep.selective import selective_gradients, selective_scan

STEPS, CHANNELS, OFFSETS = 43, 40, np.array([0, 9, 9, 42, 43])
"""A whole group of channels and one of eight; whole tiles of steps and short ones."""


@pytest.mark.parametrize(
    ("dtype", "states"), every(2, [("f4", 3), (ml_dtypes.bfloat16, 16)]), ids=["f4", "bf16"]
)
def test_packed_sequences_have_the_bits_that_they_have_alone(emulated, dtype, states):
    """Both ways; and all is like the CPU's, up to the approximations of a GPU."""
    rng = np.random.default_rng(0)
    u, delta, z, g = rng.normal(size=(4, 1, STEPS, CHANNELS)).astype(dtype)
    b, c = rng.normal(size=(2, 1, STEPS, states)).astype(dtype)
    a = -rng.uniform(0.1, 1, (CHANNELS, states)).astype("f4")
    skip, bias = rng.normal(size=(2, CHANNELS)).astype("f4")
    initial, dlast = rng.normal(size=(2, len(OFFSETS) - 1, CHANNELS, states)).astype("f4")

    def both_ways(put, steps=slice(None), sequences=slice(None), offsets: Any = OFFSETS):
        """What is made of copies by `put`, in memory that holds something else."""
        along = u, delta, z, b, c, g
        u_, delta_, z_, b_, c_, g_ = (x[:, steps] for x in along)
        start, end = initial[sequences], dlast[sequences]
        arrays = [put(x) for x in (u_, delta_, a, b_, c_, skip, z_, bias)]
        cuts = None if offsets is None else put(offsets)
        y, last = put(g_), put(start)
        marks = put(np.zeros(marks_shape(u_.shape, states, len(start)), "f4"))
        selective_scan(arrays, True, put(start), cuts, y, last, marks)
        into, ends = (
            [put(x) for x in (u_, delta_, z_, b_, c_)],
            [put(x) for x in (end, end[..., 0], end[..., 0], end)],
        )
        selective_gradients(put(g_), put(end), marks, arrays, True, put(start), cuts, into, ends)
        return [y, *into], [last, *ends]

    packed = [[emulated.host(x) for x in xs] for xs in both_ways(emulated.value)]
    assert "upsweep_selective_back" in emulated.gpu.loaded
    begin, end = OFFSETS[2:4]
    alone = both_ways(emulated.value, slice(begin, end), slice(2, 3), None)
    for x, y in zip(packed[0], alone[0]):
        assert x[:, begin:end].tobytes() == emulated.host(y).tobytes()
    for x, y in zip(packed[1], alone[1]):
        assert x[2:3].tobytes() == emulated.host(y).tobytes()
    far = 1e-4 if dtype == "f4" else 0.02
    for xs, ys in zip(packed, both_ways(np.copy)):
        for x, y in zip(xs, ys):
            np.testing.assert_allclose(x.astype("f4"), y.astype("f4"), rtol=far, atol=far)
