"""A loop over lanes that LLVM makes vector code of a single step.

LLVM's vectoriser leaves short loops alone, since such loops are unrolled before it comes. So this loop is written down with a
word against unrolling.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from upsweep.cpu.address import I32, I64


def each_lane_of(lanes: int) -> Any:
    @intrinsic
    def each_lane(typing, body, arguments):
        wanted = body.get_call_type(typing, (types.int64, *arguments.types), {})

        def code(context, builder, signature, values):
            call = context.get_function(body, wanted)
            for library in getattr(call, "libs", ()):
                context.active_code_library.add_linking_library(library)
            before, loop, behind = (
                builder.block, builder.append_basic_block("lane"), builder.append_basic_block("lanes_done"),
            )  # fmt: skip
            builder.branch(loop)
            builder.position_at_end(loop)
            lane = builder.phi(I64)
            lane.add_incoming(I64(0), before)
            call(builder, [lane, *cgutils.unpack_tuple(builder, values[1])])
            further = builder.add(lane, I64(1))
            lane.add_incoming(further, builder.block)
            more = builder.icmp_signed("<", further, I64(lanes))
            _as_vectors(builder, builder.cbranch(more, loop, behind))
            builder.position_at_end(behind)
            return context.get_dummy_value()

        return types.void(body, arguments), code

    return each_lane


def _as_vectors(builder: Any, back: Any) -> None:
    """Tell LLVM not to unroll the loop that this branch closes until it is vector code. Metadata of a loop must name itself."""
    module = builder.module

    def word(text: str, *values: Any) -> Any:
        return module.add_metadata([ir.MetaDataString(module, text), *values])

    done = word("llvm.loop.isvectorized", I32(1))
    told = module.add_metadata([
        word(f"loop {len(module.metadata)}"),
        word("llvm.loop.unroll.disable"),
        word("llvm.loop.vectorize.followup_vectorized", done),
    ])  # fmt: skip
    told.operands = (told, *told.operands[1:])
    back.set_metadata("llvm.loop", told)
