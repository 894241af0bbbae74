"""Advantages as a PyTorch operator. They are linear in rewards and values, and so are their gradients: each is the derivative of
the other, and each is one scan.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from upsweep import advantages as scans
from upsweep.torch.differentiable import batched, differentiable, keep
from upsweep.torch.neighbours import along, ends_of, previous, zero_before
from upsweep.torch.operands import promoted, readable
from upsweep.torch.ways import Call, Ways, called, run, shorter


@torch.library.custom_op("upsweep::advantages", mutates_args=())
def _advantages(
    r: Tensor, v: Tensor, after: Tensor, ended: Tensor | None, cut: Tensor | None, discount: Tensor | None, decay: Tensor | None,
    gamma: float, lam: float, dim: int, order: str,
) -> Tensor:  # fmt: skip
    """`after` has the rank of v where it is the values after every item, and one value a row where it is that after the last.
    Tensors may stand in the place of gamma and `gamma lam`: they have the dtype that is computed in and v's rank, and axes of one
    item hold for all of v's.
    """
    if not v.numel():
        return v.new_empty(v.shape, dtype=promoted(r.dtype, v.dtype))
    return run(_forwards(r, v, after, ended, cut, discount, decay, gamma, lam, dim, order))


def _forwards(
    r: Tensor, v: Tensor, after: Tensor, ended: Tensor | None, cut: Tensor | None, discount: Tensor | None, decay: Tensor | None,
    gamma: float, lam: float, dim: int, order: str,
) -> Call:  # fmt: skip
    r, v, after, every = readable(r), readable(v), readable(after), after.ndim == v.ndim
    out = v.new_empty(v.shape, dtype=promoted(r.dtype, v.dtype))
    if not every and (order == "sequential" or discount is not None):
        after, every = (
            torch.cat([v, after.to(v.dtype).unsqueeze(dim)], dim).narrow(dim, 1, v.shape[dim]),
            True,
        )
    over: Any = False if ended is None else ended.expand(v.shape) if every else along(ended, dim, True, 0, 1)
    after = after if every else after.to(v.dtype).unsqueeze(dim)
    stops = ends_of(scans.stops_of(ended, cut), v, dim)
    weights = _weights(v, discount, decay, gamma, lam)
    return scans.advantages(
        r, v, after, over, *weights, every=every, ends=stops, axis=dim, order=order, out=out, scan=called
    )


def _weights(
    x: Tensor, discount: Tensor | None, decay: Tensor | None, gamma: float, lam: float
) -> tuple[Any, Any]:
    """What the next value and the next advantage count, as a scan takes it: tensors in x's shape, or numbers."""
    if discount is None or decay is None:
        return gamma, gamma * lam
    return discount.expand(x.shape), decay.expand(x.shape)


@_advantages.register_fake
def _(r: Tensor, v: Tensor, *_: Any) -> Tensor:
    return v.new_empty(v.shape, dtype=promoted(r.dtype, v.dtype))


@_advantages.register_vmap
def _(
    info: Any, in_dims: Any, r: Any, v: Any, after: Any, ended: Any, cut: Any, discount: Any, decay: Any, gamma: float,
    lam: float, dim: int, order: str,
) -> Any:  # fmt: skip
    r, v, after = (batched(x, d, info.batch_size) for x, d in zip((r, v, after), in_dims))
    rest = [batched(x, d) for x, d in zip((ended, cut, discount, decay), in_dims[3:])]
    return _advantages(r, v, after, *rest, gamma, lam, dim + 1, order), 0  # type: ignore[call-arg]


def _context(ctx: Any, inputs: Any, output: Tensor) -> None:
    r, v, after, ended, cut, discount, decay, *ctx.given = inputs
    ctx.like = [(x.shape, x.dtype) for x in (r, v, after)]
    keep(ctx, ended, cut, discount, decay)


def _backward(ctx: Any, g: Tensor) -> Any:
    wanted = "".join([name for name, need in zip(_NAMES, ctx.needs_input_grad) if need])
    every = len(ctx.like[2][0]) == g.ndim
    made = _transposed(g, *ctx.saved_tensors, every, wanted, *ctx.given)
    return *[d if name in wanted else None for name, d in zip(_NAMES, made)], *[None] * 8


def _jvp(ctx: Any, dr: Any, dv: Any, dafter: Any, *_: Any) -> Tensor:
    return advantages(*_whole((dr, dv, dafter), ctx.like), *ctx.saved_tensors, *ctx.given)


ADVANTAGES = Ways(shorter(_forwards))
"""The ways of advantages, whose operands are those of `upsweep::advantages`."""
advantages = differentiable(_advantages, _context, _backward, _jvp, ways=ADVANTAGES)

_NAMES = "rva"
"""The operands that a gradient is wanted of: rewards, values, and the values after."""


def _whole(parts: Any, like: Any) -> list[Tensor]:
    """Tangents or gradients of these shapes and dtypes, of which some may be missing, but not all."""
    known = next(d for d in parts if d is not None)
    return [
        known.new_zeros((), dtype=dtype).expand(shape) if d is None else d
        for d, (shape, dtype) in zip(parts, like)
    ]


@torch.library.custom_op("upsweep::advantages_transposed", mutates_args=())
def _transpose(
    g: Tensor, ended: Tensor | None, cut: Tensor | None, discount: Tensor | None, decay: Tensor | None, every: bool, wanted: str,
    gamma: float, lam: float, dim: int, order: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of the operands that are `wanted`, and empty ones of the rest. `every` says whether there is a value after
    each item.
    """
    if not g.numel():
        return tuple([g.new_zeros(shape) for shape in _shapes(g, every, wanted, dim)])  # type: ignore[return-value]
    given = g, ended, cut, discount, decay, every, wanted, gamma, lam, dim, order
    return _given_back(run(_backwards(*given)), *given)


def _asked(every: bool, wanted: str) -> tuple[bool, bool, bool]:
    """Whether a scan makes s, whether it makes another gradient, and whether it makes -s of s. With a value after every item the
    gradient of v is -s, else the gradient of the value after the last is made of s.
    """
    ours, others = (set("rv"), "a") if every else (set("ra"), "v")
    return not ours.isdisjoint(wanted), others in wanted, every and "r" not in wanted


def _backwards(
    g: Tensor, ended: Tensor | None, cut: Tensor | None, discount: Tensor | None, decay: Tensor | None, every: bool, wanted: str,
    gamma: float, lam: float, dim: int, order: str,
) -> Call:  # fmt: skip
    g, (own, other, negative) = readable(g), _asked(every, wanted)
    outs = tuple([torch.empty_like(g, memory_format=torch.contiguous_format) for _ in range(own + other)])
    over = ended.expand(g.shape) if every and other and ended is not None else False
    stops = scans.stops_of(ended, cut)
    # A value after each item counts what its own item says.
    discount = discount if every else _behind(discount, stops, dim)
    weights = _weights(g, discount, _behind(decay, stops, dim), gamma, lam)
    return scans.gradients(
        g, over, *weights, every=every, own=own, other=other, negative=negative,
        ends=ends_of(stops, g, dim), axis=dim, order=order, out=outs if own and other else outs[0], scan=called,
    )  # fmt: skip


def _behind(weight: Tensor | None, stops: Tensor | None, dim: int) -> Tensor | None:
    """The weight of the item before, which is 0 where an episode starts."""
    if weight is None or weight.shape[dim] == 1:
        return weight
    weight = weight if stops is None else torch.where(stops, 0, weight)
    return previous(weight, zero_before(weight, dim), dim, False)


def _given_back(
    made: Any, g: Tensor, ended: Tensor | None, cut: Tensor | None, discount: Tensor | None, decay: Tensor | None, every: bool,
    wanted: str, gamma: float, lam: float, dim: int, order: str,
) -> Any:  # fmt: skip
    """The gradients in the order of the operands, from the results of the scan."""
    outs, negative = made if isinstance(made, tuple) else (made,), _asked(every, wanted)[2]
    s, beside = outs[0], outs[-1]
    if every:
        each = s, -s if "v" in wanted and not negative else s, beside
    else:
        each = s, beside, _of_last(s, ended, gamma, discount, dim) if "a" in wanted else s
    return tuple([d if name in wanted else g.new_empty(0) for name, d in zip(_NAMES, each)])


def _of_last(s: Tensor, ended: Tensor | None, gamma: float, discount: Tensor | None, dim: int) -> Tensor:
    """The gradient of the value after the last item."""
    weight = gamma if discount is None else along(discount, dim, True, 0, 1)
    end = (weight * along(s, dim, True, 0, 1)).to(s.dtype)
    if ended is not None:
        end = end.masked_fill(along(ended, dim, True, 0, 1), 0)
    return end.squeeze(dim)


def _shapes(g: Tensor, every: bool, wanted: str, dim: int) -> list[Any]:
    whole = g.shape, g.shape, g.shape if every else g.shape[:dim] + g.shape[dim + 1 :]
    return [shape if name in wanted else (0,) for name, shape in zip(_NAMES, whole)]


@_transpose.register_fake
def _(
    g: Tensor, ended: Any, cut: Any, discount: Any, decay: Any, every: bool, wanted: str, gamma: float, lam: float, dim: int,
    order: str,
) -> Any:  # fmt: skip
    return tuple([g.new_empty(shape) for shape in _shapes(g, every, wanted, dim)])


@_transpose.register_vmap
def _(info: Any, in_dims: Any, *args: Any) -> Any:
    *tensors, every, wanted, gamma, lam, dim, order = args
    tensors = [batched(x, d) for x, d in zip(tensors, in_dims)]
    made = _transpose(*tensors, every, wanted, gamma, lam, dim + 1, order)  # type: ignore[call-arg]
    return made, tuple([0 if name in wanted else None for name in _NAMES])


def _transpose_context(ctx: Any, inputs: Any, output: Any) -> None:
    g, ended, cut, discount, decay, ctx.every, ctx.wanted, *ctx.given = inputs
    ctx.like = [(shape, g.dtype) for shape in _shapes(g, ctx.every, _NAMES, ctx.given[2])]
    keep(ctx, ended, cut, discount, decay)


def _transpose_backward(ctx: Any, *gradients: Any) -> Any:
    known = [d if name in ctx.wanted else None for name, d in zip(_NAMES, gradients)]
    return advantages(*_whole(known, ctx.like), *ctx.saved_tensors, *ctx.given), *[None] * 10


def _transpose_jvp(ctx: Any, dg: Tensor, *_: Any) -> Any:
    return _transposed(dg, *ctx.saved_tensors, ctx.every, ctx.wanted, *ctx.given)


_transposed = differentiable(
    _transpose, _transpose_context, _transpose_backward, _transpose_jvp,
    ways=Ways(shorter(_backwards, _given_back)),
)  # fmt: skip
