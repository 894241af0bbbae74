"""Functions that numba compiles by themselves, for Python to call, and keeps on disk in its own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import FunctionCache

from upsweep.cpu.interrupts import held_back
from upsweep.cpu.kept import digest


class _Cache(FunctionCache):
    """numba takes code from disk where the function's own file has not changed, whatever became of the functions that it calls
    and of the flags that numba goes by. Here all texts and flags count.
    """

    def __init__(self, fn: Any) -> None:
        super().__init__(fn)
        self._cache_file._source_stamp = digest(("jitted",), here=True)


def jitted(**options: Any) -> Callable[[Any], Any]:
    """A decorator of such functions. Other threads of Python run meanwhile."""

    def compiled(fn: Any) -> Any:
        made: Any = numba.njit(nogil=True, **options)(fn)
        if made is fn:
            # NUMBA_DISABLE_JIT leaves it to Python.
            return made
        made._cache = _Cache(fn)
        # numba asks for this by its name, in the first call of each types.
        compile_for = made._compile_for_args

        def uninterrupted(*args: Any, **keywords: Any) -> Any:
            with held_back():
                return compile_for(*args, **keywords)

        made._compile_for_args = uninterrupted
        return made

    return compiled
