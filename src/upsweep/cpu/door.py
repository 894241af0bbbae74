"""The door of a kernel: behind it floats are what IEEE 754 says, whatever mode the calling thread is in.

Libraries set "flush to zero" in a thread, as `torch.set_flush_denormal` does. The bits of a scan would then hang on
the thread that took a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir

_I8, _I32, _I64 = (ir.IntType(bits) for bits in (8, 32, 64))


class _Mode(NamedTuple):
    """The register that says how a processor computes with floats."""

    size: Any
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]
    notes: int
    """Bits that only note exceptions that have happened."""
    plain: int


def with_door(module: Any, inner: str, name: str, arguments: int, triple: str) -> None:
    """Put a function `name` before the function `inner` of a module, which it calls with its own arguments."""
    function = module.get_function(inner)
    mode = _MODES.get(triple.partition("-")[0])
    if mode is None:
        function.name = name
        return
    function.add_function_attribute("noinline")
    module.link_in(llvm.parse_assembly(str(_door(inner, name, arguments, mode))))
    function.linkage = "internal"


def _door(inner: str, name: str, arguments: int, mode: _Mode) -> ir.Module:
    made = ir.Module()
    kind = ir.FunctionType(_I32, [_I8.as_pointer()] * 2 + [_I64] * arguments)
    behind, door = ir.Function(made, kind, inner), ir.Function(made, kind, name)
    builder = ir.IRBuilder(door.append_basic_block())
    found = mode.read(builder)
    told = builder.and_(found, mode.size(~mode.notes))
    with builder.if_then(builder.icmp_unsigned("!=", told, mode.size(mode.plain)), likely=False):
        mode.write(builder, mode.size(mode.plain))
        done = builder.call(behind, door.args)
        mode.write(builder, found)
        builder.ret(done)
    builder.ret(builder.call(behind, door.args))
    return made


def _instruction(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    kind = ir.FunctionType(result, [a.type for a in arguments])
    return builder.call(
        builder.module.globals.get(name) or ir.Function(builder.module, kind, name), arguments
    )


def _read_x86(builder: Any) -> Any:
    place = builder.alloca(_I32)
    _instruction(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), builder.bitcast(place, _I8.as_pointer()))
    return builder.load(place)


def _write_x86(builder: Any, value: Any) -> None:
    place = builder.alloca(_I32)
    builder.store(value, place)
    _instruction(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), builder.bitcast(place, _I8.as_pointer()))


def _read_arm(builder: Any) -> Any:
    return _instruction(builder, "llvm.aarch64.get.fpcr", _I64)


def _write_arm(builder: Any, value: Any) -> None:
    _instruction(builder, "llvm.aarch64.set.fpcr", ir.VoidType(), value)


_ARM = _Mode(_I64, _read_arm, _write_arm, 0, 0)
_MODES = {"x86_64": _Mode(_I32, _read_x86, _write_x86, 0x3F, 0x1F80), "aarch64": _ARM, "arm64": _ARM}
"""By the processor of a triple."""
