# %% [markdown]
# # An average over irregular times
# Readings arrive when they arrive. A weight that halves every `half_life` gives `y[t] = k[t] y[t-1] + (1 - k[t]) x[t]` with
# `k[t] = 0.5 ** (gap / half_life)`: a recurrence whose coefficients change with time, for many sensors whose rows are mixed.

# %%
from __future__ import annotations

import numpy as np

import upsweep as up

rng = np.random.default_rng(0)
n, sensors, half_life = 10_000, 50, 3.0
sensor = rng.integers(0, sensors, n)
time = np.sort(rng.uniform(0, 1000, n))
x = np.sin(time / 100) + rng.normal(0, 0.3, n)

y = up.ema(x, halflife=half_life, times=time, segments=up.segments.groups(sensor))

# %%
# The loop that this call replaces.
for one in range(3):
    state, last = 0.0, -np.inf
    for i in np.flatnonzero(sensor == one):
        keep = 0.5 ** ((time[i] - last) / half_life)
        state, last = keep * state + (1 - keep) * x[i], time[i]
        assert abs(state - y[i]) < 1e-12
print(f"{n} readings of {sensors} sensors; the last average of each lies near {np.sin(10):.2f}")
