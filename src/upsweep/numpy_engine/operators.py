"""Operators on whole arrays: the built-in ones by NumPy's own functions, any other by its Python function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from upsweep.numpy_engine.functions import adopted
from upsweep.numpy_engine.typed import Columns, data_of, evaluate, product
from upsweep.operator import NAT, Operator, OperatorError, freeze, ops


def on_arrays(op: Operator, dtypes: Sequence[np.dtype]) -> Callable[[Columns, Columns], Columns]:
    """The operator as a function of two columns of arrays of these dtypes."""
    if op in TWINS:
        return TWINS[op]
    if freeze(op.fn) != op.key[0]:
        raise OperatorError(
            f"what operator {op} uses has changed since it was made: make it anew, Operator(fn)"
        )
    fn = adopted(op.fn)

    def combine(a: Columns, b: Columns) -> Columns:
        try:
            return _settled(evaluate(fn, a, b, lambda result: _columns(result, dtypes)), dtypes)
        except Exception as error:
            said = str(error) if isinstance(error, _Returned) else f"{type(error).__name__}: {error}"
            raise OperatorError(f"operator {op} cannot be compiled: {said}") from error

    return combine


class _Returned(TypeError):
    """The operator returns something else than items."""


def _columns(result: Any, dtypes: Sequence[np.dtype]) -> Columns:
    """What a function returned, one array a component."""
    parts = result if isinstance(result, tuple) else (result,)
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
    return max(_RANKS.find(dtype.kind), 2)  # comparisons give booleans to integers and back


def _types(result: Any) -> str:
    if isinstance(result, np.dtype):
        return str(result)
    if isinstance(result, (tuple, list)):
        inner = ", ".join(map(_types, result))
        return inner if len(result) == 1 and isinstance(result, list) else f"({inner})"
    return str(data_of(result).dtype)


def _of_one(fn: Callable[[Any, Any], Any]) -> Callable[[Columns, Columns], Columns]:
    return lambda a, b: [fn(a[0], b[0])]


def _extremes(real: type, integer: type) -> tuple[Any, Any]:
    size = integer(2 ** (8 * real().itemsize - 1) - 1)  # all bits but the sign

    def minimum(a, b):
        one, other = np.where(a < b, a, b).view(integer), np.where(b < a, b, a).view(integer)
        return (one | other).view(real)

    def maximum(a, b):
        one, other = np.where(a > b, a, b).view(integer), np.where(b > a, b, a).view(integer)
        return ((one | other) & (one & other | size)).view(real)

    return minimum, maximum


def _add_times(a, b):
    return np.where((a == NAT) | (b == NAT), NAT, a + b)


def _max_times(a, b):
    return np.where(((a >= b) & (b != NAT)) | (a == NAT), a, b)


def _kept(better: Callable[[Any, Any], Any]) -> Callable[[Columns, Columns], Columns]:
    def chosen(a, b):
        keep = better(a[0], b[0]) | (a[0] != a[0])
        return [np.where(keep, x, y) for x, y in zip(a, b)]

    return chosen


_MIN4, _MAX4 = _extremes(np.float32, np.int32)
_MIN8, _MAX8 = _extremes(np.float64, np.int64)

TWINS: dict[Operator, Callable[[Columns, Columns], Columns]] = {
    ops.ADD: _of_one(np.add),
    ops.MUL: _of_one(product),
    ops.AND: _of_one(np.bitwise_and),
    ops.OR: _of_one(np.bitwise_or),
    ops.XOR: _of_one(np.bitwise_xor),
    ops.MIN: _of_one(np.minimum),
    ops.MAX: _of_one(np.maximum),
    ops.MIN.special["f4"]: _of_one(_MIN4),
    ops.MIN.special["f8"]: _of_one(_MIN8),
    ops.MAX.special["f4"]: _of_one(_MAX4),
    ops.MAX.special["f8"]: _of_one(_MAX8),
    ops.ADD.special["m8"]: _of_one(_add_times),
    ops.MAX.special["m8"]: _of_one(_max_times),
    ops.ARGMAX: _kept(np.greater_equal),
    ops.ARGMIN: _kept(np.less_equal),
}
