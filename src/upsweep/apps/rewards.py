"""The worth of rewards: discounted sums and advantages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from upsweep import api, homes
from upsweep.advantages import advantages, stops_of
from upsweep.apps.kinds import check_labels, common, computed_in, floating, parameter
from upsweep.apps.recurrences import state_alone
from upsweep.apps.repeated import Planned, called
from upsweep.arguments import ShapeError, axis_of, check_flags, dtype_of, followed, held, number_of
from upsweep.dtypes import kind_of
from upsweep.engine import on_gpu
from upsweep.operators import ops
from upsweep.segments import ends


@homes.first
def discounted_sum(
    rewards: Any, gamma: Any, dones: Any = None, *, axis: int | None = None, initial: Any = None, order: str = "tree"
) -> Any:  # fmt: skip
    """The rewards that are still to come, discounted: `g[t] = r[t] + gamma g[t+1]`, or `g[t] = r[t]` where an episode is done.

    Args:
        rewards: real array; integers are summed as float64.
        gamma: the discount: a scalar or an array that broadcasts to the rewards. Beside half precision it keeps the digits of
            float32.
        dones: true at the last item of an episode (the rewards' shape, or 1-D along the axis): nothing flows across,
            not even a NaN.
        axis: the axis of time; it may be left out for 1-D input only.
        initial: the value after the last item, a scalar or one value a row; it counts where the last item is not done. Beside
            half precision, which is computed in float32, it keeps its digits.
        order: as in `upsweep.scan`.

    Returns:
        An array of the rewards' shape, kind and device. Errors are those of `upsweep.scan`.

    >>> import upsweep as up
    >>> up.discounted_sum([1.0, 1.0, 1.0, 1.0], 0.5, [False, True, False, False]).tolist()
    [1.5, 1.0, 1.5, 1.0]

    Source: Blelloch (1990), section 1.5 (segmented scans); Sutton and Barto, "Reinforcement learning", section 3.3.
    """
    return called(_discounts, (rewards, dones), (gamma, initial), None, axis, order)


def _discounts(call: Planned, axis: int | None, order: str) -> Callable[..., Any]:
    """The function that discounts operands like these."""
    xp, given, (r, dones, *_), _ = call
    scan = call.scan()
    shape = tuple(r.shape)
    along = axis_of(axis, shape)
    check_labels((given[0], given[2]), shape, along, {"dones": given[1]}, {"initial": given[3]})
    if dones is not None and 0 not in shape:
        check_flags(dones, kind_of(dones.dtype), shape, along)
    ending, last = _last(along), number_of(shape[along] - 1)
    several = len(shape) > 1 and order == "tree"

    def run(r: Any, dones: Any, gamma: Any, initial: Any, *_: Any) -> Any:
        r = floating(xp, r)
        weights = parameter(xp, gamma, r)
        if dones is None or 0 in shape:
            return api.linear_recurrence(weights, r, initial=initial, axis=along, reverse=True, order=order)
        done = _flags(xp, dones, shape, along)
        if several and initial is None and not on_gpu(r):
            # A processor sweeps few columns at once where no map stands before them: 10000 x 16 float32 3.6 -> 1.0 ns an item.
            return api.linear_recurrence(
                weights, r, axis=along, reverse=True, segments=ends(done), order=order
            )
        given, fn = (r, weights), _discounted
        if initial is not None:
            after = _behind(xp, initial, r, computed_in(xp, r), along)
            given, fn = (*given, after, done[ending], last), _discounted_from
        return scan(
            given, ops.AFFINE, map=fn, finish=state_alone, axis=along, reverse=True, dtype=r.dtype, segments=ends(done),
            order=order, out=xp.empty_like(r),
        )  # fmt: skip

    return run


def _discounted(reward, weight):
    """The map from the sum behind an item to the sum from this item on."""
    return weight, reward


def _discounted_from(reward, weight, after, over, last, index):
    """The map from the sum behind an item to the sum from this item on. Behind the last item stands `after`, unless an episode is
    `over` there.
    """
    return weight, reward + weight * after if index == last and not over else reward


def _last(dim: int) -> tuple[slice, ...]:
    """The index of the last item of each row, in an axis of one item."""
    return (*[slice(None)] * dim, slice(-1, None))


def _behind(xp: Any, value: Any, x: Any, dtype: Any, dim: int) -> Any:
    """The value behind the last item of each row, in a dtype."""
    if isinstance(value, (int, float, complex)):
        return held(value, dtype_of(dtype), "the value behind the last item", "x.astype('float64')")[()]
    if (after := parameter(xp, value, x, dtype)).ndim:
        if after.ndim >= x.ndim:
            raise ShapeError(
                f"values of shape {tuple(after.shape)} behind the last items: pass a scalar or one a row"
            )
        after = xp.expand_dims(after, axis=dim)
    return after


@homes.first
def gae(
    rewards: Any, values: Any, last_value: Any = None, dones: Any = None, *, gamma: float, lam: float, truncated: Any = None,
    next_values: Any = None, axis: int | None = None, order: str = "tree",
) -> Any:  # fmt: skip
    """Generalised advantage estimates: the discounted sum, by `gamma lam`, of `r[t] + gamma v[t+1] - v[t]`.

    Args:
        rewards, values: real arrays of one shape.
        last_value: the value after the last item, a scalar or one a row, in the dtype of the values.
        dones: true at the last item of an episode that has ended: no value and no advantage flows across.
        gamma, lam: discount and decay.
        truncated: true at the last item of an episode that was cut off: no advantage flows across, but the value of the state
            that was reached does, which only `next_values` has.
        next_values: the values after every item, instead of `last_value`, where `values[t+1]` may be another episode's.
        axis: the axis of time; it may be left out for 1-D input only.
        order: as in `upsweep.scan`.

    Returns:
        An array of the rewards' shape, kind and device. Errors are those of `upsweep.discounted_sum`. With `last_value`, in tree
        order, the sum is that of what states are worth to the items before them, so that no array is written but the result;
        the last places may differ from those with `next_values`.

    >>> import upsweep as up
    >>> up.gae([1.0, 1.0], [0.0, 0.0], 0.0, gamma=0.5, lam=1.0).tolist()
    [1.5, 1.0]

    Source: Schulman et al., "High-dimensional continuous control using generalized advantage estimation" (2016), eq. 16.
    """
    followed(last_value, next_values, truncated)
    arrays = rewards, values, dones, truncated, next_values
    return called(_estimates, arrays, (last_value, gamma, lam), None, axis, order)


def _estimates(call: Planned, axis: int | None, order: str) -> Callable[..., Any]:
    """The function that estimates advantages of operands like these."""
    xp, given, (_, v, ended, cut, following, *_), _ = call
    if v is None:
        raise ShapeError("values is None: pass the value of each item's state")
    scan = call.scan()
    shape = tuple(v.shape)
    dim = axis_of(axis, shape)
    told = {"dones": given[2], "truncated": given[3]}
    check_labels((given[0], given[1], given[4]), shape, dim, told, {"last_value": given[5]})
    for flags in (ended, cut):
        if flags is not None:
            check_flags(flags, kind_of(flags.dtype), shape, dim)
    every = following is not None or order == "sequential"
    ending = _last(dim)

    def run(
        r: Any, v: Any, ended: Any, cut: Any, following: Any, last_value: Any, gamma: Any, lam: Any, *_: Any
    ) -> Any:
        r, v = floating(xp, r), floating(xp, v)
        ended, cut = _flags(xp, ended, shape, dim), _flags(xp, cut, shape, dim)
        stops = stops_of(ended, cut)
        made = xp.empty(shape, dtype=r.dtype if r.dtype == v.dtype else common(xp, r, v), device=v.device)
        gamma, lam = parameter(xp, gamma, made), parameter(xp, lam, made)
        if 0 in shape:
            return made
        if every:
            after = _next(xp, v, last_value, dim) if following is None else following
            over = False if ended is None else ended
        else:
            after = _behind(xp, last_value, v, v.dtype, dim)
            over = False if ended is None else ended[ending]
        stopped = None if stops is None else ends(stops)
        advantages(
            r,
            v,
            after,
            over,
            gamma,
            gamma * lam,
            every=every,
            ends=stopped,
            axis=dim,
            order=order,
            out=made,
            scan=scan,
        )
        return made

    return run


def _next(xp: Any, v: Any, last: Any, dim: int) -> Any:
    """`v[t+1]` at t, and `last` behind the last item."""
    after = xp.asarray(_behind(xp, last, v, v.dtype, dim), dtype=v.dtype, device=v.device)
    rest = v[(*[slice(None)] * dim, slice(1, None))]
    rows = tuple(1 if d == dim else n for d, n in enumerate(v.shape))
    return xp.concat([rest, xp.broadcast_to(after, rows)], axis=dim)


def _flags(xp: Any, flags: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Booleans of `shape`, from flags of that shape or 1-D along the axis; None of None."""
    if flags is None:
        return None
    flags = flags if flags.dtype == xp.bool else xp.astype(flags, xp.bool)
    if flags.ndim == 1 and len(shape) > 1:
        flags = xp.reshape(flags, tuple(-1 if d == dim else 1 for d in range(len(shape))))
    return flags if flags.shape == shape else xp.broadcast_to(flags, shape)
