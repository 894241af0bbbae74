"""Scans for PyTorch with gradients: inside autograd, torch.compile, vmap and autocast, on the CPU and on CUDA.

Every function here gives the bits of its namesake in `upsweep`. Under autocast half precision is scanned as float32.

>>> import torch, upsweep.torch as ut
>>> a = torch.tensor([0.5, 0.5, 0.5], requires_grad=True)
>>> h = ut.linear_recurrence(a, torch.ones(3))
>>> h.sum().backward()
>>> h.tolist(), a.grad.tolist()
([1.0, 1.5, 1.75], [0.0, 1.5, 1.5])
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor

from upsweep.arguments import axis_of
from upsweep.torch import filters, library, tuples
from upsweep.torch.operands import coefficients, flags_of, multiplier, rows_of, state_of

__all__ = [
    "cumulative_prod",
    "cumulative_sum",
    "discounted_sum",
    "gae",
    "lfilter",
    "linear_recurrence",
    "scan",
]


def scan(
    xs: Any,
    op: Any = "add",
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    initial: Any = None,
    dtype: torch.dtype | None = None,
) -> Any:
    """All prefixes under an associative operator, as `upsweep.scan`, differentiable.

    Args:
        xs: a tensor, or a tuple of tensors of one shape.
        op, axis, exclusive, reverse, initial: as in `upsweep.scan`. A scan of one tensor has gradients for the built-in
            operators and for every Python function that PyTorch can evaluate on whole tensors (arithmetic and torch
            functions; no `if`, no `math`); a tuple has them for "affine".
        dtype: the dtype to convert to first.

    Returns:
        A tensor (a tuple of them), of the input's shape and device.

    Raises:
        OperatorError: gradients are asked of a tuple under an operator other than "affine". Others as in `upsweep.scan`.

    >>> import torch, upsweep.torch as ut
    >>> x = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    >>> ut.scan(x, "mul")[-1].backward()
    >>> x.grad.tolist()
    [12.0, 8.0, 6.0]
    """
    name = op if isinstance(op, str) and op in library.NAMED else library.name_of(op)
    if isinstance(xs, tuple):
        return _scan_tuple(xs, name, axis, exclusive, reverse, initial, dtype)
    x = xs if dtype is None else xs.to(dtype)
    dim = axis_of(axis, tuple(x.shape))
    if x.is_complex() and x.requires_grad:
        library.check_holomorphic(name)
    return library.scan(x, name, dim, exclusive, reverse, rows_of(initial, x, dim), None)


def _scan_tuple(
    xs: tuple[Tensor, ...],
    name: str,
    axis: int | None,
    exclusive: bool,
    reverse: bool,
    initial: Any,
    dtype: Any,
) -> tuple[Tensor, ...]:
    xs = tuple(x if dtype is None else x.to(dtype) for x in xs)
    dim = axis_of(axis, tuple(xs[0].shape))
    starts = [] if initial is None else [rows_of(v, x, dim) for v, x in zip(initial, xs)]
    needed = torch.is_grad_enabled() and any(x.requires_grad for x in (*xs, *starts))  # type: ignore[union-attr]
    if not needed:
        return tuples.scan(xs, name, dim, exclusive, reverse, starts, None)  # type: ignore[arg-type]
    tuples.refuse(name, exclusive)
    a, b = xs
    first, second = starts or (None, None)
    return (
        library.scan(a, "mul", dim, False, reverse, first, None),
        library.recurrence(a, b, second, None, dim, reverse),
    )


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: torch.dtype | None = None, include_initial: bool = False
) -> Tensor:
    """Running totals, as `upsweep.cumulative_sum`, differentiable.

    >>> import torch, upsweep.torch as ut
    >>> ut.cumulative_sum(torch.tensor([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative(x, "add", 0, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: torch.dtype | None = None, include_initial: bool = False
) -> Tensor:
    """Running products, as `upsweep.cumulative_prod`, differentiable, also where items are zero.

    >>> import torch, upsweep.torch as ut
    >>> ut.cumulative_prod(torch.tensor([2, 3, 4])).tolist()
    [2, 6, 24]
    """
    return _cumulative(x, "mul", 1, axis, dtype, include_initial)


def _cumulative(
    x: Tensor, op: str, first: int, axis: int | None, dtype: Any, include_initial: bool
) -> Tensor:
    if dtype is None and not (x.dtype.is_floating_point or x.dtype.is_complex) and x.dtype.itemsize < 8:
        dtype = torch.uint64 if x.dtype in (torch.uint8, torch.uint16, torch.uint32) else torch.int64
    y = scan(x, op, axis=axis, dtype=dtype)
    if not include_initial:
        return y
    dim = axis_of(axis, tuple(x.shape))
    start = torch.full(
        [1 if d == dim else n for d, n in enumerate(y.shape)], first, dtype=y.dtype, device=y.device
    )
    return torch.cat([start, y], dim)


def linear_recurrence(
    a: Any,
    b: Tensor,
    *,
    initial: Any = None,
    axis: int | None = None,
    reverse: bool = False,
    order: str = "tree",
) -> Tensor:
    """`h[t] = a[t] h[t-1] + b[t]` from `h[-1] = initial`, as `upsweep.linear_recurrence`, differentiable in a, b, initial.

    The gradient is the recurrence with a, run backwards: one scan.

    Args:
        a: a tensor or number that broadcasts to the shape of b.
        b: a floating or complex tensor.
        initial, axis, reverse, order: as in `upsweep.linear_recurrence`. In order "sequential" the gradient is one pass that
            reads three arrays and writes two.

    >>> import torch, upsweep.torch as ut
    >>> ut.linear_recurrence(0.5, torch.ones(3), initial=2.0).tolist()
    [2.0, 2.0, 2.0]

    Source: Martin and Cundy, "Parallelizing linear recurrent neural nets over sequence length" (2018).
    """
    a, b = multiplier(a, b)
    dim = axis_of(axis, tuple(b.shape))
    return library.recurrence(a, b, rows_of(initial, b, dim), None, dim, reverse, order)


def discounted_sum(
    rewards: Tensor, gamma: Any, dones: Tensor | None = None, *, axis: int | None = None, initial: Any = None
) -> Tensor:
    """`g[t] = r[t] + gamma g[t+1]`, stopping where an episode is done, as `upsweep.discounted_sum`, differentiable.

    >>> import torch, upsweep.torch as ut
    >>> ut.discounted_sum(torch.ones(4), 0.5, torch.tensor([False, True, False, False])).tolist()
    [1.5, 1.0, 1.5, 1.0]
    """
    weights, r = multiplier(gamma, rewards)
    dim = axis_of(axis, tuple(r.shape))
    start = rows_of(initial, r, dim)
    if dones is None or r.numel() == 0:
        return library.recurrence(weights, r, start, None, dim, True)
    done = flags_of(dones, r, dim)
    heads = library.previous(done, torch.ones_like(done.select(dim, 0)), dim, False)
    if start is not None:
        end = torch.where(done.select(dim, -1), 0, weights.select(dim, -1) * start)
        r = torch.cat([r.narrow(dim, 0, r.shape[dim] - 1), (r.select(dim, -1) + end).unsqueeze(dim)], dim)
    return library.recurrence(weights, r, None, heads, dim, True)


def gae(
    rewards: Tensor,
    values: Tensor,
    last_value: Any,
    dones: Tensor,
    *,
    gamma: float,
    lam: float,
    axis: int | None = None,
) -> Tensor:
    """Generalised advantage estimates: the discounted sum, by `gamma lam`, of `r[t] + gamma v[t+1] - v[t]`.

    Args:
        rewards, values: floating tensors of one shape.
        last_value: the value after the last item, a number or one a row.
        dones: true at the last item of an episode: no value and no advantage flows across.
        gamma, lam: discount and decay.
        axis: the axis of time; it may be left out for 1-D input only.

    >>> import torch, upsweep.torch as ut
    >>> ut.gae(torch.ones(2), torch.zeros(2), 0.0, torch.tensor([False, False]), gamma=0.5, lam=1.0).tolist()
    [1.5, 1.0]

    Source: Schulman et al., "High-dimensional continuous control using generalized advantage estimation" (2016), eq. 16.
    """
    dim = axis_of(axis, tuple(rewards.shape))
    last = rows_of(last_value, values, dim)
    assert last is not None
    ahead = torch.cat([values.narrow(dim, 1, values.shape[dim] - 1), last.unsqueeze(dim)], dim)
    ahead = torch.where(flags_of(dones, values, dim), 0, ahead)
    return discounted_sum(rewards + gamma * ahead - values, gamma * lam, dones, axis=dim)


def lfilter(b: Any, a: Any, x: Tensor, axis: int = -1, zi: Tensor | None = None) -> Any:
    """Filter along an axis, as `upsweep.lfilter` (SciPy's signature), differentiable in b, a, x and zi.

    Args:
        b, a: coefficients, as tensors or as numbers; numbers count as being of the dtype of x.
        x: a tensor.
        axis: the axis of time.
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
    given = [v.dtype for v in (b, a, x, zi) if isinstance(v, Tensor)]
    dtype = reduce(torch.promote_types, given)
    if not dtype.is_complex and dtype not in (torch.float32, torch.float64):
        dtype = torch.float32 if dtype.is_floating_point else torch.float64
    b, a = coefficients(b, dtype), coefficients(a, dtype)
    b, a = b / a[0], torch.cat([torch.ones_like(a[:1]), a[1:] / a[0]])
    dim = axis_of(axis, tuple(x.shape))
    x = x.to(dtype).movedim(dim, -1)
    order = max(b.numel(), a.numel()) - 1
    state = None if zi is None else state_of(zi.to(dtype), x, dim, order)
    y, zf = filters.lfilter(x, b, a, state)
    return y.movedim(-1, dim) if zi is None else (y.movedim(-1, dim), zf.movedim(-1, dim))
