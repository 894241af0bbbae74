"""`.upsweep` on polars' expressions and Series: `import upsweep.polars` once.

>>> import polars as pl, upsweep.polars
>>> table = pl.DataFrame({"shop": ["a", "b", "a"], "sold": [1, 2, 3]})
>>> table.select(pl.col("sold").upsweep.scan("max"))["sold"].to_list()
[1, 2, 3]
>>> table.select(pl.col("sold").upsweep.scan("add", over="shop"))["sold"].to_list()
[1, 2, 4]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

import upsweep as up
from upsweep.accessors import methods, of_groups


@pl.api.register_series_namespace("upsweep")
@methods
class Accessor:
    """Scans of a Series."""

    def __init__(self, series: pl.Series) -> None:
        self._series = series

    def _call(self, name: str, *args: Any, **keywords: Any) -> Any:
        return getattr(up, name)(self._series, *args, **keywords)


@pl.api.register_expr_namespace("upsweep")
@methods
class ExprAccessor:
    """Scans of an expression, of each group by itself where `over` names keys: it takes the rows in one go, where
    polars' own `.over` would make a call for each group. `return_dtype` names the result's dtype where it is another than the
    expression's, as with averages of integers."""

    def __init__(self, expression: pl.Expr) -> None:
        self._expression = expression

    def _call(
        self, name: str, *args: Any, over: Any = None, return_dtype: Any = None, **keywords: Any
    ) -> pl.Expr:
        keys = [] if over is None else [over] if isinstance(over, (str, pl.Expr)) else list(over)
        exprs = [self._expression, *(pl.col(key) if isinstance(key, str) else key for key in keys)]

        def run(columns: Sequence[pl.Series]) -> pl.Series:
            if len(columns) == 1:
                return getattr(up, name)(columns[0], *args, **keywords)
            return of_groups(name, columns[0], up.segments.groups(*columns[1:]), *args, **keywords)

        if not keys:
            # Of several columns each is scanned by itself.
            return self._expression.map_batches(
                lambda x: run([x]), return_dtype=return_dtype or pl.self_dtype()
            )
        return pl.map_batches(exprs, run, return_dtype=return_dtype or pl.dtype_of(self._expression))
