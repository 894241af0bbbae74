"""LLVM's part in finding addresses: of functions that numba or LLVM bring, and of object files on platforms without images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm


def address_of(name: str) -> int:
    """The address of a function of LLVM's, or of numba's helpers."""
    found = llvm.address_of_symbol(name)
    if found is None:
        from numba.core.registry import cpu_target

        # numba makes this on demand, and with it the helpers' names.
        _ = cpu_target.target_context
        found = llvm.address_of_symbol(name)
    if found is None:
        raise OSError(f"no library here has a function {name}")
    return found


def linked(machine_code: bytes, needs: Sequence[str], name: str) -> int:
    """The address of a function of an object file in this process, from now on."""
    for need in needs:
        address_of(need)
    linker = _linker()
    linker.add_object_file(llvm.ObjectFileRef.from_data(machine_code))
    linker.finalize_object()
    return linker.get_function_address(name)


@cache
def _linker() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
