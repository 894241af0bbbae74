"""Scans as PyTorch operators: gradients, fake tensors, vmap and autocast are rules registered for each.

The gradient of a scan is a linear recurrence that runs the other way: with `y[t] = f(y[t-1], x[t])`, L and R the partial
derivatives of f there, `s[t] = g[t] + L[t+1] s[t+1]` and `dx[t] = R[t] s[t]`. It is made of the same operators, so that it
can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep.operator import BUILTIN, Operator, accumulator, as_operator, identity_of

NAMED: dict[str, Operator] = dict(BUILTIN)


@torch.compiler.assume_constant_result
def name_of(op: Any) -> str:
    """The name under which a graph refers to an operator: by content, for PyTorch keeps compiled graphs on disk."""
    op = as_operator(op)
    for name, known in BUILTIN.items():
        if known == op:
            return name
    name = f"{op} {sha256(repr(op.key).encode()).hexdigest()[:16]}"
    NAMED[name] = op
    return name


def along(x: Tensor, dim: int, reverse: bool, start: int, count: int) -> Tensor:
    """`count` items from item `start` on, counted in the direction of the scan."""
    return x.narrow(dim, x.shape[dim] - start - count if reverse else start, count)


def _join(parts: Sequence[Tensor], dim: int, reverse: bool) -> Tensor:
    return torch.cat(list(reversed(parts)) if reverse else list(parts), dim)


def previous(x: Tensor, first: Tensor, dim: int, reverse: bool) -> Tensor:
    """`x[t-1]` at t, `first` (one a row) at the start."""
    return _join([first.unsqueeze(dim), along(x, dim, reverse, 0, x.shape[dim] - 1)], dim, reverse)


def following(x: Tensor, dim: int, reverse: bool) -> Tensor:
    """`x[t+1]` at t, zero at the end."""
    last = torch.zeros_like(along(x, dim, reverse, 0, 1))
    return _join([along(x, dim, reverse, 1, x.shape[dim] - 1), last], dim, reverse)


# --- the scan of one tensor -------------------------------------------------------------------------------------------


@torch.library.custom_op("upsweep::scan", mutates_args=())
def scan(x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, initial: Tensor | None) -> Tensor:
    start = None if initial is None else initial.detach()
    return up.scan(x.detach(), NAMED[op], axis=dim, exclusive=exclusive, reverse=reverse, initial=start)


@scan.register_fake
def _(x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, initial: Tensor | None) -> Tensor:
    return x.new_empty(x.shape)


def _scan_context(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, ctx.op, ctx.dim, ctx.exclusive, ctx.reverse, initial = inputs
    ctx.save_for_backward(x, output, initial)


def _scan_backward(ctx: Any, g: Tensor) -> Any:
    x, y, initial = ctx.saved_tensors
    dim, reverse = ctx.dim, ctx.reverse
    if x.shape[dim] == 0:
        return (
            torch.zeros_like(x),
            None,
            None,
            None,
            None,
            None if initial is None else torch.zeros_like(initial),
        )
    inner = following(g, dim, reverse) if ctx.exclusive else g
    if ctx.op == "add":
        s = scan(inner, "add", dim, False, not reverse, None)
        left, dx = None, s
    else:
        left, right = _partials(
            ctx.op, x, y if ctx.exclusive else _before(ctx, x, y, initial), initial, dim, reverse
        )
        s = recurrence(following(left, dim, reverse), inner, None, None, dim, not reverse)
        dx = right * s
    if initial is None:
        return dx, None, None, None, None, None
    start = s if left is None else left * s
    d_initial = along(start, dim, reverse, 0, 1).squeeze(dim)
    if ctx.exclusive:
        d_initial = d_initial + along(g, dim, reverse, 0, 1).squeeze(dim)
    return dx, None, None, None, None, d_initial.to(initial.dtype)


def _before(ctx: Any, x: Tensor, y: Tensor, initial: Tensor | None) -> Tensor:
    """The prefix before each item; where there is none, the operator's identity or, for want of it, the item itself."""
    first = along(x, ctx.dim, ctx.reverse, 0, 1).squeeze(ctx.dim)
    identity = _identity(ctx.op, x.dtype)
    if initial is not None:
        first = initial.to(y.dtype)
    elif identity is not None:
        first = torch.full_like(first, identity)
    return previous(y, first, ctx.dim, ctx.reverse)


def _identity(op: str, dtype: torch.dtype) -> Any:
    import numpy as np

    value = (
        identity_of(NAMED[op], (accumulator(np.dtype(str(dtype).removeprefix("torch."))),))
        if NAMED[op].identity
        else None
    )
    return None if value is None else value[0].item()


def _partials(
    op: str, x: Tensor, before: Tensor, initial: Tensor | None, dim: int, reverse: bool
) -> tuple[Tensor, Tensor]:
    """The partial derivatives of `before ⊕ x`."""
    if op in _PARTIALS:
        return _PARTIALS[op](before, x)
    value, pull = torch.func.vjp(NAMED[op].fn, before, x)  # type: ignore
    left, right = pull(torch.ones_like(value))
    if initial is None:  # the first prefix is the first item itself
        one = torch.ones_like(along(right, dim, reverse, 0, 1))
        right = _join([one, along(right, dim, reverse, 1, right.shape[dim] - 1)], dim, reverse)
    return left, right


def _of_choice(first: Tensor) -> tuple[Tensor, Tensor]:
    return first, 1 - first


def _of_logaddexp(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    weight = torch.sigmoid(torch.where(a == b, torch.zeros_like(a), a - b))
    return weight, torch.sigmoid(torch.where(a == b, torch.zeros_like(a), b - a))


_PARTIALS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "mul": lambda a, b: (b, a),
    "max": lambda a, b: _of_choice((a >= b).to(a.dtype)),
    "min": lambda a, b: _of_choice((a <= b).to(a.dtype)),
    "logaddexp": _of_logaddexp,
}

scan.register_autograd(_scan_backward, setup_context=_scan_context)


def _batched(x: Tensor | None, in_dim: int | None, size: int) -> Tensor | None:
    """With the batch in front, whether it is batched or the same for all."""
    if x is None:
        return None
    return x.movedim(in_dim, 0) if in_dim is not None else x.unsqueeze(0).expand(size, *x.shape)


@scan.register_vmap
def _(
    info: Any,
    in_dims: Any,
    x: Tensor,
    op: str,
    dim: int,
    exclusive: bool,
    reverse: bool,
    initial: Tensor | None,
) -> Any:
    x, initial = (_batched(v, d, info.batch_size) for v, d in ((x, in_dims[0]), (initial, in_dims[5])))  # type: ignore[assignment]
    return scan(x, op, dim + 1, exclusive, reverse, initial), 0


# --- the scan of a tuple ----------------------------------------------------------------------------------------------


@torch.library.custom_op("upsweep::scan_tuple", mutates_args=())
def scan_tuple(
    xs: list[Tensor], op: str, dim: int, exclusive: bool, reverse: bool, initial: list[Tensor]
) -> list[Tensor]:  # no list where there is nothing to start from
    start = tuple(v.detach() for v in initial) or None
    given = tuple(x.detach() for x in xs)
    return list(up.scan(given, NAMED[op], axis=dim, exclusive=exclusive, reverse=reverse, initial=start))


@scan_tuple.register_fake
def _(
    xs: list[Tensor], op: str, dim: int, exclusive: bool, reverse: bool, initial: list[Tensor]
) -> list[Tensor]:
    return [x.new_empty(x.shape) for x in xs]


# --- linear recurrences -----------------------------------------------------------------------------------------------


@torch.library.custom_op("upsweep::recurrence", mutates_args=())
def recurrence(
    a: Tensor, b: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool
) -> Tensor:
    start = None if initial is None else initial.detach()
    a, b = a.detach(), b.detach()
    if heads is None:
        return up.linear_recurrence(a, b, initial=start, axis=dim, reverse=reverse)
    whole = None if start is None else (torch.ones_like(start), start)
    flags = up.segments.flags(heads)
    return up.scan((a, b), up.ops.AFFINE, axis=dim, reverse=reverse, initial=whole, segments=flags)[1]


@recurrence.register_fake
def _(a: Tensor, b: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool) -> Tensor:
    return b.new_empty(b.shape)


def _recurrence_context(ctx: Any, inputs: Any, output: Tensor) -> None:
    a, _, initial, heads, ctx.dim, ctx.reverse = inputs
    ctx.save_for_backward(a, output, initial, heads)


def _recurrence_backward(ctx: Any, g: Tensor) -> Any:
    a, h, initial, heads = ctx.saved_tensors
    dim, reverse = ctx.dim, ctx.reverse
    if a.shape[dim] == 0:
        return (
            torch.zeros_like(a),
            torch.zeros_like(h),
            None if initial is None else torch.zeros_like(initial),
            *(None,) * 3,
        )
    s = recurrence(following(a, dim, reverse).conj(), g, None, heads, dim, not reverse)
    first = (
        torch.zeros_like(along(h, dim, reverse, 0, 1).squeeze(dim))
        if initial is None
        else initial.to(h.dtype)
    )
    before = previous(h, first, dim, reverse)
    starts = None if heads is None else _starts(heads, dim, reverse)
    if starts is not None:
        before = torch.where(starts, first.unsqueeze(dim), before)
    d_initial = None
    if initial is not None:
        d_initial = a.conj() * s
        d_initial = along(d_initial, dim, reverse, 0, 1) if starts is None else d_initial * starts
        d_initial = d_initial.sum(dim)
    return s * before.conj(), s, d_initial, None, None, None


def _starts(heads: Tensor, dim: int, reverse: bool) -> Tensor:
    """True where a segment starts in the direction of the scan; the first item starts one whatever its flag."""
    starts = heads.roll(-1, dim) if reverse else heads
    first = torch.ones_like(along(starts, dim, reverse, 0, 1))
    return _join([first, along(starts, dim, reverse, 1, starts.shape[dim] - 1)], dim, reverse)


recurrence.register_autograd(_recurrence_backward, setup_context=_recurrence_context)


@recurrence.register_vmap
def _(
    info: Any,
    in_dims: Any,
    a: Tensor,
    b: Tensor,
    initial: Tensor | None,
    heads: Tensor | None,
    dim: int,
    reverse: bool,
) -> Any:
    a, b, initial, heads = (_batched(v, d, info.batch_size) for v, d in zip((a, b, initial, heads), in_dims))  # type: ignore
    return recurrence(a, b, initial, heads, dim + 1, reverse), 0


# --- digital filters --------------------------------------------------------------------------------------------------


@torch.library.custom_op("upsweep::lfilter", mutates_args=())
def lfilter(x: Tensor, b: list[float], a: list[float], dim: int) -> Tensor:
    import numpy as np

    dtype = np.float32 if x.dtype is torch.float32 else np.float64
    return up.lfilter(np.asarray(b, dtype), np.asarray(a, dtype), x.detach(), axis=dim).contiguous()


@lfilter.register_fake
def _(x: Tensor, b: list[float], a: list[float], dim: int) -> Tensor:
    return x.new_empty(x.shape)


def _lfilter_context(ctx: Any, inputs: Any, output: Tensor) -> None:
    _, ctx.b, ctx.a, ctx.dim = inputs


def _lfilter_backward(ctx: Any, g: Tensor) -> Any:
    return lfilter(g.flip(ctx.dim), ctx.b, ctx.a, ctx.dim).flip(ctx.dim), None, None, None


lfilter.register_autograd(_lfilter_backward, setup_context=_lfilter_context)


@lfilter.register_vmap
def _(info: Any, in_dims: Any, x: Tensor, b: list[float], a: list[float], dim: int) -> Any:
    return lfilter(x.movedim(in_dims[0], 0), b, a, dim + 1), 0


for _op in (scan, scan_tuple, recurrence, lfilter):  # as PyTorch does for its own cumsum and cumprod
    for _device in ("cpu", "cuda"):
        _op.register_autocast(_device, torch.float32)
