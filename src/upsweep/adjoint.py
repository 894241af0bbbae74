"""The gradients of a linear recurrence: in order one pass that reads three arrays and writes two, in tree order that of b."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from upsweep import api, recall
from upsweep import engine as engines
from upsweep.arguments import dtype_of
from upsweep.dtypes import accumulator
from upsweep.engine import Operands
from upsweep.execution import Ran
from upsweep.function import Function
from upsweep.operators import ADJOINT, PRODUCTS, ops
from upsweep.plan import Plan
from upsweep.segments import Segments


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
    xs, starts = (g, a, h), (0, 0, 0 if initial is None else initial)
    like = recurrence_gradients, recall.seen(xs), recall.seen(starts), axis, reverse
    db, da = recall.recalled(like, xs, starts, None, None, lambda: _run(xs, starts, axis, reverse))
    return da, db


def _run(
    given: tuple[Any, ...], initial: tuple[Any, ...], axis: int, reverse: bool
) -> tuple[tuple[Any, Any], Ran]:
    """The gradients of b and a, and how they were made."""
    name, like = engines.choose(given), given[0]
    on = engines.load(name)
    xs = [on.view(x) for x in given]
    plan = _plan(tuple(x.dtype for x in xs), xs[0].shape, axis, reverse)
    ys = [on.empty(like, plan.shape, x.dtype) for x in xs[:2]]
    starts = [on.start(v, plan.accumulators[0], like) for v in initial]
    on.run(plan, xs, [*ys, None], starts, None)
    return (on.give(like, ys[0]), on.give(like, ys[1])), Ran(name, plan, like, Operands(xs, [], ys, starts))


@lru_cache(1024)
def _plan(dtypes: tuple[np.dtype, ...], shape: tuple[int, ...], axis: int, reverse: bool) -> Plan:
    computed = tuple(map(accumulator, dtypes))
    stores = (dtypes[0], dtypes[1], None)
    products = Function(PRODUCTS.fn, 1, computed, str(PRODUCTS))
    return Plan(
        ADJOINT, dtypes, computed, stores, shape, axis, reverse=not reverse,
        order="sequential", finish=products, ahead=2,
    )  # fmt: skip


def recurrence_gradient(
    g: Any, a: Any, *, axis: int, reverse: bool, segments: Segments | None, out: Any
) -> Any:
    """The gradient of b from the gradient g of `h = linear_recurrence(a, b)`: `db[t] = g[t] + a[t+1] db[t+1]`, into `out`.

    What comes to an item, `a[t+1] db[t+1]`, is the sum of what the items behind it hand on: nothing is read an item ahead.

    >>> import numpy as np
    >>> g, a = np.ones(3), np.array([0.5, 0.5, 0.5])
    >>> recurrence_gradient(g, a, axis=0, reverse=False, segments=None, out=np.empty(3)).tolist()
    [1.75, 1.5, 1.0]
    """
    return api.scan(
        (g, a), ops.AFFINE, map=handed_on, finish=with_what_comes, axis=axis, reverse=not reverse, exclusive=True,
        dtype=accumulator(dtype_of(g.dtype)), segments=segments, out=out,
    )  # fmt: skip


def handed_on(g, a):
    return a, a * g


def with_what_comes(later, g, a):
    return g + later[1]
