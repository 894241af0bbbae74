"""The scan of a tuple as a PyTorch operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep.operator import OperatorError
from upsweep.torch.differentiable import batched, nested, plain, refuse_tangents, widened
from upsweep.torch.followers import following
from upsweep.torch.neighbours import segments_of
from upsweep.torch.operands import readable
from upsweep.torch.recurrence_rules import recurrence_tangent
from upsweep.torch.scan_rules import NAMED, scan_tangent


@torch.library.custom_op("upsweep::scan_tuple", mutates_args=())
def _scan(
    xs: list[Tensor], op: str, dim: int, exclusive: bool, reverse: bool, initial: list[Tensor], heads: Tensor | None,
    order: str,
) -> list[Tensor]:  # fmt: skip
    # A scan that starts from nothing has an empty list of starts.
    start, given = tuple(map(readable, initial)) or None, tuple(map(readable, xs))
    segments = segments_of(heads, xs[0], dim)
    return list(
        up.scan(
            given,
            NAMED[op],
            axis=dim,
            exclusive=exclusive,
            reverse=reverse,
            initial=start,
            segments=segments,
            order=order,
        )
    )


@_scan.register_fake
def _(xs: list[Tensor], *_: Any) -> list[Tensor]:
    return [x.new_empty(x.shape) for x in xs]


@_scan.register_vmap
def _(info: Any, in_dims: Any, xs: Any, op: str, dim: int, exclusive: bool, reverse: bool, *rest: Any) -> Any:
    def all_batched(tensors: Any, dims: Any) -> list[Any]:
        return [batched(v, d, info.batch_size) for v, d in zip(tensors, dims)]

    xs, starts = all_batched(xs, in_dims[0]), all_batched(rest[0], in_dims[5])
    heads = batched(rest[1], in_dims[6])
    return _scan(xs, op, dim + 1, exclusive, reverse, starts, heads, rest[2]), [0] * len(xs)


_plain = plain(_scan)


class _Rules(torch.autograd.Function):
    """A tuple has tangents under "affine" only, and its gradients are those of `scan` and `recurrence`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        op: str,
        dim: int,
        exclusive: bool,
        reverse: bool,
        heads: Any,
        order: str,
        parts: int,
        *tensors: Tensor,
    ) -> Any:
        xs, starts = list(tensors[:parts]), list(tensors[parts:])
        return tuple(_plain(xs, op, dim, exclusive, reverse, starts, heads, order))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.op, ctx.dim, ctx.exclusive, ctx.reverse, heads, ctx.order, parts, *tensors = inputs
        starts = tensors[parts:] or [None] * parts
        ctx.save_for_forward(*tensors[:parts], *starts, *output, heads)

    @staticmethod
    @nested
    def jvp(ctx: Any, *tangents: Any) -> Any:
        refuse(ctx.op, ctx.exclusive)
        a, _, *starts, y, h, heads = ctx.saved_tensors
        da, db, *rest = tangents[7:]
        d_starts = rest or (None, None)
        dy = scan_tangent(
            "mul", da, d_starts[0], a, y, starts[0], heads, ctx.dim, False, ctx.reverse, ctx.order
        )
        return dy, recurrence_tangent(
            da, db, d_starts[1], a, h, starts[1], heads, ctx.dim, ctx.reverse, ctx.order
        )


def scan(
    xs: Sequence[Tensor], op: str, dim: int, exclusive: bool, reverse: bool, starts: Sequence[Tensor], heads: Any, order: str
) -> tuple[Tensor, ...]:  # fmt: skip
    xs, starts = [widened(x) for x in xs], [widened(x) for x in starts]
    compiled = torch.compiler.is_compiling()
    if compiled:
        refuse_tangents()
    if compiled or not following((xs, starts, heads)):
        return tuple(_plain(xs, op, dim, exclusive, reverse, starts, heads, order))
    return _Rules.apply(op, dim, exclusive, reverse, heads, order, len(xs), *xs, *starts)  # type: ignore[return-value]


def refuse(op: str, exclusive: bool) -> None:
    """Only the inclusive affine operator has derivatives for a tuple."""
    if op != "affine" or exclusive:
        raise OperatorError(
            f"a scan of a tuple has gradients for the inclusive affine operator only, not for {op}"
        )
