"""The neighbours before and after each item, in the direction of a scan, and the starts of segments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

import upsweep as up


def along(x: Tensor, dim: int, reverse: bool, start: int, count: int) -> Tensor:
    """`count` items from item `start` on, counted in the direction of the scan."""
    return x.narrow(dim, x.shape[dim] - start - count if reverse else start, count)


def join(parts: Sequence[Tensor], dim: int, reverse: bool) -> Tensor:
    return torch.cat(list(reversed(parts)) if reverse else list(parts), dim)


def previous(x: Tensor, first: Tensor, dim: int, reverse: bool) -> Tensor:
    """`x[t-1]` at t, `first` (one a row) at the start."""
    return join([first.unsqueeze(dim), along(x, dim, reverse, 0, x.shape[dim] - 1)], dim, reverse)


def zero_before(x: Tensor, dim: int) -> Tensor:
    """Zero as the item before the first one, one a row."""
    return torch.zeros_like(x.select(dim, 0))


def beside(x: Tensor, dim: int, reverse: bool) -> Tensor:
    """`x[t-1]` at t, and anything at the start: a view where the memory of x reaches so far, as `with_room` makes it."""
    seen = beside_of(x, dim, reverse)(x)
    return previous(x, zero_before(x, dim), dim, reverse) if seen is None else seen


def lies_beside(x: Tensor, dim: int, reverse: bool) -> bool:
    """Whether the memory of x reaches to where an item before the first one would lie."""
    return beside_of(x, dim, reverse)(x) is not None


def beside_of(x: Tensor, dim: int, reverse: bool) -> Callable[[Tensor], Tensor | None]:
    """The function that gives that view of tensors that lie like x; None of those whose memory does not reach so far."""
    shape, steps = x.shape, x.stride()
    ahead = steps[dim] if reverse else -steps[dim]
    end, size = sum((n - 1) * step for n, step in zip(shape, steps)) + 1, x.itemsize

    def view(x: Tensor) -> Tensor | None:
        start = x.storage_offset() + ahead
        if start < 0 or (reverse and (start + end) * size > x.untyped_storage().nbytes()):
            return None
        return x.as_strided(shape, steps, start)

    return view if x.numel() else lambda x: None


def with_room(x: Tensor, dim: int, reverse: bool) -> Tensor:
    """An empty tensor of x's shape and dtype, in memory that reaches to where an item before the first one would lie."""
    return room_of(x, dim, reverse)(x)


def room_of(x: Tensor, dim: int, reverse: bool) -> Callable[[Tensor], Tensor]:
    """The function that makes such tensors for tensors like x."""
    shape, item = x.shape, math.prod(x.shape[dim + 1 :])
    line = _LINE // x.itemsize
    room = -(-item // line) * line
    count, start = x.numel() + room, 0 if reverse else room

    def made(x: Tensor) -> Tensor:
        memory = x.new_empty(count)
        # A view of other memory may not be changed in place outside.
        return memory.set_(memory.untyped_storage(), start, shape)  # type: ignore[call-overload]

    return made


_LINE = 512
"""GPU memory is handed out at multiples of so many bytes: items behind as many lie as well aligned as those of a tensor of its
own.
"""


def following(x: Tensor, dim: int, reverse: bool) -> Tensor:
    """`x[t+1]` at t, zero at the end."""
    last = torch.zeros_like(along(x, dim, reverse, 0, 1))
    return join([along(x, dim, reverse, 1, x.shape[dim] - 1), last], dim, reverse)


def starts(heads: Tensor, dim: int, reverse: bool) -> Tensor:
    """True where a segment starts in the direction of the scan; the first item starts one whatever its flag."""
    flags = heads.roll(-1, dim) if reverse else heads.clone()
    along(flags, dim, reverse, 0, 1).fill_(True)
    return flags


def starts_of(heads: Tensor | None, x: Tensor, dim: int, reverse: bool) -> Tensor:
    """True where a segment starts, of x's rank; without segments at the first item alone."""
    if heads is not None:
        return starts(heads, dim, reverse)
    place = torch.arange(x.shape[dim], device=x.device) == (x.shape[dim] - 1 if reverse else 0)
    return place.reshape([-1 if d == dim else 1 for d in range(x.ndim)])


def before(y: Tensor, first: Tensor, heads: Tensor | None, dim: int, reverse: bool) -> Tensor:
    """`y[t-1]` at t, `first` (one a row) where a segment starts."""
    beside = previous(y, first, dim, reverse)
    if heads is None:
        return beside
    return torch.where(starts(heads, dim, reverse), first.unsqueeze(dim), beside)


def over_starts(x: Tensor, heads: Tensor | None, dim: int, reverse: bool) -> Tensor:
    """The sum of x over the items that start a segment."""
    if heads is None:
        return along(x, dim, reverse, 0, 1).squeeze(dim)
    return x.masked_fill(~starts(heads, dim, reverse), 0).sum(dim)


def one_at_starts(x: Tensor, heads: Tensor | None, dim: int, reverse: bool) -> Tensor:
    """x, and 1 at the items that start a segment."""
    if heads is not None:
        return x.masked_fill(starts(heads, dim, reverse), 1)
    one = torch.ones_like(along(x, dim, reverse, 0, 1))
    return join([one, along(x, dim, reverse, 1, x.shape[dim] - 1)], dim, reverse)


def ahead(a: Tensor, dim: int, reverse: bool) -> Tensor:
    """`a[t+1]` at t. The value at the end is not read: a recurrence begins there, or a segment."""
    return a if a.shape[dim] == 1 else following(a, dim, reverse)


def segments_of(heads: Tensor | None, x: Tensor, dim: int) -> up.segments.Segments | None:
    """Flags of the rank of x as segments: those that hold for all rows are 1-D."""
    return None if heads is None else up.segments.flags(for_rows(heads, x, dim))


def ends_of(stops: Tensor | None, x: Tensor, dim: int) -> up.segments.Segments | None:
    """Flags at the last items of segments, of the rank of x, as segments."""
    return None if stops is None else up.segments.ends(for_rows(stops, x, dim))


def for_rows(flags: Tensor, x: Tensor, dim: int) -> Tensor:
    """Flags of the rank of x, 1-D where they hold for all rows, else of x's shape."""
    return flags.reshape(-1) if flags.numel() == flags.shape[dim] else flags.expand(x.shape)
