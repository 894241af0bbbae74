"""Sorting by scans: radix sort, one digit at a time, and quicksort, all segments at once."""

from __future__ import annotations

from typing import Any

from upsweep import api, homes, segments, sort_keys
from upsweep.apps import moving
from upsweep.apps.kinds import enter
from upsweep.arguments import ShapeError
from upsweep.engine import DTypeError


@homes.apart
def radix_sort(x: Any, values: Any = None, *, descending: bool = False) -> Any:
    """Stable sort of integers, booleans, floats or times, by the bits of the keys, lowest first.

    Args:
        x: 1-D keys. NaN and NaT sort last, as in NumPy, and so first when descending, as in PyTorch; -0.0 equals 0.0.
        values: an array of as many items or rows, to be brought into the order of the keys.
        descending: largest first; equal keys still keep their order.

    Returns:
        The sorted keys, bit for bit those of `numpy.sort(x, kind="stable")`; with values the pair `(keys, values)`.

    Raises:
        ShapeError: x is not 1-D, or values differ in length. DTypeError: keys of another dtype.

    >>> import numpy as np
    >>> from upsweep import apps
    >>> apps.radix_sort([3.0, -1.0, float("nan"), 0.5]).tolist()
    [-1.0, 0.5, 3.0, nan]
    >>> keys, names = apps.radix_sort([2, 1, 2], np.array(["b", "a", "c"]))
    >>> keys.tolist(), names.tolist()
    ([1, 2, 2], ['a', 'b', 'c'])

    Source: Blelloch (1990), section 1.3; Merrill and Grimshaw, "High performance and scalable radix sorting" (2011).
    """
    xp, (x, values), give = enter(x, values)
    _check(x)
    if values is not None and values.shape[:1] != x.shape:
        raise ShapeError(f"values of shape {tuple(values.shape)} do not fit {x.shape[0]} keys")
    moves = moving.fast(x)
    if moves:
        ordered, moved = moves.radix_sort(x, values, descending)
    else:
        order = _order(xp, sort_keys.keys(xp, x, descending))
        ordered, moved = sort_keys.bits(xp, x)[order].view(x.dtype), None if values is None else values[order]
    return give(ordered) if values is None else (give(ordered), give(moved))


@homes.apart
def argsort(x: Any, *, descending: bool = False) -> Any:
    """The places (int64) of the items in sorted order: `numpy.argsort(x, kind="stable")`. Keys, errors and the order of
    equal, descending and missing ones are those of `radix_sort`.

    >>> from upsweep import apps
    >>> apps.argsort([3, 1, 2, 1]).tolist()
    [1, 3, 2, 0]
    """
    xp, (x,), give = enter(x)
    _check(x)
    moves = moving.fast(x)
    return give(moves.argsort(x, descending) if moves else _order(xp, sort_keys.keys(xp, x, descending)))


@homes.apart
def quicksort(x: Any) -> Any:
    """Stable quicksort of all segments at once, each round a few segmented scans: what scans can do, not the fastest sort.

    Every segment splits at a pivot into less, equal and greater, which are the segments of the next round; about
    `2 log2(n)` rounds are to be expected, each some twenty passes over the keys, so that two cores need 15 times as long as
    `numpy.sort`. Keys, errors and result are those of `radix_sort`.

    >>> from upsweep import apps
    >>> apps.quicksort([6, 2, 9, 2, 4]).tolist()
    [2, 2, 4, 6, 9]

    Source: Blelloch (1990), section 1.5.1.
    """
    xp, (x,), give = enter(x)
    _check(x)
    keys = sort_keys.keys(xp, x, False)
    places = moving.indices(xp, keys.shape[0], keys)
    order, starts, turn = places, places[:1], 0
    while keys.shape[0] > 1 and not bool(xp.all(keys[1:] >= keys[:-1])):
        to, starts = _split(xp, keys, places, starts, turn)
        turn += 1
        moved, moved_order = xp.empty_like(keys), xp.empty_like(order)
        moved[to], moved_order[to] = keys, order
        keys, order = moved, moved_order
    return give(sort_keys.bits(xp, x)[order].view(x.dtype))


def _split(xp: Any, keys: Any, places: Any, starts: Any, turn: int) -> tuple[Any, Any]:
    """The place of each key, and the starts of the next round's segments."""
    n = keys.shape[0]
    ends = xp.concat([starts[1:], xp.full((1,), n, dtype=xp.int64, device=keys.device)])
    heads = xp.zeros(n, dtype=xp.bool, device=keys.device)
    heads[starts] = True
    mine = api.scan(heads, "add", dtype=xp.int64) - 1
    # Any pivot works, but a fixed place has bad inputs.
    hashed = (starts * 40503 + turn * 30029 + 12345) % 65521
    pivot = keys[starts + hashed * (ends - starts) // 65521][mine]
    less, equal = keys < pivot, keys == pivot
    less_before, equal_before = (
        api.scan(f, "add", exclusive=True, dtype=xp.int64, segments=segments.flags(heads))
        for f in (less, equal)
    )
    last = ends - 1
    lows = less_before[last] + xp.astype(less[last], xp.int64)
    middles = equal_before[last] + xp.astype(equal[last], xp.int64)
    start, low, middle = starts[mine], lows[mine], middles[mine]
    greater_before = places - start - less_before - equal_before
    rank = xp.where(less, less_before, xp.where(equal, low + equal_before, low + middle + greater_before))
    edges = xp.concat([starts, starts + lows, starts + lows + middles])
    heads = xp.zeros(n + 1, dtype=xp.bool, device=keys.device)
    heads[edges] = True
    return start + rank, moving.where(xp, heads[:n])


def _order(xp: Any, keys: Any) -> Any:
    """The stable order of signed keys, bit by bit."""
    order, sign = moving.indices(xp, keys.shape[0], keys), 8 * keys.itemsize - 1
    varies = int(api.last_prefix(keys ^ keys[:1], "or"))
    for bit in (bit for bit in range(sign + 1) if varies >> bit & 1):
        to = _stable_split(xp, keys < 0 if bit == sign else keys >> bit & 1 == 0)
        moved, moved_order = xp.empty_like(keys), xp.empty_like(order)
        moved[to], moved_order[to] = keys, order
        keys, order = moved, moved_order
    return order


def _stable_split(xp: Any, first: Any) -> Any:
    """The places of the items when the flagged ones go first."""
    offsets = api.cumulative_sum(first, include_initial=True)
    before, total = offsets[:-1], offsets[-1]
    return xp.where(first, before, total + moving.indices(xp, first.shape[0], first) - before)


def _check(x: Any) -> None:
    if x.ndim != 1:
        raise ShapeError(
            f"keys must be 1-D, got shape {tuple(x.shape)}; sort rows one by one, or pass x.ravel()"
        )
    if not sort_keys.ordering(x):
        raise DTypeError(f"{x.dtype} cannot be sorted by its bits; integers, booleans, floats and times can")
