"""Recurrences in time."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from upsweep.advantages import stops_of
from upsweep.arguments import followed, number
from upsweep.decays import half_lives, steps_of, timed, weighted
from upsweep.host import view
from upsweep.segments import Segments
from upsweep.torch import filters
from upsweep.torch.advantages import ADVANTAGES
from upsweep.torch.averages import AVERAGES
from upsweep.torch.decays import DECAYS
from upsweep.torch.differentiable import widened
from upsweep.torch.followers import following
from upsweep.torch.neighbours import starts_of
from upsweep.torch.operands import (
    accumulator,
    coefficients,
    dim_of,
    flags_of,
    floating,
    held,
    multiplier,
    promoted,
    ranked,
    rows_of,
    single,
    spread,
    state_of,
    tensor,
)
from upsweep.torch.recurrence_rules import RECURRENCES, recurrence
from upsweep.torch.segments import heads_of
from upsweep.torch.ways import Run, run_by


def linear_recurrence(
    a: Any, b: Tensor, *, initial: Any = None, axis: int | None = None, dim: int | None = None, reverse: bool = False,
    segments: Segments | None = None, order: str = "tree",
) -> Tensor:  # fmt: skip
    """`h[t] = a[t] h[t-1] + b[t]` from `h[-1] = initial`, as `upsweep.linear_recurrence`, differentiable in a, b, initial.

    The gradient is the recurrence with a, run backwards: one scan; the tangent is the recurrence with a.

    Args:
        a: a tensor or number that broadcasts to the shape of b. Tensors promote as PyTorch's do. A number, or a tensor without
            dimensions, changes no dtype: it is taken in the dtype that b is computed in, beside half precision float32. So are
            arrays of NumPy.
        b: a tensor.
        initial, axis, reverse, segments, order: as in `upsweep.linear_recurrence`. In order "sequential" the gradient is one
            pass that reads three arrays and writes two.
        dim: another name for axis.

    >>> import torch, upsweep.torch as ut
    >>> ut.linear_recurrence(0.5, torch.ones(3), initial=2.0).tolist()
    [2.0, 2.0, 2.0]

    Source: Martin and Cundy, "Parallelizing linear recurrent neural nets over sequence length" (2018).
    """
    return run_by(_recurrence, a, b, initial, axis, dim, reverse, segments, order)


def _recurrence(
    a: Any, b: Any, initial: Any, axis: int | None, dim: int | None, reverse: bool, segments: Segments | None, order: str
) -> Run:  # fmt: skip
    if initial is None and _is_decay(a, b):
        b = tensor(b)
        dim = dim_of(axis, dim, b)
        return DECAYS, (b, float(a), None, heads_of(segments, b, dim), False, dim, reverse, order)
    a, b = multiplier(a, b)
    dim = dim_of(axis, dim, b)
    start = None if initial is None else rows_of(initial, b, dim)
    return RECURRENCES, (a, b, start, None, heads_of(segments, b, dim), dim, reverse, order)


def _is_decay(a: Any, b: Any) -> bool:
    """Whether a multiplier of real numbers is a number of Python's, which has no gradient, and which every float32 holds."""
    return type(a) in (int, float) and abs(a) <= _LARGEST and isinstance(b, Tensor) and b.is_floating_point()


_LARGEST = torch.finfo(torch.float32).max


def ema(
    x: Tensor, alpha: Any = None, *, halflife: Any = None, times: Tensor | None = None, axis: int | None = None,
    dim: int | None = None, initial: Any = None, segments: Segments | None = None, order: str = "tree",
) -> Tensor:  # fmt: skip
    """Exponential moving average `y[t] = (1 - alpha) y[t-1] + alpha x[t]`, as `upsweep.ema`, differentiable.

    Args:
        x: a tensor; integers are averaged as float64.
        alpha: the weight of the newest item: a tensor or number that broadcasts to x.
        halflife, times, axis, initial, segments: as in `upsweep.ema`.
        order: as in `linear_recurrence`.
        dim: another name for axis.

    >>> import torch, upsweep.torch as ut
    >>> ut.ema(torch.tensor([4.0, 8.0, 8.0]), 0.5).tolist()
    [4.0, 6.0, 7.0]
    """
    return run_by(_average, x, alpha, halflife, times, axis, dim, initial, segments, order)


def _average(
    x: Any, alpha: Any, halflife: Any, times: Any, axis: int | None, dim: int | None, initial: Any, segments: Segments | None,
    order: str,
) -> Run | Tensor:  # fmt: skip
    weighted(alpha, halflife, times, initial)
    x = widened(floating(x))
    dim = dim_of(axis, dim, x)
    alpha = _weight(times, halflife, x, dim) if alpha is None else alpha
    heads, start = heads_of(segments, x, dim), rows_of(initial, x, dim)
    plain = x.numel() and not x.is_complex()
    if plain and isinstance(alpha, (int, float)):
        return AVERAGES, (x, float(alpha), None, start, heads, dim, order)
    weight = ranked(held(alpha, accumulator(x.dtype), x.device, "alpha"), x, "alpha")
    if plain:
        return AVERAGES, (x, 0.0, weight, start, heads, dim, order)
    items = weight * x
    if start is None and x.numel():
        items = torch.where(starts_of(heads, x, dim, False), x, items)
    return recurrence(1 - weight, items, start, heads, dim, False, order).to(x.dtype)


def _weight(times: Any, halflife: Any, x: Tensor, dim: int) -> Any:
    """The weight of the newest item, by the time since the item before. NumPy, which has dates, computes times that are no
    tensor.
    """
    if not (isinstance(times, Tensor) or isinstance(halflife, Tensor) or torch.compiler.is_compiling()):
        xp, steps = np, np.ones(()) if times is None else steps_of(np, view(times), x, dim)
    else:
        xp, steps = torch, _steps(times, x, dim)
        halflife = tensor(halflife).to(x.device) if isinstance(halflife, (Tensor, np.ndarray)) else halflife
    halves = half_lives(xp, steps, halflife)
    return 1 - xp.exp2(-xp.where(halves < 0, xp.nan, halves))  # type: ignore[operator]


def _steps(times: Any, x: Tensor, dim: int) -> Tensor:
    """The time since the item before; 0 for the first item."""
    if times is None:
        return torch.ones((), dtype=torch.float64, device=x.device)
    times = floating(times)
    times = times.to(x.device, promoted(times.dtype, accumulator(x.dtype).to_real()))
    timed(times.shape, x.shape, dim)
    if times.ndim < x.ndim:
        times = times.reshape([-1 if d == dim else 1 for d in range(x.ndim)])
    return torch.diff(times, dim=dim, prepend=times.narrow(dim, 0, min(1, times.shape[dim])))


def discounted_sum(
    rewards: Tensor, gamma: Any, dones: Any = None, *, axis: int | None = None, dim: int | None = None, initial: Any = None,
    order: str = "tree",
) -> Tensor:  # fmt: skip
    """`g[t] = r[t] + gamma g[t+1]`, stopping where an episode is done, as `upsweep.discounted_sum`, differentiable; `order` as in
    `linear_recurrence`.

    >>> import torch, upsweep.torch as ut
    >>> ut.discounted_sum(torch.ones(4), 0.5, torch.tensor([False, True, False, False])).tolist()
    [1.5, 1.0, 1.5, 1.0]
    """
    return run_by(_returns, rewards, gamma, dones, axis, dim, initial, order)


def _returns(
    rewards: Any, gamma: Any, dones: Any, axis: int | None, dim: int | None, initial: Any, order: str
) -> Run:
    r = widened(floating(rewards))
    dim = dim_of(axis, dim, r)
    done = None if dones is None or r.numel() == 0 else flags_of(dones, r, dim)
    if _is_decay(gamma, r) and (initial is None or done is not None):
        start = rows_of(initial, r, dim)
        end = None if start is None or done is None else _end(float(gamma), start, done, dim)
        return DECAYS, (r, float(gamma), end, done, True, dim, True, order)
    weights, r = multiplier(gamma, r)
    start = rows_of(initial, r, dim)
    if done is None:
        return RECURRENCES, (weights, r, start, None, None, dim, True, order)
    end = None if start is None else _end(weights.select(dim, -1), start, done, dim)
    # Nothing reads whether the first item is a head.
    return RECURRENCES, (weights, r, None, end, done.roll(1, dim), dim, True, order)


def _end(weight: Any, start: Tensor, done: Tensor, dim: int) -> Tensor:
    """The share of the value behind the last item in that item's sum; nothing where an episode is done there.

    The gradient of a weight that nothing is multiplied by is 0, also where the value is NaN or infinite.
    """
    over = done.select(dim, -1)
    return torch.where(over, 0, weight * torch.where(over, 0, start))


def gae(
    rewards: Tensor, values: Tensor, last_value: Any = None, dones: Any = None, *, gamma: Any, lam: Any,
    truncated: Any = None, next_values: Tensor | None = None, axis: int | None = None, dim: int | None = None,
    order: str = "tree",
) -> Tensor:  # fmt: skip
    """Generalised advantage estimates, as `upsweep.gae`, differentiable: the discounted sum, by `gamma lam`, of
    `r[t] + gamma v[t+1] - v[t]`. The gradient is one scan forward in time, the tangent that of the tangents.

    Args:
        rewards, values: floating tensors of one shape.
        last_value, dones, truncated, next_values, axis: as in `upsweep.gae`.
        gamma, lam: numbers, or tensors, which may have gradients: then the steps are composed, else they are one scan.
        dim: another name for axis.
        order: as in `linear_recurrence`.

    >>> import torch, upsweep.torch as ut
    >>> ut.gae(torch.ones(2), torch.zeros(2), 0.0, gamma=0.5, lam=1.0).tolist()
    [1.5, 1.0]

    Source: Schulman et al., "High-dimensional continuous control using generalized advantage estimation" (2016), eq. 16.
    """
    return run_by(
        _advantages, rewards, values, last_value, dones, gamma, lam, truncated, next_values, axis, dim, order
    )


def _advantages(
    rewards: Any, values: Any, last_value: Any, dones: Any, gamma: Any, lam: Any, truncated: Any, next_values: Any,
    axis: int | None, dim: int | None, order: str,
) -> Run | Tensor:  # fmt: skip
    followed(last_value, next_values, truncated)
    v = widened(floating(values))
    rewards = rewards if isinstance(rewards, Tensor) else tensor(rewards).to(v.device)
    r, dim = spread(widened(floating(rewards)), v, "rewards"), dim_of(axis, dim, v)
    ended, cut = (None if f is None else flags_of(f, v, dim) for f in (dones, truncated))
    after = rows_of(last_value, v, dim)
    if after is None:
        after = spread(tensor(next_values).to(v.device), v, "next_values")
    if not (isinstance(gamma, Tensor) or isinstance(lam, Tensor)):
        return ADVANTAGES, (
            r, v, after, ended, cut, None, None, number(gamma, "gamma"), number(lam, "lam"), dim, order
        )  # fmt: skip
    gamma, lam = _weighing(gamma, v, "gamma"), _weighing(lam, v, "lam")
    values = (r, v) if next_values is None else (r, v, after)
    if _in_one_scan((gamma, lam), values):
        weights = [
            ranked(held(w, accumulator(v.dtype), v.device, "gamma"), v, "gamma") for w in (gamma, gamma * lam)
        ]
        return ADVANTAGES, (r, v, after, ended, cut, *weights, 0.0, 0.0, dim, order)
    if next_values is None:
        after = torch.cat([v, after.to(v.dtype).unsqueeze(dim)], dim).narrow(dim, 1, v.shape[dim])
    dtype, r, v, after = promoted(r.dtype, v.dtype), single(r), single(v), single(after)
    # As in discounted_sum: the gradient of gamma does not see a value behind an end.
    after = after if ended is None else torch.where(ended, 0, after)
    delta = r + gamma * after - v if ended is None else torch.where(ended, r - v, r + gamma * after - v)
    stops = stops_of(ended, cut)
    stops = None if stops is None else stops.expand(v.shape)
    return discounted_sum(delta, gamma * lam, stops, axis=dim, order=order).to(dtype)


def _weighing(value: Any, v: Tensor, what: str) -> Any:
    """A number, or a tensor that broadcasts to the values."""
    if not isinstance(value, Tensor):
        return number(value, what)
    return ranked(value, v, what) if value.ndim else value


def _in_one_scan(weights: tuple[Any, ...], values: tuple[Tensor, ...]) -> bool:
    """Whether advantages by such weights are computed in the values' own dtype, and no gradients of the weights are asked for."""
    dtype, tensors = accumulator(values[0].dtype), [w for w in weights if isinstance(w, Tensor)]
    if torch.compiler.is_compiling() or following(weights) or len({x.dtype for x in values}) > 1:
        return False
    return all(promoted(w.dtype, dtype) == dtype if w.ndim else not w.is_complex() for w in tensors)


def lfilter(
    b: Any, a: Any, x: Tensor, axis: int | None = None, zi: Tensor | None = None, *, dim: int | None = None
) -> Any:
    """Filter along an axis, as `upsweep.lfilter` (SciPy's signature), differentiable in b, a, x and zi.

    Args:
        b, a: coefficients, as tensors or as numbers; numbers count as being of the dtype of x.
        x: a tensor.
        axis, dim: the axis of time, the last one by default.
        zi: the state before the first item, as in `upsweep.lfilter`.

    Returns:
        y, of x's shape; with `zi` the pair `(y, zf)`. The gradient is the filter run backwards.

    >>> import torch, upsweep.torch as ut
    >>> a = torch.tensor([1.0, -0.5], requires_grad=True)
    >>> y = ut.lfilter([1.0], a, torch.tensor([1.0, 0.0, 0.0, 0.0]))
    >>> y.tolist()
    [1.0, 0.5, 0.25, 0.125]
    >>> torch.autograd.grad(y[2], a)[0].tolist()
    [-0.75, -1.0]
    """
    x = tensor(x)
    dtype = reduce(promoted, [v.dtype for v in (b, a, zi) if isinstance(v, Tensor)], x.dtype)
    if not dtype.is_complex and dtype not in (torch.float32, torch.float64):
        dtype = torch.float32 if dtype.is_floating_point else torch.float64
    b, a, zi = (None if v is None else tensor(v) for v in (b, a, zi))
    if any(v is not None and v.is_complex() for v in (b, a, zi)):
        dtype = torch.promote_types(dtype, torch.complex64)
    b, a = coefficients(b, dtype, x), coefficients(a, dtype, x)
    b, a = b / a[0], torch.cat([torch.ones_like(a[:1]), a[1:] / a[0]])
    dim = dim_of(-1 if axis is None and dim is None else axis, dim, x)
    x = x.to(dtype).movedim(dim, -1)
    order = max(b.numel(), a.numel()) - 1
    state = None if zi is None else state_of(zi.to(x.device, dtype), x, dim, order)
    y, zf = filters.lfilter(x, b, a, state)
    return y.movedim(-1, dim) if zi is None else (y.movedim(-1, dim), zf.movedim(-1, dim))
