"""Recurrences in time: exponential averages, discounted sums, digital filters and constant coefficients of any order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from upsweep import api
from upsweep.apps.kinds import enter, floating, host, parameter
from upsweep.apps.roots import quotient, roots
from upsweep.arguments import ShapeError, axis_of, followed, timed, weighted
from upsweep.engine import DTypeError
from upsweep.operators import ops
from upsweep.segments import Segments
from upsweep.segments import flags as flagged


def ema(
    x: Any, alpha: Any = None, *, halflife: Any = None, times: Any = None, axis: int | None = None, initial: Any = None,
    segments: Segments | None = None,
) -> Any:  # fmt: skip
    """Exponential moving average `y[t] = (1 - alpha) y[t-1] + alpha x[t]`.

    Args:
        x: real or complex array; integers are averaged as float64.
        alpha: the weight of the newest item, from 0 to 1: a scalar or an array that broadcasts to x.
        halflife: instead of alpha, the time after which a weight has halved: `1 - alpha[t]` is
            `2 ** -((times[t] - times[t-1]) / halflife)`.
        times: with halflife, the time of each item, of x's shape or 1-D along the axis: numbers, or datetime64 with a halflife
            of timedelta64. Without, items are one apart.
        axis: the axis of time; it may be left out for 1-D input only.
        initial: y before the first item, a scalar or one value a row. Without it `y[0] = x[0]`, as in pandas'
            `ewm(alpha=alpha, adjust=False).mean()`.
        segments: see `upsweep.segments`; each starts as if nothing stood before it.

    Returns:
        An array of x's shape, kind and device. Errors are those of `upsweep.scan`. The weights of times are the array
        library's powers of two, which need not have the same bits on every machine.

    >>> import upsweep as up
    >>> up.ema([4.0, 8.0, 8.0], 0.5).tolist()
    [4.0, 6.0, 7.0]
    >>> up.ema([4.0, 8.0, 8.0], halflife=1, times=[0, 1, 3]).tolist()
    [4.0, 6.0, 7.5]

    Source: Blelloch, "Prefix sums and their applications" (1990), section 1.4; Eckner, "Algorithms for unevenly spaced time
    series: moving averages" (2019), for times.
    """
    weighted(alpha, halflife, times, initial)
    xp, (x, initial, times), give = enter(x, initial, times)
    x = floating(xp, x)
    dim = axis_of(axis, tuple(x.shape))
    weight = alpha if halflife is None else 1 - xp.exp2(-_steps(xp, times, x, dim) / halflife)
    alone: Any = False
    if initial is None and 0 not in x.shape:
        alone = _first(xp, x, dim) if segments is None else _starts_of(xp, segments, x, dim)
    y = api.scan(
        (x, parameter(xp, weight, x), alone), ops.AFFINE, map=_averaged, finish=_state_alone, axis=dim, dtype=x.dtype,
        initial=None if initial is None else (1, initial), segments=segments, out=xp.empty_like(x),
    )  # fmt: skip
    return give(y)


def _averaged(x, alpha, alone):
    """What an item makes of the average before it: nothing of it where it stands alone."""
    return 1 - alpha, x if alone else alpha * x


def _state_alone(prefix):
    """The state of a recurrence, from a map that leads there."""
    return prefix[1]


def _first(xp: Any, x: Any, dim: int) -> Any:
    place = xp.zeros(x.shape[dim], dtype=xp.bool, device=x.device)
    place[:1] = True  # of one item, PyTorch would bring the value from the host, and wait for the device
    return xp.reshape(place, tuple(-1 if d == dim else 1 for d in range(x.ndim)))


def _steps(xp: Any, times: Any, x: Any, dim: int) -> Any:
    """The time since the item before; nothing stands before the first."""
    if times is None:
        return xp.ones((), dtype=xp.float64)
    timed(times.shape, x.shape, dim)
    if times.ndim < x.ndim:
        times = xp.reshape(times, tuple(-1 if d == dim else 1 for d in range(x.ndim)))
    along = (slice(None),) * dim
    first = times[(*along, slice(0, 1))]
    return xp.concat(
        [first - first, times[(*along, slice(1, None))] - times[(*along, slice(0, -1))]], axis=dim
    )


def _starts_of(xp: Any, given: Segments, x: Any, dim: int) -> Any:
    """True where a segment starts: what an exclusive product of zeros gives there, from 1."""
    zeros = xp.zeros(x.shape, dtype=xp.uint8, device=x.device)
    return xp.astype(api.scan(zeros, ops.MUL, axis=dim, exclusive=True, initial=1, segments=given), xp.bool)


def discounted_sum(
    rewards: Any, gamma: Any, dones: Any = None, *, axis: int | None = None, initial: Any = None
) -> Any:
    """What is still to come, discounted: `g[t] = r[t] + gamma g[t+1]`, or `g[t] = r[t]` where an episode is done.

    Args:
        rewards: real array; integers are summed as float64.
        gamma: the discount: a scalar or an array that broadcasts to the rewards.
        dones: true at the last item of an episode (the rewards' shape, or 1-D along the axis): nothing flows across,
            not even a NaN.
        axis: the axis of time; it may be left out for 1-D input only.
        initial: the value after the last item, a scalar or one value a row; it counts where the last item is not done.

    Returns:
        An array of the rewards' shape, kind and device. Errors are those of `upsweep.scan`.

    >>> import upsweep as up
    >>> up.discounted_sum([1.0, 1.0, 1.0, 1.0], 0.5, [False, True, False, False]).tolist()
    [1.5, 1.0, 1.5, 1.0]

    Source: Blelloch (1990), section 1.5 (segmented scans); Sutton and Barto, "Reinforcement learning", section 3.3.
    """
    xp, (r, dones, initial), give = enter(rewards, dones, initial)
    r = floating(xp, r)
    weights = parameter(xp, gamma, r)
    if dones is None or 0 in r.shape:
        return give(api.linear_recurrence(weights, r, initial=initial, axis=axis, reverse=True))
    along = axis_of(axis, tuple(r.shape))
    done = _flags(xp, dones, r.shape, along)

    if initial is not None:
        r, end = xp.asarray(r, copy=True), _cut(along, -1, None)
        after = xp.expand_dims(initial, axis=along) if initial.ndim else initial
        last = xp.broadcast_to(xp.asarray(weights, device=r.device), r.shape)[end]
        r[end] = r[end] + xp.where(done[end], 0, last * after)
    return give(
        api.scan(
            (r, weights), ops.AFFINE, map=_discounted, finish=_state_alone, axis=axis, reverse=True, dtype=r.dtype,
            segments=_behind(xp, done, along), out=xp.empty_like(r),
        )
    )  # fmt: skip


def _discounted(reward, weight):
    """What an item makes of the sum behind it."""
    return weight, reward


def _cut(dim: int, *ends: int | None) -> tuple[slice, ...]:
    return (*[slice(None)] * dim, slice(*ends))


def _behind(xp: Any, stops: Any, dim: int) -> Segments:
    """Segments that end with the items at which `stops` is true."""
    return flagged(xp.concat([xp.ones_like(stops[_cut(dim, 1)]), stops[_cut(dim, -1)]], axis=dim))


def gae(
    rewards: Any, values: Any, last_value: Any = None, dones: Any = None, *, gamma: float, lam: float, truncated: Any = None,
    next_values: Any = None, axis: int | None = None,
) -> Any:  # fmt: skip
    """Generalised advantage estimates: the discounted sum, by `gamma lam`, of `r[t] + gamma v[t+1] - v[t]`.

    Args:
        rewards, values: real arrays of one shape.
        last_value: the value after the last item, a scalar or one a row.
        dones: true at the last item of an episode that has ended: no value and no advantage flows across.
        gamma, lam: discount and decay.
        truncated: true at the last item of an episode that was cut off: no advantage flows across, but the value of the state
            that was reached does, which only `next_values` has.
        next_values: the values after every item, instead of `last_value`, where `values[t+1]` may be another episode's.
        axis: the axis of time; it may be left out for 1-D input only.

    Returns:
        An array of the rewards' shape, kind and device. Errors are those of `upsweep.discounted_sum`.

    >>> import upsweep as up
    >>> up.gae([1.0, 1.0], [0.0, 0.0], 0.0, gamma=0.5, lam=1.0).tolist()
    [1.5, 1.0]

    Source: Schulman et al., "High-dimensional continuous control using generalized advantage estimation" (2016), eq. 16.
    """
    followed(last_value, next_values, truncated)
    given = (rewards, values, last_value, dones, truncated, next_values)
    xp, (r, v, last, ended, cut, ahead), give = enter(*given)
    r, v = floating(xp, r), floating(xp, v)
    dim = axis_of(axis, tuple(v.shape))
    if ahead is None:
        later = v[_cut(dim, 1, None)]
        rows = xp.broadcast_to(xp.astype(last, v.dtype), v.shape[:dim] + v.shape[dim + 1 :])
        ahead = xp.concat([later, xp.expand_dims(rows, axis=dim)], axis=dim) if v.shape[dim] else v
    ended, cut = (None if f is None else _flags(xp, f, v.shape, dim) for f in (ended, cut))
    stops = cut if ended is None else ended if cut is None else ended | cut
    made = xp.empty(v.shape, dtype=xp.result_type(r, v), device=v.device)
    api.scan(
        (r, v, ahead, False if ended is None else ended, gamma, gamma * lam), ops.AFFINE, map=_advantage, finish=_state_alone,
        axis=dim, reverse=True, dtype=made.dtype, segments=None if stops is None else _behind(xp, stops, dim), out=made,
    )  # fmt: skip
    return give(made)


def _advantage(r, v, after, ended, gamma, decay):
    """What an item adds to the estimate behind it, of which `decay` counts: nothing comes after the end of an episode."""
    return decay, r - v if ended else r + gamma * after - v


def _flags(xp: Any, flags: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Booleans of `shape`, from flags of that shape or 1-D along the axis."""
    if flags.ndim == 1:
        flags = xp.reshape(flags, tuple(-1 if d == dim else 1 for d in range(len(shape))))
    return xp.broadcast_to(xp.astype(flags, xp.bool), shape)


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter along an axis, with the signature and the meaning of `scipy.signal.lfilter`.

    `a[0] y[t] = b[0] x[t] + ... + b[M] x[t-M] - a[1] y[t-1] - ... - a[N] y[t-N]`: the `b` part as shifted sums in a fixed
    order, the `a` part as one scan for each pole (for each pair of conjugate poles), the poles being found by arithmetic of
    many digits. So the bits depend neither on the machine nor on how many cores it has.

    Args:
        b, a: coefficients of numerator and denominator, 1-D, real or complex; both are divided by `a[0]`.
        x: array, real or complex; integers are filtered as float64.
        axis: the axis of time.
        zi: the state before the first item, `max(len(a), len(b)) - 1` values along the axis (SciPy's `lfiltic` and
            `lfilter_zi` make them); other dimensions broadcast.

    Returns:
        y, of x's shape; with `zi` the pair `(y, zf)`, where zf is the state to pass with the next chunk. float32 comes out
        where everything that came in was float32; it is computed in float64 and rounded once.

    Raises:
        ShapeError: coefficients that are not 1-D or empty, or a state of the wrong shape.
        ZeroDivisionError: `a[0]` is zero.
        DTypeError: long double, or anything that is no number.

    Speed: every pole is a scan, every pair of them one of complex numbers, where SciPy's loop goes through memory once.
    On two cores that is 1.3 of SciPy's speed at order 1, .65 at order 2 (1.4 along axis 0), .2 at order 8; a GPU has
    nothing but the scans.

    Accuracy: each pole is right to the last place, so that repeated poles, where the direct form is at its worst, cost
    nothing. As in the direct form, poles much closer to each other than to the rest of the unit circle (high order at a low
    cut-off) amplify the rounding of the `b` part by the gain of `1/a`: filter in second-order sections there. An unstable
    filter whose poles overflow within the length of x gives inf or NaN.

    >>> import upsweep as up
    >>> up.lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0, 0.0]).tolist()
    [1.0, 0.5, 0.25, 0.125]

    Source: Blelloch (1990), section 1.4; Oppenheim and Schafer, "Discrete-time signal processing", section 6.3.
    """
    xp, (x, zi), give = enter(x, zi)
    (b, a), dtype = _coefficients(b, a, x, zi)
    if x.ndim == 0:
        raise ShapeError("a 0-dimensional array has no axis to filter along; pass x.reshape(1)")
    wide = xp.complex128 if dtype.kind == "c" else xp.float64
    u = xp.moveaxis(xp.astype(x, wide, copy=False), axis, -1)
    b, a = [quotient(v, a[0]) for v in b], [quotient(v, a[0]) for v in a]
    order = max(len(a), len(b)) - 1
    y = _feed_forward(xp, b, u)
    state = None if zi is None else _state(xp, zi, axis, u, order, wide)
    if state is not None and order:
        head = min(order, u.shape[-1])
        y[..., :head] = y[..., :head] + state[..., :head]
    _feed_back(xp, a, y)
    result = getattr(xp, dtype.name)
    out = give(xp.astype(xp.moveaxis(y, -1, axis), result, copy=False))
    if state is None:
        return out
    return out, give(xp.astype(xp.moveaxis(_last_state(xp, b, a, u, y, state), -1, axis), result))


def linear_recurrence(coefficients: Any, x: Any, *, axis: int = -1, initial: Any = None) -> Any:
    """`y[t] = x[t] + c[0] y[t-1] + ... + c[p-1] y[t-p]`: constant coefficients, any order.

    Args:
        coefficients: c, 1-D of length p.
        x: real or complex array; integers count as float64.
        axis: the axis of time.
        initial: the p values before the first item, `initial[..., 0] = y[-1]`, `initial[..., 1] = y[-2]`, ...; 0 without.

    Returns:
        y, of x's shape, kind and device. Errors and accuracy are those of `upsweep.lfilter`. For coefficients that change
        in time and order 1 there is `upsweep.linear_recurrence`.

    >>> from upsweep import apps
    >>> apps.linear_recurrence([1, 1], [1, 0, 0, 0, 0, 0]).round(9).tolist()
    [1.0, 1.0, 2.0, 3.0, 5.0, 8.0]

    Source: Blelloch (1990), section 1.4.1.
    """
    c = np.atleast_1d(host(coefficients))
    denominator = np.concatenate([np.ones(1, c.dtype), -c])
    if initial is None:
        return lfilter([1.0], denominator, x, axis=axis)
    before = host(initial)
    p = len(c)
    if before.shape[-1:] != (p,):
        raise ShapeError(f"initial has shape {before.shape}; its last dimension must be the order, {p}")
    state = np.stack([sum(c[m + k] * before[..., k] for k in range(p - m)) for m in range(p)], -1)
    if before.ndim == 1:
        state = np.expand_dims(state, tuple(range(np.ndim(x) - 1)))
    return lfilter([1.0], denominator, x, axis=axis, zi=np.moveaxis(state, -1, axis))[0]


def _coefficients(b: Any, a: Any, x: Any, zi: Any) -> tuple[list[list[complex]], np.dtype]:
    """Coefficients as Python numbers, and the dtype that all operands together give, by NumPy's rule."""
    b, a = np.atleast_1d(host(b)), np.atleast_1d(host(a))
    if b.ndim != 1 or a.ndim != 1 or not b.size or not a.size:
        raise ShapeError(
            f"coefficients must be 1-D and not empty, got b of shape {b.shape} and a of shape {a.shape}"
        )
    names = [str(v.dtype).rpartition(".")[2] for v in (b, a, x, zi) if v is not None]
    dtype = np.result_type(*map(np.dtype, names))
    dtype = np.dtype(np.float64) if dtype.kind in "biu" else dtype
    if dtype.char not in "efdFD":
        raise DTypeError(
            f"{dtype} cannot be filtered; float16, float32, float64, complex64 and complex128 can"
        )
    if a[0] == 0:
        raise ZeroDivisionError("a[0] is zero: there is nothing to divide the coefficients by")
    return [[complex(v) for v in b], [complex(v) for v in a]], dtype


def _times(xp: Any, c: complex, x: Any) -> Any:
    """`c x` from real products alone: a library's complex product may fuse its multiply-adds, and its bits vary."""
    if not c.imag:
        return c.real * x
    y = xp.empty_like(x)
    y.real = c.real * x.real - c.imag * x.imag
    y.imag = c.real * x.imag + c.imag * x.real
    return y


def _feed_forward(xp: Any, b: list[complex], x: Any) -> Any:
    y, n = xp.empty_like(x), x.shape[-1]
    step = max(1, _PIECE * n // max(1, math.prod(x.shape)))
    for lo in range(0, n, step):
        hi = min(n, lo + step)
        y[..., lo:hi] = _times(xp, b[0], x[..., lo:hi])
        for k in range(1, min(len(b), hi)):
            start = max(lo, k)
            part = y[..., start:hi]
            part += _times(xp, b[k], x[..., start - k : hi - k])
    return y


_PIECE = 1 << 20
"""Items at once: what is computed on the way to 2^22 of them then takes a third of the time, as memory is used again."""


def _feed_back(xp: Any, a: list[complex], y: Any) -> None:
    """In place; complex where y is, or where a pair of poles is."""
    z = None
    for pole in roots(tuple(a)):
        if xp.isdtype(y.dtype, "complex floating"):
            _pole(pole, y)
        elif not pole.imag:
            _pole(pole.real, y)
        elif pole.imag > 0:
            if z is None:
                z = xp.astype(y, xp.complex128)
            else:
                z[...] = y
            _pair(xp, pole, y, z)


def _pole(pole: complex, u: Any) -> None:
    """`u[t] = pole u[t-1] + u[t]`."""
    api.linear_recurrence(pole, u, axis=-1, out=u)


def _pair(xp: Any, pole: complex, y: Any, z: Any) -> None:
    """A pole and its conjugate, for a real signal: Im(p z) / Im(p) of one complex scan z, or two where Im(p) is small."""
    _pole(pole, z)
    if 4 * abs(pole.imag) < abs(pole.real):  # the quotient would amplify the rounding of z
        _pole(pole.conjugate(), z)
        y[...] = xp.real(z)
    else:
        y[...] = xp.imag(z)
        y *= pole.real / pole.imag
        y += xp.real(z)


def _state(xp: Any, zi: Any, axis: int, u: Any, order: int, wide: Any) -> Any:
    """The state with time last, of the shape that fits u."""
    shape = (*u.shape[:-1], order)
    moved = xp.moveaxis(zi, axis, -1) if zi.ndim == u.ndim else zi
    if (
        moved.ndim != u.ndim
        or any(have not in (1, want) for have, want in zip(moved.shape[:-1], shape))
        or moved.shape[-1] != order
    ):
        raise ShapeError(
            f"zi has shape {tuple(zi.shape)}; along the axis it needs {order} values for these coefficients"
        )
    return xp.broadcast_to(xp.astype(moved, wide), shape)


def _last_state(xp: Any, b: list[complex], a: list[complex], x: Any, y: Any, before: Any) -> Any:
    """The state of the transposed direct form after the last item, from the last inputs and outputs."""
    n, order = x.shape[-1], before.shape[-1]
    state = xp.zeros_like(before)
    for m in range(order):
        value = before[..., m + n] if m + n < order else state[..., m]
        for k in range(min(order - m, n)):
            if m + 1 + k < len(b):
                value = value + _times(xp, b[m + 1 + k], x[..., n - 1 - k])
            if m + 1 + k < len(a):
                value = value - _times(xp, a[m + 1 + k], y[..., n - 1 - k])
        state[..., m] = value
    return state
