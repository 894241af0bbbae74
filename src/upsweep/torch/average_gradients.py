"""The gradients of exponential averages as a PyTorch operator: one scan makes those of the items and of the weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from upsweep.adjoint_rules import RULES
from upsweep.arguments import dtype_of
from upsweep.operators import ops
from upsweep.summed import scan_and_sums, sums_of
from upsweep.torch.adjoint import summed_along, total
from upsweep.torch.differentiable import batched, plain
from upsweep.torch.neighbours import beside, lies_beside, segments_of
from upsweep.torch.operands import accumulator, readable, single
from upsweep.torch.ways import Call, Way, Ways, run, shorter


def empty_like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def weights(alpha: float, weight: Tensor | None, x: Tensor) -> Any:
    """The weights as a scan takes them: a tensor in x's shape, or a number."""
    return alpha if weight is None else readable(weight).expand(x.shape)


def flags(heads: Tensor | None, x: Tensor) -> Any:
    """Whether a segment starts at an item."""
    return False if heads is None else heads.expand(x.shape)


@torch.library.custom_op("upsweep::average_gradients", mutates_args=())
def _average_gradients(
    g: Tensor, x: Tensor | None, y: Tensor | None, alpha: float, weight: Tensor | None, initial: Tensor | None,
    heads: Tensor | None, into: bool, dim: int, order: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of the items, of the weight, and of the first averages. That of the weight is empty without items and
    averages, that of the first averages where it is not to be made `into` a tensor; it is made of rows without segments.

    With `s[t] = g[t] + (1 - weight[t+1]) s[t+1]` they are `weight s`, `s (x - y[t-1])` and `(1 - weight[0]) s[0]`; s and 0 where
    an average starts from its item.
    """
    args = g, x, y, alpha, weight, initial, heads, into, dim, order
    return _summed(*args) or _in_shape(run(_backwards(*args)), *args)


def _summed(
    g: Tensor, x: Tensor | None, y: Tensor | None, alpha: float, weight: Tensor | None, initial: Tensor | None,
    heads: Tensor | None, into: bool, dim: int, order: str,
) -> tuple[Tensor, Tensor, Tensor] | None:  # fmt: skip
    """The gradients by a scan that sums that of a weight which broadcasts; None where the engine has none."""
    if weight is None or x is None or y is None or not lies_beside(readable(y), dim, False):
        return None
    axis = _summed_along(g, x, weight, dim)
    if axis is None:
        return None
    given, way = _scanned(g, x, y, alpha, weight, initial, heads, into, dim, order)
    how = {
        "exclusive": way.exclusive, "reverse": True, "order": order, "segments": segments_of(heads, g, dim),
    }  # fmt: skip
    made = scan_and_sums(given, way.op, axis=dim, across=axis != dim, map=way.enter, finish=way.leave, **how)
    if made is None:
        return None
    dw = total(made[1], weight, axis, axis == dim)
    return made[0], dw, _of_initial(made[0], alpha, weight, initial, into, dim)


def _summed_along(g: Tensor, x: Any, weight: Tensor | None, dim: int) -> int | None:
    """The axis along which a scan may sum the gradient of the weight, where it is wanted and the engine has such scans."""
    if x is None or weight is None or sums_of((g,)) is None:
        return None
    return summed_along(weight, dim)


def _in_shape(
    made: Any, g: Tensor, x: Tensor | None, y: Any, alpha: float, weight: Tensor | None, initial: Tensor | None,
    heads: Any, into: bool, dim: int, order: str,
) -> Any:  # fmt: skip
    if x is None or weight is None:
        dx, dw = made, made.new_empty(0)
    else:
        dx, dw = made[0], made[1].sum_to_size(weight.shape)
    return dx, dw, _of_initial(dx, alpha, weight, initial, into, dim)


def _of_initial(
    dx: Tensor, alpha: float, weight: Tensor | None, initial: Tensor | None, into: bool, dim: int
) -> Tensor:
    """The gradient of the first averages. The scan has left s in the place of the first items' gradients, which follow too."""
    if initial is None or not into:
        return dx.new_empty(0)
    first = dx.narrow(dim, 0, 1)
    s, share = single(first), alpha if weight is None else readable(weight).narrow(dim, 0, 1)
    made = ((1 - share) * s).squeeze(dim).to(initial.dtype)
    first.copy_(share * s)
    return made


def _backwards(
    g: Tensor, x: Tensor | None, y: Tensor | None, alpha: float, weight: Tensor | None, initial: Tensor | None,
    heads: Tensor | None, into: bool, dim: int, order: str,
) -> Call:  # fmt: skip
    given, way = _scanned(g, x, y, alpha, weight, initial, heads, into, dim, order)
    out: Any = empty_like(g)
    if x is not None and y is not None:
        out = out, g.new_empty(g.shape, dtype=accumulator(g.dtype))
    how = {
        "axis": dim, "exclusive": way.exclusive, "reverse": True, "order": order, "dtype": accumulator(g.dtype),
        "map": way.enter, "finish": way.leave,
    }  # fmt: skip
    return Call(given, way.op, out, segments_of(heads, g, dim), how)


def _scanned(
    g: Tensor, x: Tensor | None, y: Tensor | None, alpha: float, weight: Tensor | None, initial: Tensor | None,
    heads: Tensor | None, into: bool, dim: int, order: str,
) -> tuple[tuple[Any, ...], _Way]:  # fmt: skip
    """The operands of the scan for the gradients, and that scan."""
    g = readable(g)
    given: tuple[Any, ...] = g, weights(alpha, weight, g)
    # A weight that holds for all times is also that of the next item.
    kind = "fixed" if weight is None or weight.shape[dim] == 1 else order
    way = _way(kind, initial is None, x is not None, into, accumulator(g.dtype))
    if initial is None or x is not None:
        given = *given, flags(heads, g)
    if x is not None and y is not None:
        start = 0.0 if initial is None else readable(initial).unsqueeze(dim)
        given = *given, readable(x), beside(readable(y), dim, False), start
    return given, way


class _Way(NamedTuple):
    op: Any
    exclusive: bool
    enter: Callable[..., Any]
    leave: Callable[..., Any]


@cache
def _way(kind: str, alone: bool, both: bool, into: bool, computed: torch.dtype) -> _Way:
    """The scan for the gradient of the items, or for `both`. An average `alone` starts from its item. `into`: the first items of
    others have s, of which the gradient of the first averages is made.
    """
    rule, none = _RULES[kind], dtype_of(computed).type(0)
    enter, found = rule.enter, rule.leave

    def enter_alone(g, alpha, starts):
        return enter(g, alpha)

    def enter_both(g, alpha, starts, x, before, start):
        return enter(g, alpha)

    def leave_alone(later, g, alpha, starts, index):
        s = found(later, g)
        return s if (index == 0) | starts else alpha * s

    def leave_onwards(later, g, alpha):
        return alpha * found(later, g)

    def leave_into(later, g, alpha, index):
        s = found(later, g)
        return s if index == 0 else alpha * s

    def leave_both_alone(later, g, alpha, starts, x, before, start, index):
        s, starting = found(later, g), (index == 0) | starts
        return s if starting else alpha * s, none if starting else s * (x - before)

    def leave_both_onwards(later, g, alpha, starts, x, before, start, index):
        s = found(later, g)
        return alpha * s, s * (x - (start if (index == 0) | starts else before))

    def leave_both_into(later, g, alpha, starts, x, before, start, index):
        s = found(later, g)
        return (s, s * (x - start)) if index == 0 else (alpha * s, s * (x - before))

    if both:
        onwards = leave_both_into if into else leave_both_onwards
        return rule._replace(enter=enter_both, leave=leave_both_alone if alone else onwards)
    if alone:
        return rule._replace(enter=enter_alone, leave=leave_alone)
    return rule._replace(leave=leave_into if into else leave_onwards)


# A fixed weight makes a recurrence of the gradients as they are. Of others, an item hands on what it adds to the item before it,
# in tree order; in order it hands on s and the share that the next item needs.


def _enter_fixed(g, alpha):
    return 1 - alpha, g


def _found_fixed(s, g):
    return s[1]


def _enter_tree(g, alpha):
    rest = 1 - alpha
    return rest, rest * g


def _found_tree(later, g):
    return g + later[1]


def _enter_loop(g, alpha):
    return g, 1 - alpha


def _found_loop(s, g):
    return s[0]


_RULES = {
    "fixed": _Way(ops.AFFINE, False, _enter_fixed, _found_fixed),
    "tree": _Way(ops.AFFINE, True, _enter_tree, _found_tree),
    "sequential": _Way(RULES["sequential"].op, False, _enter_loop, _found_loop),
}
"""How a scan finds s, by the kind of its weights."""


@_average_gradients.register_fake
def _(
    g: Tensor, x: Any, y: Any, alpha: float, weight: Any, initial: Any, heads: Any, into: bool, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    dw = g.new_empty(0) if x is None else weight.new_empty(weight.shape)
    return g.new_empty(g.shape), dw, initial.new_empty(initial.shape) if into else g.new_empty(0)


@_average_gradients.register_vmap
def _(
    info: Any, in_dims: Any, g: Any, x: Any, y: Any, alpha: float, weight: Any, initial: Any, heads: Any, into: bool,
    dim: int, order: str,
) -> Any:  # fmt: skip
    given = (g, in_dims[0]), (x, in_dims[1]), (y, in_dims[2]), (weight, in_dims[4]), (initial, in_dims[5])
    g, x, y, weight, initial = (batched(v, d, info.batch_size) for v, d in given)
    heads = batched(heads, in_dims[6])
    made = _average_gradients(g, x, y, alpha, weight, initial, heads, into, dim + 1, order)  # type: ignore[call-arg]
    return made, (0, None if x is None else 0, 0 if into else None)


_whole = shorter(_backwards, _in_shape)


def _shorter(*args: Any) -> Way | None:
    """The way of `gradients` for calls like this one."""
    g, x, _, _, weight, *_, dim, _ = args
    return _whole(*args) if _summed_along(g, x, weight, dim) is None else _average_gradients._init_fn


gradients = plain(_average_gradients, ways=Ways(_shorter))
