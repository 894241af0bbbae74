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


def filling(fn: Callable, accumulators: Sequence[np.dtype]) -> Callable[..., Any]:
    """A user's function as one for a hole of these types, to which its results are rounded."""
    user, cast = adopted(fn), Items(accumulators, accumulators, len(accumulators) == 1).cast

    def filled(a, b):
        return cast(user(a, b))

    return filled
