"""Outputs of variable size: where each goes, and who makes each item of them."""

from __future__ import annotations

from typing import Any

from upsweep import homes
from upsweep.apps import moving
from upsweep.apps.compaction import counts_of
from upsweep.apps.kinds import enter


@homes.apart
def allocate(counts: Any) -> Any:
    """Where each of m outputs of variable size starts in one array, and last how long that array is.

    Args:
        counts: the size of each output: m integers, none negative.

    Returns:
        m + 1 offsets (int64): output s is `[offsets[s], offsets[s + 1])`.

    Raises:
        ShapeError: counts that are not 1-D, or negative. DTypeError: counts that are no integers.

    >>> from upsweep import apps
    >>> apps.allocate([2, 0, 3]).tolist()
    [0, 2, 2, 5]

    Source: Blelloch (1990), section 1.6 (processor allocation).
    """
    xp, (counts,), give = enter(counts)
    counts = counts_of(xp, counts, "counts")
    return give(moving.places(xp, counts))


@homes.apart
def expand(counts: Any) -> tuple[Any, Any]:
    """For each item of m outputs of variable size: which output it belongs to, and which of that output's items it is.

    So n = sum(counts) workers each have one item to make, however uneven the counts are.

    Args:
        counts: as in `allocate`, which makes the offsets.

    Returns:
        `(owner, rank)`, n integers (int64) each: item i is number `rank[i]` of output `owner[i]`.

    >>> from upsweep import apps
    >>> owner, rank = apps.expand([2, 0, 3])
    >>> owner.tolist(), rank.tolist()
    ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2])

    Source: Blelloch (1990), section 1.6; Merrill and Garland, "Merge-based parallel sparse matrix-vector
    multiplication" (2016), for the balance.
    """
    xp, (counts,), give = enter(counts)
    counts = counts_of(xp, counts, "counts")
    owner, rank = moving.owners(xp, counts)
    return give(owner), give(rank)
