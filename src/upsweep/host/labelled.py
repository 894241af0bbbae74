"""Objects whose items have labels (pandas, polars, xarray): their items as a NumPy array, and a result with the same labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep.engine import DTypeError, EngineError, library_of

LIBRARIES = ("pandas", "polars", "xarray")


def has(x: Any) -> bool:
    """Whether an object is one of these."""
    return library_of(x) in LIBRARIES


def items(x: Any) -> np.ndarray:
    """The items of such an object. They must lie in memory already."""
    library = library_of(x)
    if library == "xarray" and x.chunks:
        raise EngineError(
            "the chunks of this DataArray would be loaded at once: import upsweep.xarray and call x.upsweep.scan(dim=...), or "
            "pass x.load()"
        )
    if library == "polars" and hasattr(x, "null_count") and _missing(x):
        raise DTypeError("polars' nulls are no numbers: pass x.fill_null(0), or whatever changes nothing")
    return np.asarray(x)


def _missing(x: Any) -> bool:
    count = x.null_count()
    return bool(count if isinstance(count, int) else count.sum_horizontal().item())


def labelled(like: Any, y: np.ndarray) -> Any:
    """A result with the labels of the input, where both have the same shape; else the result as it is."""
    if y.shape != tuple(like.shape):
        return y if y.ndim else y[()]
    library = library_of(like)
    if library == "xarray":
        return like.copy(data=y)
    if library == "polars":
        import polars

        return polars.Series(like.name, y) if y.ndim == 1 else polars.DataFrame(y, schema=like.columns)
    import pandas

    if isinstance(like, pandas.Series):
        return pandas.Series(y, like.index, name=like.name)
    if isinstance(like, pandas.DataFrame):
        return pandas.DataFrame(y, like.index, like.columns)
    return y
