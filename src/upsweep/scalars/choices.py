"""NumPy's functions that choose one of their operands."""

from __future__ import annotations

import operator

import numpy as np
from numba import types

from upsweep.scalars.operations import Operation, cast, fit, own
from upsweep.scalars.rules import dtype_of, joined
from upsweep.scalars.types import Scalar, kinds_of, plain


def where() -> Operation:
    """np.where(condition, a, b)."""

    def typed(context, args):
        kinds = kinds_of(args) if len(args) == 3 else None
        if kinds is None:
            return None
        made = dtype_of(joined(*kinds[1:]))
        fit(args[1:], [made] * 2)
        return Scalar(made)

    def code(context, builder, signature, values):
        dtypes = np.dtype(bool), *[signature.return_type.dtype] * 2
        told, a, b = (cast(context, builder, v, t, d) for v, t, d in zip(values, signature.args, dtypes))
        return builder.select(told, a, b)

    return Operation(typed, code)


def clip() -> Operation:
    """np.clip(x, low, high): NaN stays, and a bound that is NaN counts."""

    def typed(context, args):
        kinds = kinds_of(args) if len(args) == 3 else None
        if kinds is None or (made := dtype_of(joined(*kinds))).kind not in "iuf":
            return None
        fit(args, [made] * 3)
        return Scalar(made)

    def code(context, builder, signature, values):
        ty = plain(signature.return_type)
        x, *bounds = (
            cast(context, builder, v, t, signature.return_type.dtype) for v, t in zip(values, signature.args)
        )
        for op, bound in zip((operator.gt, operator.lt), bounds):
            stays = own(op, context, builder, [x, bound], [ty, ty], types.boolean)
            if isinstance(ty, types.Float):
                stays = builder.or_(stays, builder.fcmp_unordered("uno", x, x))
            x = builder.select(stays, x, bound)
        return x

    return Operation(typed, code)
