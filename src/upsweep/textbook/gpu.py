"""Textbook kernels on a GPU, through numba-cuda: the same code objects that the lab traces."""

from __future__ import annotations

import types
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from upsweep.device_functions import numba_cuda, on_device
from upsweep.engine import ENGINES, EngineError
from upsweep.operator import Operator, OperatorError
from upsweep.operators import as_operator
from upsweep.textbook.dialect import asks_for_identity, bind
from upsweep.textbook.table import Kernel, Launch, Setup

LARGEST_BLOCK = 1024


def run(row: Kernel, x: Any, op: Any = "add", block: int | None = None) -> np.ndarray:
    """Run one kernel of the table on the current device; see `upsweep.textbook.run`."""
    x = np.ascontiguousarray(x)
    setup = row.setup(len(x), block or row.block(len(x)), 32)
    most = max(one.block for one in setup.launches)
    if most > LARGEST_BLOCK:
        raise ValueError(f"{row.name} would need a block of {most} threads; it is for {row.contract}")
    return launch(setup, x, as_operator(op))


def launch(setup: Setup, x: np.ndarray, op: Operator) -> np.ndarray:
    """Run the launches of a setup one after the other and fetch `y`."""
    cuda = _cuda()
    memory: dict[str, Any] = {
        name: cuda.device_array_like(words)
        if isinstance(setup.buffers.get(name), int)
        else cuda.to_device(words)
        for name, words in buffers(setup, x).items()
    }
    for one in setup.launches:
        kernel: Any = cuda.jit(bound(one, op, x.dtype), lineinfo=True)
        args = [memory[a] if isinstance(a, str) else a for a in one.args]
        with warnings.catch_warnings():
            # numba warns of grids that leave most of a GPU without work. A kernel that is studied has few blocks on purpose.
            warnings.filterwarnings("ignore", ".*Grid size")
            configured = kernel[one.grid, one.block, 0, one.shared * x.dtype.itemsize]
        configured(*args)
    return memory["y"].copy_to_host()


def _cuda() -> Any:
    """numba.cuda with a GPU, or an EngineError that says what is missing."""
    try:
        found = numba_cuda()
    except ImportError as missing:
        raise EngineError(
            f"the GPU needs a package that is not here ({missing}): {ENGINES['cuda'].install}"
        ) from missing
    if not found.is_available():
        raise EngineError(
            "there is no NVIDIA GPU here: upsweep.lab.trace(name, x=x) runs a kernel without one"
        )
    return found


def buffers(setup: Setup, x: np.ndarray) -> dict[str, np.ndarray]:
    """The memory that a setup asks for: items of x's dtype, and int32 where it holds numbers from the start."""
    made: dict[str, np.ndarray] = {"x": x}
    for name, content in setup.buffers.items():
        made[name] = np.empty(content, x.dtype) if isinstance(content, int) else np.array(content, np.int32)
    return made


def bound(launch: Launch, op: Operator, dtype: np.dtype) -> types.FunctionType:
    """The kernel of a launch with numba-cuda, the compiled operator and the sizes behind its names."""
    from numba import from_dtype

    cuda = numba_cuda()
    assert not isinstance(launch.kernel, str)
    neutral = op.identity(dtype) if callable(op.identity) else op.identity
    if neutral is None and asks_for_identity(launch.kernel):
        raise OperatorError(f"{launch.kernel.__name__} needs the identity of {op}, which has none")
    names: Mapping[str, Any] = {
        "cuda": cuda, "op": on_device(op.fn), "dtype": from_dtype(dtype),
        "identity": None if neutral is None else dtype.type(neutral), **launch.names,
    }  # fmt: skip
    return bind(launch.kernel, **names)
