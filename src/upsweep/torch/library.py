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
import torch.nn.functional as F
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


# --- digital filters: time is last, a[0] is 1 ---------------------------------------------------------------------------


@torch.library.custom_op("upsweep::lfilter", mutates_args=())
def lfilter(x: Tensor, b: Tensor, a: Tensor, zi: Tensor | None) -> tuple[Tensor, Tensor]:
    b, a, x = (v.detach().resolve_conj() for v in (b, a, x))
    if not (b.isfinite().all() and a.isfinite().all()):
        raise ZeroDivisionError("a[0] is zero, or a coefficient is not finite")
    if zi is None:
        return up.lfilter(b, a, x).to(x.dtype).contiguous(), x.new_empty((*x.shape[:-1], 0))
    y, zf = up.lfilter(b, a, x, zi=zi.detach().resolve_conj())
    return y.to(x.dtype).contiguous(), zf.to(x.dtype).contiguous()


@lfilter.register_fake
def _(x: Tensor, b: Tensor, a: Tensor, zi: Tensor | None) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty((*x.shape[:-1], 0) if zi is None else zi.shape)


def _lfilter_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
    x, b, a, zi = inputs
    ctx.save_for_backward(x, b, a, zi, output[0])


def _lfilter_backward(ctx: Any, gy: Tensor, gz: Tensor) -> Any:
    """With A y = B x + zi, A and B the matrices of the filter: s solves A* s = gy, dx = B* s, and db, da, dzi are products of
    s with what they stand beside. zf adds a product of the last items with the coefficients."""
    x, b, a, zi, y = ctx.saved_tensors
    n, order = x.shape[-1], max(b.numel(), a.numel()) - 1
    g: Tensor = gy
    dx: Any = None
    db: Any = 0
    da: Any = 0
    dzi: Any = None
    if zi is not None:
        last = min(order, n)
        place = torch.arange(order).unsqueeze(1) + torch.arange(last) + 1  # of the coefficient beside an item
        xs, ys = (v.flip(-1).narrow(-1, 0, last) for v in (x, y))
        g = gy - _at_the_end(gz @ _spread(a, place, x).conj(), n)
        dx = _at_the_end(gz @ _spread(b, place, x).conj(), n)
        db, da = (_gathered(gz, v, place, c) for v, c in ((xs, b), (-ys, a)))
        dzi = F.pad(gz.narrow(-1, 0, max(order - n, 0)), (order - max(order - n, 0), 0))
    one = torch.ones(1, dtype=b.dtype, device=b.device)
    s = lfilter(g.flip(-1), one, a.conj(), None)[0]
    through = lfilter(s, b.conj(), one, None)[0].flip(-1)
    s = s.flip(-1)
    if ctx.needs_input_grad[1]:
        db = db + _beside(s, x, b)
    if ctx.needs_input_grad[2]:
        da = da - _beside(s, y, a)
    if zi is not None:
        dzi = dzi + F.pad(s.narrow(-1, 0, min(order, n)), (0, max(order - n, 0)))
    needed = ctx.needs_input_grad
    return through if dx is None else through + dx, db if needed[1] else None, da if needed[2] else None, dzi


def _at_the_end(items: Tensor, n: int) -> Tensor:
    """Items, the last one first, where they stand among n."""
    return F.pad(items.flip(-1), (n - items.shape[-1], 0))


def _spread(c: Tensor, place: Tensor, x: Tensor) -> Tensor:
    """`c[place]`, zero where there is no such coefficient."""
    return F.pad(c.to(x.device, x.dtype), (0, place.shape[0] + place.shape[1]))[place.to(x.device)]


def _gathered(gz: Tensor, items: Tensor, place: Tensor, c: Tensor) -> Tensor:
    """The gradient of c through `zf = c[place] @ items`."""
    beside = (
        gz.flatten(0, -2).mT @ items.conj().flatten(0, -2) if gz.ndim > 1 else torch.outer(gz, items.conj())
    )
    total = beside.new_zeros(place.shape[0] + place.shape[1] + 1)
    return _like(total.index_put((place.to(gz.device),), beside, accumulate=True)[: c.numel()], c)


def _beside(s: Tensor, x: Tensor, c: Tensor) -> Tensor:
    """The gradient of c through `c[0] x[t] + c[1] x[t-1] + ...`."""
    n = x.shape[-1]
    parts = [(s.narrow(-1, k, n - k) * x.narrow(-1, 0, n - k).conj()).sum() for k in range(min(c.numel(), n))]
    return _like(F.pad(torch.stack(parts), (0, c.numel() - len(parts))), c) if parts else torch.zeros_like(c)


def _like(gradient: Tensor, c: Tensor) -> Tensor:
    return (gradient if c.is_complex() or not gradient.is_complex() else gradient.real).to(c.device, c.dtype)


lfilter.register_autograd(_lfilter_backward, setup_context=_lfilter_context)


@lfilter.register_vmap
def _(info: Any, in_dims: Any, x: Tensor, b: Tensor, a: Tensor, zi: Tensor | None) -> Any:
    if in_dims[1] is None and in_dims[2] is None:
        x, zi = (_batched(v, d, info.batch_size) for v, d in ((x, in_dims[0]), (zi, in_dims[3])))  # type: ignore[assignment]
        return lfilter(x, b, a, zi), (0, 0)
    rows = [_batched(v, d, info.batch_size) for v, d in zip((x, b, a, zi), in_dims)]
    each = [lfilter(*(r if r is None else r[i] for r in rows)) for i in range(info.batch_size)]  # type: ignore[arg-type]
    return tuple(map(torch.stack, zip(*each))), (0, 0)


for _op in (scan, scan_tuple, recurrence, lfilter):  # as PyTorch does for its own cumsum and cumprod
    for _device in ("cpu", "cuda"):
        _op.register_autocast(_device, torch.float32)
