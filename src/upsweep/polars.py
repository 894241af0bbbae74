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
from upsweep.accessors import FUNCTIONS, methods, of_groups


@pl.api.register_series_namespace("upsweep")
@methods
class Accessor:
    """Scans of a Series."""

    def __init__(self, series: pl.Series) -> None:
        self._series = series

    def _call(self, name: str, *args: Any, **keywords: Any) -> Any:
        return FUNCTIONS[name](self._series, *args, **keywords)


@pl.api.register_expr_namespace("upsweep")
@methods
class ExprAccessor:
    """Scans of an expression, of each group by itself where `over` names keys: it takes the rows in one go, where
    polars' own `.over` would make a call for each group. Expressions among the arguments, such as `times=pl.col("day")`, are
    columns of the same rows. `return_dtype` names the result's dtype where it is another than the expression's: pl.Float64 with
    averages of integers, pl.Int64 with `cumulative_sum` of narrower ones."""

    def __init__(self, expression: pl.Expr) -> None:
        self._expression = expression

    def _call(
        self, name: str, *args: Any, over: Any = None, return_dtype: Any = None, **keywords: Any
    ) -> pl.Expr:
        keys = [] if over is None else [over] if isinstance(over, (str, pl.Expr)) else list(over)
        given = [*args, *keywords.values()]
        beside = [value for value in given if isinstance(value, pl.Expr)]
        exprs = [self._expression, *(pl.col(key) if isinstance(key, str) else key for key in keys), *beside]

        def run(columns: Sequence[pl.Series]) -> pl.Series:
            x, by, rest = columns[0], columns[1 : 1 + len(keys)], iter(columns[1 + len(keys) :])
            told = [next(rest) if isinstance(value, pl.Expr) else value for value in given]
            operands, named = told[: len(args)], dict(zip(keywords, told[len(args) :]))
            if not by:
                return FUNCTIONS[name](x, *operands, **named)
            return of_groups(name, x, up.segments.groups(*by), *operands, **named)

        # Of several columns each is scanned by itself.
        return pl.map_batches(exprs, run, return_dtype=return_dtype or pl.self_dtype())
