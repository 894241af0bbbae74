"""`.upsweep` on pandas' Series, DataFrames and groups: `import upsweep.pandas` once, and the index stays.

>>> import pandas as pd, upsweep.pandas
>>> table = pd.DataFrame({"shop": ["a", "b", "a"], "sold": [1, 2, 3]}, index=["mon", "tue", "wed"])
>>> table["sold"].upsweep.scan("max").to_dict()
{'mon': 1, 'tue': 2, 'wed': 3}
>>> table.groupby("shop")["sold"].upsweep.cumulative_sum().to_dict()
{'mon': 1, 'tue': 2, 'wed': 4}
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.extensions import register_dataframe_accessor, register_series_accessor
from pandas.api.typing import DataFrameGroupBy, SeriesGroupBy

import upsweep as up
from upsweep.accessors import OPERATORS, methods


@register_series_accessor("upsweep")
@register_dataframe_accessor("upsweep")
@methods
class Accessor:
    """Scans of a Series, or down the columns of a DataFrame."""

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def _call(self, name: str, *args: Any, **keywords: Any) -> Any:
        if self._obj.ndim > 1:
            keywords.setdefault("axis", 0)
        return getattr(up, name)(self._obj, *args, **keywords)


@methods
class GroupAccessor:
    """Scans of each group by itself, back where its rows are. Rows without a group become missing, as in pandas."""

    def __init__(self, groups: Any) -> None:
        self._groups, self._obj = groups, groups._obj_with_exclusions

    def _call(self, name: str, *args: Any, **keywords: Any) -> Any:
        if isinstance(self._obj, pd.DataFrame):
            return self._obj.apply(lambda column: self._column(column, name, *args, **keywords))
        return self._column(self._obj, name, *args, **keywords)

    def _column(self, column: Any, name: str, *args: Any, **keywords: Any) -> Any:
        codes = self._groups.ngroup().to_numpy()
        segments = up.segments.groups(codes)
        if name in OPERATORS:
            y = up.scan(column, OPERATORS[name], *args, segments=segments, **keywords)
        elif name == "ema":
            y = _ema(column, codes, segments, *args, **keywords)
        elif name == "discounted_sum":
            y = _discounted(column, segments, *args, **keywords)
        else:
            y = getattr(up, name)(column, *args, segments=segments, **keywords)
        return y if codes.min(initial=0) >= 0 else y.where(codes >= 0)


def _ema(column: Any, codes: Any, segments: Any, alpha: float) -> Any:
    """pandas' `ewm(alpha=alpha, adjust=False).mean()`: an average starts from its first item."""
    x = column.astype(float) if column.dtype.kind in "biu" else column
    return up.linear_recurrence(
        1 - alpha, x.where(~pd.Series(codes, x.index).duplicated(), alpha * x), segments=segments
    )


def _discounted(column: Any, segments: Any, gamma: float) -> Any:
    """Groups are the episodes: each one's last sum is its last item."""
    x = column.astype(float) if column.dtype.kind in "biu" else column
    return up.linear_recurrence(gamma, x, reverse=True, segments=segments)


_GROUPS: tuple[Any, ...] = (SeriesGroupBy, DataFrameGroupBy)
for _groups in _GROUPS:
    # pandas has `register_` functions for all but groups.
    _groups.upsweep = property(GroupAccessor)
