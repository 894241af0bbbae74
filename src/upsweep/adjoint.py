"""The gradients of a linear recurrence, each by one scan that reads three arrays and writes two."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from upsweep import api, recall
from upsweep import engine as engines
from upsweep.adjoint_rules import RULES, SUMMED, handed_on, with_what_comes
from upsweep.arguments import dtype_of, number_of
from upsweep.dtypes import accumulator
from upsweep.engine import Operands
from upsweep.execution import Ran, execute
from upsweep.function import Function
from upsweep.operators import ADJOINT, PRODUCTS
from upsweep.plan import Plan
from upsweep.segments import Segments
from upsweep.summed import scan_and_sums


def recurrence_gradients(
    g: Any, a: Any, h: Any, *, axis: int, reverse: bool = False, initial: Any = None
) -> tuple[Any, Any]:
    """The gradients of a and b from the gradient g of `h = linear_recurrence(a, b, order="sequential")`.

    `db[t] = g[t] + a[t+1] db[t+1]` and `da[t] = db[t] h[t-1]`, with h[-1] = initial; the loop of PyTorch's autograd, bit for bit.
    Half precision keeps db in float32 and rounds at the store.

    Args:
        g, a, h: real arrays of one shape and kind, and of one dtype, but that a may have the accumulator's. a may have strides of
            0.
        axis, reverse, initial: of the recurrence; initial of the accumulator's dtype, one value a row, or nothing for 0.

    Returns:
        `(da, db)`, each of the shape and kind of g, and of the dtype of a and of g.

    >>> import numpy as np
    >>> a, h = np.array([0.5, 0.5, 0.5]), np.array([1.0, 1.5, 1.75])
    >>> da, db = recurrence_gradients(np.ones(3), a, h, axis=0)
    >>> da.tolist(), db.tolist()
    ([0.0, 1.5, 1.5], [1.75, 1.5, 1.0])
    """
    xs, starts = (g, a, h), starts_from(initial)
    like = _likeness(xs, starts, axis, reverse)
    made = recall.again(like, xs, starts, None, None)
    db, da = made or recall.learnt(like, xs, starts, None, None, _run, xs, starts, axis, reverse)
    return da, db


def known_gradients(
    g: Any, a: Any, h: Any, starts: tuple[Any, ...] | None, *, axis: int, reverse: bool
) -> recall.Known | None:
    """The function that runs calls of `recurrence_gradients` like this one, as `recall.known` gives it, from `starts_from` its
    `initial`. Its results are the gradients of b and of a.
    """
    return recall.known(_likeness((g, a, h), starts, axis, reverse))


def starts_from(initial: Any) -> tuple[Any, ...] | None:
    """The initial state of a recurrence as its gradients take it."""
    return None if initial is None else (0, 0, initial)


def _likeness(xs: tuple[Any, ...], starts: tuple[Any, ...] | None, axis: int, reverse: bool) -> Any:
    return recurrence_gradients, recall.seen(xs), starts and recall.seen(starts), axis, reverse


def _run(
    given: tuple[Any, ...], initial: tuple[Any, ...] | None, axis: int, reverse: bool
) -> tuple[tuple[Any, Any], Ran]:
    """The gradients of b and a, and how they were made."""
    name, like = engines.choose(given), given[0]
    on = engines.load(name)
    xs = [on.view(x) for x in given]
    plan = _plan(tuple(x.dtype for x in xs), xs[0].shape, axis, reverse)
    ys = [on.empty(like, plan.shape, x.dtype) for x in xs[:2]]
    starts = None if initial is None else [on.start(v, plan.accumulators[0], like) for v in initial]
    on.run(plan, xs, [*ys, None], starts, None)
    return (on.give(like, ys[0]), on.give(like, ys[1])), Ran(
        name, plan, like, Operands(xs, [], ys, starts or [])
    )


@lru_cache(1024)
def _plan(dtypes: tuple[np.dtype, ...], shape: tuple[int, ...], axis: int, reverse: bool) -> Plan:
    computed = tuple(map(accumulator, dtypes))
    stores = (dtypes[0], dtypes[1], None)
    products = Function(PRODUCTS.fn, 1, computed, str(PRODUCTS))
    return Plan(
        ADJOINT, dtypes, computed, stores, shape, axis, reverse=not reverse,
        order="sequential", finish=products, ahead=2,
    )  # fmt: skip


def gradients_at_once(
    g: Any, a: Any, before: Any, start: Any, starts: Any, *, axis: int, reverse: bool, order: str, segments: Segments | None
) -> tuple[Any, Any]:  # fmt: skip
    """The gradients of a and b from the gradient g of `h = linear_recurrence(a, b)` in either order, in segments or without: one
    scan that reads every array once.

    Args:
        g, a, before: real arrays as there; before has h[t-1] at t, and anything where a segment starts.
        start: the state before a segment, broadcast to g; a number or an array of the accumulator's dtype.
        starts: where segments start in the direction of the recurrence, broadcast to g; None for the first item alone.
        axis, reverse, order, segments: of the recurrence.

    >>> import numpy as np
    >>> a, before = np.array([0.5, 0.5, 0.5]), np.array([0.0, 1.0, 1.5])
    >>> da, db = gradients_at_once(np.ones(3), a, before, 0.0, None, axis=0, reverse=False, order="tree", segments=None)
    >>> da.tolist(), db.tolist()
    ([0.0, 1.5, 1.5], [1.75, 1.5, 1.0])
    """
    rule = RULES[order]
    given, finish = (g, a, before, start, starts), rule.leave
    if starts is None:
        given, finish = (*given[:-1], first_of(g, axis, reverse)), rule.leave_from
    return _scanned(given, rule.enter, finish, 2, axis, reverse, order, segments)


def known_at_once(
    g: Any, a: Any, before: Any, start: Any, first: Any, *, axis: int, reverse: bool, order: str
) -> recall.Known | None:
    """The function that runs calls of `gradients_at_once` like this one, without segments, as `recall.known` gives it. `first` is
    `first_of` them.
    """
    return recall.known(_like((g, a, before, start, first), RULES[order].leave_from, axis, reverse, None))


def first_of(g: Any, axis: int, reverse: bool) -> Any:
    """The place of the first item in the direction of the recurrence, as a scan takes it."""
    return number_of(g.shape[axis] - 1 if reverse else 0)


def _like(
    given: tuple[Any, ...], leave: Callable[..., Any], axis: int, reverse: bool, segments: Segments | None
) -> Any:
    seen = None if segments is None else recall.seen_segments(segments)
    return leave, recall.seen(given), axis, reverse, seen


def gradient_at_once(
    g: Any, a: Any, *, axis: int, reverse: bool, order: str, segments: Segments | None
) -> Any:
    """The gradient of b alone."""
    rule = RULES[order]
    return _scanned((g, a), rule.enter_alone, rule.leave_alone, 1, axis, reverse, order, segments)[0]


def _scanned(
    given: tuple[Any, ...], enter: Callable[..., Any], leave: Callable[..., Any], count: int, axis: int, reverse: bool,
    order: str, segments: Segments | None,
) -> tuple[Any, ...]:  # fmt: skip
    """The `count` gradients that `leave` makes: of a and b, or of b alone."""
    like = _like(given, leave, axis, reverse, segments)
    made = recall.again(like, given, None, None, segments)
    return made or recall.learnt(
        like, given, None, None, segments, _scan, given, enter, leave, count, axis, reverse, order, segments
    )


def _scan(
    given: tuple[Any, ...], enter: Callable[..., Any], leave: Callable[..., Any], count: int, axis: int, reverse: bool,
    order: str, segments: Segments | None,
) -> tuple[Any, Ran | None]:  # fmt: skip
    """The gradients that `leave` makes, and the call that ran."""
    rule, g = RULES[order], given[0]
    on, like = engines.load(engines.choose(given)), (given[1], g)[-count:]
    out = tuple([on.give(g, on.empty(g, tuple(g.shape), dtype_of(x.dtype))) for x in like])
    computed = accumulator(dtype_of(g.dtype))
    return execute(
        given, rule.op, axis, rule.exclusive, not reverse, None, computed, out, segments, "auto", None, False, None, order,
        enter, leave,
    )  # fmt: skip


def gradient_and_sums(
    g: Any, a: Any, before: Any, start: Any, starts: Any, *, axis: int, reverse: bool, order: str, segments: Segments | None,
    across: bool,
) -> tuple[Any, Any] | None:  # fmt: skip
    """The gradient of b, and sums of `db[t] h[t-1]`, which is not rounded, as `scan_and_sums` gives them.

    Args:
        g, before, start, starts: as in `gradients_at_once`.
        a: the multiplier, broadcast to g; in tree order that of the item behind each item, in the direction of the recurrence.
        axis, reverse, order, segments: of the recurrence.
        across: as in `scan_and_sums`.
    """
    rule = SUMMED[order]
    given, finish = (g, a, before, start, starts), rule.leave
    if starts is None:
        given, finish = (*given[:-1], first_of(g, axis, reverse)), rule.leave_from
    return scan_and_sums(
        given, rule.op, axis=axis, across=across, reverse=not reverse, segments=segments, order=order, map=rule.enter,
        finish=finish,
    )  # fmt: skip


def recurrence_gradient(
    g: Any, a: Any, *, axis: int, reverse: bool, segments: Segments | None, out: Any
) -> Any:
    """The gradient of b from the gradient g of `h = linear_recurrence(a, b)`: `db[t] = g[t] + a[t+1] db[t+1]`, into `out`.

    Each item hands `a[t] db[t]` on to the item before it. So nothing is read an item ahead.

    >>> import numpy as np
    >>> g, a = np.ones(3), np.array([0.5, 0.5, 0.5])
    >>> recurrence_gradient(g, a, axis=0, reverse=False, segments=None, out=np.empty(3)).tolist()
    [1.75, 1.5, 1.0]
    """
    return api.scan(
        (g, a), "affine", map=handed_on, finish=with_what_comes, axis=axis, reverse=not reverse, exclusive=True,
        dtype=accumulator(dtype_of(g.dtype)), segments=segments, out=out,
    )  # fmt: skip
