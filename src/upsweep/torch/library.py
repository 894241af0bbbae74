"""Scans as PyTorch operators: gradients, tangents, fake tensors and vmap are rules registered for each.

A scan is a recurrence, and so are its derivatives. With `y[t] = f(y[t-1], x[t])`, L and R the partial derivatives of f there:
the tangent runs with the scan, `dy[t] = L[t] dy[t-1] + R[t] dx[t]`, and the gradient against it,
`s[t] = g[t] + L*[t+1] s[t+1]`, `dx[t] = R*[t] s[t]`, where * conjugates. The rules are made of the same operators, so that they
can be differentiated again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

import upsweep as up
from upsweep.arguments import dtype_of
from upsweep.operator import Operator, OperatorError, identity_of
from upsweep.operators import BUILTIN, TABLE, as_operator
from upsweep.torch import adjoint
from upsweep.torch.neighbours import (
    ahead,
    along,
    before,
    following,
    one_at_starts,
    over_starts,
    segments_of,
    starts,
    with_room,
)
from upsweep.torch.operands import accumulator

NAMED: dict[str, Operator] = dict(BUILTIN)


def constant(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function whose results a compiled graph keeps. `torch.compiler.assume_constant_result` does the same, but imports
    the compiler, which takes a second.
    """
    fn._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return fn


@constant
def name_of(op: Any) -> str:
    """The name under which a graph refers to an operator: by content, for PyTorch keeps compiled graphs on disk."""
    op = as_operator(op)
    for name, known in BUILTIN.items():
        if known == op:
            return name
    name = f"{op} {sha256(repr(op.key).encode()).hexdigest()[:16]}"
    NAMED[name] = op
    return name


def differentiable(
    op: Any, context: Callable[..., None], backward: Callable[..., Any], jvp: Callable[..., Any],
    fn: Callable[..., Any] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A custom operator in every mode of differentiation. `fn` is called in place of the function behind it, if it is given.

    A custom operator alone has no forward mode, and `torch.func.grad` does not see its gradient. An autograd function has
    both, but the compiler takes none that has a rule for forward mode: it traces the operator itself.
    """

    inner = plain(op, fn)

    class Rules(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*args: Any) -> Any:
            return inner(*args)

    # PyTorch asks for the signature at each call: 40 us of 160.
    Rules.forward.__signature__ = signature(Rules.forward)  # type: ignore[attr-defined]
    Rules.setup_context = staticmethod(context)  # type: ignore[assignment]
    Rules.backward = staticmethod(backward)
    Rules.jvp = staticmethod(jvp)
    op.register_autograd(backward, setup_context=context)

    def call(*args: Any) -> Any:
        args = tuple([widened(v) for v in args])
        if traced() or not watched(args):
            return inner(*args)
        # Where the compiler gives a function up, it would still compile the functions that this one calls.
        return (untraced() if "torch._dynamo" in sys.modules else Rules.apply)(*args)

    @cache
    def untraced() -> Callable[..., Any]:
        return torch.compiler.disable(Rules.apply)

    return call


def plain(op: Any, fn: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A custom operator, or the function behind it, or `fn`, where PyTorch has nothing else to do. PyTorch's way to the function
    takes 100 us, and the first such call imports the compiler.
    """
    run = fn or op._init_fn

    def call(*args: Any) -> Any:
        return op(*args) if torch.compiler.is_compiling() or watched(args) else run(*args)

    return call


def watched(args: tuple[Any, ...]) -> bool:
    """Whether something follows the tensors: gradients, a transform, a mode, a tracer, or a type of their own."""
    if (
        forward_ad._current_level >= 0
        or torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]
        or torch._C._len_torch_dispatch_stack()
        or torch._C._is_torch_function_mode_enabled()
        or torch._C._get_tracing_state() is not None
    ):
        return True
    given = [part for v in args for part in (v if type(v) is list else (v,)) if isinstance(part, Tensor)]
    recorded, batched = torch.is_grad_enabled(), torch._C._functorch.is_legacy_batchedtensor  # pyright: ignore[reportAttributeAccessIssue]
    return any(type(x) not in _TENSORS or (recorded and x.requires_grad) or batched(x) for x in given)


_TENSORS = {Tensor, torch.nn.Parameter}


def traced() -> bool:
    """Whether the compiler is at work. It would drop tangents in silence."""
    if torch.compiler.is_compiling() and forward_ad._current_level >= 0:
        raise NotImplementedError(
            "torch.compile does not trace forward mode through a scan: compile what is around it"
        )
    return torch.compiler.is_compiling()


def widened(value: Any) -> Any:
    """Half precision as float32 under autocast, as PyTorch does for its own cumsum and cumprod."""
    half = isinstance(value, Tensor) and accumulator(value.dtype) != value.dtype
    return value.to(torch.float32) if half and torch.is_autocast_enabled(value.device.type) else value


def _none_first(x: Tensor, dim: int) -> Tensor:
    return torch.zeros_like(x.select(dim, 0))


def batched(x: Tensor | None, in_dim: int | None, size: int = 1) -> Tensor | None:
    """A tensor with the batch in front; a tensor without a batch is repeated `size` times."""
    if x is None:
        return None
    return x.movedim(in_dim, 0) if in_dim is not None else x.unsqueeze(0).expand(size, *x.shape)


# --- where segments start ---------------------------------------------------------------------------------------------


@torch.library.custom_op("upsweep::heads", mutates_args=())
def heads(values: Tensor, spelling: str, shape: list[int], dim: int) -> Tensor:
    """Booleans of `shape`, or 1-D along the axis, that are true where a segment starts: an exclusive product of zeros is 1 there,
    and 0 elsewhere.
    """
    each = values.ndim == len(shape) and spelling in up.segments.EACH
    zeros = torch.zeros(shape if each else shape[dim], dtype=torch.uint8, device=values.device)
    segments = up.segments.Segments(spelling, values)
    ones = up.scan(zeros, "mul", axis=dim if each else 0, exclusive=True, initial=1, segments=segments)
    return ones.bool()


@heads.register_fake
def _(values: Tensor, spelling: str, shape: list[int], dim: int) -> Tensor:
    each = values.ndim == len(shape) and spelling in up.segments.EACH
    return values.new_empty(shape if each else shape[dim], dtype=torch.bool)


# --- the scan of one tensor -------------------------------------------------------------------------------------------


@torch.library.custom_op("upsweep::scan", mutates_args=())
def _scan(
    x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, initial: Tensor | None, heads: Tensor | None, order: str
) -> Tensor:  # fmt: skip
    x, start = x.detach().resolve_conj(), None if initial is None else initial.detach().resolve_conj()
    segments = segments_of(heads, x, dim)
    how = {"exclusive": exclusive, "reverse": reverse, "initial": start, "segments": segments, "order": order}
    return up.scan(x, NAMED[op], axis=dim, **how)


@_scan.register_fake
def _(x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, *_: Any) -> Tensor:
    return x.new_empty(x.shape)


@_scan.register_vmap
def _(
    info: Any, in_dims: Any, x: Any, op: str, dim: int, exclusive: bool, reverse: bool, initial: Any, heads: Any, order: str
) -> Any:  # fmt: skip
    x, initial = (batched(v, d, info.batch_size) for v, d in ((x, in_dims[0]), (initial, in_dims[5])))
    heads = batched(heads, in_dims[6])
    return _scan(x, op, dim + 1, exclusive, reverse, initial, heads, order), 0


def _scan_context(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, ctx.op, ctx.dim, ctx.exclusive, ctx.reverse, initial, heads, ctx.order = inputs
    ctx.save_for_backward(x, output, initial, heads)
    ctx.save_for_forward(x, output, initial, heads)


def _scan_backward(ctx: Any, g: Tensor) -> Any:
    x, y, initial, heads = ctx.saved_tensors
    how = ctx.dim, ctx.exclusive, ctx.reverse, ctx.order
    dx, d_initial = scan_gradient(ctx.op, g, x, y, initial, heads, *how)
    return dx, None, None, None, None, d_initial, None, None


def scan_gradient(
    op: str, g: Tensor, x: Tensor, y: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int,
    exclusive: bool, reverse: bool, order: str,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The gradients of x and initial from the gradient of y."""
    if x.shape[dim] == 0:
        return torch.zeros_like(x), None if initial is None else torch.zeros_like(initial)
    inner = g
    if exclusive:
        within = g if heads is None else g.masked_fill(starts(heads, dim, reverse), 0)
        inner = following(within, dim, reverse)
    if op == "add":
        s = dx = into = scan(inner, "add", dim, False, not reverse, None, heads, order)
    else:
        left, right = (v.conj() for v in _partials(op, x, y, initial, heads, dim, exclusive, reverse))
        s = recurrence(following(left, dim, reverse), inner, None, heads, dim, not reverse, order)
        dx, into = right * s, left * s
    if initial is None:
        return dx, None
    into = into + g if exclusive else into
    return dx, over_starts(into, heads, dim, reverse).to(initial.dtype)


def _scan_jvp(ctx: Any, dx: Tensor | None, *tangents: Any) -> Tensor:
    x, y, initial, heads = ctx.saved_tensors
    given = ctx.op, dx, tangents[4], x, y, initial, heads
    return scan_tangent(*given, ctx.dim, ctx.exclusive, ctx.reverse, ctx.order)


def scan_tangent(
    op: str, dx: Tensor | None, d_initial: Tensor | None, x: Tensor, y: Tensor, initial: Tensor | None,
    heads: Tensor | None, dim: int, exclusive: bool, reverse: bool, order: str,
) -> Tensor:  # fmt: skip
    """The tangent of y from the tangents of x and initial."""
    dx = torch.zeros_like(x) if dx is None else dx
    if x.is_complex():
        check_holomorphic(op)
    if x.shape[dim] == 0:
        return torch.zeros_like(y)
    if op == "add":
        return scan(dx, "add", dim, exclusive, reverse, d_initial, heads, order)
    left, right = _partials(op, x, y, initial, heads, dim, exclusive, reverse)
    dy = recurrence(left, right * dx, d_initial, heads, dim, reverse, order)
    if not exclusive:
        return dy
    first = _none_first(dy, dim) if d_initial is None else d_initial.to(dy.dtype)
    return before(dy, first, heads, dim, reverse)


def _partials(
    op: str, x: Tensor, y: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, exclusive: bool, reverse: bool
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The partial derivatives of `before ⊕ x` at every item. Where nothing stands before, the result is the item itself."""
    left_of = y
    if not exclusive:
        neutral = identity(op, x.dtype)
        first = along(x, dim, reverse, 0, 1).squeeze(dim)
        if initial is not None:
            first = initial.to(y.dtype)
        elif neutral is not None:
            first = torch.full_like(first, neutral)
        left_of = before(y, first, heads, dim, reverse)
    known = TABLE.get(op)
    if known is not None and known.slopes is not None:
        left, right = known.slopes(torch, left_of, x)
    else:
        value, pull = torch.func.vjp(NAMED[op].fn, left_of, x)  # type: ignore
        left, right = (v.conj() for v in pull(torch.ones_like(value)))
    if exclusive or initial is not None:
        return left, right
    return left, one_at_starts(right, heads, dim, reverse)


def identity(op: str, dtype: torch.dtype) -> Any:
    """The operator's identity as a number, or None."""
    value = identity_of(NAMED[op], (dtype_of(accumulator(dtype)),))
    return None if value is None else value[0].item()


_differentiable_scan = differentiable(_scan, _scan_context, _scan_backward, _scan_jvp)


def scan(
    x: Tensor, op: str, dim: int, exclusive: bool, reverse: bool, initial: Tensor | None, heads: Tensor | None,
    order: str = "tree",
) -> Tensor:  # fmt: skip
    """All prefixes of a tensor."""
    return _differentiable_scan(x, op, dim, exclusive, reverse, initial, heads, order)


@constant
def check_holomorphic(op: str) -> None:
    """Refuse an operator on complex numbers that is not holomorphic: the rules hold for holomorphic operators only."""
    if op in BUILTIN or op in _HOLOMORPHIC:
        return
    a, b = torch.tensor([[0.3 + 0.7j], [-0.4 + 0.2j]], dtype=torch.complex128)
    value, pull = torch.func.vjp(NAMED[op].fn, a, b)  # type: ignore
    ones = torch.ones_like(value)
    if not all(torch.allclose(v * 1j, w) for v, w in zip(pull(ones), pull(ones * 1j))):
        raise OperatorError(
            f"{NAMED[op]} is not holomorphic, so a scan by it has no complex derivatives: scan a tuple of real and "
            "imaginary part, or pass x.detach()"
        )
    _HOLOMORPHIC.add(op)


_HOLOMORPHIC: set[str] = set()


# --- linear recurrences -----------------------------------------------------------------------------------------------


@torch.library.custom_op("upsweep::recurrence", mutates_args=())
def _recurrence(
    a: Tensor, b: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str
) -> Tensor:
    return _recurrence_into(None, a, b, initial, heads, dim, reverse, order)


def _recurrence_with_room(
    a: Tensor, b: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str
) -> Tensor:
    """The same; the gradient of a whole array reads the state before each item where it lies."""
    room = a.requires_grad and a.shape == b.shape and not b.is_complex()
    out = with_room(b, dim, reverse) if room else None
    return _recurrence_into(out, a, b, initial, heads, dim, reverse, order)


def _recurrence_into(
    out: Tensor | None, a: Tensor, b: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool,
    order: str,
) -> Tensor:  # fmt: skip
    start = None if initial is None else initial.detach().resolve_conj()
    a, b = a.detach().resolve_conj().expand(b.shape), b.detach().resolve_conj()
    how = {"initial": start, "segments": segments_of(heads, b, dim), "reverse": reverse, "order": order}
    return up.linear_recurrence(a, b, axis=dim, out=out, **how)


@_recurrence.register_fake
def _(a: Tensor, b: Tensor, *_: Any) -> Tensor:
    return b.new_empty(b.shape)


@_recurrence.register_vmap
def _(info: Any, in_dims: Any, a: Any, b: Any, initial: Any, heads: Any, dim: int, *rest: Any) -> Any:
    a, heads = batched(a, in_dims[0]), batched(heads, in_dims[3])
    b, initial = (batched(v, d, info.batch_size) for v, d in ((b, in_dims[1]), (initial, in_dims[2])))
    return _recurrence(a, b, initial, heads, dim + 1, *rest), 0  # type: ignore[call-arg]


def _recurrence_context(ctx: Any, inputs: Any, output: Tensor) -> None:
    a, _, initial, heads, ctx.dim, ctx.reverse, ctx.order = inputs
    ctx.save_for_backward(a, output, initial, heads)
    ctx.save_for_forward(a, output, initial, heads)


def _recurrence_backward(ctx: Any, g: Tensor) -> Any:
    a, h, initial, heads = ctx.saved_tensors
    given = ctx.dim, ctx.reverse, ctx.order
    if h.shape[ctx.dim] == 0:
        none = None if initial is None else torch.zeros_like(initial)
        return torch.zeros_like(a), torch.zeros_like(h), none, *[None] * 4
    if torch.is_grad_enabled() or h.is_complex():
        made = _composed_gradients(g, a, h, initial, heads, *given)
    else:
        made = _gradients(g, a, h, initial, heads, *given, ctx.needs_input_grad[0])
    da, db, into = made
    return da if ctx.needs_input_grad[0] else None, db, None if initial is None else into, *[None] * 4


def _composed_gradients(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """The gradients of a, b and initial, by operators that have gradients themselves; half precision is computed in float32."""
    dtype, given = h.dtype, a
    if dtype in (torch.float16, torch.bfloat16):
        g, a, h = g.float(), a.float(), h.float()
    if order == "tree" and a.shape == g.shape:
        later = recurrence(a.conj(), a.conj() * g, None, heads, dim, not reverse, order)
        s = g + before(later, _none_first(g, dim), heads, dim, not reverse)
    else:
        s = recurrence(ahead(a, dim, reverse).conj(), g, None, heads, dim, not reverse, order)
    first = _none_first(h, dim) if initial is None else initial.to(h.dtype)
    da = (s * before(h, first, heads, dim, reverse).conj()).sum_to_size(a.shape).to(dtype)
    db, into = s.to(dtype), None
    if initial is not None:
        into = over_starts(given.conj() * db, heads, dim, reverse).to(initial.dtype)
    return da, db, into


@torch.library.custom_op("upsweep::recurrence_gradients", mutates_args=())
def _recurrence_gradients(
    g: Tensor, a: Tensor, h: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str,
    wanted: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of a, if it is `wanted`, b and initial; empty where there is none."""
    g, a, h = (x.detach() for x in (g, a, h))
    start = None if initial is None else initial.detach()
    made = adjoint.gradients(g, a, h, start, heads, dim, reverse, order, wanted)
    return tuple(g.new_empty(0) if d is None else d for d in made)  # type: ignore[return-value]


@_recurrence_gradients.register_fake
def _(g: Tensor, a: Tensor, h: Tensor, initial: Any, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    da = a.new_empty(a.shape if rest[-1] else 0)
    return da, g.new_empty(g.shape), g.new_empty(0) if initial is None else initial.new_empty(initial.shape)


@_recurrence_gradients.register_vmap
def _(info: Any, in_dims: Any, g: Any, a: Any, h: Any, initial: Any, heads: Any, dim: int, *rest: Any) -> Any:
    g, a, h, initial = (batched(v, d, info.batch_size) for v, d in zip((g, a, h, initial), in_dims))
    made = _recurrence_gradients(g, a, h, initial, batched(heads, in_dims[4]), dim + 1, *rest)
    return made, (0 if rest[-1] else None, 0, None if initial is None else 0)


_gradients = plain(_recurrence_gradients)


def _recurrence_jvp(ctx: Any, da: Any, db: Any, d_initial: Any, *_: Any) -> Tensor:
    a, h, initial, heads = ctx.saved_tensors
    return recurrence_tangent(da, db, d_initial, a, h, initial, heads, ctx.dim, ctx.reverse, ctx.order)


def recurrence_tangent(
    da: Tensor | None, db: Tensor | None, d_initial: Tensor | None, a: Tensor, h: Tensor, initial: Tensor | None,
    heads: Tensor | None, dim: int, reverse: bool, order: str,
) -> Tensor:  # fmt: skip
    """The tangent of h: `dh[t] = a[t] dh[t-1] + (da[t] h[t-1] + db[t])`."""
    db = torch.zeros_like(h) if db is None else db
    if h.shape[dim] == 0:
        return db
    if da is not None:
        first = _none_first(h, dim) if initial is None else initial.to(h.dtype)
        db = da * before(h, first, heads, dim, reverse) + db
    return recurrence(a, db, d_initial, heads, dim, reverse, order)


_differentiable_recurrence = differentiable(
    _recurrence, _recurrence_context, _recurrence_backward, _recurrence_jvp, _recurrence_with_room
)


def recurrence(
    a: Tensor, b: Tensor, initial: Tensor | None, heads: Tensor | None, dim: int, reverse: bool, order: str = "tree"
) -> Tensor:  # fmt: skip
    """`h[t] = a[t] h[t-1] + b[t]`."""
    return _differentiable_recurrence(a, b, initial, heads, dim, reverse, order)
