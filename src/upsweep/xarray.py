"""`.upsweep` on xarray's DataArrays: `import upsweep.xarray` once; dimensions, coordinates, names and chunks stay.

>>> import xarray as xr, upsweep.xarray
>>> rain = xr.DataArray([[1, 2], [3, 4]], dims=("time", "x"), coords={"x": [10, 20]}, name="rain")
>>> rain.upsweep.scan(dim="time").sel(x=20).values.tolist()
[2, 6]
>>> rain.upsweep.reduce("max", dim="time").sel(x=20).item()
4
"""

from __future__ import annotations

from typing import Any

import xarray as xr

import upsweep as up
from upsweep.accessors import FUNCTIONS, methods
from upsweep.components import bare, tupled
from upsweep.host.labelled import of_segments
from upsweep.segments import Segments

_FUNCTIONS = FUNCTIONS | {"reduce": up.reduce}


@xr.register_dataarray_accessor("upsweep")
@methods
class Accessor:
    """Scans along a dimension, `dim`, which may be left out where there is one only. Chunks of Dask are scanned when they are
    computed; other DataArrays among the arguments are brought to the same dimensions."""

    def __init__(self, obj: xr.DataArray) -> None:
        self._obj = obj

    def reduce(self, *args: Any, **keywords: Any) -> Any:
        """`upsweep.reduce` along `dim`, which goes. With `segments` it stays, without labels; of one dimension, the result is
        an array of its library's."""
        return self._call("reduce", *args, **keywords)

    def _call(self, name: str, *args: Any, dim: str | None = None, **keywords: Any) -> xr.DataArray:
        obj = self._obj
        if keywords.get("axis") is not None:
            raise up.ShapeError(
                f"dimensions have names here: pass dim={obj.dims[0] if obj.dims else 'time'!r} for instance, not axis="
            )
        if obj.ndim == 0 or (dim is None and obj.ndim > 1):
            raise up.ShapeError(
                f"the array has dimensions {obj.dims}: say which to scan along, dim={(*obj.dims, 'time')[0]!r} for instance"
            )
        along = obj.dims[0] if dim is None else dim
        keywords["axis"] = obj.get_axis_num(along)
        args = tuple(self._like(arg, obj) for arg in args)
        initial, out = keywords.pop("initial", None), keywords.pop("out", None)
        keywords = {key: self._like(value, obj) for key, value in keywords.items()}
        if initial is not None:
            labels = isinstance(initial, xr.DataArray)
            keywords["initial"] = self._like(initial, _rows(obj, along)) if labels else initial
        if out is not None:
            like = _rows(obj, along) if name == "reduce" else obj
            keywords["out"] = bare([_places(part, like) for part in tupled(out)])
        told = keywords.get("segments")
        if isinstance(told, Segments):
            marks = tuple(_marks(mark, obj, along) for mark in tupled(told.values))
            keywords["segments"] = Segments(told.spelling, marks if told.spelling == "groups" else marks[0])
        made = tupled(_FUNCTIONS[name](obj.data, *args, **keywords))
        if name == "reduce" and told is not None:
            return bare([of_segments(obj, y, keywords["axis"]) for y in made])
        return bare([_labelled(obj, along, y) for y in made])

    def _like(self, value: Any, obj: xr.DataArray) -> Any:
        if not isinstance(value, xr.DataArray):
            return value
        if foreign := set(value.dims) - set(obj.dims):
            raise up.ShapeError(f"the array has no dimension {', '.join(map(str, foreign))}, only {obj.dims}")
        for dim in set(value.indexes) & set(obj.indexes):
            if not obj.indexes[dim].isin(value.indexes[dim]).all():
                # xarray would fill up with NaN, which as a flag is true.
                raise up.ShapeError(
                    f"an argument has no values for some labels of {dim!r}: fill them in, by b.reindex_like(a, fill_value=...)"
                )
        # Labels that obj has not are left out.
        return xr.align(obj, value, join="left")[1].broadcast_like(obj).transpose(*obj.dims).data


def _rows(obj: xr.DataArray, along: Any) -> xr.DataArray:
    """One value a row, also where a row has no items. To make it takes longer than a short scan."""
    nothing = xr.zeros_like(obj.isel({along: slice(0, 0)}), dtype=bool)
    return nothing.any(along).assign_attrs(obj.attrs)


def _places(out: Any, like: xr.DataArray) -> Any:
    """The memory that results go to, in the order of their dimensions; it must not be a copy, as of other labels."""
    if not isinstance(out, xr.DataArray):
        return out
    return xr.align(like, out, join="exact", copy=False)[1].transpose(*like.dims).data


def _labelled(obj: xr.DataArray, along: Any, y: Any) -> Any:
    """A result with the labels of the items, or of the rows."""
    if y.shape == obj.shape:
        return obj.copy(data=y)
    rows = _rows(obj, along)
    return rows.copy(data=y) if y.shape == rows.shape else y


def _marks(value: Any, obj: xr.DataArray, along: Any) -> Any:
    """Marks of segments in the order of the array's items."""
    if not isinstance(value, xr.DataArray):
        return value
    dims = obj.dims if value.ndim > 1 else (along,)
    # Marks of other items cannot be filled up as numbers are.
    return xr.align(obj, value, join="exact")[1].transpose(*dims).data
