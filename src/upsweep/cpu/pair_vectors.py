"""Vectors of the pairs of `pairs`, written down for LLVM: the best value of some cache lines, its place in one, and the scan of
pairs a vector at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic

from upsweep.cpu.address import I32, I64, pointer
from upsweep.cpu.shuffles import shuffle
from upsweep.cpu.words import HALF, LINE


@intrinsic
def trailing_zeros(typing, word):
    def code(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), code


def _comparing(dtype: np.dtype, how: str) -> tuple[Any, Any, Any]:
    """Comparisons of two vectors of values: which of the first are the better numbers, which are equal, and where either is NaN;
    the last is None for integers.
    """
    if dtype.kind == "f":
        return (
            lambda builder, a, b: builder.fcmp_ordered(how, a, b),
            lambda builder, a, b: builder.fcmp_ordered("==", a, b),
            lambda builder, a, b: builder.fcmp_unordered("uno", a, b),
        )
    compare = "icmp_signed" if dtype.kind == "i" else "icmp_unsigned"
    return (
        lambda builder, a, b: getattr(builder, compare)(how, a, b),
        lambda builder, a, b: builder.icmp_unsigned("==", a, b),
        None,
    )


def _beats(dtype: np.dtype, how: str) -> Any:
    """A comparison of two vectors of values: which of the later ones take the places of the earlier ones. A NaN takes the place
    of a number.
    """

    def beats(builder: Any, later: Any, earlier: Any) -> Any:
        if dtype.kind != "f":
            return _comparing(dtype, how)[0](builder, later, earlier)
        number = builder.fcmp_ordered("ord", earlier, earlier)
        return builder.and_(builder.fcmp_unordered(how, later, earlier), number)

    return beats


def _mask(builder: Any, truths: Any) -> Any:
    """A vector of truths as the bits of a word."""
    count = truths.type.count
    word = builder.bitcast(truths, ir.IntType(count))
    return word if count == 64 else builder.zext(word, I64)


def _spread(builder: Any, value: Any, n: int) -> Any:
    one = builder.insert_element(ir.Constant(ir.VectorType(value.type, n), ir.Undefined), value, I32(0))
    return shuffle(builder, one, one, [0] * n)


def searches_in(dtype: np.dtype, how: str) -> tuple[Any, Any, Any, Any]:
    """Functions that find values in whole lines: the `best` number of some lines and of one before them, and whether there is a
    NaN; whether one of two values is `beating` the other; which items of a line `equal` a value, and which are NaN.
    """
    n, ty = LINE // dtype.itemsize, from_dtype(dtype)
    better, same, unordered = _comparing(dtype, how)
    beats, truth = _beats(dtype, how), ir.IntType(1)

    def better_of(builder: Any, a: Any, b: Any) -> Any:
        return builder.select(better(builder, a, b), a, b)

    def loaded(builder: Any, x: Any, vector: Any, count: int) -> list[Any]:
        places = [builder.add(x, I64(LINE * k)) for k in range(count)]
        return [builder.load(pointer(builder, place, vector), align=1) for place in places]

    @intrinsic
    def best(typing, x, count, p):
        def code(context, builder, signature, arguments):
            x, count, p = arguments
            vector = ir.VectorType(p.type, n)
            top = cgutils.alloca_once_value(builder, _spread(builder, p, n))
            met = cgutils.alloca_once_value(builder, ir.Constant(ir.VectorType(truth, n), None))

            def take(x, lines):
                vs = loaded(builder, x, vector, lines)
                if unordered:
                    pairs = zip(vs[::2], vs[1::2]) if lines > 1 else [(vs[0], vs[0])]
                    for a, b in pairs:
                        builder.store(builder.or_(builder.load(met), unordered(builder, a, b)), met)
                while len(vs) > 1:
                    vs = [better_of(builder, a, b) for a, b in zip(vs[::2], vs[1::2])]
                builder.store(better_of(builder, vs[0], builder.load(top)), top)

            fours = builder.lshr(count, I64(2))
            with cgutils.for_range(builder, fours, intp=I64) as loop:
                take(builder.add(x, builder.mul(loop.index, I64(4 * LINE))), 4)
            rest = builder.and_(count, I64(3))
            behind = builder.add(x, builder.mul(fours, I64(4 * LINE)))
            with cgutils.for_range(builder, rest, intp=I64) as loop:
                take(builder.add(behind, builder.mul(loop.index, I64(LINE))), 1)
            most, width = builder.load(top), n
            while width > 1:
                width //= 2
                low, high = ([at + k for k in range(width)] for at in (0, width))
                most = better_of(
                    builder, shuffle(builder, most, most, low), shuffle(builder, most, most, high)
                )
            found = builder.icmp_unsigned("!=", _mask(builder, builder.load(met)), I64(0))
            made = [builder.extract_element(most, I32(0)), builder.zext(found, I64)]
            return context.make_tuple(builder, signature.return_type, made)

        return types.Tuple((ty, types.int64))(types.int64, types.int64, p), code

    @intrinsic
    def beating(typing, later, earlier):
        def code(context, builder, signature, arguments):
            return builder.zext(beats(builder, *arguments), I64)

        return types.int64(later, earlier), code

    @intrinsic
    def equal(typing, x, p):
        def code(context, builder, signature, arguments):
            x, p = arguments
            (v,) = loaded(builder, x, ir.VectorType(p.type, n), 1)
            return _mask(builder, same(builder, v, _spread(builder, p, n)))

        return types.int64(types.int64, p), code

    @intrinsic
    def no_number(typing, x):
        def code(context, builder, signature, arguments):
            if not unordered:
                return I64(0)
            (v,) = loaded(builder, arguments[0], ir.VectorType(context.get_value_type(ty), n), 1)
            return _mask(builder, unordered(builder, v, v))

        return types.int64(types.int64), code

    return best, beating, equal, no_number


def scans_of(value: np.dtype, index: np.dtype, how: str, exclusive: bool, past: bool) -> Any:
    """A function that scans `count` cache lines of values and their indices, from a prefix on, and gives the prefix behind."""
    n, beats, dtypes = LINE // value.itemsize, _beats(value, how), (value, index)
    pair = types.Tuple([from_dtype(d) for d in dtypes])

    def behind(builder: Any, v: Any, d: int) -> Any:
        """Every item `d` places further on. The first ones stay, and are not better than themselves."""
        return shuffle(builder, v, v, [k - d if k >= d else k for k in range(n)])

    @intrinsic
    def scan(typing, x, i, y, j, count, prefix):
        def code(context, builder, signature, arguments):
            *places, count, prefix = arguments
            parts = [_spread(builder, part, n) for part in cgutils.unpack_tuple(builder, prefix)]
            carries = [cgutils.alloca_once_value(builder, part) for part in parts]
            vectors = [part.type for part in parts]

            def at(side, loop):
                steps = [builder.mul(loop.index, I64(n * d.itemsize)) for d in dtypes]
                moved = [builder.add(place, step) for place, step in zip(places[2 * side :], steps)]
                return [pointer(builder, place, vector) for place, vector in zip(moved, vectors)]

            def store(results, targets):
                for result, target in zip(results, targets):
                    made = builder.store(result, target, align=HALF if past else 1)
                    if past:
                        made.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))

            with cgutils.for_range(builder, count, intp=I64) as loop:
                sources, targets = at(0, loop), at(1, loop)
                v, before = builder.load(sources[0], align=1), [builder.load(c) for c in carries]
                met = _mask(builder, beats(builder, v, before[0]))
                with builder.if_else(builder.icmp_unsigned("!=", met, I64(0)), likely=False) as (
                    then,
                    otherwise,
                ):
                    with then:
                        both = [v, builder.load(sources[1], align=1)]
                        for step in range(n.bit_length() - 1):
                            earlier = [behind(builder, part, 1 << step) for part in both]
                            chosen = beats(builder, both[0], earlier[0])
                            both = [builder.select(chosen, b, a) for a, b in zip(earlier, both)]
                        chosen = beats(builder, both[0], before[0])
                        both = [builder.select(chosen, b, a) for a, b in zip(before, both)]
                        for carry, part in zip(carries, both):
                            builder.store(shuffle(builder, part, part, [n - 1] * n), carry)
                        if exclusive:
                            both = [
                                shuffle(builder, a, b, [n - 1 + k for k in range(n)])
                                for a, b in zip(before, both)
                            ]
                        store(both, targets)
                    with otherwise:
                        store(before, targets)
            made = [builder.extract_element(builder.load(carry), I32(0)) for carry in carries]
            return context.make_tuple(builder, signature.return_type, made)

        return pair(*[types.int64] * 5, pair), code

    return scan
