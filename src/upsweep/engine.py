"""The one table of engines, and which of them is meant. Naming an engine is what imports it."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, cast

import numpy as np

from upsweep import cores
from upsweep.engine_protocol import Counting, Engine, Grouping, Picks
from upsweep.plan import Plan


class EngineError(RuntimeError):
    """The engine asked for is not known, cannot be imported, or cannot take these arrays."""


class DTypeError(TypeError):
    """A dtype that cannot be scanned, or a result that `out` cannot hold."""


class Operands(NamedTuple):
    """The arrays of a run, as an engine sees them, in the order in which the run is given them once more."""

    inputs: Sequence[Any]
    heads: Sequence[Any]
    """The flags of segments, where there are any."""
    outputs: Sequence[Any]
    starts: Sequence[Any]


Again = Callable[[tuple[Any, ...]], bool]
"""Runs a plan once more, on other arrays of the same dtypes, shapes and strides, and says whether it did. A number is an array of
NumPy's of one item; heads are the flags that the engine makes of segments, a user's flags as they lie, or the array of segments
as they were told."""


class Way(NamedTuple):
    """How the arrays of a type come to an engine that remembers their scans."""

    maker: Callable[[Any, tuple[int, ...], np.dtype], Callable[[Any], Any]]
    """Gives a function that makes new memory of a shape and dtype where its argument lies, an array like the one given here."""
    giver: Callable[[tuple[int, ...], np.dtype], Callable[[Any], Any] | None] = lambda shape, dtype: None
    """Gives a function that makes a result of such memory; None where the memory is one already."""
    reader: Callable[[Any], Callable[[Any], Any] | None] = lambda x: None
    """Gives a function from an array like this one to the argument that the engine takes for it; None where that is the array."""


class Likeness(NamedTuple):
    """How arrays of a type are told apart, but for where they lie."""

    of: Callable[[Any], tuple[Any, ...]]
    """All that a scan of an array is checked for, where nothing but that tells one from another."""
    ways: dict[str, Way]
    """By engine. Scans of arrays that another engine scans are not remembered."""
    writable: Callable[[Any], bool] = lambda y: True
    wrote: Callable[[Any], None] | None = None
    """Tells the library that an array was written to, where it asks."""
    together: Callable[[tuple[Any, ...]], Any] | None = None
    """Does for several arrays what `of` does for one, where that takes less time than to ask each."""


def memory(like: Any, shape: tuple[int, ...], dtype: np.dtype) -> Callable[[Any], np.ndarray]:
    """A function that makes memory of this machine. Where a NumPy array has the shape, the memory's dimensions follow each other
    as the array's do, as they do in NumPy's own results."""
    alike = type(like) is np.ndarray and like.shape == shape and not np.empty_like(like).flags.c_contiguous
    make: Callable[[Any], np.ndarray] = (
        (lambda x: np.empty_like(x, dtype)) if alike else lambda _: np.empty(shape, dtype)
    )
    if math.prod(shape) * dtype.itemsize < NEW or cores.wanted() > CLEARING:
        return make
    return lambda x: _cleared(make(x))


NEW = 1 << 25
"""From so many bytes on, memory comes from the system, which clears it: the C library keeps nothing larger for later."""
HUGE = 1 << 21
"""Linux clears a huge page from its far end towards the byte that is asked for first. So the last byte is asked for, and the page
is cleared upwards; scans would ask for the first one. 256 MiB, AMD, ms: first bytes 23, last bytes 10."""
CLEARING = 2
"""So many threads have one thread clear memory for them. With more threads this was not measured, and each clears what it meets.
Speed of scans of 256 MiB with one and with two threads, AMD, loaded, so beside the other way: float32 1.47 1.48, float64 1.44
1.22, int32 1.48 1.60, axis 0 1.53 1.56, rows of 1000 1.30 1.34; 32 MiB of float32 1.32 1.33."""


def _cleared(y: np.ndarray) -> np.ndarray:
    """New memory, whose huge pages the system clears now."""
    y.ravel("K").view(np.uint8)[HUGE - 1 - y.ctypes.data % HUGE :: HUGE] = 0
    return y


LIKENESS: dict[type, Likeness] = {
    np.ndarray: Likeness(
        lambda x: (x.dtype, x.shape, x.strides),
        {"cpu": Way(memory, lambda shape, dtype: None if shape else lambda y: y[()])},
        lambda y: y.flags.writeable,
        together=lambda xs: tuple([(x.dtype, x.shape, x.strides) for x in xs]),
    )
}
"""The types of arrays whose scans are remembered; an engine adds those that it comes to know."""


class Row(NamedTuple):
    """One engine in the table."""

    module: str
    place: str
    """Where the arrays lie that it takes: "host" or "cuda"."""
    install: str
    groups: str
    moves: str | None = None
    automata: str | None = None
    loops: str | None = None
    again: str | None = None
    """For arrays of the types in LIKENESS, where checking a call would take longer than the scan."""
    layers: str | None = None
    cascades: str | None = None
    sums: str | None = None
    counting: str | None = None
    """Where a chunk of a few items in one go takes less time than in aligned parts."""
    picks: str | None = None


ENGINES = {
    "cuda": Row(
        "upsweep.gpu",
        "cuda",
        "pip install 'upsweep[cuda13]'   (or 'upsweep[cuda12]')",
        "upsweep.gpu.groups",
        "upsweep.gpu.moves",
        "upsweep.gpu.automata",
        again="upsweep.gpu.again",
        layers="upsweep.gpu.layers",
        cascades="upsweep.gpu.cascades",
        sums="upsweep.gpu.summing",
        picks="upsweep.gpu.picks",
    ),
    "cpu": Row(
        "upsweep.cpu",
        "host",
        "pip install numba",
        "upsweep.cpu.groups",
        "upsweep.cpu.moves",
        "upsweep.cpu.automata",
        "upsweep.cpu.loops",
        "upsweep.cpu.again",
        "upsweep.cpu.layers",
        "upsweep.cpu.cascades",
        counting="upsweep.cpu.counted",
    ),
    "numpy": Row("upsweep.numpy_engine", "host", "pip install numpy", "upsweep.numpy_engine.groups"),
}
"""By priority: of the engines for a place, "auto" means the first that can be imported."""


@cache
def load(name: str) -> Engine:
    """The engine of that name.

    >>> load("numpy").__name__
    'upsweep.numpy_engine'
    """
    if name not in ENGINES:
        raise EngineError(f"no engine is called {name!r}; there are 'auto', {', '.join(map(repr, ENGINES))}")
    try:
        return cast(Engine, import_module(ENGINES[name].module))
    except (ImportError, OSError) as missing:
        # llvmlite raises an OSError where its library is missing.
        raise EngineError(
            f"the {name} engine needs a package that is not here ({missing}): {ENGINES[name].install}"
        ) from missing


def grouping(name: str) -> Grouping:
    """The scans of groups of the engine of that name."""
    return cast(Grouping, import_module(ENGINES[name].groups))


@cache
def counting(name: str) -> Counting | None:
    """The scans of a few items behind others, where the engine of that name has them."""
    module = ENGINES[name].counting
    return cast(Counting, import_module(module)) if module else None


def picks(name: str) -> Picks | None:
    """The functions that pick items of segments, of an engine whose arrays are not in this machine's memory; None of others."""
    module = ENGINES[name].picks
    return cast(Picks, import_module(module)) if module else None


def again(name: str, plan: Plan, views: Operands, given: Sequence[Any]) -> Again | None:
    """A function that runs a plan again on arrays that lie like these views, where the engine of that name has one. `given` are
    the same as they were given; None where they are made anew for each call, and segments that the engine is to make flags of."""
    module = ENGINES[name].again
    return import_module(module).again(plan, views, given) if module else None


def choose(xs: Sequence[Any]) -> str:
    """The engine that "auto" means for these arrays: the first one that is here for the device that holds them.

    >>> choose([np.zeros(3)]) in ("cpu", "numpy")
    True
    """
    for x in xs:
        # `on_gpu` asks that too, and a call takes longer than the question.
        if type(x) is not np.ndarray and on_gpu(x):
            return _first_of("cuda")
    return _first_of("host")


@cache
def _first_of(place: str) -> str:
    """The first engine for a place that can be imported; where there is none, the first one, whose import names the missing
    package.
    """
    names = [name for name, row in ENGINES.items() if row.place == place]
    return next(filter(_here, names), names[0])


def _here(name: str) -> bool:
    """Whether an engine can be imported. Nobody has asked for a package that is not installed; one that fails is warned of."""
    try:
        load(name)
    except EngineError as missing:
        if not isinstance(missing.__cause__, ModuleNotFoundError):
            warnings.warn(f"{missing}; until then the next engine runs", RuntimeWarning, stacklevel=5)
        return False
    return True


def library_of(x: Any) -> str:
    """The package that an array comes from.

    >>> library_of(np.zeros(3))
    'numpy'
    """
    return package_of(type(x))


_LIBRARIES = {"cupy", "dask", "jax", "jaxlib", "numpy", "pandas", "polars", "torch", "xarray"}


@cache
def package_of(kind: type) -> str:
    """The package of a type; of a subclass the first library among its base classes."""
    packages = [base.__module__.partition(".")[0] for base in kind.__mro__]
    return next(filter(_LIBRARIES.__contains__, packages), packages[0])


def on_gpu(x: Any) -> bool:
    """Whether an array lies on an NVIDIA GPU, by the interfaces that arrays of every library offer."""
    if type(x) is np.ndarray:
        return False
    # PyTorch's own answer takes a tenth of the time of the interfaces below.
    told = getattr(x, "is_cuda", None)
    if told is not None:
        if told and getattr(getattr(sys.modules.get("torch"), "version", None), "hip", None):
            raise EngineError(_AMD)
        return told
    # pandas looks for a name that it has not among its columns.
    if library_of(x) == "pandas":
        return False
    device = getattr(x, "__dlpack_device__", None)
    if device is not None:
        try:
            kind = int(device()[0])
        except (BufferError, TypeError):
            # JAX's arrays on several devices lie in no one place, and deleted ones in none.
            return False
        # DLPack's numbers: 10 is kDLROCM, 2 and 13 are kDLCUDA and kDLCUDAManaged.
        if kind == 10:
            raise EngineError(_AMD)
        return kind in (2, 13)
    return getattr(x, "__cuda_array_interface__", None) is not None


_AMD = "the array lies on an AMD GPU (ROCm), and upsweep's GPU engine is for NVIDIA's: pass x.cpu(), which is scanned there"
