"""A function as a PyTorch operator in every mode of differentiation, and as itself where nothing follows its tensors."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from upsweep.homes import compiling, uncompiled
from upsweep.torch.followers import following, functorch
from upsweep.torch.operands import accumulator
from upsweep.torch.ways import Ways, remembered


def differentiable(
    op: Any, context: Callable[..., None], backward: Callable[..., Any], jvp: Callable[..., Any],
    fn: Callable[..., Any] | None = None, ways: Ways | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A custom operator in every mode of differentiation. `fn` is called in place of the function behind it, if it is given;
    `ways` remember its calls.

    A custom operator alone has no forward mode, and `torch.func.grad` does not see its gradient. An autograd function has
    both, but the compiler takes none that has a rule for forward mode: it traces the operator itself.
    """

    inner, run = plain(op, fn), fn or op._init_fn

    class Rules(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*args: Any) -> Any:
            return inner(*args)

    # PyTorch asks for the signature at each call: 40 us of 160.
    Rules.forward.__signature__ = signature(Rules.forward)  # type: ignore[attr-defined]
    Rules.setup_context = staticmethod(context)  # type: ignore[assignment]

    class Recorded(torch.autograd.Function):
        """The function for autograd alone, where no transform is at work: PyTorch need not bind arguments to their names."""

        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            *args, way = given
            output = way(*args)
            if output is None:
                output = run(*args)
            context(ctx, args, output)
            return output

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return *backward(ctx, *gradients), None

    Rules.backward = staticmethod(backward)  # type: ignore[assignment]
    Rules.jvp = staticmethod(nested(jvp))  # type: ignore[assignment]
    op.register_autograd(backward, setup_context=context)
    # Past the method of `torch.autograd.Function`, which looks for transforms once more.
    base: Any = super(torch.autograd.Function, Recorded)

    def recorded(way: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: base.apply(*args, way)

    def call(*args: Any) -> Any:
        if torch._C._is_any_autocast_enabled():
            args = tuple([widened(v) for v in args])
        if torch.compiler.is_compiling():
            refuse_tangents()
            return op(*args)
        like, known, output = remembered(ways, args)
        if output is not None:
            return output
        followed = following(args)
        if not followed:
            output = run(*args)
        else:
            apply = recorded(run) if followed == "gradients" else Rules.apply
            # Where the compiler gives a function up, it would still compile the functions that this one calls.
            output = uncompiled(apply, *args) if compiling() else apply(*args)
        if ways and like and not known and followed != "more":
            ways.learn(like, args, recorded if followed else None)
        return output

    if ways:
        ways.call = call
    return call


def keep(ctx: Any, *tensors: Tensor | None) -> None:
    """Save tensors for the rules of the modes at work. They must be the same: PyTorch's vmap notes one list of their batch
    axes."""
    ctx.save_for_backward(*tensors)
    if forward_ad._current_level >= 0:
        ctx.save_for_forward(*tensors)


def nested(jvp: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for forward mode that has tangents itself. PyTorch switches forward mode off while it runs a rule, so that
    `jacfwd(jacfwd(f))` would take the inner tangent for a constant.
    """

    def rule(ctx: Any, *tangents: Any) -> Any:
        keys = [level.key() for level in functorch.get_interpreter_stack() or ()]
        if keys.count(functorch.TransformType.Jvp) < 2:
            return jvp(ctx, *tangents)
        if keys[-1] != functorch.TransformType.Jvp:
            raise NotImplementedError(
                "a scan has no tangents of tangents within vmap: take one of them in reverse mode, as torch.func.hessian does"
            )
        with forward_ad._set_fwd_grad_enabled(True):
            return jvp(_Primals(ctx), *map(_primal, tangents))

    return rule


class _Primals:
    """The context of a rule, without the tangents of its own level."""

    def __init__(self, ctx: Any) -> None:
        self.ctx, self.saved_tensors = ctx, tuple(map(_primal, ctx.saved_tensors))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ctx, name)


def _primal(x: Any) -> Any:
    return forward_ad.unpack_dual(x).primal if isinstance(x, Tensor) else x


def plain(op: Any, fn: Callable[..., Any] | None = None, ways: Ways | None = None) -> Callable[..., Any]:
    """A custom operator, or the function behind it, or `fn`, where PyTorch has nothing else to do. PyTorch's way to the function
    takes 100 us, and the first such call imports the compiler. `ways` remember its calls.
    """
    run = fn or op._init_fn

    def call(*args: Any) -> Any:
        like = known = output = None
        if not torch.compiler.is_dynamo_compiling():
            like, known, output = remembered(ways, args)
        if output is not None:
            return output
        if torch.compiler.is_compiling() or following(args):
            return op(*args)
        output = run(*args)
        if ways and like and not known:
            ways.learn(like, args)
        return output

    return call


def refuse_tangents() -> None:
    """An error in forward mode: the compiler would drop tangents in silence."""
    if forward_ad._current_level >= 0:
        raise NotImplementedError(
            "torch.compile does not trace forward mode through a scan: call the scan outside of the compiled function"
        )


def widened(value: Any) -> Any:
    """Half precision as float32 under autocast, as PyTorch does for its own cumsum and cumprod."""
    # PyTorch knows of no autocast for tensors without memory.
    if not isinstance(value, Tensor) or value.is_meta or not torch.is_autocast_enabled(value.device.type):
        return value
    return value.to(torch.float32) if accumulator(value.dtype) != value.dtype else value


def batched(x: Tensor | None, in_dim: int | None, size: int = 1) -> Tensor | None:
    """A tensor with the batch in front; a tensor without a batch is repeated `size` times."""
    if x is None:
        return None
    return x.movedim(in_dim, 0) if in_dim is not None else x.unsqueeze(0).expand(size, *x.shape)
