"""The gradients of a linear recurrence without a graph of their own: beside the results there is no array of its size."""

from __future__ import annotations

import torch
from torch import Tensor

import upsweep as up
from upsweep.adjoint import recurrence_gradients
from upsweep.torch.neighbours import ahead, along, following, previous, segments_of, starts

_HALF = torch.float16, torch.bfloat16


def gradients(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str,
    wanted: bool,
) -> tuple[Tensor | None, Tensor, Tensor | None]:  # fmt: skip
    """The gradients of a (where it is wanted), of b and of initial, from the gradient of h; all numbers are real.

    `s[t] = g[t] + a[t+1] s[t+1]` is the gradient of b, and `s[t] h[t-1]` that of a, summed where a broadcasts: the products are
    made within the sum. Half precision is computed in float32.
    """
    whole = a.shape == h.shape
    if whole and wanted and order == "sequential" and heads is None:
        da, db = recurrence_gradients(g, a, h, axis=dim, reverse=reverse, initial=initial)
        return da, db, None if initial is None else _of_initial(a, db, initial, None, dim, reverse)
    dtype, flags = h.dtype, None if heads is None else starts(heads, dim, reverse)
    if whole and wanted and dtype in _HALF:
        da, db = _at_once(g, a, h, initial, heads, flags, dim, reverse, order)
        return da, db, None if initial is None else _of_initial(a, db, initial, flags, dim, reverse)
    s = _backwards(g, a, heads, dim, reverse, order, wanted)
    db = s.to(dtype)
    into = None if initial is None else _of_initial(a, db, initial, flags, dim, reverse)
    if not wanted:
        return None, db, into
    of = _products if whole else _sums
    return of(s, a, h, initial, flags, dim, reverse).to(dtype), db, into


def _backwards(
    g: Tensor, a: Tensor, heads: Tensor | None, dim: int, reverse: bool, order: str, unrounded: bool
) -> Tensor:
    half = unrounded and g.dtype in _HALF
    into = g.float() if half else torch.empty_like(g)
    later = ahead(a, dim, reverse).to(into.dtype).expand(g.shape)
    how = {"segments": segments_of(heads, g, dim), "reverse": not reverse, "order": order, "out": into}
    return up.linear_recurrence(later, into if half else g, axis=dim, **how)


def _at_once(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, heads: Tensor | None, flags: Tensor | None, dim: int,
    reverse: bool, order: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of a and b in half precision: within the scan s is float32, which is as large as two arrays."""
    first = torch.zeros_like(h.select(dim, 0))
    later, before = following(a, dim, reverse), previous(h, first, dim, reverse)
    if flags is None:
        flags = torch.zeros(
            [h.shape[dim] if d == dim else 1 for d in range(h.ndim)], dtype=torch.bool, device=h.device
        )
        flags.narrow(dim, h.shape[dim] - 1 if reverse else 0, 1).fill_(True)
    start = torch.zeros((), device=h.device) if initial is None else initial.unsqueeze(dim)
    db, da = up.scan(
        (later, g, before, flags, start), up.ops.AFFINE, map=_step_back, finish=_both, axis=dim, reverse=not reverse, order=order,
        dtype=torch.float32, segments=segments_of(heads, g, dim), out=(later, before),
    )  # fmt: skip
    return da, db


def _products(
    s: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, flags: Tensor | None, dim: int, reverse: bool
) -> Tensor:
    """`s[t] h[t-1]`, where the state before each item is made."""
    h = h.to(s.dtype)
    first = torch.zeros_like(h.select(dim, 0)) if initial is None else initial
    before = previous(h, first, dim, reverse)
    if flags is not None:
        torch.where(flags, first.unsqueeze(dim), before, out=before)
    return before.mul_(s)


def _sums(
    s: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, flags: Tensor | None, dim: int, reverse: bool
) -> Tensor:
    """The sum of `s[t] h[t-1]` over all items for which an item of a holds."""
    n = h.shape[dim]
    first = along(s, dim, reverse, 0, 1)
    first = torch.zeros_like(first) if initial is None else first * initial.unsqueeze(dim)
    rest = [along(s, dim, reverse, 1, n - 1), along(h, dim, reverse, 0, n - 1)]
    if flags is not None:
        rest.append(along(flags.expand(s.shape), dim, reverse, 1, n - 1))
        rest += [] if initial is None else [initial.unsqueeze(dim).expand(rest[0].shape)]
    over = [d for d in range(a.ndim) if a.shape[d] < h.shape[d]]
    axis = dim if dim in over else over[0]
    shape = [1 if d in over else m for d, m in enumerate(rest[0].shape)]
    made = s.new_zeros(shape)
    if n > 1:
        made = up.reduce(tuple(rest), axis=axis, map=_MAPS[len(rest)]).unsqueeze(axis).sum_to_size(shape)
    first = first.sum_to_size([1 if d in over else m for d, m in enumerate(first.shape)])
    if dim in over or n == 1:
        return first + made if dim in over else first
    return torch.cat([made, first] if reverse else [first, made], dim)


def _of_initial(
    a: Tensor, db: Tensor, initial: Tensor, flags: Tensor | None, dim: int, reverse: bool
) -> Tensor:
    """The sum of `a[t] db[t]` over the items that start a segment."""
    if flags is None:
        one = a if a.shape[dim] == 1 else along(a, dim, reverse, 0, 1)
        return (one * along(db, dim, reverse, 0, 1)).squeeze(dim).to(initial.dtype)
    given = a.expand(db.shape), db, flags.expand(db.shape)
    return up.reduce(given, axis=dim, map=_started).to(initial.dtype)


def _step_back(a, g, before, starts, initial):
    return a, g


def _both(prefix, a, g, before, starts, initial):
    return prefix[1], prefix[1] * (initial if starts else before)


def _product(s, before):
    return s * before


def _product_within(s, before, starts):
    return 0.0 if starts else s * before


def _product_from(s, before, starts, initial):
    return s * (initial if starts else before)


def _started(a, s, starts):
    return a * s if starts else 0.0


_MAPS = {2: _product, 3: _product_within, 4: _product_from}
