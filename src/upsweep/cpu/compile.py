"""From a Python function to an object file: the one place where numba compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core.errors import NumbaError

from upsweep.cpu.memory import inner, named
from upsweep.operator import uncompilable
from upsweep.scalars.rules import Refused


def compiled(
    make: Callable[[], Callable[..., None]], arguments: int, name: str, op: Any
) -> tuple[str, list[str], bytes]:
    """The symbol of a function of int64, the symbols that it needs, and its machine code."""
    with named(name):
        code = inner(make())
        try:
            result = code.get_compile_result(types.void(*[types.int64] * arguments))
        except (NumbaError, Refused) as error:
            raise uncompilable(op, error) from error
    library = result.library
    functions = library._final_module.functions
    needs = [f.name for f in functions if f.is_declaration and not f.name.startswith("llvm.")]
    return result.fndesc.llvm_func_name, needs, library._get_compiled_object()
