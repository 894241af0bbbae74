"""From Python functions to machine code: the one place where code is compiled."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numba.core.errors import NumbaError

from upsweep.cpu import image
from upsweep.cpu.code import Piece
from upsweep.cpu.hole import HOLE, filling, operand
from upsweep.cpu.kept import Code
from upsweep.cpu.memory import inner
from upsweep.operator import Operator, uncompilable
from upsweep.scalars.rules import Refused

_KERNEL = "upsweep.kernel"


def frame(piece: Piece) -> bytes:
    """LLVM's code of a piece. What can be optimised without the operator in its hole, is: that leaves less to do for each one."""
    module = _written(piece.make, (types.int64,) * piece.arguments, types.void, _KERNEL, piece.op)
    if piece.accumulators:
        _optimise(module)
    return module.as_bitcode()


@lru_cache(256)
def operator(op: Operator, accumulators: tuple[np.dtype, ...]) -> bytes:
    """LLVM's code of an operator for a hole of these types."""
    ty = operand(accumulators)
    return _written(lambda: filling(op.fn, accumulators), (ty, ty), ty, HOLE, op).as_bitcode()


def machine_code(frame: bytes, filling: bytes | None, name: str) -> Code:
    """The machine code of a frame with what fills its hole, as a function of this name."""
    module = llvm.parse_bitcode(frame)
    if filling is not None:
        module.link_in(llvm.parse_bitcode(filling))
        _hide_all_but(_KERNEL, module)
    module.get_function(_KERNEL).name = name
    _optimise(module)
    made = _machine().emit_object(module)
    if image.HERE:
        return image.image_of(made)
    needs = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    return Code(made, needs)


def _written(make: Callable[[], Any], arguments: Sequence[Any], result: Any, name: str, op: Any) -> Any:
    """A function as numba writes it down, the only one in its module that has a name to others."""
    try:
        made = inner(make()).get_compile_result(result(*arguments))
    except (NumbaError, Refused) as error:
        raise uncompilable(op, error) from error
    module = made.library._final_module
    module.get_function(made.fndesc.llvm_func_name).name = name
    _hide_all_but(name, module)
    return module


def _hide_all_but(name: str, module: Any) -> None:
    """numba numbers the functions of each process from one: those of two processes may have one name."""
    for part in (*module.functions, *module.global_variables):
        if not part.is_declaration and part.name != name:
            part.linkage = "internal"


def _optimise(module: Any) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(_machine(), options)
    builder.getModulePassManager().run(module, builder)


@cache
def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or llvm.get_host_cpu_features().flatten()
    anywhere: dict[str, Any] = {"reloc": "pic", "codemodel": "small"} if image.HERE else {"jit": True}
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=3, **anywhere
    )
