"""From Python functions to machine code: only this module compiles code."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numba.core.errors import NumbaError, UnsupportedBytecodeError

from upsweep.cpu import image
from upsweep.cpu.code import Unit
from upsweep.cpu.door import with_door
from upsweep.cpu.hole import HOLE, filling, operand
from upsweep.cpu.kept import Code, digest, kept
from upsweep.cpu.memory import inner
from upsweep.operator import Operator, OperatorError, uncompilable
from upsweep.scalars.rules import Refused

_KERNEL = "upsweep.kernel"


class Target(NamedTuple):
    """A processor to compile for."""

    machine: Any
    name: str
    images: bool
    """Whether code is loaded as images on the platform."""


@cache
def here() -> Target:
    cpu = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or llvm.get_host_cpu_features().flatten()
    return target(llvm.get_process_triple(), cpu, features, image.HERE)


@cache
def target(triple: str, cpu: str, features: str, images: bool) -> Target:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    found = llvm.Target.from_triple(triple)
    place: dict[str, Any] = {"reloc": "pic", "codemodel": "small"} if images else {"jit": True}
    machine = found.create_target_machine(cpu=cpu, features=features, opt=3, **place)
    return Target(machine, f"{triple} {cpu} {features}", images)


def compiled(unit: Unit, name: str, target: Target) -> Code:
    """The code of a unit, as a function of this name."""
    if not unit.accumulators:
        return _machine_code(_frame(unit, target), None, unit, name, target)
    # The operator comes first, as an operator may be one that cannot be compiled.
    filling = _operator(unit.op, unit.accumulators, unit.items)
    file = f"{digest((unit.frame, target.name), here=True)}.bc"
    return _machine_code(kept(file, lambda: Code(_frame(unit, target))).code, filling, unit, name, target)


def _frame(unit: Unit, target: Target) -> bytes:
    """LLVM's code of a unit, without the operator in its hole."""
    module = _written(unit.make, (types.int64,) * unit.arguments, types.void, _KERNEL, unit.op)
    if unit.beforehand:
        _optimise(module, target)
    return module.as_bitcode()


@lru_cache(256)
def _operator(op: Operator, accumulators: tuple[np.dtype, ...], items: tuple[np.dtype, ...]) -> bytes:
    """LLVM's code of an operator for a hole of these items."""
    ty = operand(items)
    return _written(lambda: filling(op.fn, accumulators, items), (ty, ty), ty, HOLE, op).as_bitcode()


def _machine_code(frame: bytes, filling: bytes | None, unit: Unit, name: str, target: Target) -> Code:
    module = llvm.parse_bitcode(frame)
    if filling is not None:
        module.link_in(llvm.parse_bitcode(filling))
        _hide_all_but(_KERNEL, module)
    if unit.door:
        with_door(module, _KERNEL, name, unit.arguments, target.machine.triple)
    else:
        module.get_function(_KERNEL).name = name
    _optimise(module, target)
    made = target.machine.emit_object(_halves_alone(module) if "float16" in str(unit.frame) else module)
    if target.images:
        return image.image_of(made)
    needs = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    return Code(made, needs)


_HALF = re.compile(r"fpext half (\S+) to (float|double)")
_STRICT = 'call {1} @llvm.experimental.constrained.fpext.{2}.f16(half {0}, metadata !"fpexcept.ignore")'


def _halves_alone(module: Any) -> Any:
    """The module with each float16 that is converted by itself read into a register of its own. LLVM reads it into the first
    place of a register whose other places stay: it waits for the last value there, which is often the prefix before the item.
    This comes last, as no loop over such conversions becomes vector code.
    """
    text = str(module)
    kinds = {kind for _, kind in _HALF.findall(text)}
    if not kinds:
        return module
    sizes = {"float": "f32", "double": "f64"}
    alone = _HALF.sub(lambda found: _STRICT.format(*found.groups(), sizes[found[2]]), text)
    for kind in kinds:
        alone += f"\ndeclare {kind} @llvm.experimental.constrained.fpext.{sizes[kind]}.f16(half, metadata)\n"
    return llvm.parse_assembly(alone)


def _written(make: Callable[[], Any], arguments: Sequence[Any], result: Any, name: str, op: Any) -> Any:
    """A function as numba writes it down. It is the only one in its module with a name to others."""
    try:
        made = inner(make()).get_compile_result(result(*arguments))
    except OperatorError:
        raise
    except (NumbaError, UnsupportedBytecodeError, Refused, TypeError, NotImplementedError) as error:
        raise uncompilable(op, error) from error
    module = made.library._final_module
    if any(f.is_declaration and f.name.startswith(_PYTHONS) for f in module.functions):
        raise uncompilable(op, "it runs without Python, and can neither print nor draw random numbers")
    module.get_function(made.fndesc.llvm_func_name).name = name
    _hide_all_but(name, module)
    return module


_PYTHONS = "Py", "numba_gil", "numba_get_"
"""The beginnings of the names of functions that need the interpreter or its state. A kernel that calls one waits for the
interpreter for ever.
"""


def _hide_all_but(name: str, module: Any) -> None:
    """numba numbers the functions of each process from one: the functions of two processes may have the same name."""
    for part in (*module.functions, *module.global_variables):
        if not part.is_declaration and part.name != name:
            part.linkage = "internal"


def _optimise(module: Any, target: Target) -> None:
    module.triple, module.data_layout = target.machine.triple, str(target.machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(target.machine, options)
    builder.getModulePassManager().run(module, builder)
