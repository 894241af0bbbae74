"""Digital filters as a PyTorch operator: time is last, a[0] is 1."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import upsweep as up
from upsweep.torch.differentiable import batched, differentiable, keep
from upsweep.torch.followers import following
from upsweep.torch.operands import readable


@torch.library.custom_op("upsweep::lfilter", mutates_args=())
def _lfilter(x: Tensor, b: Tensor, a: Tensor, zi: Tensor | None) -> tuple[Tensor, Tensor]:
    b, a, x = (v.detach().resolve_conj() for v in (b, a, x))
    if not (b.isfinite().all() and a.isfinite().all()):
        raise ZeroDivisionError("a[0] is zero, or a coefficient of the filter is infinite or NaN")
    if zi is None:
        return up.lfilter(b, a, x).to(x.dtype).contiguous(), x.new_empty((*x.shape[:-1], 0))
    y, zf = up.lfilter(b, a, x, zi=zi.detach().resolve_conj())
    return y.to(x.dtype).contiguous(), zf.to(x.dtype).contiguous()


@_lfilter.register_fake
def _(x: Tensor, b: Tensor, a: Tensor, zi: Tensor | None) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty((*x.shape[:-1], 0) if zi is None else zi.shape)


def _lfilter_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
    x, b, a, zi = inputs
    keep(ctx, x, b, a, zi, output[0])


def _lfilter_backward(ctx: Any, gy: Tensor, gz: Tensor) -> Any:
    """With A y = B x + zi, A and B the matrices of the filter: s solves A* s = gy, dx = B* s, and db, da and dzi are products
    of s with the factors beside them. zf adds a product of the last items with the coefficients.
    """
    x, b, a, zi, y = ctx.saved_tensors
    n, order = x.shape[-1], max(b.numel(), a.numel()) - 1
    g: Tensor = gy
    dx: Any = None
    db: Any = 0
    da: Any = 0
    dzi: Any = None
    if zi is not None:
        last = min(order, n)
        place = _places(order, last)
        xs, ys = (v.flip(-1).narrow(-1, 0, last) for v in (x, y))
        g = gy - _at_the_end(gz @ _spread(a, place, x).conj(), n)
        dx = _at_the_end(gz @ _spread(b, place, x).conj(), n)
        db, da = (_gathered(gz, v, place, c) for v, c in ((xs, b), (-ys, a)))
        dzi = F.pad(gz.narrow(-1, 0, max(order - n, 0)), (order - max(order - n, 0), 0))
    needed = ctx.needs_input_grad
    if zi is None and not (needed[1] or needed[2]):
        return lfilter(g.flip(-1), b.conj(), a.conj(), None)[0].flip(-1), None, None, None
    one = torch.ones(1, dtype=b.dtype, device=b.device)
    s = lfilter(g.flip(-1), one, a.conj(), None)[0]
    through = lfilter(s, b.conj(), one, None)[0].flip(-1) if needed[0] else None
    s = s.flip(-1)
    if needed[1]:
        db = db + _beside(s, x, b)
    if needed[2]:
        da = da - _beside(s, y, a)
    if zi is not None:
        dzi = dzi + F.pad(s.narrow(-1, 0, min(order, n)), (0, max(order - n, 0)))
    if through is not None and dx is not None:
        through = through + dx
    return through, db if needed[1] else None, da if needed[2] else None, dzi


def _lfilter_jvp(ctx: Any, *tangents: Any) -> tuple[Tensor, Tensor]:
    """`A dy = dB x + B dx - dA y + dzi`; the state after the last item by the rule of products."""
    x, b, a, zi, y = ctx.saved_tensors
    dx, db, da = (torch.zeros_like(v) if d is None else d for v, d in zip((x, b, a), tangents))
    one = torch.ones(1, dtype=b.dtype, device=b.device)
    r = lfilter(x, db, one, None)[0] + lfilter(dx, b, one, None)[0] - lfilter(y, da, one, None)[0]
    n, order = x.shape[-1], max(b.numel(), a.numel()) - 1
    dzi = tangents[3]
    if dzi is not None:
        head = min(order, n)
        r = r + F.pad(dzi.narrow(-1, 0, head), (0, n - head))
    dy = lfilter(r, one, a, None)[0]
    if zi is None:
        return dy, x.new_empty((*x.shape[:-1], 0))
    place = _places(order, min(order, n))
    xs, dxs, ys, dys = (v.flip(-1).narrow(-1, 0, min(order, n)) for v in (x, dx, y, dy))
    ends = [(xs, db), (dxs, b), (-ys, da), (-dys, a)]
    dzf = sum(items @ _spread(c, place, x).mT for items, c in ends)
    if dzi is not None and order > n:
        dzf = dzf + F.pad(dzi.narrow(-1, n, order - n), (0, n))
    return dy, dzf  # type: ignore[return-value]


def _places(order: int, last: int) -> Tensor:
    """For the state's values (rows) and the last items (columns): the number of the coefficient between them."""
    return torch.arange(order).unsqueeze(1) + torch.arange(last) + 1


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
    parts = [_dot(s.narrow(-1, k, n - k), x.narrow(-1, 0, n - k)) for k in range(min(c.numel(), n))]
    return _like(F.pad(torch.stack(parts), (0, c.numel() - len(parts))), c) if parts else torch.zeros_like(c)


def _dot(s: Tensor, x: Tensor) -> Tensor:
    """The sum of the products of s and the conjugate of x. Where nothing follows it, it makes no array of them."""
    if torch.is_grad_enabled() or following((s, x)) or s.is_complex() or x.is_complex():
        return (s * x.conj()).sum()
    return up.reduce((readable(s), readable(x)), axis=s.ndim - 1, map=_product).sum()


def _product(s, x):
    return s * x


def _like(gradient: Tensor, c: Tensor) -> Tensor:
    return (gradient if c.is_complex() or not gradient.is_complex() else gradient.real).to(c.device, c.dtype)


lfilter = differentiable(_lfilter, _lfilter_context, _lfilter_backward, _lfilter_jvp)


@_lfilter.register_vmap
def _(info: Any, in_dims: Any, x: Tensor, b: Tensor, a: Tensor, zi: Tensor | None) -> Any:
    if in_dims[1] is None and in_dims[2] is None:
        x, zi = (batched(v, d, info.batch_size) for v, d in ((x, in_dims[0]), (zi, in_dims[3])))  # type: ignore[assignment]
        return _lfilter(x, b, a, zi), (0, 0)
    rows = [batched(v, d, info.batch_size) for v, d in zip((x, b, a, zi), in_dims)]
    each = [_lfilter(*(r if r is None else r[i] for r in rows)) for i in range(info.batch_size)]  # type: ignore[arg-type]
    return tuple(map(torch.stack, zip(*each))), (0, 0)
