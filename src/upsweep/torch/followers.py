"""Followers of tensors: autograd, transforms, tracers."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from sys import modules
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from upsweep.homes import looked_at

functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
_default_device: Any = import_module("torch.utils._device").DeviceContext


def following(args: tuple[Any, ...]) -> str:
    """The followers of the tensors: none (""), "gradients" alone, or "more". More are a transform, a mode, a tracer, a type of
    the tensors' own, or that they have no memory.
    """
    if (
        forward_ad._current_level >= 0
        or functorch.peek_interpreter_stack() is not None
        or watched()
        or torch._C._get_tracing_state() is not None
    ):
        return "more"
    recorded, found = torch.is_grad_enabled(), ""
    for v in args:
        if type(v) in PLAIN:
            continue
        for x in v if type(v) is list else (v,):
            if type(x) not in _TENSORS:
                if isinstance(x, Tensor):
                    return "more"
            elif _batched(x) or _wrapped(x) or x.is_meta:
                return "more"
            elif recorded and x.requires_grad:
                found = "gradients"
    return found


def watched() -> bool:
    """Whether a mode sees the operations on tensors."""
    return bool(
        torch._C._len_torch_dispatch_stack()
        or (torch._C._is_torch_function_mode_enabled() and not _default_device_alone())
    )


def unseen() -> bool:
    """Whether no mode sees the operations on tensors, and PyTorch's compiler looks at no frames of this thread."""
    return not watched() and ("torch._dynamo" not in modules or not looked_at())


def graded(xs: Iterable[Tensor | None]) -> bool:
    """Whether a gradient of a tensor is recorded, be it outside of the transforms that are at work: a tensor within `vmap` does
    not say that the batch requires one."""
    return torch.is_grad_enabled() and any(x is not None and _is_graded(x) for x in xs)


def _is_graded(x: Tensor) -> bool:
    # The compiler can trace this question alone.
    if torch._C._are_functorch_transforms_active():
        while _wrapped(x) and not x.requires_grad:
            x = functorch.get_unwrapped(x)
    return x.requires_grad


def within_gradients() -> bool:
    """Whether a transform for gradients, such as `torch.func.grad`, is at work."""
    # The compiler can trace this question alone.
    if not torch._C._are_functorch_transforms_active():
        return False
    keys = [level.key() for level in functorch.get_interpreter_stack() or ()]
    return functorch.TransformType.Grad in keys


def _default_device_alone() -> bool:
    """Whether the only mode is that of `torch.set_default_device` or of `with torch.device(...)`, which looks at new tensors
    alone."""
    modes = torch._C._len_torch_function_stack()
    return modes == 1 and type(torch._C._get_function_stack_at(0)) is _default_device


_TENSORS = {Tensor, torch.nn.Parameter}
PLAIN = {type(None), bool, int, float, str}
_batched, _wrapped = functorch.is_legacy_batchedtensor, functorch.is_functorch_wrapped_tensor
