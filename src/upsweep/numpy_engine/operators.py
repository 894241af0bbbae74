"""Operators on whole arrays: the built-in ones by their twins in the table of operators, any other by its Python function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from upsweep.components import tupled
from upsweep.function import Function, unchanged
from upsweep.numpy_engine.functions import adopted
from upsweep.numpy_engine.typed import Columns, data_of, evaluate
from upsweep.operator import Operator, uncompilable
from upsweep.operators import variant_of


def on_arrays(op: Operator, dtypes: Sequence[np.dtype]) -> Callable[[Columns, Columns], Columns]:
    """The operator as a function of two columns of arrays of these dtypes."""
    known = variant_of(op, dtypes)
    if known is not None and known[1].twin is not None:
        return _on_columns(known[1].twin, len(dtypes))
    return _evaluated(op, op.fn, dtypes)


def computed(function: Function, arguments: Sequence[Columns]) -> Columns:
    """The results of a function for the items of its arguments, in the dtypes of its results."""
    return _evaluated(function, function.fn, function.results)(*arguments)


def _evaluated(
    op: Operator | Function, fn: Callable[..., Any], dtypes: Sequence[np.dtype]
) -> Callable[..., Columns]:
    unchanged(op)
    fn = adopted(fn)

    def columns(result: Any) -> Columns:
        return _settled(_columns(result, dtypes), dtypes)

    def call(*arguments: Columns) -> Columns:
        try:
            return evaluate(fn, arguments, columns, len(dtypes))
        except Exception as error:
            raise uncompilable(op, said_by(error)) from error

    return call


def ufunc_of(op: Operator, dtypes: Sequence[np.dtype]) -> np.ufunc | None:
    """NumPy's own function for an operator, or None."""
    known = variant_of(op, dtypes)
    return getattr(np, known[0].ufuncs[0]) if known is not None and known[0].ufuncs else None


def _on_columns(twin: Callable[[Any, Any], Any], count: int) -> Callable[[Columns, Columns], Columns]:
    if count == 1:
        return lambda a, b: [twin(a[0], b[0])]
    return lambda a, b: list(twin(tuple(a), tuple(b)))


class _Returned(TypeError):
    """The operator returns something other than items."""


def said_by(error: Exception) -> str:
    """The message for an exception that a function raises."""
    return str(error) if isinstance(error, _Returned) else f"{type(error).__name__}: {error}"


def _columns(result: Any, dtypes: Sequence[np.dtype]) -> Columns:
    """The values that a function returned, one array a component."""
    parts = tupled(result)
    if isinstance(result, tuple) != (len(dtypes) > 1) or len(parts) != len(dtypes):
        raise _Returned(f"the operator returns {_types(result)} where {_types(list(dtypes))} is wanted")
    columns = [data_of(part) for part in parts]
    for x in columns:
        if x.dtype.kind not in _RANKS:
            raise _Returned(f"the operator returns {x.dtype}, which is not a number")
    return columns


def _settled(columns: Columns, dtypes: Sequence[np.dtype]) -> Columns:
    """The columns in the accumulators' dtypes."""
    for x, dtype in zip(columns, dtypes):
        if _rank(x.dtype) > _rank(dtype):
            raise _Returned(f"the operator returns {x.dtype} for items of {dtype}; pass dtype={x.dtype}")
    return [x.astype(dtype, copy=False) for x, dtype in zip(columns, dtypes)]


_RANKS = "biufc"


def _rank(dtype: np.dtype) -> int:
    # Comparisons turn booleans into integers and back.
    return max(_RANKS.find(dtype.kind), 2)


def _types(result: Any) -> str:
    if isinstance(result, np.dtype):
        return str(result)
    if isinstance(result, (tuple, list)):
        inner = ", ".join(map(_types, result))
        return inner if len(result) == 1 and isinstance(result, list) else f"({inner})"
    return str(data_of(result).dtype)
