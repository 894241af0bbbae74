"""The gradient of a scan by a built-in operator, as one scan that reads three arrays and writes one.

With `y[t] = f(y[t-1], x[t])`, L and R the partial derivatives of f there, `s[t] = g[t] + L[t+1] s[t+1]` and `dx[t] = R[t] s[t]`.
An item makes L and R of what it reads, and hands `L[t] s[t]` on to the item before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from upsweep.adjoint_rules import RULES
from upsweep.arguments import dtype_of, number_of
from upsweep.arithmetic import LOG_ADD_EXP, LogAddExp, decay_in, inverse_in
from upsweep.operators import ops
from upsweep.torch.neighbours import beside, segments_of, starts
from upsweep.torch.operands import accumulator, readable
from upsweep.torch.ways import Call


def gradient(
    g: Tensor, x: Tensor, y: Tensor, op: str, initial: Tensor | None, heads: Tensor | None, dim: int, exclusive: bool,
    reverse: bool, order: str,
) -> Call:  # fmt: skip
    """The scan that makes the gradient of x from the gradient g of y, for an operator of `SLOPES`. Half precision is computed in
    float32.
    """
    g, x, y = readable(g), readable(x), readable(y)
    given, computed = (g, x, y), accumulator(g.dtype)
    if not reads_before(op, x, exclusive):
        way = _way(op, computed, order, exclusive)
    else:
        start = 0.0 if initial is None else readable(initial).unsqueeze(dim)
        first: Any = number_of(x.shape[dim] - 1 if reverse else 0)
        if heads is not None:
            first = starts(heads, dim, reverse).expand(x.shape)
        given = g, x, beside(y, dim, reverse), start, first
        way = _way_from(op, computed, order, initial is None, heads is not None)
    how = {
        "axis": dim, "exclusive": way.exclusive, "reverse": not reverse, "order": order, "dtype": computed, "map": way.enter,
        "finish": way.leave,
    }  # fmt: skip
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    return Call(given, way.op, out, segments_of(heads, g, dim), how)


def fits(op: str, x: Tensor) -> bool:
    """Whether one scan makes the gradient."""
    return op in SLOPES.get(accumulator(x.dtype), ())


def reads_before(op: str, x: Tensor, exclusive: bool) -> bool:
    """Whether the gradient reads the results before all items as an array."""
    return fits(op, x) and SLOPES[accumulator(x.dtype)][op].earlier and not exclusive


class _Slopes(NamedTuple):
    left: Callable[[Any, Any], Any]
    """The derivative of `before ⊕ x` by the result before an item."""
    right: Callable[[Any, Any], Any]
    """That by the item."""
    earlier: bool
    """Whether they need the result before an item. Its own result tells as well which of two an extreme is."""


class _Way(NamedTuple):
    op: Any
    exclusive: bool
    enter: Callable[..., Any]
    leave: Callable[..., Any]


def _left_of_product(before, x):
    return x


def _right_of_product(before, x):
    return before


def _of_extreme(numbers: LogAddExp, largest: bool) -> _Slopes:
    """Of equal items the later one has the gradient, and a NaN has it."""
    one, none = numbers.real(1), numbers.real(0)

    def right_of_largest(before, x):
        return one if (x >= before) | (x != x) else none

    def left_of_largest(before, x):
        return none if (x >= before) | (x != x) else one

    def right_of_smallest(before, x):
        return one if (x <= before) | (x != x) else none

    def left_of_smallest(before, x):
        return none if (x <= before) | (x != x) else one

    if largest:
        return _Slopes(left_of_largest, right_of_largest, False)
    return _Slopes(left_of_smallest, right_of_smallest, False)


def _of_logarithm(numbers: LogAddExp) -> _Slopes:
    decay, inverse, far = decay_in(numbers), inverse_in(numbers), numbers.real(numbers.far)
    most = numbers.real(np.finfo(numbers.real).max)

    def shares(before, x):
        """Of the larger and of the smaller one. Nothing is asked, as a kernel would go two ways from there on: equal infinities
        become equal numbers, and NaN stays NaN.
        """
        d = abs(max(min(before, most), -most) - max(min(x, most), -most))
        d = min(d, far)
        u = decay(d) + (d - d)
        larger = inverse(u)
        return larger, u * larger

    def right(before, x):
        larger, smaller = shares(before, x)
        return larger if x > before else smaller

    def left(before, x):
        larger, smaller = shares(before, x)
        return smaller if x > before else larger

    return _Slopes(left, right, True)


def _slopes(code: str) -> dict[str, _Slopes]:
    numbers = LOG_ADD_EXP[code]
    return {
        "mul": _Slopes(_left_of_product, _right_of_product, True), "max": _of_extreme(numbers, True),
        "min": _of_extreme(numbers, False), "logaddexp": _of_logarithm(numbers),
    }  # fmt: skip


SLOPES = {torch.float32: _slopes("f4"), torch.float64: _slopes("f8")}
"""By the dtype that is computed in, and the operator."""


@cache
def _way(op: str, computed: torch.dtype, order: str, exclusive: bool) -> _Way:
    """The scan whose items need not know where they stand."""
    left, right, _ = SLOPES[computed][op]

    def enter_tree(g, x, y):
        a = left(y, x)
        return a, a * g

    def enter_loop(g, x, y):
        return g, left(y, x)

    def enter_exclusive(g, x, y):
        return left(y, x), g

    def leave_tree(later, g, x, y):
        return right(y, x) * (g + later[1])

    def leave_loop(s, g, x, y):
        return right(y, x) * s[0]

    def leave_exclusive(later, g, x, y):
        return right(y, x) * later[1]

    if exclusive:
        return _Way(ops.AFFINE, True, enter_exclusive, leave_exclusive)
    rule = RULES[order]
    made = (enter_tree, leave_tree) if order == "tree" else (enter_loop, leave_loop)
    return _Way(rule.op, rule.exclusive, *made)


@cache
def _way_from(op: str, computed: torch.dtype, order: str, alone: bool, flagged: bool) -> _Way:
    """The scan whose items need the result before them. At a start this is `start`; if nothing stands before it, as in a scan
    `alone`, the first result is the item. Starts are `flagged`, or there is one of a number.
    """
    left, right, _ = SLOPES[computed][op]
    one = dtype_of(computed).type(1)

    def slope_alone(before, x, start, starting):
        return one if starting else right(before, x)

    def slope_from(before, x, start, starting):
        return right(start if starting else before, x)

    slope = slope_alone if alone else slope_from

    def enter_tree(g, x, before, start, first):
        a = left(before, x)
        return a, a * g

    def enter_loop(g, x, before, start, first):
        return g, left(before, x)

    def leave_tree(later, g, x, before, start, starts):
        return slope(before, x, start, starts) * (g + later[1])

    def leave_loop(s, g, x, before, start, starts):
        return slope(before, x, start, starts) * s[0]

    def leave_tree_from(later, g, x, before, start, first, index):
        return slope(before, x, start, index == first) * (g + later[1])

    def leave_loop_from(s, g, x, before, start, first, index):
        return slope(before, x, start, index == first) * s[0]

    rule = RULES[order]
    if order == "tree":
        return _Way(rule.op, rule.exclusive, enter_tree, leave_tree if flagged else leave_tree_from)
    return _Way(rule.op, rule.exclusive, enter_loop, leave_loop if flagged else leave_loop_from)
