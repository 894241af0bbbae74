"""A Python function as numba-cuda's device function: for the textbook's kernels, and for operators of the CUDA engine."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from upsweep.arithmetic import fma
from upsweep.keys import is_function, rebuilt


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
    return cuda.jit(
        rebuilt(fn, lambda value: on_device(value) if is_function(value) else value, __name__), device=True
    )


def scalars_on_device(fn: Any) -> Any:
    """A Python function of numbers or tuples of them as a device function that computes as NumPy's scalars do."""
    cuda, made, strong = numba_cuda(), _of_scalars(fn), compiler().strong()
    return cuda.jit(lambda *operands: made(*strong(operands)), device=True)


@cache
def compiler() -> Any:
    """numba-cuda, once it knows of NumPy's scalars."""
    numba_cuda()
    from numba.cuda.core import imputils
    from numba.cuda.extending import intrinsic
    from numba.cuda.models import register_model
    from numba.cuda.typing import templates

    from upsweep.scalars.compiled import Compiler

    return Compiler(_of_scalars, intrinsic, templates, imputils, register_model)


def _of_scalars(fn: Any) -> Any:
    cuda = numba_cuda()
    if fn is fma:
        return compiler().multiply_add()
    return cuda.jit(compiler().made_over(fn, __name__), device=True)
