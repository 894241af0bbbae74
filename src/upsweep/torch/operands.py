"""The operands that go with a tensor into a scan: axes, multipliers, flags, starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from upsweep import dtypes
from upsweep.arguments import (
    ShapeError,
    axis_of,
    check_broadcasts,
    check_flags,
    check_starts,
    dtype_of,
    summed_dtype,
)
from upsweep.engine import DTypeError
from upsweep.homes import transformed
from upsweep.host import view
from upsweep.host.tensors import check_dense
from upsweep.torch.followers import following


def constant(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function whose results a compiled graph keeps. `torch.compiler.assume_constant_result` does the same, but imports
    the compiler, which takes a second.
    """
    fn._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return fn


def dim_of(axis: int | None, dim: int | None, x: Tensor) -> int:
    """The axis of a call, under either of its names."""
    if axis is not None and dim is not None:
        raise ShapeError(f"axis={axis} and dim={dim} name one thing: pass either")
    return axis_of(dim if axis is None else axis, tuple(x.shape))


def tensor(x: Any, dtype: Any = None) -> Tensor:
    """A tensor, of NumPy's array for instance, of the dtype that torch or NumPy calls so."""
    x = x if isinstance(x, Tensor) else of_host(x)
    check_dense(x)
    if dtype is None:
        return x
    wanted = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype_of(dtype).name, None)
    if not isinstance(wanted, torch.dtype):
        raise DTypeError(f"PyTorch has no dtype={dtype!r}: pass torch.float64 or 'float64', for instance")
    return x.to(wanted)


def of_host(x: Any) -> Tensor:
    """A tensor of an array of another library, of a list or of a number."""
    if torch.compiler.is_compiling():
        return torch.as_tensor(np.asarray(x))
    x = view(x)
    # A gradient would read what is written to the array meanwhile, which PyTorch does not see. It takes no negative strides, and
    # warns of memory that may not be written.
    made = np.array(x, order="C") if torch.is_grad_enabled() else np.require(x, requirements=["C", "W"])
    try:
        return torch.as_tensor(made)
    except TypeError as error:
        raise DTypeError(f"PyTorch has no tensors of {x.dtype}: pass numbers") from error


def readable(x: Tensor) -> Tensor:
    """The numbers of a tensor as they lie in memory, which nothing follows: itself where that is so, as `detach` takes half as
    long as a small scan."""
    x = x.detach() if type(x) is not Tensor or transformed(x) else x
    return x.resolve_conj() if x.is_conj() else x


def held(value: Any, dtype: torch.dtype, device: Any, what: str) -> Tensor:
    """A value as a tensor of `dtype`; a DTypeError where it would become another value."""
    if isinstance(value, (bool, int, float, complex)):
        parts = (value.real, value.imag) if dtype.is_complex else (value,)
        fits = all(_is_real_in(part, dtype) for part in parts)
    elif isinstance(value, Tensor):
        value = tensor(value)
        fits = value.dtype == dtype or (_kind(value.dtype) <= _kind(dtype) and _stays(value.detach(), dtype))
    else:
        ends = [] if torch.compiler.is_compiling() else _ends(view(value))
        value = of_host(value)
        fits = _kind(value.dtype) <= _kind(dtype) and all(_is_real_in(end, dtype) for end in ends)
    if not fits:
        given = value if not isinstance(value, Tensor) else value.dtype
        raise DTypeError(
            f"{what} ({given}) is no value of {dtype}, in which this is computed: convert the tensor first, "
            "x.double() for instance"
        )
    if isinstance(value, Tensor):
        return value.to(device, dtype)
    # A copy of a number to a GPU would wait for all work that is queued there.
    return torch.full((), value, dtype=dtype, device=device)


def _kind(dtype: torch.dtype) -> int:
    """Booleans, integers, real and complex numbers: each kind holds those before it."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype is not torch.bool)


def _ends(values: np.ndarray) -> list[Any]:
    """The least and the largest of finite numbers, of complex ones by size."""
    values = np.abs(values) if values.dtype.kind == "c" else values
    values = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    return [values.min().item(), values.max().item()] if values.dtype.kind in "iuf" and values.size else []


def _stays(value: Tensor, dtype: torch.dtype) -> bool:
    """Whether whole numbers stay equal and finite numbers finite in a dtype of their kind, as far as that is known: a GPU would
    be waited for, and a traced tensor has no numbers."""
    if torch.compiler.is_compiling() or value.device.type != "cpu" or following((value,)):
        return True
    if np.can_cast(dtype_of(value.dtype), dtype_of(dtype)):
        return True
    return all(_is_real_in(end, dtype) for end in _ends(view(single(readable(value)))))


def _is_real_in(value: complex, dtype: torch.dtype) -> bool:
    if isinstance(value, complex):
        return False
    if dtype.is_floating_point or dtype.is_complex:
        return not torch.finfo(dtype).max < abs(value) < math.inf
    low, high = (0, 1) if dtype is torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    return low <= value <= high and value == int(value)


def floating(x: Any) -> Tensor:
    """Integers as float64, as `upsweep` averages and filters them."""
    x = tensor(x)
    return x if x.dtype.is_floating_point or x.dtype.is_complex else x.double()


@constant
def promoted(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    """The dtype that PyTorch computes in with tensors of two dtypes."""
    try:
        return torch.promote_types(a, b)
    except RuntimeError as error:
        raise DTypeError(
            f"PyTorch has no dtype for {a} and {b} together: convert one tensor first, x.to({a}) for instance"
        ) from error


def single(x: Tensor) -> Tensor:
    """Half precision as float32, in which `upsweep` computes it."""
    return x.float() if x.is_floating_point() and x.itemsize < 4 else x


def multiplier(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """A multiplier of b's rank, whose axes of one item hold for all of b's, and b. Tensors take a common dtype. Numbers, other
    arrays, and tensors without dimensions of another dtype take the dtype that b is computed in: half precision would make 1 of
    0.999.
    """
    b = tensor(b)
    if isinstance(a, Tensor) and a.dtype != b.dtype and (a.ndim or _kind(a.dtype) > _kind(b.dtype)):
        b = b.to(promoted(a.dtype, b.dtype))
    if isinstance(a, Tensor) and (a.ndim or a.dtype == b.dtype):
        if a.dtype != b.dtype or not a.ndim:
            a = a.to(b.dtype) if a.ndim else a.to(b.device)
    else:
        a = held(a, accumulator(b.dtype), b.device, "the multiplier")
    return ranked(a, b, "a"), b


def ranked(x: Tensor, like: Tensor, what: str) -> Tensor:
    """x in the rank of another tensor, beside which it lies, and to which it broadcasts."""
    beside(x, what, like)
    check_broadcasts(what, x.shape, like.shape)
    return x if x.ndim == like.ndim else x.reshape((1,) * (like.ndim - x.ndim) + x.shape)


def beside(x: Tensor, name: str, like: Tensor) -> None:
    """A ShapeError where two tensors lie on two devices. A rule for tensors without memory would give anything for one that has
    some.
    """
    if x.device != like.device:
        raise ShapeError(f"{name} is on {x.device}, the items on {like.device}: pass both on one device")


def spread(x: Tensor, like: Tensor, what: str) -> Tensor:
    """x in the shape of another tensor, beside which it lies."""
    beside(x, what, like)
    check_broadcasts(what, x.shape, like.shape)
    return x if x.shape == like.shape else x.expand(like.shape)


def rows_of(initial: Any, x: Tensor, dim: int) -> Tensor | None:
    """One start for each row, in the dtype that is computed with."""
    if initial is None:
        return None
    rows = x.shape[:dim] + x.shape[dim + 1 :]
    start = held(initial, accumulator(x.dtype), x.device, "initial")
    check_starts(start.shape, rows)
    return start if start.shape == rows else start.expand(rows)


@constant
def accumulator(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a scan of this dtype computes."""
    known = dtypes.row_of(dtype)
    return dtype if known is None else getattr(torch, known.accumulator)


@constant
def summed(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which `cumulative_sum` computes items of this one."""
    wanted = summed_dtype(dtype_of(dtype), None, 8)
    return dtype if wanted is None else getattr(torch, wanted.name)


def flags_of(flags: Any, x: Tensor, dim: int) -> Tensor:
    """Booleans of the rank of x, from flags of its shape or 1-D along the axis; axes of one item hold for all of x's."""
    flags = tensor(flags)
    check_flags(flags, _kind_of(flags.dtype), x.shape, dim)
    flags = flags.to(x.device).bool()
    return flags if flags.ndim == x.ndim else flags.reshape([-1 if d == dim else 1 for d in range(x.ndim)])


@constant
def _kind_of(dtype: torch.dtype) -> str:
    return dtypes.kind_of(dtype)


def coefficients(c: Tensor | None, dtype: torch.dtype, x: Tensor) -> Tensor:
    """Coefficients of a filter for x in double precision, in which poles are found, rounded to `dtype` first."""
    if c is None:
        raise ShapeError("a filter needs the coefficients b and a: pass [1.0] for none")
    if c.is_meta:
        beside(c, "a coefficient", x)
    c = c.to(dtype).to(torch.complex128 if dtype.is_complex else torch.float64)
    if c.ndim != 1 or not c.numel():
        raise ShapeError(f"coefficients must be 1-D and not empty, got shape {tuple(c.shape)}")
    return c


def state_of(zi: Tensor, x: Tensor, dim: int, order: int) -> Tensor:
    """The state of a filter with time last, of the shape that fits x."""
    moved = zi.movedim(dim, -1) if zi.ndim == x.ndim else zi
    fits = zip(moved.shape[:-1], x.shape[:-1])
    if zi.ndim != x.ndim or moved.shape[-1] != order or any(m not in (1, n) for m, n in fits):
        raise ShapeError(
            f"zi has shape {tuple(zi.shape)}; along the axis it needs {order} values for these coefficients"
        )
    return moved.expand(*x.shape[:-1], order)
