# %% [markdown]
# # Rain since the last dry day, on a grid
# A labelled array, chunked by Dask: how much rain has fallen since it last stayed dry, at each place. The scan is lazy, keeps the
# coordinates and has the bits of one call over the whole array.

# %%
from __future__ import annotations

import numpy as np
import xarray as xr

import upsweep as up
import upsweep.xarray

rng = np.random.default_rng(0)
days, lat, lon = (
    np.arange("2024-01-01", "2024-12-31", dtype="M8[D]"),
    np.linspace(46, 48, 5),
    np.linspace(6, 10, 8),
)
rain = xr.DataArray(
    rng.gamma(0.5, 4.0, (len(days), 5, 8)) * (rng.random((len(days), 5, 8)) < 0.7),
    {"day": days, "lat": lat, "lon": lon}, ("day", "lat", "lon"), name="rain", attrs={"units": "mm"},
)  # fmt: skip

# %%
total = rain.chunk(day=100).upsweep.scan(dim="day")
assert total.chunks is not None
assert np.array_equal(total.compute(), up.scan(rain.values, axis=0))

# %%
spell = rain.upsweep.scan(dim="day", segments=up.segments.flags(rain == 0))
wettest = spell.where(spell == spell.max(), drop=True)
print(f"{float(wettest.max()):.0f} mm fell until {wettest.day.values[0]} without a dry day between")
