"""The names that a textbook kernel is written with, and the one function that gives them a meaning.

A kernel is a plain Python function in the dialect of numba.cuda. The names below stand for what is settled only when
it is launched: the operator, its identity, the type of an item, and the sizes that shape shared memory. `bind` puts
real things behind them: the tracer binds Python functions, a GPU run binds `numba.cuda` and compiled ones. The code of
the kernel is the same object in both.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any


class _Unbound:
    """`cuda` before a kernel is launched."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"cuda.{name} has no meaning here: trace the kernel with upsweep.lab, or run it on a GPU"
        )


def _unbound(a: Any, b: Any) -> Any:
    raise RuntimeError("op has no meaning here: trace the kernel with upsweep.lab, or run it on a GPU")


cuda: Any = _Unbound()
op: Callable[[Any, Any], Any] = _unbound
"""The operator; the left operand is always the earlier one."""
identity: Any = None
"""The operator's identity, which only exclusive kernels need."""
dtype: Any = None
"""The type of an item."""
BLOCK = 0
"""Threads of a block."""
TILE = 0
"""Items that a block scans."""
ITEMS = 0
"""Neighbouring items that one thread scans by itself."""
WORDS = 0
"""Words of shared memory, where they are not BLOCK or TILE."""
WARP = 32
"""Threads of a warp."""
LOG_BANKS = 5
"""log2 of the number of shared memory banks, the shift of a padded index."""
SPARSITY = 2
"""In a sparse circuit, every SPARSITY-th wire goes through the inner network."""
FAN = 1
"""In a circuit with a fan-out, FAN neighbours share a source."""


def asks_for_identity(kernel: Callable[..., Any]) -> bool:
    """Whether a kernel uses the identity, as the exclusive ones do."""
    return "identity" in getattr(kernel, "py_func", kernel).__code__.co_names


def bind(kernel: Callable[..., Any], **names: Any) -> types.FunctionType:
    """The code of a kernel with these names behind its globals.

    >>> def kernel(a): return op(a, BLOCK)
    >>> bind(kernel, op=lambda a, b: a * b, BLOCK=7)(6)
    42
    """
    function = getattr(kernel, "py_func", kernel)
    return types.FunctionType(
        function.__code__, {**function.__globals__, **names}, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
