"""Generalised advantage estimates and their gradients: a scan each, of arrays that fit.

`A[t] = r[t] + gamma v[t+1] - v[t] + decay A[t+1]` runs back in time, and `s[t] = g[t] + decay s[t-1]`, the gradient of r, runs
forward. That of v is `gamma s[t-1] - s[t]`. Where the values after every item are given, it is `-s[t]`, and theirs is
`gamma s[t]`.
"""

from __future__ import annotations

from typing import Any

from upsweep import api
from upsweep.arguments import dtype_of, number_of
from upsweep.dtypes import accumulator
from upsweep.operators import ops
from upsweep.segments import Segments


def advantages(
    r: Any, v: Any, after: Any, over: Any, gamma: Any, decay: Any, *, every: bool, ends: Segments | None, axis: int, order: str,
    out: Any, scan: Any = api.scan,
) -> Any:  # fmt: skip
    """Advantages into `out`, by a `scan`; gamma and decay are what the next value and the next advantage count. `after` has the
    value after every item, and `over` says whether nothing comes after it; if not `every` item has one, these are of the last
    item of each row, in an axis of one item."""
    given = r, v, gamma, decay, after, over
    if not every:
        given = (*given, number_of(v.shape[axis] - 1))
    return scan(
        given, ops.AFFINE, map=_surprise if every else _worth, finish=_state if every else _advantage, axis=axis,
        exclusive=not every, reverse=True, dtype=out.dtype, segments=ends, order=order, out=out,
    )  # fmt: skip


def stops_of(ended: Any, cut: Any) -> Any:
    """The last items of episodes, ended or cut off: of two arrays of flags, of which either may be None."""
    return cut if ended is None else ended if cut is None else ended | cut


def gradients(
    g: Any, over: Any, gamma: Any, decay: Any, *, every: bool, own: bool, other: bool, negative: bool, ends: Segments | None,
    axis: int, order: str, out: Any, scan: Any = api.scan,
) -> Any:  # fmt: skip
    """Gradients from the gradient of the advantages, into `out`, an array or two. `own` asks for s, which is the gradient of the
    rewards, or for -s where it is to be `negative`. `other` asks for a second one: the gradient of `after` if `every` item has a
    value after it, else the gradient of v.
    """
    return scan(
        (g, gamma, decay, -1.0 if negative else 1.0, over), ops.AFFINE, map=_gradient, finish=_FINISHES[every][own, other],
        axis=axis, exclusive=True, dtype=accumulator(dtype_of(g.dtype)), segments=ends, order=order, out=out,
    )  # fmt: skip


def _worth(r, v, gamma, decay, after, over, last, index):
    """The map from the worth of the state behind an item to the worth of the item's own state for the item before it: its value
    and a share of its advantage.
    """
    return decay, gamma * v + decay * (r + gamma * after - v if index == last and not over else r - v)


def _advantage(worth, r, v, gamma, decay, after, over, last, index):
    """The advantage of an item: the reward, and the worth of the state behind it, less its value."""
    return (r + gamma * after - v if index == last and not over else r - v) + worth[1]


def _surprise(r, v, gamma, decay, after, over):
    """The map from the advantage behind an item to the item's own. Nothing comes after the end of an episode."""
    return decay, r - v if over else r + gamma * after - v


def _state(prefix):
    """The state of a recurrence, from a map that leads there."""
    return prefix[1]


# The state that comes to an item is s[t-1].


def _gradient(g, gamma, decay, sign, over):
    return decay, g


def _own(before, g, gamma, decay, sign, over):
    return sign * (g + decay * before[1])


def _values(before, g, gamma, decay, sign, over):
    return gamma * before[1] - (g + decay * before[1])


def _own_and_values(before, g, gamma, decay, sign, over):
    s = g + decay * before[1]
    return s, gamma * before[1] - s


def _after(before, g, gamma, decay, sign, over):
    return 0.0 if over else gamma * (g + decay * before[1])


def _own_and_after(before, g, gamma, decay, sign, over):
    s = g + decay * before[1]
    return sign * s, 0.0 if over else gamma * s


_FINISHES = {
    False: {(True, False): _own, (False, True): _values, (True, True): _own_and_values},
    True: {(True, False): _own, (False, True): _after, (True, True): _own_and_after},
}
