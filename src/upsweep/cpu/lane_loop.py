"""Loops over lanes, of which LLVM makes vector code of a single step, and over rows, whose arrays need not lie apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from upsweep.cpu.address import I32, I64


def each_lane_of(lanes: int) -> Any:
    """LLVM's vectoriser leaves short loops alone, since such loops are unrolled before it comes. So this loop is written down
    with a word against unrolling.
    """

    @intrinsic
    def each_lane(typing, body, arguments):
        wanted = _wanted(typing, body, arguments)

        def code(context, builder, signature, values):
            _, back = _loop(context, builder, body, wanted, I64(lanes), values[1])
            done = _word(builder.module, "llvm.loop.isvectorized", I32(1))
            _tell(
                builder.module,
                back,
                _word(builder.module, "llvm.loop.unroll.disable"),
                _word(builder.module, "llvm.loop.vectorize.followup_vectorized", done),
            )
            return context.get_dummy_value()

        return types.void(body, arguments), code

    return each_lane


@intrinsic
def each_row(typing, body, rows, arguments):
    """Call a function for each of at least one row, with the row's number. Rows have nothing to do with each other, and arrays
    that overlap do so item for item. So LLVM need not ask, and makes vector code of scans in place.
    """
    wanted = _wanted(typing, body, arguments)

    def code(context, builder, signature, values):
        calls, back = _loop(context, builder, body, wanted, values[1], values[2])
        apart = _Distinct(builder.module)
        for call in calls:
            call.set_metadata("llvm.access.group", apart)
        _tell(builder.module, back, _word(builder.module, "llvm.loop.parallel_accesses", apart))
        return context.get_dummy_value()

    return types.void(body, types.int64, arguments), code


def _wanted(typing: Any, body: Any, arguments: Any) -> Any:
    return body.get_call_type(typing, (types.int64, *arguments.types), {})


def _loop(context: Any, builder: Any, body: Any, wanted: Any, count: Any, arguments: Any) -> tuple[Any, Any]:
    """Calls of a function with the numbers below `count`, and the branch that closes the loop."""
    call: Callable[..., Any] = context.get_function(body, wanted)
    for library in getattr(call, "libs", ()):
        context.active_code_library.add_linking_library(library)
    before, loop, behind = (
        builder.block, builder.append_basic_block("lane"), builder.append_basic_block("lanes_done"),
    )  # fmt: skip
    builder.branch(loop)
    builder.position_at_end(loop)
    lane = builder.phi(I64)
    lane.add_incoming(I64(0), before)
    call(builder, [lane, *cgutils.unpack_tuple(builder, arguments)])
    calls = [i for i in loop.instructions if isinstance(i, ir.CallInstr)]
    further = builder.add(lane, I64(1))
    lane.add_incoming(further, builder.block)
    more = builder.icmp_signed("<", further, count)
    back = builder.cbranch(more, loop, behind)
    builder.position_at_end(behind)
    return calls, back


def _word(module: Any, text: str, *values: Any) -> Any:
    return module.add_metadata([ir.MetaDataString(module, text), *values])


def _tell(module: Any, back: Any, *facts: Any) -> None:
    """Tell LLVM of the loop that this branch closes. Metadata of a loop must name itself."""
    told = module.add_metadata([_word(module, f"loop {len(module.metadata)}"), *facts])
    told.operands = (told, *told.operands[1:])
    back.set_metadata("llvm.loop", told)


class _Distinct(ir.values.MDValue):
    """Metadata that equals no other."""

    def __init__(self, module: Any) -> None:
        super().__init__(module, (), str(len(module.metadata)))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def descr(self, buf: Any) -> None:
        buf += ("distinct !{}\n",)
