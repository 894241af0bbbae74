"""Objects whose items have labels (pandas, polars, xarray), and Arrow's: their items in NumPy's arrays, results with labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from upsweep.engine import DTypeError, EngineError, library_of

LIBRARIES = ("pandas", "polars", "pyarrow", "xarray")


def has(x: Any) -> bool:
    """Whether an object is one of these."""
    return library_of(x) in LIBRARIES


def types_of(x: Any) -> list[Any]:
    """The dtypes of what pandas holds, one for each column. It makes a Series of them whenever it is asked, which takes several
    times as long as a short scan. None of other objects are needed.
    """
    if library_of(x) != "pandas":
        return []
    # Groups of a table have two dimensions and no dtypes; `items` refuses them.
    return list(getattr(x, "dtypes", ())) if getattr(x, "ndim", 1) == 2 else [getattr(x, "dtype", None)]


def items(x: Any, types: Sequence[Any] | None = None) -> np.ndarray:
    """The items of such an object. They must lie in memory already, and each must be a number. `types` are known already."""
    return _ITEMS[library_of(x)](x, types_of(x) if types is None else types)


def labelled(like: Any, y: np.ndarray, types: Sequence[Any] | None = None) -> Any:
    """A result with the labels of the input, where both have the same shape; else the result as it is."""
    if library_of(like) == "pyarrow" or y.shape != tuple(like.shape):
        return y if y.ndim else y[()]
    return _LABELLED[library_of(like)](like, y, types_of(like) if types is None else types)


def reduced(like: Any, y: Any, axis: int | None) -> Any:
    """A reduction along an axis, with the labels that the object has along the others. Times keep their zone."""
    if library_of(like) not in _REDUCED or len(like.shape) != y.ndim + 1:
        return y
    along = (axis or 0) % len(like.shape)
    left = (*like.shape[:along], *like.shape[along + 1 :])
    return _REDUCED[library_of(like)](like, y, along) if y.shape == left else y


def of_segments(like: Any, y: Any, axis: int) -> Any:
    """The reductions of segments along an axis of an object, with the labels that it has along the others. Segments have none."""
    made = _OF_SEGMENTS.get(library_of(like))
    left, labels = ((*shape[:axis], *shape[axis + 1 :]) for shape in (y.shape, like.shape))
    return made(like, y, axis) if made and left and left == labels else y


def _of_pandas(x: Any, types: Sequence[Any]) -> np.ndarray:
    import pandas

    if not isinstance(x, (pandas.Series, pandas.DataFrame)):
        _check_ungrouped(x)
    if isinstance(x, (pandas.Timestamp, pandas.Timedelta)):
        # NumPy would ask them for microseconds.
        return np.asarray(x.to_numpy())
    # To take the columns of a table one by one takes long.
    plain = len(set(types)) == 1 and isinstance(types[0], np.dtype)
    made = x.to_numpy() if plain else _of_columns(x, types)
    if isinstance(x, pandas.Index):
        # pandas finds rows by a table that it makes once of an index: its items must not change.
        made = made.view()
        made.flags.writeable = False
    return made


def _check_ungrouped(x: Any) -> None:
    from pandas.api.typing import DataFrameGroupBy, SeriesGroupBy

    if isinstance(x, (DataFrameGroupBy, SeriesGroupBy)):
        raise EngineError(
            f"this {type(x).__name__} is no array: import upsweep.pandas and call x.upsweep.scan(), or pass the column, with "
            "segments=upsweep.segments.groups(keys)"
        )


def _of_columns(x: Any, types: Sequence[Any]) -> np.ndarray:
    import pandas

    frame = isinstance(x, pandas.DataFrame)
    columns = [x.iloc[:, c] for c in range(x.shape[1])] if frame else [x]
    if any(getattr(t, "na_value", None) is pandas.NA and c.isna().any() for c, t in zip(columns, types)):
        raise DTypeError(_MISSING.format("pandas' missing values (NA)", "x.fillna(0)"))
    own = _own_type(types)
    # Times of a zone are kept as those of UTC.
    dtype = f"M8[{own.unit}]" if isinstance(own, pandas.DatetimeTZDtype) else None
    if frame and own is not None:
        # Together such columns would be objects.
        return np.array([np.asarray(column, dtype) for column in columns]).T
    return _together(x, columns, types, dtype)


def _own_type(types: Sequence[Any]) -> Any:
    """The one type of all columns, where it is pandas' own and not NumPy's."""
    own = types[0] if len(set(types)) == 1 else None
    return None if isinstance(own, np.dtype) else own


def _of_polars(x: Any, types: Sequence[Any]) -> np.ndarray:
    import polars

    if not isinstance(x, (polars.Series, polars.DataFrame)):
        raise EngineError(
            f"this {type(x).__name__} has no items yet: pass x.collect(), or import upsweep.polars and call x.upsweep.scan() of "
            "an expression"
        )
    columns = x.get_columns() if isinstance(x, polars.DataFrame) else [x]
    if any(column.null_count() for column in columns):
        raise DTypeError(_MISSING.format("polars' nulls", "x.fill_null(0)"))
    if isinstance(x, polars.Series) and x.dtype == polars.String:
        # An array of fixed width would cut the zeros at the end of a text.
        return x.to_numpy()
    return _together(x, columns, [column.dtype for column in columns])


def _of_arrow(x: Any, types: Sequence[Any]) -> np.ndarray:
    columns = getattr(x, "columns", [x])
    if any(getattr(column, "null_count", 0) for column in columns):
        raise DTypeError(_MISSING.format("Arrow's nulls", "pyarrow.compute.fill_null(x, 0)"))
    return _together(x, columns, [getattr(column, "type", None) for column in columns])


def _together(x: Any, columns: Sequence[Any], types: Sequence[Any], dtype: str | None = None) -> np.ndarray:
    """The columns of a table as one array, if that holds them: floats have no place for all integers."""
    made = np.asarray(x, dtype)
    if len(set(types)) > 1:
        given = [np.asarray(column) for column in columns]
        wide = [
            v for v in given if v.dtype.kind in "iu" and v.itemsize == 8 and made.dtype.kind == "f" and v.size
        ]
        if made.dtype == object or any(v.max() > 2**53 or v.min() < -(2**53) for v in wide):
            named = ", ".join(sorted(set(map(str, types))))
            raise DTypeError(
                f"columns of {named} have no dtype in common: scan each by itself, or convert them to one dtype first"
            )
    return made


def _of_xarray(x: Any, types: Sequence[Any]) -> np.ndarray:
    import xarray

    if isinstance(x, xarray.Dataset):
        raise EngineError(
            "a Dataset holds several arrays: import upsweep.xarray and pass each to its scan, "
            "x.map(lambda array: array.upsweep.scan(dim=...))"
        )
    # xarray looks long for chunks.
    if type(x.data) is np.ndarray:
        return x.data
    if x.chunks:
        raise EngineError(
            "the chunks of this DataArray would be loaded at once: import upsweep.xarray and call x.upsweep.scan(dim=...), or "
            "pass x.load()"
        )
    return np.asarray(x)


_MISSING = "{} are no numbers: pass {}, or whatever changes nothing"
_ITEMS = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow, "xarray": _of_xarray}


def _as_pandas(like: Any, y: np.ndarray, types: Sequence[Any]) -> Any:
    import pandas

    if isinstance(like, pandas.Series):
        return _as_series(like.dtype, y, like.index, like.name).__finalize__(like)
    if not isinstance(like, pandas.DataFrame):
        return y
    own = _own_type(types)
    if own is None:
        return pandas.DataFrame(y, like.index, like.columns, copy=False).__finalize__(like)
    # By their numbers, as several columns may have one name.
    arrays = {c: _as_series(own, y[:, c], like.index).array for c in range(y.shape[1])}
    made = pandas.DataFrame(arrays, like.index)
    return made.set_axis(like.columns, axis=1).__finalize__(like)


def _as_series(dtype: Any, y: np.ndarray, index: Any, name: Any = None) -> Any:
    import pandas

    made = pandas.Series(_as_array(dtype, y), index, name=name, copy=False)
    zone = getattr(dtype, "tz", None)
    return made if zone is None or y.dtype.kind != "M" else made.dt.tz_localize("UTC").dt.tz_convert(zone)


def _row_of_pandas(like: Any, y: Any, axis: int) -> Any:
    import pandas

    if isinstance(like, pandas.DataFrame):
        return _as_series(_own_type(types_of(like)), y, like.axes[1 - axis]).__finalize__(like)
    zone = getattr(like.dtype, "tz", None)
    return y if zone is None or y.dtype.kind != "M" else _as_series(like.dtype, y.reshape(1), [0])[0]


def _as_array(dtype: Any, y: np.ndarray) -> Any:
    """Results as pandas' array where the items were in one that may have missing values, or in Arrow's memory."""
    import pandas

    if isinstance(dtype, pandas.ArrowDtype) and y.dtype.kind in "biufmM":
        import pyarrow

        return pandas.array(y, pandas.ArrowDtype(pyarrow.from_numpy_dtype(y.dtype)))
    missing = getattr(dtype, "na_value", None) is pandas.NA
    return pandas.array(y) if missing and y.dtype.kind in "biuf" and y.dtype != np.float16 else y


def _as_polars(like: Any, y: np.ndarray, types: Sequence[Any]) -> Any:
    import polars

    if isinstance(like, polars.DataFrame):
        return polars.DataFrame([_as_polars(column, y[:, c], types) for c, column in enumerate(like)])
    made = polars.Series(like.name, y)
    zone = getattr(like.dtype, "time_zone", None)
    if zone is None or y.dtype.kind != "M":
        return made
    return made.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)


def _row_of_polars(like: Any, y: Any, axis: int) -> Any:
    import polars

    if isinstance(like, polars.Series):
        zone = getattr(like.dtype, "time_zone", None)
        return y if zone is None or y.dtype.kind != "M" else _as_polars(like, y.reshape(1), ())[0]
    # As in polars, a sum down the columns is a table of one row.
    return (
        _as_polars(next(iter(like), polars.Series()).alias(""), y, ())
        if axis
        else _as_polars(like, y[None], ())
    )


def _row_of_xarray(like: Any, y: Any, axis: int) -> Any:
    return like.reduce(lambda items, axis: y, like.dims[axis], keep_attrs=True) if y.ndim else y


def _segments_of_pandas(like: Any, y: np.ndarray, axis: int) -> Any:
    import pandas

    index, columns = (pandas.RangeIndex(y.shape[d]) if d == axis else like.axes[d] for d in range(2))
    return _as_pandas(pandas.DataFrame(index=index, columns=columns), y, types_of(like))


def _segments_of_polars(like: Any, y: np.ndarray, axis: int) -> Any:
    # Columns have names, which segments of columns have not.
    return y if axis else _as_polars(like, y, ())


def _segments_of_xarray(like: Any, y: Any, axis: int) -> Any:
    dim = like.dims[axis]
    left = like.drop_vars([name for name, coord in like.coords.items() if dim in coord.dims])
    return type(like)(y, left.coords, like.dims, like.name, like.attrs)


_LABELLED = {"pandas": _as_pandas, "polars": _as_polars, "xarray": lambda like, y, types: like.copy(data=y)}
_OF_SEGMENTS = {"pandas": _segments_of_pandas, "polars": _segments_of_polars, "xarray": _segments_of_xarray}
_REDUCED = {"pandas": _row_of_pandas, "polars": _row_of_polars, "xarray": _row_of_xarray}
