"""The operator, the map and the finish by which one scan makes the gradients of a linear recurrence, in either order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from upsweep.operator import Operator
from upsweep.operators import ops

# The map makes operands of an item's gradient and multiplier, the finish makes gradients of what the scan brings. In tree order
# this is `a[t+1] s[t+1]`, the gradient of h[t]; in order it is s[t], with a[t] beside it, which the next item needs.


def handed_on(g, a):
    return a, a * g


def with_what_comes(later, g, a):
    return g + later[1]


def _enter_tree(g, a, before, start, starts):
    return a, a * g


def _leave_tree(later, g, a, before, start, starts):
    s = g + later[1]
    return s * (start if starts else before), s


def _leave_tree_from(later, g, a, before, start, first, index):
    s = g + later[1]
    return s * (start if index == first else before), s


def _step(later, item):
    return item[0] + later[1] * later[0], item[1]


def _enter_loop_alone(g, a):
    return g, a


def _enter_loop(g, a, before, start, starts):
    return g, a


def _leave_loop_alone(s):
    return s[0]


def _leave_loop(s, g, a, before, start, starts):
    return s[0] * (start if starts else before), s[0]


def _leave_loop_from(s, g, a, before, start, first, index):
    return s[0] * (start if index == first else before), s[0]


class _Rule(NamedTuple):
    """The map, finish and operator by which one scan makes the gradients, of a and b or of b alone. A segment starts where flags
    say so, or at one item.
    """

    op: Operator
    exclusive: bool
    enter: Callable[..., Any]
    leave: Callable[..., Any]
    leave_from: Callable[..., Any]
    enter_alone: Callable[..., Any]
    leave_alone: Callable[..., Any]


RULES = {
    "tree": _Rule(ops.AFFINE, True, _enter_tree, _leave_tree, _leave_tree_from, handed_on, with_what_comes),
    "sequential": _Rule(
        Operator(_step),
        False,
        _enter_loop,
        _leave_loop,
        _leave_loop_from,
        _enter_loop_alone,
        _leave_loop_alone,
    ),
}


def _enter_sums(g, a, before, start, starts):
    return a, g


def _leave_sums(s, g, a, before, start, starts):
    return s[1], s[1] * (start if starts else before)


def _leave_sums_from(s, g, a, before, start, first, index):
    return s[1], s[1] * (start if index == first else before)


def _leave_loop_sums(s, g, a, before, start, starts):
    return s[0], s[0] * (start if starts else before)


def _leave_loop_sums_from(s, g, a, before, start, first, index):
    return s[0], s[0] * (start if index == first else before)


class _Summed(NamedTuple):
    """The same for the gradient of b and its products with the states, which are summed."""

    op: Operator
    enter: Callable[..., Any]
    leave: Callable[..., Any]
    leave_from: Callable[..., Any]


SUMMED = {
    "tree": _Summed(ops.AFFINE, _enter_sums, _leave_sums, _leave_sums_from),
    "sequential": _Summed(RULES["sequential"].op, _enter_loop, _leave_loop_sums, _leave_loop_sums_from),
}
