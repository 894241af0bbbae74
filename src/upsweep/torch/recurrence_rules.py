"""Linear recurrences as a PyTorch operator: gradients, tangents, fake tensors and vmap are rules registered for it.

The rules of `h[t] = a[t] h[t-1] + b[t]` are recurrences themselves. The tangent runs with it,
`dh[t] = a[t] dh[t-1] + (da[t] h[t-1] + db[t])`, and the gradient against it, `s[t] = g[t] + a*[t+1] s[t+1]`, `db[t] = s[t]`,
`da[t] = s[t] h*[t-1]`, where * conjugates.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep import recall
from upsweep.torch import adjoint
from upsweep.torch.decays import with_more
from upsweep.torch.differentiable import batched, differentiable, keep, plain
from upsweep.torch.neighbours import (
    ahead,
    along,
    before,
    over_starts,
    room_of,
    segments_of,
    with_room,
    zero_before,
)
from upsweep.torch.operands import readable
from upsweep.torch.ways import Call, Way, Ways, run, shorter


@torch.library.custom_op("upsweep::recurrence", mutates_args=())
def _recurrence(
    a: Tensor, b: Tensor, initial: Tensor | None, more: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str
) -> Tensor:  # fmt: skip
    """The recurrence. Where there is no `initial`, `more` may be: it is added to the first item of each row, in the dtype that is
    computed in.
    """
    # In a compiled graph nobody knows here whether a has a gradient.
    out = _room(a, b, heads, dim, reverse, order)
    return _recurrence_into(out, a, b, initial, more, heads, dim, reverse, order)


def _recurrence_with_room(
    a: Tensor, b: Tensor, initial: Tensor | None, more: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str
) -> Tensor:  # fmt: skip
    """The recurrence, in memory with room before the first item: so the gradient of a may read the state before each item where
    it lies.
    """
    out = _room(a, b, heads, dim, reverse, order) if a.requires_grad else None
    return _recurrence_into(out, a, b, initial, more, heads, dim, reverse, order)


def _room(a: Tensor, b: Tensor, heads: Tensor | None, dim: int, reverse: bool, order: str) -> Tensor | None:
    """Memory with that room, where the gradient of a would read the states before all items as an array."""
    alone = b.is_complex() or adjoint.in_one_pass(a, b, heads, order)
    return None if alone else with_room(b, dim, reverse)


def _shorter(
    a: Tensor, b: Tensor, initial: Tensor | None, more: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str
) -> Way | None:  # fmt: skip
    """The way of `_recurrence_with_room` for calls like this one."""
    if more is not None:
        return shorter(_forwards)(a, b, initial, more, heads, dim, reverse, order)
    if b.is_complex() or not b.numel():
        return recall.never
    out = _room(a, b, heads, dim, reverse, order) if a.requires_grad else None
    how = "auto", None, False, (1,), order, None, None
    start, segments = None if initial is None else (1, initial), segments_of(heads, b, dim)
    given = a.expand(b.shape), b
    known = recall.known(recall.alike(given, "affine", dim, False, reverse, start, None, out, segments, *how))
    if known is None or known is recall.never:
        return known

    shape, room = None if a.shape == b.shape else b.shape, None if out is None else room_of(b, dim, reverse)

    def way(a: Tensor, b: Tensor, initial: Tensor | None, _: Any, heads: Tensor | None, *__: Any) -> Any:
        return known(
            (a if shape is None else a.expand(shape), b), None if initial is None else (1, initial), room and room(b),
            heads if heads is None else segments_of(heads, b, dim),
        )  # fmt: skip

    return way


def _forwards(
    a: Tensor,
    b: Tensor,
    initial: Any,
    more: Tensor,
    heads: Tensor | None,
    dim: int,
    reverse: bool,
    order: str,
) -> Call:
    """The scan where there is `more`, with that room where a has a gradient."""
    out = _room(a, b, heads, dim, reverse, order) if a.requires_grad else None
    return _onwards(out, a, b, more, heads, dim, reverse, order)


def _onwards(
    out: Tensor | None, a: Tensor, b: Tensor, more: Tensor, heads: Tensor | None, dim: int, reverse: bool, order: str
) -> Call:  # fmt: skip
    out = torch.empty_like(b, memory_format=torch.contiguous_format) if out is None else out
    segments = segments_of(heads, b, dim)
    return with_more(readable(b), readable(a).expand(b.shape), more, segments, dim, reverse, order, out)


def _recurrence_into(
    out: Tensor | None, a: Tensor, b: Tensor, initial: Tensor | None, more: Tensor | None, heads: Tensor | None, dim: int,
    reverse: bool, order: str,
) -> Tensor:  # fmt: skip
    if more is not None:
        return run(_onwards(out, a, b, more, heads, dim, reverse, order))
    start, a, b = None if initial is None else readable(initial), readable(a), readable(b)
    a = a if a.shape == b.shape else a.expand(b.shape)
    segments = None if heads is None else segments_of(heads, b, dim)
    return up.linear_recurrence(
        a, b, initial=start, axis=dim, reverse=reverse, out=out, segments=segments, order=order
    )


@_recurrence.register_fake
def _(
    a: Tensor, b: Tensor, initial: Any, more: Any, heads: Any, dim: int, reverse: bool, order: str
) -> Tensor:
    out = _room(a, b, heads, dim, reverse, order)
    return b.new_empty(b.shape) if out is None else out


@_recurrence.register_vmap
def _(
    info: Any, in_dims: Any, a: Any, b: Any, initial: Any, more: Any, heads: Any, dim: int, *rest: Any
) -> Any:
    a, heads = batched(a, in_dims[0]), batched(heads, in_dims[4])
    b, initial, more = (batched(v, d, info.batch_size) for v, d in zip((b, initial, more), in_dims[1:4]))
    return _recurrence(a, b, initial, more, heads, dim + 1, *rest), 0  # type: ignore[call-arg]


def _recurrence_context(ctx: Any, inputs: Any, output: Tensor) -> None:
    a, _, initial, more, heads, ctx.dim, ctx.reverse, ctx.order = inputs
    ctx.computed = None if more is None else more.dtype
    keep(ctx, a, output, initial, heads)


def _recurrence_backward(ctx: Any, g: Tensor) -> Any:
    a, h, initial, heads = ctx.saved_tensors
    given = ctx.dim, ctx.reverse, ctx.order
    if not h.numel():
        none = None if initial is None else torch.zeros_like(initial)
        return torch.zeros_like(a), torch.zeros_like(h), none, *[None] * 5
    if torch.is_grad_enabled() or h.is_complex():
        made = _composed_gradients(g, a, h, initial, heads, *given)
    else:
        made = _gradients(g, a, h, initial, heads, *given, ctx.needs_input_grad[0])
    da, db, into = made
    of_more = None
    if ctx.computed is not None:
        of_more = along(db, ctx.dim, ctx.reverse, 0, 1).squeeze(ctx.dim).to(ctx.computed)
    into = None if initial is None else into
    return da if ctx.needs_input_grad[0] else None, db, into, of_more, *[None] * 4


def _composed_gradients(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """The gradients of a, b and initial, by operators that have gradients themselves; half precision is computed in float32."""
    dtype, given = h.dtype, a
    if dtype in (torch.float16, torch.bfloat16):
        g, a, h = g.float(), a.float(), h.float()
    if order == "tree" and a.shape == g.shape:
        later = recurrence(a.conj(), a.conj() * g, None, heads, dim, not reverse, order)
        s = g + before(later, zero_before(g, dim), heads, dim, not reverse)
    else:
        s = recurrence(ahead(a, dim, reverse).conj(), g, None, heads, dim, not reverse, order)
    first = zero_before(h, dim) if initial is None else initial.to(h.dtype)
    da = (s * before(h, first, heads, dim, reverse).conj()).sum_to_size(a.shape).to(given.dtype)
    db, into = s.to(dtype), None
    if initial is not None:
        into = over_starts(given.conj() * db, heads, dim, reverse).to(initial.dtype)
    return da, db, into


@torch.library.custom_op("upsweep::recurrence_gradients", mutates_args=())
def _recurrence_gradients(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str,
    wanted: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients that `adjoint.gradients` gives; empty where there is none."""
    made = adjoint.gradients(g, a, h, initial, heads, dim, reverse, order, wanted)
    return tuple(g.new_empty(0) if d is None else d for d in made)  # type: ignore[return-value]


@_recurrence_gradients.register_fake
def _(g: Tensor, a: Tensor, h: Tensor, initial: Any, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    da = a.new_empty(a.shape if rest[-1] else 0)
    return da, g.new_empty(g.shape), g.new_empty(0) if initial is None else initial.new_empty(initial.shape)


@_recurrence_gradients.register_vmap
def _(info: Any, in_dims: Any, g: Any, a: Any, h: Any, initial: Any, heads: Any, dim: int, *rest: Any) -> Any:
    g, a, h, initial = (batched(v, d, info.batch_size) for v, d in zip((g, a, h, initial), in_dims))
    made = _recurrence_gradients(g, a, h, initial, batched(heads, in_dims[4]), dim + 1, *rest)
    return made, (0 if rest[-1] else None, 0, None if initial is None else 0)


_gradients = plain(_recurrence_gradients, adjoint.gradients, Ways(adjoint.shorter))


def _recurrence_jvp(ctx: Any, da: Any, db: Any, d_initial: Any, d_more: Any, *_: Any) -> Tensor:
    a, h, initial, heads = ctx.saved_tensors
    given = a, h, initial, heads, ctx.dim, ctx.reverse, ctx.order
    return recurrence_tangent(da, db, d_initial, *given, d_more)


def recurrence_tangent(
    da: Tensor | None, db: Tensor | None, d_initial: Tensor | None, a: Tensor, h: Tensor, initial: Tensor | None,
    heads: Tensor | None, dim: int, reverse: bool, order: str, d_more: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The tangent of h: `dh[t] = a[t] dh[t-1] + (da[t] h[t-1] + db[t])`."""
    db = torch.zeros_like(h) if db is None else db
    if h.shape[dim] == 0:
        return db
    if da is not None:
        first = zero_before(h, dim) if initial is None else initial.to(h.dtype)
        db = da * before(h, first, heads, dim, reverse) + db
    return recurrence(a, db, d_initial, heads, dim, reverse, order, d_more).to(h.dtype)


RECURRENCES = Ways(_shorter)
"""The ways of recurrences, whose operands are those of `upsweep::recurrence`."""
_differentiable_recurrence = differentiable(
    _recurrence,
    _recurrence_context,
    _recurrence_backward,
    _recurrence_jvp,
    _recurrence_with_room,
    RECURRENCES,
)


def recurrence(
    a: Tensor, b: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str,
    more: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """All states of a recurrence."""
    return _differentiable_recurrence(a, b, initial, more, heads, dim, reverse, order)
