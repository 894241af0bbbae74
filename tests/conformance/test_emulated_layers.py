"""Layers whose lanes walk alone, in the emulator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="the cuda extra is not installed")

from upsweep.gated import gated_gradients, gated_scan
from upsweep.gpu.layers import gated_layers

STEPS, CHANNELS, OFFSETS = 43, 140, np.array([0, 9, 9, 42, 43])


def test_packed_sequences_have_the_bits_of_single_steps(emulated, monkeypatch):
    """And gradients like the CPU's, up to the approximations of a GPU."""
    monkeypatch.setattr(gated_layers, "LANES_LEAST", 0)
    layer, dtype = "hgrn", ml_dtypes.bfloat16
    rng, states = np.random.default_rng(0), (len(OFFSETS) - 1, CHANNELS)
    *inputs, g = rng.normal(size=(3, 1, STEPS, CHANNELS)).astype(dtype)
    initial, dlast = rng.normal(size=(2, *states)).astype("f4")
    parameter = rng.uniform(0.1, 0.9, CHANNELS).astype("f4")

    def both_ways(put):
        """What is made of arrays that `put` copies, in memory that holds something else."""
        given = layer, [put(x) for x in inputs]
        rest = put(parameter), put(initial), put(OFFSETS)
        h, last, dparameter, dinitial = put(g), put(dlast), put(dlast), put(dlast)
        into = [put(g) for _ in inputs]
        gated_scan(*given, *rest, h, last)
        gated_gradients(layer, h, put(g), put(dlast), *given[1:], *rest, into, dparameter, dinitial)
        return [h, last, *into, dparameter, dinitial]

    made = [emulated.host(x) for x in both_ways(emulated.value)]
    assert {"upsweep_gated_lanes", "upsweep_gated_back_lanes"} <= emulated.gpu.loaded
    state = initial[:1]
    for step in range(OFFSETS[1]):
        now = [emulated.value(x[:, step : step + 1]) for x in inputs]
        h, last = emulated.value(g[:, :1]), emulated.value(state)
        gated_scan(layer, now, emulated.value(parameter), emulated.value(state), None, h, last)
        state = emulated.host(last)
        assert emulated.host(h).tobytes() == made[0][:, step : step + 1].tobytes()
    assert state.tobytes() == made[1][:1].tobytes()
    for x, y in zip(made, both_ways(np.copy)):
        np.testing.assert_allclose(x.astype("f4"), y.astype("f4"), rtol=0.02, atol=0.02)
