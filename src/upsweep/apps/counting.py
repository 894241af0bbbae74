"""Histograms, and counts of the items in a range of bins."""

from __future__ import annotations

import math
from typing import Any

from upsweep import api, homes
from upsweep.apps import moving, sorting
from upsweep.apps.kinds import INTEGRAL, count_of, enter
from upsweep.arguments import ShapeError
from upsweep.dtypes import kind_of
from upsweep.engine import DTypeError


@homes.apart
def histogram(x: Any, bins: int) -> Any:
    """How often each of 0, 1, ..., bins - 1 occurs.

    Args:
        x: integers of any shape, each at least 0 and less than bins.
        bins: how many bins there are.

    Returns:
        bins counts (int64), of x's kind and device.

    Raises:
        DTypeError: x holds no integers. ValueError: an item lies in no bin.

    >>> from upsweep import apps
    >>> apps.histogram([1, 3, 1, 0], 5).tolist()
    [1, 2, 0, 1, 0]

    Source: Sengupta, Lefohn and Owens, "A work-efficient step-efficient prefix sum algorithm" (2006), for the sorted form.
    """
    xp, (x,), give = enter(x)
    return give(_counts(xp, x, bins))


class RangeHistogram:
    """A histogram that answers how many items lie in any range of bins in constant time.

    The counts' prefix sums P answer it: bins a to b, both ends inclusive, hold `P[b] - P[a - 1]` items. Arguments and
    errors are those of `histogram`.

    >>> from upsweep import apps
    >>> h = apps.RangeHistogram([1, 3, 1, 0, 3, 4], 5)
    >>> int(h.count(1, 3)), int(h.count(0, 4)), h.count([0, 3], [0, 3]).tolist()
    (4, 6, [1, 2])

    Source: KAUST CS380, lecture 24 ("range histogram"), whose `P[b] - P[a]` leaves bin a out.
    """

    def __init__(self, x: Any, bins: int) -> None:
        xp, (x,), give = enter(x)
        self.bins = bins
        self.prefixes = give(api.cumulative_sum(_counts(xp, x, bins), include_initial=True))

    def count(self, first: Any, last: Any) -> Any:
        """How many items lie in the bins from first to last, both inclusive: integers or arrays of them.

        Raises:
            IndexError: a range that is not within 0 <= first <= last < bins. DTypeError: bins that are no integers.
        """
        xp, (prefixes, *ends), give = enter(self.prefixes, first, last)
        if any(math.prod(end.shape) and kind_of(end.dtype) not in INTEGRAL for end in ends):
            raise DTypeError(f"bins are integers, got {ends[0].dtype} and {ends[1].dtype}")
        # The bin behind the last one may be more than a narrow integer holds.
        first, last = (end if end.dtype == xp.int64 else xp.astype(end, xp.int64) for end in ends)
        try:
            outside = (first < 0) | (last >= self.bins) | (first > last)
        except (ValueError, RuntimeError) as error:
            shapes = f"{tuple(first.shape)} and {tuple(last.shape)}"
            raise ShapeError(f"bins of shapes {shapes} do not broadcast") from error
        if outside.any():
            raise IndexError(f"ranges must lie within 0 <= first <= last < {self.bins}")
        return give(prefixes[last + 1] - prefixes[first])


def _counts(xp: Any, x: Any, bins: int) -> Any:
    bins, x = count_of(bins, "bins"), x.reshape(-1)
    if not x.shape[0]:
        return xp.zeros(bins, dtype=xp.int64, device=x.device)
    if kind_of(x.dtype) not in INTEGRAL:
        raise DTypeError(
            f"a histogram counts integers, got {x.dtype}; make bins of it first, with searchsorted"
        )
    counts, total = _within(xp, x, bins)
    if total != x.shape[0]:
        low, high = int(xp.min(x)), int(xp.max(x))
        raise ValueError(f"items from {low} to {high} do not all lie in bins 0 to {bins - 1}")
    return counts


def _within(xp: Any, x: Any, bins: int) -> tuple[Any, int]:
    """The number of items in each bin, and in all of them."""
    moves = moving.fast(x)
    if moves:
        return moves.count(x, bins)
    # A narrower dtype might not hold the number of bins.
    x = xp.astype(x, xp.int64)
    ordered = sorting.radix_sort(moving.pack(xp, x, (x >= 0) & (x < bins)))
    edges = xp.searchsorted(ordered, moving.indices(xp, bins + 1, x))
    return edges[1:] - edges[:-1], ordered.shape[0]
