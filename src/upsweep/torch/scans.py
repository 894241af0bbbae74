"""Scans under an operator, and reductions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import upsweep as up
from upsweep.arguments import alone, check_any, parts_of
from upsweep.operator import OperatorError
from upsweep.segments import Segments
from upsweep.torch import reductions, scan_rules, tuples
from upsweep.torch.differentiable import widened
from upsweep.torch.followers import following, graded, within_gradients
from upsweep.torch.operands import beside, dim_of, readable, rows_of, summed, tensor
from upsweep.torch.recurrence_rules import recurrence
from upsweep.torch.segment_sums import segment_sums
from upsweep.torch.segments import heads_of, offsets_of


def scan(
    xs: Any,
    op: Any = "add",
    *,
    axis: int | None = None,
    dim: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Any = None,
    dtype: Any = None,
    segments: Segments | None = None,
    order: str = "tree",
) -> Any:
    """All prefixes under an associative operator, as `upsweep.scan`, differentiable.

    Args:
        xs: a tensor, or a tuple of tensors of one shape.
        op, axis, exclusive, reverse, initial, segments, order: as in `upsweep.scan`. A scan of one tensor has derivatives for the
            built-in operators and for every Python function that PyTorch can evaluate on whole tensors (arithmetic and torch
            functions; no `if`, no `math`; holomorphic, of complex numbers); a tuple has them for "affine".
        dim: another name for axis.
        dtype: the dtype to convert to first, PyTorch's or by name.

    Returns:
        A tensor (a tuple of them), of the input's shape and device.

    Raises:
        OperatorError: gradients are asked of a tuple under an operator other than "affine", or of complex numbers under one
            that is not holomorphic. Others as in `upsweep.scan`.

    >>> import torch, upsweep.torch as ut
    >>> x = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    >>> ut.scan(x, "mul")[-1].backward()
    >>> x.grad.tolist()
    [12.0, 8.0, 6.0]
    """
    name = scan_rules.name_of(op)
    if isinstance(xs, tuple):
        check_any(xs)
        xs = tuple(tensor(x, dtype) for x in xs)
        for x in xs[1:]:
            beside(x, "an array of the tuple", xs[0])
        dim = dim_of(axis, dim, xs[0])
        parts = () if initial is None else parts_of(initial, len(xs), "initial")
        starts = [rows_of(v, x, dim) for v, x in zip(parts, xs)]
        return _scan_tuple(xs, name, dim, exclusive, reverse, starts, heads_of(segments, xs[0], dim), order)
    x = tensor(xs, dtype)
    dim = dim_of(axis, dim, x)
    return _scan(x, name, dim, exclusive, reverse, initial, heads_of(segments, x, dim), order)


def _scan(
    x: Tensor,
    name: str,
    dim: int,
    exclusive: bool,
    reverse: bool,
    initial: Any,
    heads: Tensor | None,
    order: str,
) -> Tensor:
    start = rows_of(initial, x, dim)
    if x.is_complex() and graded((x, start)):
        scan_rules.check_holomorphic(name)
    return scan_rules.scan(x, name, dim, exclusive, reverse, start, heads, order)


def _scan_tuple(
    xs: tuple[Tensor, ...], name: str, dim: int, exclusive: bool, reverse: bool, starts: Any, heads: Tensor | None,
    order: str,
) -> tuple[Tensor, ...]:  # fmt: skip
    # A tangent that has gradients itself needs the rules of both modes.
    composed = name == "affine" and not exclusive and within_gradients()
    if not (composed or graded((*xs, *starts))):
        return tuples.scan(xs, name, dim, exclusive, reverse, starts, heads, order)
    tuples.refuse(name, exclusive)
    a, b = xs
    first, second = starts or (None, None)
    return (
        scan_rules.scan(a, "mul", dim, False, reverse, first, heads, order),
        recurrence(a, b, second, heads, dim, reverse, order),
    )


def reduce(
    x: Tensor,
    op: Any = "add",
    *,
    axis: int | None = None,
    dim: int | None = None,
    reverse: bool = False,
    initial: Any = None,
    dtype: Any = None,
    segments: Segments | None = None,
    order: str = "tree",
) -> Tensor:
    """The last prefix, or that of every segment, as `upsweep.reduce`, differentiable.

    Args:
        x: a tensor.
        op, axis, dim, reverse, initial, dtype, order: as in `scan`.
        segments: one result a segment, along the axis. An empty one has `initial` or the operator's identity. The number of
            segments that flags or keys make is counted: a GPU is waited for, and a compiled graph breaks. So it is with offsets
            and lengths where there is neither initial nor an identity.

    >>> import torch, upsweep as up, upsweep.torch as ut
    >>> ut.reduce(torch.arange(5), segments=up.segments.lengths([2, 0, 3])).tolist()
    [1, 0, 9]
    """
    x = tensor(x, dtype)
    dim = dim_of(axis, dim, x)
    name, heads = scan_rules.name_of(op), heads_of(segments, x, dim)
    start = rows_of(initial, x, dim)
    if heads is None and x.numel() and reductions.fits(name, x, start):
        return reductions.reduction(x, name, dim, reverse, start, order)
    if heads is None and x.shape[dim] and not (torch.compiler.is_compiling() or following((x, start))):
        # The last prefix, without the others.
        start = None if start is None else readable(start)
        return up.reduce(
            readable(widened(x)),
            scan_rules.NAMED[name],
            axis=dim,
            reverse=reverse,
            initial=start,
            order=order,
        )
    if name == "add" and segments is not None and heads is not None and _is_spread(x, dim):
        return segment_sums(x, start, heads, offsets_of(segments, heads, x, dim), dim, reverse, order)
    y = _scan(x, name, dim, False, reverse, initial, heads, order)
    if segments is None and x.shape[dim]:
        return y.select(dim, 0 if reverse else -1)
    if segments is None or heads is None:
        # The gradient of no items is asked for, too.
        return torch.cat([_nothing(op, y, initial, dim).unsqueeze(dim), y], dim).squeeze(dim)
    offsets = offsets_of(segments, heads, x, dim)
    last = offsets[:-1] if reverse else offsets[1:] - 1
    empty = offsets[1:] == offsets[:-1]
    # Whether a segment is empty is asked only where nothing can stand for it: a GPU would be waited for.
    known = initial is not None or scan_rules.identity(name, y.dtype) is not None
    if not empty.numel() or not (known or bool(empty.any())):
        return _taken(y, last, dim)
    first = _nothing(op, y, initial, dim).unsqueeze(dim)
    if not x.shape[dim]:
        return first.expand([len(empty) if d == dim else n for d, n in enumerate(x.shape)]).contiguous()
    empty = empty.reshape([-1 if d == dim else 1 for d in range(x.ndim)])
    return _taken(y, last.clamp(0, x.shape[dim] - 1), dim, empty, first)


def _is_spread(x: Tensor, dim: int) -> bool:
    """Whether the gradient of sums goes to items by the numbers of their segments. In one row there are as many numbers as items,
    and twice as wide.
    """
    return (x.is_floating_point() or x.is_complex()) and x.numel() > x.shape[dim] > 0


def _taken(
    y: Tensor, places: Tensor, dim: int, empty: Tensor | None = None, first: Tensor | None = None
) -> Tensor:
    """The items at some places; `first` where it is `empty` there."""
    signed = _SIGNED.get(y.dtype)
    if signed is not None:
        first = None if first is None else first.view(signed)
        return _taken(y.view(signed), places, dim, empty, first).view(y.dtype)
    there = y.index_select(dim, places)
    return there if empty is None or first is None else torch.where(empty, first, there)


_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
"""PyTorch neither takes nor chooses unsigned items of several bytes."""


def _nothing(op: Any, y: Tensor, initial: Any, dim: int) -> Tensor:
    """The reduction of no items, for each row."""
    name = scan_rules.name_of(op)
    start = rows_of(initial, y, dim)
    if start is not None:
        return start.to(y.dtype).clone()
    identity = scan_rules.identity(name, y.dtype)
    if identity is None:
        raise OperatorError(f"the reduction of nothing needs an identity, and {op} has none: pass initial=")
    return y.new_full([n for d, n in enumerate(y.shape) if d != dim], identity)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dim: int | None = None, dtype: Any = None,
    include_initial: bool = False, segments: Segments | None = None, order: str = "tree",
) -> Tensor:  # fmt: skip
    """Running totals, as `upsweep.cumulative_sum`, differentiable. `dim` and errors are those of `scan`.

    >>> import torch, upsweep.torch as ut
    >>> ut.cumulative_sum(torch.tensor([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative(x, "add", axis, dim, dtype, include_initial, segments, order)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dim: int | None = None, dtype: Any = None,
    include_initial: bool = False, segments: Segments | None = None, order: str = "tree",
) -> Tensor:  # fmt: skip
    """Running products, as `upsweep.cumulative_prod`, differentiable, also where items are zero. `dim` and errors are those of
    `scan`.

    >>> import torch, upsweep.torch as ut
    >>> ut.cumulative_prod(torch.tensor([2, 3, 4])).tolist()
    [2, 6, 24]
    """
    return _cumulative(x, "mul", axis, dim, dtype, include_initial, segments, order)


def _cumulative(
    x: Tensor, op: str, axis: int | None, dim: int | None, dtype: Any, include_initial: bool, segments: Segments | None,
    order: str,
) -> Tensor:  # fmt: skip
    alone(include_initial, segments)
    x = tensor(x)
    x, dim = tensor(x, summed(x.dtype) if dtype is None else dtype), dim_of(axis, dim, x)
    if include_initial:
        # PyTorch joins no float16 where bfloat16 is its narrow dtype.
        x = widened(x)
        # The exclusive scan of one item more begins with the identity and ends with the last total.
        more = x.new_zeros([1 if d == dim else n for d, n in enumerate(x.shape)])
        x = torch.cat([x, more], dim)
    return scan_rules.scan(x, op, dim, include_initial, False, None, heads_of(segments, x, dim), order)


def cummax(
    x: Tensor, *, axis: int | None = None, dim: int | None = None, reverse: bool = False, segments: Segments | None = None,
    order: str = "tree",
) -> Tensor:  # fmt: skip
    """Running maxima, as `upsweep.cummax`, differentiable: of equal items the later one has the gradient, as with
    `torch.cummax`, which gives the places too. `dim` and errors are those of `scan`.

    >>> import torch, upsweep.torch as ut
    >>> ut.cummax(torch.tensor([2, 1, 5, 3])).tolist()
    [2, 2, 5, 5]
    """
    return scan(x, "max", axis=axis, dim=dim, reverse=reverse, segments=segments, order=order)


def cummin(
    x: Tensor, *, axis: int | None = None, dim: int | None = None, reverse: bool = False, segments: Segments | None = None,
    order: str = "tree",
) -> Tensor:  # fmt: skip
    """Running minima, as `upsweep.cummin`, differentiable like `cummax`.

    >>> import torch, upsweep.torch as ut
    >>> ut.cummin(torch.tensor([2, 1, 5, 3])).tolist()
    [2, 1, 1, 1]
    """
    return scan(x, "min", axis=axis, dim=dim, reverse=reverse, segments=segments, order=order)


def cumlogsumexp(
    x: Tensor, *, axis: int | None = None, dim: int | None = None, reverse: bool = False, segments: Segments | None = None,
    order: str = "tree",
) -> Tensor:  # fmt: skip
    """`log(cumsum(exp(x)))` without overflow, as `upsweep.cumlogsumexp`, differentiable, for real floating-point x. `dim` and
    errors are those of `scan`.

    >>> import torch, upsweep.torch as ut
    >>> ut.cumlogsumexp(torch.zeros(4)).exp().round().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return scan(x, "logaddexp", axis=axis, dim=dim, reverse=reverse, segments=segments, order=order)
