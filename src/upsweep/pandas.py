"""`.upsweep` on pandas' Series, DataFrames, groups and spans of time: `import upsweep.pandas` once, and the index stays.

>>> import pandas as pd, upsweep.pandas
>>> table = pd.DataFrame({"shop": ["a", "b", "a"], "sold": [1, 2, 3]}, index=["mon", "tue", "wed"])
>>> table["sold"].upsweep.scan("max").to_dict()
{'mon': 1, 'tue': 2, 'wed': 3}
>>> table.groupby("shop")["sold"].upsweep.cumulative_sum().to_dict()
{'mon': 1, 'tue': 2, 'wed': 4}
>>> pd.Series([1, 2, 3], pd.date_range("2026-01-01", periods=3, freq="12h")).resample("D").upsweep.cumulative_sum().tolist()
[1, 3, 3]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, register_dataframe_accessor, register_series_accessor
from pandas.api.typing import DataFrameGroupBy, Resampler, SeriesGroupBy

import upsweep as up
from upsweep.accessors import FUNCTIONS, methods, of_groups
from upsweep.components import bare, tupled
from upsweep.engine import choose, grouping

_FUNCTIONS = FUNCTIONS | {"reduce": up.reduce}


@register_series_accessor("upsweep")
@register_dataframe_accessor("upsweep")
@methods
class Accessor:
    """Scans of a Series, or down the columns of a DataFrame."""

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def reduce(self, *args: Any, **keywords: Any) -> Any:
        """`upsweep.reduce` of a Series, or of each column of a DataFrame."""
        return self._call("reduce", *args, **keywords)

    def _call(self, name: str, *args: Any, **keywords: Any) -> Any:
        if self._obj.ndim == 1:
            return _FUNCTIONS[name](self._obj, *args, **keywords)
        keywords.setdefault("axis", 0)
        if len(set(self._obj.dtypes)) == 1 or keywords["axis"] != 0:
            return _FUNCTIONS[name](self._obj, *args, **keywords)
        # Columns of several dtypes have no array in common.
        del keywords["axis"]
        return self._obj.apply(lambda column: _alone(_FUNCTIONS[name](column, *args, **keywords)))


@methods
class GroupAccessor:
    """Scans of each group by itself, back where its rows are. Rows without a group become missing, as in pandas."""

    def __init__(self, groups: Any) -> None:
        self._groups, self._obj = groups, groups._obj_with_exclusions

    def _call(self, name: str, *args: Any, **keywords: Any) -> Any:
        table, keys = self._obj, _keys(self._groups)
        # pandas hashes objects, and knows which of them are missing.
        segments = up.segments.groups(*(pd.factorize(k)[0] if k.dtype == object else k for k in keys))
        lost = np.zeros(len(table), bool)
        if self._groups.dropna:
            lost = np.logical_or.reduce([pd.isna(key) for key in keys])

        def scanned(x: Any, **how: Any) -> Any:
            made = of_groups(name, x, segments, *args, **keywords, **how)
            return bare([_masked(y, lost) for y in tupled(made)]) if lost.any() else made

        if table.ndim == 1:
            return scanned(table)
        # All columns have the same groups: they are numbered once.
        segments = up.segments.groups(grouping(choose(())).codes_of(segments.values, len(table))[0])
        if _together(table, (*args, *keywords.values())) and "axis" not in keywords:
            return _alone(scanned(table, axis=0))
        return table.apply(lambda column: _alone(scanned(column)))


def _together(table: Any, given: Iterable[Any]) -> bool:
    """Whether columns are one array, and what they are scanned with is the same for all rows of it."""
    types = set(table.dtypes)
    return len(types) == 1 and isinstance(types.pop(), np.dtype) and not any(map(np.ndim, given))


def _masked(y: Any, lost: np.ndarray) -> Any:
    return y.mask(lost if y.ndim == 1 else np.broadcast_to(lost[:, None], y.shape))


def _keys(groups: Any) -> list[Any]:
    """The columns that groups are made of. To number them by pandas would take longer than their scan. pandas numbers groups that
    are made of no columns, such as the bins of a `pd.Grouper`.
    """
    keys = [grouping.grouping_vector for grouping in groups._grouper.groupings]
    # Rows are in the order of their bins, and the column as it was given.
    binned = hasattr(groups._grouper, "bins")
    if binned or not all(isinstance(key, (np.ndarray, pd.Index, ExtensionArray)) for key in keys):
        return [groups.ngroup().to_numpy()]
    return keys


def _alone(made: Any) -> Any:
    """The result of a column: a table has no place for several."""
    if isinstance(made, tuple):
        raise ValueError("several results for each column make no table: scan the columns one by one")
    # The reductions of segments are an array.
    return pd.Series(made) if isinstance(made, np.ndarray) else made


_GROUPS: tuple[Any, ...] = (SeriesGroupBy, DataFrameGroupBy)
for _groups in _GROUPS:
    # pandas has `register_` functions for neither groups nor spans of time.
    _groups.upsweep = property(GroupAccessor)


def _of_resampled(resampled: Any) -> GroupAccessor:
    """Scans of each span of time: those of the groups that `pd.Grouper` makes of the same spans."""
    if vars(resampled).get("_groupby") is not None:
        raise ValueError(
            "groups that are resampled: pass both to groupby, x.groupby(['shop', pd.Grouper(freq='D')])"
        )
    return GroupAccessor(resampled.obj.groupby(resampled._timegrouper))


_Resampler: Any = Resampler
_Resampler.upsweep = property(_of_resampled)
