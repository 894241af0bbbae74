"""The gradients of a linear recurrence in order: one pass that reads three arrays and writes two."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from upsweep import engine as engines
from upsweep.dtypes import accumulator
from upsweep.function import Function
from upsweep.operators import ADJOINT, PRODUCTS
from upsweep.plan import Plan


def recurrence_gradients(
    g: Any, a: Any, h: Any, *, axis: int, reverse: bool = False, initial: Any = None
) -> tuple[Any, Any]:
    """The gradients of a and b from the gradient g of `h = linear_recurrence(a, b, order="sequential")`.

    `db[t] = g[t] + a[t+1] db[t+1]` and `da[t] = db[t] h[t-1]`, with h[-1] = initial; the loop of PyTorch's autograd, bit for bit.
    Half precision keeps db in float32 and rounds at the store.

    Args:
        g, a, h: real arrays of one shape, dtype and kind; a may have strides of 0.
        axis, reverse, initial: of the recurrence; initial of the accumulator's dtype, one value a row, or nothing for 0.

    Returns:
        `(da, db)`, each of the shape, dtype and kind of g.

    >>> import numpy as np
    >>> a, h = np.array([0.5, 0.5, 0.5]), np.array([1.0, 1.5, 1.75])
    >>> da, db = recurrence_gradients(np.ones(3), a, h, axis=0)
    >>> da.tolist(), db.tolist()
    ([0.0, 1.5, 1.5], [1.75, 1.5, 1.0])
    """
    on = engines.load(engines.choose((g, a, h)))
    xs = [on.view(x) for x in (g, a, h)]
    plan = _plan(tuple(x.dtype for x in xs), xs[0].shape, axis, reverse)
    ys = [on.empty(g, plan.shape, xs[0].dtype), on.empty(g, plan.shape, xs[1].dtype), None]
    starts = [on.start(v, plan.accumulators[0], g) for v in (0, 0, 0 if initial is None else initial)]
    on.run(plan, xs, ys, starts, None)
    return on.give(g, ys[1]), on.give(g, ys[0])


@lru_cache(1024)
def _plan(dtypes: tuple[np.dtype, ...], shape: tuple[int, ...], axis: int, reverse: bool) -> Plan:
    computed = tuple(map(accumulator, dtypes))
    stores = (dtypes[0], dtypes[1], None)
    products = Function(PRODUCTS.fn, 1, computed, str(PRODUCTS))
    return Plan(
        ADJOINT, dtypes, computed, stores, shape, axis, reverse=not reverse,
        order="sequential", finish=products, ahead=2,
    )  # fmt: skip
