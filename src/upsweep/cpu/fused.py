"""The map and the finish of a scan: an item's operand out of its inputs, and its results out of a prefix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from upsweep.cpu.memory import Items, adopted, gathered, inner, same
from upsweep.dtypes import accumulator
from upsweep.function import Function
from upsweep.plan import Plan


def inputs(loads: Sequence[np.dtype], count: int, flag: Sequence[np.dtype] = ()) -> Items:
    """The first `count` inputs of an item, always as a tuple, as a map and a finish see them; with a flag behind them."""
    types = [*loads[:count], *flag]
    return Items(types, [*map(accumulator, loads[:count]), *flag], False)


def operand(function: Function, accumulators: Sequence[np.dtype], loads: int) -> Any:
    """The operand of an item, from a tuple of its inputs and what else is read of it, and its index."""
    user, results = adopted(function.fn), Items(function.results, function.results, _one(function)).cast
    cast = Items(accumulators, accumulators, _one(function)).cast
    if function.arity > loads:

        @inner
        def made(x, index):
            return cast(results(user(*(*x[:loads], index))))

    else:

        @inner
        def made(x, index):
            return cast(results(user(*x[:loads])))

    return made


def outcome(function: Function, loads: int) -> Any:
    """The results for a prefix, a tuple of the inputs that the function takes, and an index."""
    user, cast = adopted(function.fn), Items(function.results, function.results, _one(function)).cast
    if function.arity == 1:

        @inner
        def made(p, x, index):
            return cast(user(p))

    elif function.arity <= 1 + loads:

        @inner
        def made(p, x, index):
            return cast(user(*(p, *x)))

    else:

        @inner
        def made(p, x, index):
            return cast(user(*(p, *x, index)))

    return made


def results(function: Function, stores: Sequence[np.dtype | None]) -> Items:
    """Where results go: those that are stored."""
    kept = [o for o, dtype in enumerate(stores) if dtype is not None]
    types = [dtype for dtype in stores if dtype is not None]
    one = _one(function)
    return Items(types, [function.results[o] for o in kept], one, None if one else kept)


class Access(NamedTuple):
    """The ways of a loop to its items: to all that is read, to the sums that are scanned, to prefixes, and to the results."""

    X: Items
    S: Items
    P: Items
    Y: Items
    inputs: int
    """How many arrays are read, flags included, and written."""
    outputs: int


def access(plan: Plan) -> Access:
    """For a plan whose map and finish stand in the loop."""
    loads, accumulators, stores = plan.loads, plan.accumulators, plan.stores
    one, flag = len(accumulators) == 1, [np.dtype(np.uint8)] * plan.segmented
    kept = [c for c, dtype in enumerate(stores) if dtype is not None]
    given = [dtype for dtype in stores if dtype is not None]
    sums = [*accumulators, *flag]
    S = Items(sums, sums, one and not flag)
    X = Items([*loads, *flag], sums, S.bare) if plan.map is None else inputs(loads, len(loads), flag)
    if plan.finish is None:
        Y = Items(given, [accumulators[c] for c in kept], one, None if one else kept)
    else:
        Y = results(plan.finish, stores)
    return Access(X, S, Items(accumulators, accumulators, one), Y, len(loads) + len(flag), len(given))


def item(plan: Plan) -> Any:
    """The function that makes the scanned item, which is the operand and its flag, if there is one. It takes all that is read of
    an item, and the item's index.
    """
    if plan.map is None:
        return same
    of = operand(plan.map, plan.accumulators, len(plan.loads))
    if not plan.segmented:
        return of
    if _one(plan.map):

        @inner
        def flagged(x, index):
            return (of(x, index), x[-1])

    else:

        @inner
        def flagged(x, index):
            return (*of(x, index), x[-1])

    return flagged


def result(plan: Plan) -> Any:
    """The function that makes the results of a prefix. It also takes all that is read of the item, and the item's index."""
    if plan.finish is None:
        return same
    of, taken = outcome(plan.finish, len(plan.loads)), min(plan.finish.arity - 1, len(plan.loads))
    if not taken:

        @inner
        def alone(p, x, index):
            return of(p, (), index)

        return alone

    @inner
    def whole(p, x, index):
        return of(p, x[:taken], index)

    return whole


def mapper(
    function: Function, loads: Sequence[np.dtype], accumulators: Sequence[np.dtype], flat: Sequence[bool]
) -> Callable[..., None]:
    """The code for lines of `count` items: `frame` holds the addresses of a line of each input, of which the `flat` ones have one
    item, and then of a line for each component. The index of item i is `first + step * (i & mask)`."""
    K, steps = len(loads), _steps(loads, flat)
    X, T = inputs(loads, K), Items(accumulators, accumulators, len(accumulators) == 1)
    X_take, T_take = gathered(K), gathered(len(accumulators))
    read, write, made = X.read_strided, T.write, operand(function, accumulators, K)

    @inner
    def run(frame, count, first, step, mask):
        x, y = X_take(frame, 0, 1), T_take(frame, K, 1)
        for i in range(count):
            write(y, i, made(read(x, steps, i), first + step * (i & mask)))

    return _by_lines(run, function.arity > K)


def _by_lines(run: Any, placed: bool) -> Callable[..., None]:
    """A loop over items whose index counts, and once more for lines of one index: LLVM takes questions of it out of the loop."""
    if not placed:

        def alike(frame, count, first, step, mask):
            run(frame, count, 0, 0, 0)

        return alike

    def apart(frame, count, first, step, mask):
        if mask:
            run(frame, count, first, step, mask)
        else:
            run(frame, count, first, 0, 0)

    return apart


def finisher(
    function: Function,
    loads: Sequence[np.dtype],
    accumulators: Sequence[np.dtype],
    stores: Sequence[np.dtype | None],
    flat: Sequence[bool],
) -> Callable[..., None]:
    """The code for lines of `count` items: `frame` holds the addresses of a line of each component of prefixes, of each input,
    and of one for each output. The index of item i is `first + step * (i & mask)`."""
    taken = min(function.arity - 1, len(loads))
    P, X, Y = (
        Items(accumulators, accumulators, len(accumulators) == 1),
        inputs(loads, taken),
        results(function, stores),
    )
    V, K = len(accumulators), len(loads)
    P_take, Y_take = gathered(V), gathered(sum(d is not None for d in stores))
    P_read, write, made = P.read, Y.write, outcome(function, len(loads))
    if taken:
        X_take, X_read, steps = gathered(taken), X.read_strided, _steps(loads, flat)[:taken]

        @inner
        def run(frame, count, first, step, mask):
            p, x, y = P_take(frame, 0, 1), X_take(frame, V, 1), Y_take(frame, V + K, 1)
            for i in range(count):
                write(y, i, made(P_read(p, i), X_read(x, steps, i), first + step * (i & mask)))

    else:

        @inner
        def run(frame, count, first, step, mask):
            p, y = P_take(frame, 0, 1), Y_take(frame, V + K, 1)
            for i in range(count):
                write(y, i, made(P_read(p, i), (), 0))

    return _by_lines(run, function.arity > 1 + len(loads))


def _one(function: Function) -> bool:
    return len(function.results) == 1


def _steps(loads: Sequence[np.dtype], flat: Sequence[bool]) -> tuple[int, ...]:
    return tuple(0 if constant else d.itemsize for d, constant in zip(loads, flat))
