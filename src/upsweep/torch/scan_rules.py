"""The scan of one tensor as a PyTorch operator: gradients, tangents, fake tensors and vmap are rules registered for it.

A scan is a recurrence, and so are its derivatives. With `y[t] = f(y[t-1], x[t])`, L and R the partial derivatives of f there:
the tangent runs with the scan, `dy[t] = L[t] dy[t-1] + R[t] dx[t]`, and the gradient against it,
`s[t] = g[t] + L*[t+1] s[t+1]`, `dx[t] = R*[t] s[t]`, where * conjugates. The rules are made of the same operators, so that they
can be differentiated again.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep import recall
from upsweep.arguments import dtype_of
from upsweep.operator import Operator, OperatorError, identity_of
from upsweep.operators import BUILTIN, TABLE, as_operator
from upsweep.torch import slopes
from upsweep.torch.differentiable import batched, differentiable, keep, plain
from upsweep.torch.neighbours import (
    along,
    before,
    following,
    one_at_starts,
    over_starts,
    room_of,
    segments_of,
    starts,
    with_room,
    zero_before,
)
from upsweep.torch.operands import accumulator, constant, readable
from upsweep.torch.recurrence_rules import recurrence
from upsweep.torch.ways import Way, Ways, run, shorter

NAMED: dict[str, Operator] = dict(BUILTIN)


@constant
def name_of(op: Any) -> str:
    """The name under which a graph refers to an operator: by content, for PyTorch keeps compiled graphs on disk."""
    if isinstance(op, str) and op in NAMED:
        return op
    op = as_operator(op)
    for name, known in BUILTIN.items():
        if known == op:
            return name
    name = f"{op} {sha256(repr(op.key).encode()).hexdigest()[:16]}"
    NAMED[name] = op
    return name


@torch.library.custom_op("upsweep::scan", mutates_args=())
def _scan(
    x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, initial: Tensor | None, heads: Tensor | None, order: str
) -> Tensor:  # fmt: skip
    # In a compiled graph nobody knows here whether x has a gradient.
    out = _room(x, op, dim, exclusive, reverse)
    return _scan_into(out, x, op, dim, exclusive, reverse, initial, heads, order)


def _scan_with_room(
    x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, initial: Tensor | None, heads: Tensor | None, order: str
) -> Tensor:  # fmt: skip
    """The scan, in memory with room before the first item, where its gradient reads the result before each item there."""
    out = _room(x, op, dim, exclusive, reverse) if x.requires_grad else None
    return _scan_into(out, x, op, dim, exclusive, reverse, initial, heads, order)


def _room(x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool) -> Tensor | None:
    """Memory with that room, for results that a gradient would read."""
    return with_room(x, dim, reverse) if slopes.reads_before(op, x, exclusive) else None


def _scan_into(
    out: Tensor | None, x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, initial: Tensor | None,
    heads: Tensor | None, order: str,
) -> Tensor:  # fmt: skip
    x, start = readable(x), None if initial is None else readable(initial)
    return up.scan(
        x, NAMED[op], axis=dim, exclusive=exclusive, reverse=reverse, initial=start, segments=segments_of(heads, x, dim),
        order=order, out=out,
    )  # fmt: skip


@_scan.register_fake
def _(x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, *_: Any) -> Tensor:
    out = _room(x, op, dim, exclusive, reverse)
    return x.new_empty(x.shape) if out is None else out


@_scan.register_vmap
def _(
    info: Any, in_dims: Any, x: Any, op: str, dim: int, exclusive: bool, reverse: bool, initial: Any, heads: Any, order: str
) -> Any:  # fmt: skip
    x, initial = (batched(v, d, info.batch_size) for v, d in ((x, in_dims[0]), (initial, in_dims[5])))
    heads = batched(heads, in_dims[6])
    return _scan(x, op, dim + 1, exclusive, reverse, initial, heads, order), 0


def _scan_context(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, ctx.op, ctx.dim, ctx.exclusive, ctx.reverse, initial, heads, ctx.order = inputs
    # The derivatives of a sum read neither items nor sums.
    kept = (None, None) if ctx.op == "add" else (x, output)
    keep(ctx, *kept, initial, heads)
    ctx.shape, ctx.dtype = x.shape, x.dtype


def _scan_backward(ctx: Any, g: Tensor) -> Any:
    x, y, initial, heads = ctx.saved_tensors
    x, y = (g, g) if ctx.op == "add" else (x, y)
    how = ctx.dim, ctx.exclusive, ctx.reverse, ctx.order
    alone = not (torch.is_grad_enabled() or ctx.needs_input_grad[5])
    if alone and x.numel() and slopes.fits(ctx.op, x):
        return _gradient(g, x, y, ctx.op, initial, heads, *how), *[None] * 7
    dx, d_initial = scan_gradient(ctx.op, g, x, y, initial, heads, *how)
    return dx, None, None, None, None, d_initial, None, None


def scan_gradient(
    op: str, g: Tensor, x: Tensor, y: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int,
    exclusive: bool, reverse: bool, order: str,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The gradients of x and initial from the gradient of y."""
    if x.shape[dim] == 0:
        return torch.zeros_like(x), None if initial is None else torch.zeros_like(initial)
    if op == "add":
        dx = into = scan(g, "add", dim, exclusive, not reverse, None, heads, order)
    else:
        inner = g
        if exclusive:
            within = g if heads is None else g.masked_fill(starts(heads, dim, reverse), 0)
            inner = following(within, dim, reverse)
        left, right = (v.conj() for v in _partials(op, x, y, initial, heads, dim, exclusive, reverse))
        s = recurrence(following(left, dim, reverse), inner, None, heads, dim, not reverse, order)
        dx, into = right * s, left * s
    if initial is None:
        return dx, None
    into = into + g if exclusive else into
    return dx, over_starts(into, heads, dim, reverse).to(initial.dtype)


@torch.library.custom_op("upsweep::scan_adjoint", mutates_args=())
def _scan_gradient(
    g: Tensor, x: Tensor, y: Tensor, op: str, initial: Tensor | None, heads: Tensor | None, dim: int, exclusive: bool,
    reverse: bool, order: str,
) -> Tensor:  # fmt: skip
    return run(slopes.gradient(g, x, y, op, initial, heads, dim, exclusive, reverse, order))


@_scan_gradient.register_fake
def _(g: Tensor, x: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


@_scan_gradient.register_vmap
def _(
    info: Any, in_dims: Any, g: Any, x: Any, y: Any, op: str, initial: Any, heads: Any, dim: int, *rest: Any
) -> Any:
    given = (g, in_dims[0]), (x, in_dims[1]), (y, in_dims[2]), (initial, in_dims[4])
    g, x, y, initial = (batched(v, d, info.batch_size) for v, d in given)
    return _scan_gradient(g, x, y, op, initial, batched(heads, in_dims[5]), dim + 1, *rest), 0  # type: ignore[call-arg]


_gradient = plain(_scan_gradient, ways=Ways(shorter(slopes.gradient)))


def _scan_jvp(ctx: Any, dx: Tensor | None, *tangents: Any) -> Tensor:
    x, y, initial, heads = ctx.saved_tensors
    d_initial, how = tangents[4], (ctx.dim, ctx.exclusive, ctx.reverse)
    if ctx.op == "add":
        items = d_initial.new_zeros(ctx.shape, dtype=ctx.dtype) if dx is None else dx
        return scan(items, "add", *how, d_initial, heads, ctx.order)
    return scan_tangent(ctx.op, dx, d_initial, x, y, initial, heads, *how, ctx.order)


def scan_tangent(
    op: str, dx: Tensor | None, d_initial: Tensor | None, x: Tensor, y: Tensor, initial: Tensor | None,
    heads: Tensor | None, dim: int, exclusive: bool, reverse: bool, order: str,
) -> Tensor:  # fmt: skip
    """The tangent of y from the tangents of x and initial."""
    dx = torch.zeros_like(x) if dx is None else dx
    if x.is_complex():
        check_holomorphic(op)
    if x.shape[dim] == 0:
        return torch.zeros_like(y)
    left, right = _partials(op, x, y, initial, heads, dim, exclusive, reverse)
    dy = recurrence(left, right * dx, d_initial, heads, dim, reverse, order)
    if not exclusive:
        return dy
    first = zero_before(dy, dim) if d_initial is None else d_initial.to(dy.dtype)
    return before(dy, first, heads, dim, reverse)


def _partials(
    op: str, x: Tensor, y: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, exclusive: bool, reverse: bool
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The partial derivatives of `before ⊕ x` at every item. Where nothing stands before, the result is the item itself."""
    left_of = y
    if not exclusive:
        neutral = identity(op, x.dtype)
        first = along(x, dim, reverse, 0, 1).squeeze(dim)
        if initial is not None:
            first = initial.to(y.dtype)
        elif neutral is not None:
            first = torch.full_like(first, neutral)
        left_of = before(y, first, heads, dim, reverse)
    known = TABLE.get(op)
    if known is not None and known.slopes is not None:
        left, right = known.slopes(torch, left_of, x)
    else:
        value, pull = torch.func.vjp(NAMED[op].fn, left_of, x)  # type: ignore
        left, right = (v.conj() for v in pull(torch.ones_like(value)))
    if exclusive or initial is not None:
        return left, right
    return left, one_at_starts(right, heads, dim, reverse)


def identity(op: str, dtype: torch.dtype) -> Any:
    """The operator's identity as a number, or None."""
    value = identity_of(NAMED[op], (dtype_of(accumulator(dtype)),))
    return None if value is None else value[0].item()


def _shorter(
    x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, initial: Tensor | None, heads: Tensor | None, order: str
) -> Way | None:  # fmt: skip
    """The way of scans like this one."""
    # A user's function may have changed since.
    if op not in BUILTIN or initial is not None:
        return recall.never
    how = "auto", None, False, None, order, None, None
    out = _room(x, op, dim, exclusive, reverse) if x.requires_grad else None
    segments = segments_of(heads, x, dim)
    known = recall.known(
        recall.alike(x, BUILTIN[op], dim, exclusive, reverse, None, None, out, segments, *how)
    )
    if known is None or known is recall.never:
        return known

    room = None if out is None else room_of(x, dim, reverse)

    def way(x: Tensor, *rest: Any) -> Any:
        return known(x, None, room and room(x), segments_of(rest[5], x, dim))

    return way


_differentiable_scan = differentiable(
    _scan, _scan_context, _scan_backward, _scan_jvp, _scan_with_room, Ways(_shorter)
)


def scan(
    x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, initial: Tensor | None, heads: Tensor | None,
    order: str = "tree",
) -> Tensor:  # fmt: skip
    """All prefixes of a tensor."""
    return _differentiable_scan(x, op, dim, exclusive, reverse, initial, heads, order)


@constant
def check_holomorphic(op: str) -> None:
    """Refuse an operator on complex numbers that is not holomorphic: the rules hold for holomorphic operators only."""
    if op in BUILTIN or op in _HOLOMORPHIC:
        return
    a, b = torch.tensor([[0.3 + 0.7j], [-0.4 + 0.2j]], dtype=torch.complex128)
    value, pull = torch.func.vjp(NAMED[op].fn, a, b)  # type: ignore
    ones = torch.ones_like(value)
    if not all(torch.allclose(v * 1j, w) for v, w in zip(pull(ones), pull(ones * 1j))):
        raise OperatorError(
            f"{NAMED[op]} is not holomorphic, so a scan by it has no complex derivatives: scan a tuple of real and "
            "imaginary part, or pass x.detach()"
        )
    _HOLOMORPHIC.add(op)


_HOLOMORPHIC: set[str] = set()
