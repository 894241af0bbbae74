"""A Python function as numba-cuda's device function: for the textbook's kernels, and for operators of the CUDA engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from upsweep.arithmetic import fma
from upsweep.keys import rebuilt


def numba_cuda() -> Any:
    """The module numba.cuda. Up to 0.30 it asks NumPy for a name that NumPy 2.5 has given up."""
    np.__dict__.setdefault("row_stack", np.vstack)
    from numba import cuda

    return cuda


def on_device(fn: Any) -> Any:
    """A Python function, and the functions that it calls, as numba-cuda's device functions."""
    cuda = numba_cuda()
    if fn is fma:
        return cuda.jit(lambda a, b, c: cuda.fma(a, b, c), device=True)  # pyright: ignore[reportCallIssue]
    return cuda.jit(rebuilt(fn, on_device, __name__), device=True)
