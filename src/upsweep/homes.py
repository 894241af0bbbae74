"""Arrays that a module for their own library scans: in chunks and lazily, or so that derivatives and transforms go through.

An engine that meets such an array raises `Elsewhere`; a public function then calls its namesake there. So nothing is imported and
nothing is asked where an array's memory can be read as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, wraps
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from upsweep.engine import EngineError, library_of, package_of

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Home(NamedTuple):
    """The module for the arrays of a library."""

    module: str
    takes: Callable[[Any], bool]
    """Which of the library's arrays are scanned there alone."""
    what: str
    """Such an array, in words."""
    instead: str
    """The way out where the module cannot do what is asked, for the error."""


def transformed(x: Any) -> bool:
    """Whether PyTorch follows what is done to a tensor: it requires gradients, where they are recorded, has a tangent, or is one
    of `torch.func`'s."""
    recorded, wrapped, forward = followers()
    return (
        (x.requires_grad and recorded())
        or wrapped(x)
        or (forward._current_level >= 0 and forward.unpack_dual(x).tangent is not None)
    )


@cache
def followers() -> tuple[Callable[[], bool], Callable[[Any], bool], Any]:
    """Whether PyTorch records gradients, whether a tensor is one of a transform, and the module of tangents."""
    torch = sys.modules["torch"]
    return torch.is_grad_enabled, torch._C._functorch.is_functorch_wrapped_tensor, torch.autograd.forward_ad


def _traced(x: Any) -> bool:
    return isinstance(x, sys.modules["jax"].core.Tracer)


HOMES = {
    "dask": Home(
        "upsweep.dask", lambda x: True, "an array in chunks", "pass x.compute(), which loads all chunks"
    ),
    "torch": Home(
        "upsweep.torch",
        transformed,
        "a tensor with derivatives or without memory",
        "pass x.detach(), which has no derivatives",
    ),
    "jax": Home("upsweep.jax", _traced, "an array that JAX traces", "call it outside jit, grad and vmap"),
}


def integer_bytes(x: Any) -> int:
    """The bytes of the default integer of an array's library."""
    wide = library_of(x) not in ("jax", "jaxlib") or sys.modules["jax"].config.read("jax_enable_x64")
    return np.dtype(np.int_).itemsize if wide else 4


def warn_of_width(x: Any, dtypes: Sequence[np.dtype]) -> None:
    """Let JAX warn in its own words where it has no array of a dtype that was asked for, and gives a narrower one."""
    if library_of(x) in ("jax", "jaxlib"):
        for dtype in dtypes:
            sys.modules["jax"].numpy.zeros(0, dtype)


def compiling() -> bool:
    """Whether PyTorch's compiler follows what is done, arrays of NumPy included, or looks at the frames of this thread. It passes
    over a frame without tensors, and follows what that one calls."""
    modules = sys.modules
    return "torch" in modules and (
        modules["torch"].compiler.is_dynamo_compiling() or ("torch._dynamo" in modules and looked_at())
    )


def looked_at() -> bool:
    """Whether PyTorch's compiler, which is imported, looks at the frames of this thread."""
    looks = _look_by()
    looking = looks(None)
    if looking is None:
        return False
    looks(looking)
    return True


@cache
def _look_by() -> Callable[[Any], Any]:
    """PyTorch's function, in every version, that sets who looks at the frames of this thread, and tells who did before."""
    return sys.modules["torch"]._C._dynamo.eval_frame.set_eval_frame


def uncompiled(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """The result of a function that PyTorch's compiler does not follow: its graph breaks here, and does not break in the
    namesake in upsweep.torch."""
    disable = sys.modules["torch"].compiler.disable
    return disable(function)(*args, **keywords)


class Elsewhere(EngineError):
    """An array that is scanned by the module for its library alone."""

    def __init__(self, library: str) -> None:
        self.library, self.home = library, HOMES[library]
        super().__init__(
            f"{self.home.what} is scanned by {self.home.module} alone, which has no such function: {self.home.instead}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Elsewhere, (self.library,)

    def instead(self, function: Callable[..., Any], given: dict[str, Any]) -> Any:
        """The result of a public function's namesake there, given the arguments that differ from their defaults."""
        if compiling():
            return uncompiled(self.instead, function, given)
        there = getattr(import_module(self.home.module), function.__name__, None)
        if there is None:
            raise self
        operands, keywords = _parameters(function)
        told = {name: given[name] for name, default in keywords.items() if given[name] is not default}
        known = _parameters(there)
        unknown = [name for name in told if name not in known[0] and name not in known[1]]
        if unknown:
            raise EngineError(
                f"{self.home.module}.{function.__name__}, which scans this array, takes no {', '.join(unknown)}: leave it out, "
                f"or {self.home.instead}"
            )
        return there(*[given[name] for name in operands], **told)


def check(x: Any) -> None:
    """Raise `Elsewhere` for an array that an engine cannot read."""
    library = library_of(x)
    if library in HOMES and HOMES[library].takes(x):
        raise Elsewhere(library)


@cache
def _parameters(function: Callable[..., Any]) -> tuple[Sequence[str], dict[str, Any]]:
    """The names of a function's operands, and its keywords with their defaults. To ask the function takes 30 us."""
    found = signature(function).parameters.values()
    keywords = {p.name: p.default for p in found if p.kind is Parameter.KEYWORD_ONLY}
    return [p.name for p in found if p.kind is not Parameter.KEYWORD_ONLY], keywords


@cache
def _has_home(kind: type) -> bool:
    """Whether arrays of a type may be scanned elsewhere; to ask for the library of each array takes longer."""
    return package_of(kind) in HOMES


def apart(function: _Function) -> _Function:
    """The function, which PyTorch's compiler does not look into."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        if compiling():
            return uncompiled(function, *args, **keywords)
        return function(*args, **keywords)

    return cast(_Function, call)


def first(function: _Function) -> _Function:
    """The function, or its namesake in the home of one of its arguments. A scan that finds out when it looks at its arrays costs
    nothing here; a function that makes arrays of its arguments asks before."""
    parameters = signature(function)

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        if compiling():
            return uncompiled(call, *args, **keywords)
        try:
            for x in (*args, *keywords.values()):
                if _has_home(type(x)):
                    check(x)
        except Elsewhere as there:
            bound = parameters.bind(*args, **keywords)
            bound.apply_defaults()
            return there.instead(function, bound.arguments)
        return function(*args, **keywords)

    return cast(_Function, call)
