"""PyTorch's tensors as they are told apart: by one question for all tensors of a call.

Tensors differ in seven things. PyTorch's compiler has a guard that compares all of these, of several tensors, and the modes of
this thread, in the time of two questions from Python. It knows neither whether gradients are recorded nor of tangents.
"""

from __future__ import annotations

import sys
from functools import cache
from operator import attrgetter
from typing import Any

from upsweep import homes
from upsweep.engine import EngineError

_MOST, _EACH = 4096, 8
"""Shapes whose tensors are remembered; one more, and all are forgotten. And guards of one shape: further tensors of it are asked
one by one."""


class Alike:
    """Stands for all tensors that a guard takes for those that it was made of."""

    __slots__ = "check", "followed", "graded"

    def __init__(self, xs: tuple[Any, ...], guard: Any) -> None:
        self.check = guard(*xs, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        self.graded = any(x.requires_grad for x in xs)
        """Whether gradients of one are recorded where gradients are."""
        self.followed = object()
        """Stands for the same tensors where gradients are recorded."""


_shape_of = attrgetter("shape")
_known: dict[tuple[Any, ...], list[Alike]] = {}
"""By the shapes of tensors."""


def likeness(xs: tuple[Any, ...]) -> Any:
    """The likeness of tensors: all that the checks of a scan look at. It stands for all tensors that their guard takes for these,
    or is a tuple.
    """
    recorded, _, forward = homes.followers()
    if forward._current_level >= 0:
        return tuple(map(_asked, xs))
    try:
        shapes = tuple(map(_shape_of, xs))
    except RuntimeError:
        # A nested tensor has none.
        return tuple(map(_asked, xs))
    for one in _known.get(shapes, ()):
        if one.check(*xs):
            break
    else:
        one = _made(shapes, xs)
        if one is None:
            return tuple(map(_asked, xs))
    return one.followed if one.graded and recorded() else one


def _made(shapes: tuple[Any, ...], xs: tuple[Any, ...]) -> Alike | None:
    guard, (_, wrapped, _) = _guard(), homes.followers()
    # A guard takes no tensor twice.
    if (
        guard is None
        or len(_known.get(shapes, ())) >= _EACH
        or len({*map(id, xs)}) < len(xs)
        or any(map(wrapped, xs))
    ):
        return None
    try:
        for x in xs:
            x.stride()
        one = Alike(xs, guard)
    except (RuntimeError, TypeError):
        # A sparse tensor has no strides. PyTorch makes no promise about the parts of a guard.
        return None
    if len(_known) >= _MOST:
        _known.clear()
    _known.setdefault(shapes, []).append(one)
    return one


@cache
def _guard() -> Any:
    """PyTorch promises none."""
    return getattr(sys.modules["torch"]._C._dynamo.guards, "TensorGuards", None)


def _asked(x: Any) -> tuple[Any, ...]:
    try:
        return x.dtype, x.shape, x.stride(), x.device, x.is_neg(), x.is_conj(), homes.transformed(x)
    except RuntimeError:
        # A sparse or nested tensor has no strides: a call with it is never found, and `view` refuses it.
        return [], True


def check_dense(x: Any) -> None:
    """An EngineError where the items of a tensor do not lie in memory as they are."""
    torch = sys.modules["torch"]
    if x.layout is not torch.strided or x.is_quantized or x.is_nested:
        kind = "nested" if x.is_nested else "quantized" if x.is_quantized else str(x.layout)
        raise EngineError(
            f"a {kind} tensor has no items side by side to scan: pass {_DENSE.get(kind, 'x.to_dense()')}"
        )


_DENSE = {
    "nested": "x.values() with segments=upsweep.segments.offsets(x.offsets()) of one whose layout is torch.jagged",
    "quantized": "x.dequantize()",
}
