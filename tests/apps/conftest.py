"""One fixture, `apps`: the applications on each kind of array. It takes NumPy's arrays from the test and gives NumPy's back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import upsweep.apps
from upsweep import engine
from upsweep.apps import compression, filters, hidden_markov, kinds, lexing, moving, polynomials


class Kind(NamedTuple):
    """One library's arrays in one memory, and what is patched while they are computed with."""

    library: str
    make: Callable[[np.ndarray], Any]
    on_gpu: bool = False
    patch: Callable[[pytest.MonkeyPatch], None] = lambda patch: None

    def owns(self, value: Any) -> bool:
        return (
            type(value).__module__.partition(".")[0] == self.library and engine.on_gpu(value) == self.on_gpu
        )

    @contextmanager
    def patched(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            self.patch(patch)
            yield

    def give(self, value: Any) -> Any:
        """A result as the test sees it: every array of a result must be of this kind."""
        if isinstance(value, tuple):
            return tuple(map(self.give, value))
        if self.owns(value):
            return kinds.host(value)
        assert not hasattr(value, "dtype"), f"a {type(value)} came out"
        return value if isinstance(value, (int, bytes)) else Seen(self, value)

    def take(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.take, value))
        return self.make(value) if isinstance(value, np.ndarray) else value


class Seen:
    """A module, function or object of upsweep. Its arrays are converted on their way in and out."""

    def __init__(self, kind: Kind, what: Any) -> None:
        self.kind, self.what = kind, what

    def __getattr__(self, name: str) -> Any:
        return self.kind.give(getattr(self.what, name))

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        taken = [self.kind.take(v) for v in args]
        named = {name: self.kind.take(v) for name, v in keywords.items()}
        with self.kind.patched():
            return self.kind.give(self.what(*taken, **named))

    @property
    def moves(self) -> bool:
        """Whether the engine's own moves do the work."""
        with self.kind.patched():
            return bool(moving.fast(self.kind.make(np.zeros(1))))

    def takes(self, dtype: Any) -> bool:
        """Whether the library computes with a dtype: PyTorch can do little with the wider unsigned integers."""
        dtype = np.dtype(dtype)
        wide = dtype.kind == "u" and dtype.itemsize > 1
        return self.kind.library == "numpy" or (
            dtype.kind in "biufc" and not (self.kind.library == "torch" and wide)
        )


def _without_moves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(moving, "fast", lambda x: None)
    patch.setattr(lexing, "automata", lambda name: None)
    for application in (compression, filters, hidden_markov, polynomials):
        patch.setattr(application, "loops", lambda name: None)
    patch.setattr(filters, "cascades", lambda name: None)


def _numpy() -> Kind:
    return Kind("numpy", lambda x: x)


def _scans() -> Kind:
    """NumPy by scans and scatters alone, as on an engine without moves of its own."""
    return _numpy()._replace(patch=_without_moves)


def _torch(device: str = "cpu") -> Kind:
    torch = pytest.importorskip("torch")
    return Kind("torch", lambda x: torch.asarray(np.array(x), device=device), device == "cuda")


def _torch_alone() -> Kind:
    """PyTorch by its own operations alone: the path of CUDA arrays, on a machine without CUDA."""

    def patch(patch: pytest.MonkeyPatch) -> None:
        _without_moves(patch)
        owns = _torch().owns
        ours = SimpleNamespace(
            choose=lambda xs: "cuda" if any(map(owns, xs)) else "cpu", on_gpu=owns, load=engine.load
        )
        patch.setattr(kinds, "engines", ours)

    return _torch()._replace(patch=patch)


ON_CPU = {"numpy": _numpy, "scans": _scans, "torch": _torch, "torch alone": _torch_alone}
ON_GPU = {
    "cupy": lambda: Kind("cupy", pytest.importorskip("cupy").asarray, True),
    "torch cuda": lambda: _torch("cuda"),
}


@pytest.fixture(scope="session", params=[*ON_CPU, *ON_GPU])
def apps(request, absent):
    if request.param in ON_GPU:
        request.getfixturevalue("cuda")
    if request.param == "torch cuda" and not pytest.importorskip("torch").cuda.is_available():
        absent("cuda", "PyTorch was built without it")
    return Seen({**ON_CPU, **ON_GPU}[request.param](), upsweep.apps)
