"""The operator's place in a kernel: the kernel calls a function by name, and each operator brings its own function of that
name.

So a kernel goes through numba once for all operators. An operator's function is joined to it as LLVM's code before the whole is
optimised. Then it is inlined and made vector code of, as if it had been written there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic

from upsweep.cpu.memory import Items, adopted

HOLE = "upsweep.operator"


def operand(accumulators: Sequence[np.dtype]) -> Any:
    """numba's type of an operand: a number, or a tuple with one for each component."""
    parts = [from_dtype(d) for d in accumulators]
    return parts[0] if len(parts) == 1 else types.Tuple(parts)


def hole(accumulators: Sequence[np.dtype]) -> Any:
    """A function of two operands of these types: the operator that is yet to come."""
    ty = operand(accumulators)

    @intrinsic
    def call(typing, a, b):
        def code(context, builder, signature, arguments):
            convention = context.call_conv
            function = cgutils.get_or_insert_function(
                builder.module, convention.get_function_type(ty, (ty, ty)), HOLE
            )
            status, result = convention.call_function(builder, function, ty, (ty, ty), arguments)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return result

        return ty(ty, ty), code

    return call


def filling(fn: Callable, accumulators: Sequence[np.dtype], items: Sequence[np.dtype]) -> Callable[..., Any]:
    """A user's function as one for a hole of these items, whose bits are numbers of the accumulators, to which its results are
    rounded.
    """
    user, cast = adopted(fn), Items(accumulators, accumulators, len(accumulators) == 1).cast
    read, kept = _same_bits(items, accumulators), _same_bits(accumulators, items)

    def filled(a, b):
        return kept(cast(user(read(a), read(b))))

    return filled


def _same_bits(have: Sequence[np.dtype], want: Sequence[np.dtype]) -> Any:
    """A function from operands of these dtypes to those of others, which have the same sizes."""
    made, several, numbers = operand(want), len(want) > 1, [from_dtype(d) for d in want]

    @intrinsic
    def same_bits(typing, value):
        def code(context, builder, signature, arguments):
            parts = cgutils.unpack_tuple(builder, arguments[0]) if several else arguments
            cast = [builder.bitcast(part, context.get_value_type(ty)) for part, ty in zip(parts, numbers)]
            return context.make_tuple(builder, made, cast) if several else cast[0]

        return made(operand(have)), code

    return same_bits
