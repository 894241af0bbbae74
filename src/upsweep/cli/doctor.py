"""A report of the installed packages, found without importing them where possible."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from upsweep import cores, engine, short_way


@dataclass(frozen=True)
class Line:
    """One engine or one kind of arrays: whether it works here, in which version, and the command that adds it."""

    name: str
    here: bool
    version: str
    add: str = ""


_CUDA = ("cuda-core", "cuda-bindings", "numba-cuda")
_ARRAYS = {
    "PyTorch tensors": ("torch", "pip install torch"),
    "JAX arrays": ("jax", "pip install jax"),
    "CuPy arrays": ("cupy", "pip install cupy-cuda13x"),
    "Dask arrays": ("dask", "pip install 'dask[array]'"),
    "pandas tables": ("pandas", "pip install pandas"),
    "polars tables": ("polars", "pip install polars"),
    "xarray": ("xarray", "pip install xarray"),
    "bfloat16": ("ml_dtypes", "pip install 'upsweep[bfloat16]'"),
    "applications on a GPU": ("array_api_compat", "pip install array-api-compat"),
    "Zarr files": ("zarr", "pip install zarr"),
    "tables (csv, parquet)": ("pyarrow", "pip install 'upsweep[cli]'"),
    "the demo's pictures": ("matplotlib", "pip install 'upsweep[demo]'"),
}


def engines() -> Iterator[Line]:
    """A line for each engine, then for what works with them."""
    yield from map(_engine, sorted(engine.ENGINES))
    for name, (module, add) in _ARRAYS.items():
        here = find_spec(module) is not None
        yield Line(name, here, _version(module) if here else "", "" if here else add)


def _engine(name: str) -> Line:
    try:
        engine.load(name)
    except engine.EngineError as missing:
        add = engine.ENGINES[name].install + _LOST.get(name, "")
        return Line(f"engine {name}", False, _reason(missing), add)
    runs_on, lacks = _RUNS_ON[name]() if name in _RUNS_ON else ("", "")
    return Line(f"engine {name}", not lacks, runs_on, lacks)


def _on_gpus() -> tuple[str, str]:
    versions = ", ".join(f"{name} {_version(name)}" for name in _CUDA)
    found = _gpus()
    return f"{found} GPUs, {versions}", "" if found else "an NVIDIA GPU and its driver"


_LOST = {"cpu": ": without it scans run on NumPy, in one thread and many times slower"}
"""The loss where an engine is missing."""
_RUNS_ON: dict[str, Callable[[], tuple[str, str]]] = {
    "cpu": lambda: (f"numba {_version('numba')}, NumPy {_version('numpy')}", ""),
    "cuda": _on_gpus,
    "numpy": lambda: (f'NumPy {_version("numpy")}, what "auto" means where numba is not', ""),
}
"""The packages and devices that an engine runs on, and those that are missing."""


def _reason(error: BaseException) -> str:
    return f"({error.__cause__ or error})"


def _gpus() -> int:
    """How many GPUs the driver shows; 0 without a driver."""
    driver: Any = import_module("cuda.bindings.driver")
    try:
        driver.cuInit(0)
        return int(driver.cuDeviceGetCount()[1])
    # The exception without a driver differs between versions of the bindings.
    except Exception:
        return 0


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


def surroundings() -> Iterator[tuple[str, str]]:
    """Further lines that the report of a fault needs."""
    yield "upsweep", _version("upsweep")
    yield "Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    part = (
        "run in C"
        if short_way.part is not None
        else "run in Python, as the package was built without a C compiler"
    )
    yield "small calls", part
    yield "cores", f"{cores.cores()}, threads of a scan: {cores.wanted()}"
