"""`.upsweep` on xarray's DataArrays: `import upsweep.xarray` once; dimensions, coordinates, names and chunks stay.

>>> import xarray as xr, upsweep.xarray
>>> rain = xr.DataArray([[1, 2], [3, 4]], dims=("time", "x"), coords={"x": [10, 20]}, name="rain")
>>> rain.upsweep.scan(dim="time").sel(x=20).values.tolist()
[2, 6]
"""

from __future__ import annotations

from typing import Any

import xarray as xr

import upsweep as up
from upsweep.accessors import methods


@xr.register_dataarray_accessor("upsweep")
@methods
class Accessor:
    """Scans along a dimension, `dim`, which may be left out where there is one only. Chunks of Dask are scanned when they are
    computed; other DataArrays among the arguments are brought to the same dimensions."""

    def __init__(self, obj: xr.DataArray) -> None:
        self._obj = obj

    def _call(self, name: str, *args: Any, dim: str | None = None, **keywords: Any) -> xr.DataArray:
        obj = self._obj
        if dim is None and obj.ndim != 1:
            raise up.ShapeError(
                f"the array has dimensions {obj.dims}: say which to scan along, dim={obj.dims[0]!r}"
            )
        keywords["axis"] = obj.get_axis_num(dim if dim is not None else obj.dims[0])
        args = tuple(self._like(arg) for arg in args)
        keywords = {key: self._like(value) for key, value in keywords.items()}
        return obj.copy(data=getattr(up, name)(obj.data, *args, **keywords))

    def _like(self, value: Any) -> Any:
        if not isinstance(value, xr.DataArray):
            return value
        return value.broadcast_like(self._obj).transpose(*self._obj.dims).data
