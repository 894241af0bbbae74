"""Scans of a sequence that is sharded over the processes of a group: the bits of one device, whatever the shards.

Every process sums up the aligned blocks of its shard (one pass that reads), all exchange these short lists once, and each
scans its shard from the carry before it (one pass that reads and writes): reduce-then-scan.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from upsweep import shards
from upsweep.arguments import axis_of
from upsweep.components import tupled
from upsweep.operator import OperatorError
from upsweep.operators import as_operator, ops
from upsweep.shards import Blocks
from upsweep.torch.operands import accumulator, multiplier, rows_of
from upsweep.tree import blocks

__all__ = ["linear_recurrence", "scan"]

# The second is the name before PyTorch 2.13.
_all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def scan(
    x: Any,
    op: Any = "add",
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Any = None,
    group: Any = None,
) -> Any:
    """This process's part of the scan of all shards in the order of ranks; every process of the group calls it.

    Args:
        x: this process's shard, a tensor (a tuple of them), of any length along the axis and the same rows everywhere.
        op, axis, exclusive, reverse, initial: as in `upsweep.scan`; the same everywhere.
        group: the process group; the default group if not given.

    Returns:
        A tensor (a tuple) of the shard's shape and device: the part of `upsweep.scan` over all shards joined. It is
        differentiable for "add" without `initial`.

    Raises:
        OperatorError: gradients are asked of another operator. Others as in `upsweep.scan`.
    """
    xs = tupled(x)
    axis = axis_of(axis, tuple(xs[0].shape))
    if not (torch.is_grad_enabled() and any(v.requires_grad for v in xs)):
        ys = _sharded(xs, op, axis, exclusive, reverse, initial, group)[0]
        return ys if isinstance(x, tuple) else ys[0]
    if as_operator(op) != ops.ADD or initial is not None:
        raise OperatorError(
            "a sharded scan has gradients by add without initial alone; upsweep.torch.distributed.linear_recurrence has them, too"
        )
    return _Sum.apply(xs[0], axis, exclusive, reverse, group)


def linear_recurrence(
    a: Any,
    b: Tensor,
    *,
    initial: Any = None,
    axis: int | None = None,
    reverse: bool = False,
    group: Any = None,
) -> Tensor:
    """This process's part of `h[t] = a[t] h[t-1] + b[t]` over all shards in the order of ranks, differentiable once.

    Args:
        a: a tensor or number that broadcasts to the shape of b.
        b: this process's shard, of any length along the axis.
        initial: the state before the very first item (after the last in reverse); the same everywhere, not differentiated.
        axis, reverse: as in `upsweep.linear_recurrence`.
        group: the process group; the default group if not given.
    """
    a, b = multiplier(a, b)
    a = a.expand(b.shape)
    axis = axis_of(axis, tuple(b.shape))
    start = rows_of(initial, b, axis)
    if start is not None and start.requires_grad:
        raise OperatorError("a sharded recurrence has no gradient for initial; pass initial.detach()")
    return _Recurrence.apply(a, b, start, axis, reverse, group)


def _sharded(
    xs: tuple[Tensor, ...], op: Any, axis: int, exclusive: bool, reverse: bool, initial: Any, group: Any,
    keep: tuple[int, ...] | None = None,
) -> tuple[tuple[Tensor, ...], Blocks]:  # fmt: skip
    """The scanned shard (its components `keep`, where these are named), and the block sums of everything before it."""
    xs = tuple(v.detach().flip(axis) if reverse else v.detach() for v in xs)
    own, lists = _exchange(xs, op, axis, reverse, group)
    before = reduce(lambda left, right: shards.joined(op, left, right), lists, Blocks(0, 0))
    ys = shards.scanned(op, xs, before, own, axis, exclusive=exclusive, initial=initial, keep=keep)
    return tuple(y.flip(axis) if reverse else y for y in ys), before


def _exchange(
    xs: tuple[Tensor, ...], op: Any, axis: int, reverse: bool, group: Any
) -> tuple[Blocks, list[Blocks]]:
    """The block sums of this shard, and of each shard before it. All lists travel in one all-gather."""
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    order = list(range(world))[::-1] if reverse else list(range(world))
    n, place = xs[0].shape[axis], order.index(rank)
    asked = _ask_lengths(n, xs[0].device, group)
    # Shards usually have one length: the exchange is under way before the lengths are known.
    own = shards.summed(op, xs, place * n, axis)
    lengths = asked()
    begins, at = {}, 0
    for r in order:
        begins[r], at = at, at + lengths[r]
    if begins[rank] != place * n:
        own = shards.summed(op, xs, begins[rank], axis)
    counts = {r: sum(1 for _ in blocks(begins[r], begins[r] + lengths[r])) for r in order}
    rows = xs[0].shape[:axis] + xs[0].shape[axis + 1 :]
    like = tuple(accumulator(v.dtype) for v in xs)
    most = max(counts.values())
    everyone = _gathered(_packed(own, like, rows, most, xs[0].device), group)
    return own, [
        Blocks(begins[r], begins[r] + lengths[r], _unpacked(everyone[r], like, rows, counts[r], most))
        for r in order[:place]
    ]


def _ask_lengths(n: int, device: torch.device, group: Any) -> Callable[[], list[int]]:
    """Asks every process for the length of its shard. The returned function waits for the answers, and for nothing else."""
    every = torch.empty(dist.get_world_size(group), dtype=torch.int64, device=device)
    work: Any = _all_gather(every, torch.full((1,), n, device=device), group=group, async_op=True)

    def answer() -> list[int]:
        with torch.cuda.stream(torch.cuda.Stream(device)) if device.type == "cuda" else nullcontext():
            work.wait()
            return every.tolist()

    return answer


def _gathered(x: Tensor, group: Any) -> Tensor:
    world = dist.get_world_size(group)
    every = x.new_empty(world * x.numel())
    _all_gather(every, x.reshape(-1), group=group)
    return every.reshape(world, *x.shape)


def _packed(own: Blocks, dtypes: Any, rows: Any, most: int, device: Any) -> Tensor:
    """Block sums as bytes, as many of each component as the longest list has."""
    parts = []
    for c, dtype in enumerate(dtypes):
        size, room = _sizes(dtype, rows, most)
        sums = [torch.as_tensor(block[c], device=device).reshape(-1) for block in own.sums]
        parts += [s.contiguous().view(torch.uint8) for s in sums]
        parts.append(torch.zeros(room - size * len(sums), dtype=torch.uint8, device=device))
    return torch.cat([part for part in parts if part.numel()] or parts)


def _unpacked(
    bytes_: Tensor, dtypes: Any, rows: Any, count: int, most: int
) -> tuple[tuple[Tensor, ...], ...]:
    components, at = [], 0
    for dtype in dtypes:
        size, room = _sizes(dtype, rows, most)
        components.append(bytes_[at : at + size * most].view(dtype).reshape(most, *rows))
        at += room
    return tuple(tuple(c[i] for c in components) for i in range(count))


def _sizes(dtype: torch.dtype, rows: Any, most: int) -> tuple[int, int]:
    """Bytes of a block sum, and of the room for a list of them: whole units of 16, so that each list is aligned."""
    size = int(torch.Size(rows).numel()) * dtype.itemsize
    return size, -(-size * most // 16) * 16


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int, exclusive: bool, reverse: bool, group: Any) -> Tensor:
        ctx.call = (axis, exclusive, not reverse, group)
        return _sharded((x,), "add", axis, exclusive, reverse, None, group)[0][0]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # type: ignore[override]
        return _Sum.apply(g, *ctx.call), None, None, None, None


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, initial: Any, axis: int, reverse: bool, group: Any) -> Tensor:
        start = None if initial is None else (torch.ones_like(initial), initial)
        (h,), before = _sharded((a, b), ops.AFFINE, axis, False, reverse, start, group, keep=(1,))
        ctx.before, ctx.start = before, start
        ctx.axis, ctx.reverse, ctx.group = axis, reverse, group
        ctx.save_for_backward(a, h)
        return h

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # type: ignore[override]
        a, h = ctx.saved_tensors
        return *(_Last.apply(made, g, a, h) for made in _gradients(ctx, g, a, h)), None, None, None, None


@torch.no_grad()
def _gradients(ctx: Any, g: Tensor, a: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the multiplier and of the items."""
    axis, reverse, group = ctx.axis, ctx.reverse, ctx.group
    last = shards.prefix(ops.AFFINE, ctx.before, ctx.start)
    rows = torch.zeros(h.shape[:axis] + h.shape[axis + 1 :], dtype=h.dtype, device=h.device)
    first = rows if last is None else torch.as_tensor(last[1])
    ahead = _shifted(a, _neighbours_first(a, axis, reverse, group), axis, not reverse)
    (s,), _ = _sharded(
        (ahead.conj(), g),
        ops.AFFINE,
        axis,
        False,
        not reverse,
        (torch.ones_like(rows), rows),
        group,
        keep=(1,),
    )
    before = _shifted(h, first.to(h.dtype), axis, reverse)
    return s.to(a.dtype) * before.conj(), s


class _Last(torch.autograd.Function):
    """A gradient that follows from other tensors, and has no gradient itself. PyTorch's once_differentiable would leave it out of
    sums without a word, where the gradient that comes in needs none."""

    @staticmethod
    def forward(ctx: Any, made: Tensor, *others: Tensor) -> Tensor:
        return made.view_as(made)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # type: ignore[override]
        raise OperatorError("a sharded recurrence has no second gradients")


def _shifted(x: Tensor, first: Tensor, axis: int, reverse: bool) -> Tensor:
    """Each item's predecessor in the direction of the scan; `first` stands before the shard."""
    n = x.shape[axis]
    if n == 0:
        return x
    parts = [first.unsqueeze(axis), x.narrow(axis, 1 if reverse else 0, n - 1)]
    return torch.cat(parts[::-1] if reverse else parts, axis)


def _neighbours_first(a: Tensor, axis: int, reverse: bool, group: Any) -> Tensor:
    """The coefficient that comes right after this shard in the direction of the scan; zero at the end."""
    rows = torch.zeros(a.shape[:axis] + a.shape[axis + 1 :], dtype=a.dtype, device=a.device)
    held = a.shape[axis] > 0
    mine = a.select(axis, -1 if reverse else 0) if held else rows
    flat = torch.view_as_real(mine.resolve_conj()) if mine.is_complex() else mine
    lengths = _ask_lengths(a.shape[axis], a.device, group)()
    firsts = _gathered(flat.contiguous(), group)
    rank = dist.get_rank(group)
    for r in range(rank - 1, -1, -1) if reverse else range(rank + 1, len(lengths)):
        if lengths[r]:
            return torch.view_as_complex(firsts[r]) if mine.is_complex() else firsts[r]
    return rows
