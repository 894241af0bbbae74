"""What follows tensors: autograd, transforms, tracers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]


def watched(args: tuple[Any, ...]) -> bool:
    """Whether something follows the tensors."""
    return following(args) != ""


def following(args: tuple[Any, ...]) -> str:
    """What follows the tensors: nothing (""), "gradients" alone, or "more": a transform, a mode, a tracer, a type of their own,
    or no memory."""
    if (
        forward_ad._current_level >= 0
        or functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack()
        or torch._C._is_torch_function_mode_enabled()
        or torch._C._get_tracing_state() is not None
    ):
        return "more"
    recorded, found = torch.is_grad_enabled(), ""
    for v in args:
        if type(v) in _PLAIN:
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


_TENSORS = {Tensor, torch.nn.Parameter}
_PLAIN = {type(None), bool, int, float, str}
_batched, _wrapped = functorch.is_legacy_batchedtensor, functorch.is_functorch_wrapped_tensor
