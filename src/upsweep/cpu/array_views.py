"""Arrays for compiled loops: numba's own, made of an address, a shape and strides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from upsweep.cpu.address import I64, pointer, poke
from upsweep.cpu.memory import inner


def looping(fn: Any) -> Any:
    """Compile a function of arrays that only loops call. The arrays own no memory, so that no references are counted."""
    return inner(fn, _nrt=False)


def over(fn: Callable[..., Any], kinds: Sequence[Any]) -> Callable[..., None]:
    """A function of words: the result comes first, then each argument, an array as its address, its shape and its strides."""
    taken, called = _taken(kinds), looping(fn)

    @looping
    def whole(words):
        poke(words, 0, called(*taken(words)))

    def run(words):
        whole(words)

    return run


def _array(dtype: np.dtype, dims: int, adjacent: bool) -> Any:
    # Items may lie at any address, as those of a column of a table do.
    return types.Array(from_dtype(dtype), dims, "C" if adjacent else "A", aligned=False)


def _taken(kinds: Sequence[Any]) -> Any:
    """The arguments that stand behind the first word."""
    taken_as = [types.int64 if kind is None else _array(*kind) for kind in kinds]

    @intrinsic
    def take(typing, words):
        def code(context, builder, signature, arguments):
            start, at, made = pointer(builder, arguments[0]), 1, []

            def word():
                nonlocal at
                at += 1
                return builder.load(builder.gep(start, [I64(at - 1)]))

            for kind, ty in zip(kinds, taken_as):
                if kind is None:
                    made.append(word())
                    continue
                array = make_array(ty)(context, builder)
                item = context.get_data_type(from_dtype(kind[0]))
                data = pointer(builder, word(), item)
                shape, strides = ([word() for _ in range(kind[1])] for _ in range(2))
                populate_array(array, data, shape, strides, kind[0].itemsize, None)
                made.append(array._getvalue())
            return context.make_tuple(builder, signature.return_type, made)

        return types.Tuple(taken_as)(types.int64), code

    return take
